-- Schema 6: of the results of one kind that a recording has, one is current.
-- docs/catalog-reference.md says what every column means.
DROP VIEW tasks;
DROP VIEW recordings; -- 0008 makes it, and failures, anew
DROP VIEW transcript;
DROP VIEW words;
DROP VIEW doubts;
DROP VIEW speakers;
DROP VIEW turns;
DROP VIEW sounds;
DROP VIEW passages;
DROP VIEW failures;
DROP VIEW results;
DROP VIEW progress;

-- ---------------------------------------------------------------------------- which is current
--
-- A kind of result is a stage's name. Of a recording's tasks of one kind
--   `wanted`  is the one that was asked for last: its state is the recording's. What is to be made of
--             a transcription that nobody wants any more, and that is not done, is not wanted either;
--   `current` is the one whose results people see: what they pinned; else the last one asked for
--             that is done; while none is done, the last one that has any results.
-- Of a recording that is nowhere any more, because every file that held it holds something else now
-- (`media.replaced`), none is either. A file that is gone is another thing: it may come back.
-- The numbers of jobs rise, so `asked` is an order in time.
ALTER TABLE task ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN wanted INTEGER NOT NULL DEFAULT 1 CHECK (wanted IN (0, 1));
ALTER TABLE task ADD COLUMN current INTEGER NOT NULL DEFAULT 1 CHECK (current IN (0, 1));
ALTER TABLE task ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1));
UPDATE task SET asked = job_id;
ALTER TABLE media ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0 CHECK (replaced IN (0, 1));
UPDATE media SET replaced = 1
WHERE place_id IS NOT NULL AND places = 0
  AND NOT EXISTS (SELECT 1 FROM place p WHERE p.media_id = media.media_id AND p.state <> 'replaced');
CREATE INDEX task_superseded ON task (stage_id) WHERE current = 0;

-- ------------------------------------------------------------------------------------ the sums
--
-- Of what is wanted alone, so that each recording is in them once per kind of result; `superseded`
-- are the stage's other tasks, and `audio_current_ms` is what is done of its current ones.
ALTER TABLE stage_total ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stage_total ADD COLUMN audio_current_ms INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER media_duration;
CREATE TRIGGER media_duration AFTER UPDATE OF duration_ms ON media
WHEN old.duration_ms IS NOT new.duration_ms BEGIN
    UPDATE stage_total SET
        audio_known_ms = audio_known_ms + ifnull(new.duration_ms, 0) - ifnull(old.duration_ms, 0),
        audio_left_ms = audio_left_ms + t.runnable *
            (max(ifnull(new.duration_ms, 0) - t.audio_done_ms, 0) -
             max(ifnull(old.duration_ms, 0) - t.audio_done_ms, 0)),
        unknown = unknown + t.runnable *
            ((new.duration_ms IS NULL) - (old.duration_ms IS NULL))
    FROM (SELECT stage_id AS of_stage, audio_done_ms,
                 state = 'pending' AND paused = 0 AND absent = 0 AND waits IS NOT 'source'
                     AS runnable
          FROM task WHERE media_id = new.media_id AND wanted) AS t
    WHERE stage_id = t.of_stage;
END;

