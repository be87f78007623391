/* tokenizer.json files that are damaged, hostile, or ask for what is not read; and the parts of
 * the format that the trained fixtures do not have. */
#include "tests/common/test.h"

#include <sys/resource.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "workers/text/tokenizer/bpe.h"
#include "workers/text/tokenizer/tokenizer.h"

#define WORDS "{\"[UNK]\":0,\"a\":1,\"##b\":2,\"b\":3,\"!\":4}"
#define WORDPIECE(rest) "{\"model\":{\"type\":\"WordPiece\",\"vocab\":" WORDS "}" rest "}"
#define MODEL(fields) "{\"model\":{" fields "}}"
#define UNIGRAM(vocab, rest) MODEL("\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":" vocab rest)
#define NORMALIZER(n) WORDPIECE(",\"normalizer\":" n)
#define SPLIT(p) WORDPIECE(",\"pre_tokenizer\":" p)
#define AROUND(p) WORDPIECE(",\"post_processor\":" p)
#define ADDED(a) WORDPIECE(",\"added_tokens\":" a)

static struct tokenizer *parse(const char *json)
{
    struct tokenizer *t = NULL;
    struct err e = {0};

    assert_ok(tokenizer_parse(json, strlen(json), &t, &e), e);
    return t;
}

static void refused(const char *json, const char *says)
{
    struct tokenizer *t = NULL;
    struct err e = {0};

    assert_int_equal(tokenizer_parse(json, strlen(json), &t, &e), ERR_MODEL);
    assert_null(t);
    assert_says(e.msg, says);
    assert_null(strchr(e.msg, '\n'));
}

/* The ids of a text, parted by blanks. */
static void gives(const char *json, const char *text, const char *want)
{
    struct tokenizer *t = parse(json);
    struct buf got = BUF_INIT;
    struct err e = {0};
    int32_t *ids = NULL;
    size_t n = 0;

    assert_ok(tokenizer_encode(t, text, strlen(text), TOKENIZER_NO_BOUND, &ids, &n, &e), e);
    for (size_t i = 0; i < n; i++)
        buf_printf(&got, "%s%d", i ? " " : "", ids[i]);
    assert_string_equal(n ? buf_cstr(&got) : "", want);
    buf_free(&got);
    free(ids);
    tokenizer_free(t);
}

