/* A model's weights in every layout: what is read, and what is refused. make_checkpoints.py has
 * written the layouts into ../checkpoints. */
#include "tests/common/test.h"

#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/files.h"
#include "tests/unit/models/nano_answer.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weights.h"
#include "workers/text/tokenizer/vocabulary.h"

#define MADE "checkpoints"

/* ---- the same model from every layout */

TEST(same_from_every_layout)
{
    static const char *const layouts[] = {"sharded", "torch", "torch4", "torchshards", "openai"};
    static struct answer want, got;
    char nano[PATH_MAX];
    struct backend *be;
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    snprintf(nano, sizeof(nano), "%s", test_source_path("workers/models/whisper-nano"));
    nano_answer(nano, be, &want);
    assert_int_not_equal(want.tokens[0], want.tokens[1]); /* words, not one token for ever */
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        char dir[64];

        snprintf(dir, sizeof(dir), MADE "/%s", layouts[i]);
        memset(&got, 0, sizeof(got));
        nano_answer(dir, be, &got);
        print_message("  %s: tokens %d %d %d ...\n", layouts[i], got.tokens[0], got.tokens[1],
                      got.tokens[2]);
        assert_memory_equal(&got.config, &want.config, sizeof(want.config));
        assert_memory_equal(got.tokens, want.tokens, sizeof(want.tokens));
        assert_memory_equal(got.logits, want.logits, want.config.vocab_size * sizeof(float));
    }
    backend_close(be);
}

/* ---- folders that are damaged here */

static char work[64];

static int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* A fresh copy of a layout in `work`. */
static void bring(const char *layout)
{
    char command[512];

    nftw("damaged", drop, 8, FTW_DEPTH | FTW_PHYS);
    snprintf(command, sizeof(command), "cp -r " MADE "/%s damaged", layout);
    assert_int_equal(system(command), 0);
    snprintf(work, sizeof(work), "damaged");
}

static const char *in_work(const char *name)
{
    static char path[2][PATH_MAX];
    static int turn;

    turn = !turn;
    snprintf(path[turn], PATH_MAX, "%s/%s", work, name);
    return path[turn];
}

static void put_text(const char *name, const char *text) { file_text(in_work(name), text); }

