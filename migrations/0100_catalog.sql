-- The catalog. docs/reference/catalog-tables.md says what every table, column and view means.
-- Applied in one transaction; application_id and user_version are set by store/migrate.c.
--
-- The first schema that is released has the number 100. Catalogs of development versions have
-- smaller ones, and are refused.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- Tells a catalog from another one that took its name: files beside it say whose they are.
INSERT INTO setting (name, value) VALUES ('identity', lower(hex(randomblob(16))));

CREATE TABLE stage (
    stage_id   INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    model      TEXT NOT NULL,
    model_dir  TEXT NOT NULL,
    model_hash TEXT NOT NULL,
    params     TEXT NOT NULL,
    created_at TEXT NOT NULL,
    source_id  INTEGER REFERENCES stage,
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
    tasks        INTEGER NOT NULL DEFAULT 0,
    priority     INTEGER CHECK (priority BETWEEN -1 AND 1)
) STRICT;

-- What is found of a recording that was erased meanwhile must not find another one under its number.
CREATE TABLE media (
    media_id       INTEGER PRIMARY KEY AUTOINCREMENT,
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
    decoded_at     TEXT,
    replaced       INTEGER NOT NULL DEFAULT 0 CHECK (replaced IN (0, 1)),
    recorded_on    TEXT,
    recorded_from  TEXT,
    audio_tracks   INTEGER
) STRICT;
CREATE UNIQUE INDEX media_identity ON media (fingerprint, size_bytes);
CREATE INDEX media_damaged ON media (media_id) WHERE damage IS NOT NULL;
CREATE INDEX media_no_sound ON media (media_id) WHERE audio_tracks = 0;
-- Recordings that are nowhere any more.
CREATE INDEX media_gone ON media (media_id) WHERE places = 0 AND NOT replaced;

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
    state           TEXT NOT NULL CHECK (state = 'present' OR state = 'vanished' OR state = 'replaced'),
    job_id          INTEGER NOT NULL REFERENCES job,
    seen_job        INTEGER NOT NULL REFERENCES job,
    gone_at         TEXT,
    nth             INTEGER NOT NULL DEFAULT 0 CHECK (nth >= 0),
    unproven        INTEGER NOT NULL DEFAULT 0 CHECK (unproven IN (0, 1))
) STRICT;
CREATE INDEX place_media ON place (media_id, state);
-- For people's searches of the views by path, which is otherwise found by its bytes alone.
CREATE INDEX place_path ON place (path);
CREATE UNIQUE INDEX place_current ON place (path_raw, member_raw, nth) WHERE state <> 'replaced';

-- A result that is still on its way must not find another task under the number of a deleted one.
CREATE TABLE task (
    task_id       INTEGER PRIMARY KEY AUTOINCREMENT,
    media_id      INTEGER NOT NULL REFERENCES media,
    stage_id      INTEGER NOT NULL REFERENCES stage,
    job_id        INTEGER NOT NULL REFERENCES job,
    language      TEXT NOT NULL,
    state         TEXT NOT NULL DEFAULT 'pending'
                  CHECK (state = 'done' OR state = 'pending' OR state = 'failed' OR state = 'cancelled'),
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
    waits         TEXT CHECK (waits IN ('source', 'settling')),
    asked         INTEGER NOT NULL DEFAULT 0,
    wanted        INTEGER NOT NULL DEFAULT 1 CHECK (wanted IN (0, 1)),
    current       INTEGER NOT NULL DEFAULT 1 CHECK (current IN (0, 1)),
    pinned        INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    left_out      TEXT,
    priority      INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1 AND 1),
    silent        INTEGER NOT NULL DEFAULT 0 CHECK (silent IN (0, 1)),
    speech_ms     INTEGER,
    dropped_ms    INTEGER NOT NULL DEFAULT 0,
    missing_ms    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (media_id, stage_id)
) STRICT;
CREATE INDEX task_failed ON task (task_id) WHERE state = 'failed';
CREATE INDEX task_absent ON task (task_id)
    WHERE (state = 'pending' OR state = 'failed') AND absent = 1;
CREATE INDEX task_unsettled ON task (stage_id)
    WHERE state = 'pending' AND paused = 0 AND waits = 'settling';
CREATE INDEX task_retry ON task (retry_at)
    WHERE state = 'pending' AND paused = 0 AND (absent = 0 OR waits = 'settling')
    AND waits IS NOT 'source' AND retry_at IS NOT NULL;
CREATE INDEX task_superseded ON task (stage_id) WHERE current = 0;
CREATE INDEX task_left_out ON task (media_id) WHERE left_out IS NOT NULL;
-- In the order in which a run takes them (store/task.c): by priority, then by number.
CREATE INDEX task_runnable ON task (stage_id, task_id - priority * 281474976710656)
    WHERE state = 'pending' AND paused = 0 AND absent = 0 AND waits IS NULL;
