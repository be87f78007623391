-- The catalog, schema 1. docs/catalog-reference.md says what every table, column and view means.
-- Applied in one transaction; application_id and user_version are set by store/migrate.c.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE stage (
    stage_id   INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    model      TEXT NOT NULL,
    model_dir  TEXT NOT NULL,
    model_hash TEXT NOT NULL,
    params     TEXT NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (name, model_hash, params)
) STRICT;

CREATE TABLE job (
    job_id       INTEGER PRIMARY KEY,
    stage_id     INTEGER NOT NULL REFERENCES stage,
    language     TEXT NOT NULL,
    command      TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    ended_at     TEXT,
    cancelled_at TEXT,
    seen         INTEGER NOT NULL DEFAULT 0,
    added        INTEGER NOT NULL DEFAULT 0,
    places       INTEGER NOT NULL DEFAULT 0,
    changed      INTEGER NOT NULL DEFAULT 0,
    unchanged    INTEGER NOT NULL DEFAULT 0,
    vanished     INTEGER NOT NULL DEFAULT 0,
    tasks        INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE media (
    media_id       INTEGER PRIMARY KEY,
    size_bytes     INTEGER NOT NULL,
    fingerprint    BLOB NOT NULL CHECK (length(fingerprint) = 16),
    content_hash   BLOB CHECK (length(content_hash) = 16),
    place_id       INTEGER REFERENCES place,
    places         INTEGER NOT NULL DEFAULT 0,
    duration_ms    INTEGER CHECK (duration_ms >= 0),
    sample_rate_hz INTEGER,
    channels       INTEGER,
    container      TEXT,
    codec          TEXT,
    title          TEXT,
    damage         TEXT,
    created_at     TEXT NOT NULL,
    decoded_at     TEXT
) STRICT;
CREATE UNIQUE INDEX media_identity ON media (fingerprint, size_bytes);
CREATE INDEX media_content ON media (content_hash) WHERE content_hash IS NOT NULL;
CREATE INDEX media_damaged ON media (media_id) WHERE damage IS NOT NULL;

CREATE TABLE place (
    place_id        INTEGER PRIMARY KEY,
    media_id        INTEGER NOT NULL REFERENCES media,
    path            TEXT NOT NULL,
    path_raw        BLOB NOT NULL,
    member          TEXT NOT NULL,
    member_raw      BLOB NOT NULL,
    file_size_bytes INTEGER NOT NULL,
    mtime_ns        INTEGER NOT NULL,
    inode           INTEGER NOT NULL,
    device          INTEGER NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('present', 'vanished', 'replaced')),
    job_id          INTEGER NOT NULL REFERENCES job,
    seen_job        INTEGER NOT NULL REFERENCES job,
    gone_at         TEXT
) STRICT;
CREATE UNIQUE INDEX place_current ON place (path_raw, member_raw) WHERE state <> 'replaced';
CREATE INDEX place_media ON place (media_id, state);

CREATE TABLE task (
    task_id       INTEGER PRIMARY KEY,
    media_id      INTEGER NOT NULL REFERENCES media,
    stage_id      INTEGER NOT NULL REFERENCES stage,
    job_id        INTEGER NOT NULL REFERENCES job,
    language      TEXT NOT NULL,
    state         TEXT NOT NULL DEFAULT 'pending'
                  CHECK (state IN ('pending', 'done', 'failed', 'cancelled')),
    paused        INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    absent        INTEGER NOT NULL DEFAULT 0 CHECK (absent IN (0, 1)),
    shards_total  INTEGER CHECK (shards_total > 0),
    shards_done   INTEGER NOT NULL DEFAULT 0,
    audio_done_ms INTEGER NOT NULL DEFAULT 0,
    attempts      INTEGER NOT NULL DEFAULT 0,
    suspect       INTEGER NOT NULL DEFAULT 0,
    retry_at      TEXT,
    error_code    TEXT,
    error         TEXT,
    settled_at    TEXT,
    UNIQUE (media_id, stage_id)
) STRICT;
-- What a run asks for: one stage at a time, by task_id, which ends every index entry. Scanned in
-- order, so it must not hold what is not runnable.
CREATE INDEX task_runnable ON task (stage_id) WHERE state = 'pending' AND paused = 0 AND absent = 0;
CREATE INDEX task_retry ON task (retry_at)
    WHERE state = 'pending' AND paused = 0 AND absent = 0 AND retry_at IS NOT NULL;
