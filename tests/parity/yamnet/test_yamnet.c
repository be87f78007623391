/* YAMNet with the published weights against arrays of a float64/float32 numpy implementation of it:
 * log-mel, each convolution, vectors and scores. The bounds are those that came with the arrays:
 * what differs is the order of float32 sums. */
#include "tests/common/test.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "tests/parity/nano/fixture.h"
#include "workers/models/yamnet/yamnet.h"

#define MAX_PATCHES 8

static struct backend *be;
static struct yamnet *net;

static struct array golden(const char *name, const char *what)
{
    struct array a = {0};
    char path[200];

    snprintf(path, sizeof(path), "golden/yamnet/%s_%s.npy", name, what);
    assert_int_equal(fixture_npy(test_shared_path(path), &a), 0);
    return a;
}

static double furthest(const float *a, const float *b, size_t n)
{
    double worst = 0.0;

    for (size_t i = 0; i < n; i++)
        worst = distance_larger(worst, fabs((double)a[i] - (double)b[i]));
    return worst;
}

static void logmel(void **state)
{
    struct err e;

    for (const char **name = *state; *name; name++) {
        struct array wave = golden(*name, "waveform"), want = golden(*name, "logmel");
        size_t image = (size_t)YAMNET_FRAMES * YAMNET_BINS;
        float *have = malloc(yamnet_count(wave.cols) * image * sizeof(*have));
        double d;

        assert_int_equal(want.cols, YAMNET_BINS);
        assert_in_range(yamnet_count(wave.cols), want.rows / YAMNET_FRAMES, MAX_PATCHES);
        assert_ok(yamnet_listen(net, wave.data, wave.cols, have, &e), e);
        d = furthest(have, want.data, want.rows * YAMNET_BINS);
        print_message("%s: log-mel within %.1e\n", *name, d);
        assert_true(d < 1e-5);
        free(have);
        free(wave.data);
        free(want.data);
    }
}

/* The classes with the highest scores, highest first. */
static void top5(const float *scores, uint32_t n, uint32_t ret[5])
{
    for (int i = 0; i < 5; i++) {
        ret[i] = UINT32_MAX;
        for (uint32_t c = 0; c < n; c++) {
            bool taken = false;

            for (int k = 0; k < i; k++)
                taken |= ret[k] == c;
            if (!taken && (ret[i] == UINT32_MAX || scores[c] > scores[ret[i]]))
                ret[i] = c;
        }
    }
}

static void check_top(const float *have, const float *want, uint32_t classes)
{
    uint32_t a[5], b[5];

    top5(have, classes, a);
    top5(want, classes, b);
    for (int i = 0; i < 5; i++)
        assert_int_equal(a[i], b[i]);
}

static void sounds(void **state)
{
    uint32_t classes = yamnet_classes(net);
    float *scores = malloc(MAX_PATCHES * classes * sizeof(*scores));
    float *vectors = malloc((size_t)MAX_PATCHES * YAMNET_VECTOR * sizeof(*vectors));
    struct err e;

    for (const char **name = *state; *name; name++) {
        struct array wave = golden(*name, "waveform"), want = golden(*name, "scores"),
                     embeddings = golden(*name, "embeddings");
        double d, dv;

        assert_int_equal(want.cols, classes);
        assert_in_range(yamnet_count(wave.cols), want.rows, MAX_PATCHES);
        assert_ok(yamnet_run(net, wave.data, wave.cols, scores, vectors, &e), e);
        d = furthest(scores, want.data, want.rows * want.cols);
        dv = furthest(vectors, embeddings.data, embeddings.rows * embeddings.cols);
        print_message("%s: scores within %.1e, vectors within %.1e; first %s %.3f\n", *name, d, dv,
                      yamnet_class_name(net, 0), scores[0]);
        assert_true(d < 1e-4 && dv < 1e-4);
        for (size_t p = 0; p < want.rows; p++)
            check_top(scores + p * classes, want.data + p * classes, classes);
        free(wave.data);
        free(want.data);
        free(embeddings.data);
    }
    free(scores);
    free(vectors);
}

/* [height][width][channels] against the mean, the maximum and five values. */
static void check_layer(const float *have, const json_t *layer)
{
    const json_t *shape = json_object_get(layer, "shape"), *values, *v;
    size_t c = (size_t)json_integer_value(json_array_get(shape, 0)), i;
    size_t h = (size_t)json_integer_value(json_array_get(shape, 1));
    size_t w = (size_t)json_integer_value(json_array_get(shape, 2));
    double sum = 0.0, top = 0.0, bound;

    for (size_t k = 0; k < c * h * w; k++) {
        sum += (double)have[k];
        top = (double)have[k] > top ? (double)have[k] : top;
    }
    bound = 1e-5 * top;
    assert_true(fabs(top - json_number_value(json_object_get(layer, "max"))) < bound);
    assert_true(fabs(sum / (double)(c * h * w) -
                     json_number_value(json_object_get(layer, "mean"))) < bound);
    values = json_object_get(layer, "values");
    assert_int_equal(json_array_size(values), 5);
    json_array_foreach(values, i, v)
    {
        const json_t *at = json_object_get(v, "at");
        size_t k = (size_t)json_integer_value(json_array_get(at, 0));
        size_t y = (size_t)json_integer_value(json_array_get(at, 1));
        size_t x = (size_t)json_integer_value(json_array_get(at, 2));
        double want = json_number_value(json_object_get(v, "value"));

        assert_true(fabs((double)have[(y * w + x) * c + k] - want) < bound);
    }
}

static void layers(void **state)
{
    struct array mel = golden("speech", "logmel");
    json_t *root = json_load_file(test_shared_path("golden/yamnet/speech_layers.json"), 0, NULL);
    const json_t *list = json_object_get(root, "layers");
    float *have = malloc(98304 * sizeof(*have));
    struct err e;

    (void)state;
    assert_int_equal(json_array_size(list), YAMNET_CONVOLUTIONS);
    for (uint32_t i = 0; i < YAMNET_CONVOLUTIONS; i++) {
        assert_ok(yamnet_look(net, mel.data, i + 1, have, &e), e);
        check_layer(have, json_array_get(list, i));
    }
    free(have);
    free(mel.data);
    json_decref(root);
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(yamnet_classes(net), 521);
    assert_string_equal(yamnet_class_name(net, 0), "Speech");
    assert_string_equal(yamnet_class_name(net, 1), "Child speech, kid speaking");
    assert_string_equal(yamnet_class_name(net, 132), "Music");
    assert_string_equal(yamnet_class_name(net, 520), "Field recording");
    assert_string_equal(yamnet_class_name(net, 521), "");
}

int main(void)
{
    static const char *recordings[] = {"speech", "chirp", "short", NULL};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(logmel, recordings),
        cmocka_unit_test(names),
        cmocka_unit_test(layers),
        cmocka_unit_test_prestate(sounds, recordings),
    };
    FILE *f = fopen(test_shared_path("models/yamnet/config.json"), "re");
    struct err e = {0};
    int rc;

    if (!f) {
        printf("skipped: no %s\n", test_shared_path("models/yamnet"));
        return TEST_SKIPPED;
    }
    fclose(f);
    if (backend_open_host(0, &be, &e) != 0 ||
        yamnet_load(test_shared_path("models/yamnet"), be, MAX_PATCHES, &net, &e) != 0) {
        printf("%s\n", e.msg);
        backend_close(be);
        return 1;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    yamnet_free(net);
    backend_close(be);
    return rc;
}
