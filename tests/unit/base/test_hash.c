/* The hash by which files are known: its values are in every catalog. */
#include "tests/common/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

#define LARGE ((3u << 20) + 12345)

static void assert_hex(const uint8_t hash[HASH_BYTES], const char *expected)
{
    char hex[HASH_HEX_LEN];

    hash_hex(hash, hex);
    assert_string_equal(hex, expected);
}

static uint8_t *large(void)
{
    uint8_t *ret = malloc(LARGE);

    for (size_t i = 0; ret && i < LARGE; i++)
        ret[i] = (uint8_t)(i * 2654435761u >> 24);
    return ret;
}

static int file_of(const void *data, size_t n)
{
    char name[] = "/tmp/nightshift-hash-XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(write(fd, data, n), (ssize_t)n);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* As xxhsum -H128 says of the same bytes. */
TEST(test_known)
{
    struct hash *h = hash_new();
    uint8_t got[HASH_BYTES];

    assert_non_null(h);
    hash_get(h, got);
    assert_hex(got, "99aa06d3014798d86001c324468d497f");
    hash_put(h, "night", 5);
    hash_put(h, "shift", 5);
    hash_get(h, got);
    assert_hex(got, "1c5623017c3f9a6795a9f076cd817d02");
    hash_of("nightshift", 10, got);
    assert_hex(got, "1c5623017c3f9a6795a9f076cd817d02");
    hash_free(h);
}

TEST(test_file)
{
    uint8_t *data = large(), whole[HASH_BYTES], part[HASH_BYTES], got[HASH_BYTES];
    struct hash *h = hash_new();
    struct err err = {0};
    uint64_t bytes;
    int fd;

    assert_non_null(data);
    assert_non_null(h);
    fd = file_of(data, LARGE);
    hash_of(data, 2000000, part);
    hash_of(data, LARGE, whole);
    assert_ok(hash_put_file(h, fd, 2000000, &bytes, &err), err);
    assert_int_equal(bytes, 2000000);
    hash_get(h, got);
    assert_memory_equal(got, part, sizeof(got));
    assert_ok(hash_put_file(h, fd, UINT64_MAX, &bytes, &err), err); /* goes on there */
    assert_int_equal(bytes, LARGE - 2000000);
    hash_get(h, got);
    assert_memory_equal(got, whole, sizeof(got));
    close(fd);
    hash_free(h);
    free(data);
}

TEST(test_not_readable)
{
    struct hash *h = hash_new();
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    struct err err = {0};
    uint64_t bytes = 1;

    assert_non_null(h);
    assert_int_not_equal(hash_put_file(h, fd, UINT64_MAX, &bytes, &err), 0);
    assert_int_equal(bytes, 0);
    assert_non_null(strstr(err.msg, "cannot read it"));
    close(fd);
    hash_free(h);
    hash_free(NULL);
}

TEST_MAIN(NULL, NULL)
