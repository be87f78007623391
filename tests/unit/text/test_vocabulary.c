/* The nano model's vocabulary, and the encoding of 702 texts as the tokenizers library does it
 * (encode.tsv, made by tests/parity/make_tokenizer_fixtures.py). */
#include "tests/common/test.h"

#include "base/err.h"
#include "workers/text/tokenizer/bpe.h"
#include "workers/text/tokenizer/vocabulary.h"

static struct vocabulary *nano;

static int load(void **state)
{
    struct err e;

    (void)state;
    if (vocabulary_load(test_source_path("workers/models/whisper-nano"), &nano, &e)) {
        print_error("%s\n", e.msg);
        return -1;
    }
    return 0;
}

static int unload(void **state)
{
    (void)state;
    vocabulary_free(nano);
    return 0;
}

TEST(test_ids)
{
    const struct vocabulary_ids *ids = vocabulary_ids(nano);
    const int32_t(*heads)[2];
    const int32_t *list;
    size_t n;

    assert_int_equal(ids->eot, 640);
    assert_int_equal(ids->sot, 641);
    assert_int_equal(ids->translate, 644);
    assert_int_equal(ids->transcribe, 645);
    assert_int_equal(ids->sot_lm, 646);
    assert_int_equal(ids->sot_prev, 647);
    assert_int_equal(ids->no_speech, 648);
    assert_int_equal(ids->no_timestamps, 649);
    assert_int_equal(ids->timestamp_begin, 650);
    assert_int_equal(ids->timestamp_end, 2150);
    assert_int_equal(ids->first_language, 642);
    assert_int_equal(vocabulary_size(nano), 2151);
    assert_true(vocabulary_multilingual(nano));
    assert_int_equal(vocabulary_language_count(nano), 2);
    assert_int_equal(vocabulary_language_id(nano, "es"), 643);
    assert_int_equal(vocabulary_language_id(nano, "de"), -1);
    assert_string_equal(vocabulary_language_code(nano, 642), "en");
    assert_null(vocabulary_language_code(nano, 644));
    assert_int_equal(vocabulary_language_at(nano, 1), 643);
    assert_int_equal(vocabulary_language_at(nano, 2), -1);
    vocabulary_suppress(nano, &n);
    assert_int_equal(n, 0);
    list = vocabulary_begin_suppress(nano, &n);
    assert_int_equal(n, 2);
    assert_int_equal(list[0], 220);
    assert_int_equal(list[1], 640);
    assert_int_equal(vocabulary_max_initial_timestamp_index(nano), 50);
    heads = vocabulary_alignment_heads(nano, &n);
    assert_int_equal(n, 2);
    assert_int_equal(heads[1][0], 1);
    assert_int_equal(heads[1][1], 1);
}

static size_t unhex(const char *hex, size_t n, char *out)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        unsigned byte;
        assert_int_equal(sscanf(hex + i, "%2x", &byte), 1);
        out[i / 2] = (char)byte;
    }
    out[n / 2] = 0;
    return n / 2;
}

/* One line of encode.tsv; also that decoding gives the text back. */
static void encodes_as(char *line, size_t number)
{
    char *tab = strchr(line, '\t'), text[4096], *back, *at;
    int32_t *ids = NULL;
    struct err e;
    size_t n;

    assert_non_null(tab);
    unhex(line, (size_t)(tab - line), text);
    assert_ok(vocabulary_encode(nano, text, &ids, &n, &e), e);
    at = tab + 1;
    for (size_t i = 0; i < n; i++) {
        char *end;
        long want = strtol(at, &end, 10);
        if (end == at || want != ids[i])
            fail_msg("line %zu: token %zu is %d, not %ld (text %s)", number, i, ids[i], want, text);
        at = end;
    }
    if (strspn(at, " \n") != strlen(at))
        fail_msg("line %zu: %zu tokens, further ones expected: %s", number, n, at);
    assert_ok(vocabulary_decode(nano, ids, n, &back, &e), e);
    assert_string_equal(back, text);
    free(back);
    free(ids);
}

