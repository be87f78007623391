/* Memory that runs out at every allocation in turn while a tokenizer or a vocabulary is read and
 * used. */
#include "tests/common/test.h"

#include "base/err.h"
#include "tests/common/nomem.h"
#include "workers/text/codepoints.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/tokenizer.h"
#include "workers/text/tokenizer/vocabulary.h"

static const char text[] = "The archive, naïve 文字 of 1990: [MASK] wonderful recordings!";

static int encode(const struct tokenizer *t, struct err *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    int rc = tokenizer_encode(t, text, sizeof(text) - 1, TOKENIZER_NO_BOUND, &ids, &n, err);

    assert_true(rc == 0 ? n > 5 : !ids && n == 0);
    free(ids);
    return rc;
}

/* What is there after an encoding that failed still encodes. */
static int encode_again(const struct tokenizer *t, struct err *err)
{
    int rc = encode(t, err);
    struct err e = {0};

    if (rc != 0)
        assert_ok(encode(t, &e), e);
    return rc;
}

static int load_tokenizer(void *arg, struct err *err)
{
    const char *kind = arg;
    struct tokenizer *t = NULL;
    char rel[128];
    int rc;

    snprintf(rel, sizeof(rel), "tests/unit/text/encoders/%s", kind);
    rc = tokenizer_load(test_source_path(rel), &t, err);
    assert_true(rc == 0 || !t);
    if (rc == 0)
        rc = encode_again(t, err);
    tokenizer_free(t);
    return rc;
}

TEST(wordpiece) { assert_true(nomem_each(load_tokenizer, (char[]){"wordpiece"}) > 20); }

TEST(unigram) { assert_true(nomem_each(load_tokenizer, (char[]){"unigram"}) > 20); }

TEST(bpe) { assert_true(nomem_each(load_tokenizer, (char[]){"bpe"}) > 20); }

static int use_vocabulary(const struct vocabulary *v, struct err *err)
{
    int32_t *ids = NULL;
    char *back = NULL;
    size_t n = 0;
    int rc = vocabulary_encode(v, "abba", &ids, &n, err);

    assert_true(rc == 0 || (!ids && n == 0));
    if (rc == 0)
        rc = vocabulary_decode(v, ids, n, &back, err);
    assert_true(rc != 0 ? back == NULL : strcmp(back, "abba") == 0);
    free(back);
    free(ids);
    return rc;
}

#define ADDED(content, id) "{\"id\":" #id ",\"content\":\"" content "\"}"

static int parse_vocabulary(void *arg, struct err *err)
{
    /* clang-format off */
    static const char tokenizer[] =
        "{\"added_tokens\":[" ADDED("<|endoftext|>", 3) "," ADDED("<|startoftranscript|>", 4) ","
        ADDED("<|en|>", 5) "," ADDED("<|transcribe|>", 6) "," ADDED("<|notimestamps|>", 7) "],"
        "\"pre_tokenizer\":{\"add_prefix_space\":true},"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    /* clang-format on */
    static const char generation[] = "{\"suppress_tokens\":[1],\"alignment_heads\":[[0,0]]}";
    struct vocabulary_source s = {.tokenizer = tokenizer,
                                  .generation = generation,
                                  .tokenizer_len = sizeof(tokenizer) - 1,
                                  .generation_len = sizeof(generation) - 1};
    struct vocabulary *v = NULL;
    int rc = vocabulary_parse(&s, &v, err);

    (void)arg;
    assert_true(rc == 0 || !v);
    if (rc == 0)
        rc = use_vocabulary(v, err);
    vocabulary_free(v);
    return rc;
}

/* The same from a list. */
static int parse_tokens(void *arg, struct err *err)
{
    static const struct vocabulary_token tokens[] = {
        {"a", 1},
        {"b", 1},
        {"ab", 2},
        {"<|endoftext|>", 13},
        {"<|startoftranscript|>", 21},
        {"<|en|>", 6},
        {"<|transcribe|>", 14},
        {"<|notimestamps|>", 16},
    };
    const struct vocabulary_source s = {.tokens = tokens,
                                        .token_count = sizeof(tokens) / sizeof(tokens[0]),
                                        .text_count = 3,
                                        .spelled = arg};
    struct vocabulary *v = NULL;
    int rc = vocabulary_parse(&s, &v, err);

    assert_true(rc == 0 || !v);
    if (rc == 0)
        rc = use_vocabulary(v, err);
    vocabulary_free(v);
    return rc;
}

TEST(list_of_tokens)
{
    static char spelled[] = "spelled";

    assert_true(nomem_each(parse_tokens, NULL) > 20);
    assert_true(nomem_each(parse_tokens, spelled) > 20);
}

TEST(vocabulary) { assert_true(nomem_each(parse_vocabulary, NULL) > 20); }

static int load_vocabulary(void *arg, struct err *err)
{
    struct vocabulary *v = NULL;
    int rc = vocabulary_load(arg, &v, err);

    assert_true(rc == 0 || !v);
    vocabulary_free(v);
    return rc;
}

TEST(vocabulary_of_files)
{
    char dir[4096];

    snprintf(dir, sizeof(dir), "%s", test_source_path("workers/models/whisper-nano"));
    assert_true(nomem_each(load_vocabulary, dir) > 10);
}

static int read_json(void *arg, struct err *err)
{
    json_t *json = NULL;
    int rc = json_file_need(arg, "config.json", &json, err);

    assert_true(rc == 0 || !json);
    json_decref(json);
    return rc;
}

TEST(json_file)
{
    char dir[4096];

    snprintf(dir, sizeof(dir), "%s", test_source_path("workers/models/whisper-nano"));
    assert_true(nomem_each(read_json, dir) > 0);
}

/* A chain of rules goes on to its end, and says there what happened on its way. */
static int change_characters(void *arg, struct err *err)
{
    struct codepoints a = {0}, b = {0}, c = {0}, d = {0};
    char *back;

    (void)arg;
    codepoints_put_utf8(&a, text, sizeof(text) - 1);
    codepoints_lower(&b, &a);
    codepoints_decompose(&c, &b, true);
    codepoints_canonical(&d, &c, false);
    d.failed = d.failed || a.failed || b.failed || c.failed;
    back = codepoints_utf8(&d);
    codepoints_free(&a);
    codepoints_free(&b);
    codepoints_free(&c);
    codepoints_free(&d);
    if (!back)
        return err_set(err, ERR_NOMEM, "characters");
    free(back);
    return 0;
}

TEST(characters) { assert_true(nomem_each(change_characters, NULL) >= 5); }

TEST_MAIN(NULL, NULL)
