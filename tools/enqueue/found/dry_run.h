/* tools/enqueue/found/dry_run.h - what a walk would bring to the catalog, counted as the catalog
 * would, without a change to it. Memory: 16 bytes for each place, content and row that was met, and
 * the path of each recording of more than STORE_WHOLE_BYTES. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_DRY_RUN_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_DRY_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/requests/request.h"

struct dry_run;

/* known: borrowed, or NULL: there is no catalog, and everything is new. */
int dry_run_new(struct store *known, struct dry_run **ret, struct err *err);
void dry_run_free(struct dry_run *f); /* NULL is fine */

/* Adds to *counts what an ADD of it would count. */
int dry_run_found(struct dry_run *f, const struct store_found *found,
                  struct store_enqueue_counts *counts, struct err *err);
/* A fingerprint (of more than STORE_WHOLE_BYTES) that only this walk has met: the hash of all
 * bytes, or the path to read them from. NULL: not met. Valid until the next dry_run_found. */
struct dry_run_content {
    uint8_t fingerprint[16];
    bool has_hash;
    uint8_t hash[16];
    char *path; /* NULL: they are a member's */
};
struct dry_run_content *dry_run_content(const struct dry_run *f, const uint8_t fingerprint[16]);
/* Does the work of a SAME, but counts `back` alone. counts may be NULL. */
int dry_run_same(struct dry_run *f, const int64_t *place_ids, uint32_t n,
                 struct store_enqueue_counts *counts, struct err *err);
/* Does the work of the END, after all else: counts `vanished` and `gone`. */
int dry_run_end(struct dry_run *f, const struct request *end, struct store_enqueue_counts *counts,
                struct err *err);

/* ---- what a dry run would take and what it would skip, one line for each, written as it is met:
 * memory does not grow with the walk */

struct dry_run_lines {
    bool json; /* an array "listed" of objects, which begins an object that the summary ends */
    uint64_t lines;
};

struct dry_run_line { /* borrowed */
    bool taken;
    const char *why; /* a word or a few: "new", "known"; "trash", "not a recording" */
    const char *path;
    size_t path_len;
    bool directory;
    const char *member; /* "" when it is no archive's */
    uint32_t nth;
    uint32_t recordings; /* an archive's that is known unchanged; 0: the line is of one */
    const char *error;   /* a sentence, or NULL */
};

/* To standard output: open, as many lines as there are, close; all with the same lines. */
void dry_run_lines_open(const struct dry_run_lines *l);
void dry_run_lines_add(struct dry_run_lines *l, const struct dry_run_line *line);
void dry_run_lines_close(const struct dry_run_lines *l);

#endif
