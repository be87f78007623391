/* base/hash.h - XXH3-128 of bytes that come in order, or of a file: canonical, big-endian.
 *
 * One thread per hash. Not for data where somebody may seek two inputs with one hash. */
#ifndef NIGHTSHIFT_BASE_HASH_H
#define NIGHTSHIFT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HASH_BYTES 16
#define HASH_HEX_LEN (2 * HASH_BYTES + 1)

struct hash;

struct hash *hash_new(void);    /* of nothing; NULL: no memory */
void hash_free(struct hash *h); /* NULL is fine */
void hash_put(struct hash *h, const void *data, size_t n);
/* From where fd stands to its end, at most so many bytes; *ret_bytes: so many came, also on error.
 */
int hash_put_file(struct hash *h, int fd, uint64_t most, uint64_t *ret_bytes, struct err *err);
void hash_get(const struct hash *h, uint8_t ret[HASH_BYTES]); /* of all till now */

void hash_of(const void *data, size_t n, uint8_t ret[HASH_BYTES]);
void hash_hex(const uint8_t hash[HASH_BYTES], char ret[HASH_HEX_LEN]);

#endif
