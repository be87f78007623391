-- Schema 23: every second of speech is accounted for.
-- docs/catalog-reference.md says what every column means.

-- ------------------------------------------------------------------------------------- columns
--
-- NULL in all three: voice activity did not listen, or an older program wrote the result.
ALTER TABLE shard ADD COLUMN speech_ms INTEGER CHECK (speech_ms >= 0);
ALTER TABLE shard ADD COLUMN dropped_ms INTEGER CHECK (dropped_ms >= 0);
ALTER TABLE shard ADD COLUMN missing_ms INTEGER
    CHECK (missing_ms >= 0 AND dropped_ms + missing_ms <= speech_ms);

-- A task's sums are written with its shards_done; a stage's sums are those of its current tasks.
ALTER TABLE task ADD COLUMN speech_ms INTEGER;
ALTER TABLE task ADD COLUMN dropped_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN missing_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stage_total ADD COLUMN speech_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stage_total ADD COLUMN dropped_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stage_total ADD COLUMN missing_ms INTEGER NOT NULL DEFAULT 0;

-- What has no text is a row of `dropped` with an empty one: few rows, which `doubts` asks for.
CREATE INDEX dropped_missing ON dropped (task_id) WHERE text = '';

-- ---------------------------------------------------------------------------------------- sums
--
-- With its last shard a task's speech is unknown again.
DROP TRIGGER shard_delete;
CREATE TRIGGER shard_delete AFTER DELETE ON shard BEGIN
    UPDATE task SET shards_done = shards_done - 1,
                    audio_done_ms = audio_done_ms - (old.end_ms - old.start_ms),
                    speech_ms = iif(shards_done = 1, NULL, speech_ms - ifnull(old.speech_ms, 0)),
                    dropped_ms = dropped_ms - ifnull(old.dropped_ms, 0),
                    missing_ms = missing_ms - ifnull(old.missing_ms, 0)
    WHERE task_id = old.task_id;
END;

-- As in 0022, with the speech of current tasks. Whoever changes a task's sums changes its
-- shards_done as well.
DROP TRIGGER task_insert;
CREATE TRIGGER task_insert AFTER INSERT ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks + new.wanted,
        superseded = superseded + (NOT new.wanted),
        waiting = waiting + (new.wanted AND new.state = 'pending' AND NOT new.paused
                             AND NOT new.absent AND new.waits IS 'source'),
        paused = paused + (new.wanted AND new.state = 'pending' AND new.paused
                           AND NOT new.absent),
        absent = absent + (new.wanted AND new.state = 'pending' AND new.absent),
        done = done + (new.wanted AND new.state = 'done'),
        failed = failed + (new.wanted AND new.state = 'failed'),
        cancelled = cancelled + (new.wanted AND new.state = 'cancelled'),
        shards_done = shards_done + new.shards_done,
        audio_done_ms = audio_done_ms + new.audio_done_ms * new.wanted,
        audio_current_ms = audio_current_ms + new.audio_done_ms * new.current,
        speech_ms = speech_ms + ifnull(new.speech_ms, 0) * new.current,
        dropped_ms = dropped_ms + new.dropped_ms * new.current,
        missing_ms = missing_ms + new.missing_ms * new.current,
        (pending, unknown, bytes_pending, audio_known_ms, audio_left_ms) =
            (SELECT pending + o.now,
                    unknown + (m.counted_ms IS NULL) * o.now,
                    bytes_pending + m.size_bytes * o.now,
                    audio_known_ms + ifnull(m.counted_ms, 0) * new.wanted,
                    audio_left_ms + max(ifnull(m.counted_ms, 0) - new.audio_done_ms, 0) * o.now
             FROM (SELECT new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
                         AND new.waits IS NOT 'source' AS now) AS o
                 CROSS JOIN media m WHERE m.media_id = new.media_id)
    WHERE stage_id = new.stage_id;
END;