-- A task is counted when it comes, when something of it changes, and when it goes: the last two
-- take away what it was.
DROP TRIGGER task_insert;
CREATE TRIGGER task_insert AFTER INSERT ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks + new.wanted,
        superseded = superseded + (NOT new.wanted),
        pending = pending + m.now,
        waiting = waiting + (new.wanted AND new.state = 'pending' AND new.paused = 0
                             AND new.absent = 0 AND new.waits IS 'source'),
        paused = paused + (new.wanted AND new.state = 'pending' AND new.paused = 1
                           AND new.absent = 0),
        absent = absent + (new.wanted AND new.state = 'pending' AND new.absent = 1),
        done = done + (new.wanted AND new.state = 'done'),
        failed = failed + (new.wanted AND new.state = 'failed'),
        cancelled = cancelled + (new.wanted AND new.state = 'cancelled'),
        unknown = unknown + (m.duration_ms IS NULL) * m.now,
        bytes_pending = bytes_pending + m.size_bytes * m.now,
        audio_known_ms = audio_known_ms + ifnull(m.duration_ms, 0) * new.wanted,
        audio_done_ms = audio_done_ms + new.audio_done_ms * new.wanted,
        audio_current_ms = audio_current_ms + new.audio_done_ms * new.current,
        audio_left_ms = audio_left_ms + max(ifnull(m.duration_ms, 0) - new.audio_done_ms, 0) * m.now
    FROM (SELECT size_bytes, duration_ms,
                 new.wanted AND new.state = 'pending' AND new.paused = 0 AND new.absent = 0
                     AND new.waits IS NOT 'source' AS now
          FROM media WHERE media_id = new.media_id) AS m
    WHERE stage_id = new.stage_id;
END;

DROP TRIGGER task_update;
CREATE TRIGGER task_update
AFTER UPDATE OF state, paused, absent, waits, audio_done_ms, wanted, current ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks + new.wanted - old.wanted,
        superseded = superseded - new.wanted + old.wanted,
        pending = pending + m.now - m.was,
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
        unknown = unknown + (m.duration_ms IS NULL) * (m.now - m.was),
        bytes_pending = bytes_pending + m.size_bytes * (m.now - m.was),
        audio_known_ms = audio_known_ms + ifnull(m.duration_ms, 0) * (new.wanted - old.wanted),
        audio_done_ms = audio_done_ms + new.audio_done_ms * new.wanted
                                      - old.audio_done_ms * old.wanted,
        audio_current_ms = audio_current_ms + new.audio_done_ms * new.current
                                            - old.audio_done_ms * old.current,
        audio_left_ms = audio_left_ms
            + max(ifnull(m.duration_ms, 0) - new.audio_done_ms, 0) * m.now
            - max(ifnull(m.duration_ms, 0) - old.audio_done_ms, 0) * m.was
    FROM (SELECT size_bytes, duration_ms,
                 new.wanted AND new.state = 'pending' AND new.paused = 0 AND new.absent = 0
                     AND new.waits IS NOT 'source' AS now,
                 old.wanted AND old.state = 'pending' AND old.paused = 0 AND old.absent = 0
                     AND old.waits IS NOT 'source' AS was
          FROM media WHERE media_id = new.media_id) AS m
    WHERE stage_id = new.stage_id;
END;

CREATE TRIGGER task_delete AFTER DELETE ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks - old.wanted,
        superseded = superseded - (NOT old.wanted),
        pending = pending - m.was,
        waiting = waiting - (old.wanted AND old.state = 'pending' AND old.paused = 0
                             AND old.absent = 0 AND old.waits IS 'source'),
        paused = paused - (old.wanted AND old.state = 'pending' AND old.paused = 1
                           AND old.absent = 0),
        absent = absent - (old.wanted AND old.state = 'pending' AND old.absent = 1),
        done = done - (old.wanted AND old.state = 'done'),
        failed = failed - (old.wanted AND old.state = 'failed'),
        cancelled = cancelled - (old.wanted AND old.state = 'cancelled'),
        unknown = unknown - (m.duration_ms IS NULL) * m.was,
        bytes_pending = bytes_pending - m.size_bytes * m.was,
        audio_known_ms = audio_known_ms - ifnull(m.duration_ms, 0) * old.wanted,
        audio_done_ms = audio_done_ms - old.audio_done_ms * old.wanted,
        audio_current_ms = audio_current_ms - old.audio_done_ms * old.current,
        audio_left_ms = audio_left_ms - max(ifnull(m.duration_ms, 0) - old.audio_done_ms, 0) * m.was
    FROM (SELECT size_bytes, duration_ms,
                 old.wanted AND old.state = 'pending' AND old.paused = 0 AND old.absent = 0
                     AND old.waits IS NOT 'source' AS was
          FROM media WHERE media_id = old.media_id) AS m
    WHERE stage_id = old.stage_id;
