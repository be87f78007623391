/* PCM as an Ogg Opus file: its pages, its length, and what fails. */
#include "tests/common/nomem.h"
#include "tests/common/test.h"

#include "base/buf.h"
#include "workers/media/opus_file.h"

#define RATE_HZ 16000

static int put(void *arg, const void *data, size_t n, struct err *err)
{
    struct buf *b = arg;

    buf_put(b, data, n);
    return b->failed ? err_set(err, ERR_LIMIT, "no room") : 0;
}

/* So many samples of a sawtooth of 100 Hz, in pieces of `piece`. */
static int write_file(size_t samples, size_t piece, struct buf *out, struct err *err)
{
    struct opus_file *o = NULL;
    int rc = opus_file_new(put, out, &o, err);
    int16_t pcm[1000];

    for (size_t at = 0; rc == 0 && at < samples;) {
        size_t n = samples - at < piece ? samples - at : piece;

        for (size_t i = 0; i < n; i++)
            pcm[i] = (int16_t)((at + i) % 160 * 100);
        rc = opus_file_put(o, pcm, n, err);
        at += n;
    }
    if (rc == 0)
        rc = opus_file_end(o, err);
    opus_file_free(o);
    return rc;
}

/* Of the last page: samples at 48 kHz up to its end (RFC 7845), of which the first ones are none.
 */
static uint64_t last_granule(const struct buf *b)
{
    size_t at = b->len - 14;
    uint64_t granule = 0;

    while (at > 0 && memcmp(b->data + at, "OggS", 4) != 0)
        at--;
    for (int i = 7; i >= 0; i--)
        granule = granule << 8 | b->data[at + 6 + (size_t)i];
    return granule;
}

static uint64_t length_of(size_t samples, size_t piece, struct buf *b)
{
    struct err err = {0};

    buf_clear(b);
    assert_ok(write_file(samples, piece, b, &err), err);
    assert_true(b->len > 100 && memcmp(b->data, "OggS", 4) == 0);
    assert_memory_equal(b->data + 28, "OpusHead", 8);
    return last_granule(b) - (uint64_t)(b->data[38] | b->data[39] << 8);
}

TEST(its_length)
{
    struct buf a = BUF_INIT, b = BUF_INIT;

    assert_int_equal(length_of(10 * RATE_HZ, 1000, &a), 480000);
    assert_in_range(a.len, 10000, 60000); /* 24 kbit/s, or less for so little */
    assert_int_equal(length_of(10 * RATE_HZ, 7, &b), 480000);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len); /* the same samples are the same file */
    assert_int_equal(length_of(RATE_HZ + 1, 1000, &a), 48003);
    assert_int_equal(length_of(1, 1, &a), 3);
    buf_free(&a);
    buf_free(&b);
}

TEST(nothing_is_a_file_too)
{
    struct buf b = BUF_INIT;
    struct err err = {0};

    assert_ok(write_file(0, 1, &b, &err), err);
    assert_memory_equal(b.data, "OggS", 4);
    buf_free(&b);
    opus_file_free(NULL);
}

TEST(no_more_than_there_is_room_for)
{
    struct err err = {0};

    for (size_t room = 100; room < 40000; room += 3000) {
        struct buf b = {.max = room};

        assert_int_equal(write_file(20 * RATE_HZ, 1000, &b, &err), ERR_LIMIT);
        buf_free(&b);
    }
}

static int write_some(void *arg, struct err *err)
{
    struct buf b = BUF_INIT;
    int rc = write_file(RATE_HZ, 1000, &b, err);

    (void)arg;
    buf_free(&b);
    /* A buffer does not say whether it may not grow, or cannot. */
    return rc == ERR_LIMIT ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

TEST(without_memory) { assert_true(nomem_each(write_some, NULL) > 1); }

TEST_MAIN(NULL, NULL)
