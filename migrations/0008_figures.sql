-- Schema 8: figures count recordings, each once, however many stages hear it.
-- docs/catalog-reference.md says what every column means.

-- ------------------------------------------------------------------------ a recording's state
--
-- Over its tasks that are wanted: what is still to be done comes first, then what went wrong, then
-- what waits for that. NULL: nothing was asked for.
ALTER TABLE media ADD COLUMN state TEXT CHECK (state IN
    ('absent', 'paused', 'started', 'pending', 'failed', 'cancelled', 'waiting', 'done'));
-- As much of it as every one of them has heard that hears: all of it, once they are done.
ALTER TABLE media ADD COLUMN audio_done_ms INTEGER NOT NULL DEFAULT 0;

ALTER TABLE catalog_total ADD COLUMN pending INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN absent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN done INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN unknown INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN bytes_unknown INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN bytes_known INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN audio_known_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN audio_done_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN audio_left_ms INTEGER NOT NULL DEFAULT 0;

-- A recording's share of the sums.
CREATE TRIGGER media_figures AFTER UPDATE OF state, duration_ms, audio_done_ms ON media
WHEN old.state IS NOT new.state OR (new.state IS NOT NULL AND
     (old.duration_ms IS NOT new.duration_ms OR old.audio_done_ms <> new.audio_done_ms)) BEGIN
    UPDATE catalog_total SET
        pending = pending + (new.state IS 'pending' OR new.state IS 'started')
                          - (old.state IS 'pending' OR old.state IS 'started'),
        waiting = waiting + (new.state IS 'waiting') - (old.state IS 'waiting'),
        paused = paused + (new.state IS 'paused') - (old.state IS 'paused'),
        absent = absent + (new.state IS 'absent') - (old.state IS 'absent'),
        done = done + (new.state IS 'done') - (old.state IS 'done'),
        failed = failed + (new.state IS 'failed') - (old.state IS 'failed'),
        cancelled = cancelled + (new.state IS 'cancelled') - (old.state IS 'cancelled'),
        unknown = unknown
            + (new.duration_ms IS NULL AND (new.state IS 'pending' OR new.state IS 'started'))
            - (old.duration_ms IS NULL AND (old.state IS 'pending' OR old.state IS 'started')),
        bytes_unknown = bytes_unknown + new.size_bytes *
            (new.duration_ms IS NULL AND (new.state IS 'pending' OR new.state IS 'started'))
            - old.size_bytes *
            (old.duration_ms IS NULL AND (old.state IS 'pending' OR old.state IS 'started')),
        bytes_known = bytes_known
            + (new.state IS NOT NULL AND new.duration_ms IS NOT NULL) * new.size_bytes
            - (old.state IS NOT NULL AND old.duration_ms IS NOT NULL) * old.size_bytes,
        audio_known_ms = audio_known_ms
            + (new.state IS NOT NULL) * ifnull(new.duration_ms, 0)
            - (old.state IS NOT NULL) * ifnull(old.duration_ms, 0),
        audio_done_ms = audio_done_ms + new.audio_done_ms - old.audio_done_ms,
        audio_left_ms = audio_left_ms
            + (new.state IS 'pending' OR new.state IS 'started') *
              max(ifnull(new.duration_ms, 0) - new.audio_done_ms, 0)
            - (old.state IS 'pending' OR old.state IS 'started') *
              max(ifnull(old.duration_ms, 0) - old.audio_done_ms, 0);
END;

-- `INSERT INTO figure` looks a recording over, as `choice` does.
CREATE VIEW figure AS SELECT 0 AS media_id WHERE 0;
CREATE TRIGGER figure_made INSTEAD OF INSERT ON figure BEGIN
    UPDATE media SET state = n.state, audio_done_ms = n.heard_ms
    FROM (SELECT CASE min(CASE WHEN t.state = 'pending' THEN
                              CASE WHEN t.absent THEN 1 WHEN t.paused THEN 2
                                   WHEN t.waits = 'source' THEN 7
                                   WHEN t.shards_done > 0 THEN 3 ELSE 4 END
                               WHEN t.state = 'failed' THEN 5
                               WHEN t.state = 'cancelled' THEN 6 ELSE 8 END)
                      WHEN 1 THEN 'absent' WHEN 2 THEN 'paused' WHEN 3 THEN 'started'
                      WHEN 4 THEN 'pending' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled'
                      WHEN 7 THEN 'waiting' WHEN 8 THEN 'done' END AS state,
                 -- Of a task that is done nothing is left, whatever its shards add up to; one that
                 -- works on another's text hears nothing.
                 ifnull(min(CASE WHEN s.source_id IS NOT NULL THEN NULL
                                 WHEN t.state = 'done' THEN ifnull(m.duration_ms, t.audio_done_ms)
                                 ELSE min(t.audio_done_ms, ifnull(m.duration_ms, t.audio_done_ms))
                            END), 0) AS heard_ms
          FROM task t JOIN media m ON m.media_id = t.media_id
          JOIN stage s ON s.stage_id = t.stage_id
          WHERE t.media_id = new.media_id AND t.wanted) AS n
    WHERE media_id = new.media_id
      AND (media.state IS NOT n.state OR media.audio_done_ms <> n.heard_ms);
