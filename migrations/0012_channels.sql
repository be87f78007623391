-- Schema 12: what of a recording is heard.
-- docs/catalog-reference.md says what every column means.

ALTER TABLE media ADD COLUMN audio_tracks INTEGER;
ALTER TABLE task ADD COLUMN left_out TEXT;
CREATE INDEX task_left_out ON task (media_id) WHERE left_out IS NOT NULL;

DROP VIEW recordings;
CREATE VIEW recordings AS
SELECT m.media_id, p.path, p.member, ifnull(m.state, 'done') AS state,
       CASE WHEN m.duration_ms >= 3600000
            THEN printf('%d:%02d:%02d', m.duration_ms / 3600000, m.duration_ms / 60000 % 60,
                        m.duration_ms / 1000 % 60)
            ELSE printf('%d:%02d', m.duration_ms / 60000, m.duration_ms / 1000 % 60)
       END AS duration,
       m.duration_ms,
       ifnull((SELECT h.language FROM shard h JOIN task t ON t.task_id = h.task_id
               WHERE t.media_id = m.media_id AND t.current AND h.language <> ''
               GROUP BY h.language ORDER BY sum(h.end_ms - h.start_ms) DESC, h.language LIMIT 1),
              '') AS language,
       (SELECT count(*) FROM segment g JOIN task t ON t.task_id = g.task_id
        WHERE t.media_id = m.media_id AND t.current) AS segments,
       m.places, m.size_bytes, m.container, m.codec, m.sample_rate_hz, m.channels, m.title,
       m.recorded_on, m.recorded_from,
       m.damage, p.state AS place_state, m.created_at, m.decoded_at, m.audio_tracks,
       -- The transcription's, else that of another stage.
       (SELECT t.left_out FROM task t JOIN stage s ON s.stage_id = t.stage_id
        WHERE t.media_id = m.media_id AND t.current
        ORDER BY s.name = 'transcribe' DESC, t.left_out IS NULL, t.task_id LIMIT 1) AS left_out
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE NOT m.replaced;
