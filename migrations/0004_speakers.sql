-- Schema 4: who speaks, which sounds there are, and vectors to search by meaning.
-- docs/catalog-reference.md says what every column means.

-- The stage on whose results this one works (a transcription's vectors: the transcription).
ALTER TABLE stage ADD COLUMN source_id INTEGER REFERENCES stage;

-- Views that name what is made anew below.
DROP VIEW tasks;
DROP VIEW recordings;
DROP VIEW progress;
DROP VIEW speakers;
DROP VIEW transcript;
DROP VIEW words;
DROP VIEW results;

-- Tells a catalog from another one that took its name: files beside it say whose they are.
INSERT INTO setting (name, value) VALUES ('identity', lower(hex(randomblob(16))));

-- ------------------------------------------------------------------ tasks that wait for another
--
-- A pending task waits for its source's task of the same recording ('source'), or, with all its
-- shards there, for being settled as a whole ('settling'). Neither is leased.
ALTER TABLE task ADD COLUMN waits TEXT CHECK (waits IN ('source', 'settling'));
DROP INDEX task_runnable;
CREATE INDEX task_runnable ON task (stage_id)
    WHERE state = 'pending' AND paused = 0 AND absent = 0 AND waits IS NULL;
CREATE INDEX task_unsettled ON task (stage_id)
    WHERE state = 'pending' AND paused = 0 AND waits = 'settling';
DROP INDEX task_retry;
CREATE INDEX task_retry ON task (retry_at)
    WHERE state = 'pending' AND paused = 0 AND (absent = 0 OR waits = 'settling')
    AND waits IS NOT 'source' AND retry_at IS NOT NULL;

ALTER TABLE stage_total ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;

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
          FROM task WHERE media_id = new.media_id) AS t
    WHERE stage_id = t.of_stage;
END;

DROP TRIGGER task_insert;
CREATE TRIGGER task_insert AFTER INSERT ON task BEGIN
    UPDATE stage_total SET
        tasks = tasks + 1,
        pending = pending + m.now,
        waiting = waiting + (new.state = 'pending' AND new.paused = 0 AND new.absent = 0
                             AND new.waits IS 'source'),
        paused = paused + (new.state = 'pending' AND new.paused = 1 AND new.absent = 0),
        absent = absent + (new.state = 'pending' AND new.absent = 1),
        done = done + (new.state = 'done'),
        failed = failed + (new.state = 'failed'),
        cancelled = cancelled + (new.state = 'cancelled'),
        unknown = unknown + (m.duration_ms IS NULL) * m.now,
        bytes_pending = bytes_pending + m.size_bytes * m.now,
        audio_known_ms = audio_known_ms + ifnull(m.duration_ms, 0),
        audio_done_ms = audio_done_ms + new.audio_done_ms,
        audio_left_ms = audio_left_ms + max(ifnull(m.duration_ms, 0) - new.audio_done_ms, 0) * m.now
    FROM (SELECT size_bytes, duration_ms,
                 new.state = 'pending' AND new.paused = 0 AND new.absent = 0
                     AND new.waits IS NOT 'source' AS now
          FROM media WHERE media_id = new.media_id) AS m
    WHERE stage_id = new.stage_id;
END;

DROP TRIGGER task_update;
CREATE TRIGGER task_update AFTER UPDATE OF state, paused, absent, waits, audio_done_ms ON task BEGIN
    UPDATE stage_total SET
        pending = pending + m.now - m.was,
        waiting = waiting + (new.state = 'pending' AND new.paused = 0 AND new.absent = 0
                             AND new.waits IS 'source')
                          - (old.state = 'pending' AND old.paused = 0 AND old.absent = 0
                             AND old.waits IS 'source'),
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
                 new.state = 'pending' AND new.paused = 0 AND new.absent = 0
                     AND new.waits IS NOT 'source' AS now,
                 old.state = 'pending' AND old.paused = 0 AND old.absent = 0
                     AND old.waits IS NOT 'source' AS was
          FROM media WHERE media_id = new.media_id) AS m
    WHERE stage_id = new.stage_id;
END;

CREATE TRIGGER task_waits AFTER INSERT ON task
WHEN new.state = 'pending' AND (SELECT source_id FROM stage WHERE stage_id = new.stage_id)
BEGIN
    UPDATE task SET waits = 'source' WHERE task_id = new.task_id AND NOT EXISTS
        (SELECT 1 FROM task s WHERE s.media_id = new.media_id AND s.state = 'done' AND
         s.stage_id = (SELECT source_id FROM stage WHERE stage_id = new.stage_id));
END;

CREATE TRIGGER task_source_done AFTER UPDATE OF state ON task
WHEN new.state = 'done' AND old.state <> 'done' BEGIN
    UPDATE task SET waits = NULL
    WHERE media_id = new.media_id AND waits = 'source'
      AND stage_id IN (SELECT stage_id FROM stage WHERE source_id = new.stage_id);
