/* Files of whisper.cpp's that are made up or changed here: what is refused, and what is damaged. */
#include "tests/common/test.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/common/files.h"
#include "tests/unit/models/layout_copy.h"
#include "workers/models/files/formats/ggml_file.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/whisper/whisper.h"
#include "workers/text/tokenizer/vocabulary.h"

/* The sizes of a network of 8 output rows, no filters, `tokens` tokens. */
static void put_ggml_head(struct buf *b, uint32_t tokens)
{
    buf_put_u32(b, WEIGHT_GGML_MAGIC);
    for (uint32_t i = 0; i < 11; i++)
        buf_put_u32(b, 8);
    buf_put_u32(b, 0);
    buf_put_u32(b, 0);
    buf_put_u32(b, tokens);
}

static void put_ggml_tensor(struct buf *b, const char *name, uint32_t rows, uint32_t cols,
                            uint32_t type, size_t bytes)
{
    buf_put_u32(b, 2);
    buf_put_u32(b, (uint32_t)strlen(name));
    buf_put_u32(b, type);
    buf_put_u32(b, cols);
    buf_put_u32(b, rows);
    buf_put(b, name, strlen(name));
    while (bytes--)
        buf_put_u8(b, 1);
}

static void ggml_refused(struct buf *b, const char *sentence)
{
    struct ggml_file *g = NULL;
    struct err e = {0};
    int rc = ggml_file_parse(b->data, b->len, &g, &e);

    print_message("  %s\n", e.msg);
    assert_false(b->failed);
    assert_int_equal(rc, ERR_MODEL);
    assert_null(g);
    assert_says(e.msg, sentence);
    buf_free(b);
}

TEST(files_of_whisper_cpp_are_checked)
{
    struct buf b = BUF_INIT;

    buf_put(&b, "GGUF", 4);
    ggml_refused(&b, "no model of whisper.cpp's");
    buf_put_u32(&b, WEIGHT_GGML_MAGIC);
    buf_put_u32(&b, 8);
    ggml_refused(&b, "ends too early");
    put_ggml_head(&b, 0);
    ggml_refused(&b, "it has no tensors");
    put_ggml_head(&b, UINT32_MAX);
    ggml_refused(&b, "ends too early");
    put_ggml_head(&b, 1);
    buf_put_u32(&b, UINT32_MAX);
    ggml_refused(&b, "ends too early");
    put_ggml_head(&b, 0);
    memset(b.data + 48, 0xff, 8); /* filters */
    ggml_refused(&b, "ends too early");
    put_ggml_head(&b, 0);
    put_ggml_tensor(&b, "a", 2, 2, 0, 15);
    ggml_refused(&b, "'a' ends 1 bytes past the end");
    put_ggml_head(&b, 0);
    put_ggml_tensor(&b, "a", 2, 2, 9, 16);
    ggml_refused(&b, "'a' is of ggml's type 9");
    put_ggml_head(&b, 0);
    put_ggml_tensor(&b, "a", 2, 2, 4000000000u, 16);
    ggml_refused(&b, "'a' is of ggml's type 4000000000");
    put_ggml_head(&b, 0); /* a block would be in two rows */
    put_ggml_tensor(&b, "a", 2, 16, 8, 34);
    ggml_refused(&b, "'a' has no shape that Q8_0 can have");
    put_ggml_head(&b, 0); /* more bytes than 64 bits can count */
    put_ggml_tensor(&b, "a", UINT32_MAX, UINT32_MAX, 0, 16);
    ggml_refused(&b, "'a' has no shape that F32 can have");
    put_ggml_head(&b, 0);
    put_ggml_tensor(&b, "a", 1, 1, 0, 4);
    put_ggml_tensor(&b, "a", 1, 1, 0, 4);
    ggml_refused(&b, "'a' is there twice");
    put_ggml_head(&b, 0);
    put_ggml_tensor(&b, "", 1, 1, 0, 4);
    ggml_refused(&b, "has no name");
    put_ggml_head(&b, 0);
    for (int i = 0; i < 3; i++)
        buf_put_u32(&b, 5); /* dimensions */
    ggml_refused(&b, "5 dimensions, not 1 to 4");
}

/* A file whose sizes do not fit each other, or its tokens. */
TEST(sizes_of_whisper_cpp_are_checked)
{
    static const struct {
        size_t at; /* of the number in the file */
        uint32_t value;
        const char *sentence;
    } wrong[] = {
        {4, 2149, "640 text tokens and 2149 output rows"},
        {4, 0, "0 tokens, not 1 to"},
        {8, 1499, "1499 encoder positions"},
        {16, 2, "2 and 3 attention heads"},
        {20, 1000, "1000 encoder layers"},
        {28, 128, "its encoder has 192 values and its decoder 128"},
        {40, 1u << 31, "mel bins"},
    };
    size_t len;
    char *data = file_read(MADE "ggml.bin", &len);

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct vocabulary *v = NULL;
        struct err e = {0};
        uint32_t old;
        int rc;

        memcpy(&old, data + wrong[i].at, 4);
        memcpy(data + wrong[i].at, &wrong[i].value, 4);
        file_write("other.bin", data, len);
        memcpy(data + wrong[i].at, &old, 4);
        rc = whisper_vocabulary("other.bin", &v, &e);
        if (rc == 0) {
            struct whisper_config c;

            rc = whisper_read_sizes("other.bin", &c, &e);
        }
        print_message("  %s\n", e.msg);
        vocabulary_free(v);
        assert_int_equal(rc, ERR_MODEL);
        assert_says(e.msg, wrong[i].sentence);
    }
    free(data);
}

/* Cut off anywhere, it is refused or has fewer tensors; with any byte changed it can be read, or is
 * refused. */
TEST(damaged_files_of_whisper_cpp)
{
    struct buf b = BUF_INIT;

    put_ggml_head(&b, 2);
    buf_put_u32(&b, 2);
    buf_put(&b, "ab", 2);
    buf_put_u32(&b, 0);
    put_ggml_tensor(&b, "a", 2, 32, 8, 68);
    put_ggml_tensor(&b, "b", 1, 3, 1, 6);
    for (size_t at = 0; at < b.len * 256; at++) {
        struct ggml_file *g = NULL;
        struct err e = {0};
        uint8_t old = b.data[at / 256];
        size_t len = at % 256 ? b.len : at / 256; /* 0: cut off there */
        uint8_t *copy;

        b.data[at / 256] ^= (uint8_t)(at % 256);
        copy = malloc(len + 1); /* of its own, so that reading past it is seen */
        assert_non_null(copy);
        memcpy(copy, b.data, len);
        if (ggml_file_parse(copy, len, &g, &e) == 0) {
            for (size_t i = 0; i < ggml_file_count(g); i++) {
                const struct weight *w = ggml_file_find(g, ggml_file_name_at(g, i));
                float *out = malloc(w->count * sizeof(float) + 1);

                assert_non_null(out);
                assert_ok(weight_read(w, out, &e), e);
                free(out);
            }
            ggml_file_close(g);
        } else {
            assert_int_equal(e.code, ERR_MODEL);
        }
        free(copy);
        b.data[at / 256] = old;
    }
    buf_free(&b);
}

TEST_MAIN(NULL, NULL)
