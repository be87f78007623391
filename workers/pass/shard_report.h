/* workers/pass/shard_report.h - the messages to the scheduler about a shard's result. With the
 * worker's lock held: where a shard ends is its decoder's to say. */
#ifndef NIGHTSHIFT_WORKERS_PASS_SHARD_REPORT_H
#define NIGHTSHIFT_WORKERS_PASS_SHARD_REPORT_H

#include "workers/pass/state.h"

struct stage_result;

/* SHARD_DONE's payload to out. ERR_INPUT: no result that can be stored; ERR_LIMIT: larger than a
 * frame; ERR_NOMEM. */
int report_encode(const struct shard *s, const struct stage_result *r, struct buf *out,
                  struct err *err);
/* Keeps the result of one part of several. Errors as above. */
int report_keep(struct shard_part *p, const struct stage_result *r, struct err *err);
void report_forget(struct shard_part *p); /* frees that; again is fine */
/* Like report_encode, with all kept parts. */
int report_encode_parts(const struct shard *s, struct buf *out, struct err *err);
/* Posts SHARD_FAILED. */
void report_failed(struct worker *w, const struct lease *l, const struct track *t, uint32_t seq,
                   const struct err *why);

/* Makes one result of what a shard's sources have yielded, each by itself. Pure.
 * of: the n results of sources 1 ... n, 2 to RESULT_SOURCES_MAX of one shard. *ret is like the
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
