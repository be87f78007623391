-- Schema 18: what follows from many rows is made once, at the end of their transaction.
-- docs/catalog-reference.md says what every column means.

-- A row from the beginning to the end of a transaction of many results: what is due then is made
-- when it goes. Nobody else ever sees one. Without it each row's triggers do all of it at once.
CREATE TABLE batch (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    segments INTEGER NOT NULL -- the highest number of one before; those above are the batch's
) STRICT;

-- ------------------------------------------------------------------------- the full-text index
--
-- FTS5 writes what it has gathered whenever a statement ends, so segments that are indexed one by
-- one take ten times as long.
DROP TRIGGER segment_insert;
CREATE TRIGGER segment_insert AFTER INSERT ON segment
WHEN new.segment_id <= ifnull((SELECT segments FROM batch), 9223372036854775807)
     AND (SELECT current FROM task WHERE task_id = new.task_id) BEGIN
    INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text);
    UPDATE catalog_total SET segments = segments + 1;
END;

DROP TRIGGER segment_delete;
CREATE TRIGGER segment_delete AFTER DELETE ON segment
WHEN old.segment_id <= ifnull((SELECT segments FROM batch), 9223372036854775807)
     AND (SELECT current FROM task WHERE task_id = old.task_id) BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    VALUES ('delete', old.segment_id, old.text);
    UPDATE catalog_total SET segments = segments - 1;
END;

DROP TRIGGER segment_update;
CREATE TRIGGER segment_update AFTER UPDATE OF text ON segment
WHEN new.segment_id <= ifnull((SELECT segments FROM batch), 9223372036854775807)
     AND (SELECT current FROM task WHERE task_id = new.task_id) BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    VALUES ('delete', old.segment_id, old.text);
    INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text);
END;

DROP TRIGGER task_current;
CREATE TRIGGER task_current AFTER UPDATE OF current ON task
WHEN new.current = 1 AND old.current = 0 BEGIN
    INSERT INTO segment_fts (rowid, text)
    SELECT segment_id, text FROM segment WHERE task_id = new.task_id
        AND segment_id <= ifnull((SELECT segments FROM batch), 9223372036854775807);
    UPDATE catalog_total SET segments = segments +
        (SELECT count(*) FROM segment WHERE task_id = new.task_id
         AND segment_id <= ifnull((SELECT segments FROM batch), 9223372036854775807));
END;

DROP TRIGGER task_not_current;
CREATE TRIGGER task_not_current AFTER UPDATE OF current ON task
WHEN new.current = 0 AND old.current = 1 BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    SELECT 'delete', segment_id, text FROM segment WHERE task_id = new.task_id
        AND segment_id <= ifnull((SELECT segments FROM batch), 9223372036854775807);
    UPDATE catalog_total SET segments = segments -
        (SELECT count(*) FROM segment WHERE task_id = new.task_id
         AND segment_id <= ifnull((SELECT segments FROM batch), 9223372036854775807));
END;

-- Without a join: SQLite would read all tasks for a Bloom filter of it.
CREATE TRIGGER batch_segments AFTER DELETE ON batch
WHEN old.segments < (SELECT max(segment_id) FROM segment) BEGIN
    INSERT INTO segment_fts (rowid, text)
    SELECT segment_id, text FROM segment g NOT INDEXED WHERE segment_id > old.segments
        AND (SELECT current FROM task t WHERE t.task_id = g.task_id) ORDER BY segment_id;
    UPDATE catalog_total SET segments = segments +
        (SELECT count(*) FROM segment g NOT INDEXED WHERE segment_id > old.segments
         AND (SELECT current FROM task t WHERE t.task_id = g.task_id));
END;