END;

UPDATE stage_total SET audio_current_ms = audio_done_ms;

-- `INSERT INTO choice` looks a recording over. A view with a trigger, because three triggers below
-- do the same, and SQLite has no other way to call it.
CREATE VIEW choice AS SELECT 0 AS media_id WHERE 0;
CREATE TRIGGER choice_made INSTEAD OF INSERT ON choice BEGIN
    UPDATE task SET wanted = c.chosen
    FROM (SELECT t.task_id AS id, row_number() OVER
              (PARTITION BY s.name ORDER BY t.asked DESC, t.task_id DESC) = 1
              AND NOT m.replaced AS chosen
          FROM media m JOIN task t ON t.media_id = m.media_id
          JOIN stage s ON s.stage_id = t.stage_id
          WHERE m.media_id = new.media_id AND s.source_id IS NULL) AS c
    WHERE task_id = c.id AND wanted <> c.chosen;
    -- What nothing can be made of is not wanted, and stands behind what something can.
    UPDATE task SET wanted = c.chosen
    FROM (SELECT id, row_number() OVER
              (PARTITION BY name ORDER BY has_source DESC, asked DESC, id DESC) = 1
              AND NOT replaced AND (state = 'done' OR has_source) AS chosen
          FROM (SELECT t.task_id AS id, s.name, t.asked, t.state, m.replaced,
                       EXISTS (SELECT 1 FROM task o WHERE o.media_id = t.media_id
                               AND o.stage_id = s.source_id AND (o.wanted OR o.state = 'done'))
                           AS has_source
                FROM media m JOIN task t ON t.media_id = m.media_id
                JOIN stage s ON s.stage_id = t.stage_id
                WHERE m.media_id = new.media_id AND s.source_id IS NOT NULL)) AS c
    WHERE task_id = c.id AND wanted <> c.chosen;
    UPDATE task SET current = c.chosen
    FROM (SELECT t.task_id AS id, row_number() OVER
              (PARTITION BY s.name
               ORDER BY t.pinned AND t.state = 'done' DESC, t.state = 'done' DESC,
                        t.shards_done > 0 DESC, t.asked DESC, t.task_id DESC) = 1
              AND NOT m.replaced AS chosen
          FROM media m JOIN task t ON t.media_id = m.media_id
          JOIN stage s ON s.stage_id = t.stage_id
          WHERE m.media_id = new.media_id AND s.source_id IS NULL) AS c
    WHERE task_id = c.id AND current <> c.chosen;
    -- What was made of a transcription goes with it: its own passages before another one's.
    UPDATE task SET current = c.chosen
    FROM (SELECT t.task_id AS id, row_number() OVER
              (PARTITION BY s.name
               ORDER BY t.pinned AND t.state = 'done' DESC, t.state = 'done' DESC,
                        t.shards_done > 0 DESC,
                        EXISTS (SELECT 1 FROM task o WHERE o.media_id = t.media_id
                                AND o.stage_id = s.source_id AND o.current) DESC,
                        t.asked DESC, t.task_id DESC) = 1
              AND NOT m.replaced AS chosen
          FROM media m JOIN task t ON t.media_id = m.media_id
          JOIN stage s ON s.stage_id = t.stage_id
          WHERE m.media_id = new.media_id AND s.source_id IS NOT NULL) AS c
    WHERE task_id = c.id AND current <> c.chosen;
END;

-- Most recordings have one task of each kind, and nothing to choose.
CREATE TRIGGER task_choice_insert AFTER INSERT ON task
WHEN EXISTS (SELECT 1 FROM task o JOIN stage a ON a.stage_id = o.stage_id
             WHERE o.media_id = new.media_id AND o.task_id <> new.task_id
               AND a.name = (SELECT name FROM stage WHERE stage_id = new.stage_id))
     OR EXISTS (SELECT 1 FROM stage s JOIN task o ON o.stage_id = s.source_id
                WHERE s.stage_id = new.stage_id AND o.media_id = new.media_id
                  AND NOT o.wanted AND o.state <> 'done') BEGIN
    INSERT INTO choice VALUES (new.media_id);
