-- What the archive says of itself: tags of the containers, their chapters, and columns of tables
-- that lie beside the files; from them when a recording was made.

CREATE TABLE tag (
    media_id INTEGER NOT NULL REFERENCES media,
    source   TEXT NOT NULL,
    key      TEXT NOT NULL COLLATE NOCASE,
    seq      INTEGER NOT NULL CHECK (seq >= 0),
    value    TEXT NOT NULL,
    start_ms INTEGER CHECK (start_ms >= 0),
    end_ms   INTEGER CHECK (end_ms >= start_ms),
    PRIMARY KEY (media_id, source, key, seq)
) STRICT, WITHOUT ROWID;

ALTER TABLE media ADD COLUMN recorded_on TEXT;
ALTER TABLE media ADD COLUMN recorded_from TEXT;

-- Of recordings that were decoded before, the title is all that is known.
INSERT INTO tag (media_id, source, key, seq, value)
SELECT media_id, 'container', 'title', 0, title FROM media WHERE title <> '';

CREATE VIEW tags AS
SELECT p.path, p.member, g.key, g.value, g.source, g.seq, g.media_id
FROM tag g
JOIN media m ON m.media_id = g.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE g.source <> 'chapter';

CREATE VIEW chapters AS
SELECT p.path, p.member,
       CASE WHEN g.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', g.start_ms / 3600000, g.start_ms / 60000 % 60,
                        g.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', g.start_ms / 60000, g.start_ms / 1000 % 60) END AS start,
       g.value AS title, g.start_ms, g.end_ms, g.seq, g.media_id
FROM tag g
JOIN media m ON m.media_id = g.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE g.source = 'chapter';

-- The hash of all bytes of a file as they were first seen (of an archive as a whole), and when they
-- were last seen equal. changed_at: other bytes, though size and time are the same.
CREATE TABLE fixity (
    path_raw    BLOB PRIMARY KEY,
    path        TEXT NOT NULL,
    size_bytes  INTEGER NOT NULL,
    mtime_ns    INTEGER NOT NULL,
    hash        BLOB NOT NULL CHECK (length(hash) = 16),
    first_at    TEXT NOT NULL,
    verified_at TEXT,
    changed_at  TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX fixity_changed ON fixity (path_raw) WHERE changed_at IS NOT NULL;

-- ---- the view `failures`, with the kind 'changed' at its end

DROP VIEW failures;
CREATE VIEW failures AS
SELECT 'failed' AS kind, p.path, p.member, t.error_code AS code, t.error AS reason,
       s.name AS stage, t.attempts, t.settled_at AS at, t.media_id
FROM task t
JOIN media m ON m.media_id = t.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
JOIN stage s ON s.stage_id = t.stage_id
WHERE t.state = 'failed'
UNION ALL
SELECT 'damaged', p.path, p.member, '', m.damage, '', 0, m.decoded_at, m.media_id
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE m.damage IS NOT NULL
UNION ALL
SELECT 'absent', p.path, p.member, 'missing',
       'not there any more when the archive was last enqueued; enqueue it again when it is back',
       s.name, t.attempts, p.gone_at, t.media_id
FROM task t
JOIN media m ON m.media_id = t.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
JOIN stage s ON s.stage_id = t.stage_id
WHERE t.state = 'pending' AND t.absent = 1
UNION ALL
SELECT 'unreadable', path, member, error_code, error, '', 0, at, NULL FROM trouble
UNION ALL
SELECT 'changed', f.path, '', 'changed',
       'other bytes than before, with the same size and time: bring it back from a copy', '', 0,
       f.changed_at, (SELECT p.media_id FROM place p WHERE p.path_raw = f.path_raw
                      AND p.member_raw = x'' AND p.state <> 'replaced')
FROM fixity f WHERE f.changed_at IS NOT NULL;

-- ---- the view `recordings`, with recorded_on and recorded_from behind the title

DROP VIEW recordings;
CREATE VIEW recordings AS
SELECT m.media_id, p.path, p.member,
       -- What is still to be done comes first, then what went wrong, then what waits for that.
       ifnull((SELECT CASE min(CASE WHEN t.state = 'pending' THEN
                                   CASE WHEN t.absent THEN 1 WHEN t.paused THEN 2
                                        WHEN t.waits = 'source' THEN 7
                                        WHEN t.shards_done > 0 THEN 3 ELSE 4 END
                                    WHEN t.state = 'failed' THEN 5
                                    WHEN t.state = 'cancelled' THEN 6 ELSE 8 END)
                           WHEN 1 THEN 'absent' WHEN 2 THEN 'paused' WHEN 3 THEN 'started'
                           WHEN 4 THEN 'pending' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled'
                           WHEN 7 THEN 'waiting' ELSE 'done' END
               FROM task t WHERE t.media_id = m.media_id), 'done') AS state,
       CASE WHEN m.duration_ms >= 3600000
            THEN printf('%d:%02d:%02d', m.duration_ms / 3600000, m.duration_ms / 60000 % 60,
                        m.duration_ms / 1000 % 60)
            ELSE printf('%d:%02d', m.duration_ms / 60000, m.duration_ms / 1000 % 60)
       END AS duration,
       m.duration_ms,
       ifnull((SELECT h.language FROM shard h JOIN task t ON t.task_id = h.task_id
               WHERE t.media_id = m.media_id AND h.language <> ''
               GROUP BY h.language ORDER BY sum(h.end_ms - h.start_ms) DESC, h.language LIMIT 1),
              '') AS language,
       (SELECT count(*) FROM segment g JOIN task t ON t.task_id = g.task_id
        WHERE t.media_id = m.media_id) AS segments,
       m.places, m.size_bytes, m.container, m.codec, m.sample_rate_hz, m.channels, m.title,
       m.recorded_on, m.recorded_from,
       m.damage, p.state AS place_state, m.created_at, m.decoded_at
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;
