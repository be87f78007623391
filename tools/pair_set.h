/* tools/pair_set.h - a set of pairs of numbers: files by device and inode, hashes by their halves.
 * Pure; one thread at a time. */
#ifndef NIGHTSHIFT_TOOLS_PAIR_SET_H
#define NIGHTSHIFT_TOOLS_PAIR_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Zeroed: empty. Open addressing; b 0 marks a free slot (no file system hands that inode out). */
struct pair_set {
    struct pair_slot {
        uint64_t a, b;
    } * slots; /* owned: pair_set_free */
    size_t capacity, count;
};

/* b: not 0. 1: it was not there yet; 0: it was; ERR_NOMEM: the set is as it was. */
int pair_set_add(struct pair_set *s, uint64_t a, uint64_t b, struct err *err);
bool pair_set_has(const struct pair_set *s, uint64_t a, uint64_t b);
void pair_set_free(struct pair_set *s);

#endif
