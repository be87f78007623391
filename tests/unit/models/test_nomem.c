/* Memory that runs out at every allocation in turn: readers of weight files and configurations, and
 * every network loaded and run once. (What oneDNN and the JSON library allocate never fails here.)
 */
#include "tests/common/test.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "gpu/backend.h"
#include "gpu/safetensors.h"
#include "tests/common/nomem.h"
#include "tests/common/zip_writer.h"
#include "tests/parity/clap/model.h"
#include "tests/parity/diarization/networks.h"
#include "tests/parity/embed/model.h"
#include "tests/parity/hf/random_weights.h"
#include "tests/unit/models/silero_model.h"
#include "tests/unit/models/yamnet_model.h"
#include "workers/models/bert/embedder.h"
#include "workers/models/clap/clap.h"
#include "workers/models/files/formats/checkpoint.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/npy.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weights.h"
#include "workers/models/pyannote/diarization_dir.h"
#include "workers/models/pyannote/plda_file.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint.h"
#include "workers/models/silero/silero.h"
#include "workers/models/whisper/whisper.h"
#include "workers/models/yamnet/yamnet.h"
#include "workers/text/tokenizer/vocabulary.h"

static char nano[4096], encoder[] = "encoder-XXXXXX";
static struct backend *be;
static float pcm[NETWORK_SAMPLES];

static int setup(void **state)
{
    struct err e = {0};

    (void)state;
    snprintf(nano, sizeof(nano), "%s", test_source_path("workers/models/whisper-nano"));
    network_sound(0, pcm);
    assert_ok(backend_open_host(1, &be, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_close(be);
    return 0;
}

/* ---- files */

static int open_safetensors(void *arg, struct err *err)
{
    struct safetensors *st = NULL;
    int rc = safetensors_open(arg, &st, err);

    assert_true(rc == 0 || !st);
    safetensors_close(st);
    return rc;
}

TEST(safetensors)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s/model.safetensors", nano);
    assert_true(nomem_each(open_safetensors, path) >= 2);
}

static int parse_checkpoint(void *arg, struct err *err)
{
    const struct buf *b = arg;
    struct checkpoint *c = NULL;
    int rc = checkpoint_parse(b->data, b->len, &c, err);

    assert_true(rc == 0 ? checkpoint_count(c) == 2 : c == NULL);
    checkpoint_close(c);
    return rc;
}

static int parse_training(void *arg, struct err *err)
{
    const struct buf *b = arg;
    struct checkpoint *c = NULL;
    int rc = checkpoint_parse_training(b->data, b->len, &c, err);

    assert_true(rc == 0 ? checkpoint_count(c) == 2 : c == NULL);
    checkpoint_close(c);
    return rc;
}

/* A pickle's tensor of two values, data/0. */
#define TENSOR                                                                                \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000" \
    "X\3\0\0\0cpuK\2tQK\0K\2\x85K\1\x85\x89}tR"
#define TENSORS "}(X\1\0\0\0a" TENSOR "X\1\0\0\0b" TENSOR "u"

static void each_checkpoint(int (*call)(void *arg, struct err *err), const char *pickle, size_t len)
{
    static const float values[2] = {1, 2};
    const struct zip_member members[] = {{"x/data.pkl", pickle, len},
                                         {"x/byteorder", "little", 6},
                                         {"x/data/0", values, sizeof(values)}};
    struct buf b = BUF_INIT;

    zip_write(&b, members, 3);
    assert_true(nomem_each(call, &b) >= 8);
    buf_free(&b);
}

TEST(checkpoint)
{
    static const char plain[] = "\x80\2" TENSORS ".";
    static const char training[] = "\x80\2}(X\5\0\0\0epochK\3X\1\0\0\0ncos\nname\n)R"
                                   "X\xa\0\0\0state_dict" TENSORS "u.";

    each_checkpoint(parse_checkpoint, plain, sizeof(plain) - 1);
    each_checkpoint(parse_training, training, sizeof(training) - 1);
}

static int read_npy(void *arg, struct err *err)
{
    const struct buf *b = arg;
    double *values = NULL;
    struct npy n;
    int rc = npy_read(b->data, b->len, &n, &values, err);

    assert_true(rc == 0 || !values);
    free(values);
    return rc;
}

TEST(npy)
{
    static const char header[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }\n";
    struct buf b = BUF_INIT;

    buf_put(&b, "\x93NUMPY\1\0", 8);
    buf_put_u16(&b, sizeof(header) - 1);
    buf_put(&b, header, sizeof(header) - 1);
    buf_put(&b, (float[]){1, 2}, 8);
    assert_true(nomem_each(read_npy, &b) > 0);
    buf_free(&b);
}

static int open_plda(void *arg, struct err *err)
{
    struct plda *p = NULL;
    int rc = plda_open(arg, &p, err);

    assert_true(rc == 0 || !p);
    plda_free(p);
    return rc;
}

TEST(plda)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s", test_source_path("tests/unit/models/plda"));
    assert_true(nomem_each(open_plda, path) > 10);
}