CREATE INDEX task_high ON task (media_id) WHERE priority > 0 AND state = 'pending';
CREATE INDEX task_silent ON task (task_id) WHERE silent;

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
    speech_ms     INTEGER CHECK (speech_ms >= 0),
    dropped_ms    INTEGER CHECK (dropped_ms >= 0),
    missing_ms    INTEGER CHECK (missing_ms >= 0 AND dropped_ms + missing_ms <= speech_ms),
    result        BLOB,
    PRIMARY KEY (task_id, seq)
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
    speaker_id        INTEGER REFERENCES speaker ON DELETE SET NULL,
    avg_logprob       REAL,
    no_speech_prob    REAL,
    compression_ratio REAL,
    temperature       REAL,
    attempts          INTEGER CHECK (attempts > 0),
    speech_prob       REAL CHECK (speech_prob BETWEEN 0 AND 1),
    reason            TEXT NOT NULL DEFAULT '',
    heard             TEXT,
    part              INTEGER NOT NULL DEFAULT 0 CHECK (part >= 0),
    source            INTEGER NOT NULL DEFAULT 0 CHECK (source >= 0),
    UNIQUE (task_id, seq, idx),
    FOREIGN KEY (task_id, seq) REFERENCES shard
) STRICT;
CREATE INDEX segment_doubted ON segment (task_id) WHERE reason <> '';
CREATE INDEX segment_speaker ON segment (speaker_id) WHERE speaker_id IS NOT NULL;

CREATE TABLE event (
    event_id INTEGER PRIMARY KEY,
    at       TEXT NOT NULL,
    kind     TEXT NOT NULL,
    media_id INTEGER REFERENCES media,
    device   TEXT,
    text     TEXT NOT NULL
) STRICT;

