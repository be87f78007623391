/* Whisper models in the layouts of other programs: what is read is what Hugging Face's layout of
 * the same weights says, bit for bit; and what is refused. make_layouts.py has written them. */
#include "tests/common/test.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/safetensors.h"
#include "tests/common/files.h"
#include "tests/unit/models/layout_copy.h"
#include "tests/unit/models/nano_answer.h"
#include "workers/models/files/formats/ct2_file.h"
#include "workers/models/files/formats/ggml_file.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weights.h"
#include "workers/models/whisper/whisper.h"
#include "workers/text/tokenizer/vocabulary.h"

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

/* Each short name has sizes, and those for English alone lack the token of one language. */
TEST(known_names)
{
    struct whisper_config many, english;
    const struct model_name *m;
    struct err e = {0};

    for (uint32_t i = 0; (m = model_name_at(i)); i++) {
        assert_ok(whisper_preset(m->name, &many, &e), e);
        assert_ptr_equal(model_name_find(m->name), m);
        if (m->also)
            assert_ptr_equal(model_name_find(m->also), m);
        assert_true(strchr(m->hub, '/') && strchr(m->ct2, '/') && m->bytes > 100000000);
    }
    assert_ok(whisper_preset("openai/whisper-small", &many, &e), e);
    assert_ok(whisper_preset("small.en", &english, &e), e);
    assert_int_equal(english.vocab_size, many.vocab_size - 1);
    assert_int_equal(english.d_model, many.d_model);
    assert_ok(whisper_preset("turbo", &many, &e), e);
    assert_int_equal(many.decoder_layers, 4);
    assert_ok(whisper_preset("distil-whisper/distil-medium.en", &english, &e), e);
    assert_int_equal(english.vocab_size, 51864);
    assert_int_equal(whisper_preset("small.es", &many, &e), ERR_USAGE);
    assert_int_equal(whisper_preset(".en", &many, &e), ERR_USAGE);
    assert_null(model_name_find("whisper-small"));
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
        layout_copy(files[i][0]);
        assert_ok(model_dir_find("./changed", &dir, &e), e);
        free(dir);
        assert_ok(model_dir_hash(COPY, before, &e), e);
        assert_ok(model_dir_hash(COPY, after, &e), e);
        assert_string_equal(before, after);
        change(layout_file(files[i][1]), 100);
        assert_ok(model_dir_hash(COPY, after, &e), e);
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
    layout_copy(MADE "lora2");
    assert_int_equal(system("rm -rf ct2 && cp -r " MADE "ct2 ct2"), 0);
    assert_ok(model_dir_hash(COPY, before, &e), e);
    change(layout_file("adapter_model.bin"), 100000);
    assert_ok(model_dir_hash(COPY, after, &e), e);
    assert_string_not_equal(before, after);
    change(layout_file("adapter_model.bin"), 100000);
    assert_ok(model_dir_hash(COPY, after, &e), e);
    assert_string_equal(before, after);
    change("ct2/model.bin", 100000);
    assert_ok(model_dir_hash(COPY, after, &e), e);
    assert_string_not_equal(before, after);
    assert_int_equal(system("rm -rf ct2"), 0);
    assert_int_equal(model_dir_hash(COPY, after, &e), ERR_MODEL);
    assert_says(e.msg, "its base");
}

/* By its path, or by the folder that it is alone in. */
TEST(files_of_whisper_cpp_are_found)
{
    char hash[2][MODEL_HASH_LEN], *dir = NULL;
    struct err e = {0};

    layout_copy(MADE "ct2");
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
    file_copy("other.bin", layout_file("second.bin")); /* of two, none is chosen */
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

    assert_int_equal(whisper_vocabulary(COPY, &v, &e), ERR_MODEL);
    print_message("  %s\n", e.msg);
    assert_null(v);
    assert_says(e.msg, sentence);
}

TEST(lists_of_tokens_are_checked)
{
    layout_copy(MADE "ct2list");
    unlink(layout_file("vocabulary.txt"));
    vocabulary_fails("no tokenizer.json, vocabulary.json or vocabulary.txt");
    file_text(layout_file("vocabulary.txt"), "a\nb\n");
    vocabulary_fails("no <|endoftext|>");
    file_text(layout_file("vocabulary.txt"), "a\na\n<|endoftext|>\n");
    vocabulary_fails("its vocabulary: token 'a' has two ids");
    file_text(layout_file("vocabulary.json"), "[\"a\", 1]");
    vocabulary_fails("vocabulary.json: token 1 is no text");
    file_text(layout_file("vocabulary.json"), "{}");
    vocabulary_fails("vocabulary.json is not a JSON list");
    layout_copy(MADE "ct2list");
    file_text(layout_file("config.json"), "{\"suppress_ids\": [99999]}");
    vocabulary_fails("suppress_tokens is 99999, but the model's ids end at 2150");
    unlink(layout_file("config.json"));
    vocabulary_fails("config.json");
    layout_copy(MADE "ct2list"); /* as revisions before the third of Whisper's have it */
    file_text(layout_file("config.json"), "{}");
    same_vocabulary(COPY);
}

TEST_MAIN(NULL, NULL)