END;

-- The source's results will be others: what was made of them goes, and is made again.
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
END;

-- ------------------------------------------------------------------------------------- speakers
--
-- Schemas 1 to 3 had the table and nothing that wrote it. A speaker now belongs to one diarization
-- of a recording.
UPDATE segment SET speaker_id = NULL WHERE speaker_id IS NOT NULL;
DROP TABLE speaker;
CREATE TABLE speaker (
    speaker_id INTEGER PRIMARY KEY,
    task_id    INTEGER NOT NULL REFERENCES task,
    media_id   INTEGER NOT NULL REFERENCES media,
    label      TEXT NOT NULL,
    name       TEXT,
    speech_ms  INTEGER NOT NULL CHECK (speech_ms >= 0),
    vector     BLOB CHECK (length(vector) % 4 = 0),
    UNIQUE (task_id, label)
) STRICT;
CREATE INDEX speaker_media ON speaker (media_id);
CREATE INDEX speaker_named ON speaker (name) WHERE name IS NOT NULL;

CREATE TABLE turn (
    task_id    INTEGER NOT NULL REFERENCES task,
    idx        INTEGER NOT NULL CHECK (idx >= 0),
    start_ms   INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms     INTEGER NOT NULL CHECK (end_ms >= start_ms),
    speaker_id INTEGER NOT NULL REFERENCES speaker,
    PRIMARY KEY (task_id, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_speaker ON turn (speaker_id);

CREATE INDEX segment_speaker ON segment (speaker_id) WHERE speaker_id IS NOT NULL;

-- Without REFERENCES: it would want an index over all words. The trigger below keeps it true.
ALTER TABLE word ADD COLUMN speaker_id INTEGER;

CREATE TRIGGER speaker_gone BEFORE DELETE ON speaker BEGIN
    DELETE FROM turn WHERE speaker_id = old.speaker_id;
    UPDATE word SET speaker_id = NULL
    WHERE speaker_id = old.speaker_id AND segment_id IN
        (SELECT g.segment_id FROM task t JOIN segment g ON g.task_id = t.task_id
         WHERE t.media_id = old.media_id);
    UPDATE segment SET speaker_id = NULL WHERE speaker_id = old.speaker_id;
END;

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
    FOREIGN KEY (task_id, seq) REFERENCES shard
) STRICT;

-- ----------------------------------------------------------------------------- sounds, vectors

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
    FOREIGN KEY (task_id, seq) REFERENCES shard
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
    FOREIGN KEY (task_id, seq) REFERENCES shard
) STRICT;

-- How many there are, and how often one was changed or went: an index of vectors that has seen both
-- numbers needs only what came after its highest id.
ALTER TABLE catalog_total ADD COLUMN embeddings INTEGER NOT NULL DEFAULT 0;
ALTER TABLE catalog_total ADD COLUMN embedding_edits INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER embedding_insert AFTER INSERT ON embedding BEGIN
    UPDATE catalog_total SET embeddings = embeddings + 1;
END;
CREATE TRIGGER embedding_delete AFTER DELETE ON embedding BEGIN
    UPDATE catalog_total SET embeddings = embeddings - 1, embedding_edits = embedding_edits + 1;
END;
CREATE TRIGGER embedding_update AFTER UPDATE ON embedding BEGIN
    UPDATE catalog_total SET embedding_edits = embedding_edits + 1;
END;

CREATE TRIGGER shard_stages AFTER DELETE ON shard BEGIN
    DELETE FROM voice WHERE task_id = old.task_id AND seq = old.seq;
    DELETE FROM sound WHERE task_id = old.task_id AND seq = old.seq;
    DELETE FROM embedding WHERE task_id = old.task_id AND seq = old.seq;
    -- Turns are of all shards of a diarization together.
    DELETE FROM speaker WHERE task_id = old.task_id;
END;

-- --------------------------------------------------------------------------------------- views

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
       t.job_id, t.media_id, t.stage_id
FROM task t
JOIN media m ON m.media_id = t.media_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
JOIN stage s ON s.stage_id = t.stage_id;

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
       m.damage, p.state AS place_state, m.created_at, m.decoded_at
FROM media m JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW progress AS
SELECT s.name AS stage, s.model, n.tasks AS recordings, n.done, n.failed, n.pending, n.waiting,
       n.paused, n.absent, n.cancelled, n.unknown,
       round(n.audio_known_ms / 3600000.0, 2) AS hours_known,
       round(n.audio_done_ms / 3600000.0, 2) AS hours_done,
       round(n.audio_left_ms / 3600000.0, 2) AS hours_left,
       round(100.0 * (n.done + n.failed + n.cancelled) / max(n.tasks, 1), 1) AS percent_settled,
       n.bytes_pending, s.stage_id