TEST(test_encode)
{
    FILE *f = fopen(test_source_path("tests/unit/text/encode.tsv"), "r");
    static char line[16384];
    size_t n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        encodes_as(line, ++n);
    fclose(f);
    assert_true(n > 700);
}

TEST(test_encode_ill_formed)
{
    int32_t *a, *b;
    struct err e;
    size_t n, m;

    assert_ok(vocabulary_encode(nano, "a\xFF\xC3 b\xED\xA0\x80", &a, &n, &e), e);
    assert_ok(vocabulary_encode(nano,
                                "a\xEF\xBF\xBD\xEF\xBF\xBD b\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
                                &b, &m, &e),
              e);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n * sizeof(*a));
    free(a);
    free(b);
}

TEST(test_decode)
{
    static const int32_t ids[] = {641, 642, 645, 673, 261, 275, 396, 13, 740, 640, -1, 99999, 2150};
    int32_t *bytes;
    struct err e;
    char *text;
    size_t n;

    assert_ok(vocabulary_decode(nano, ids, sizeof(ids) / sizeof(ids[0]), &text, &e), e);
    assert_string_equal(text, " farmer.");
    free(text);
    assert_ok(vocabulary_decode(nano, NULL, 0, &text, &e), e);
    assert_string_equal(text, "");
    free(text);
    /* Half of a two-byte character. */
    assert_ok(vocabulary_encode(nano, "\xC5\x93", &bytes, &n, &e), e);
    assert_int_equal(n, 2);
    assert_ok(vocabulary_decode(nano, bytes, 1, &text, &e), e);
    assert_string_equal(text, "\xEF\xBF\xBD");
    free(text);
    free(bytes);
}

static void splits_as(const char *text, const char *expected)
{
    char got[256] = "";
    size_t len = strlen(text);

    for (size_t i = 0, k; i < len; i += k) {
        k = bpe_word(text + i, len - i);
        assert_true(k > 0 && k <= len - i);
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%.*s", i ? "|" : "", (int)k,
                 text + i);
    }
    assert_string_equal(got, expected);
}

TEST(test_words)
{
    splits_as("it's 12 o'clock", "it|'s| 12| o|'|clock");
    splits_as("a   b", "a|  | b");
    splits_as("a\n\nb ", "a|\n|\n|b| ");
    splits_as("x1,  \xC2\xBD!", "x|1|,| | \xC2\xBD|!");
    splits_as("'ll'LL", "'ll|'|LL");
    splits_as(" \xC2\xA0z", " |\xC2\xA0|z");
}

/* ---- other kinds of model, from JSON written here */

#define MODEL(vocab, merges, added)                                               \
    "{\"added_tokens\":[" added "],\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab \
    "},\"merges\":[" merges "]}}"
#define ADDED(content, id) "{\"id\":" #id ",\"content\":\"" content "\"}"
#define OLD_SPECIALS                                                                                \
    ADDED("<|endoftext|>", 5)                                                                       \
    "," ADDED("<|startoftranscript|>", 6) "," ADDED("<|en|>", 7) "," ADDED("<|haw|>", 8) "," ADDED( \
        "<|yue|>",                                                                                  \
        9) "," ADDED("<|translate|>",                                                               \
                     10) "," ADDED("<|transcribe|>",                                                \
                                   11) "," ADDED("<|startoflm|>",                                   \
                                                 12) "," ADDED("<|startofprev|>",                   \
                                                               13) "," ADDED("<|nocaptions|>",      \
                                                                             14) "," ADDED("<|"     \
                                                                                           "notim"  \
                                                                                           "estam"  \
                                                                                           "ps|>",  \
                                                                                           15)

static struct vocabulary *parse(const char *tokenizer, const char *generation, const char *config)
{
    struct vocabulary_source s = {.tokenizer = tokenizer,
                                  .generation = generation,
                                  .config = config,
                                  .tokenizer_len = strlen(tokenizer),
                                  .generation_len = generation ? strlen(generation) : 0,
                                  .config_len = config ? strlen(config) : 0};
    struct vocabulary *v = NULL;
    struct err e;

