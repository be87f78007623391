/* tools/parts/manifest.h - what a part holds, as JSON beside it: for people and for scripts. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_MANIFEST_H
#define NIGHTSHIFT_TOOLS_PARTS_MANIFEST_H

#include "store/parting/parting.h"

struct manifest { /* borrowed */
    const char *split, *catalog;
    uint32_t number, parts;
    uint64_t cost_ms;
    const struct parting_share *shares;
    size_t share_count;
};

/* Of the part that is open in st. */
int manifest_write(struct store *st, const struct manifest *m, const char *path, struct err *err);

#endif
