/* Whisper models in the layouts of other programs: what is read is what Hugging Face's layout of
 * the same weights says, bit for bit; and what is refused. make_layouts.py has written them. */
#include "tests/common/test.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/buf.h"
#include "gpu/backend.h"
#include "gpu/safetensors.h"
#include "tests/common/files.h"
#include "tests/unit/models/nano_answer.h"
#include "workers/models/files/ct2_file.h"
#include "workers/models/files/ct2_whisper.h"
#include "workers/models/files/ggml_file.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weights.h"
#include "workers/models/whisper/whisper_heads.h"
#include "workers/models/whisper/whisper_vocabulary.h"
#include "workers/text/tokenizer/vocabulary.h"

#define MADE "layouts/"

static const char *nano_dir(void)
{
    static char dir[PATH_MAX];

    snprintf(dir, sizeof(dir), "%s", test_source_path("workers/models/whisper-nano"));
    return dir;
}

/* ---- the same model */

/* Every tensor of a folder of Hugging Face's is in the other one, with the same values. */
static void same_tensors(const char *model, const char *folder)
{
    char path[PATH_MAX];
    struct safetensors *st = NULL;
    struct weights *w = NULL;
    struct err e = {0};

    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    assert_ok(safetensors_open(path, &st, &e), e);
    assert_ok(weights_open(model, &w, &e), e);
    assert_true(safetensors_count(st) > 100);
    for (size_t i = 0; i < safetensors_count(st); i++) {
        const struct safetensor *t = safetensors_at(st, i);
        float *want = malloc(t->count * sizeof(float)), *have = malloc(t->count * sizeof(float));

        assert_true(want && have);
        assert_ok(safetensor_read(t, want, &e), e);
        assert_ok(weights_values(w, t->name, t->rank, t->dim, have, &e), e);
        assert_memory_equal(have, want, t->count * sizeof(float));
        free(want);
        free(have);
    }
    safetensors_close(st);
    weights_close(w);
}

/* The model, and a folder of Hugging Face's with the same numbers; NULL: whisper-nano. */
static const char *const same[][2] = {
    {MADE "ct2", NULL},      {MADE "ct2list", NULL},    {MADE "ct2int", MADE "ct2int-same"},
    {MADE "ggml.bin", NULL}, {MADE "ggml32.bin", NULL}, {MADE "ggmlq.bin", MADE "ggmlq-same"},
};

#define SAME (sizeof(same) / sizeof(same[0]))

TEST(tensors_are_the_same)
{
    for (size_t i = 0; i < SAME; i++)
        same_tensors(same[i][0], same[i][1] ? same[i][1] : nano_dir());
}

TEST(answers_are_the_same)
{
    static struct answer want, got;
    struct backend *be;
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    for (size_t i = 0; i < SAME; i++) {
        memset(&want, 0, sizeof(want));
        memset(&got, 0, sizeof(got));
        nano_answer(same[i][1] ? same[i][1] : nano_dir(), be, &want);
        nano_answer(same[i][0], be, &got);
        assert_int_not_equal(want.tokens[0], want.tokens[1]); /* words, not one token for ever */
        assert_memory_equal(&got.config, &want.config, sizeof(want.config));
        assert_memory_equal(got.tokens, want.tokens, sizeof(want.tokens));
        assert_memory_equal(got.logits, want.logits, want.config.vocab_size * sizeof(float));
    }
    backend_close(be);
}

/* ---- the same vocabulary */

static const char *const texts[] = {
    "seven",
    " seven eight nine",
    " Tuesday, the 14th of August - don't!",
    "  two  blanks ",
    "",
    "\xc3\xa4rchive \xe2\x99\xaa",
    " siete ocho nueve",
    "zzz (((",
};