CREATE TABLE word (
    segment_id  INTEGER NOT NULL REFERENCES segment ON DELETE CASCADE,
    idx         INTEGER NOT NULL CHECK (idx >= 0),
    start_ms    INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms      INTEGER NOT NULL CHECK (end_ms >= start_ms),
    text        TEXT NOT NULL,
    probability REAL,
    speaker_id  INTEGER,
    PRIMARY KEY (segment_id, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE dropped (
    task_id           INTEGER NOT NULL,
    seq               INTEGER NOT NULL,
    idx               INTEGER NOT NULL CHECK (idx >= 0),
    start_ms          INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms            INTEGER NOT NULL CHECK (end_ms >= start_ms),
    text              TEXT NOT NULL,
    language          TEXT NOT NULL,
    reason            TEXT NOT NULL,
    avg_logprob       REAL,
    no_speech_prob    REAL,
    compression_ratio REAL,
    temperature       REAL,
    attempts          INTEGER CHECK (attempts > 0),
    speech_prob       REAL CHECK (speech_prob BETWEEN 0 AND 1),
    source            INTEGER NOT NULL DEFAULT 0 CHECK (source >= 0),
    PRIMARY KEY (task_id, seq, idx),
    FOREIGN KEY (task_id, seq) REFERENCES shard ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
-- What has no text is a row of `dropped` with an empty one: few rows, which `doubts` asks for.
CREATE INDEX dropped_missing ON dropped (task_id) WHERE text = '';

CREATE TABLE tuning (
    device_id       TEXT NOT NULL,
    driver          TEXT NOT NULL,
    model_hash      TEXT NOT NULL,
    precision       TEXT NOT NULL,
    decoding        TEXT NOT NULL,
    slots           INTEGER NOT NULL CHECK (slots BETWEEN 1 AND 4096),
    windows         INTEGER NOT NULL CHECK (windows BETWEEN 1 AND 4096),
    rate            REAL NOT NULL DEFAULT 0 CHECK (rate >= 0),
    predicted_bytes INTEGER NOT NULL DEFAULT 0 CHECK (predicted_bytes >= 0),
    peak_bytes      INTEGER NOT NULL DEFAULT 0 CHECK (peak_bytes >= 0),
    oom_count       INTEGER NOT NULL DEFAULT 0 CHECK (oom_count >= 0),
    at              TEXT NOT NULL,
    ways            BLOB NOT NULL DEFAULT x'',
    PRIMARY KEY (device_id, driver, model_hash, precision, decoding)
) STRICT, WITHOUT ROWID;

CREATE TABLE speaker (
    speaker_id INTEGER PRIMARY KEY,
    task_id    INTEGER NOT NULL REFERENCES task,
    media_id   INTEGER NOT NULL REFERENCES media,
    label      TEXT NOT NULL,
    name       TEXT,
    speech_ms  INTEGER NOT NULL CHECK (speech_ms >= 0),
    vector     BLOB CHECK (length(vector) % 4 = 0),
    group_id   INTEGER,
    UNIQUE (task_id, label)
) STRICT;
CREATE INDEX speaker_media ON speaker (media_id);
CREATE INDEX speaker_named ON speaker (name) WHERE name IS NOT NULL;
CREATE INDEX speaker_group ON speaker (group_id) WHERE group_id IS NOT NULL;

CREATE TABLE turn (
    task_id    INTEGER NOT NULL REFERENCES task,
    idx        INTEGER NOT NULL CHECK (idx >= 0),
    start_ms   INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms     INTEGER NOT NULL CHECK (end_ms >= start_ms),
    speaker_id INTEGER NOT NULL REFERENCES speaker ON DELETE CASCADE,
    PRIMARY KEY (task_id, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_speaker ON turn (speaker_id);

-- What the networks heard, until the recording is settled. Little-endian.
CREATE TABLE voice (
    task_id  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    first    INTEGER NOT NULL CHECK (first >= 0),
    windows  INTEGER NOT NULL CHECK (windows >= 0),
    frames   INTEGER NOT NULL CHECK (frames >= 0),
    speakers INTEGER NOT NULL CHECK (speakers BETWEEN 0 AND 8),
    size     INTEGER NOT NULL CHECK (size >= 0),
    active   BLOB NOT NULL CHECK (length(active) = windows * frames),
    heard    BLOB NOT NULL CHECK (length(heard) % 4 = 0),
    vectors  BLOB NOT NULL CHECK (length(vectors) = length(heard) * size),
    PRIMARY KEY (task_id, seq),
    FOREIGN KEY (task_id, seq) REFERENCES shard ON DELETE CASCADE
) STRICT;

CREATE TABLE sound (
    task_id  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    idx      INTEGER NOT NULL CHECK (idx >= 0),
    start_ms INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms   INTEGER NOT NULL CHECK (end_ms >= start_ms),
    class_id INTEGER NOT NULL,
    name     TEXT NOT NULL,
    score    REAL NOT NULL CHECK (score BETWEEN 0 AND 1),
    PRIMARY KEY (task_id, seq, idx),
    FOREIGN KEY (task_id, seq) REFERENCES shard ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX sound_name ON sound (name, score);

-- Vectors of length 1, little-endian float32, as sqlite-vec reads them.
CREATE TABLE embedding (
    embedding_id INTEGER PRIMARY KEY,
    task_id      INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    idx          INTEGER NOT NULL CHECK (idx >= 0),
    start_ms     INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms       INTEGER NOT NULL CHECK (end_ms >= start_ms),
    text         TEXT,
    vector       BLOB NOT NULL CHECK (length(vector) > 0 AND length(vector) % 4 = 0),
    UNIQUE (task_id, seq, idx),
    FOREIGN KEY (task_id, seq) REFERENCES shard ON DELETE CASCADE
) STRICT;

CREATE TABLE trouble (
    trouble_id INTEGER PRIMARY KEY,
    path       TEXT NOT NULL,
    path_raw   BLOB NOT NULL,
    member     TEXT NOT NULL,
    member_raw BLOB NOT NULL,
    nth        INTEGER NOT NULL DEFAULT 0 CHECK (nth >= 0),
    error_code TEXT NOT NULL,
    error      TEXT NOT NULL,
    job_id     INTEGER NOT NULL REFERENCES job,
    at         TEXT NOT NULL,
    UNIQUE (path_raw, member_raw, nth)
) STRICT;

CREATE VIRTUAL TABLE segment_fts USING fts5 (
    text, content = 'segment_current', content_rowid = 'segment_id',
    tokenize = 'unicode61 remove_diacritics 2'
);
-- With 4, the default, each entry is written again every four commits, and every sixteen, and so
-- on, which takes as long as all else of the index; a search opens some more of its pieces for it.
INSERT INTO segment_fts (segment_fts, rank) VALUES ('automerge', 8);

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

-- How long each channel of a recording has sound; channel 0: a track that was not decoded.
CREATE TABLE channel (
    media_id  INTEGER NOT NULL REFERENCES media,
    track     INTEGER NOT NULL CHECK (track > 0),
    channel   INTEGER NOT NULL CHECK (channel >= 0),
    sound_ms  INTEGER CHECK (sound_ms >= 0),
    length_ms INTEGER CHECK (length_ms >= 0),
    heard     INTEGER NOT NULL CHECK (heard IN (0, 1)),
    PRIMARY KEY (media_id, track, channel),
    CHECK ((channel = 0) = (sound_ms IS NULL)),
    CHECK (channel > 0 OR heard = 0)
) STRICT, WITHOUT ROWID;

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

-- Recordings that are to be here never again: nothing else is known of them.
CREATE TABLE erased (
    erased_id    INTEGER PRIMARY KEY,
    size_bytes   INTEGER NOT NULL,
    fingerprint  BLOB NOT NULL CHECK (length(fingerprint) = 16),
    content_hash BLOB CHECK (length(content_hash) = 16),
    erased_at    TEXT NOT NULL,
    erased_by    TEXT NOT NULL
) STRICT;
CREATE INDEX erased_identity ON erased (size_bytes, fingerprint);

CREATE TABLE recipe (
    path_raw   BLOB NOT NULL,
    kind       TEXT NOT NULL,
    path       TEXT NOT NULL,
    options    TEXT NOT NULL,
    model_hash TEXT NOT NULL,
    job_id     INTEGER REFERENCES job,
    PRIMARY KEY (path_raw, kind)
) STRICT, WITHOUT ROWID;

-- Of a recording's content, whatever transcription is current: `said` are words of the machine's, at
-- the time at which the transcription had them that was current then.
CREATE TABLE correction (
    correction_id INTEGER PRIMARY KEY,
    media_id      INTEGER NOT NULL REFERENCES media,
    start_ms      INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms        INTEGER NOT NULL CHECK (end_ms >= start_ms),
    said          TEXT NOT NULL CHECK (said <> ''),
    meant         TEXT NOT NULL,
    before        TEXT NOT NULL,
    after         TEXT NOT NULL,
    confirms      INTEGER NOT NULL CHECK (confirms IN (0, 1)),
    made_by       TEXT NOT NULL,
    made_at       TEXT NOT NULL,
    source        TEXT NOT NULL,
    state         TEXT NOT NULL
                  CHECK (state IN ('applied', 'agreed', 'conflict', 'undone', 'confirmed')),
    decided_by    TEXT,
    decided_at    TEXT
) STRICT;
CREATE INDEX correction_media ON correction (media_id, start_ms);
CREATE INDEX correction_conflict ON correction (media_id) WHERE state = 'conflict';

-- The words of the current transcription that a correction stands on: `words` of a segment's words as
-- the machine has them, from number `word` on. Of several segments only where they meet.
CREATE TABLE correction_at (
    correction_id INTEGER NOT NULL REFERENCES correction,
    segment_id    INTEGER NOT NULL REFERENCES segment ON DELETE CASCADE,
    word          INTEGER NOT NULL CHECK (word >= 0),
    words         INTEGER NOT NULL CHECK (words > 0),
    PRIMARY KEY (correction_id, segment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX correction_at_segment ON correction_at (segment_id);

-- Recordings of which a fact changed: whoever commits that publishes them before (store/reading).
CREATE TABLE reading_due (
    media_id INTEGER PRIMARY KEY REFERENCES media
) STRICT;

-- What a task hears by itself, where that is more than the mix: number 1 to 8 of `segment.source`.
CREATE TABLE source (
    task_id INTEGER NOT NULL REFERENCES task ON DELETE CASCADE,
    source  INTEGER NOT NULL CHECK (source > 0),
    label   TEXT NOT NULL CHECK (label <> ''),
    PRIMARY KEY (task_id, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE person (
    person_id INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE COLLATE NOCASE CHECK (name <> '')
) STRICT;

-- What people said of voices. The vectors are copies: they outlive the diarizations they are from.
CREATE TABLE person_voice (
    person_voice_id INTEGER PRIMARY KEY,
    person_id       INTEGER NOT NULL REFERENCES person,
    media_id        INTEGER NOT NULL REFERENCES media,
    speaker_id      INTEGER REFERENCES speaker ON DELETE SET NULL,
    denied          INTEGER NOT NULL CHECK (denied IN (0, 1)),
    model_hash      TEXT NOT NULL,
    vector          BLOB CHECK (length(vector) % 4 = 0),
    UNIQUE (speaker_id, person_id)
) STRICT;
CREATE INDEX person_voice_person ON person_voice (person_id);

CREATE TABLE person_like (
    speaker_id INTEGER NOT NULL REFERENCES speaker ON DELETE CASCADE,
    person_id  INTEGER NOT NULL REFERENCES person,
    likeness   REAL NOT NULL,
    PRIMARY KEY (speaker_id, person_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX person_like_person ON person_like (person_id);

CREATE TABLE voice_model (
    model_hash TEXT PRIMARY KEY,
    measured   INTEGER NOT NULL CHECK (measured IN (0, 1)),
    voices     INTEGER NOT NULL,
    people     INTEGER NOT NULL,
    name_from  REAL,
    group_from REAL,
    last_group INTEGER NOT NULL
) STRICT;

-- Who commits that compares them before (store/register).
CREATE TABLE speaker_due (
    speaker_id INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE person_due (
    person_id INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE run (
    run_id            INTEGER PRIMARY KEY,
    started_at        TEXT NOT NULL,
    seen_at           TEXT NOT NULL,
    ended_at          TEXT,
    why               TEXT CHECK (why IN ('done', 'until', 'interrupted', 'paused', 'failed', 'lost')),
    reason            TEXT NOT NULL DEFAULT '',
    devices           TEXT NOT NULL DEFAULT '',
    recordings_done   INTEGER NOT NULL DEFAULT 0 CHECK (recordings_done >= 0),
    recordings_failed INTEGER NOT NULL DEFAULT 0 CHECK (recordings_failed >= 0),
    recordings_left   INTEGER NOT NULL DEFAULT 0 CHECK (recordings_left >= 0),
    audio_ms          INTEGER NOT NULL DEFAULT 0 CHECK (audio_ms >= 0),
    work_ms           INTEGER NOT NULL DEFAULT 0 CHECK (work_ms >= 0)
) STRICT;

CREATE TABLE run_sample (
    run_id          INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    device          TEXT NOT NULL,
    at              TEXT NOT NULL,
    span_ms         INTEGER NOT NULL CHECK (span_ms >= 0),
    busy_ms         INTEGER NOT NULL CHECK (busy_ms >= 0),
    audio_ms        INTEGER NOT NULL CHECK (audio_ms >= 0),
    memory_bytes    INTEGER NOT NULL DEFAULT 0 CHECK (memory_bytes >= 0),
    predicted_bytes INTEGER NOT NULL DEFAULT 0 CHECK (predicted_bytes >= 0),
    slots           INTEGER NOT NULL DEFAULT 0 CHECK (slots >= 0),
    windows         INTEGER NOT NULL DEFAULT 0 CHECK (windows >= 0),
    seen_ms         INTEGER NOT NULL DEFAULT 0 CHECK (seen_ms >= 0),
    left_ms         INTEGER NOT NULL DEFAULT 0 CHECK (left_ms >= 0),
    load_ms         INTEGER CHECK (load_ms >= 0),
    energy_j        INTEGER CHECK (energy_j >= 0),
    temperature_c   INTEGER CHECK (temperature_c >= 0),
    used_bytes      INTEGER CHECK (used_bytes >= 0),
    PRIMARY KEY (run_id, device, at)
) STRICT, WITHOUT ROWID;
-- Samples of long ago go with each new one (store/runs.c).
CREATE INDEX run_sample_at ON run_sample (at);

-- ------------------------------------------------------------------------ what people read
--
-- In joins `m.media_id = +p.media_id` (true for every main place) lets a search begin at the places,
-- by path; the plus keeps it from looking a main place up among its duplicates.

CREATE VIEW segment_current AS
SELECT g.segment_id, g.text FROM segment g JOIN task t ON t.task_id = g.task_id WHERE t.current;

-- Each shows what is current; with `_all` it has the results of every stage, and says which are.
CREATE VIEW tasks AS
SELECT t.task_id, p.path, p.member, s.name AS stage, s.model,
       CASE WHEN t.state NOT IN ('pending', 'failed') THEN t.state
            WHEN t.absent THEN 'absent'
            WHEN t.state = 'failed' THEN 'failed'
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
WITH t AS (
    SELECT t.*, m.size_bytes, m.duration_ms,
           CASE WHEN NOT t.wanted THEN 'superseded'
                WHEN t.state NOT IN ('pending', 'failed') THEN t.state
                WHEN t.absent THEN 'absent' WHEN t.state = 'failed' THEN 'failed'
                WHEN t.paused THEN 'paused'
                WHEN t.waits = 'source' THEN 'waiting' ELSE 'pending' END AS is_in
    FROM task t JOIN media m ON m.media_id = t.media_id),
n AS (
    SELECT stage_id, sum(wanted) AS tasks, sum(is_in = 'done') AS done,
           sum(is_in = 'failed') AS failed, sum(is_in = 'pending') AS pending,
           sum(is_in = 'waiting') AS waiting, sum(is_in = 'paused') AS paused,
           sum(is_in = 'absent') AS absent, sum(is_in = 'cancelled') AS cancelled,
           sum(is_in = 'superseded') AS superseded,
           sum(is_in = 'pending' AND duration_ms IS NULL) AS unknown,
           sum(wanted * ifnull(duration_ms, 0)) AS audio_known_ms,
           sum(wanted * audio_done_ms) AS audio_done_ms,
           sum((is_in = 'pending') * max(ifnull(duration_ms, 0) - audio_done_ms, 0))
               AS audio_left_ms,
           sum((is_in = 'pending') * size_bytes) AS bytes_pending
    FROM t GROUP BY stage_id)
SELECT s.name AS stage, s.model, ifnull(n.tasks, 0) AS recordings, ifnull(n.done, 0) AS done,
       ifnull(n.failed, 0) AS failed, ifnull(n.pending, 0) AS pending,
       ifnull(n.waiting, 0) AS waiting, ifnull(n.paused, 0) AS paused,
       ifnull(n.absent, 0) AS absent, ifnull(n.cancelled, 0) AS cancelled,
       ifnull(n.unknown, 0) AS unknown,
       round(ifnull(n.audio_known_ms, 0) / 3600000.0, 2) AS hours_known,
       round(ifnull(n.audio_done_ms, 0) / 3600000.0, 2) AS hours_done,
       round(ifnull(n.audio_left_ms, 0) / 3600000.0, 2) AS hours_left,
       round(100.0 * ifnull(n.done + n.failed + n.cancelled, 0) / max(ifnull(n.tasks, 0), 1), 1)
           AS percent_settled,
       ifnull(n.bytes_pending, 0) AS bytes_pending, s.stage_id,
       ifnull(n.superseded, 0) AS superseded
FROM stage s LEFT JOIN n ON n.stage_id = s.stage_id;

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

CREATE VIEW tags AS
SELECT p.path, p.member, g.key, g.value, g.source, g.seq, g.media_id
FROM tag g
JOIN media m ON m.media_id = g.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE g.source <> 'chapter' AND NOT m.replaced;

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
WHERE g.source = 'chapter' AND NOT m.replaced;

CREATE VIEW channels AS
SELECT p.path, p.member, c.track, nullif(c.channel, 0) AS channel,
       CASE WHEN c.sound_ms IS NULL THEN NULL
            WHEN c.sound_ms >= 3600000
            THEN printf('%d:%02d:%02d', c.sound_ms / 3600000, c.sound_ms / 60000 % 60,
                        c.sound_ms / 1000 % 60)
            ELSE printf('%d:%02d', c.sound_ms / 60000, c.sound_ms / 1000 % 60) END AS sound,
       c.heard, c.sound_ms, c.length_ms, c.media_id
FROM channel c
JOIN media m ON m.media_id = c.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE NOT m.replaced;

-- A recording once for every reason, with all the stages that it kept from it.
CREATE VIEW failures AS
SELECT 'failed' AS kind, p.path, p.member, f.code, f.reason,
       (SELECT group_concat(name, ', ') FROM
        (SELECT s.name FROM task t JOIN stage s ON s.stage_id = t.stage_id
         WHERE t.media_id = f.media_id AND t.state = 'failed' AND t.wanted AND NOT t.absent
           AND t.error_code IS f.code AND t.error IS f.reason ORDER BY s.stage_id)) AS stage,
       f.attempts, f.at, f.media_id
FROM (SELECT media_id, error_code AS code, error AS reason, max(attempts) AS attempts,
             max(settled_at) AS at
      FROM task WHERE state = 'failed' AND wanted AND NOT absent
      GROUP BY media_id, error_code, error) f
JOIN media m ON m.media_id = f.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
UNION ALL
SELECT 'damaged', p.path, p.member, '', m.damage, '', 0, m.decoded_at, m.media_id
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE m.damage IS NOT NULL AND NOT m.replaced
UNION ALL
SELECT 'absent', p.path, p.member, 'missing',
       'not there any more when its folder was last enqueued; enqueue that again when it is back',
       (SELECT group_concat(name, ', ') FROM
        (SELECT s.name FROM task t JOIN stage s ON s.stage_id = t.stage_id
         WHERE t.media_id = f.media_id AND t.state IN ('pending', 'failed') AND t.absent = 1
           AND t.wanted
         ORDER BY s.stage_id)),
       f.attempts, ifnull(f.missed_at, p.gone_at), f.media_id
FROM (SELECT media_id, max(attempts) AS attempts,
             min(iif(state = 'failed' AND error_code = 'missing', settled_at, NULL)) AS missed_at
      FROM task INDEXED BY task_absent
      WHERE (state = 'pending' OR state = 'failed') AND absent = 1 AND wanted
      GROUP BY media_id) f
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

CREATE VIEW corrections AS
SELECT p.path, p.member,
       CASE WHEN c.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', c.start_ms / 3600000, c.start_ms / 60000 % 60,
                        c.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', c.start_ms / 60000, c.start_ms / 1000 % 60) END AS start,
       c.said, c.meant, c.state, c.made_by, c.made_at, c.source, c.decided_by, c.decided_at,
       c.before, c.after, c.start_ms, c.end_ms, c.media_id, c.correction_id
FROM correction c
JOIN media m ON m.media_id = c.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

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

-- Of each voice the person that it is most like, of each person the voice in a recording that is
-- most like theirs, and none where somebody has the name already.
CREATE VIEW proposals AS
SELECT p.path, p.member, k.label, n.name, l.likeness, v.measured, k.media_id, k.task_id,
       k.speaker_id, l.person_id
FROM person_like l
JOIN person n ON n.person_id = l.person_id
JOIN speaker k ON k.speaker_id = l.speaker_id
JOIN task t ON t.task_id = k.task_id
JOIN media m ON m.media_id = k.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN voice_model v ON v.model_hash = s.model_hash
WHERE t.current AND k.name IS NULL AND l.likeness >= v.name_from
  AND NOT EXISTS (SELECT 1 FROM person_like o WHERE o.speaker_id = l.speaker_id
                  AND (o.likeness > l.likeness
                       OR (o.likeness = l.likeness AND o.person_id < l.person_id)))
  AND NOT EXISTS (SELECT 1 FROM speaker x CROSS JOIN person_like o ON o.speaker_id = x.speaker_id
                  WHERE x.task_id = k.task_id AND x.name IS NULL AND o.person_id = l.person_id
                  AND (o.likeness > l.likeness
                       OR (o.likeness = l.likeness AND o.speaker_id < l.speaker_id)))
  AND NOT EXISTS (SELECT 1 FROM speaker x WHERE x.task_id = k.task_id AND n.name = x.name);

CREATE VIEW voice_groups AS
SELECT k.group_id, count(*) AS voices, count(DISTINCT k.media_id) AS recordings,
       round(sum(k.speech_ms) / 60000.0, 1) AS minutes, sum(k.speech_ms) AS speech_ms, s.model
FROM speaker k
JOIN task t ON t.task_id = k.task_id
JOIN stage s ON s.stage_id = t.stage_id
WHERE k.group_id IS NOT NULL AND t.current
GROUP BY k.group_id;

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
       s.name AS stage, s.model, k.media_id, k.task_id, k.speaker_id, t.current,
       (SELECT v.person_id FROM person_voice v
        WHERE v.speaker_id = k.speaker_id AND NOT v.denied) AS person_id,
       k.group_id
FROM speaker k
JOIN task t ON t.task_id = k.task_id
JOIN media m ON m.media_id = k.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW speakers AS
SELECT path, member, speaker, label, name, speech, minutes, speech_ms, turns, segments, stage,
       model, media_id, task_id, speaker_id, person_id, group_id
FROM speakers_all WHERE current;

CREATE VIEW results_all AS
SELECT path, member, stage, model_hash, params, seq, shard_start_ms, shard_end_ms, shard_language,
       language_prob, windows, dropped, idx, start_ms, end_ms, text, language, avg_logprob,
       no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason, words,
       speaker, sounds, vectors, current, source
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
                        ORDER BY e.idx)), NULL) AS vectors, t.current, x.label AS source
      FROM shard h
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      LEFT JOIN segment g ON g.task_id = h.task_id AND g.seq = h.seq
      LEFT JOIN speaker k ON k.speaker_id = g.speaker_id
      LEFT JOIN source x ON x.task_id = g.task_id AND x.source = g.source
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, p.nth, s.name, s.model_hash, s.params,
             h.seq, h.start_ms, h.end_ms, h.language, h.language_prob, h.windows, 1, d.idx,
             d.start_ms, d.end_ms, d.text, d.language, d.avg_logprob, d.no_speech_prob,
             d.compression_ratio, d.temperature, d.attempts, d.speech_prob, d.reason, NULL,
             NULL, NULL, NULL, t.current, x.label
      FROM dropped d
      JOIN shard h ON h.task_id = d.task_id AND h.seq = d.seq
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      LEFT JOIN source x ON x.task_id = d.task_id AND x.source = d.source
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, p.nth, s.name, s.model_hash, s.params,
             NULL, NULL, NULL, '', NULL, NULL, 0, u.idx, u.start_ms, u.end_ms, '', '',
             NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, k.label, NULL, hex(k.vector),
             t.current, NULL
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
       speaker, sounds, vectors, source
FROM results_all WHERE current;

CREATE VIEW recordings AS
SELECT m.media_id, p.path, p.member,
       -- The first of these that any of its tasks is in.
       (SELECT CASE min(CASE WHEN t.state = 'pending' THEN
                            CASE WHEN t.absent THEN 1 WHEN t.paused THEN 2
                                 WHEN t.waits = 'source' THEN 7
                                 WHEN t.shards_done > 0 THEN 3 ELSE 4 END
                             WHEN t.state = 'failed' THEN iif(t.absent, 1, 5)
                             WHEN t.state = 'cancelled' THEN 6 ELSE 8 END)
                    WHEN 1 THEN 'absent' WHEN 2 THEN 'paused' WHEN 3 THEN 'started'
                    WHEN 4 THEN 'pending' WHEN 5 THEN 'failed' WHEN 6 THEN 'cancelled'
                    WHEN 7 THEN 'waiting' ELSE 'done' END
        FROM task t WHERE t.media_id = m.media_id AND t.wanted) AS state,
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

-- Of a task that is done nothing is left, whatever its shards add up to; one that works on another's
-- text hears nothing.
CREATE VIEW archive AS
-- With a limit, so that SQLite does not ask for a state wherever it is used below.
WITH one AS (
    SELECT media_id, state, duration_ms, size_bytes FROM recordings LIMIT -1),
r AS (
    SELECT r.*, state IN ('pending', 'started') AS live,
           EXISTS (SELECT 1 FROM task t WHERE t.media_id = r.media_id AND t.wanted) AS asked,
           ifnull((SELECT min(CASE WHEN s.source_id IS NOT NULL THEN NULL
                                   WHEN t.state = 'done' THEN ifnull(r.duration_ms, t.audio_done_ms)
                                   ELSE min(t.audio_done_ms, ifnull(r.duration_ms, t.audio_done_ms))
                              END)
                   FROM task t JOIN stage s ON s.stage_id = t.stage_id
                   WHERE t.media_id = r.media_id AND t.wanted), 0) AS audio_done_ms
    FROM one r LIMIT -1),
n AS (
    SELECT count(*) AS recordings, sum(asked AND state = 'done') AS done,
           sum(state = 'failed') AS failed, sum(live) AS pending, sum(state = 'waiting') AS waiting,
           sum(state = 'paused') AS paused, sum(state = 'absent') AS absent,
           sum(state = 'cancelled') AS cancelled, sum(live AND duration_ms IS NULL) AS unknown,
           sum(asked * duration_ms) AS audio_known_ms, sum(audio_done_ms) AS audio_done_ms,
           sum(live * max(ifnull(duration_ms, 0) - audio_done_ms, 0)) AS audio_left_ms,
           sum((live AND duration_ms IS NULL) * size_bytes) AS bytes_unknown
    FROM r)
SELECT recordings, ifnull(done, 0) AS done, ifnull(failed, 0) AS failed,
       ifnull(pending, 0) AS pending, ifnull(waiting, 0) AS waiting, ifnull(paused, 0) AS paused,
       ifnull(absent, 0) AS absent, ifnull(cancelled, 0) AS cancelled,
       ifnull(unknown, 0) AS unknown,
       round(ifnull(audio_known_ms, 0) / 3600000.0, 2) AS hours_known,
       round(ifnull(audio_done_ms, 0) / 3600000.0, 2) AS hours_done,
       round(ifnull(audio_left_ms, 0) / 3600000.0, 2) AS hours_left,
       round(100.0 * ifnull(done + failed + cancelled, 0) / max(recordings, 1), 1)
           AS percent_settled,
       ifnull(bytes_unknown, 0) AS bytes_unknown
FROM n;

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

-- ------------------------------------------------------------------------------- triggers
--
-- For names and people alone, which may be written in sqlite3 too.

CREATE TRIGGER speaker_due_named AFTER UPDATE OF name ON speaker WHEN new.name IS NOT old.name BEGIN
    INSERT OR IGNORE INTO speaker_due VALUES (new.speaker_id);
    -- Whoever has another name now is not that person.
    DELETE FROM person_voice WHERE speaker_id = new.speaker_id AND NOT denied AND person_id NOT IN
        (SELECT person_id FROM person WHERE name = new.name);
END;

CREATE TRIGGER person_gone AFTER DELETE ON person BEGIN
    DELETE FROM person_like WHERE person_id = old.person_id;
    DELETE FROM person_voice WHERE person_id = old.person_id;
END;

CREATE TRIGGER person_named AFTER UPDATE OF name ON person BEGIN
    UPDATE speaker SET name = new.name WHERE speaker_id IN
        (SELECT speaker_id FROM person_voice WHERE person_id = new.person_id AND NOT denied);
END;

CREATE TRIGGER person_due_put AFTER INSERT ON person_voice BEGIN
    INSERT OR IGNORE INTO person_due VALUES (new.person_id);
END;

CREATE TRIGGER person_due_decided AFTER UPDATE OF denied ON person_voice
WHEN new.denied <> old.denied BEGIN
    INSERT OR IGNORE INTO person_due VALUES (new.person_id);
    DELETE FROM person WHERE person_id = new.person_id AND NOT EXISTS
        (SELECT 1 FROM person_voice WHERE person_id = new.person_id AND NOT denied);
END;

-- Who has no voice is not in the register.
CREATE TRIGGER person_due_gone AFTER DELETE ON person_voice BEGIN
    INSERT OR IGNORE INTO person_due VALUES (old.person_id);
    DELETE FROM person WHERE person_id = old.person_id AND NOT EXISTS
        (SELECT 1 FROM person_voice WHERE person_id = old.person_id AND NOT denied);
END;
