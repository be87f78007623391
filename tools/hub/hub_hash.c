#include "tools/hub/hub_hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/hub/libcrypto.h"

#define CHUNK_BYTES (1u << 20)

bool hub_digest_parse(const char *etag, struct hub_digest *ret)
{
    size_t n;

    if (strncmp(etag, "W/", 2) == 0)
        etag += 2;
    n = strlen(etag);
    if (n >= 2 && etag[0] == '"' && etag[n - 1] == '"') {
        etag++;
        n -= 2;
    }
    if ((n != 40 && n != 64) || strspn(etag, "0123456789abcdef") < n)
        return false;
    memcpy(ret->hex, etag, n);
    ret->hex[n] = 0;
    return true;
}

static int begin_digest(EVP_MD_CTX *ctx, bool git, int fd, struct err *err)
{
    char head[40];
    struct stat st;
    int n;

    if (fstat(fd, &st) != 0 || lseek(fd, 0, SEEK_SET) != 0)
        return err_sys(err, errno, "read what was fetched");
    n = snprintf(head, sizeof(head), "blob %lld", (long long)st.st_size);
    if (EVP_DigestInit_ex(ctx, git ? EVP_sha1() : EVP_sha256(), NULL) != 1 ||
        (git && EVP_DigestUpdate(ctx, head, (size_t)n + 1) != 1))
        return err_set(err, ERR_NOMEM, "OpenSSL has no %s here", git ? "SHA-1" : "SHA-256");
    return 0;
}

static int feed_digest(EVP_MD_CTX *ctx, int fd, uint8_t *chunk, const volatile sig_atomic_t *stop,
                       struct err *err)
{
    ssize_t n;

    do {
        if (stop && *stop)
            return err_set(err, ERR_CANCELLED, "interrupted");
        n = read(fd, chunk, CHUNK_BYTES);
        if (n > 0 && EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
            return err_set(err, ERR_NOMEM, "OpenSSL could not hash");
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? err_sys(err, errno, "read what was fetched") : 0;
}

int hub_hash_of(int fd, bool git, const volatile sig_atomic_t *stop, struct hub_digest *ret,
                struct err *err)
{
    uint8_t *chunk, sum[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *ctx;
    unsigned len = 0;
    int rc = libcrypto_open(err);

    if (rc != 0)
        return rc;
    ctx = EVP_MD_CTX_new();
    chunk = malloc(CHUNK_BYTES);
    if (!ctx || !chunk)
        rc = err_set(err, ERR_NOMEM, "no memory to hash");
    if (rc == 0)
        rc = begin_digest(ctx, git, fd, err);
    if (rc == 0)
        rc = feed_digest(ctx, fd, chunk, stop, err);
    if (rc == 0 && EVP_DigestFinal_ex(ctx, sum, &len) != 1)
        rc = err_set(err, ERR_NOMEM, "OpenSSL could not hash");
    for (unsigned i = 0; rc == 0 && i < len && 2 * i + 2 < HUB_DIGEST_LEN; i++)
        snprintf(ret->hex + (size_t)2 * i, 3, "%02x", sum[i]);
    EVP_MD_CTX_free(ctx);
    free(chunk);
    return rc;
}

int hub_hash_same(int fd, const struct hub_digest *digest, const volatile sig_atomic_t *stop,
                  bool *ret, struct err *err)
{
    struct hub_digest is;
    int rc = hub_hash_of(fd, strlen(digest->hex) == 40, stop, &is, err);

    if (rc == 0)
        *ret = strcmp(is.hex, digest->hex) == 0;
    return rc;
}
