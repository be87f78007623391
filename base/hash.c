#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#define CHUNK_BYTES ((size_t)1 << 20)

struct hash {
    XXH3_state_t *state;
    uint8_t *chunk; /* CHUNK_BYTES, once a file is read */
};

struct hash *hash_new(void)
{
    struct hash *h = calloc(1, sizeof(*h));

    if (!h || !(h->state = XXH3_createState())) {
        free(h);
        return NULL;
    }
    XXH3_128bits_reset(h->state);
    return h;
}

void hash_free(struct hash *h)
{
    if (!h)
        return;
    XXH3_freeState(h->state);
    free(h->chunk);
    free(h);
}

void hash_put(struct hash *h, const void *data, size_t n)
{
    XXH3_128bits_update(h->state, data, n);
}

int hash_put_file(struct hash *h, int fd, uint64_t most, uint64_t *ret_bytes, struct err *err)
{
    *ret_bytes = 0;
    if (!h->chunk && !(h->chunk = malloc(CHUNK_BYTES)))
        return err_set(err, ERR_NOMEM, "out of memory");
    while (*ret_bytes < most) {
        uint64_t left = most - *ret_bytes;
        ssize_t n = read(fd, h->chunk, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "cannot read it");
        if (n == 0)
            break;
        hash_put(h, h->chunk, (size_t)n);
        *ret_bytes += (uint64_t)n;
    }
    return 0;
}

static void write_canonical_hash(XXH128_hash_t hash, uint8_t ret[HASH_BYTES])
{
    XXH128_canonical_t digest;

    XXH128_canonicalFromHash(&digest, hash);
    memcpy(ret, digest.digest, HASH_BYTES);
}

void hash_get(const struct hash *h, uint8_t ret[HASH_BYTES])
{
    write_canonical_hash(XXH3_128bits_digest(h->state), ret);
}

void hash_of(const void *data, size_t n, uint8_t ret[HASH_BYTES])
{
    write_canonical_hash(XXH3_128bits(data, n), ret);
}

void hash_hex(const uint8_t hash[HASH_BYTES], char ret[HASH_HEX_LEN])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < HASH_BYTES; i++) {
        ret[2 * i] = digits[hash[i] >> 4];
        ret[2 * i + 1] = digits[hash[i] & 15];
    }
    ret[HASH_HEX_LEN - 1] = 0;
}
