#include "store/results/channels.h"

static int put(struct store *st, int64_t media_id, const struct result_channel *c, struct err *err)
{
    if (c->channel == 0) /* unless an earlier pass decoded it */
        return db_run(st, err,
                      "INSERT INTO channel (media_id, track, channel, length_ms, heard) "
                      "SELECT ?1, ?2, 0, nullif(?3, -1), 0 WHERE NOT EXISTS "
                      "(SELECT 1 FROM channel WHERE media_id = ?1 AND track = ?2)",
                      "iii", media_id, (int64_t)c->track, c->length_ms);
    return db_run(st, err,
                  "INSERT INTO channel (media_id, track, channel, sound_ms, length_ms, heard) "
                  "VALUES (?, ?, ?, ?, ?, ?)",
                  "iiiiii", media_id, (int64_t)c->track, (int64_t)c->channel, c->sound_ms,
                  c->length_ms, (int64_t)c->heard);
}

int channels_found(struct store *st, int64_t media_id, const struct result_channel *list,
                   uint32_t count, struct err *err)
{
    int rc = db_run(st, err, "UPDATE channel SET heard = 0 WHERE media_id = ?", "i", media_id);

    for (uint32_t i = 0; rc == 0 && i < count; i++)
        if (list[i].channel && (i == 0 || list[i].track != list[i - 1].track))
            rc = db_run(st, err, "DELETE FROM channel WHERE media_id = ? AND track = ?", "ii",
                        media_id, (int64_t)list[i].track);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = put(st, media_id, &list[i], err);
    return rc;
}
