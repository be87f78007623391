-- Schema 7: what the archive says of itself: tags of the containers, their chapters, and columns
-- of tables that lie beside the files; from them when a recording was made.

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
