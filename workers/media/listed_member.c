#include "workers/media/listed_member.h"

#include "base/hash.h"
#include "workers/media/stream/fingerprint.h"

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
