/* YAMNet with weights by formula against plain loops in double precision; whole and short audio;
 * and folders that are not what they should be. */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/files.h"
#include "tests/unit/models/yamnet_model.h"
#include "workers/models/yamnet/yamnet.h"
#include "workers/models/yamnet/yamnet_dir.h"

#define CLASSES YAMNET_MODEL_CLASSES
#define PATCHES 4
#define SAMPLES (YAMNET_PATCH + (PATCHES - 1) * YAMNET_HOP)
#define PI 3.14159265358979323846

static struct backend *be;
static struct formula *formula;
static float pcm[SAMPLES];

static int set_up(void **state)
{
    struct err e;

    (void)state;
    formula = yamnet_model();
    yamnet_model_write(formula, "good");
    for (size_t i = 0; i < SAMPLES; i++)
        pcm[i] = 0.4f * sinf(0.00001f * (float)(i * i % 1000003)) + 0.1f * sinf((float)i);
    return backend_open_host(2, &be, &e);
}

static int tear_down(void **state)
{
    (void)state;
    backend_close(be);
    formula_free(formula);
    return 0;
}

static struct yamnet *open_good(void)
{
    struct yamnet *y = NULL;
    struct err e;

    assert_ok(yamnet_load("good", be, PATCHES, &y, &e), e);
    return y;
}

/* One frame of log-mel by the sums that define it. */
TEST(frames_as_defined)
{
    struct yamnet *y = open_good();
    float *have = malloc((size_t)YAMNET_FRAMES * YAMNET_BINS * sizeof(*have));
    double magnitude[257], low = 1127.0 * log(1.0 + 125.0 / 700.0);
    double step = (1127.0 * log(1.0 + 7500.0 / 700.0) - low) / 65.0;
    struct err e;

    assert_ok(yamnet_listen(y, pcm, YAMNET_PATCH, have, &e), e);
    yamnet_free(y);
    for (int k = 0; k <= 256; k++) {
        double re = 0.0, im = 0.0;

        for (int i = 0; i < 400; i++) {
            double x = (double)pcm[320 + i] * (0.5 - 0.5 * cos(2.0 * PI * i / 400.0));

            re += x * cos(2.0 * PI * k * i / 512.0);
            im -= x * sin(2.0 * PI * k * i / 512.0);
        }
        magnitude[k] = sqrt(re * re + im * im);
    }
    for (int b = 0; b < YAMNET_BINS; b++) {
        double sum = 0.0;

        for (int k = 1; k <= 256; k++) {
            double at = (1127.0 * log(1.0 + k * 31.25 / 700.0) - low) / step - b;

            sum += fmax(0.0, fmin(at, 2.0 - at)) * magnitude[k];
        }
        assert_true(fabs((double)have[2 * YAMNET_BINS + b] - log(sum + 0.001)) < 1e-5);
    }
    free(have);
}

TEST(as_plain_loops)
{
    struct yamnet *y = open_good();
    float *image = malloc((size_t)YAMNET_FRAMES * YAMNET_BINS * sizeof(*image));
    float scores[CLASSES], *vector = malloc(YAMNET_VECTOR * sizeof(*vector));
    double want[CLASSES], want_vector[YAMNET_VECTOR], largest = 0.0, spread = 0.0;
    struct err e;

    assert_ok(yamnet_listen(y, pcm, YAMNET_PATCH, image, &e), e);
    yamnet_model_run(formula, image, want_vector, want);
    assert_ok(yamnet_run(y, pcm, YAMNET_PATCH, scores, vector, &e), e);
    for (int i = 0; i < YAMNET_VECTOR; i++)
        largest = fmax(largest, want_vector[i]);
    for (int i = 0; i < YAMNET_VECTOR; i++)
        assert_true(fabs((double)vector[i] - want_vector[i]) < 1e-4 * largest);
    for (int i = 0; i < CLASSES; i++) {
        assert_true(fabs((double)scores[i] - want[i]) < 1e-4);
        spread = fmax(spread, fabs(want[i] - want[0]));
    }
    assert_true(spread > 0.05); /* or it would say little */
    free(image);
    free(vector);
    yamnet_free(y);
}

/* Bit for bit the same alone and among others; without vectors, too. */
TEST(patches_alone)
{
    struct yamnet *y = open_good();
    float scores[PATCHES][CLASSES], one[CLASSES];
    float *vectors = malloc((size_t)PATCHES * YAMNET_VECTOR * sizeof(*vectors));
    float *vector = malloc(YAMNET_VECTOR * sizeof(*vector));
    struct err e;

    assert_int_equal(yamnet_patches(y), PATCHES);
    assert_ok(yamnet_run(y, pcm, SAMPLES, scores[0], vectors, &e), e);
    for (size_t p = 0; p < PATCHES; p++) {
        assert_ok(yamnet_run(y, pcm + p * YAMNET_HOP, YAMNET_PATCH, one, vector, &e), e);
        assert_memory_equal(one, scores[p], sizeof(one));
        assert_memory_equal(vector, vectors + p * YAMNET_VECTOR, YAMNET_VECTOR * sizeof(*vector));
        assert_true(p == 0 || memcmp(scores[p], scores[p - 1], sizeof(one)) != 0);
    }
    assert_ok(yamnet_run(y, pcm, YAMNET_PATCH, one, NULL, &e), e);
    assert_memory_equal(one, scores[0], sizeof(one));
    free(vectors);
    free(vector);
    yamnet_free(y);
}