CREATE INDEX task_failed ON task (task_id) WHERE state = 'failed';
CREATE INDEX task_absent ON task (task_id) WHERE state = 'pending' AND absent = 1;

CREATE TABLE shard (
    task_id       INTEGER NOT NULL REFERENCES task,
    seq           INTEGER NOT NULL CHECK (seq >= 0),
    start_ms      INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms        INTEGER NOT NULL CHECK (end_ms >= start_ms),
    language      TEXT NOT NULL,
    language_prob REAL,
    windows       INTEGER NOT NULL,
    wall_ms       INTEGER NOT NULL,
    device        TEXT NOT NULL,
    done_at       TEXT NOT NULL,
    PRIMARY KEY (task_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE speaker (
    speaker_id INTEGER PRIMARY KEY,
    media_id   INTEGER NOT NULL REFERENCES media,
    label      TEXT NOT NULL,
    name       TEXT,
    UNIQUE (media_id, label)
) STRICT;

CREATE TABLE segment (
    segment_id        INTEGER PRIMARY KEY,
    task_id           INTEGER NOT NULL,
    seq               INTEGER NOT NULL,
    idx               INTEGER NOT NULL,
    start_ms          INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms            INTEGER NOT NULL CHECK (end_ms >= start_ms),
    text              TEXT NOT NULL,
    language          TEXT NOT NULL,
    speaker_id        INTEGER REFERENCES speaker,
    avg_logprob       REAL,
    no_speech_prob    REAL,
    compression_ratio REAL,
    temperature       REAL,
    UNIQUE (task_id, seq, idx),
    FOREIGN KEY (task_id, seq) REFERENCES shard
) STRICT;

CREATE VIRTUAL TABLE segment_fts USING fts5 (
    text, content = 'segment', content_rowid = 'segment_id',
    tokenize = 'unicode61 remove_diacritics 2'
);

CREATE TABLE event (
    event_id INTEGER PRIMARY KEY,
    at       TEXT NOT NULL,
    kind     TEXT NOT NULL,
    media_id INTEGER REFERENCES media,
    device   TEXT,
    text     TEXT NOT NULL
) STRICT;

CREATE TABLE trouble (
    trouble_id INTEGER PRIMARY KEY,
    path       TEXT NOT NULL,
    path_raw   BLOB NOT NULL,
    member     TEXT NOT NULL,
    member_raw BLOB NOT NULL,
    error_code TEXT NOT NULL,
    error      TEXT NOT NULL,
    job_id     INTEGER NOT NULL REFERENCES job,
    at         TEXT NOT NULL,
    UNIQUE (path_raw, member_raw)
) STRICT;

-- Sums that `status` asks for every second; the triggers below keep them, so that no million rows
-- are counted.
CREATE TABLE catalog_total (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    recordings  INTEGER NOT NULL DEFAULT 0,
    places      INTEGER NOT NULL DEFAULT 0,
    vanished    INTEGER NOT NULL DEFAULT 0,
    damaged     INTEGER NOT NULL DEFAULT 0,
    shards_done INTEGER NOT NULL DEFAULT 0,
    segments    INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO catalog_total (id) VALUES (1);

CREATE TABLE stage_total (
    stage_id       INTEGER PRIMARY KEY REFERENCES stage,
    tasks          INTEGER NOT NULL DEFAULT 0,
    pending        INTEGER NOT NULL DEFAULT 0,
    paused         INTEGER NOT NULL DEFAULT 0,
    absent         INTEGER NOT NULL DEFAULT 0,
    done           INTEGER NOT NULL DEFAULT 0,
    failed         INTEGER NOT NULL DEFAULT 0,
    cancelled      INTEGER NOT NULL DEFAULT 0,
    unknown        INTEGER NOT NULL DEFAULT 0,
    bytes_pending  INTEGER NOT NULL DEFAULT 0,
    audio_known_ms INTEGER NOT NULL DEFAULT 0,
    audio_done_ms  INTEGER NOT NULL DEFAULT 0,
    audio_left_ms  INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TRIGGER stage_insert AFTER INSERT ON stage BEGIN
    INSERT INTO stage_total (stage_id) VALUES (new.stage_id);
END;

-- A recording's count of present places and its main place: the oldest present one; when none is
-- left, the one that went last.
CREATE TRIGGER place_insert AFTER INSERT ON place BEGIN
    UPDATE media SET
        place_id = iif(place_id IS NULL OR (places = 0 AND new.state = 'present'),
                       new.place_id, place_id),
        places = places + (new.state = 'present')
    WHERE media_id = new.media_id;
    UPDATE catalog_total SET places = places + (new.state = 'present'),
                             vanished = vanished + (new.state = 'vanished');
END;

CREATE TRIGGER place_back AFTER UPDATE OF state ON place
WHEN new.state = 'present' AND old.state <> 'present' BEGIN
    UPDATE media SET
        place_id = iif(places = 0 OR new.place_id < place_id, new.place_id, place_id),
        places = places + 1
    WHERE media_id = new.media_id;
    UPDATE catalog_total SET places = places + 1, vanished = vanished - (old.state = 'vanished');
END;

CREATE TRIGGER place_gone AFTER UPDATE OF state ON place
WHEN new.state <> 'present' AND old.state <> new.state BEGIN
    UPDATE media SET
        place_id = iif(place_id <> new.place_id, place_id,
            ifnull((SELECT p.place_id FROM place p
                    WHERE p.media_id = new.media_id AND p.state = 'present'
                    ORDER BY p.place_id LIMIT 1), place_id)),
        places = places - (old.state = 'present')
    WHERE media_id = new.media_id;
    UPDATE catalog_total SET places = places - (old.state = 'present'),
        vanished = vanished + (new.state = 'vanished') - (old.state = 'vanished');
END;

CREATE TRIGGER media_insert AFTER INSERT ON media BEGIN
    UPDATE catalog_total SET recordings = recordings + 1,
                             damaged = damaged + (new.damage IS NOT NULL);
END;

CREATE TRIGGER media_damage AFTER UPDATE OF damage ON media
WHEN (old.damage IS NULL) <> (new.damage IS NULL) BEGIN
    UPDATE catalog_total SET damaged = damaged + (new.damage IS NOT NULL)
                                               - (old.damage IS NOT NULL);
END;

CREATE TRIGGER media_absent AFTER UPDATE OF places ON media
WHEN (old.places = 0) <> (new.places = 0) BEGIN
    UPDATE task SET absent = (new.places = 0) WHERE media_id = new.media_id;
END;

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
                 state = 'pending' AND paused = 0 AND absent = 0 AS runnable
          FROM task WHERE media_id = new.media_id) AS t
    WHERE stage_id = t.of_stage;
END;

CREATE TRIGGER task_insert AFTER INSERT ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks + 1,
        pending = pending + (new.state = 'pending' AND new.paused = 0 AND new.absent = 0),
        paused = paused + (new.state = 'pending' AND new.paused = 1 AND new.absent = 0),
        absent = absent + (new.state = 'pending' AND new.absent = 1),
        done = done + (new.state = 'done'),
        failed = failed + (new.state = 'failed'),
        cancelled = cancelled + (new.state = 'cancelled'),
        unknown = unknown + (m.duration_ms IS NULL) *
            (new.state = 'pending' AND new.paused = 0 AND new.absent = 0),
        bytes_pending = bytes_pending + m.size_bytes *
            (new.state = 'pending' AND new.paused = 0 AND new.absent = 0),
        audio_known_ms = audio_known_ms + ifnull(m.duration_ms, 0),
        audio_done_ms = audio_done_ms + new.audio_done_ms,
        audio_left_ms = audio_left_ms + max(ifnull(m.duration_ms, 0) - new.audio_done_ms, 0) *
            (new.state = 'pending' AND new.paused = 0 AND new.absent = 0)
    FROM (SELECT size_bytes, duration_ms FROM media WHERE media_id = new.media_id) AS m
    WHERE stage_id = new.stage_id;
END;

CREATE TRIGGER task_update AFTER UPDATE OF state, paused, absent, audio_done_ms ON task BEGIN
    UPDATE stage_total SET
        pending = pending + m.now - m.was,
        paused = paused + (new.state = 'pending' AND new.paused = 1 AND new.absent = 0)
                        - (old.state = 'pending' AND old.paused = 1 AND old.absent = 0),
        absent = absent + (new.state = 'pending' AND new.absent = 1)
                        - (old.state = 'pending' AND old.absent = 1),
        done = done + (new.state = 'done') - (old.state = 'done'),
        failed = failed + (new.state = 'failed') - (old.state = 'failed'),
        cancelled = cancelled + (new.state = 'cancelled') - (old.state = 'cancelled'),
        unknown = unknown + (m.duration_ms IS NULL) * (m.now - m.was),
        bytes_pending = bytes_pending + m.size_bytes * (m.now - m.was),
        audio_done_ms = audio_done_ms + new.audio_done_ms - old.audio_done_ms,
        audio_left_ms = audio_left_ms
            + max(ifnull(m.duration_ms, 0) - new.audio_done_ms, 0) * m.now
            - max(ifnull(m.duration_ms, 0) - old.audio_done_ms, 0) * m.was
    FROM (SELECT size_bytes, duration_ms,
                 new.state = 'pending' AND new.paused = 0 AND new.absent = 0 AS now,
                 old.state = 'pending' AND old.paused = 0 AND old.absent = 0 AS was
          FROM media WHERE media_id = new.media_id) AS m
    WHERE stage_id = new.stage_id;
END;

CREATE TRIGGER shard_insert AFTER INSERT ON shard BEGIN
    UPDATE catalog_total SET shards_done = shards_done + 1;
    UPDATE task SET shards_done = shards_done + 1,
                    audio_done_ms = audio_done_ms + new.end_ms - new.start_ms
    WHERE task_id = new.task_id;
END;

CREATE TRIGGER shard_delete AFTER DELETE ON shard BEGIN
    UPDATE catalog_total SET shards_done = shards_done - 1;
    UPDATE task SET shards_done = shards_done - 1,
                    audio_done_ms = audio_done_ms - (old.end_ms - old.start_ms)
    WHERE task_id = old.task_id;
END;

CREATE TRIGGER segment_insert AFTER INSERT ON segment BEGIN
    INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text);
    UPDATE catalog_total SET segments = segments + 1;
END;

CREATE TRIGGER segment_delete AFTER DELETE ON segment BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    VALUES ('delete', old.segment_id, old.text);
    UPDATE catalog_total SET segments = segments - 1;
END;

CREATE TRIGGER segment_update AFTER UPDATE OF text ON segment BEGIN
    INSERT INTO segment_fts (segment_fts, rowid, text)
    VALUES ('delete', old.segment_id, old.text);
    INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text);
END;

-- Views for people. In their joins `m.media_id = +p.media_id` (true for every main place) lets a search
-- begin at the places, by path; the plus keeps it from looking a main place up among its duplicates.

CREATE VIEW tasks AS
SELECT t.task_id, p.path, p.member, s.name AS stage, s.model,
       CASE WHEN t.state <> 'pending' THEN t.state
            WHEN t.absent THEN 'absent'
            WHEN t.paused THEN 'paused'
            WHEN t.shards_done > 0 THEN 'started'
            ELSE 'pending' END AS state,
       t.shards_done, t.shards_total, t.attempts, t.suspect, t.retry_at,
       t.error_code AS code, t.error AS reason, t.settled_at,
       t.job_id, t.media_id, t.stage_id
FROM task t
JOIN media m ON m.media_id = t.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
JOIN stage s ON s.stage_id = t.stage_id;

CREATE VIEW recordings AS
SELECT m.media_id, p.path, p.member,
       -- What is still to be done comes first, then what went wrong.
       ifnull((SELECT CASE min(CASE WHEN t.state = 'pending' THEN
                                   CASE WHEN t.absent THEN 1 WHEN t.paused THEN 2
                                        WHEN t.shards_done > 0 THEN 3 ELSE 4 END
                                    WHEN t.state = 'failed' THEN 5
                                    WHEN t.state = 'cancelled' THEN 6 ELSE 7 END)
                           WHEN 1 THEN 'absent' WHEN 2 THEN 'paused' WHEN 3 THEN 'started'
                           WHEN 4 THEN 'pending' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled'
                           ELSE 'done' END
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
       m.damage, p.state AS place_state, m.created_at, m.decoded_at
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW transcript AS
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
       g.temperature, p.state AS place_state, t.media_id, g.task_id, g.segment_id
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = g.speaker_id;

CREATE VIEW progress AS
SELECT s.name AS stage, s.model, n.tasks AS recordings, n.done, n.failed, n.pending, n.paused,
       n.absent, n.cancelled, n.unknown,
       round(n.audio_known_ms / 3600000.0, 2) AS hours_known,
       round(n.audio_done_ms / 3600000.0, 2) AS hours_done,
       round(n.audio_left_ms / 3600000.0, 2) AS hours_left,
       round(100.0 * (n.done + n.failed + n.cancelled) / max(n.tasks, 1), 1) AS percent_settled,
       n.bytes_pending, s.stage_id
FROM stage s JOIN stage_total n ON n.stage_id = s.stage_id;

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
SELECT 'unreadable', path, member, error_code, error, '', 0, at, NULL FROM trouble;

CREATE VIEW speakers AS
SELECT p.path, p.member, k.label, k.name,
       (SELECT count(*) FROM segment g JOIN task t ON t.task_id = g.task_id
        WHERE t.media_id = k.media_id AND g.speaker_id = k.speaker_id) AS segments,
       (SELECT round(sum(g.end_ms - g.start_ms) / 60000.0, 1) FROM segment g
        JOIN task t ON t.task_id = g.task_id
        WHERE t.media_id = k.media_id AND g.speaker_id = k.speaker_id) AS minutes,
       k.media_id, k.speaker_id
FROM speaker k
JOIN media m ON m.media_id = k.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

-- What must be equal between two catalogs of the same archive, however the runs went. Ordered.
CREATE VIEW results AS
SELECT p.path, p.member, s.name AS stage, s.model_hash, s.params, h.seq,
       h.start_ms AS shard_start_ms, h.end_ms AS shard_end_ms, h.language AS shard_language,
       h.language_prob, h.windows, g.idx, g.start_ms, g.end_ms, g.text, g.language,
       g.avg_logprob, g.no_speech_prob, g.compression_ratio, g.temperature
FROM shard h
JOIN task t ON t.task_id = h.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN segment g ON g.task_id = h.task_id AND g.seq = h.seq
ORDER BY p.path_raw, p.member_raw, s.name, s.model_hash, s.params, h.seq, g.idx;