FROM stage s JOIN stage_total n ON n.stage_id = s.stage_id;

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
       g.temperature, g.attempts, g.speech_prob, g.reason,
       p.state AS place_state, t.media_id, g.task_id, g.segment_id, g.speaker_id
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = g.speaker_id;

CREATE VIEW words AS
SELECT p.path, p.member,
       CASE WHEN w.start_ms >= 3600000
            THEN printf('%d:%02d:%02d.%03d', w.start_ms / 3600000, w.start_ms / 60000 % 60,
                        w.start_ms / 1000 % 60, w.start_ms % 1000)
            ELSE printf('%d:%02d.%03d', w.start_ms / 60000, w.start_ms / 1000 % 60,
                        w.start_ms % 1000) END AS start,
       trim(w.text) AS word, ifnull(k.name, k.label) AS speaker, w.probability, w.start_ms,
       w.end_ms, g.language, w.idx, s.name AS stage, s.model, t.media_id, g.task_id, g.segment_id,
       w.speaker_id
FROM word w
JOIN segment g ON g.segment_id = w.segment_id
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = w.speaker_id;

CREATE VIEW speakers AS
SELECT p.path, p.member, ifnull(k.name, k.label) AS speaker, k.label, k.name,
       CASE WHEN k.speech_ms >= 3600000
            THEN printf('%d:%02d:%02d', k.speech_ms / 3600000, k.speech_ms / 60000 % 60,
                        k.speech_ms / 1000 % 60)
            ELSE printf('%d:%02d', k.speech_ms / 60000, k.speech_ms / 1000 % 60) END AS speech,
       round(k.speech_ms / 60000.0, 1) AS minutes, k.speech_ms,
       (SELECT count(*) FROM turn u WHERE u.speaker_id = k.speaker_id) AS turns,
       (SELECT count(*) FROM segment g WHERE g.speaker_id = k.speaker_id) AS segments,
       s.name AS stage, s.model, k.media_id, k.task_id, k.speaker_id
FROM speaker k
JOIN task t ON t.task_id = k.task_id
JOIN media m ON m.media_id = k.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW turns AS
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
       s.name AS stage, s.model, t.media_id, u.task_id, u.speaker_id
FROM turn u
JOIN speaker k ON k.speaker_id = u.speaker_id
JOIN task t ON t.task_id = u.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

CREATE VIEW sounds AS
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
       s.name AS stage, s.model, t.media_id, d.task_id
FROM sound d
JOIN task t ON t.task_id = d.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

-- `source` is the transcription's stage; passages of sound (embed-audio) have none, and no text.
CREATE VIEW passages AS
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
       s.name AS stage, s.model, s.source_id, t.media_id, e.task_id, e.embedding_id
FROM embedding e
JOIN task t ON t.task_id = e.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

-- What must be equal between two catalogs of the same archive, however the runs went. What belongs
-- to a shard but is no text comes as one text per shard, with its first row; what was dropped comes
-- behind the segments of its shard; a diarization's turns come last, without a shard.
CREATE VIEW results AS
SELECT path, member, stage, model_hash, params, seq, shard_start_ms, shard_end_ms, shard_language,
       language_prob, windows, dropped, idx, start_ms, end_ms, text, language, avg_logprob,
       no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason, words,
       speaker, sounds, vectors
FROM (SELECT p.path, p.member, p.path_raw, p.member_raw, s.name AS stage, s.model_hash, s.params,
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
                        ORDER BY e.idx)), NULL) AS vectors
      FROM shard h
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      LEFT JOIN segment g ON g.task_id = h.task_id AND g.seq = h.seq
      LEFT JOIN speaker k ON k.speaker_id = g.speaker_id
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, s.name, s.model_hash, s.params,
             h.seq, h.start_ms, h.end_ms, h.language, h.language_prob, h.windows, 1, d.idx,
             d.start_ms, d.end_ms, d.text, d.language, d.avg_logprob, d.no_speech_prob,
             d.compression_ratio, d.temperature, d.attempts, d.speech_prob, d.reason, NULL,
             NULL, NULL, NULL
      FROM dropped d
      JOIN shard h ON h.task_id = d.task_id AND h.seq = d.seq
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, s.name, s.model_hash, s.params,
             NULL, NULL, NULL, '', NULL, NULL, 0, u.idx, u.start_ms, u.end_ms, '', '',
             NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, k.label, NULL, hex(k.vector)
      FROM turn u
      JOIN speaker k ON k.speaker_id = u.speaker_id
      JOIN task t ON t.task_id = u.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id)
ORDER BY path_raw, member_raw, stage, model_hash, params, seq IS NULL, seq, dropped, idx;
