/* store/parting/shard_held.h - a shard's results as they lie in a catalog: what store_shard_done
 * was once given. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_PARTING_SHARD_HELD_H
#define NIGHTSHIFT_STORE_PARTING_SHARD_HELD_H

#include "store/db.h"

struct shard_held; /* room that is used again for the next shard */

struct shard_held *shard_held_new(void);    /* NULL: no memory */
void shard_held_free(struct shard_held *h); /* NULL is fine */
/* *r is valid until the next call. Segments are the machine's.
 * ERR_EMPTY: there is no such shard; ERR_INPUT: impossible values; ERR_LIMIT: more than a shard can
 * have. */
int shard_held_read(struct shard_held *h, struct store *st, int64_t task_id, uint32_t seq,
                    struct store_shard_result *r, struct err *err);

#endif