-- -------------------------------------------------------------------------- a recording's state
--
-- A recording's tasks change several times until it is done. Outside of a batch each change is a
-- batch of its own.
DROP TRIGGER figure_made;
DROP VIEW figure;
CREATE TABLE figure_due (media_id INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER figure_alone AFTER INSERT ON figure_due WHEN NOT EXISTS (SELECT 1 FROM batch) BEGIN
    INSERT INTO batch SELECT 1, ifnull(max(segment_id), 0) FROM segment;
    DELETE FROM batch;
END;

CREATE TRIGGER batch_figures AFTER DELETE ON batch BEGIN
    DELETE FROM figure_due;
END;
CREATE TRIGGER figure_made AFTER DELETE ON figure_due BEGIN
    UPDATE media SET (state, audio_done_ms) =
        (SELECT CASE min(CASE WHEN t.state = 'pending' THEN
                             CASE WHEN t.absent THEN 1 WHEN t.paused THEN 2
                                  WHEN t.waits = 'source' THEN 7
                                  WHEN t.shards_done > 0 THEN 3 ELSE 4 END
                              WHEN t.state = 'failed' THEN 5
                              WHEN t.state = 'cancelled' THEN 6 ELSE 8 END)
                     WHEN 1 THEN 'absent' WHEN 2 THEN 'paused' WHEN 3 THEN 'started'
                     WHEN 4 THEN 'pending' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled'
                     WHEN 7 THEN 'waiting' WHEN 8 THEN 'done' END,
                -- Of a task that is done nothing is left, whatever its shards add up to; one that
                -- works on another's text hears nothing.
                ifnull(min(CASE WHEN s.source_id IS NOT NULL THEN NULL
                                WHEN t.state = 'done' THEN ifnull(duration_ms, t.audio_done_ms)
                                ELSE min(t.audio_done_ms, ifnull(duration_ms, t.audio_done_ms))
                           END), 0)
         FROM task t CROSS JOIN stage s ON s.stage_id = t.stage_id
         WHERE t.media_id = old.media_id AND t.wanted)
    WHERE media_id = old.media_id;
END;

DROP TRIGGER task_figure_insert;
CREATE TRIGGER task_figure_insert AFTER INSERT ON task
WHEN new.wanted AND NOT (new.state = 'pending' AND new.paused = 0 AND new.absent = 0 AND
     (SELECT ifnull(state, iif(new.waits IS NULL, 'pending', '')) = 'pending' AND audio_done_ms = 0
      FROM media WHERE media_id = new.media_id)) BEGIN
    INSERT OR IGNORE INTO figure_due VALUES (new.media_id);
END;
DROP TRIGGER task_figure_update;
CREATE TRIGGER task_figure_update
AFTER UPDATE OF state, paused, absent, waits, shards_done, audio_done_ms, wanted ON task
WHEN new.wanted OR old.wanted BEGIN
    INSERT OR IGNORE INTO figure_due VALUES (new.media_id);
END;
DROP TRIGGER task_figure_delete;
CREATE TRIGGER task_figure_delete AFTER DELETE ON task WHEN old.wanted BEGIN
    INSERT OR IGNORE INTO figure_due VALUES (old.media_id);
END;
DROP TRIGGER media_figure_duration;
CREATE TRIGGER media_figure_duration AFTER UPDATE OF duration_ms ON media
WHEN old.duration_ms IS NOT new.duration_ms AND new.state IS NOT NULL BEGIN
    INSERT OR IGNORE INTO figure_due VALUES (new.media_id);
END;
-- ------------------------------------------------------------------------------ a stage's sums
--
-- `UPDATE ... FROM` begins with a table for what it joins, which takes longer than all the rest.
DROP TRIGGER task_update;
CREATE TRIGGER task_update
AFTER UPDATE OF state, paused, absent, waits, audio_done_ms, wanted, current ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks + new.wanted - old.wanted,
        superseded = superseded - new.wanted + old.wanted,
        pending = pending + (new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
             AND new.waits IS NOT 'source') - (old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
             AND old.waits IS NOT 'source'),
        waiting = waiting + (new.wanted AND new.state = 'pending' AND new.paused = 0
                             AND new.absent = 0 AND new.waits IS 'source')
                          - (old.wanted AND old.state = 'pending' AND old.paused = 0
                             AND old.absent = 0 AND old.waits IS 'source'),
        paused = paused + (new.wanted AND new.state = 'pending' AND new.paused = 1
                           AND new.absent = 0)
                        - (old.wanted AND old.state = 'pending' AND old.paused = 1
                           AND old.absent = 0),
        absent = absent + (new.wanted AND new.state = 'pending' AND new.absent = 1)
                        - (old.wanted AND old.state = 'pending' AND old.absent = 1),
        done = done + (new.wanted AND new.state = 'done') - (old.wanted AND old.state = 'done'),
        failed = failed + (new.wanted AND new.state = 'failed')
                        - (old.wanted AND old.state = 'failed'),
        cancelled = cancelled + (new.wanted AND new.state = 'cancelled')
                              - (old.wanted AND old.state = 'cancelled'),
        unknown = unknown + iif((new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
             AND new.waits IS NOT 'source') = (old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
             AND old.waits IS NOT 'source'), 0, ((new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
             AND new.waits IS NOT 'source') - (old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
             AND old.waits IS NOT 'source')) *
            (SELECT duration_ms IS NULL FROM media WHERE media_id = new.media_id)),
        bytes_pending = bytes_pending + iif((new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
             AND new.waits IS NOT 'source') = (old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
             AND old.waits IS NOT 'source'), 0, ((new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
             AND new.waits IS NOT 'source') - (old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
             AND old.waits IS NOT 'source')) *
            (SELECT size_bytes FROM media WHERE media_id = new.media_id)),
        audio_known_ms = audio_known_ms + iif(new.wanted = old.wanted, 0,
            (new.wanted - old.wanted) *
            (SELECT ifnull(duration_ms, 0) FROM media WHERE media_id = new.media_id)),
        audio_done_ms = audio_done_ms + new.audio_done_ms * new.wanted
                                      - old.audio_done_ms * old.wanted,
        audio_current_ms = audio_current_ms + new.audio_done_ms * new.current
                                            - old.audio_done_ms * old.current,
        audio_left_ms = audio_left_ms +
            (SELECT max(ifnull(duration_ms, 0) - new.audio_done_ms, 0) * (new.wanted AND new.state = 'pending' AND NOT new.paused AND NOT new.absent
             AND new.waits IS NOT 'source')
                  - max(ifnull(duration_ms, 0) - old.audio_done_ms, 0) * (old.wanted AND old.state = 'pending' AND NOT old.paused AND NOT old.absent
             AND old.waits IS NOT 'source')
             FROM media WHERE media_id = new.media_id)
    WHERE stage_id = new.stage_id;
END;

DROP TRIGGER media_duration;
CREATE TRIGGER media_duration AFTER UPDATE OF duration_ms ON media
WHEN old.duration_ms IS NOT new.duration_ms BEGIN
    UPDATE stage_total SET
        audio_known_ms = audio_known_ms + ifnull(new.duration_ms, 0) - ifnull(old.duration_ms, 0),
        audio_left_ms = audio_left_ms +
            (SELECT (t.wanted AND t.state = 'pending' AND NOT t.paused AND NOT t.absent
                     AND t.waits IS NOT 'source') * (max(ifnull(new.duration_ms, 0) - t.audio_done_ms, 0) -
                            max(ifnull(old.duration_ms, 0) - t.audio_done_ms, 0))
             FROM task t WHERE t.media_id = new.media_id AND t.stage_id = stage_total.stage_id),
        unknown = unknown +
            (SELECT (t.wanted AND t.state = 'pending' AND NOT t.paused AND NOT t.absent
                     AND t.waits IS NOT 'source') * ((new.duration_ms IS NULL) - (old.duration_ms IS NULL))
             FROM task t WHERE t.media_id = new.media_id AND t.stage_id = stage_total.stage_id)
    WHERE EXISTS (SELECT 1 FROM task t WHERE t.media_id = new.media_id
                  AND t.stage_id = stage_total.stage_id AND t.wanted);
END;

-- ------------------------------------------------------------- what is rarely there to be done
DROP TRIGGER task_source_done;
CREATE TRIGGER task_source_done AFTER UPDATE OF state ON task
WHEN new.state = 'done' AND old.state <> 'done'
     AND EXISTS (SELECT 1 FROM stage WHERE source_id = new.stage_id) BEGIN
    UPDATE task SET waits = NULL
    WHERE media_id = new.media_id AND waits = 'source'
      AND stage_id IN (SELECT stage_id FROM stage WHERE source_id = new.stage_id);
END;

DROP TRIGGER speaker_due_current;
CREATE TRIGGER speaker_due_current AFTER UPDATE OF current, state ON task
WHEN (new.current <> old.current OR (new.state = 'done') <> (old.state = 'done'))
     AND EXISTS (SELECT 1 FROM speaker WHERE task_id = new.task_id) BEGIN
    INSERT OR IGNORE INTO speaker_due SELECT speaker_id FROM speaker WHERE task_id = new.task_id;
END;

-- -------------------------------------------------------------------- sums that were counted
--
-- A job's tasks by their state; of cancelled ones those that are wanted.
ALTER TABLE job ADD COLUMN pending INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN done INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
UPDATE job SET pending = n.pending, done = n.done, failed = n.failed, cancelled = n.cancelled
FROM (SELECT job_id AS of_job, sum(state = 'pending') AS pending, sum(state = 'done') AS done,
             sum(state = 'failed') AS failed, sum(state = 'cancelled' AND wanted) AS cancelled
      FROM task GROUP BY job_id) AS n
WHERE job_id = n.of_job;

CREATE TRIGGER task_job_insert AFTER INSERT ON task BEGIN
    UPDATE job SET pending = pending + (new.state = 'pending'), done = done + (new.state = 'done'),
                   failed = failed + (new.state = 'failed'),
                   cancelled = cancelled + (new.state = 'cancelled' AND new.wanted)
    WHERE job_id = new.job_id;
END;
CREATE TRIGGER task_job_delete AFTER DELETE ON task BEGIN
    UPDATE job SET pending = pending - (old.state = 'pending'), done = done - (old.state = 'done'),
                   failed = failed - (old.state = 'failed'),
                   cancelled = cancelled - (old.state = 'cancelled' AND old.wanted)
    WHERE job_id = old.job_id;
END;
CREATE TRIGGER task_job_update AFTER UPDATE OF state, wanted, job_id ON task
WHEN new.state <> old.state OR new.wanted <> old.wanted OR new.job_id <> old.job_id BEGIN
    UPDATE job SET
        pending = pending + (job_id = new.job_id AND new.state = 'pending')
                          - (job_id = old.job_id AND old.state = 'pending'),
        done = done + (job_id = new.job_id AND new.state = 'done')
                    - (job_id = old.job_id AND old.state = 'done'),
        failed = failed + (job_id = new.job_id AND new.state = 'failed')
                        - (job_id = old.job_id AND old.state = 'failed'),
        cancelled = cancelled + (job_id = new.job_id AND new.state = 'cancelled' AND new.wanted)
                              - (job_id = old.job_id AND old.state = 'cancelled' AND old.wanted)
    WHERE job_id = new.job_id OR job_id = old.job_id;
END;

-- Recordings in which nobody speaks, as their transcription was done.
ALTER TABLE task ADD COLUMN silent INTEGER NOT NULL DEFAULT 0 CHECK (silent IN (0, 1));
UPDATE task SET silent = 1
WHERE state = 'done' AND stage_id IN (SELECT stage_id FROM stage WHERE name = 'transcribe')
  AND NOT EXISTS (SELECT 1 FROM segment g WHERE g.task_id = task.task_id);
CREATE INDEX task_silent ON task (task_id) WHERE silent;

-- Recordings that are nowhere any more.
CREATE INDEX media_gone ON media (media_id) WHERE places = 0 AND NOT replaced;
