-- Schema 21: a result is written once, and its sums are cheap.
-- docs/catalog-reference.md says what every column means.

-- ----------------------------------------------------------------------------------- a shard
--
-- Its task's shards_done and audio_done_ms, and its end with the last of them, are what the program
-- writes with it: each change of a task's row takes longer than the shard's. How many there are in
-- all is its stage's sum of them.
DROP TRIGGER shard_insert;
DROP TRIGGER shard_delete;
CREATE TRIGGER shard_delete AFTER DELETE ON shard BEGIN
    UPDATE task SET shards_done = shards_done - 1,
                    audio_done_ms = audio_done_ms - (old.end_ms - old.start_ms)
    WHERE task_id = old.task_id;
END;
-- The column stays: a view that somebody made might name it.
UPDATE catalog_total SET shards_done = 0;
ALTER TABLE stage_total ADD COLUMN shards_done INTEGER NOT NULL DEFAULT 0;
UPDATE stage_total SET shards_done =
    ifnull((SELECT sum(t.shards_done) FROM task t WHERE t.stage_id = stage_total.stage_id), 0);

-- Nearly always there is no correction.
DROP TRIGGER correction_shard;
CREATE TRIGGER correction_shard AFTER INSERT ON shard
WHEN EXISTS (SELECT 1 FROM correction c
             WHERE c.media_id = (SELECT media_id FROM task WHERE task_id = new.task_id))
     AND EXISTS (SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id
                 WHERE t.task_id = new.task_id AND s.name = 'transcribe') BEGIN
    INSERT OR IGNORE INTO correction_due SELECT media_id FROM task WHERE task_id = new.task_id;
END;

-- Nor another task of the recording.
DROP TRIGGER task_choice_update;
CREATE TRIGGER task_choice_update AFTER UPDATE OF state, asked, pinned, shards_done ON task
WHEN ((new.state = 'done') <> (old.state = 'done') OR new.asked <> old.asked
      OR new.pinned <> old.pinned OR (new.shards_done > 0) <> (old.shards_done > 0))
     AND EXISTS (SELECT 1 FROM task o
                 WHERE o.media_id = new.media_id AND o.task_id <> new.task_id
                   AND (SELECT name FROM stage WHERE stage_id = o.stage_id) =
                       (SELECT name FROM stage WHERE stage_id = new.stage_id)) BEGIN
    INSERT INTO choice VALUES (new.media_id);
END;

