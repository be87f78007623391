-- Schema 5: a place in an archive is the archive's path, the member's name and its number among
-- the members of that name, which an archive may hold several of.
ALTER TABLE place ADD COLUMN nth INTEGER NOT NULL DEFAULT 0 CHECK (nth >= 0);
DROP INDEX place_current;
CREATE UNIQUE INDEX place_current ON place (path_raw, member_raw, nth) WHERE state <> 'replaced';

-- Of several members of one name only the last was kept, each replacing the one before it: a place
-- and one that it replaced then speak of the same state of the same archive. Such archives are read
-- anew by the next enqueue.
UPDATE place SET mtime_ns = -1
FROM (SELECT path_raw AS path, member_raw AS member, file_size_bytes AS size, mtime_ns AS mtime,
             inode AS node, device AS disk
      FROM place WHERE state = 'replaced' AND member_raw <> x'') AS was
WHERE path_raw = was.path AND member_raw = was.member AND state <> 'replaced'
  AND (file_size_bytes, mtime_ns, inode, device) = (was.size, was.mtime, was.node, was.disk);

DROP VIEW failures;
ALTER TABLE trouble RENAME TO trouble_4;
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
INSERT INTO trouble (trouble_id, path, path_raw, member, member_raw, error_code, error, job_id, at)
SELECT trouble_id, path, path_raw, member, member_raw, error_code, error, job_id, at
FROM trouble_4;
DROP TABLE trouble_4;

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

DROP VIEW results;
-- What must be equal between two catalogs of the same archive, however the runs went. What belongs
-- to a shard but is no text comes as one text per shard, with its first row; what was dropped comes
-- behind the segments of its shard; a diarization's turns come last, without a shard.
CREATE VIEW results AS
SELECT path, member, stage, model_hash, params, seq, shard_start_ms, shard_end_ms, shard_language,
       language_prob, windows, dropped, idx, start_ms, end_ms, text, language, avg_logprob,
       no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason, words,
       speaker, sounds, vectors
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
                        ORDER BY e.idx)), NULL) AS vectors
      FROM shard h
      JOIN task t ON t.task_id = h.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id
      LEFT JOIN segment g ON g.task_id = h.task_id AND g.seq = h.seq
      LEFT JOIN speaker k ON k.speaker_id = g.speaker_id
      UNION ALL
      SELECT p.path, p.member, p.path_raw, p.member_raw, p.nth, s.name, s.model_hash, s.params,
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
      SELECT p.path, p.member, p.path_raw, p.member_raw, p.nth, s.name, s.model_hash, s.params,
             NULL, NULL, NULL, '', NULL, NULL, 0, u.idx, u.start_ms, u.end_ms, '', '',
             NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, k.label, NULL, hex(k.vector)
      FROM turn u
      JOIN speaker k ON k.speaker_id = u.speaker_id
      JOIN task t ON t.task_id = u.task_id
      JOIN media m ON m.media_id = t.media_id
      JOIN stage s ON s.stage_id = t.stage_id
      JOIN place p ON p.place_id = m.place_id AND m.media_id = +p.media_id)
ORDER BY path_raw, member_raw, nth, stage, model_hash, params, seq IS NULL, seq, dropped, idx;