TEST(test_models)
{
    refused("", "tokenizer.json");
    refused("[]", "not a JSON object");
    refused("{}", "model is missing");
    refused(MODEL("\"type\":\"WordLevel\",\"vocab\":{\"a\":0}"), "WordLevel");
    refused(MODEL("\"type\":\"WordPiece\",\"vocab\":{}"), "model.vocab");
    refused(MODEL("\"type\":\"WordPiece\",\"vocab\":{\"a\":0}"), "[UNK]");
    refused(MODEL("\"type\":\"WordPiece\",\"vocab\":{\"a\":-1}"), "'a'");
    refused(MODEL("\"type\":\"WordPiece\",\"vocab\":{\"a\":1048576}"), "'a'");
    refused(MODEL("\"type\":\"WordPiece\",\"vocab\":{\"\":1}"), "bytes long");
    refused(MODEL("\"vocab\":" WORDS ",\"max_input_chars_per_word\":0"), "max_input_chars");
    refused(MODEL("\"vocab\":" WORDS ",\"max_input_chars_per_word\":1e9"), "max_input_chars");
    refused(UNIGRAM("[]", ""), "model.vocab");
    refused(UNIGRAM("[[\"a\"]]", ""), "model.vocab[0]");
    refused(UNIGRAM("[[\"a\",\"b\"]]", ""), "model.vocab[0]");
    refused(UNIGRAM("[[7,1]]", ""), "model.vocab[0]");
    refused(UNIGRAM("[[\"a\",0]]", ",\"byte_fallback\":true"), "byte_fallback");
    refused(MODEL("\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]"), "unk_id");
    refused(MODEL("\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]"), "unk_id");
    refused(MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]"), "ByteLevel");
    refused(MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1"), "dropout");
    refused(
        MODEL("\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"x\""),
        "end_of_word_suffix");
    refused("{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":"
            "[\"a b\"]}}",
            "merge 0");
}

TEST(test_parts)
{
    refused(NORMALIZER("7"), "no type");
    refused(NORMALIZER("{\"type\":\"Sequence\",\"normalizers\":7}"), "sequence");
    refused(NORMALIZER("{\"type\":\"Odd\\n\"}"), "Odd");
    refused(NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a*\"},\"content\":\"\"}"),
            "a*");
    refused(NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"),
            "replaces");
    refused(NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"), "replacement");
    refused(NORMALIZER("{\"type\":\"Precompiled\"}"), "precompiled_charsmap");
    refused(SPLIT("{}"), "no type");
    refused(SPLIT("{\"type\":\"Split\"}"), "Split");
    refused(SPLIT("{\"type\":\"ByteLevel\"}"), "BPE only");
    refused(SPLIT("{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), "one character");
    refused(SPLIT("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"),
            "last");
    refused(SPLIT("{\"type\":\"Punctuation\",\"behavior\":\"Removed\"}"), "Removed");
    refused(AROUND("{\"type\":\"Odd\"}"), "Odd");
    refused(AROUND("{\"type\":\"TemplateProcessing\"}"), "no text");
    refused(AROUND("{\"type\":\"TemplateProcessing\",\"single\":[{}]}"), "cannot be read");
    refused(AROUND("{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\","
                   "\"type_id\":1}}]}"),
            "second type");
    refused(AROUND("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\","
                   "\"type_id\":0}}]}"),
            "no ids");
    refused(AROUND("{\"type\":\"BertProcessing\",\"sep\":[\"x\",-1],\"cls\":[\"y\",0]}"),
            "usable ids");
    refused(ADDED("7"), "added_tokens");
    refused(ADDED("[{\"id\":9}]"), "added token 0");
    refused(ADDED("[{\"id\":9,\"content\":\"a\"}]"), "two ids");
    refused(ADDED("[{\"id\":2000000,\"content\":\"x\"}]"), "added token 0");
}

/* Steps that double a text, one after the other. */
TEST(test_growth)
{
    struct buf json = BUF_INIT;
    struct tokenizer *t = NULL;
    struct err e = {0};
    int32_t *ids;
    size_t n;

    buf_printf(&json, "{\"model\":{\"vocab\":" WORDS "},\"normalizer\":{\"type\":\"Sequence\","
                      "\"normalizers\":[");
    for (int i = 0; i < 32; i++)
        buf_printf(&json,
                   "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaa\"}",
                   i ? "," : "");
    buf_printf(&json, "]}}");
    assert_ok(tokenizer_parse((char *)json.data, json.len, &t, &e), e);
    assert_int_equal(tokenizer_encode(t, "aaaaaaaa", 8, TOKENIZER_NO_BOUND, &ids, &n, &e),
                     ERR_MODEL);
    assert_non_null(strstr(e.msg, "far too long"));
    tokenizer_free(t);
    buf_clear(&json);
    buf_printf(&json, "{\"model\":{\"vocab\":" WORDS "},\"normalizer\":{\"type\":\"Sequence\","
                      "\"normalizers\":[");
    for (int i = 0; i < 33; i++)
        buf_printf(&json, "%s{\"type\":\"NFC\"}", i ? "," : "");
    buf_printf(&json, "]}}");
    refused(buf_cstr(&json), "over 32 steps");
    buf_free(&json);
}

static long most_memory_kb(void)
{
    struct rusage used;

    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_maxrss;
}

/* The bound is kept within a step, too: the second one here would make 60,000 characters 250
 * million, which are a gigabyte. */
TEST(test_growth_within_a_step)
{
    const size_t len = 60000;
    struct buf json = BUF_INIT;
    char *text = malloc(len), many[65] = "";
    struct tokenizer *t = NULL;
    struct err e = {0};
    int32_t *ids;
    size_t n;
    long before;

    memset(text, 'a', len);
    memset(many, 'a', 64);
    buf_printf(&json, "{\"model\":{\"vocab\":" WORDS "},\"normalizer\":{\"type\":\"Sequence\","
                      "\"normalizers\":[");
    for (int i = 0; i < 2; i++)
        buf_printf(&json,
                   "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}",
                   i ? "," : "", many);
    buf_printf(&json, "]}}");
    assert_ok(tokenizer_parse((char *)json.data, json.len, &t, &e), e);
    before = most_memory_kb();
    assert_int_equal(tokenizer_encode(t, text, len, TOKENIZER_NO_BOUND, &ids, &n, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "far too long"));
    assert_true(most_memory_kb() - before < 200 << 10);
    tokenizer_free(t);
    buf_free(&json);
    free(text);
}

/* Of the bytes that may stand in a string of JSON as they are, the one whose edge comes first in a
 * table hashed by 2^32 over the golden ratio and nothing secret. */
static char crowding_byte(uint32_t node)
{
    uint32_t lowest = UINT32_MAX;
    char best = 0;

    for (char c = 33; c < 127; c++) {
        uint32_t i = (node << 8 | (uint8_t)c) * 2654435769u;

        i = (i ^ i >> 15) & 0x3FFFF;
        if (c == '"' || c == '\\' || i > lowest)
            continue;
        lowest = i;
        best = c;
    }
    return best;
}

/* A vocabulary whose author knew the numbers of the trie's nodes and chose each byte so that all
 * edges begin at one place. With a hash that can be foretold it costs 10^10 steps, some ten
 * seconds; without, 10^5. */
TEST(test_crowded_trie)
{
    struct buf json = BUF_INIT;
    struct tokenizer *t = NULL;
    struct err e = {0};
    uint32_t nodes = 6; /* of the root and "<unk>" */
    clock_t start;

    assert_true(hash_seed() != hash_seed());
    buf_printf(&json, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0]");
    for (int k = 0; k < 128; k++) {
        buf_printf(&json, ",[\"%c%c", 'A' + k / 16, 'A' + k % 16);
        nodes += k % 16 ? 1 : 2;
        for (int i = 0; i < 1020; i++, nodes++)
            buf_put_u8(&json, (uint8_t)crowding_byte(nodes - 1));
        buf_printf(&json, "\",-1]");
    }
    buf_printf(&json, "]}}");
    start = clock();
    assert_ok(tokenizer_parse((char *)json.data, json.len, &t, &e), e);
    assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
    tokenizer_free(t);
    buf_free(&json);
}

/* A file with a string of n 'y's in its middle. */
static char *around(const char *before, size_t n, const char *after)
{
    struct buf b = BUF_INIT;

    buf_printf(&b, "%s", before);
    for (size_t i = 0; i < n; i++)
        buf_put_u8(&b, 'y');
    buf_printf(&b, "%s", after);
    buf_put_u8(&b, 0);
    assert_false(b.failed);
    return (char *)b.data;
}

/* What a text is compared with at each of its characters is not long. */
TEST(test_long_tokens)
{
    static const char added[] = "{\"model\":{\"vocab\":" WORDS "},\"added_tokens\":"
                                "[{\"id\":7,\"content\":\"";
    static const char unigram[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":"
                                  "[[\"<unk>\",0],[\"";
    char *json = around(unigram, 1024, "\",-1]]}}"), *text = around("", 1024, "");

    gives(json, text, "1");
    free(json);
    json = around(unigram, 1025, "\",-1]]}}");
    refused(json, "token 1 is 1025 bytes long");
    free(json);
    free(text);
    json = around(added, 256, "\"}]}");
    text = around("", 256, "");
    gives(json, text, "7");
    free(json);
    json = around(added, 257, "\"}]}");
    refused(json, "added token 0 is 257 bytes long");
    free(json);
    free(text);
}

/* A trie whose units lead anywhere: looked up, never followed out of its bounds. */
TEST(test_charsmap)
{
    static const char *const bad[] = {
        "%%%%", "AAAA", "BAAAAA==", "CAAAAAAAAAAAAAAA", "/////wAAAAAAAAAA", "BQAAAAAAAAAAAAAA"};
    /* One trie unit, offset all ones, and one empty string. */
    static const char *const wild[] = {"BAAAAP////8A", "BAAAAAAAAAAA", "BAAAAAABAAAA"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char json[400];

        snprintf(json, sizeof(json),
                 NORMALIZER("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}"), bad[i]);
        refused(json, "precompiled_charsmap");
    }
    for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        char json[400];

        snprintf(json, sizeof(json),
                 NORMALIZER("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}"), wild[i]);
        gives(json, "ab", "1 2");
    }
}

#define CHANGE(pattern, content) \
    "{\"type\":\"Replace\",\"pattern\":" pattern ",\"content\":\"" content "\"}"
#define META(scheme, rest)                                                                 \
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":" \
    "\"" scheme "\"" rest "},\"added_tokens\":[{\"id\":7,\"content\":\"[X]\"}],\"model\":" \
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"_\",-2],[\"a\",-2],"   \
    "[\"_a\",-1],[\"b\",-2],[\"ab\",-3],[\"a_a\",-1]]}}"

TEST(test_options)
{
    gives(WORDPIECE(""), "", "");
    gives(WORDPIECE(""), "ab", "1 2");
    gives(WORDPIECE(""), "aB", "0");
    gives(NORMALIZER("{\"type\":\"Lowercase\"}"), "aB", "1 2");
    gives(NORMALIZER("{\"type\":\"Strip\"}"), "  ab\n", "1 2");
    gives(NORMALIZER("{\"type\":\"Strip\",\"strip_left\":false}"), " ab ", "0");
    gives(NORMALIZER("{\"type\":\"Prepend\",\"prepend\":\"a\"}"), "b", "1 2");
    gives(NORMALIZER("{\"type\":\"Prepend\",\"prepend\":\"a\"}"), "", "");
    gives(NORMALIZER(CHANGE("{\"String\":\"xy\"}", "b")), "axy", "1 2");
    gives(NORMALIZER(CHANGE("{\"Regex\":\" {2,}\"}", "b")), "a   ", "1 2");
    gives(NORMALIZER(CHANGE("{\"Regex\":\" {2,}\"}", "b")), "a ", "0");
    gives(NORMALIZER(CHANGE("{\"Regex\":\" +\"}", "b")), "a ", "1 2");
    gives(NORMALIZER("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},"
                     "{\"type\":\"StripAccents\"}]}"),
          "\xC3\xA1", "1");
    gives(NORMALIZER("{\"type\":\"NFKC\"}"), "\xEF\xBD\x81", "1");
    gives(NORMALIZER("{\"type\":\"Nmt\"}"), "a\x01", "1");
    gives(SPLIT("{\"type\":\"BertPreTokenizer\"}"), " ab!b  a", "1 2 4 3 1");
    gives(SPLIT("{\"type\":\"WhitespaceSplit\"}"), "ab! a", "0 1");
    gives(META("always", ""), "a b [X]a", "3 1 4 1 7 3");
    gives(META("first", ""), "a b [X]a", "3 1 4 1 7 2");
    gives(META("never", ""), "a b", "2 1 4");
    gives(META("never", ",\"split\":false"), "a a", "6");
    gives(META("never", ""), "a a", "2 3");
    gives(META("always", ",\"split\":false"), "zz yb", "1 0 1 0 4");
    gives(ADDED("[{\"id\":7,\"content\":\"XX\"},{\"id\":8,\"content\":\"X\"}]"), "aXXXb",
          "1 7 8 3");
    gives(ADDED("[{\"id\":7,\"content\":\"X\",\"lstrip\":true,\"rstrip\":true}]"), "a X b",
          "1 7 3");
    gives(ADDED("[{\"id\":7,\"content\":\"zz\",\"single_word\":true}]"), "azz", "0");
    gives(ADDED("[{\"id\":7,\"content\":\"!b\",\"single_word\":true}]"), "!b", "7");
    gives(WORDPIECE(",\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":7,"
                    "\"content\":\"X\",\"normalized\":true}]"),
          "axb", "1 7 3");
    gives(AROUND("{\"type\":\"BertProcessing\",\"sep\":[\"x\",9],\"cls\":[\"y\",8]}"), "", "8 9");
}

TEST(test_damage)
{
    static const char good[] = META("always", "");
    struct err e = {0};

    for (size_t n = 0; n < strlen(good); n++) {
        char *copy = malloc(n + 1); /* exact, so that reading past the end is seen */
        struct tokenizer *t = NULL;

        memcpy(copy, good, n);
        assert_int_equal(tokenizer_parse(copy, n, &t, &e), ERR_MODEL);
        free(copy);
    }
}

TEST(test_missing)
{
    struct tokenizer *t = NULL;
    struct err e = {0};

    assert_int_equal(tokenizer_load("/nonexistent", &t, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "tokenizer.json is missing"));
    assert_int_equal(tokenizer_load("/dev/null", &t, &e), ERR_MODEL);
    assert_null(t);
}

TEST_MAIN(NULL, NULL)