END;
-- As in 0004, and what was made of it may not be wanted any more.
DROP TRIGGER task_source_undone;
CREATE TRIGGER task_source_undone AFTER UPDATE OF state ON task
WHEN new.state <> 'done' AND old.state = 'done' BEGIN
    DELETE FROM shard WHERE task_id IN
        (SELECT task_id FROM task WHERE media_id = new.media_id AND stage_id IN
            (SELECT stage_id FROM stage WHERE source_id = new.stage_id));
    UPDATE task SET waits = 'source',
                    state = iif(state = 'done', 'pending', state),
                    settled_at = iif(state = 'done', NULL, settled_at)
    WHERE media_id = new.media_id
      AND stage_id IN (SELECT stage_id FROM stage WHERE source_id = new.stage_id);
    INSERT INTO choice SELECT new.media_id
    WHERE EXISTS (SELECT 1 FROM stage WHERE source_id = new.stage_id);
END;
CREATE TRIGGER task_choice_update AFTER UPDATE OF state, asked, pinned, shards_done ON task
WHEN ((new.state = 'done') <> (old.state = 'done') OR new.asked <> old.asked
      OR new.pinned <> old.pinned OR (new.shards_done > 0) <> (old.shards_done > 0))
     AND EXISTS (SELECT 1 FROM task o JOIN stage a ON a.stage_id = o.stage_id
                 WHERE o.media_id = new.media_id AND o.task_id <> new.task_id
                   AND a.name = (SELECT name FROM stage WHERE stage_id = new.stage_id)) BEGIN
    INSERT INTO choice VALUES (new.media_id);
END;
CREATE TRIGGER task_choice_delete AFTER DELETE ON task BEGIN
    INSERT INTO choice VALUES (old.media_id);
END;

-- A result that is still on its way must not find another task under the number of a deleted one:
-- who inserts looks here.
CREATE TRIGGER task_number AFTER DELETE ON task
WHEN old.task_id > ifnull((SELECT max(task_id) FROM task), 0) BEGIN
    INSERT INTO setting (name, value) VALUES ('highest_task', CAST(old.task_id AS TEXT))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
        WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER);
END;

CREATE TRIGGER place_replaced AFTER UPDATE OF state ON place
WHEN new.state = 'replaced' AND old.state <> 'replaced' BEGIN
    UPDATE media SET replaced = 1
    WHERE media_id = new.media_id AND NOT EXISTS
        (SELECT 1 FROM place p WHERE p.media_id = new.media_id AND p.state <> 'replaced');
END;
CREATE TRIGGER place_of_replaced AFTER INSERT ON place
WHEN new.state <> 'replaced' AND (SELECT replaced FROM media WHERE media_id = new.media_id) BEGIN
    UPDATE media SET replaced = 0 WHERE media_id = new.media_id;
END;
CREATE TRIGGER media_replaced AFTER UPDATE OF replaced ON media
WHEN new.replaced <> old.replaced BEGIN
    UPDATE catalog_total SET
        recordings = recordings + old.replaced - new.replaced,
        damaged = damaged + (new.damage IS NOT NULL) * (old.replaced - new.replaced);
    INSERT INTO choice VALUES (new.media_id);
END;
DROP TRIGGER media_damage;
CREATE TRIGGER media_damage AFTER UPDATE OF damage ON media
WHEN (old.damage IS NULL) <> (new.damage IS NULL) AND NOT new.replaced BEGIN
    UPDATE catalog_total SET damaged = damaged + (new.damage IS NOT NULL)
                                               - (old.damage IS NOT NULL);
END;

-- What is asked for in another way now is not done in the old one, too.
CREATE TRIGGER task_withdrawn AFTER UPDATE OF wanted, state ON task
WHEN new.wanted = 0 AND new.state = 'pending' BEGIN
    UPDATE task SET state = 'cancelled', error_code = 'superseded',
                    error = 'asked for in another way since, or its file holds something else'
    WHERE task_id = new.task_id;
