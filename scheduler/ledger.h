/* scheduler/ledger.h - results on their way into the catalog: kept in memory until they are
 * durable.
 *
 * Entries are put in any number and written in their order by ledger_flush, all in one commit.
 * Entries that a flush could not write stay: after a full disk nothing is lost while the run lives.
 * An entry that the catalog refuses by itself (impossible values) becomes a failure of its task, so
 * that it can never block the others. Loop thread only. */
#ifndef NIGHTSHIFT_SCHEDULER_LEDGER_H
#define NIGHTSHIFT_SCHEDULER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/runs.h"
#include "store/store.h"
#include "store/tuning.h"
#include "workers/wire/protocol.h"

struct ledger;

/* Called after the commit for each entry that the catalog refused. */
typedef void (*ledger_refused_fn)(void *arg, int64_t task, const struct err *err);

/* Borrows the store. NULL when out of memory. */
struct ledger *ledger_new(struct store *st, ledger_refused_fn refused, void *arg);
void ledger_free(struct ledger *l); /* NULL is fine; what was not flushed is lost */

/* Each returns 0 or ERR_NOMEM (nothing was added). Strings are copied; ledger_shard, _settled and
 * _media take over what *m owns and zero it, also on failure. */
int ledger_shard(struct ledger *l, int64_t task, const char *device, struct msg_shard_done *m,
                 struct err *err);
/* Like ledger_shard, for a stage that works on passages: their texts go with the vectors. Takes
 * over `passages` too, m->vector_count of them; NULL when there are none. */
int ledger_passages(struct ledger *l, int64_t task, const char *device, struct msg_shard_done *m,
                    struct result_passage *passages, struct err *err);
int ledger_finalized(struct ledger *l, int64_t task, struct msg_finalized *m, struct err *err);
/* Also notes what the n tasks hear of the recording and what they leave out (m->sources,
 * m->left_out, m->mix_left_out); n is at most SETUP_MAX_STAGES. */
int ledger_media(struct ledger *l, struct msg_media *m, const int64_t *tasks, uint32_t n,
                 struct err *err);
int ledger_media_end(struct ledger *l, const struct msg_lease_end *m, struct err *err);
/* Its true length alone: LEASE_END has the rest. */
int ledger_media_length(struct ledger *l, int64_t media, int64_t total_ms, struct err *err);
int ledger_total(struct ledger *l, int64_t task, uint32_t shards, struct err *err);
/* retry_at_ms: as store_task_failed. */
int ledger_failed(struct ledger *l, int64_t task, int code, const char *message,
                  int64_t retry_at_ms, struct err *err);
/* Like store_task_suspect. */
int ledger_suspect(struct ledger *l, int64_t task, uint32_t deaths, int64_t retry_at_ms,
                   struct err *err);
int ledger_event(struct ledger *l, const char *kind, int64_t media, const char *device,
                 const char *text, struct err *err);
int ledger_tuning(struct ledger *l, const struct store_tuning_key *key,
                  const struct store_tuning *t, struct err *err);
int ledger_run(struct ledger *l, const struct store_run *r, struct err *err);
int ledger_sample(struct ledger *l, const struct store_sample *s, struct err *err);

size_t ledger_pending(const struct ledger *l);   /* entries */
size_t ledger_shards(const struct ledger *l);    /* results among them */
uint64_t ledger_bytes(const struct ledger *l);   /* of memory, about */
uint64_t ledger_written(const struct ledger *l); /* results that are durable, of all flushes */
/* Writes all of them. On error everything is still here (retry_store says what to do). */
int ledger_flush(struct ledger *l, struct err *err);

#endif
