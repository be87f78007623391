/* workers/pass/shard_sources.h - what a shard's sources have yielded, each by itself, as the result
 * of the shard. Pure. */
#ifndef NIGHTSHIFT_WORKERS_PASS_SHARD_SOURCES_H
#define NIGHTSHIFT_WORKERS_PASS_SHARD_SOURCES_H

#include "workers/wire/protocol.h"

/* of: the n results of sources 1 ... n, 2 to RESULT_SOURCES_MAX of one shard. *ret is like the
 * first of them, but for:
 *  - segments: of all, each with its source's number, by their begin, then by source;
 *  - account: the sums; not measured where that of one source is not;
 *  - language: of the source with the most text in time; windows: all of them;
 *  - voices: one local speaker for each source, active where anybody is in that one, with the mean
 * of the vectors there. It borrows from `of`, and owns the arrays themselves: shard_sources_free.
 * ERR_INPUT: they do not fit together; ERR_NOMEM. */
int shard_sources_merge(const struct msg_shard_done *const *of, uint32_t n,
                        struct msg_shard_done *ret, struct err *err);
void shard_sources_free(struct msg_shard_done *m);

#endif
