/* tools/enqueue/found/batch.h - gathers what a walk finds into requests of bounded size.
 *
 * One thread. Everything handed in is copied. A call may send what was gathered before; its error
 * is the catalog's and ends the walk. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_BATCH_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_BATCH_H

#include "store/requests/request.h"

struct dry_run;
struct writer;
struct batch;

/* writer NULL: a dry run that only counts, by what dry_run tells (borrowed; of all batches). begin:
 * ENQUEUE_BEGIN, of which keep_source and keep_other hold for what is found. */
int batch_begin(struct writer *writer, struct dry_run *dry_run, const struct request *begin,
                struct batch **ret, struct err *err);
void batch_free(struct batch *b); /* NULL is fine; what was not sent is dropped */

int batch_found(struct batch *b, const struct store_found *f, struct err *err);
/* The first recording with this fingerprint that is not sent yet; the caller may set its hash.
 * NULL: there is none. Valid until the next call of the batch. */
struct store_found *batch_holds(struct batch *b, const uint8_t fingerprint[16]);
/* fn gets what the catalog left out as unproven (struct request_reply), to be read whole and
 * gathered again; f is borrowed, and its strings end with a NUL. */
typedef int (*batch_unproven_fn)(void *arg, struct batch *b, const struct store_found *f,
                                 struct err *err);
void batch_on_unproven(struct batch *b, batch_unproven_fn fn, void *arg);
/* Places that are unchanged and wanted. */
int batch_same(struct batch *b, const int64_t *place_ids, uint32_t n, struct err *err);
/* Places that are unchanged and lack the job's stage: they get it without being read again. */
int batch_known(struct batch *b, const int64_t *place_ids, uint32_t n, struct err *err);
/* Places that are there but were left out of this walk: they must not vanish, and do not count. */
int batch_kept(struct batch *b, const int64_t *place_ids, uint32_t n, struct err *err);
int batch_trouble(struct batch *b, const struct request_trouble *t, struct err *err);
/* Below this path (or at it) nothing may be called vanished. */
int batch_unread(struct batch *b, const char *path, struct err *err);

/* Sends the rest and ends the job. told: the one that was told what is unread. *vanish_skipped:
 * that was too much to list, so nothing is called vanished. */
int batch_end(struct batch *b, const struct batch *told, const char *const *roots,
              uint32_t root_count, bool *vanish_skipped, struct err *err);

int64_t batch_job(const struct batch *b);
const struct store_enqueue_counts *batch_counts(const struct batch *b);

#endif