-- ------------------------------------------------------------- a stage's and the catalog's sums
--
-- What a recording's row says is read once, and no `UPDATE ... FROM` begins with a table for it.
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
        (pending, unknown, bytes_pending, audio_known_ms, audio_left_ms) =
            (SELECT pending + o.now,
                    unknown + (m.duration_ms IS NULL) * o.now,
                    bytes_pending + m.size_bytes * o.now,
                    audio_known_ms + ifnull(m.duration_ms, 0) * new.wanted,
                    audio_left_ms + max(ifnull(m.duration_ms, 0) - new.audio_done_ms, 0) * o.now
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
        (pending, unknown, bytes_pending, audio_known_ms, audio_left_ms) =
            (SELECT pending - o.was,
                    unknown - (m.duration_ms IS NULL) * o.was,
                    bytes_pending - m.size_bytes * o.was,
                    audio_known_ms - ifnull(m.duration_ms, 0) * old.wanted,
                    audio_left_ms - max(ifnull(m.duration_ms, 0) - old.audio_done_ms, 0) * o.was
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
        (pending, unknown, bytes_pending, audio_known_ms, audio_left_ms) =
            (SELECT pending + o.now - o.was,
                    unknown + (m.duration_ms IS NULL) * (o.now - o.was),
                    bytes_pending + m.size_bytes * (o.now - o.was),
                    audio_known_ms + ifnull(m.duration_ms, 0) * (new.wanted - old.wanted),
                    audio_left_ms
                        + max(ifnull(m.duration_ms, 0) - new.audio_done_ms, 0) * o.now
                        - max(ifnull(m.duration_ms, 0) - old.audio_done_ms, 0) * o.was
             FROM (SELECT new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
                         AND new.waits IS NOT 'source' AS now,
                         old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
                         AND old.waits IS NOT 'source' AS was) AS o
                 CROSS JOIN media m WHERE m.media_id = new.media_id)
    WHERE stage_id = new.stage_id;
END;

DROP TRIGGER media_duration;
CREATE TRIGGER media_duration AFTER UPDATE OF duration_ms ON media
WHEN old.duration_ms IS NOT new.duration_ms BEGIN
    UPDATE stage_total SET
        (unknown, audio_known_ms, audio_left_ms) =
            (SELECT unknown + (t.wanted AND t.state = 'pending' AND NOT t.paused AND NOT t.absent
                     AND t.waits IS NOT 'source') * ((new.duration_ms IS NULL) - (old.duration_ms IS NULL)),
                    audio_known_ms + ifnull(new.duration_ms, 0) - ifnull(old.duration_ms, 0),
                    audio_left_ms + (t.wanted AND t.state = 'pending' AND NOT t.paused AND NOT t.absent
                     AND t.waits IS NOT 'source') *
                        (max(ifnull(new.duration_ms, 0) - t.audio_done_ms, 0) -
                         max(ifnull(old.duration_ms, 0) - t.audio_done_ms, 0))
             FROM task t WHERE t.media_id = new.media_id AND t.stage_id = stage_total.stage_id)
    WHERE EXISTS (SELECT 1 FROM task t WHERE t.media_id = new.media_id
                  AND t.stage_id = stage_total.stage_id AND t.wanted);
END;

DROP TRIGGER media_figures;
CREATE TRIGGER media_figures AFTER UPDATE OF state, duration_ms, audio_done_ms ON media
WHEN old.state IS NOT new.state OR (new.state IS NOT NULL AND
     (old.duration_ms IS NOT new.duration_ms OR old.audio_done_ms <> new.audio_done_ms)) BEGIN
    UPDATE catalog_total SET
        waiting = waiting + (new.state IS 'waiting') - (old.state IS 'waiting'),
        paused = paused + (new.state IS 'paused') - (old.state IS 'paused'),
        absent = absent + (new.state IS 'absent') - (old.state IS 'absent'),
        done = done + (new.state IS 'done') - (old.state IS 'done'),
        failed = failed + (new.state IS 'failed') - (old.state IS 'failed'),
        cancelled = cancelled + (new.state IS 'cancelled') - (old.state IS 'cancelled'),
        bytes_known = bytes_known
            + (new.state IS NOT NULL AND new.duration_ms IS NOT NULL) * new.size_bytes
            - (old.state IS NOT NULL AND old.duration_ms IS NOT NULL) * old.size_bytes,
        audio_known_ms = audio_known_ms
            + (new.state IS NOT NULL) * ifnull(new.duration_ms, 0)
            - (old.state IS NOT NULL) * ifnull(old.duration_ms, 0),
        audio_done_ms = audio_done_ms + new.audio_done_ms - old.audio_done_ms,
        (pending, unknown, bytes_unknown, audio_left_ms) =
            (SELECT pending + o.now - o.was,
                    unknown + (new.duration_ms IS NULL) * o.now - (old.duration_ms IS NULL) * o.was,
                    bytes_unknown + (new.duration_ms IS NULL) * o.now * new.size_bytes
                                  - (old.duration_ms IS NULL) * o.was * old.size_bytes,
                    audio_left_ms
                        + max(ifnull(new.duration_ms, 0) - new.audio_done_ms, 0) * o.now
                        - max(ifnull(old.duration_ms, 0) - old.audio_done_ms, 0) * o.was
             FROM (SELECT new.state IS 'pending' OR new.state IS 'started' AS now,
                          old.state IS 'pending' OR old.state IS 'started' AS was) AS o);
END;

-- ------------------------------------------------------------------------------ a job's sums
--
-- In two: with OR, SQLite gathers the rows' numbers in a table before.
DROP TRIGGER task_job_update;
CREATE TRIGGER task_job_update AFTER UPDATE OF state, wanted ON task
WHEN new.job_id = old.job_id AND (new.state <> old.state OR new.wanted <> old.wanted) BEGIN
    UPDATE job SET
        pending = pending + (new.state = 'pending') - (old.state = 'pending'),
        done = done + (new.state = 'done') - (old.state = 'done'),
        failed = failed + (new.state = 'failed') - (old.state = 'failed'),
        cancelled = cancelled + (new.state = 'cancelled' AND new.wanted)
                              - (old.state = 'cancelled' AND old.wanted)
    WHERE job_id = new.job_id;
END;
CREATE TRIGGER task_job_moved AFTER UPDATE OF job_id ON task WHEN new.job_id <> old.job_id BEGIN
    UPDATE job SET pending = pending - (old.state = 'pending'), done = done - (old.state = 'done'),
                   failed = failed - (old.state = 'failed'),
                   cancelled = cancelled - (old.state = 'cancelled' AND old.wanted)
    WHERE job_id = old.job_id;
    UPDATE job SET pending = pending + (new.state = 'pending'), done = done + (new.state = 'done'),
                   failed = failed + (new.state = 'failed'),
                   cancelled = cancelled + (new.state = 'cancelled' AND new.wanted)
    WHERE job_id = new.job_id;
END;
