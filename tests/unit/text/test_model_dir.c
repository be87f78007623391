/* Where models are looked for, in directories made here. Runs in a directory of its own. */
#include "tests/common/test.h"

#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/common/files.h"
#include "workers/models/files/model_dir.h"

static char root[PATH_MAX - 512]; /* <working directory>/places */

static int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static const char *at(const char *rel)
{
    static char path[4][PATH_MAX];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], PATH_MAX, "%s/%s", root, rel);
    return path[turn];
}

/* A file with its directories, in places/. */
static void put(const char *rel, const char *content)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s", at(rel));
    for (char *s = strchr(path + strlen(root), '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(path, 0755);
        *s = '/';
    }
    file_text(path, content);
}

static int setup(void **state)
{
    char cwd[PATH_MAX - 600];

    (void)state;
    if (!getcwd(cwd, sizeof(cwd)))
        return -1;
    snprintf(root, sizeof(root), "%s/places", cwd);
    nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(root, 0755);
    setenv("HOME", at("home"), 1);
    unsetenv("NIGHTSHIFT_MODELS");
    unsetenv("XDG_DATA_HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HF_HOME");
    unsetenv("HF_HUB_CACHE");
    return 0;
}

static void finds(const char *name, const char *rel)
{
    char *dir = NULL;
    struct err e;

    assert_ok(model_dir_find(name, &dir, &e), e);
    assert_string_equal(dir, at(rel));
    free(dir);
}

static void finds_not(const char *name, const char *says)
{
    char *dir = NULL;
    struct err e;

    assert_int_equal(model_dir_find(name, &dir, &e), ERR_MODEL);
    assert_null(dir);
    assert_says(e.msg, says);
}

TEST_SETUP(test_directory, setup)
{
    put("somewhere/m/config.json", "{}");
    finds(at("somewhere/m"), "somewhere/m");
    finds("places/somewhere/m", "somewhere/m");
    finds("./places/somewhere/../somewhere/m", "somewhere/m");
    put("somewhere/voices/segmentation/pytorch_model.bin", "x");
    finds(at("somewhere/voices"), "somewhere/voices");
    finds_not(at("somewhere"), "is a folder of models, and no model. Try one in it: m, voices");
    finds_not(at("somewhere/voices/segmentation"), "no config.json");
    assert_int_equal(mkdir("small", 0755), 0); /* of somebody's own: the name means Whisper's */
    finds_not("small", "`nightshift model pull small` fetches it");
    assert_int_equal(rmdir("small"), 0);
    finds_not("", "no model");
}

TEST_SETUP(test_models_directories, setup)
{
    put("home/.local/share/nightshift/models/m/config.json", "{}");
    finds("m", "home/.local/share/nightshift/models/m");
    put("data/nightshift/models/m/config.json", "{}");
    setenv("XDG_DATA_HOME", at("data"), 1);
    finds("m", "data/nightshift/models/m");
    put("own/m/config.json", "{}");
    setenv("NIGHTSHIFT_MODELS", at("own"), 1);
    finds("m", "own/m");
    setenv("NIGHTSHIFT_MODELS", "", 1); /* empty: as unset */
    finds("m", "data/nightshift/models/m");
    finds_not("n", "/nightshift/models/n");
    finds_not("..", "no config.json");
    finds_not("../../etc", "no config.json");
}

/* What was meant as a model says itself why it is none. */
TEST_SETUP(test_refused, setup)
{
    put("pt/tiny.pt", "");
    finds_not(at("pt/tiny.pt"), "is a file, and a model is a folder");
    put("own/two/tiny.pt", "");
    put("own/two/base.pt", "");
    finds_not(at("own/two"), "give each model a folder");
    setenv("NIGHTSHIFT_MODELS", at("own"), 1);
    finds_not("two", "2 checkpoints (base.pt, tiny.pt");
    put("own/index/model.safetensors.index.json", "{");
    finds_not("index", "is no valid JSON");
    put("data/nightshift/models/two/config.json", "{}"); /* a whole one elsewhere is taken */
    setenv("XDG_DATA_HOME", at("data"), 1);
    finds("two", "data/nightshift/models/two");
}

/* PREFIX/bin/program -> PREFIX/share/nightshift/models. */
TEST_SETUP(test_installed, setup)
{
    char self[PATH_MAX], models[PATH_MAX + 64], *dir = NULL;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    struct err e;

    assert_true(n > 0);
    self[n] = 0;
    for (int i = 0; i < 2; i++)
        *strrchr(self, '/') = 0;
    put("model/config.json", "{}");
    snprintf(models, sizeof(models), "%s/share", self);
    mkdir(models, 0755);
    strcat(models, "/nightshift");
    mkdir(models, 0755);
    strcat(models, "/models");
    mkdir(models, 0755);
    strcat(models, "/installed-for-test");
    unlink(models);
    assert_int_equal(symlink(at("model"), models), 0);
    assert_ok(model_dir_find("installed-for-test", &dir, &e), e);
    assert_string_equal(dir, at("model"));
    free(dir);
    unlink(models);
}