    assert_ok(vocabulary_parse(&s, &v, &e), e);
    return v;
}

#define VOCAB "\"a\":0,\"b\":1,\"ab\":2,\"\xC4\xA0\":3,\"\":4"

/* As published in 2022: no timestamps among the tokens, <|nocaptions|>, merges as strings, no
 * generation_config.json. */
TEST(test_old_files)
{
    struct vocabulary *v = parse(MODEL(VOCAB, "\"a b\"", OLD_SPECIALS), NULL,
                                 "{\"vocab_size\":1517,\"suppress_tokens\":[0,null,-1,2],"
                                 "\"begin_suppress_tokens\":[3],"
                                 "\"forced_decoder_ids\":[[1,7],[2,11],[3,15]]}");
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    const int32_t *list;
    size_t n;

    assert_int_equal(ids->timestamp_begin, 16);
    assert_int_equal(ids->timestamp_end, 1516);
    assert_int_equal(ids->no_speech, 14);
    assert_int_equal(vocabulary_size(v), 1517);
    assert_int_equal(vocabulary_language_count(v), 3);
    assert_int_equal(vocabulary_language_id(v, "haw"), 8);
    assert_int_equal(ids->first_language, 7);
    list = vocabulary_suppress(v, &n);
    assert_int_equal(n, 2);
    assert_int_equal(list[1], 2);
    list = vocabulary_begin_suppress(v, &n);
    assert_int_equal(n, 1);
    assert_int_equal(list[0], 3);
    assert_int_equal(vocabulary_max_initial_timestamp_index(v), 50);
    vocabulary_free(v);
}

/* Merges as pairs; a configuration with nulls; lang_to_id with one language more than v2 had. */
TEST(test_new_files)
{
    struct vocabulary *v =
        parse(MODEL(VOCAB, "[\"a\",\"b\"]",
                    OLD_SPECIALS "," ADDED("<|0.00|>", 16) "," ADDED("<|30.00|>", 1516)),
              "{\"lang_to_id\":{\"<|yue|>\":9,\"<|en|>\":7},\"suppress_tokens\":null,"
              "\"begin_suppress_tokens\":null,\"alignment_heads\":null,"
              "\"max_initial_timestamp_index\":null}",
              "{\"vocab_size\":1600,\"suppress_tokens\":[0]}");
    int32_t *ids;
    struct err e;
    size_t n;

    assert_int_equal(vocabulary_language_count(v), 2);
    assert_int_equal(vocabulary_language_id(v, "haw"), -1);
    assert_int_equal(vocabulary_language_at(v, 0), 7);
    vocabulary_suppress(v, &n); /* the newer file says: none */
    assert_int_equal(n, 0);
    vocabulary_begin_suppress(v, &n);
    assert_int_equal(n, 0);
    assert_ok(vocabulary_encode(v, "abaab", &ids, &n, &e), e);
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[1], 0);
    assert_int_equal(ids[2], 2);
    free(ids);
    vocabulary_free(v);
}

TEST(test_english_only)
{
    static const char *const generation[] = {"{\"is_multilingual\":false}",
                                             "{\"forced_decoder_ids\":[[1,15]]}", "{}"};
    static const char *const config[] = {
        "{}", "{}", "{\"begin_suppress_tokens\":[3],\"forced_decoder_ids\":[[1,15]]}"};

    for (size_t i = 0; i < 3; i++) {
        struct vocabulary *v =
            parse(MODEL(VOCAB, "\"a b\"", OLD_SPECIALS), generation[i], config[i]);
        size_t n;

        assert_false(vocabulary_multilingual(v));
        assert_int_equal(vocabulary_ids(v)->first_language, -1);
        assert_int_equal(vocabulary_language_count(v), 0);
        assert_int_equal(vocabulary_language_id(v, "en"), -1);
        vocabulary_begin_suppress(v, &n); /* absent everywhere: a blank and the end */
        assert_int_equal(n, i < 2 ? 2 : 1);
        vocabulary_free(v);
    }
}

TEST_MAIN(load, unload)
