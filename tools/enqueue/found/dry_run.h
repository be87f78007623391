/* tools/enqueue/found/dry_run.h - what a walk would bring to the catalog, counted as the catalog
 * would, without a change to it. Memory: 16 bytes for each place, content and row that was met, and
 * the path of each recording of more than STORE_WHOLE_BYTES. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_DRY_RUN_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_DRY_RUN_H

#include "store/requests/request.h"

struct dry_run;

/* known: borrowed, or NULL: there is no catalog, and everything is new. */
int dry_run_new(struct store *known, struct dry_run **ret, struct err *err);
void dry_run_free(struct dry_run *f); /* NULL is fine */

/* As an ADD of it, added to *counts. */
int dry_run_found(struct dry_run *f, const struct store_found *found,
                  struct store_enqueue_counts *counts, struct err *err);
/* What is known of a fingerprint (of more than STORE_WHOLE_BYTES) by this walk alone: the hash of
 * all bytes, or where these may be read. NULL: nothing. Valid until the next dry_run_found. */
struct dry_run_content {
    uint8_t fingerprint[16];
    bool has_hash;
    uint8_t hash[16];
    char *path; /* NULL: they are a member's */
};
struct dry_run_content *dry_run_content(const struct dry_run *f, const uint8_t fingerprint[16]);
/* As a SAME, but of the counts `back` alone. counts: or NULL. */
int dry_run_same(struct dry_run *f, const int64_t *place_ids, uint32_t n,
                 struct store_enqueue_counts *counts, struct err *err);
/* As the END, when all else was told: vanished and gone of *counts. */
int dry_run_end(struct dry_run *f, const struct request *end, struct store_enqueue_counts *counts,
                struct err *err);

#endif
