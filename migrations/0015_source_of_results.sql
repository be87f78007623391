-- Schema 15: the results say which channel or track was heard.
-- docs/catalog-reference.md says what every column means.

DROP VIEW results;
DROP VIEW results_all;

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