static int parse_index(void *arg, struct err *err)
{
    static const char index[] = "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":"
                                "\"2.safetensors\",\"c\":\"1.safetensors\"}}";
    struct weight_layout l = {0};
    int rc = weight_layout_parse(index, sizeof(index) - 1, WEIGHT_FORMAT_SAFETENSORS, &l, err);

    (void)arg;
    assert_true(rc == 0 || !l.file);
    weight_layout_free(&l);
    return rc;
}

TEST(index_of_shards) { assert_true(nomem_each(parse_index, NULL) >= 4); }

static int open_weights(void *arg, struct err *err)
{
    struct weights *w = NULL;
    int rc = weights_open(arg, &w, err);

    assert_true(rc == 0 || !w);
    weights_close(w);
    return rc;
}

TEST(weights) { assert_true(nomem_each(open_weights, nano) >= 5); }

/* ---- the layouts of other programs, which make_layouts.py has written */

#define MADE "../run_layouts/layouts/"

static char *const layouts[] = {
    (char[]){MADE "ct2list"},
    (char[]){MADE "ct2"},
    (char[]){MADE "ggmlq.bin"},
    (char[]){MADE "lora2"},
};

#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static int read_adapted(void *arg, struct err *err)
{
    static const uint64_t dim[] = {192, 192};
    static float values[192 * 192];
    struct weights *w = NULL;
    int rc = weights_open(arg, &w, err);

    assert_true(rc == 0 || !w);
    if (rc == 0)
        rc = weights_values(w, "model.encoder.layers.0.self_attn.q_proj.weight", 2, dim, values,
                            err);
    weights_close(w);
    return rc;
}

static int read_vocabulary(void *arg, struct err *err)
{
    struct vocabulary *v = NULL;
    int rc = whisper_vocabulary(arg, &v, err);

    assert_true(rc == 0 || !v);
    vocabulary_free(v);
    return rc;
}

static int hash_model(void *arg, struct err *err)
{
    char hash[MODEL_HASH_LEN], *dir = NULL;
    int rc = model_dir_find(arg, &dir, err);

    if (rc == 0)
        rc = model_dir_hash(dir, hash, err);
    free(dir);
    return rc;
}

TEST(other_layouts)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        assert_true(nomem_each(read_adapted, layouts[i]) >= 4);
        assert_true(nomem_each(read_vocabulary, layouts[i]) > 100);
        assert_true(nomem_each(hash_model, layouts[i]) >= 2);
    }
}

static void count_model(void *arg, const char *name, const char *dir)
{
    assert_true(name[0] && dir[0]);
    ++*(int *)arg;
}

static int find_model(void *arg, struct err *err)
{
    char hash[MODEL_HASH_LEN], *dir = NULL;
    int rc = model_dir_find(arg, &dir, err), models = 0;

    assert_true(rc == 0 || !dir);
    free(dir);
    if (rc == 0)
        rc = model_dir_hash(nano, hash, err);
    if (rc == 0)
        rc = model_dir_list(count_model, &models, err);
    assert_true(rc != 0 || models > 0);
    return rc;
}

TEST(folders)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/tests", getenv("NIGHTSHIFT_SOURCE_DIR"));
    setenv("HF_HUB_CACHE", path, 1);
    snprintf(path, sizeof(path), "%s/workers/models", getenv("NIGHTSHIFT_SOURCE_DIR"));
    setenv("NIGHTSHIFT_MODELS", path, 1);
    assert_true(nomem_each(find_model, nano) >= 3);
}

static int open_diarization(void *arg, struct err *err)
{
    struct diarization_dir d = {0};
    int rc = diarization_dir_open(arg, &d, err);

    assert_true(rc == 0 || !d.segmentation);
    diarization_dir_free(&d);
    return rc;
}

TEST(diarization_folder)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s", test_source_path("workers/models/diarization-nano"));
    assert_true(nomem_each(open_diarization, path) >= 2);
}

/* ---- networks */

static int load_whisper(void *arg, struct err *err)
{
    struct asr_model *w = NULL;
    int rc = whisper_load(arg, be, PRECISION_F32, &w, err);

    assert_true(rc == 0 || !w);
    whisper_free(w);
    return rc;
}

static int use_whisper(void *arg, struct err *err)
{
    static const struct asr_shape shape = {.slots = 2, .branches = 2, .align_heads = 2};
    static const struct asr_row rows[] = {{0, 0, 0, 641}};
    const struct asr_window window = {.pcm = pcm, .n = 16000};
    struct asr_session *s = NULL;
    int rc = whisper_session_new(arg, shape, &s, err);

    assert_true(rc == 0 || !s);
    if (rc == 0)
        rc = whisper_encode(s, &window, 1, err);
    if (rc == 0)
        rc = whisper_step(s, rows, 1, NULL, err);
    whisper_session_free(s);
    return rc;
}

