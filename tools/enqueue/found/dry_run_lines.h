/* tools/enqueue/found/dry_run_lines.h - what a dry run would take and what it would skip, one line
 * for each, written as it is met: memory does not grow with the walk. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_DRY_RUN_LINES_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_DRY_RUN_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
