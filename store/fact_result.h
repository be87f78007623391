/* store/fact_result.h - the texts of a shard as the worker sent them: the column `shard.result`.
 *
 * It is a fact, written once with its shard and never changed. The rows that people read
 * (`segment`, `word`) are made from it (store/reading/). Pure; any thread. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_FACT_RESULT_H
#define NIGHTSHIFT_STORE_FACT_RESULT_H

#include "base/buf.h"
#include "base/err.h"
#include "workers/results.h"

struct fact_result { /* of fact_result_get: owned, fact_result_free */
    uint32_t seq;    /* of its shard, for whoever holds several; not written */
    struct result_segment *segments;
    uint32_t count;
};

/* Could it be read again? No: a text that is no UTF-8, a number that is not finite, a time below 0
 * or beyond 2^52 ms, more than 65,536 segments or words of one. */
bool fact_result_holds(const struct fact_result *r);
/* Appends it. More than 8 MiB, or out of memory: out->failed. */
void fact_result_put(struct buf *out, const struct fact_result *r);
/* A catalog may come from anybody. ERR_INPUT: these bytes are no result; ERR_NOMEM. No bytes: no
 * segments. */
int fact_result_get(const void *data, size_t len, struct fact_result *ret, struct err *err);
void fact_result_free(struct fact_result *r); /* a zeroed one is fine */

#endif