END;

-- Most of what an enqueue adds begins a recording, or changes nothing beside another task that is
-- pending, while nothing is heard.
CREATE TRIGGER task_figure_begin AFTER INSERT ON task
WHEN new.wanted AND new.state = 'pending' AND new.paused = 0 AND new.absent = 0
     AND new.waits IS NULL BEGIN
    UPDATE media SET state = 'pending' WHERE media_id = new.media_id AND state IS NULL;
END;
CREATE TRIGGER task_figure_insert AFTER INSERT ON task
WHEN new.wanted AND NOT (new.state = 'pending' AND new.paused = 0 AND new.absent = 0 AND
     (SELECT ifnull(state, iif(new.waits IS NULL, 'pending', '')) = 'pending' AND audio_done_ms = 0
      FROM media WHERE media_id = new.media_id)) BEGIN
    INSERT INTO figure VALUES (new.media_id);
END;
CREATE TRIGGER task_figure_update
AFTER UPDATE OF state, paused, absent, waits, shards_done, audio_done_ms, wanted ON task
WHEN new.wanted OR old.wanted BEGIN
    INSERT INTO figure VALUES (new.media_id);
END;
CREATE TRIGGER task_figure_delete AFTER DELETE ON task WHEN old.wanted BEGIN
    INSERT INTO figure VALUES (old.media_id);
END;

CREATE TRIGGER media_figure_duration AFTER UPDATE OF duration_ms ON media
WHEN old.duration_ms IS NOT new.duration_ms AND new.state IS NOT NULL BEGIN
    INSERT INTO figure VALUES (new.media_id);
END;

INSERT INTO figure SELECT DISTINCT media_id FROM task;

-- --------------------------------------------------------------------------------------- views
CREATE VIEW archive AS
SELECT recordings, done, failed, pending, waiting, paused, absent, cancelled, unknown,
       round(audio_known_ms / 3600000.0, 2) AS hours_known,
       round(audio_done_ms / 3600000.0, 2) AS hours_done,
       round(audio_left_ms / 3600000.0, 2) AS hours_left,
       round(100.0 * (done + failed + cancelled) / max(recordings, 1), 1) AS percent_settled,
       bytes_unknown
FROM catalog_total;

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
       m.damage, p.state AS place_state, m.created_at, m.decoded_at
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE NOT m.replaced;

-- A recording once for every reason, with all the stages that it kept from it.
CREATE VIEW failures AS
SELECT 'failed' AS kind, p.path, p.member, f.code, f.reason,
       (SELECT group_concat(name, ', ') FROM
        (SELECT s.name FROM task t JOIN stage s ON s.stage_id = t.stage_id
         WHERE t.media_id = f.media_id AND t.state = 'failed' AND t.wanted
           AND t.error_code IS f.code AND t.error IS f.reason ORDER BY s.stage_id)) AS stage,
       f.attempts, f.at, f.media_id
FROM (SELECT media_id, error_code AS code, error AS reason, max(attempts) AS attempts,
             max(settled_at) AS at
      FROM task WHERE state = 'failed' AND wanted GROUP BY media_id, error_code, error) f
JOIN media m ON m.media_id = f.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
UNION ALL
SELECT 'damaged', p.path, p.member, '', m.damage, '', 0, m.decoded_at, m.media_id
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE m.damage IS NOT NULL AND NOT m.replaced
UNION ALL
SELECT 'absent', p.path, p.member, 'missing',
       'not there any more when the archive was last enqueued; enqueue it again when it is back',
       (SELECT group_concat(name, ', ') FROM
        (SELECT s.name FROM task t JOIN stage s ON s.stage_id = t.stage_id
         WHERE t.media_id = f.media_id AND t.state = 'pending' AND t.absent = 1 AND t.wanted
         ORDER BY s.stage_id)),
       f.attempts, p.gone_at, f.media_id
FROM (SELECT media_id, max(attempts) AS attempts
      FROM task INDEXED BY task_absent
      WHERE state = 'pending' AND absent = 1 AND wanted GROUP BY media_id) f
JOIN media m ON m.media_id = f.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
UNION ALL
SELECT 'unreadable', path, member, error_code, error, '', 0, at, NULL FROM trouble
UNION ALL
SELECT 'changed', f.path, '', 'changed',
       'other bytes than before, with the same size and time: bring it back from a copy', '', 0,
       f.changed_at, (SELECT p.media_id FROM place p WHERE p.path_raw = f.path_raw
                      AND p.member_raw = x'' AND p.state <> 'replaced')
FROM fixity f WHERE f.changed_at IS NOT NULL AND EXISTS
    (SELECT 1 FROM place p WHERE p.path_raw = f.path_raw AND p.state = 'present'
     AND p.file_size_bytes = f.size_bytes AND p.mtime_ns = f.mtime_ns);
