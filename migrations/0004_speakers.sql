-- Schema 4: who speaks, which sounds there are, and vectors to search by meaning. docs/catalog.md
-- says what every column means.

-- The stage on whose results this one works (a transcription's vectors: the transcription).
ALTER TABLE stage ADD COLUMN source_id INTEGER REFERENCES stage;

-- Schemas 1 to 3 had the table and nothing that wrote it. A speaker now belongs to one diarization
-- of a recording.
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

ALTER TABLE word ADD COLUMN speaker_id INTEGER REFERENCES speaker;

-- What the networks heard, until the recording is settled.
CREATE TABLE voice (
    task_id      INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    first        INTEGER NOT NULL CHECK (first >= 0),
    windows      INTEGER NOT NULL CHECK (windows >= 0),
    frames       INTEGER NOT NULL,
    speakers     INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    active       BLOB NOT NULL,
    heard        BLOB NOT NULL, -- uint32: window * speakers + local speaker
    vectors      BLOB NOT NULL,
    PRIMARY KEY (task_id, seq),
    FOREIGN KEY (task_id, seq) REFERENCES shard
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

CREATE TRIGGER shard_stages AFTER DELETE ON shard BEGIN
    DELETE FROM voice WHERE task_id = old.task_id AND seq = old.seq;
    DELETE FROM sound WHERE task_id = old.task_id AND seq = old.seq;
    DELETE FROM embedding WHERE task_id = old.task_id AND seq = old.seq;
END;
