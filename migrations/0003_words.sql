-- Schema 3: when each word was said, why a text was doubted, what was heard and not believed, and
-- what a device was measured with. docs/catalog-reference.md says what every column means.

ALTER TABLE segment ADD COLUMN attempts INTEGER CHECK (attempts > 0);
ALTER TABLE segment ADD COLUMN speech_prob REAL CHECK (speech_prob BETWEEN 0 AND 1);
ALTER TABLE segment ADD COLUMN reason TEXT NOT NULL DEFAULT '';
CREATE INDEX segment_doubted ON segment (task_id) WHERE reason <> '';

-- For people's searches of the views by path, which is otherwise found by its bytes alone.
CREATE INDEX place_path ON place (path);

CREATE TABLE word (
    segment_id  INTEGER NOT NULL REFERENCES segment,
    idx         INTEGER NOT NULL CHECK (idx >= 0),
    start_ms    INTEGER NOT NULL CHECK (start_ms >= 0),
    end_ms      INTEGER NOT NULL CHECK (end_ms >= start_ms),
    text        TEXT NOT NULL,
    probability REAL,
    PRIMARY KEY (segment_id, idx)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER segment_words AFTER DELETE ON segment BEGIN
    DELETE FROM word WHERE segment_id = old.segment_id;
END;

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
    PRIMARY KEY (task_id, seq, idx),
    FOREIGN KEY (task_id, seq) REFERENCES shard
) STRICT, WITHOUT ROWID;

CREATE TRIGGER shard_dropped AFTER DELETE ON shard BEGIN
    DELETE FROM dropped WHERE task_id = old.task_id AND seq = old.seq;
END;

CREATE VIEW words AS
SELECT p.path, p.member,
       CASE WHEN w.start_ms >= 3600000
            THEN printf('%d:%02d:%02d.%03d', w.start_ms / 3600000, w.start_ms / 60000 % 60,
                        w.start_ms / 1000 % 60, w.start_ms % 1000)
            ELSE printf('%d:%02d.%03d', w.start_ms / 60000, w.start_ms / 1000 % 60,
                        w.start_ms % 1000) END AS start,
       trim(w.text) AS word, w.probability, w.start_ms, w.end_ms, g.language, w.idx,
       s.name AS stage, s.model, t.media_id, g.task_id, g.segment_id
FROM word w
JOIN segment g ON g.segment_id = w.segment_id
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

-- Two complete joins, so that a search by path or recording reaches both.
CREATE VIEW doubts AS
SELECT p.path, p.member,
       CASE WHEN g.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', g.start_ms / 3600000, g.start_ms / 60000 % 60,
                        g.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', g.start_ms / 60000, g.start_ms / 1000 % 60) END AS start,
       'kept' AS outcome, g.text, g.reason, g.language, g.start_ms, g.end_ms,
       g.avg_logprob, g.no_speech_prob, g.compression_ratio, g.temperature, g.attempts,
       g.speech_prob, s.name AS stage, s.model, t.media_id, g.task_id, g.segment_id
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
WHERE g.reason <> ''
UNION ALL
SELECT p.path, p.member,
       CASE WHEN d.start_ms >= 3600000
            THEN printf('%d:%02d:%02d', d.start_ms / 3600000, d.start_ms / 60000 % 60,
                        d.start_ms / 1000 % 60)
            ELSE printf('%d:%02d', d.start_ms / 60000, d.start_ms / 1000 % 60) END,
       'dropped', d.text, d.reason, d.language, d.start_ms, d.end_ms,
       d.avg_logprob, d.no_speech_prob, d.compression_ratio, d.temperature, d.attempts,
       d.speech_prob, s.name, s.model, t.media_id, d.task_id, NULL
FROM dropped d
JOIN task t ON t.task_id = d.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id;

DROP VIEW transcript;
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
       p.state AS place_state, t.media_id, g.task_id, g.segment_id
FROM segment g
JOIN task t ON t.task_id = g.task_id
JOIN media m ON m.media_id = t.media_id
JOIN stage s ON s.stage_id = t.stage_id
JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
LEFT JOIN speaker k ON k.speaker_id = g.speaker_id;

-- Words as one text per segment, so that there is a row per segment as before; what was dropped
-- comes behind the segments of its shard.
DROP VIEW results;
CREATE VIEW results AS
SELECT path, member, stage, model_hash, params, seq, shard_start_ms, shard_end_ms, shard_language,
       language_prob, windows, dropped, idx, start_ms, end_ms, text, language, avg_logprob,
       no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason, words
FROM (SELECT p.path, p.member, p.path_raw, p.member_raw, s.name AS stage, s.model_hash, s.params,
             h.seq, h.start_ms AS shard_start_ms, h.end_ms AS shard_end_ms,
             h.language AS shard_language, h.language_prob, h.windows, 0 AS dropped, g.idx,
             g.start_ms, g.end_ms, g.text, g.language, g.avg_logprob, g.no_speech_prob,
             g.compression_ratio, g.temperature, g.attempts, g.speech_prob, g.reason,
             (SELECT group_concat(json_array(start_ms, end_ms, text, probability))
              FROM (SELECT * FROM word w WHERE w.segment_id = g.segment_id ORDER BY w.idx))
                 AS words
      FROM shard h
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      LEFT JOIN segment g ON g.task_id = h.task_id AND g.seq = h.seq
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, s.name, s.model_hash, s.params,
             h.seq, h.start_ms, h.end_ms, h.language, h.language_prob, h.windows, 1, d.idx,
             d.start_ms, d.end_ms, d.text, d.language, d.avg_logprob, d.no_speech_prob,
             d.compression_ratio, d.temperature, d.attempts, d.speech_prob, d.reason, NULL
      FROM dropped d
      JOIN shard h ON h.task_id = d.task_id AND h.seq = d.seq
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id)
ORDER BY path_raw, member_raw, stage, model_hash, params, seq, dropped, idx;

-- A batch belongs to a way of decoding as well: beams take more of a device than one hypothesis.
CREATE TABLE new_tuning (
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
    PRIMARY KEY (device_id, driver, model_hash, precision, decoding)
) STRICT, WITHOUT ROWID;
INSERT INTO new_tuning
SELECT device_id, driver, model_hash, precision, '', slots, windows, rate, predicted_bytes,
       peak_bytes, oom_count, at
FROM tuning;
DROP TABLE tuning;
ALTER TABLE new_tuning RENAME TO tuning;