/* One byte of a file, turned over. */
static void change(const char *name, long at)
{
    FILE *f = fopen(in_work(name), "r+b");
    int c;

    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    fputc(c ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

static void open_fails(int code, const char *sentence)
{
    struct weights *w = NULL;
    struct err e = {0};
    int rc = weights_open(work, &w, &e);

    print_message("  %s\n", e.msg);
    assert_int_equal(rc, code);
    assert_says(e.msg, sentence);
}

static void hash_of(char ret[MODEL_HASH_LEN])
{
    struct err e;

    assert_ok(model_dir_hash(work, ret, &e), e);
}

/* Every shard is part of what the model is. */
TEST(a_changed_shard_is_another_model)
{
    static const char *const files[][2] = {
        {"sharded", "model-00002-of-00003.safetensors"},
        {"sharded", "model.safetensors.index.json"},
        {"torchshards", "pytorch_model-00002-of-00002.bin"},
        {"torch", "pytorch_model.bin"},
        {"openai", "nano.pt"},
    };
    char before[MODEL_HASH_LEN], after[MODEL_HASH_LEN];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        bring(files[i][0]);
        hash_of(before);
        hash_of(after);
        assert_string_equal(before, after);
        if (strstr(files[i][1], ".json"))
            put_text(files[i][1], "{\"weight_map\":{\"a\":\"model-00001-of-00003.safetensors\"}}");
        else
            change(files[i][1], 100000);
        hash_of(after);
        assert_string_not_equal(before, after);
    }
}

TEST(shards_are_checked)
{
    char hash[MODEL_HASH_LEN];
    struct err e;

    bring("sharded");
    unlink(in_work("model-00002-of-00003.safetensors"));
    open_fails(ERR_MISSING, "has no model-00002-of-00003.safetensors");
    assert_int_equal(model_dir_hash(work, hash, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "has no model-00002-of-00003.safetensors"));

    bring("sharded"); /* every tensor of the first and the second is twice there */
    file_copy(in_work("model-00001-of-00003.safetensors"),
              in_work("model-00002-of-00003.safetensors"));
    open_fails(ERR_MODEL, "but it is not");

    bring("sharded");
    put_text("model.safetensors.index.json",
             "{\"weight_map\":{\"model.nothing\":\"model-00001-of-00003.safetensors\"}}");
    open_fails(ERR_MODEL, "'model.nothing' is in model-00001-of-00003.safetensors, but it is not");

    bring("sharded");
    assert_int_equal(truncate(in_work("model-00003-of-00003.safetensors"), 50000), 0);
    open_fails(ERR_MODEL, "not downloaded whole");
}

/* A tensor in two shards: the index names another one for each, and both have both. */
TEST(twice_is_refused)
{
    static const char one[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                              "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
    static const char *const names[] = {"x.safetensors", "y.safetensors"};

    nftw("damaged", drop, 8, FTW_DEPTH | FTW_PHYS);
    snprintf(work, sizeof(work), "damaged");
    assert_int_equal(mkdir(work, 0755), 0);
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(in_work(names[i]), "wb");
        uint64_t n = strlen(one);

        assert_non_null(f);
        fwrite(&n, 8, 1, f);
        fwrite(one, 1, n + 1, f);
        fwrite("1234567", 1, 7, f);
        fclose(f);
    }
    put_text("model.safetensors.index.json",
             "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\"}}");
    open_fails(ERR_MODEL, "is both in");
}

TEST(float64_of_safetensors)
{
    static const char head[] = "{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}";
    const double values[2] = {-1.5, 3e-4};
    uint64_t n = strlen(head);
    struct weights *w = NULL;
    struct weight t;
    float got[2];
    struct err e;
    FILE *f;

    nftw("damaged", drop, 8, FTW_DEPTH | FTW_PHYS);
    snprintf(work, sizeof(work), "damaged");
    assert_int_equal(mkdir(work, 0755), 0);
    f = fopen(in_work("model.safetensors"), "wb");
    assert_non_null(f);
    fwrite(&n, 8, 1, f);
    fwrite(head, 1, n, f);
    fwrite(values, sizeof(values), 1, f);
    fclose(f);
    assert_ok(weights_open(work, &w, &e), e);
    assert_true(weights_find(w, "a", &t));
    assert_int_equal(t.type, WEIGHT_F64);
    assert_ok(weight_read(&t, got, &e), e);
    assert_true(got[0] == -1.5f && got[1] == 3e-4f);
    weights_close(w);
}

TEST(pt_folders)
{
    struct vocabulary *v = NULL;
    char hash[MODEL_HASH_LEN];
    char *dir = NULL;
    struct err e;

    bring("openai");
    assert_ok(vocabulary_load(work, &v, &e), e); /* without config.json */
    vocabulary_free(v);
    assert_ok(model_dir_find("./damaged", &dir, &e), e);
    free(dir);
    unlink(in_work("tokenizer.json"));
    assert_int_equal(model_dir_hash(work, hash, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "no tokenizer.json"));
    assert_non_null(strstr(e.msg, "must lie beside it"));
    file_copy(in_work("nano.pt"), in_work("other.pt"));
    open_fails(ERR_MODEL, "holds 2 checkpoints (nano.pt, other.pt");
    bring("torch");
    assert_int_equal(rename(in_work("pytorch_model.bin"), in_work("x.pt")), 0);
    open_fails(ERR_MODEL, "x.pt is no Whisper model of OpenAI's");
    unlink(in_work("x.pt"));
    open_fails(ERR_MISSING, "has no model.safetensors");
}

/* Cut off anywhere, a checkpoint is refused. */
TEST(cut_off_checkpoints)
{
    struct weights *w = NULL;
    struct stat st;
    struct err e;

    bring("torch");
    assert_int_equal(stat(in_work("pytorch_model.bin"), &st), 0);
    for (long keep = st.st_size - 1; keep > 0; keep = keep * 7 / 8) {
        assert_int_equal(truncate(in_work("pytorch_model.bin"), keep), 0);
        assert_int_equal(weights_open(work, &w, &e), ERR_MODEL);
        assert_non_null(strstr(e.msg, "fetch it again"));
    }
}

/* ---- the index alone */

#define MAP(entries) "{\"weight_map\":{" entries "}}"

static const struct {
    const char *json;
    enum weight_format format;
    const char *sentence;
} bad_index[] = {
    {"", WEIGHT_FORMAT_SAFETENSORS, "no valid JSON"},
    {"[]", WEIGHT_FORMAT_SAFETENSORS, "no weight_map"},
    {"{}", WEIGHT_FORMAT_SAFETENSORS, "no weight_map"},
    {MAP(""), WEIGHT_FORMAT_SAFETENSORS, "no weight_map"},
    {"{\"weight_map\":[\"a\"]}", WEIGHT_FORMAT_SAFETENSORS, "no weight_map"},
    {MAP("\"a\":1"), WEIGHT_FORMAT_SAFETENSORS, "(no name)"},
    {MAP("\"a\":\"../x.safetensors\""), WEIGHT_FORMAT_SAFETENSORS, "'../x.safetensors', which is"},
    {MAP("\"a\":\"/etc/x.safetensors\""), WEIGHT_FORMAT_SAFETENSORS, "which is no weight file"},
    {MAP("\"a\":\"y/x.safetensors\""), WEIGHT_FORMAT_SAFETENSORS, "which is no weight file"},
    {MAP("\"a\":\"..\""), WEIGHT_FORMAT_SAFETENSORS, "which is no weight file"},
    {MAP("\"a\":\"\""), WEIGHT_FORMAT_SAFETENSORS, "which is no weight file"},
    {MAP("\"a\":\".safetensors\""), WEIGHT_FORMAT_SAFETENSORS, "which is no weight file"},
    {MAP("\"a\":\"config.json\""), WEIGHT_FORMAT_SAFETENSORS, "which is no weight file"},
    {MAP("\"a\":\"x.bin\""), WEIGHT_FORMAT_SAFETENSORS, "which is no weight file"},
    {MAP("\"a\":\"x.safetensors\""), WEIGHT_FORMAT_TORCH, "which is no weight file"},
    {MAP("\"a\":\"x.bin\",\"a\":\"y.bin\""), WEIGHT_FORMAT_TORCH, "no valid JSON"},
    {MAP("\"a\\u001b[2J\":\"\\n\""), WEIGHT_FORMAT_TORCH, "'a\\x1B[2J' is in '\\n'"},
};

TEST(hostile_indexes)
{
    struct weight_layout l;
    struct err e;
    char *huge;

    for (size_t i = 0; i < sizeof(bad_index) / sizeof(bad_index[0]); i++) {
        int rc = weight_layout_parse(bad_index[i].json, strlen(bad_index[i].json),
                                     bad_index[i].format, &l, &e);

        assert_int_equal(rc, ERR_MODEL);
        if (!strstr(e.msg, bad_index[i].sentence))
            fail_msg("case %zu: '%s' does not say '%s'", i, e.msg, bad_index[i].sentence);
    }
    huge = calloc(1, WEIGHT_INDEX_MAX_BYTES + 1);
    assert_non_null(huge);
    assert_int_equal(
        weight_layout_parse(huge, WEIGHT_INDEX_MAX_BYTES + 1, WEIGHT_FORMAT_SAFETENSORS, &l, &e),
        ERR_MODEL);
    assert_non_null(strstr(e.msg, "bytes, over"));
    free(huge);
}

/* An index of n tensors in `files` files. */
static char *many(int n, int files)
{
    char *text = malloc((size_t)n * 64 + 64), *at = text;

    assert_non_null(text);
    at += sprintf(at, "{\"weight_map\":{");
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s\"t%d\":\"s%d.bin\"", i ? "," : "", i, i % files);
    sprintf(at, "}}");
    return text;
}