/* What is missing of a patch is silence. */
TEST(short_audio)
{
    static const size_t lengths[] = {0, 1, 399, 400, 15599, 15600, 15601, 23000, 23280};
    struct yamnet *y = open_good();
    float padded[SAMPLES], a[PATCHES][CLASSES], b[PATCHES][CLASSES];
    struct err e;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint32_t patches = yamnet_count(lengths[i]);

        assert_int_equal(patches, lengths[i] <= YAMNET_PATCH ? 1 : 2);
        memset(padded, 0, sizeof(padded));
        memcpy(padded, pcm, lengths[i] * sizeof(float));
        assert_ok(yamnet_run(y, pcm, lengths[i], a[0], NULL, &e), e);
        assert_ok(yamnet_run(y, padded, YAMNET_PATCH + (patches - 1) * (size_t)YAMNET_HOP, b[0],
                             NULL, &e),
                  e);
        assert_memory_equal(a, b, patches * sizeof(a[0]));
    }
    assert_int_equal(yamnet_count(YAMNET_PATCH + YAMNET_HOP + 1), 3);
    yamnet_free(y);
}

TEST(too_much_and_no_number)
{
    struct yamnet *y = open_good();
    float *wrong = malloc(SAMPLES * sizeof(*wrong)), scores[PATCHES][CLASSES], quiet[CLASSES];
    float *right = malloc(SAMPLES * sizeof(*right)), expected[PATCHES][CLASSES];
    struct err e;

    assert_int_equal(yamnet_run(y, pcm, SAMPLES + 1, scores[0], NULL, &e), ERR_DEVICE);
    for (size_t i = 0; i < SAMPLES; i++) {
        wrong[i] = i % 4 == 0 ? NAN : i % 4 == 1 ? 1e38f : i % 4 == 2 ? -INFINITY : pcm[i];
        right[i] = i % 4 == 0 ? 0.0f : i % 4 == 1 ? 16.0f : i % 4 == 2 ? -16.0f : pcm[i];
    }
    assert_ok(yamnet_run(y, wrong, SAMPLES, scores[0], NULL, &e), e);
    assert_ok(yamnet_run(y, right, SAMPLES, expected[0], NULL, &e), e);
    assert_memory_equal(scores, expected, sizeof(expected));
    for (size_t i = 0; i < SAMPLES; i++)
        wrong[i] = NAN;
    assert_ok(yamnet_run(y, wrong, SAMPLES, scores[0], NULL, &e), e);
    assert_ok(yamnet_run(y, wrong, 0, quiet, NULL, &e), e);
    assert_memory_equal(scores[0], quiet, sizeof(quiet));
    free(wrong);
    free(right);
    yamnet_free(y);
}

TEST(memory)
{
    struct yamnet *y = open_good();
    uint64_t took = be->allocated;
    struct err e;

    assert_in_range(yamnet_predict_bytes(PATCHES), took, 2 * took);
    yamnet_free(y);
    assert_true(be->allocated < took / 100);
    y = NULL;
    for (uint64_t i = 1; i < 7; i++) { /* each time it ends at another place */
        be->budget = took * i / 7;
        assert_int_equal(yamnet_load("good", be, PATCHES, &y, &e), ERR_VRAM);
        assert_null(y);
        assert_true(be->allocated < took / 100);
    }
    be->budget = 0;
    assert_int_equal(yamnet_load("good", be, YAMNET_MAX_PATCHES + 1, &y, &e), ERR_USAGE);
}

TEST(names)
{
    static const char *const want[] = {
        "Speech", "Child speech, kid speaking", "A \"quoted\" name", "Chant", "Ni\xc3\xb1o", "Dog",
        "Music"};
    struct yamnet *y = open_good();

    assert_int_equal(yamnet_classes(y), CLASSES);
    for (uint32_t i = 0; i < CLASSES; i++)
        assert_string_equal(yamnet_class_name(y, i), want[i]);
    assert_string_equal(yamnet_class_name(y, CLASSES), "");
    yamnet_free(y);
}

/* ---- hostile folders */

static void refused(const char *says)
{
    struct yamnet *y = NULL;
    struct err e;

    assert_int_equal(yamnet_load("bad", be, 1, &y, &e), ERR_MODEL);
    assert_null(y);
    assert_says(e.msg, says);
}