TEST(whisper)
{
    char name[] = "whisper";
    struct asr_model *w = NULL;
    struct err e = {0};

    assert_true(mkdir(name, 0777) == 0 || errno == EEXIST);
    assert_int_equal(random_weights_write(name, "small", 700, 80), 0);
    assert_true(nomem_each(load_whisper, name) > 50);
    assert_ok(whisper_load(name, be, PRECISION_F32, &w, &e), e);
    assert_true(nomem_each(use_whisper, w) > 10);
    whisper_free(w);
}

static int embed(void *arg, struct err *err)
{
    static const char *const texts[] = {"the archive", "of nineteen ninety"};
    float vectors[2 * ENCODER_HIDDEN];
    struct embedder *m = NULL;
    uint32_t tokens;
    int rc = embedder_load(arg, be, PRECISION_F32, &m, err);

    assert_true(rc == 0 || !m);
    if (rc == 0)
        rc = embedder_count(m, texts[0], &tokens, err);
    if (rc == 0)
        rc = embedder_run(m, texts, 2, EMBED_QUERY, vectors, err);
    embedder_free(m);
    return rc;
}

TEST(bert)
{
    encoder_folder(&encoder_bert, encoder);
    assert_true(nomem_each(embed, encoder) > 30);
    encoder_remove(encoder);
}

static int clap(void *arg, struct err *err)
{
    const struct clap_audio audio = {pcm, 16000};
    const char *text = "a dog";
    struct clap *c = NULL;
    float vector[512];
    int rc = clap_load(arg, be, PRECISION_F32, CLAP_AUDIO | CLAP_TEXT, 1, &c, err);

    assert_true(rc == 0 || !c);
    if (rc == 0)
        rc = clap_run_audio(c, &audio, 1, vector, err);
    if (rc == 0)
        rc = clap_run_text(c, &text, 1, vector, err);
    clap_free(c);
    return rc;
}

TEST(clap_small_one)
{
    char name[] = "clap";
    struct formula *f = clap_model(&clap_small);

    assert_int_equal(clap_model_write(&clap_small, f, name), 0);
    assert_int_equal(clap_model_tokenizer(name), 0);
    formula_free(f);
    assert_true(nomem_each(clap, name) > 50);
}

static int yamnet(void *arg, struct err *err)
{
    float scores[YAMNET_MODEL_CLASSES], vector[1024];
    struct yamnet *y = NULL;
    int rc = yamnet_load(arg, be, 1, &y, err);

    assert_true(rc == 0 || !y);
    if (rc == 0)
        rc = yamnet_run(y, pcm, 8000, scores, vector, err);
    yamnet_free(y);
    return rc;
}

TEST(yamnet_by_formula)
{
    char name[] = "yamnet";
    struct formula *f = yamnet_model();

    yamnet_model_write(f, name);
    formula_free(f);
    assert_true(nomem_each(yamnet, name) > 20);
}

static int silero(void *arg, struct err *err)
{
    struct silero_stream stream = {.h = {0}};
    float prob[3];
    struct silero_block block = {&stream, pcm, 3 * SILERO_STEP, 3, prob};
    struct silero *s = NULL;
    int rc = silero_load(arg, be, 1, &s, err);

    assert_true(rc == 0 || !s);
    if (rc == 0)
        rc = silero_run(s, &block, 1, err);
    silero_free(s);
    return rc;
}

TEST(silero_made_up)
{
    char name[] = "silero.safetensors";
    struct silero_model *m = silero_model_new(3);

    silero_model_write(m, name, 0);
    silero_model_free(m);
    assert_true(nomem_each(silero, name) > 10);
}

static int segment(void *arg, struct err *err)
{
    static uint8_t sets[PYANNET_FRAMES];
    struct pyannet *p = NULL;
    int rc = pyannet_load(arg, be, 1, &p, err);

    assert_true(rc == 0 || !p);
    if (rc == 0)
        rc = pyannet_run(p, pcm, NULL, 1, sets, err);
    pyannet_free(p);
    return rc;
}

static int hear_voice(void *arg, struct err *err)
{
    static float weights[NETWORK_MASK_FRAMES], vector[VOICEPRINT_MAX_SIZE];
    const struct voice_mask mask = {.window = 0, .weights = weights};
    struct voiceprint *v = NULL;
    int rc = voiceprint_load(arg, be, 1, NETWORK_SAMPLES, &v, err);

    assert_true(rc == 0 || !v);
    for (int i = 0; i < NETWORK_MASK_FRAMES; i++)
        weights[i] = 1;
    if (rc == 0)
        rc = voiceprint_run(v, pcm, NULL, NETWORK_SAMPLES, 1, &mask, 1, NETWORK_MASK_FRAMES, vector,
                            err);
    voiceprint_free(v);
    return rc;
}

static void each_network(struct network *n, int (*call)(void *arg, struct err *err))
{
    char name[] = "network.safetensors";

    network_write(n, name, 0);
    network_free(n);
    assert_true(nomem_each(call, name) > 20);
}

TEST(pyannet) { each_network(network_segmentation("tiny"), segment); }

TEST(resnet) { each_network(network_resnet("speck"), hear_voice); }

TEST(ge2e) { each_network(network_ge2e("little"), hear_voice); }

TEST_MAIN(setup, teardown)