static void same_vocabulary(const char *model)
{
    struct vocabulary *want = NULL, *have = NULL;
    struct err e = {0};
    size_t n, m;

    assert_ok(vocabulary_load(nano_dir(), &want, &e), e);
    assert_ok(whisper_vocabulary(model, &have, &e), e);
    assert_memory_equal(vocabulary_ids(have), vocabulary_ids(want), sizeof(struct vocabulary_ids));
    assert_int_equal(vocabulary_size(have), vocabulary_size(want));
    for (int32_t id = 0; id < (int32_t)vocabulary_size(want); id++) {
        const uint8_t *a = vocabulary_bytes(want, id, &n), *b = vocabulary_bytes(have, id, &m);

        assert_int_equal(n, m);
        assert_true(!n || memcmp(a, b, n) == 0);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int32_t *a = NULL, *b = NULL;

        assert_ok(vocabulary_encode(want, texts[i], &a, &n, &e), e);
        assert_ok(vocabulary_encode(have, texts[i], &b, &m, &e), e);
        assert_int_equal(n, m);
        assert_true(!n || memcmp(a, b, n * sizeof(*a)) == 0);
        free(a);
        free(b);
    }
    vocabulary_free(want);
    vocabulary_free(have);
}

/* What CTranslate2's config.json says beside the tokens. */
static void same_rules(const char *model)
{
    struct vocabulary *want = NULL, *have = NULL;
    const int32_t *a, *b;
    const int32_t(*x)[2], (*y)[2];
    struct err e = {0};
    size_t n, m;

    assert_ok(vocabulary_load(nano_dir(), &want, &e), e);
    assert_ok(whisper_vocabulary(model, &have, &e), e);
    assert_int_equal(vocabulary_language_count(have), vocabulary_language_count(want));
    assert_int_equal(vocabulary_language_id(have, "es"), vocabulary_language_id(want, "es"));
    a = vocabulary_begin_suppress(want, &n);
    b = vocabulary_begin_suppress(have, &m);
    assert_true(n == 2 && n == m && memcmp(a, b, n * sizeof(*a)) == 0);
    (void)vocabulary_suppress(have, &n);
    assert_int_equal(n, 0);
    x = vocabulary_alignment_heads(want, &n);
    y = vocabulary_alignment_heads(have, &m);
    assert_true(n == 2 && n == m && memcmp(x, y, n * sizeof(*x)) == 0);
    vocabulary_free(want);
    vocabulary_free(have);
}

TEST(vocabularies_are_the_same)
{
    static const char *const models[] = {MADE "ct2", MADE "ct2list", MADE "ct2int"};

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        same_vocabulary(models[i]);
        same_rules(models[i]);
    }
    same_rules(MADE "lora");
    same_rules(MADE "lora2");
    same_vocabulary(MADE "lora2");
    same_vocabulary(MADE "ggml.bin");
    same_vocabulary(MADE "ggml32.bin");
}

static bool holds(const int32_t *list, size_t n, int32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == id)
            return true;
    return false;
}

/* whisper.cpp's file says nothing of it: what OpenAI's program never lets a model say. */
TEST(symbols_are_not_said)
{
    static const struct {
        const char *text;
        bool said;
    } symbols[] = {{"(", false}, {"\"", false}, {"#", false}, {",", true}, {"-", true},
                   {"'", true},  {"a", true},   {"]", false}, {"1", true}};
    struct vocabulary *v = NULL;
    const int32_t *list;
    struct err e = {0};
    size_t n, m;

    assert_ok(whisper_vocabulary(MADE "ggml.bin", &v, &e), e);
    list = vocabulary_suppress(v, &n);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        int32_t *ids = NULL;

        assert_ok(vocabulary_encode(v, symbols[i].text, &ids, &m, &e), e);
        assert_int_equal(m, 1);
        assert_int_equal(holds(list, n, ids[0]), !symbols[i].said);
        free(ids);
    }
    assert_true(holds(list, n, vocabulary_ids(v)->sot));
    assert_true(holds(list, n, vocabulary_ids(v)->no_speech));
    assert_false(holds(list, n, vocabulary_ids(v)->eot));
    (void)vocabulary_begin_suppress(v, &n);
    assert_int_equal(n, 2); /* a blank and the end */
    assert_string_equal(vocabulary_language_code(v, vocabulary_ids(v)->first_language), "en");
    vocabulary_free(v);
}