END;
CREATE TRIGGER task_wanted_again AFTER UPDATE OF wanted ON task
WHEN new.wanted = 1 AND old.wanted = 0 AND new.state = 'cancelled'
     AND new.error_code = 'superseded' BEGIN
    UPDATE task SET state = 'pending', error_code = NULL, error = NULL
    WHERE task_id = new.task_id;
END;

-- ---------------------------------------------------------------- what the catalog holds already
INSERT INTO choice
SELECT DISTINCT media_id FROM (SELECT t.media_id FROM task t JOIN stage s ON s.stage_id = t.stage_id
                               GROUP BY t.media_id, s.name HAVING count(*) > 1)
UNION SELECT media_id FROM media WHERE replaced;
UPDATE catalog_total SET
    recordings = (SELECT count(*) FROM media WHERE NOT replaced),
    damaged = (SELECT count(*) FROM media WHERE damage IS NOT NULL AND NOT replaced);

-- --------------------------------------------------------- full text, of current results alone
DROP TRIGGER segment_insert;
DROP TRIGGER segment_delete;
DROP TRIGGER segment_update;
DROP TABLE segment_fts;

CREATE VIEW segment_current AS
SELECT g.segment_id, g.text FROM segment g JOIN task t ON t.task_id = g.task_id WHERE t.current;
CREATE VIRTUAL TABLE segment_fts USING fts5 (
    text, content = 'segment_current', content_rowid = 'segment_id',
    tokenize = 'unicode61 remove_diacritics 2'
);
INSERT INTO segment_fts (segment_fts) VALUES ('rebuild');
UPDATE catalog_total SET segments = (SELECT count(*) FROM segment_current);

-- Rows of tasks that are not current are not in the index, and must not be taken out of it.
CREATE TRIGGER segment_insert AFTER INSERT ON segment
WHEN (SELECT current FROM task WHERE task_id = new.task_id) BEGIN
    INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text);
    UPDATE catalog_total SET segments = segments + 1;
END;
CREATE TRIGGER segment_delete AFTER DELETE ON segment
WHEN (SELECT current FROM task WHERE task_id = old.task_id) BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    VALUES ('delete', old.segment_id, old.text);
    UPDATE catalog_total SET segments = segments - 1;
END;
CREATE TRIGGER segment_update AFTER UPDATE OF text ON segment
WHEN (SELECT current FROM task WHERE task_id = new.task_id) BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    VALUES ('delete', old.segment_id, old.text);
    INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text);
END;
CREATE TRIGGER task_current AFTER UPDATE OF current ON task
WHEN new.current = 1 AND old.current = 0 BEGIN
    INSERT INTO segment_fts (rowid, text)
    SELECT segment_id, text FROM segment WHERE task_id = new.task_id;
    UPDATE catalog_total SET segments = segments +
        (SELECT count(*) FROM segment WHERE task_id = new.task_id);
END;
CREATE TRIGGER task_not_current AFTER UPDATE OF current ON task
WHEN new.current = 0 AND old.current = 1 BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    SELECT 'delete', segment_id, text FROM segment WHERE task_id = new.task_id;
    UPDATE catalog_total SET segments = segments -
        (SELECT count(*) FROM segment WHERE task_id = new.task_id);
END;

-- --------------------------------------------------------------------------------------- views
--
-- Each shows what is current; with `_all` it has the results of every stage, and says which are.
CREATE VIEW tasks AS
SELECT t.task_id, p.path, p.member, s.name AS stage, s.model,
       CASE WHEN t.state <> 'pending' THEN t.state
            WHEN t.absent THEN 'absent'
            WHEN t.paused THEN 'paused'
            WHEN t.waits = 'source' THEN 'waiting'
            WHEN t.waits = 'settling' THEN 'settling'
            WHEN t.shards_done > 0 THEN 'started'
            ELSE 'pending' END AS state,
       t.shards_done, t.shards_total, t.attempts, t.suspect, t.retry_at,
       t.error_code AS code, t.error AS reason, t.settled_at,
       t.job_id, t.media_id, t.stage_id, t.asked, t.wanted, t.current, t.pinned
