#include "workers/media/stream/fingerprint.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"

struct fingerprint {
    struct hash *hash;
    uint64_t size;
    uint64_t pos;   /* bytes fed */
    unsigned block; /* the block that is under way or comes next */
    bool failed;    /* more bytes came than announced */
};

static unsigned block_count(uint64_t size)
{
    return size <= FINGERPRINT_WHOLE ? (size > 0) : FINGERPRINT_SPACED + 2;
}

/* Ascending, and without overlap for every size past FINGERPRINT_WHOLE. */
static uint64_t block_start(uint64_t size, unsigned i)
{
    const uint64_t parts = FINGERPRINT_SPACED + 1;

    if (i == 0)
        return 0;
    if (i == FINGERPRINT_SPACED + 1)
        return size - FINGERPRINT_BLOCK;
    return (size / parts * i + size % parts * i / parts) / FINGERPRINT_BLOCK * FINGERPRINT_BLOCK;
}

static uint64_t block_len(uint64_t size)
{
    return size <= FINGERPRINT_WHOLE ? size : FINGERPRINT_BLOCK;
}

int fingerprint_new(uint64_t size, struct fingerprint **ret, struct err *err)
{
    struct fingerprint *f = calloc(1, sizeof(*f));
    uint8_t le[8];

    if (!f || !(f->hash = hash_new())) {
        free(f);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    f->size = size;
    for (int i = 0; i < 8; i++)
        le[i] = (uint8_t)(size >> (8 * i));
    hash_put(f->hash, le, sizeof(le));
    *ret = f;
    return 0;
}

void fingerprint_feed(struct fingerprint *f, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t end = f->pos + len;

    if (len > f->size - f->pos) {
        f->failed = true;
        f->pos = f->size;
        return;
    }
    while (f->block < block_count(f->size)) {
        uint64_t start = block_start(f->size, f->block);
        uint64_t stop = start + block_len(f->size);
        uint64_t from = f->pos > start ? f->pos : start;
        uint64_t to = end < stop ? end : stop;

        if (from < to)
            hash_put(f->hash, p + (from - f->pos), (size_t)(to - from));
        if (end < stop)
            break;
        f->block++;
    }
    f->pos = end;
}

int fingerprint_end(struct fingerprint *f, uint8_t ret[16], struct err *err)
{
    int rc = 0;

    if (f->failed) {
        rc = err_set(err, ERR_INPUT, "holds more than the %llu bytes announced",
                     (unsigned long long)f->size);
    } else if (f->pos != f->size) {
        rc = err_set(err, ERR_INPUT, "ends after %llu of %llu bytes", (unsigned long long)f->pos,
                     (unsigned long long)f->size);
    } else {
        hash_get(f->hash, ret);
    }
    hash_free(f->hash);
    free(f);
    return rc;
}

/* Exactly n bytes at offset into buf. */
static int read_block(int fd, uint8_t *buf, size_t n, uint64_t offset, struct err *err)
{
    while (n > 0) {
        ssize_t got = pread(fd, buf, n, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "cannot read it");
        if (got == 0)
            return err_set(err, ERR_CHANGED, "the file became shorter while it was read");
        buf += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

int fingerprint_fd(int fd, uint64_t size, uint8_t ret[16], struct err *err)
{
    struct fingerprint *f = NULL;
    uint8_t *buf;
    uint64_t len = block_len(size);
    int rc = fingerprint_new(size, &f, err);

    if (rc != 0 || !f)
        return rc;
    buf = malloc(len ? len : 1);
    if (!buf)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; rc == 0 && i < block_count(size); i++) {
        uint64_t start = block_start(size, i);

        rc = read_block(fd, buf, len, start, err);
        if (rc == 0) {
            f->pos = start; /* the bytes in between are in no block */
            fingerprint_feed(f, buf, len);
        }
    }
    free(buf);
    if (rc != 0) {
        hash_free(f->hash);
        free(f);
        return rc;
    }
    f->pos = size; /* of an empty file nothing was fed */
    return fingerprint_end(f, ret, err);
}

/* ---- a listed member */

int listed_member_begin(struct listed_member *l, uint64_t size, struct err *err)
{
    l->left = size;
    l->whole = hash_new();
    if (!l->whole)
        return err_set(err, ERR_NOMEM, "out of memory");
    return fingerprint_new(size, &l->sampled, err);
}

int listed_member_take(struct listed_member *l, const void *data, size_t n, uint8_t fingerprint[16],
                       uint8_t hash[16], struct err *err)
{
    struct fingerprint *sampled = l->sampled;
    int rc;

    if (n > l->left || n > l->capacity || (n == 0 && l->left > 0))
        return err_set(err, ERR_PROTOCOL, "bytes out of place");
    if (n > 0) {
        fingerprint_feed(sampled, data, n);
        hash_put(l->whole, data, n);
        l->left -= n;
        l->capacity -= n;
        return err_set(err, ERR_EMPTY, "more of them follow");
    }
    l->sampled = NULL;
    rc = fingerprint_end(sampled, fingerprint, err);
    hash_get(l->whole, hash);
    listed_member_drop(l);
    return rc;
}

void listed_member_drop(struct listed_member *l)
{
    uint8_t ignored[16];
    struct err none;

    if (l->sampled)
        (void)fingerprint_end(l->sampled, ignored, &none);
    hash_free(l->whole);
    l->sampled = NULL;
    l->whole = NULL;
}