/* Heads that each model of these sizes has. */
TEST(known_heads)
{
    const char *name;
    uint32_t known = 0;

    for (uint32_t i = 0; (name = whisper_preset_name(i)); i++) {
        struct whisper_config c;
        struct err e = {0};
        const uint8_t(*heads)[2];
        size_t n;

        assert_ok(whisper_preset(name, &c, &e), e);
        for (int english = 0; english < 2; english++) {
            c.vocab_size -= (uint32_t)english;
            heads = whisper_known_heads(&c, &n);
            assert_int_equal(!heads, n == 0);
            known += heads ? 1 : 0;
            for (size_t k = 0; k < n; k++) {
                assert_true(heads[k][0] < c.decoder_layers && heads[k][1] < c.decoder_heads);
                assert_true(!k || heads[k][0] * 100 + heads[k][1] >
                                      heads[k - 1][0] * 100 + heads[k - 1][1]);
            }
        }
    }
    assert_int_equal(known, 10); /* five sizes, four of them for English alone, and turbo */
}

/* ---- which model it is */

static char work[] = "changed";

static const char *in_work(const char *name)
{
    static char path[2][PATH_MAX];
    static int turn;

    turn = !turn;
    snprintf(path[turn], PATH_MAX, "%s/%s", work, name);
    return path[turn];
}

static void bring(const char *layout)
{
    char command[512];

    snprintf(command, sizeof(command), "rm -rf %s && cp -r %s %s", work, layout, work);
    assert_int_equal(system(command), 0);
}

/* One byte of a file, turned over. */
static void change(const char *path, size_t at)
{
    size_t len;
    char *data = file_read(path, &len);

    assert_true(at < len);
    data[at] ^= 1;
    file_write(path, data, len);
    free(data);
}

TEST(a_changed_file_is_another_model)
{
    static const char *const files[][2] = {{MADE "ct2list", "model.bin"},
                                           {MADE "ct2list", "vocabulary.txt"},
                                           {MADE "ct2list", "config.json"},
                                           {MADE "ct2int", "vocabulary.json"},
                                           {MADE "ct2", "tokenizer.json"}};
    char before[MODEL_HASH_LEN], after[MODEL_HASH_LEN], *dir = NULL;
    struct err e;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        bring(files[i][0]);
        assert_ok(model_dir_find("./changed", &dir, &e), e);
        free(dir);
        assert_ok(model_dir_hash(work, before, &e), e);
        assert_ok(model_dir_hash(work, after, &e), e);
        assert_string_equal(before, after);
        change(in_work(files[i][1]), 100);
        assert_ok(model_dir_hash(work, after, &e), e);
        assert_string_not_equal(before, after);
    }
}

/* Of an adapter, what it adapts, too. */
TEST(a_changed_adapter_is_another_model)
{
    char before[MODEL_HASH_LEN], after[MODEL_HASH_LEN], *dir = NULL;
    struct err e = {0};

    assert_ok(model_dir_find(MADE "lora2", &dir, &e), e);
    free(dir);
    bring(MADE "lora2");
    assert_int_equal(system("rm -rf ct2 && cp -r " MADE "ct2 ct2"), 0);
    assert_ok(model_dir_hash(work, before, &e), e);
    change(in_work("adapter_model.bin"), 100000);
    assert_ok(model_dir_hash(work, after, &e), e);
    assert_string_not_equal(before, after);
    change(in_work("adapter_model.bin"), 100000);
    assert_ok(model_dir_hash(work, after, &e), e);
    assert_string_equal(before, after);
    change("ct2/model.bin", 100000);
    assert_ok(model_dir_hash(work, after, &e), e);
    assert_string_not_equal(before, after);
    assert_int_equal(system("rm -rf ct2"), 0);
    assert_int_equal(model_dir_hash(work, after, &e), ERR_MODEL);
    assert_says(e.msg, "its base");
}

