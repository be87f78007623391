/* Damaged and hostile model files: each ends in one sentence that names what is wrong. */
#include "tests/common/test.h"

#include "base/buf.h"
#include "base/err.h"
#include "workers/text/tokenizer/vocabulary.h"

#define SPECIALS                                                                                 \
    "{\"id\":2,\"content\":\"<|endoftext|>\"},{\"id\":3,\"content\":\"<|startoftranscript|>\"}," \
    "{\"id\":4,\"content\":\"<|en|>\"},{\"id\":5,\"content\":\"<|transcribe|>\"},"               \
    "{\"id\":6,\"content\":\"<|notimestamps|>\"}"
#define TOKENIZER(vocab, merges, added) \
    "{\"added_tokens\":[" added "],\"model\":{\"vocab\":" vocab ",\"merges\":" merges "}}"
#define GOOD TOKENIZER("{\"a\":0,\"b\":1}", "[]", SPECIALS)

static int parse(const char *tokenizer, size_t len, const char *generation, const char *config,
                 struct err *e)
{
    struct vocabulary_source s = {.tokenizer = tokenizer,
                                  .generation = generation,
                                  .config = config,
                                  .tokenizer_len = len,
                                  .generation_len = generation ? strlen(generation) : 0,
                                  .config_len = config ? strlen(config) : 0};
    struct vocabulary *v = NULL;
    int rc = vocabulary_parse(&s, &v, e);

    if (rc)
        assert_null(v);
    vocabulary_free(v);
    return rc;
}

static void refused(const char *tokenizer, const char *generation, const char *config,
                    const char *says)
{
    struct err e = {0};

    assert_int_equal(parse(tokenizer, strlen(tokenizer), generation, config, &e), ERR_MODEL);
    assert_says(e.msg, says);
    assert_null(strchr(e.msg, '\n'));
}

TEST(test_tokenizer)
{
    struct err e = {0};

    assert_ok(parse(GOOD, strlen(GOOD), "{}", "{}", &e), e);
    refused("", NULL, NULL, "tokenizer.json");
    refused("[]", NULL, NULL, "not a JSON object");
    refused("{}", NULL, NULL, "model.vocab");
    refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}", NULL, NULL, "Unigram");
    refused("{\"a\":1,\"a\":2}", NULL, NULL, "duplicate");
    refused("{\"a\":\"\xFF\"}", NULL, NULL, "decode byte");
    refused(TOKENIZER("{\"a\":0,\"b\":0}", "[]", SPECIALS), NULL, NULL, "same id 0");
    refused(TOKENIZER("{\"a\":-1}", "[]", SPECIALS), NULL, NULL, "outside");
    refused(TOKENIZER("{\"a\":9223372036854775807}", "[]", SPECIALS), NULL, NULL, "outside");
    refused(TOKENIZER("{\"a\":99999999999999999999999}", "[]", SPECIALS), NULL, NULL, "too big");
    refused(TOKENIZER("{\"a\":0.5}", "[]", SPECIALS), NULL, NULL, "not an integer");
    refused(TOKENIZER("{\"a\\nb\":0.5}", "[]", SPECIALS), NULL, NULL, "not an integer");
    refused(TOKENIZER("{\"a\":0,\"b\":1}", "[\"a\"]", SPECIALS), NULL, NULL, "merge 0");
    refused(TOKENIZER("{\"a\":0,\"b\":1}", "[\"a b c\"]", SPECIALS), NULL, NULL, "merge 0");
    refused(TOKENIZER("{\"a\":0,\"b\":1}", "[[\"a\",7]]", SPECIALS), NULL, NULL, "merge 0");
    refused(TOKENIZER("{\"a\":0,\"b\":1}", "[\"a c\"]", SPECIALS), NULL, NULL, "'c'");
    refused(TOKENIZER("{\"a\":0,\"b\":1}", "[\"a b\"]", SPECIALS), NULL, NULL, "lacks");
    refused(TOKENIZER("{\"a\":0,\"b\":1,\"ab\":9}", "[\"a b\",\"a b\"]", SPECIALS), NULL, NULL,
            "twice");
    refused(TOKENIZER("{\"a\":0}", "{}", SPECIALS), NULL, NULL, "merges");
    refused(TOKENIZER("{\"a\":0}", "[]", "7"), NULL, NULL, "added token 0");
    refused(TOKENIZER("{\"a\":0}", "[]", "{\"id\":0,\"content\":\"x\"}"), NULL, NULL, "same id");
    refused(TOKENIZER("{\"a\":0}", "[]", "{\"id\":1,\"content\":\"a\"}"), NULL, NULL, "two ids");
}

