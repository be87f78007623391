-- Schema 22: what a result changes at random places of the file, and what is summed.
-- docs/catalog-reference.md says what every column means.

-- One entry at a random page for every recording. Nobody asks for a recording by it: the same bytes
-- have the same fingerprint, or are one already.
DROP INDEX media_content;

-- ------------------------------------------------------------------------------- lists of words
--
-- In a CHECK, SQLite makes a table of a list of more than two, for each row that is written. This is
-- the way to change a CHECK that https://sqlite.org/lang_altertable.html has, which reads no row;
-- migrate.c lets it in.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'state IN (''pending'', ''done'', ''failed'', ''cancelled'')',
    'state = ''done'' OR state = ''pending'' OR state = ''failed'' OR state = ''cancelled''')
WHERE type = 'table' AND name = 'task';
UPDATE sqlite_schema SET sql = replace(sql, 'state IN
    (''absent'', ''paused'', ''started'', ''pending'', ''failed'', ''cancelled'', ''waiting'', ''done'')',
    'state = ''done'' OR state = ''pending'' OR state = ''started'' OR state = ''failed''
     OR state = ''waiting'' OR state = ''paused'' OR state = ''absent'' OR state = ''cancelled''')
WHERE type = 'table' AND name = 'media';
UPDATE sqlite_schema SET sql = replace(sql,
    'state IN (''present'', ''vanished'', ''replaced'')',
    'state = ''present'' OR state = ''vanished'' OR state = ''replaced''')
WHERE type = 'table' AND name = 'place';
PRAGMA writable_schema = RESET;

-- ------------------------------------------------------------- a recording's share of the sums
--
-- Its length changes before its tasks end, mostly in one batch: all of it is counted once, with its
-- state. What the sums have of it is another than its length only while it is in figure_due.
ALTER TABLE media ADD COLUMN counted_ms INTEGER;
DROP TRIGGER media_figures;
UPDATE media SET counted_ms = duration_ms WHERE duration_ms IS NOT NULL;
CREATE TRIGGER media_figures AFTER UPDATE OF state, counted_ms, audio_done_ms ON media
WHEN old.state IS NOT new.state OR (new.state IS NOT NULL AND
     (old.counted_ms IS NOT new.counted_ms OR old.audio_done_ms <> new.audio_done_ms)) BEGIN
    UPDATE catalog_total SET
        waiting = waiting + (new.state IS 'waiting') - (old.state IS 'waiting'),
        paused = paused + (new.state IS 'paused') - (old.state IS 'paused'),
        absent = absent + (new.state IS 'absent') - (old.state IS 'absent'),
        done = done + (new.state IS 'done') - (old.state IS 'done'),
        failed = failed + (new.state IS 'failed') - (old.state IS 'failed'),
        cancelled = cancelled + (new.state IS 'cancelled') - (old.state IS 'cancelled'),
        bytes_known = bytes_known
            + (new.state IS NOT NULL AND new.counted_ms IS NOT NULL) * new.size_bytes
            - (old.state IS NOT NULL AND old.counted_ms IS NOT NULL) * old.size_bytes,
        audio_known_ms = audio_known_ms
            + (new.state IS NOT NULL) * ifnull(new.counted_ms, 0)
            - (old.state IS NOT NULL) * ifnull(old.counted_ms, 0),
        audio_done_ms = audio_done_ms + new.audio_done_ms - old.audio_done_ms,
        (pending, unknown, bytes_unknown, audio_left_ms) =
            (SELECT pending + o.now - o.was,
                    unknown + (new.counted_ms IS NULL) * o.now - (old.counted_ms IS NULL) * o.was,
                    bytes_unknown + (new.counted_ms IS NULL) * o.now * new.size_bytes
                                  - (old.counted_ms IS NULL) * o.was * old.size_bytes,
                    audio_left_ms
                        + max(ifnull(new.counted_ms, 0) - new.audio_done_ms, 0) * o.now
                        - max(ifnull(old.counted_ms, 0) - old.audio_done_ms, 0) * o.was
             FROM (SELECT new.state IS 'pending' OR new.state IS 'started' AS now,
                          old.state IS 'pending' OR old.state IS 'started' AS was) AS o);