FROM task t
JOIN media m ON m.media_id = t.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
JOIN stage s ON s.stage_id = t.stage_id;

CREATE VIEW progress AS
SELECT s.name AS stage, s.model, n.tasks AS recordings, n.done, n.failed, n.pending, n.waiting,
       n.paused, n.absent, n.cancelled, n.unknown,
       round(n.audio_known_ms / 3600000.0, 2) AS hours_known,
       round(n.audio_done_ms / 3600000.0, 2) AS hours_done,
       round(n.audio_left_ms / 3600000.0, 2) AS hours_left,
       round(100.0 * (n.done + n.failed + n.cancelled) / max(n.tasks, 1), 1) AS percent_settled,
       n.bytes_pending, s.stage_id, n.superseded
FROM stage s JOIN stage_total n ON n.stage_id = s.stage_id;

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
       g.text, g.language, g.start_ms, g.end_ms,
       s.name AS stage, s.model, g.avg_logprob, g.no_speech_prob, g.compression_ratio,
       g.temperature, g.attempts, g.speech_prob, g.reason,
       p.state AS place_state, t.media_id, g.task_id, g.segment_id, g.speaker_id, t.current
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = g.speaker_id;

CREATE VIEW transcript AS
SELECT path, member, start, "end", speaker, text, language, start_ms, end_ms, stage, model,
       avg_logprob, no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason,
       place_state, media_id, task_id, segment_id, speaker_id
FROM transcript_all WHERE current;

-- Full text with its recordings: `WHERE query = 'market'` asks the index.
CREATE VIEW said AS
SELECT p.path, p.member,
       CASE WHEN g.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', g.start_ms / 3600000, g.start_ms / 60000 % 60,
                        g.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', g.start_ms / 60000, g.start_ms / 1000 % 60) END AS start,
       ifnull(k.name, k.label) AS speaker, g.text, g.language, g.start_ms, g.end_ms,
       f.segment_fts AS query, f.rank, t.media_id, g.segment_id
FROM segment_fts f
JOIN segment g ON g.segment_id = f.rowid
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN place p ON p.place_id = m.place_id
LEFT JOIN speaker k ON k.speaker_id = g.speaker_id;

CREATE VIEW words_all AS
SELECT p.path, p.member,
       CASE WHEN w.start_ms >= 3600000
            THEN printf('%d:%02d:%02d.%03d', w.start_ms / 3600000, w.start_ms / 60000 % 60,
                        w.start_ms / 1000 % 60, w.start_ms % 1000)
            ELSE printf('%d:%02d.%03d', w.start_ms / 60000, w.start_ms / 1000 % 60,
                        w.start_ms % 1000) END AS start,
       trim(w.text) AS word, ifnull(k.name, k.label) AS speaker, w.probability, w.start_ms,
       w.end_ms, g.language, w.idx, s.name AS stage, s.model, t.media_id, g.task_id, g.segment_id,
       w.speaker_id, t.current
FROM word w
JOIN segment g ON g.segment_id = w.segment_id
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = w.speaker_id;

CREATE VIEW words AS
SELECT path, member, start, word, speaker, probability, start_ms, end_ms, language, idx, stage,
       model, media_id, task_id, segment_id, speaker_id
FROM words_all WHERE current;

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
UNION ALL
SELECT p.path, p.member,
       CASE WHEN d.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', d.start_ms / 3600000, d.start_ms / 60000 % 60,
                        d.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', d.start_ms / 60000, d.start_ms / 1000 % 60) END,
       'dropped', d.text, d.reason, d.language, d.start_ms, d.end_ms,
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