TEST(indexes_have_bounds)
{
    static const struct {
        int n, files;
        const char *sentence; /* NULL: that many are read */
    } cases[] = {
        {WEIGHT_INDEX_MAX_FILES, WEIGHT_INDEX_MAX_FILES, NULL},
        {WEIGHT_INDEX_MAX_FILES + 1, WEIGHT_INDEX_MAX_FILES + 1, "names 1001 files"},
        {WEIGHT_INDEX_MAX_TENSORS + 1, 1, "names 100001 tensors"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = many(cases[i].n, cases[i].files);
        struct weight_layout l;
        struct err e;
        int rc = weight_layout_parse(text, strlen(text), WEIGHT_FORMAT_TORCH, &l, &e);

        assert_int_equal(rc, cases[i].sentence ? ERR_MODEL : 0);
        if (!cases[i].sentence) {
            assert_int_equal(l.file_count, cases[i].files);
            assert_string_equal(l.file[weight_layout_place(&l, "t77")->file], "s77.bin");
            assert_null(weight_layout_place(&l, "t"));
            weight_layout_free(&l);
        } else {
            assert_non_null(strstr(e.msg, cases[i].sentence));
        }
        free(text);
    }
}

TEST(names_of_openai)
{
    static const char *const pairs[][2] = {
        {"model.encoder.conv1.weight", "encoder.conv1.weight"},
        {"model.encoder.embed_positions.weight", "encoder.positional_embedding"},
        {"model.decoder.embed_tokens.weight", "decoder.token_embedding.weight"},
        {"model.decoder.layers.11.encoder_attn.k_proj.weight",
         "decoder.blocks.11.cross_attn.key.weight"},
        {"model.encoder.layers.0.fc2.bias", "encoder.blocks.0.mlp.2.bias"},
        {"model.decoder.layer_norm.bias", "decoder.ln.bias"},
        {"model.decoder.layers.3.unknown.weight", ""}, /* none */
        {"proj_out.weight", ""},
    };
    struct weight_alias out;
    char endless[400];

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        bool known = weight_name_openai(pairs[i][0], &out);

        assert_int_equal(known, pairs[i][1][0] != 0);
        assert_string_equal(known ? out.name : "", pairs[i][1]);
    }
    snprintf(endless, sizeof(endless), "model.encoder.conv1.%0300d", 0);
    assert_false(weight_name_openai(endless, &out));
    assert_false(weight_name_ct2(endless, &out));
}

TEST_MAIN(NULL, NULL)
