-- Schema 13: voices that are known again: people whose names hold for the archive, and groups of
-- voices that nobody named. docs/catalog-reference.md says what every column means.

-- ------------------------------------------------------------------------------------ the register
CREATE TABLE person (
    person_id INTEGER PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE COLLATE NOCASE CHECK (name <> '')
) STRICT;

-- What people said of voices. The vectors are copies: they outlive the diarizations they are from.
CREATE TABLE person_voice (
    person_voice_id INTEGER PRIMARY KEY,
    person_id       INTEGER NOT NULL REFERENCES person,
    media_id        INTEGER NOT NULL REFERENCES media,
    speaker_id      INTEGER REFERENCES speaker,
    denied          INTEGER NOT NULL CHECK (denied IN (0, 1)),
    model_hash      TEXT NOT NULL,
    vector          BLOB CHECK (length(vector) % 4 = 0),
    UNIQUE (speaker_id, person_id)
) STRICT;
CREATE INDEX person_voice_person ON person_voice (person_id);

-- ------------------------------------------------------------------ made of it, and of the vectors
CREATE TABLE person_like (
    speaker_id INTEGER NOT NULL REFERENCES speaker,
    person_id  INTEGER NOT NULL REFERENCES person,
    likeness   REAL NOT NULL,
    PRIMARY KEY (speaker_id, person_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX person_like_person ON person_like (person_id);

ALTER TABLE speaker ADD COLUMN group_id INTEGER;
CREATE INDEX speaker_group ON speaker (group_id) WHERE group_id IS NOT NULL;

CREATE TABLE voice_model (
    model_hash TEXT PRIMARY KEY,
    measured   INTEGER NOT NULL CHECK (measured IN (0, 1)),
    voices     INTEGER NOT NULL,
    people     INTEGER NOT NULL,
    name_from  REAL,
    group_from REAL,
    last_group INTEGER NOT NULL
) STRICT;

-- --------------------------------------------------------------- what is to be compared (anew)
--
-- Who commits that compares them before (store/register).
CREATE TABLE speaker_due (
    speaker_id INTEGER PRIMARY KEY
) STRICT;
CREATE TABLE person_due (
    person_id INTEGER PRIMARY KEY
) STRICT;

CREATE TRIGGER speaker_due_current AFTER UPDATE OF current, state ON task
WHEN new.current <> old.current OR (new.state = 'done') <> (old.state = 'done') BEGIN
    INSERT OR IGNORE INTO speaker_due SELECT speaker_id FROM speaker WHERE task_id = new.task_id;
END;
CREATE TRIGGER speaker_due_named AFTER UPDATE OF name ON speaker WHEN new.name IS NOT old.name BEGIN
    INSERT OR IGNORE INTO speaker_due VALUES (new.speaker_id);
    -- Whoever has another name now is not that person.
    DELETE FROM person_voice WHERE speaker_id = new.speaker_id AND NOT denied AND person_id NOT IN
        (SELECT person_id FROM person WHERE name = new.name);
END;
CREATE TRIGGER speaker_gone_known BEFORE DELETE ON speaker BEGIN
    UPDATE person_voice SET speaker_id = NULL WHERE speaker_id = old.speaker_id;
    DELETE FROM person_like WHERE speaker_id = old.speaker_id;
    -- A group of one is none.
    INSERT OR IGNORE INTO speaker_due SELECT speaker_id FROM speaker
    WHERE group_id = old.group_id AND speaker_id <> old.speaker_id
      AND (SELECT count(*) FROM speaker WHERE group_id = old.group_id) = 2;
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
CREATE TRIGGER person_gone AFTER DELETE ON person BEGIN
    DELETE FROM person_like WHERE person_id = old.person_id;
    DELETE FROM person_voice WHERE person_id = old.person_id;
END;
CREATE TRIGGER person_named AFTER UPDATE OF name ON person BEGIN
    UPDATE speaker SET name = new.name WHERE speaker_id IN
        (SELECT speaker_id FROM person_voice WHERE person_id = new.person_id AND NOT denied);
END;

-- Those of older schemas are compared by the first that writes.
INSERT INTO speaker_due
SELECT k.speaker_id FROM speaker k JOIN task t ON t.task_id = k.task_id
WHERE t.current AND k.vector IS NOT NULL;

-- --------------------------------------------------------------------------------------- views
--
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

DROP VIEW speakers;
DROP VIEW speakers_all;
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