/* What people call a model: OpenAI's before the same in another layout, a folder before both. */
TEST_SETUP(test_short_names, setup)
{
    const char *hub = "home/.cache/huggingface/hub";
    char *dir = NULL;
    struct err e;

    finds_not("turbo", "`nightshift model pull turbo`");
    assert_null(model_dir_known("small"));
    put("home/.cache/huggingface/hub/models--Systran--faster-whisper-small/snapshots/1/config.json",
        "{}");
    finds("small", "home/.cache/huggingface/hub/models--Systran--faster-whisper-small/snapshots/1");
    assert_string_equal(model_dir_known("small"), "Systran/faster-whisper-small");
    put("home/.cache/huggingface/hub/models--openai--whisper-small/snapshots/2/config.json", "{}");
    finds("small", "home/.cache/huggingface/hub/models--openai--whisper-small/snapshots/2");
    assert_string_equal(model_dir_known("small"), "openai/whisper-small");
    assert_null(model_dir_known("small.en"));
    put("own/small/config.json", "{}");
    put("own/large-v3-turbo/config.json", "{}");
    setenv("NIGHTSHIFT_MODELS", at("own"), 1);
    finds("small", "own/small");
    assert_string_equal(model_dir_known("small"), "small");
    finds("turbo", "own/large-v3-turbo");
    assert_null(model_dir_known("openai/whisper-small"));
    assert_null(model_dir_known("m"));

    put("own/base/model.safetensors.index.json", "{"); /* a whole one elsewhere is taken */
    put("home/.cache/huggingface/hub/models--openai--whisper-base/snapshots/3/config.json", "{}");
    finds("base", "home/.cache/huggingface/hub/models--openai--whisper-base/snapshots/3");
    put("own/medium/model.safetensors.index.json", "{");
    finds_not("medium", "is no valid JSON");

    /* Wherever one stands. */
    put("small.en/config.json", "{}");
    assert_int_equal(chdir(at("")), 0);
    finds("small.en", "small.en");
    assert_int_equal(model_dir_find_placed("small.en", &dir, &e), ERR_MODEL);
    assert_int_equal(model_dir_find_placed(at("small.en"), &dir, &e), ERR_MODEL);
    assert_null(dir);
    assert_ok(model_dir_find_placed("turbo", &dir, &e), e);
    free(dir);
    assert_ok(model_dir_find_placed("openai/whisper-small", &dir, &e), e);
    free(dir);
    dir = NULL;

    /* Carried over. */
    assert_ok(model_dir_find_below(at("own"), "small", &dir, &e), e);
    assert_string_equal(dir, at("own/small"));
    free(dir);
    assert_ok(model_dir_find_below(at(hub), "openai/whisper-small", &dir, &e), e);
    free(dir);
    assert_ok(model_dir_find_below(at("home/.cache/huggingface"), "openai/whisper-small", &dir, &e),
              e);
    assert_string_equal(dir, at("home/.cache/huggingface/hub/models--openai--whisper-small/"
                                "snapshots/2"));
    free(dir);
    dir = NULL;
    assert_int_equal(model_dir_find_below(at("own"), "openai/whisper-small", &dir, &e), ERR_MODEL);
    assert_null(dir);
}

TEST_SETUP(test_default_model, setup)
{
    char *dir = NULL;
    struct err e;

    assert_ok(model_dir_find(MODEL_DEMO, &dir, &e), e);
    assert_non_null(strstr(dir, "workers/models/whisper-nano"));
    free(dir);
}

#define HUB "home/.cache/huggingface/hub/models--openai--whisper-tiny"

TEST_SETUP(test_hub, setup)
{
    finds_not("openai/whisper-tiny", "models--openai--whisper-tiny");
    put(HUB "/snapshots/abc/config.json", "{}");
    put(HUB "/snapshots/def/config.json", "{}");
    put(HUB "/snapshots/aaa/README.md", "");
    finds("openai/whisper-tiny", HUB "/snapshots/abc"); /* no refs/main: the first with a model */
    put(HUB "/refs/main", "def\n");
    finds("openai/whisper-tiny", HUB "/snapshots/def");
    put(HUB "/refs/main", "../../../../../own/m"); /* leads elsewhere: not followed */
    finds("openai/whisper-tiny", HUB "/snapshots/abc");
    put(HUB "/refs/main", "gone");
    finds("openai/whisper-tiny", HUB "/snapshots/abc");
    put("home/.cache/huggingface/hub/models--p--voices/snapshots/1/segmentation/pytorch_model.bin",
        "x"); /* pyannote's diarization models have no config.json */
    finds("p/voices", "home/.cache/huggingface/hub/models--p--voices/snapshots/1");
    finds_not("openai/../whisper-tiny", "no config.json");
    finds_not("openai/whisper-tiny/x", "no config.json");
}

