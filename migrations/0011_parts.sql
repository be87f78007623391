-- Schema 11: segments in which several people speak are parted between them.
-- docs/catalog-reference.md says what every column means.

-- Parts follow each other in idx, beginning with part 0. A segment that is whole has part 0, too.
ALTER TABLE segment ADD COLUMN part INTEGER NOT NULL DEFAULT 0 CHECK (part >= 0);
CREATE INDEX segment_part ON segment (task_id, seq) WHERE part > 0;

-- What the machine made of those that are parted, at their part 0: the parts are joined to it when
-- others speak, and parted anew.
CREATE TABLE parted (
    segment_id  INTEGER PRIMARY KEY REFERENCES segment,
    end_ms      INTEGER NOT NULL CHECK (end_ms >= 0),
    text        TEXT NOT NULL,
    avg_logprob REAL
) STRICT;

CREATE TRIGGER segment_parted BEFORE DELETE ON segment BEGIN
    DELETE FROM parted WHERE segment_id = old.segment_id;
END;

-- ----------------------------------------------------- whose segments are still to be parted
--
-- Recordings whose speakers were given by an earlier version: a run parts them before it begins.
CREATE TABLE parting_due (
    media_id INTEGER PRIMARY KEY REFERENCES media
) STRICT;
INSERT INTO parting_due SELECT DISTINCT media_id FROM speaker;