/* By its path, or by the folder that it is alone in. */
TEST(files_of_whisper_cpp_are_found)
{
    char hash[2][MODEL_HASH_LEN], *dir = NULL;
    struct err e = {0};

    bring(MADE "ct2");
    assert_int_equal(system("rm -f changed/*; cp " MADE "ggml.bin changed/ggml-nano.bin; "
                            "cp changed/ggml-nano.bin other.bin; : > changed/notes.bin"),
                     0);
    assert_ok(model_dir_find("./changed", &dir, &e), e);
    assert_says(dir, "/changed/ggml-nano.bin");
    assert_ok(model_dir_hash(dir, hash[0], &e), e);
    free(dir);
    assert_ok(model_dir_find("./other.bin", &dir, &e), e);
    assert_ok(model_dir_hash(dir, hash[1], &e), e);
    assert_string_equal(hash[0], hash[1]); /* whatever it is called */
    free(dir);
    change("other.bin", 1000000);
    assert_ok(model_dir_hash("other.bin", hash[1], &e), e);
    assert_string_not_equal(hash[0], hash[1]);
    setenv("NIGHTSHIFT_MODELS", "changed", 1);
    assert_ok(model_dir_find("ggml-nano.bin", &dir, &e), e);
    free(dir);
    setenv("NIGHTSHIFT_MODELS", ".", 1);
    assert_ok(model_dir_find("changed", &dir, &e), e);
    free(dir);
    file_copy("other.bin", in_work("second.bin")); /* of two, none is chosen */
    assert_int_equal(model_dir_find("./changed", &dir, &e), ERR_MODEL);
    change("other.bin", 0);
    assert_int_equal(model_dir_find("./other.bin", &dir, &e), ERR_MODEL);
    assert_says(e.msg, "is a file, but none of whisper.cpp's");
    unsetenv("NIGHTSHIFT_MODELS");
}

static void vocabulary_fails(const char *sentence)
{
    struct vocabulary *v = NULL;
    struct err e = {0};

    assert_int_equal(whisper_vocabulary(work, &v, &e), ERR_MODEL);
    print_message("  %s\n", e.msg);
    assert_null(v);
    assert_says(e.msg, sentence);
}

TEST(lists_of_tokens_are_checked)
{
    bring(MADE "ct2list");
    unlink(in_work("vocabulary.txt"));
    vocabulary_fails("no tokenizer.json, vocabulary.json or vocabulary.txt");
    file_text(in_work("vocabulary.txt"), "a\nb\n");
    vocabulary_fails("no <|endoftext|>");
    file_text(in_work("vocabulary.txt"), "a\na\n<|endoftext|>\n");
    vocabulary_fails("its vocabulary: token 'a' has two ids");
    file_text(in_work("vocabulary.json"), "[\"a\", 1]");
    vocabulary_fails("vocabulary.json: token 1 is no text");
    file_text(in_work("vocabulary.json"), "{}");
    vocabulary_fails("vocabulary.json is not a JSON list");
    bring(MADE "ct2list");
    file_text(in_work("config.json"), "{\"suppress_ids\": [99999]}");
    vocabulary_fails("suppress_tokens is 99999, but the model's ids end at 2150");
    unlink(in_work("config.json"));
    vocabulary_fails("config.json");
    bring(MADE "ct2list"); /* as revisions before the third of Whisper's have it */
    file_text(in_work("config.json"), "{}");
    same_vocabulary(work);
}

/* ---- files that are made up here */

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

/* ---- adapters that are damaged here */

