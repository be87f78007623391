/* A file and a stream of the same bytes have the same fingerprint, the one that the header states.
 */
#include <fcntl.h>
#include <unistd.h>

#include <xxhash.h>

#include "tests/common/test.h"
#include "workers/media/stream/fingerprint.h"

static const uint64_t sizes[] = {0,      1,      16383,  16384,  16385,  131071, 131072,  131073,
                                 147456, 180000, 229376, 262144, 262145, 270001, 1000003, 5242880};

static uint8_t *content(uint64_t size, uint32_t seed)
{
    uint8_t *data = malloc(size ? size : 1);

    assert_non_null(data);
    for (uint64_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
    return data;
}

static int file_of(const uint8_t *data, uint64_t size)
{
    int fd = open("fingerprint.bin", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    return fd;
}

/* Straight from the words of the header. */
static void by_the_book(const uint8_t *data, uint64_t size, uint8_t ret[16])
{
    XXH3_state_t *h = XXH3_createState();
    XXH128_canonical_t c;
    uint8_t le[8];

    for (int i = 0; i < 8; i++)
        le[i] = (uint8_t)(size >> (8 * i));
    XXH3_128bits_reset(h);
    XXH3_128bits_update(h, le, 8);
    if (size <= FINGERPRINT_WHOLE) {
        XXH3_128bits_update(h, data, size);
    } else {
        XXH3_128bits_update(h, data, FINGERPRINT_BLOCK);
        for (uint64_t i = 1; i <= FINGERPRINT_SPACED; i++) {
            uint64_t at = i * size / (FINGERPRINT_SPACED + 1);

            XXH3_128bits_update(h, data + at - at % FINGERPRINT_BLOCK, FINGERPRINT_BLOCK);
        }
        XXH3_128bits_update(h, data + size - FINGERPRINT_BLOCK, FINGERPRINT_BLOCK);
    }
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(h));
    memcpy(ret, c.digest, 16);
    XXH3_freeState(h);
}

TEST(file_stream_and_book_agree)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        static const size_t steps[] = {1000003, 4096, 777, 16384};
        uint8_t *data = content(sizes[i], (uint32_t)i);
        uint8_t want[16], got[16];
        int fd = file_of(data, sizes[i]);
        struct err err = {0};

        by_the_book(data, sizes[i], want);
        assert_ok(fingerprint_fd(fd, sizes[i], got, &err), err);
        assert_memory_equal(got, want, 16);
        for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
            struct fingerprint *f;

            assert_ok(fingerprint_new(sizes[i], &f, &err), err);
            for (uint64_t at = 0; at < sizes[i]; at += steps[k]) {
                uint64_t left = sizes[i] - at;

                fingerprint_feed(f, data + at, left < steps[k] ? left : steps[k]);
            }
            memset(got, 0, 16);
            assert_ok(fingerprint_end(f, got, &err), err);
            assert_memory_equal(got, want, 16);
        }
        close(fd);
        free(data);
    }
}

TEST(size_is_part_of_it)
{
    uint8_t *data = calloc(1, 200000);
    uint8_t a[16], b[16];
    struct err err;
    int fd = file_of(data, 200000);

    assert_ok(fingerprint_fd(fd, 100000, a, &err), err);
    assert_ok(fingerprint_fd(fd, 100001, b, &err), err);
    assert_memory_not_equal(a, b, 16);
    close(fd);
    free(data);
}

TEST(a_stream_must_keep_its_word)
{
    struct fingerprint *f;
    uint8_t data[100] = {0}, out[16];
    struct err err;

    assert_ok(fingerprint_new(50, &f, &err), err);
    fingerprint_feed(f, data, 49);
    assert_int_equal(fingerprint_end(f, out, &err), ERR_INPUT);
    assert_string_equal(err.msg, "ends after 49 of 50 bytes");
    assert_ok(fingerprint_new(50, &f, &err), err);
    fingerprint_feed(f, data, 50);
    fingerprint_feed(f, data, 1);
    assert_int_equal(fingerprint_end(f, out, &err), ERR_INPUT);
    assert_ok(fingerprint_new(UINT64_MAX, &f, &err), err);
    fingerprint_feed(f, data, 100);
    assert_int_equal(fingerprint_end(f, out, &err), ERR_INPUT);
}

TEST(a_file_that_shrinks_has_changed)
{
    uint8_t *data = content(300000, 1), out[16];
    int fd = file_of(data, 300000);
    struct err err;

    assert_int_equal(fingerprint_fd(fd, 400000, out, &err), ERR_CHANGED);
    close(fd);
    assert_true(fingerprint_fd(-1, 10, out, &err) < 0);
    free(data);
}

TEST_MAIN(NULL, NULL)
