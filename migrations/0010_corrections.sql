-- Schema 10: what people corrected, and the machine's words beside it.
-- docs/catalog-reference.md says what every column means.

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
    segment_id    INTEGER NOT NULL REFERENCES segment,
    word          INTEGER NOT NULL CHECK (word >= 0),
    words         INTEGER NOT NULL CHECK (words > 0),
    PRIMARY KEY (correction_id, segment_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX correction_at_segment ON correction_at (segment_id);

-- `text` is what people see. NULL: those are the machine's words.
ALTER TABLE segment ADD COLUMN heard TEXT;
CREATE INDEX segment_heard ON segment (task_id) WHERE heard IS NOT NULL;

-- The machine's words of segments that have corrected ones in `word`.
CREATE TABLE word_heard (
    segment_id  INTEGER NOT NULL REFERENCES segment,
    idx         INTEGER NOT NULL CHECK (idx >= 0),
    start_ms    INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms      INTEGER NOT NULL CHECK (end_ms >= start_ms),
    text        TEXT NOT NULL,
    probability REAL,
    speaker_id  INTEGER,
    PRIMARY KEY (segment_id, idx)
) STRICT, WITHOUT ROWID;

-- Before, because what refers to a row goes before it.
CREATE TRIGGER segment_corrected BEFORE DELETE ON segment BEGIN
    DELETE FROM word_heard WHERE segment_id = old.segment_id;
    DELETE FROM correction_at WHERE segment_id = old.segment_id;
END;

DROP TRIGGER speaker_gone;
CREATE TRIGGER speaker_gone BEFORE DELETE ON speaker BEGIN
    DELETE FROM turn WHERE speaker_id = old.speaker_id;
    UPDATE word SET speaker_id = NULL
    WHERE speaker_id = old.speaker_id AND segment_id IN
        (SELECT g.segment_id FROM task t JOIN segment g ON g.task_id = t.task_id
         WHERE t.media_id = old.media_id);
    UPDATE word_heard SET speaker_id = NULL
    WHERE speaker_id = old.speaker_id AND segment_id IN
        (SELECT g.segment_id FROM task t JOIN segment g ON g.task_id = t.task_id
         WHERE t.media_id = old.media_id AND g.heard IS NOT NULL);
    UPDATE segment SET speaker_id = NULL WHERE speaker_id = old.speaker_id;
END;

-- ------------------------------------------------------------ whose corrections are to be placed
--
-- Recordings of which another transcription is current, or of whose transcription another piece is
-- there: who commits that places their corrections before (store/corrections).
CREATE TABLE correction_due (
    media_id INTEGER PRIMARY KEY REFERENCES media
) STRICT;

CREATE TRIGGER correction_current AFTER UPDATE OF current ON task
WHEN new.current <> old.current
     AND (SELECT name FROM stage WHERE stage_id = new.stage_id) = 'transcribe'
     AND EXISTS (SELECT 1 FROM correction WHERE media_id = new.media_id) BEGIN
    INSERT OR IGNORE INTO correction_due VALUES (new.media_id);
END;
CREATE TRIGGER correction_task_gone AFTER DELETE ON task
WHEN old.current AND (SELECT name FROM stage WHERE stage_id = old.stage_id) = 'transcribe'
     AND EXISTS (SELECT 1 FROM correction WHERE media_id = old.media_id) BEGIN
    INSERT OR IGNORE INTO correction_due VALUES (old.media_id);
END;
CREATE TRIGGER correction_shard AFTER INSERT ON shard
WHEN EXISTS (SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id
             JOIN correction c ON c.media_id = t.media_id
             WHERE t.task_id = new.task_id AND s.name = 'transcribe') BEGIN
    INSERT OR IGNORE INTO correction_due SELECT media_id FROM task WHERE task_id = new.task_id;
END;
CREATE TRIGGER correction_shard_gone AFTER DELETE ON shard
WHEN EXISTS (SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id
             JOIN correction c ON c.media_id = t.media_id
             WHERE t.task_id = old.task_id AND s.name = 'transcribe') BEGIN
    INSERT OR IGNORE INTO correction_due SELECT media_id FROM task WHERE task_id = old.task_id;
END;

-- --------------------------------------------------------------------------------------- views
DROP VIEW transcript;
DROP VIEW transcript_all;
DROP VIEW doubts;
DROP VIEW doubts_all;

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
       p.state AS place_state, t.media_id, g.task_id, g.segment_id, g.speaker_id, t.current
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = g.speaker_id;

CREATE VIEW transcript AS
SELECT path, member, start, "end", speaker, text, heard, language, start_ms, end_ms, stage, model,
       avg_logprob, no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason,
       place_state, media_id, task_id, segment_id, speaker_id
FROM transcript_all WHERE current AND (text <> '' OR heard IS NULL);

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