DROP TRIGGER task_delete;
CREATE TRIGGER task_delete AFTER DELETE ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks - old.wanted,
        superseded = superseded - (NOT old.wanted),
        waiting = waiting - (old.wanted AND old.state = 'pending' AND NOT old.paused
                             AND NOT old.absent AND old.waits IS 'source'),
        paused = paused - (old.wanted AND old.state = 'pending' AND old.paused
                           AND NOT old.absent),
        absent = absent - (old.wanted AND old.state = 'pending' AND old.absent),
        done = done - (old.wanted AND old.state = 'done'),
        failed = failed - (old.wanted AND old.state = 'failed'),
        cancelled = cancelled - (old.wanted AND old.state = 'cancelled'),
        shards_done = shards_done - old.shards_done,
        audio_done_ms = audio_done_ms - old.audio_done_ms * old.wanted,
        audio_current_ms = audio_current_ms - old.audio_done_ms * old.current,
        speech_ms = speech_ms - ifnull(old.speech_ms, 0) * old.current,
        dropped_ms = dropped_ms - old.dropped_ms * old.current,
        missing_ms = missing_ms - old.missing_ms * old.current,
        (pending, unknown, bytes_pending, audio_known_ms, audio_left_ms) =
            (SELECT pending - o.was,
                    unknown - (m.counted_ms IS NULL) * o.was,
                    bytes_pending - m.size_bytes * o.was,
                    audio_known_ms - ifnull(m.counted_ms, 0) * old.wanted,
                    audio_left_ms - max(ifnull(m.counted_ms, 0) - old.audio_done_ms, 0) * o.was
             FROM (SELECT old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
                         AND old.waits IS NOT 'source' AS was) AS o
                 CROSS JOIN media m WHERE m.media_id = old.media_id)
    WHERE stage_id = old.stage_id;
END;

DROP TRIGGER task_update;
CREATE TRIGGER task_update
AFTER UPDATE OF state, paused, absent, waits, shards_done, audio_done_ms, wanted, current ON task
BEGIN
    UPDATE stage_total SET
        tasks = tasks + new.wanted - old.wanted,
        superseded = superseded - new.wanted + old.wanted,
        waiting = waiting + (new.wanted AND new.state = 'pending' AND NOT new.paused
                             AND NOT new.absent AND new.waits IS 'source')
                          - (old.wanted AND old.state = 'pending' AND NOT old.paused
                             AND NOT old.absent AND old.waits IS 'source'),
        paused = paused + (new.wanted AND new.state = 'pending' AND new.paused
                           AND NOT new.absent)
                        - (old.wanted AND old.state = 'pending' AND old.paused
                           AND NOT old.absent),
        absent = absent + (new.wanted AND new.state = 'pending' AND new.absent)
                        - (old.wanted AND old.state = 'pending' AND old.absent),
        done = done + (new.wanted AND new.state = 'done') - (old.wanted AND old.state = 'done'),
        failed = failed + (new.wanted AND new.state = 'failed')
                        - (old.wanted AND old.state = 'failed'),
        cancelled = cancelled + (new.wanted AND new.state = 'cancelled')
                              - (old.wanted AND old.state = 'cancelled'),
        shards_done = shards_done + new.shards_done - old.shards_done,
        audio_done_ms = audio_done_ms + new.audio_done_ms * new.wanted
                                      - old.audio_done_ms * old.wanted,
        audio_current_ms = audio_current_ms + new.audio_done_ms * new.current
                                            - old.audio_done_ms * old.current,
        speech_ms = speech_ms + ifnull(new.speech_ms, 0) * new.current
                              - ifnull(old.speech_ms, 0) * old.current,
        dropped_ms = dropped_ms + new.dropped_ms * new.current - old.dropped_ms * old.current,
        missing_ms = missing_ms + new.missing_ms * new.current - old.missing_ms * old.current,
        (pending, unknown, bytes_pending, audio_known_ms, audio_left_ms) =
            (SELECT pending + o.now - o.was,
                    unknown + (m.counted_ms IS NULL) * (o.now - o.was),
                    bytes_pending + m.size_bytes * (o.now - o.was),
                    audio_known_ms + ifnull(m.counted_ms, 0) * (new.wanted - old.wanted),
                    audio_left_ms
                        + max(ifnull(m.counted_ms, 0) - new.audio_done_ms, 0) * o.now
                        - max(ifnull(m.counted_ms, 0) - old.audio_done_ms, 0) * o.was
             FROM (SELECT new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
                         AND new.waits IS NOT 'source' AS now,
                         old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
                         AND old.waits IS NOT 'source' AS was) AS o
                 CROSS JOIN media m WHERE m.media_id = new.media_id)
    WHERE stage_id = new.stage_id;
    -- One that comes to another job is counted by task_job_moved.
    UPDATE job SET
        pending = pending + (new.state = 'pending') - (old.state = 'pending'),
        done = done + (new.state = 'done') - (old.state = 'done'),
        failed = failed + (new.state = 'failed') - (old.state = 'failed'),
        cancelled = cancelled + (new.state = 'cancelled' AND new.wanted)
                              - (old.state = 'cancelled' AND old.wanted)
    WHERE (new.state <> old.state OR new.wanted <> old.wanted) AND new.job_id = old.job_id
      AND job_id = new.job_id;
    INSERT OR IGNORE INTO figure_due VALUES (new.media_id);
