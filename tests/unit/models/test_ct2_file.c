/* Files of CTranslate2 that are made up here: what is refused, and what is damaged. */
#include "tests/common/test.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>

#include "base/buf.h"
#include "workers/models/files/formats/ct2_file.h"

static void put_name(struct buf *b, const char *name)
{
    buf_put_u16(b, (uint16_t)(strlen(name) + 1));
    buf_put(b, name, strlen(name) + 1);
}

static void put_head(struct buf *b, const char *spec, uint32_t variables)
{
    buf_put_u32(b, 6);
    put_name(b, spec);
    buf_put_u32(b, 3);
    buf_put_u32(b, variables);
}

/* A row of n bytes of this type. */
static void put_row(struct buf *b, const char *name, uint32_t n, uint8_t type, uint32_t bytes,
                    const void *data)
{
    put_name(b, name);
    buf_put_u8(b, 1);
    buf_put_u32(b, n);
    buf_put_u8(b, type);
    buf_put_u32(b, bytes);
    buf_put(b, data, bytes);
}

enum { F32 = 0, I8 = 1, I32 = 3 };

/* What a file says that is refused by the reader or as Whisper; frees it. */
static void refused(struct buf *b, const char *sentence)
{
    struct ct2_file *c = NULL;
    struct err e = {0};
    int rc = ct2_file_parse(b->data, b->len, &c, &e);

    assert_false(b->failed);
    if (rc == 0)
        rc = ct2_whisper_check(c, &e);
    print_message("  %s\n", e.msg);
    assert_int_equal(rc, ERR_MODEL);
    assert_says(e.msg, sentence);
    ct2_file_close(c);
    buf_free(b);
}

TEST(files_of_ctranslate2_are_checked)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    struct buf b = BUF_INIT;

    buf_put(&b, "lm", 2);
    refused(&b, "ends too early");
    buf_put_u32(&b, 5);
    refused(&b, "format version 6 (it says 5)");
    put_head(&b, "WhisperSpec", UINT32_MAX);
    refused(&b, "more than it has room for");
    buf_put_u32(&b, 6);
    buf_put_u16(&b, 3);
    buf_put(&b, "abc", 3);
    refused(&b, "a name does not end");
    put_head(&b, "WhisperSpec", 1);
    put_row(&b, "a", 6, F32, 20, values);
    refused(&b, "'a' has 20 bytes");
    put_head(&b, "WhisperSpec", 1);
    put_row(&b, "a", 6, 9, 24, values);
    refused(&b, "unknown number type 9");
    put_head(&b, "WhisperSpec", 1); /* dimensions whose product is 2^64 */
    put_name(&b, "a");
    buf_put_u8(&b, 2);
    buf_put_u32(&b, 1u << 31);
    buf_put_u32(&b, 1u << 31);
    buf_put_u8(&b, F32);
    buf_put_u32(&b, 0);
    refused(&b, "'a' has 0 bytes");
    put_head(&b, "WhisperSpec", 1);
    put_name(&b, "a");
    buf_put_u8(&b, 3);
    for (int i = 0; i < 3; i++)
        buf_put_u32(&b, 1u << 31);
    buf_put_u8(&b, F32);
    buf_put_u32(&b, 0);
    refused(&b, "'a' has an impossible shape");
    put_head(&b, "WhisperSpec", 1);
    put_name(&b, "a");
    buf_put_u8(&b, 9);
    for (int i = 0; i < 9; i++)
        buf_put_u32(&b, 1);
    refused(&b, "9 dimensions");
    put_head(&b, "WhisperSpec", 2);
    put_row(&b, "a", 6, F32, 24, values);
    put_row(&b, "a", 6, F32, 24, values);
    buf_put_u32(&b, 0);
    refused(&b, "'a' is there twice");
    put_head(&b, "WhisperSpec", 1);
    put_row(&b, "a", 6, F32, 24, values);
    buf_put_u32(&b, 1);
    put_name(&b, "b");
    put_name(&b, "c");
    refused(&b, "'b' stands for variable 'c', which is missing");
    put_head(&b, "WhisperSpec", 1);
    put_row(&b, "a", 6, F32, 24, values);
    buf_put_u32(&b, 1);
    put_name(&b, "a");
    put_name(&b, "a");
    refused(&b, "'a' is there twice");
    put_head(&b, "WhisperSpec", 0);
    buf_put_u32(&b, 0);
    buf_put_u8(&b, 0);
    refused(&b, "1 bytes behind its end");
}