CREATE VIEW speakers_all AS
SELECT p.path, p.member, ifnull(k.name, k.label) AS speaker, k.label, k.name,
       CASE WHEN k.speech_ms >= 3600000
            THEN printf('%d:%02d:%02d', k.speech_ms / 3600000, k.speech_ms / 60000 % 60,
                        k.speech_ms / 1000 % 60)
            ELSE printf('%d:%02d', k.speech_ms / 60000, k.speech_ms / 1000 % 60) END AS speech,
       round(k.speech_ms / 60000.0, 1) AS minutes, k.speech_ms,
       (SELECT count(*) FROM turn u WHERE u.speaker_id = k.speaker_id) AS turns,
       (SELECT count(*) FROM segment g JOIN task gt ON gt.task_id = g.task_id
        WHERE g.speaker_id = k.speaker_id AND gt.current) AS segments,
       s.name AS stage, s.model, k.media_id, k.task_id, k.speaker_id, t.current
FROM speaker k
JOIN task t ON t.task_id = k.task_id
JOIN media m ON m.media_id = k.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW speakers AS
SELECT path, member, speaker, label, name, speech, minutes, speech_ms, turns, segments, stage,
       model, media_id, task_id, speaker_id
FROM speakers_all WHERE current;

CREATE VIEW turns_all AS
SELECT p.path, p.member,
       CASE WHEN u.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', u.start_ms / 3600000, u.start_ms / 60000 % 60,
                        u.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', u.start_ms / 60000, u.start_ms / 1000 % 60) END AS start,
       CASE WHEN u.end_ms >= 3600000
            THEN printf('%d:%02d:%02d', u.end_ms / 3600000, u.end_ms / 60000 % 60,
                        u.end_ms / 1000 % 60)
            ELSE printf('%d:%02d', u.end_ms / 60000, u.end_ms / 1000 % 60) END AS end,
       ifnull(k.name, k.label) AS speaker, k.label, u.start_ms, u.end_ms, u.idx,
       s.name AS stage, s.model, t.media_id, u.task_id, u.speaker_id, t.current
FROM turn u
JOIN speaker k ON k.speaker_id = u.speaker_id
JOIN task t ON t.task_id = u.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW turns AS
SELECT path, member, start, "end", speaker, label, start_ms, end_ms, idx, stage, model, media_id,
       task_id, speaker_id
FROM turns_all WHERE current;

CREATE VIEW sounds_all AS
SELECT p.path, p.member,
       CASE WHEN d.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', d.start_ms / 3600000, d.start_ms / 60000 % 60,
                        d.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', d.start_ms / 60000, d.start_ms / 1000 % 60) END AS start,
       CASE WHEN d.end_ms >= 3600000
            THEN printf('%d:%02d:%02d', d.end_ms / 3600000, d.end_ms / 60000 % 60,
                        d.end_ms / 1000 % 60)
            ELSE printf('%d:%02d', d.end_ms / 60000, d.end_ms / 1000 % 60) END AS end,
       d.name AS sound, round(d.score, 3) AS score, d.start_ms, d.end_ms, d.class_id,
       s.name AS stage, s.model, t.media_id, d.task_id, t.current
FROM sound d
JOIN task t ON t.task_id = d.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW sounds AS
SELECT path, member, start, "end", sound, score, start_ms, end_ms, class_id, stage, model,
       media_id, task_id
FROM sounds_all WHERE current;

CREATE VIEW passages_all AS
SELECT p.path, p.member,
       CASE WHEN e.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', e.start_ms / 3600000, e.start_ms / 60000 % 60,
                        e.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', e.start_ms / 60000, e.start_ms / 1000 % 60) END AS start,
       CASE WHEN e.end_ms >= 3600000
            THEN printf('%d:%02d:%02d', e.end_ms / 3600000, e.end_ms / 60000 % 60,
                        e.end_ms / 1000 % 60)
            ELSE printf('%d:%02d', e.end_ms / 60000, e.end_ms / 1000 % 60) END AS end,
       e.text, e.start_ms, e.end_ms, length(e.vector) / 4 AS size, e.vector,
       s.name AS stage, s.model, s.source_id, t.media_id, e.task_id, e.embedding_id, t.current