/* adapter_config.json with one text in place of another. */
static void adapter_says(const char *find, const char *put)
{
    char *text, *at;
    FILE *f;

    bring(MADE "lora");
    text = file_read(in_work("adapter_config.json"), NULL);
    at = strstr(text, find);
    f = fopen(in_work("adapter_config.json"), "w");
    assert_true(at && f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    assert_int_equal(fclose(f), 0);
    free(text);
}

static void adapter_fails(const char *sentence)
{
    struct weights *w = NULL;
    struct err e = {0};

    assert_int_equal(weights_open(work, &w, &e), ERR_MODEL);
    print_message("  %s\n", e.msg);
    assert_null(w);
    assert_says(e.msg, sentence);
}

TEST(adapters_are_checked)
{
    static const char *const wrong[][3] = {
        {"\"LORA\"", "\"LOHA\"", "of the kind 'LOHA', not LORA"},
        {"\"use_dora\": false", "\"use_dora\": true", "use_dora is not supported"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"",
         "which changes the base"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": \"8\"", "no number lora_alpha"},
        {"layers.1.fc1", "layers.[12].fc1", "alpha_pattern has 'layers.[12].fc1'"},
        {"\"revision\": null", "\"revision\": \"v2\"", "wants revision 'v2' of its base"},
        {"base_model_name_or_path", "base", "does not name its base"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        adapter_says(wrong[i][0], wrong[i][1]);
        adapter_fails(wrong[i][2]);
    }
    bring(MADE "lora");
    file_text(in_work("adapter_config.json"), "{\"peft_type\":\"LORA\",\"lora_alpha\":1,"
                                              "\"base_model_name_or_path\":\"./nowhere\"}");
    adapter_fails("its base: no model");
    file_text(in_work("adapter_config.json"), "{\"peft_type\":\"LORA\",\"lora_alpha\":1,"
                                              "\"base_model_name_or_path\":\".\"}");
    adapter_fails("is an adapter itself");
    file_text(in_work("adapter_config.json"), "[]");
    adapter_fails("adapter_config.json is not a JSON object");
    bring(MADE "lora");
    unlink(in_work("adapter_model.safetensors"));
    adapter_fails("no adapter_model.safetensors or adapter_model.bin");
}

/* A file of these tensors of float32, all of them rank x cols or as said. */
static void put_adapter(const char *header)
{
    size_t len = strlen(header);
    struct buf b = BUF_INIT;

    bring(MADE "lora");
    buf_put_u64(&b, len);
    buf_put(&b, header, len);
    for (int i = 0; i < 4096; i++)
        buf_put_u32(&b, 0);
    file_write(in_work("adapter_model.safetensors"), b.data, b.len);
    buf_free(&b);
}

#define IN "base_model.model.model.encoder.layers.0.fc1"
#define F32_AT(name, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

TEST(matrices_of_adapters_are_checked)
{
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,192]", 0,
                           1536) "," F32_AT(IN ".lora_B.weight", "[768,2]", 1536, 7680) "}");
    {
        struct weights *w = NULL;
        struct err e = {0};

        assert_ok(weights_open(work, &w, &e), e);
        weights_close(w);
    }
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,192]", 0, 1536) "}");
    adapter_fails("has no lora_B");
    put_adapter("{" F32_AT(IN ".lora_B.weight", "[2,192]", 0, 1536) "}");
    adapter_fails("it adapts nothing");
    put_adapter("{}");
    adapter_fails("it adapts nothing");
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,192]", 0,
                           1536) "," F32_AT(IN ".lora_B.weight", "[384,4]", 1536, 7680) "}");
    adapter_fails("without a common rank");
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[0,192]", 0, 0) "," F32_AT(IN ".lora_B.weight",
                                                                            "[768,0]", 0, 0) "}");
    adapter_fails("without a common rank");
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,96]", 0,
                           768) "," F32_AT(IN ".lora_B.weight", "[768,2]", 768, 6912) "}");
    adapter_fails("has another shape: it is of another base");
    put_adapter("{" F32_AT("base_model.model.model.nothing.lora_A.weight", "[1,1]", 0,
                           4) "," F32_AT("base_model.model.model.nothing.lora_B.weight", "[1,1]", 4,
                                         8) "}");
    adapter_fails("adapts 'model.nothing.weight', which its base lacks");
    put_adapter("{" F32_AT("base_model.model.proj_out.weight", "[1,1]", 0, 4) "}");
    adapter_fails("which is none of a plain LoRA");
    put_adapter("{" F32_AT("lora_A.weight", "[1,1]", 0, 4) "}");
    adapter_fails("which is none of a plain LoRA");
}

/* ---- files of whisper.cpp's that are made up here */

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
