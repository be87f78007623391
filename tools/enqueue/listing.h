/* tools/enqueue/listing.h - what a dry run would take and what it would skip, one line for each,
 * written as it is met: memory does not grow with the walk. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_LISTING_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct listing {
    bool json; /* an array "listed" of objects, which begins an object that the summary ends */
    uint64_t lines;
};

struct listing_line { /* borrowed */
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

/* To standard output: open, as many lines as there are, close; all with the same listing. */
void listing_open(const struct listing *l);
void listing_add(struct listing *l, const struct listing_line *line);
void listing_close(const struct listing *l);

#endif