TEST(test_specials)
{
    refused(TOKENIZER("{\"a\":0}", "[]", ""), NULL, NULL, "<|endoftext|>");
    refused(TOKENIZER("{\"a\":0}", "[]", "{\"id\":2,\"content\":\"<|endoftext|>\"}"), NULL, NULL,
            "<|startoftranscript|>");
    refused(TOKENIZER("{\"a\":0}", "[]", "{\"id\":2,\"content\":\"<|endoftext|>\"}"),
            "{\"decoder_start_token_id\":1}", NULL, "<|notimestamps|>");
    refused(TOKENIZER("{\"a\":0}", "[]", "{\"id\":2,\"content\":\"<|endoftext|>\"}"),
            "{\"decoder_start_token_id\":1,\"no_timestamps_token_id\":4}", NULL, "order");
    refused(TOKENIZER("{\"a\":0}", "[]", SPECIALS ",{\"id\":7,\"content\":\"<|30.00|>\"}"), NULL,
            NULL, "timestamps");
    refused(GOOD, "{\"eos_token_id\":2,\"lang_to_id\":{\"english\":4}}", NULL, "english");
    refused(GOOD, "{\"lang_to_id\":{\"<|en|>\":3}}", NULL, "<|en|>");
    refused(GOOD, "{\"lang_to_id\":{\"<|de|>\":99999999}}", NULL, "lang_to_id");
    refused(GOOD, "{\"lang_to_id\":{\"<|de|>\":4,\"<|fr|>\":4}}", NULL, "same id");
    refused(GOOD, "{\"lang_to_id\":{}}", NULL, "language");
    refused(GOOD, "{\"lang_to_id\":{\"<|EN|>\":4}}", NULL, "<|EN|>");
}

TEST(test_configuration)
{
    refused(GOOD, "nonsense", NULL, "generation_config.json");
    refused(GOOD, NULL, "[1]", "config.json");
    refused(GOOD, NULL, "{\"vocab_size\":6}", "vocab_size");
    refused(GOOD, NULL, "{\"vocab_size\":7}", "<|30.00|>");
    refused(GOOD, NULL, "{\"vocab_size\":-1}", "vocab_size");
    refused(GOOD, NULL, "{\"vocab_size\":99999999999}", "vocab_size");
    refused(GOOD, NULL, "{\"vocab_size\":\"many\"}", "vocab_size");
    refused(GOOD, "{\"suppress_tokens\":7}", NULL, "suppress_tokens");
    refused(GOOD, "{\"suppress_tokens\":[\"a\"]}", NULL, "suppress_tokens");
    refused(GOOD, "{\"suppress_tokens\":[1507]}", "{\"vocab_size\":1507}", "1507");
    refused(GOOD, "{\"suppress_tokens\":[-2]}", NULL, "-2");
    refused(GOOD, "{\"begin_suppress_tokens\":[12345678901]}", NULL, "begin_suppress_tokens");
    refused(GOOD, "{\"alignment_heads\":[[1]]}", NULL, "alignment_heads[0]");
    refused(GOOD, "{\"alignment_heads\":[[1,-1]]}", NULL, "alignment_heads[0]");
    refused(GOOD, "{\"alignment_heads\":3}", NULL, "alignment_heads");
    refused(GOOD, "{\"max_initial_timestamp_index\":1501}", NULL, "max_initial_timestamp_index");
}

TEST(test_depth)
{
    struct buf b = BUF_INIT;
    struct err e = {0};

    for (int i = 0; i < 1000000; i++)
        buf_put(&b, "[", 1);
    assert_int_equal(parse((char *)b.data, b.len, NULL, NULL, &e), ERR_MODEL);
    buf_free(&b);
}

TEST(test_size)
{
    size_t len = (32u << 20) + 1;
    char *big = malloc(len);
    struct err e = {0};

    assert_non_null(big);
    memset(big, ' ', len);
    assert_int_equal(parse(big, len, NULL, NULL, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "32 MiB"));
    free(big);
}

/* Cut anywhere: refused or (blanks at the end) read, never a crash. */
TEST(test_truncated)
{
    struct err e = {0};

    for (size_t n = 0; n < strlen(GOOD); n++) {
        char *copy = malloc(n + 1); /* exact, so that reading past the end is seen */
        memcpy(copy, GOOD, n);
        assert_int_equal(parse(copy, n, NULL, NULL, &e), ERR_MODEL);
        free(copy);
    }
}

TEST(test_missing)
{
    struct vocabulary *v = NULL;
    struct err e = {0};

    assert_int_equal(vocabulary_load("/nonexistent", &v, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "tokenizer.json is missing"));
    assert_int_equal(vocabulary_load("/dev/null", &v, &e), ERR_MODEL);
    assert_null(v);
}

TEST_MAIN(NULL, NULL)