TEST(bad_classes)
{
#define HEAD "index,mid,display_name\n"
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "does not begin"},
        {"index,mid\n", "does not begin"},
        {"index,mid,display_name,more\n", "does not begin"},
        {HEAD, "names no class"},
        {HEAD "1,/m/a,Speech\n", "line 2"},
        {HEAD "0,/m/a,Speech\n0,/m/b,Dog\n", "line 3"},
        {HEAD "0,/m/a\n", "line 2: not three"},
        {HEAD "0,/m/a,b,c\n", "line 2: not three"},
        {HEAD "0,/m/a,\"Speech\n1,/m/b,Dog\n", "line 2: not three"},
        {HEAD "0,/m/a,\"Speech\"x\n", "line 2: not three"},
        {HEAD "0,/m/a,\n", "line 2"},
        {HEAD "0,/m/a,Spe\x1b[31mech\n", "line 2"},
        {HEAD "0,/m/a,Ni\xf1o\n", "line 2"},
        {HEAD "0,/m/a,\"two\nlines\"\n", "line 2"},
        {HEAD "0,/m/a,Speech\n",
         "tensor 'logits.weight' is 7 x 1024, but this model's is 1 x 1024"},
    };

    yamnet_model_write(formula, "bad");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        yamnet_model_classes("bad", bad[i].text);
        refused(bad[i].says);
    }
    assert_int_equal(unlink("bad/classes.csv"), 0);
    refused("classes.csv");
}

TEST(many_classes)
{
    size_t cap = 100000, n = 0;
    char *text = malloc(cap);
    struct yamnet_names names;
    struct err e;

    assert_non_null(text);
    n += (size_t)snprintf(text, cap, HEAD);
    for (int i = 0; i <= YAMNET_MAX_CLASSES; i++)
        n += (size_t)snprintf(text + n, cap - n, "%d,m,name\n", i);
    assert_int_equal(yamnet_names_parse(text, n, &names, &e), ERR_MODEL);
    free(text);
    text = strdup(HEAD "0,m,x\n");
    n = strlen(text);
    text[n - 2] = '\0'; /* a NUL within */
    assert_int_equal(yamnet_names_parse(text, n, &names, &e), ERR_MODEL);
    free(text);
}

/* Whatever the bytes are: classes with printable names, or a sentence. */
TEST(any_classes)
{
    static const char good[] =
        HEAD "0,/m/a,Speech\r\n1,\"/m/b\",\"A \"\"dog\"\", far\"\n2,,Ni\xc3\xb1o";
    static const char bytes[] = ",\"\r\n\x01x0\xff";
    uint32_t parsed = 0, refused_ones = 0;
    uint64_t random = 1;

    for (int round = 0; round < 20000; round++) {
        struct yamnet_names names = {0};
        size_t len = sizeof(good) - 1;
        char *text = malloc(len + 1); /* exactly, so that a byte too far is seen */
        struct err e;

        memcpy(text, good, len + 1);
        for (int k = 0; k <= round % 4; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[(random >> 33) % len] = bytes[(random >> 20) % (sizeof(bytes) - 1)];
        }
        if (yamnet_names_parse(text, len, &names, &e) == 0) {
            parsed++;
            for (uint32_t i = 0; i < names.count; i++)
                assert_true(names.name[i][0] >= 0x20 || names.name[i][0] < 0);
            yamnet_names_free(&names);
        } else {
            refused_ones++;
            assert_int_equal(e.code, ERR_MODEL);
        }
        free(text);
    }
    assert_true(parsed > 1000 && refused_ones > 1000);
}

TEST(bad_config)
{

    yamnet_model_write(formula, "bad");
    yamnet_model_config("bad", "whisper", 1);
    refused("type 'whisper'");
    yamnet_model_config("bad", "yamnet", 2);
    refused("entry 1 of network.layers");
    file_text("bad/config.json", "{\"model_type\":\"yamnet\",\"format_version\":1,\"audio\":[]}");
    refused("no number 'audio.sample_rate'");
    file_text("bad/config.json", "{\"model_type\":");
    refused("config.json");
    assert_int_equal(truncate("bad/config.json", (32 << 20) + 1), 0);
    refused("over 32 MiB");
    assert_int_equal(unlink("bad/config.json"), 0);
    refused("config.json");
}

TEST(bad_weights)
{
    struct formula_tensor *t = formula_find(formula, "layer9.pointwise.bias");
    struct formula_tensor kept = *t;

    t->name[0] = '\0';
    yamnet_model_write(formula, "bad");
    refused("tensor 'layer9.pointwise.bias' (512) is missing");
    *t = kept;
    t->dim[0] = 511;
    yamnet_model_write(formula, "bad");
    refused("tensor 'layer9.pointwise.bias' is 511, but this model's is 512");
    *t = kept;
    t->mul = INFINITY;
    yamnet_model_write(formula, "bad");
    refused("no finite number");
    *t = kept;
    yamnet_model_write(formula, "bad");
    assert_int_equal(truncate("bad/model.safetensors", 1000000), 0);
    refused("model.safetensors");
    assert_int_equal(unlink("bad/model.safetensors"), 0);
    refused("model.safetensors");
}

TEST_MAIN(set_up, tear_down)
