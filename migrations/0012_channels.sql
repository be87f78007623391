-- Schema 12: what of a recording is heard.
-- docs/catalog-reference.md says what every column means.

ALTER TABLE media ADD COLUMN audio_tracks INTEGER;
ALTER TABLE task ADD COLUMN left_out TEXT;
CREATE INDEX task_left_out ON task (media_id) WHERE left_out IS NOT NULL;

-- What a task hears by itself, where that is more than the mix: number 1 to 8 of `segment.source`.
CREATE TABLE source (
    task_id INTEGER NOT NULL REFERENCES task,
    source  INTEGER NOT NULL CHECK (source > 0),
    label   TEXT NOT NULL CHECK (label <> ''),
    PRIMARY KEY (task_id, source)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER task_sources BEFORE DELETE ON task BEGIN
    DELETE FROM source WHERE task_id = old.task_id;
END;

ALTER TABLE segment ADD COLUMN source INTEGER NOT NULL DEFAULT 0 CHECK (source >= 0);
ALTER TABLE dropped ADD COLUMN source INTEGER NOT NULL DEFAULT 0 CHECK (source >= 0);

DROP VIEW recordings;
DROP VIEW transcript;
DROP VIEW transcript_all;
DROP VIEW words;
DROP VIEW words_all;

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

CREATE VIEW transcript_all AS
SELECT p.path, p.member,
       CASE WHEN g.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', g.start_ms / 3600000, g.start_ms / 60000 % 60,
                        g.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', g.start_ms / 60000, g.start_ms / 1000 % 60) END AS start,
       CASE WHEN g.end_ms >= 3600000
            THEN printf('%d:%02d:%02d', g.end_ms / 3600000, g.end_ms / 60000 % 60,
                        g.end_ms / 1000 % 60)
            ELSE printf('%d:%02d', g.end_ms / 60000, g.end_ms / 1000 % 60) END AS end,
       ifnull(k.name, k.label) AS speaker,
       g.text, g.heard, g.language, g.start_ms, g.end_ms,
       s.name AS stage, s.model, g.avg_logprob, g.no_speech_prob, g.compression_ratio,
       g.temperature, g.attempts, g.speech_prob, g.reason,
       p.state AS place_state, t.media_id, g.task_id, g.segment_id, g.speaker_id, t.current,
       x.label AS source
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = g.speaker_id
LEFT JOIN source x ON x.task_id = g.task_id AND x.source = g.source;

CREATE VIEW transcript AS
SELECT path, member, start, "end", speaker, text, heard, language, start_ms, end_ms, stage, model,
       avg_logprob, no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason,
       place_state, media_id, task_id, segment_id, speaker_id, source
FROM transcript_all WHERE current AND (text <> '' OR heard IS NULL);

CREATE VIEW words_all AS
SELECT p.path, p.member,
       CASE WHEN w.start_ms >= 3600000
            THEN printf('%d:%02d:%02d.%03d', w.start_ms / 3600000, w.start_ms / 60000 % 60,
                        w.start_ms / 1000 % 60, w.start_ms % 1000)
            ELSE printf('%d:%02d.%03d', w.start_ms / 60000, w.start_ms / 1000 % 60,
                        w.start_ms % 1000) END AS start,
       trim(w.text) AS word, ifnull(k.name, k.label) AS speaker, w.probability, w.start_ms,
       w.end_ms, g.language, w.idx, s.name AS stage, s.model, t.media_id, g.task_id, g.segment_id,
       w.speaker_id, t.current, x.label AS source
FROM word w
JOIN segment g ON g.segment_id = w.segment_id
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = w.speaker_id
LEFT JOIN source x ON x.task_id = g.task_id AND x.source = g.source;

CREATE VIEW words AS
SELECT path, member, start, word, speaker, probability, start_ms, end_ms, language, idx, stage,
       model, media_id, task_id, segment_id, speaker_id, source
FROM words_all WHERE current;
