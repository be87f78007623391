/* tools/export/keys.h - a number for each of many strings, 0, 1 ... in the order in which they
 * came. One thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_KEYS_H
#define NIGHTSHIFT_TOOLS_EXPORT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct keys { /* zero at first; owned: keys_free */
    struct buf text;
    size_t *at;      /* of each, in `text` */
    uint32_t *slots; /* number + 1; 0: free */
    size_t count, capacity, slot_count;
};
void keys_free(struct keys *k);
/* Numbers a string of n bytes without NUL; a new one gets the number `count` had. ERR_NOMEM. */
int keys_give(struct keys *k, const char *s, size_t n, size_t *ret, struct err *err);
bool keys_has(const struct keys *k, const char *s, size_t n);
const char *keys_text(const struct keys *k, size_t number); /* until the next keys_give */
uint64_t keys_hash(const char *s,
                   size_t n); /* FNV-1a; the same for ever: file names are made of it */

#endif
