/* Tokenizers of text encoders against the tokenizers library: encoders/encode.tsv says what it
 * gives (tests/parity/make_encoder_tokenizers.py). */
#include "tests/common/test.h"

#include "base/err.h"
#include "workers/text/tokenizer/tokenizer.h"

#define KINDS 3
#define LINE_BYTES (1 << 16)

static const char *const kinds[KINDS] = {"wordpiece", "unigram", "bpe"};

static struct tokenizer *load(const char *kind)
{
    struct tokenizer *t = NULL;
    struct err e = {0};
    char rel[128];

    snprintf(rel, sizeof(rel), "tests/unit/text/encoders/%s", kind);
    assert_ok(tokenizer_load(test_source_path(rel), &t, &e), e);
    return t;
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = strlen(hex) / 2;

    for (size_t i = 0; i < n; i++) {
        unsigned byte;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (char)byte;
    }
    return n;
}

static void check_ids(const struct tokenizer *t, const char *kind, int line, const char *text,
                      size_t len, uint32_t max, char *want)
{
    struct err e = {0};
    int32_t *ids = NULL;
    size_t n = 0, i = 0;

    assert_ok(tokenizer_encode(t, text, len, max, &ids, &n, &e), e);
    for (char *word = strtok(want, " "); word; word = strtok(NULL, " "), i++) {
        if (i >= n || ids[i] != atoi(word))
            fail_msg("line %d, %s: token %zu is %d, not %s", line, kind, i, i < n ? ids[i] : -1,
                     word);
    }
    if (i != n)
        fail_msg("line %d, %s: %zu tokens, not %zu", line, kind, n, i);
    free(ids);
}

TEST(test_library)
{
    FILE *f = fopen(test_source_path("tests/unit/text/encoders/encode.tsv"), "r");
    static char line[LINE_BYTES], text[LINE_BYTES];
    struct tokenizer *t[KINDS];
    int lines = 0;

    assert_non_null(f);
    for (int k = 0; k < KINDS; k++)
        t[k] = load(kinds[k]);
    while (fgets(line, sizeof(line), f)) {
        char *column[2 + KINDS], *at = line;
        uint32_t max;
        size_t len;

        line[strcspn(line, "\n")] = 0;
        lines++;
        for (int i = 0; i < 2 + KINDS; i++) {
            column[i] = strsep(&at, "\t");
            assert_non_null(column[i]);
        }
        assert_null(at);
        max = (uint32_t)atoi(column[0]);
        len = from_hex(column[1], text);
        for (int k = 0; k < KINDS; k++)
            check_ids(t[k], kinds[k], lines, text, len, max ? max : TOKENIZER_NO_BOUND,
                      column[2 + k]);
    }
    fclose(f);
    assert_true(lines > 200);
    for (int k = 0; k < KINDS; k++)
        tokenizer_free(t[k]);
}

TEST(test_sizes)
{
    static const uint32_t size[KINDS] = {900, 702, 600};

    for (int k = 0; k < KINDS; k++) {
        struct tokenizer *t = load(kinds[k]);

        assert_int_equal(tokenizer_size(t), size[k]);
        assert_int_equal(tokenizer_specials(t), 2);
        tokenizer_free(t);
    }
    tokenizer_free(NULL);
}

/* Bytes that are no UTF-8 are as many U+FFFD, wherever the text ends. */
TEST(test_bytes)
{
    static const char broken[] = "a\xFF\xC3 b\xE2\x82";
    static const char repaired[] = "a\xEF\xBF\xBD\xEF\xBF\xBD b\xEF\xBF\xBD\xEF\xBF\xBD";

    for (int k = 0; k < KINDS; k++) {
        struct tokenizer *t = load(kinds[k]);
        struct err e = {0};
        int32_t *x, *y;
        size_t n, m;

        assert_ok(tokenizer_encode(t, broken, sizeof(broken) - 1, TOKENIZER_NO_BOUND, &x, &n, &e),
                  e);
        assert_ok(
            tokenizer_encode(t, repaired, sizeof(repaired) - 1, TOKENIZER_NO_BOUND, &y, &m, &e), e);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n * sizeof(*x));
        free(x);
        free(y);
        tokenizer_free(t);
    }
}

/* Long texts: time must grow with the length alone. */
TEST(test_long)
{
    size_t len = 300000;
    char *text = malloc(len);

    assert_non_null(text);
    for (int shape = 0; shape < 3; shape++) {
        for (size_t i = 0; i < len; i++)
            text[i] = shape == 0 ? 'a' : shape == 1 ? "ab, "[i % 4] : "\xCC\x81"[i % 2];
        for (int k = 0; k < KINDS; k++) {
            struct tokenizer *t = load(kinds[k]);
            struct err e = {0};
            int32_t *ids;
            size_t n;

            assert_ok(tokenizer_encode(t, text, len, 256, &ids, &n, &e), e);
            assert_true(n >= 2 && n <= 256);
            free(ids);
            /* And all of it, not what lies before the 256th token. */
            assert_ok(tokenizer_encode(t, text, len, TOKENIZER_NO_BOUND, &ids, &n, &e), e);
            assert_true(n >= 2 && n <= len + 2);
            free(ids);
            tokenizer_free(t);
        }
    }
    free(text);
}

TEST_MAIN(NULL, NULL)