END;

-- --------------------------------------------------------------------------------------- views
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
        ORDER BY s.name = 'transcribe' DESC, t.left_out IS NULL, t.task_id LIMIT 1) AS left_out,
       (SELECT t.speech_ms FROM task t JOIN stage s ON s.stage_id = t.stage_id
        WHERE t.media_id = m.media_id AND t.current AND s.name = 'transcribe') AS speech_ms,
       -- Rounded down: 1.0 only where nothing is without a text.
       (SELECT (t.speech_ms - t.dropped_ms - t.missing_ms) * 10000 / nullif(t.speech_ms, 0)
               / 10000.0
        FROM task t JOIN stage s ON s.stage_id = t.stage_id
        WHERE t.media_id = m.media_id AND t.current AND s.name = 'transcribe') AS text_share
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE NOT m.replaced;

DROP VIEW doubts;
DROP VIEW doubts_all;

-- What somebody corrected or confirmed is no doubt any more.
CREATE VIEW doubts_all AS
SELECT p.path, p.member,
       CASE WHEN g.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', g.start_ms / 3600000, g.start_ms / 60000 % 60,
                        g.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', g.start_ms / 60000, g.start_ms / 1000 % 60) END AS start,
       'kept' AS outcome, g.text, g.reason, g.language, g.start_ms, g.end_ms,
       g.avg_logprob, g.no_speech_prob, g.compression_ratio, g.temperature, g.attempts,
       g.speech_prob, s.name AS stage, s.model, t.media_id, g.task_id, g.segment_id, t.current
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE g.reason <> ''
  AND NOT EXISTS (SELECT 1 FROM correction_at a WHERE a.segment_id = g.segment_id)
UNION ALL
SELECT p.path, p.member,
       CASE WHEN d.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', d.start_ms / 3600000, d.start_ms / 60000 % 60,
                        d.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', d.start_ms / 60000, d.start_ms / 1000 % 60) END,
       iif(d.text = '', 'missing', 'dropped'), d.text, d.reason, d.language, d.start_ms, d.end_ms,
       d.avg_logprob, d.no_speech_prob, d.compression_ratio, d.temperature, d.attempts,
       d.speech_prob, s.name, s.model, t.media_id, d.task_id, NULL, t.current
FROM dropped d
JOIN task t ON t.task_id = d.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW doubts AS
SELECT path, member, start, outcome, text, reason, language, start_ms, end_ms, avg_logprob,
       no_speech_prob, compression_ratio, temperature, attempts, speech_prob, stage, model,
       media_id, task_id, segment_id
FROM doubts_all WHERE current;
