#include "store/choice/drop.h"

/* Indexes beside the catalog have vectors that are no more (vectors/vector_file.h). */
static int note_vectors(struct store *st, int64_t task_id, struct err *err)
{
    return db_run(st, err,
                  "INSERT INTO setting (name, value) SELECT 'embedding_edits', '1' "
                  "WHERE EXISTS (SELECT 1 FROM embedding WHERE task_id = ?) "
                  "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
                  "i", task_id);
}

int drop_found(struct store *st, int64_t task_id, struct err *err)
{
    int rc = note_vectors(st, task_id, err);

    if (rc == 0)
        rc = db_run(st, err, "DELETE FROM shard WHERE task_id = ?", "i", task_id);
    return rc < 0 ? rc
                  : db_run(st, err,
                           "UPDATE task SET shards_done = 0, audio_done_ms = 0, speech_ms = NULL, "
                           "dropped_ms = 0, missing_ms = 0 WHERE task_id = ?",
                           "i", task_id);
}