END;

-- All of a batch in one statement: a trigger's for each would open the table and its indexes anew.
-- IN, since of a join with figure_due SQLite would read all recordings and tasks, for Bloom filters.
DROP TRIGGER figure_made;
DROP TRIGGER batch_figures;
CREATE TRIGGER batch_figures AFTER DELETE ON batch BEGIN
    UPDATE stage_total SET (unknown, audio_known_ms, audio_left_ms) =
        (SELECT unknown + ifnull(sum(((m.duration_ms IS NULL) - (m.counted_ms IS NULL)) *
                    (t.state = 'pending' AND NOT t.paused AND NOT t.absent
                     AND t.waits IS NOT 'source')), 0),
                audio_known_ms +
                    ifnull(sum(ifnull(m.duration_ms, 0) - ifnull(m.counted_ms, 0)), 0),
                audio_left_ms + ifnull(sum((max(ifnull(m.duration_ms, 0) - t.audio_done_ms, 0) -
                                            max(ifnull(m.counted_ms, 0) - t.audio_done_ms, 0)) *
                    (t.state = 'pending' AND NOT t.paused AND NOT t.absent
                     AND t.waits IS NOT 'source')), 0)
         FROM media m CROSS JOIN task t
             ON t.media_id = m.media_id AND t.stage_id = stage_total.stage_id AND t.wanted
         WHERE m.media_id IN (SELECT media_id FROM figure_due)
           AND m.duration_ms IS NOT m.counted_ms)
    WHERE EXISTS (SELECT 1 FROM media m WHERE m.media_id IN (SELECT media_id FROM figure_due)
                  AND m.duration_ms IS NOT m.counted_ms);
    UPDATE media SET counted_ms = duration_ms, (state, audio_done_ms) =
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
         WHERE t.media_id = media.media_id AND t.wanted)
    WHERE media_id IN (SELECT media_id FROM figure_due);
    DELETE FROM figure_due;
END;

-- Nearly always there is no correction, of any recording.
DROP TRIGGER correction_shard;
CREATE TRIGGER correction_shard AFTER INSERT ON shard
WHEN EXISTS (SELECT 1 FROM correction)
     AND EXISTS (SELECT 1 FROM correction c
                 WHERE c.media_id = (SELECT media_id FROM task WHERE task_id = new.task_id))
     AND EXISTS (SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id
                 WHERE t.task_id = new.task_id AND s.name = 'transcribe') BEGIN
    INSERT OR IGNORE INTO correction_due SELECT media_id FROM task WHERE task_id = new.task_id;
END;

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

-- --------------------------------------------------------- what one change is followed by, in one
--
-- Each trigger is a program of its own, which is begun for each row whatever its WHEN says.
DROP TRIGGER task_update;
DROP TRIGGER task_job_update;
DROP TRIGGER task_figure_update;
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

DROP TRIGGER media_duration;
DROP TRIGGER media_figure_duration;
CREATE TRIGGER media_duration AFTER UPDATE OF duration_ms ON media
WHEN old.duration_ms IS NOT new.duration_ms BEGIN
    INSERT OR IGNORE INTO figure_due VALUES (new.media_id);
END;
CREATE TRIGGER media_duration_insert AFTER INSERT ON media WHEN new.duration_ms IS NOT NULL BEGIN
    INSERT OR IGNORE INTO figure_due VALUES (new.media_id);
END;

-- ------------------------------------------------------------------------- the full-text index
--
-- With 4, the default, each entry is written again every four commits, and every sixteen, and so
-- on, which took as long as all else of the index; a search opens some more of its pieces for it.
INSERT INTO segment_fts (segment_fts, rank) VALUES ('automerge', 8);
