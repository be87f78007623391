/* tools/parts/split.h - takes a catalog's open work apart into files. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_SPLIT_H
#define NIGHTSHIFT_TOOLS_PARTS_SPLIT_H

#include <stdint.h>

#include "base/err.h"

struct split_wanted {
    const char *catalog, *output; /* output: the folder of the parts, made when it is missing */
    uint32_t parts;               /* 0: by part_hours */
    uint32_t part_hours;          /* of audio in each */
    int64_t shard_ms;             /* 0: the catalog's */
    uint32_t most_parts;          /* 0: any number */
};

struct split_done {
    uint32_t parts;
    uint64_t recordings, cut, guessed;   /* guessed: those whose length nobody knows */
    uint64_t cost_ms, most_ms, least_ms; /* of a part */
    uint64_t bytes;                      /* of all of them */
};

/* Takes the catalog's lock while it reads. Long recordings whose length nobody knows are opened to
 * see it, where they can be. ERR_EMPTY: nothing is open; ERR_USAGE: the folder has parts already;
 * ERR_LIMIT: more than most_parts. Parts that were written before an error stay. */
int split_catalog(const struct split_wanted *w, struct split_done *ret, struct err *err);

#endif