TEST(other_networks_of_ctranslate2_are_refused)
{
    static const float values[8] = {0, 0, 0, 0, 1, 0, 0, 0};
    static const uint8_t relu = 0;
    struct buf b = BUF_INIT;
    struct ct2_file *c = NULL;
    struct err e = {0};

    put_head(&b, "TransformerSpec", 0);
    buf_put_u32(&b, 0);
    refused(&b, "of the kind 'TransformerSpec'");
    put_head(&b, "WhisperSpec", 1);
    put_row(&b, "decoder/activation", 1, I8, 1, &relu);
    buf_put_u32(&b, 0);
    refused(&b, "decoder/activation is 0, but 3");
    put_head(&b, "WhisperSpec", 1);
    put_row(&b, "encoder/layer_0/self_attention/queries_scale", 1, F32, 4, values);
    buf_put_u32(&b, 0);
    refused(&b, "queries_scale', which is not supported");
    put_head(&b, "WhisperSpec", 2);
    put_row(&b, "decoder/embeddings/weight", 6, F32, 24, values);
    put_row(&b, "decoder/projection/weight", 6, F32, 24, values);
    buf_put_u32(&b, 0);
    refused(&b, "is not its token embedding");
    put_head(&b, "WhisperSpec", 1); /* the keys' are the first half */
    put_row(&b, "decoder/layer_0/attention/linear_1/bias", 6, F32, 24, values + 2);
    buf_put_u32(&b, 0);
    refused(&b, "keys have no bias");
    put_head(&b, "WhisperSpec", 1); /* a bias of the values alone */
    put_row(&b, "decoder/layer_0/attention/linear_1/bias", 6, F32, 24, values);
    buf_put_u32(&b, 0);
    assert_ok(ct2_file_parse(b.data, b.len, &c, &e), e);
    assert_ok(ct2_whisper_check(c, &e), e);
    ct2_file_close(c);
    buf_free(&b);
}

/* Integers are weights with scales that are some; each row has its own. */
TEST(scales_are_checked)
{
    static const int8_t whole[4] = {-128, 127, 64, 1};
    static const float good[2] = {2.0f, -0.5f}, nought[2] = {1.0f, 0.0f},
                       endless[2] = {1, INFINITY};
    static const float *const scales[] = {good, nought, endless, NULL};
    float out[4];

    for (size_t i = 0; i < 4; i++) {
        struct ct2_file *c = NULL;
        struct buf b = BUF_INIT;
        struct weight w;
        struct err e = {0};
        int rc;

        put_head(&b, "WhisperSpec", scales[i] ? 2 : 1);
        put_name(&b, "w");
        buf_put_u8(&b, 2);
        buf_put_u32(&b, 2);
        buf_put_u32(&b, 2);
        buf_put_u8(&b, I8);
        buf_put_u32(&b, 4);
        buf_put(&b, whole, 4);
        if (scales[i])
            put_row(&b, "w_scale", 2, F32, 8, scales[i]);
        buf_put_u32(&b, 1);
        put_name(&b, "v");
        put_name(&b, "w");
        assert_ok(ct2_file_parse(b.data, b.len, &c, &e), e);
        assert_true(ct2_file_find(c, "v", &w)); /* by an alias */
        rc = weight_read(&w, out, &e);
        if (i == 0) {
            assert_ok(rc, e);
            assert_true(out[0] == -64 && out[1] == 63.5f && out[2] == -128 && out[3] == -2);
        } else {
            assert_int_equal(rc, ERR_MODEL);
            assert_says(e.msg, scales[i] ? "a scale that is no scale" : "is of type int8, not");
        }
        ct2_file_close(c);
        buf_free(&b);
    }
}

/* Cut off anywhere, it is refused; with any byte changed it is refused or can be read. */
TEST(damaged_files_of_ctranslate2)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    struct buf b = BUF_INIT;

    put_head(&b, "WhisperSpec", 3);
    put_row(&b, "a", 6, F32, 24, values);
    put_row(&b, "b", 6, I8, 6, values);
    put_row(&b, "b_scale", 1, F32, 4, values);
    buf_put_u32(&b, 1);
    put_name(&b, "c");
    put_name(&b, "a");
    for (size_t at = 0; at < b.len * 256; at++) {
        struct ct2_file *c = NULL;
        struct weight w;
        struct err e = {0};
        uint8_t old = b.data[at / 256];
        size_t len = at % 256 ? b.len : at / 256; /* 0: cut off there */
        uint8_t *copy;

        b.data[at / 256] ^= (uint8_t)(at % 256);
        copy = malloc(len + 1); /* of its own, so that reading past it is seen */
        assert_non_null(copy);
        memcpy(copy, b.data, len);
        if (ct2_file_parse(copy, len, &c, &e) == 0) {
            assert_int_not_equal(at % 256, 0);
            for (size_t i = 0; i < ct2_file_count(c); i++) {
                float *out;

                assert_true(ct2_file_find(c, ct2_file_name_at(c, i), &w));
                out = malloc(w.count * sizeof(float) + 1);
                assert_non_null(out);
                (void)weight_read(&w, out, &e);
                free(out);
            }
            ct2_file_close(c);
        } else {
            assert_int_equal(e.code, ERR_MODEL);
        }
        free(copy);
        b.data[at / 256] = old;
    }
    buf_free(&b);
}

TEST_MAIN(NULL, NULL)