FROM embedding e
JOIN task t ON t.task_id = e.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW passages AS
SELECT path, member, start, "end", text, start_ms, end_ms, size, vector, stage, model, source_id,
       media_id, task_id, embedding_id
FROM passages_all WHERE current;

-- What must be equal between two catalogs of the same archive, however the runs went. What belongs
-- to a shard but is no text comes as one text per shard, with its first row; what was dropped comes
-- behind the segments of its shard; a diarization's turns come last, without a shard.
CREATE VIEW results_all AS
SELECT path, member, stage, model_hash, params, seq, shard_start_ms, shard_end_ms, shard_language,
       language_prob, windows, dropped, idx, start_ms, end_ms, text, language, avg_logprob,
       no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason, words,
       speaker, sounds, vectors, current
FROM (SELECT p.path, p.member, p.path_raw, p.member_raw, p.nth, s.name AS stage,
             s.model_hash, s.params,
             h.seq, h.start_ms AS shard_start_ms, h.end_ms AS shard_end_ms,
             h.language AS shard_language, h.language_prob, h.windows, 0 AS dropped, g.idx,
             g.start_ms, g.end_ms, g.text, g.language, g.avg_logprob, g.no_speech_prob,
             g.compression_ratio, g.temperature, g.attempts, g.speech_prob, g.reason,
             (SELECT group_concat(json_array(start_ms, end_ms, text, probability, label))
              FROM (SELECT w.*, (SELECT label FROM speaker y WHERE y.speaker_id = w.speaker_id)
                        AS label
                    FROM word w WHERE w.segment_id = g.segment_id ORDER BY w.idx)) AS words,
             k.label AS speaker,
             iif(ifnull(g.idx, 0) = 0,
                 (SELECT group_concat(json_array(start_ms, end_ms, class_id, name, score))
                  FROM (SELECT * FROM sound d WHERE d.task_id = h.task_id AND d.seq = h.seq
                        ORDER BY d.idx)), NULL) AS sounds,
             iif(ifnull(g.idx, 0) = 0,
                 (SELECT group_concat(json_array(start_ms, end_ms, text, hex(vector)))
                  FROM (SELECT * FROM embedding e WHERE e.task_id = h.task_id AND e.seq = h.seq
                        ORDER BY e.idx)), NULL) AS vectors, t.current
      FROM shard h
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      LEFT JOIN segment g ON g.task_id = h.task_id AND g.seq = h.seq
      LEFT JOIN speaker k ON k.speaker_id = g.speaker_id
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, p.nth, s.name, s.model_hash, s.params,
             h.seq, h.start_ms, h.end_ms, h.language, h.language_prob, h.windows, 1, d.idx,
             d.start_ms, d.end_ms, d.text, d.language, d.avg_logprob, d.no_speech_prob,
             d.compression_ratio, d.temperature, d.attempts, d.speech_prob, d.reason, NULL,
             NULL, NULL, NULL, t.current
      FROM dropped d
      JOIN shard h ON h.task_id = d.task_id AND h.seq = d.seq
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, p.nth, s.name, s.model_hash, s.params,
             NULL, NULL, NULL, '', NULL, NULL, 0, u.idx, u.start_ms, u.end_ms, '', '',
             NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, k.label, NULL, hex(k.vector),
             t.current
      FROM turn u
      JOIN speaker k ON k.speaker_id = u.speaker_id
      JOIN task t ON t.task_id = u.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id)
ORDER BY path_raw, member_raw, nth, stage, model_hash, params, seq IS NULL, seq, dropped, idx;
CREATE VIEW results AS
SELECT path, member, stage, model_hash, params, seq, shard_start_ms, shard_end_ms, shard_language,
       language_prob, windows, dropped, idx, start_ms, end_ms, text, language, avg_logprob,
       no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason, words,
       speaker, sounds, vectors
FROM results_all WHERE current;
