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
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weights.h"
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
    {MADE "ct2", NULL},
    {MADE "ct2list", NULL},
    {MADE "ct2int", MADE "ct2int-same"},
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
    static const float values[6] = {0, 0, 0, 0, 1, 0};
    static const uint8_t relu = 0;
    struct buf b = BUF_INIT;

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
    put_head(&b, "WhisperSpec", 1); /* the fifth of six values is one of the values' */
    put_row(&b, "decoder/layer_0/attention/linear_1/bias", 6, F32, 24, values + 2);
    buf_put_u32(&b, 0);
    refused(&b, "keys have no bias");
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
