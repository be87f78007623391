/* Folders of diarization models: both layouts, what is missing from them, and configs that cannot
 * be. */
#include "tests/common/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/files.h"
#include "workers/models/pyannote/diarization_dir.h"

#define DIR "model"

static char folder[] = "diarization-XXXXXX";

static const char *const files[] = {
    "config.json",      "segmentation.safetensors",       "embedding.safetensors",
    "plda.safetensors", "segmentation/pytorch_model.bin", "embedding/pytorch_model.bin",
    "plda/plda.npz",    "plda/xvec_transform.npz",
};
static const char *const folders[] = {"segmentation", "embedding", "plda"};

static const char *path_of(const char *name)
{
    static char path[200];

    snprintf(path, sizeof(path), DIR "/%s", name);
    return path;
}

static void put(const char *name, const char *text) { file_text(path_of(name), text); }

static void empty_folder(void)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        unlink(path_of(files[i]));
}

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir(DIR, 0700), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(mkdir(path_of(folders[i]), 0700), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    empty_folder();
    for (size_t i = 0; i < 3; i++)
        rmdir(path_of(folders[i]));
    return rmdir(DIR) != 0 || chdir("..") != 0 || rmdir(folder) != 0;
}

static void refused(const char *word)
{
    struct diarization_dir d = {.min_cluster_size = 77};
    struct err e = {0};
    int rc = diarization_dir_open(DIR, &d, &e);

    if (rc != ERR_MODEL || !strstr(e.msg, word))
        print_error("not '%s': %d, %s\n", word, rc, e.msg);
    assert_int_equal(rc, ERR_MODEL);
    assert_non_null(strstr(e.msg, word));
    assert_int_equal(d.min_cluster_size, 77); /* untouched */
}

TEST(pyannotes)
{
    struct diarization_dir d;
    struct err e;

    refused("segmentation/pytorch_model.bin is missing");
    put("segmentation/pytorch_model.bin", "");
    refused("embedding/pytorch_model.bin is missing");
    put("embedding/pytorch_model.bin", "");
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_string_equal(d.segmentation, DIR "/segmentation/pytorch_model.bin");
    assert_string_equal(d.embedding, DIR "/embedding/pytorch_model.bin");
    assert_true(!d.plda && !d.vbx && d.min_cluster_size == 12);
    assert_float_equal(d.threshold, 0.70456549f, 1e-7);
    diarization_dir_free(&d);
    put("plda/xvec_transform.npz", "");
    refused("plda/plda.npz is missing");
    put("plda/plda.npz", "");
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_string_equal(d.plda, DIR "/plda");
    assert_true(d.vbx);
    assert_float_equal(d.threshold, 0.6f, 1e-7);
    assert_float_equal(d.fa, 0.07f, 1e-7);
    assert_float_equal(d.fb, 0.8f, 1e-7);
    diarization_dir_free(&d);
    assert_null(d.segmentation);
    diarization_dir_free(&d);
    empty_folder();
}

#define OURS(rest) "{\"model_type\": \"nightshift-diarization\"" rest "}"

TEST(ours)
{
    struct diarization_dir d;
    struct err e;

    put("config.json", OURS(", \"clustering\": \"vbx\", \"fa\": 0.5, \"fb\": 2, \"threshold\": 1,"
                            " \"min_cluster_size\": 3, \"note\": []"));
    refused("segmentation.safetensors is missing");
    put("segmentation.safetensors", "");
    refused("embedding.safetensors is missing");
    put("embedding.safetensors", "");
    refused("plda.safetensors is missing");
    put("plda.safetensors", "");
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_string_equal(d.segmentation, DIR "/segmentation.safetensors");
    assert_string_equal(d.embedding, DIR "/embedding.safetensors");
    assert_string_equal(d.plda, DIR "/plda.safetensors");
    assert_true(d.vbx && d.min_cluster_size == 3);
    assert_float_equal(d.fa, 0.5f, 0);
    assert_float_equal(d.fb, 2.0f, 0);
    assert_float_equal(d.threshold, 1.0f, 0);
    diarization_dir_free(&d);
    put("config.json", OURS(""));
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_true(!d.vbx && !d.plda && d.min_cluster_size == 12);
    diarization_dir_free(&d);
}

/* One network of ours beside one of pyannote's, either way round, with our config and without. */
TEST(mixed)
{
    struct diarization_dir d;
    struct err e;

    empty_folder();
    put("config.json", OURS(", \"threshold\": 0.5"));
    put("segmentation/pytorch_model.bin", "");
    refused("embedding.safetensors is missing, and so is embedding/pytorch_model.bin");
    put("embedding.safetensors", "");
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_string_equal(d.segmentation, DIR "/segmentation/pytorch_model.bin");
    assert_string_equal(d.embedding, DIR "/embedding.safetensors");
    assert_float_equal(d.threshold, 0.5f, 0);
    diarization_dir_free(&d);
    unlink(path_of("config.json"));
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_string_equal(d.segmentation, DIR "/segmentation/pytorch_model.bin");
    assert_string_equal(d.embedding, DIR "/embedding.safetensors");
    assert_float_equal(d.threshold, 0.70456549f, 1e-7);
    diarization_dir_free(&d);

    /* Where one is there in both forms, that of the folder's own layout. */
    put("segmentation.safetensors", "");
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_string_equal(d.segmentation, DIR "/segmentation/pytorch_model.bin");
    diarization_dir_free(&d);
    put("config.json", OURS(", \"clustering\": \"vbx\""));
    refused("plda.safetensors is missing, and so is plda/plda.npz");
    put("plda/plda.npz", "");
    refused("plda/xvec_transform.npz is missing");
    put("plda/xvec_transform.npz", "");
    unlink(path_of("embedding.safetensors"));
    put("embedding/pytorch_model.bin", "");
    assert_ok(diarization_dir_open(DIR, &d, &e), e);
    assert_string_equal(d.segmentation, DIR "/segmentation.safetensors");
    assert_string_equal(d.embedding, DIR "/embedding/pytorch_model.bin");
    assert_string_equal(d.plda, DIR "/plda");
    diarization_dir_free(&d);
    empty_folder();
}

TEST(configs)
{
    static const char *const wrong[][2] = {
        {"", "config.json"},
        {"[]", "config.json"},
        {"{\"model_type\": \"nightshift-diarization\"", "config.json"},
        {"{}", "another kind of model"},
        {"{\"model_type\": 1}", "another kind of model"},
        {"{\"model_type\": \"whisper\"}", "another kind of model"},
        {OURS(", \"clustering\": \"kmeans\""), "clustering"},
        {OURS(", \"clustering\": 3"), "clustering"},
        {OURS(", \"threshold\": 0"), "threshold"},
        {OURS(", \"threshold\": 2.5"), "threshold"},
        {OURS(", \"threshold\": \"0.7\""), "threshold"},
        {OURS(", \"fa\": -1"), "fa is no number"},
        {OURS(", \"fb\": 1e9"), "fb is no number"},
        {OURS(", \"min_cluster_size\": 0"), "min_cluster_size"},
        {OURS(", \"min_cluster_size\": 1.5"), "min_cluster_size"},
        {OURS(", \"min_cluster_size\": 4294967297"), "min_cluster_size"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        put("config.json", wrong[i][0]);
        refused(wrong[i][1]);
    }
}

TEST_MAIN(setup, teardown)