TEST_SETUP(test_hub_places, setup)
{
    put("cache/huggingface/hub/models--o--m/snapshots/1/config.json", "{}");
    setenv("XDG_CACHE_HOME", at("cache"), 1);
    finds("o/m", "cache/huggingface/hub/models--o--m/snapshots/1");
    put("hf/hub/models--o--m/snapshots/1/config.json", "{}");
    setenv("HF_HOME", at("hf"), 1);
    finds("o/m", "hf/hub/models--o--m/snapshots/1");
    put("hub/models--o--m/snapshots/1/config.json", "{}");
    setenv("HF_HUB_CACHE", at("hub"), 1);
    finds("o/m", "hub/models--o--m/snapshots/1");
}

static void collect(void *arg, const char *name, const char *dir)
{
    char *list = arg;

    assert_non_null(dir);
    snprintf(list + strlen(list), 4096 - strlen(list), "[%s]", name);
}

TEST_SETUP(test_list, setup)
{
    char list[4096] = "";
    struct err e;

    put("own/b/config.json", "{}");
    put("own/a/config.json", "{}");
    put("own/none/README.md", "");
    put("own/.hidden/config.json", "{}");
    put("home/.local/share/nightshift/models/a/config.json", "{}");
    put(HUB "/snapshots/abc/config.json", "{}");
    setenv("NIGHTSHIFT_MODELS", at("own"), 1);
    assert_ok(model_dir_list(collect, list, &e), e);
    assert_memory_equal(list, "[a][b]", 6);
    assert_null(strstr(list + 6, "[a]"));
    assert_null(strstr(list, "hidden"));
    assert_null(strstr(list, "none"));
    assert_non_null(strstr(list, "[whisper-nano]"));
    assert_non_null(strstr(list, "[openai/whisper-tiny]"));
}

static void hash_of(char out[MODEL_HASH_LEN])
{
    struct err e;

    assert_ok(model_dir_hash(at("m"), out, &e), e);
    assert_int_equal(strlen(out), 32);
}

TEST_SETUP(test_hash, setup)
{
    char a[MODEL_HASH_LEN], b[MODEL_HASH_LEN];

    put("m/config.json", "{}");
    put("m/tokenizer.json", "{}");
    put("m/model.safetensors", "weights");
    hash_of(a);
    put("m/README.md", "decides nothing");
    hash_of(b);
    assert_string_equal(a, b);
    put("m/model.safetensors", "Weights");
    hash_of(b);
    assert_string_not_equal(a, b);
    put("m/model.safetensors", "weights");
    hash_of(b);
    assert_string_equal(a, b);
    put("m/generation_config.json", "");
    hash_of(b);
    assert_string_not_equal(a, b);
}

static void hash_fails(const char *says)
{
    char out[MODEL_HASH_LEN] = "unchanged";
    struct err e;

    assert_int_equal(model_dir_hash(at("m"), out, &e), ERR_MODEL);
    assert_says(e.msg, says);
    assert_string_equal(out, "unchanged");
}

TEST_SETUP(test_hash_missing, setup)
{
    char a[MODEL_HASH_LEN], b[MODEL_HASH_LEN];

    hash_fails("no config.json");
    put("m/config.json", "{}");
    hash_fails("no tokenizer.json");
    put("m/tokenizer.json", "{}");
    hash_fails("no model.safetensors");
    put("m/pytorch_model.bin", "x");
    hash_of(a);
    put("m/pytorch_model.bin", "y");
    hash_of(b);
    assert_string_not_equal(a, b);
    put("m/model.safetensors.index.json", "{}");
    hash_fails("no weight_map");
    put("m/model.safetensors.index.json",
        "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
        "\"b\":\"model-00002-of-00002.safetensors\"}}");
    put("m/model-00001-of-00002.safetensors", "a");
    hash_fails("no model-00002-of-00002.safetensors");
    put("m/model-00002-of-00002.safetensors", "b");
    hash_of(a);
    put("m/model-00001-of-00002.safetensors", "b");
    put("m/model-00002-of-00002.safetensors", "a");
    hash_of(b);
    assert_string_not_equal(a, b);
    assert_int_equal(mkdir(at("m/model.safetensors"), 0755), 0);
    hash_fails("not a file");
}

TEST_MAIN(NULL, NULL)
