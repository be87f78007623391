/* YAMNet's variables as a SavedModel has them become a model: what that computes is held against
 * plain loops in double precision over the variables themselves, batch norms and all. */
#include "tests/common/test.h"

#include <math.h>
#include <sys/stat.h>

#include "gpu/backend.h"
#include "tests/common/files.h"
#include "tests/common/random.h"
#include "tools/hub/packages/yamnet.h"
#include "workers/models/yamnet/yamnet.h"

#define BEGIN 8
#define VALUES 3751369 /* with three of a batch norm for each channel */
#define CLASSES 521
#define LARGEST ((size_t)48 * 32 * 64)

static float variables[(BEGIN + 120000) / 4 + VALUES];
static uint64_t seed = 1;

static float between(float low, float high)
{
    return low + (high - low) * (float)random_below(&seed, 1 << 20) / (float)(1 << 20);
}

static void fill(float **at, size_t n, float low, float high)
{
    for (size_t i = 0; i < n; i++)
        *(*at)++ = between(low, high);
}

/* A kernel, then shift, mean and variance of its batch norm. */
static void fill_norm(float **at, uint32_t taps, uint32_t in, uint32_t out)
{
    const float most = sqrtf(6.0f / (float)(taps * in));

    fill(at, (size_t)taps * in * out, -most, most);
    fill(at, out, -0.3f, 0.3f);
    fill(at, out, -0.2f, 0.2f);
    fill(at, out, 0.5f, 1.5f);
}

static void fill_variables(void)
{
    float *at = variables + BEGIN / 4;
    uint32_t in = yamnet_layers[0].out;

    fill_norm(&at, 9, 1, in);
    for (int i = 1; i < YAMNET_LAYERS; i++) {
        fill_norm(&at, 9, 1, in);
        fill_norm(&at, 1, in, yamnet_layers[i].out);
        in = yamnet_layers[i].out;
    }
    fill(&at, (size_t)YAMNET_VECTOR * CLASSES, -0.1f, 0.1f);
    fill(&at, CLASSES, -1, 1);
    assert_int_equal(at - variables, BEGIN / 4 + VALUES);
}

/* ---- the network, as TensorFlow computes it: [height][width][channels] */

struct image {
    uint32_t height, width, channels;
    double *at;
};

static double activated(double sum, const float *norm, uint32_t out, uint32_t o)
{
    const double y = (sum - norm[out + o]) / sqrt(norm[2 * out + o] + 1e-4) + norm[o];

    return y > 0 ? y : 0;
}

/* SAME: with stride 1 one around, with stride 2 one at the end alone. */
static double tap(const struct image *x, int64_t row, int64_t column, uint32_t channel)
{
    if (row < 0 || column < 0 || row >= x->height || column >= x->width)
        return 0;
    return x->at[((size_t)row * x->width + (size_t)column) * x->channels + channel];
}

static double wide_sum(const struct image *x, const float *kernel, uint32_t stride, uint32_t row,
                       uint32_t column, uint32_t out, uint32_t o, bool depthwise)
{
    const int64_t before = stride == 1;
    double sum = 0;

    for (int64_t t = 0; t < 9; t++)
        sum +=
            kernel[(size_t)t * out + o] * tap(x, row * stride + t / 3 - before,
                                              column * stride + t % 3 - before, depthwise ? o : 0);
    return sum;
}

static void wide(struct image *x, double *to, const float **at, uint32_t stride, uint32_t out)
{
    const struct image y = {x->height / stride, x->width / stride, out, to};
    const bool depthwise = x->channels > 1;
    const float *norm = *at + (size_t)9 * out;

    for (uint32_t r = 0; r < y.height; r++)
        for (uint32_t c = 0; c < y.width; c++)
            for (uint32_t o = 0; o < out; o++)
                to[((size_t)r * y.width + c) * out + o] =
                    activated(wide_sum(x, *at, stride, r, c, out, o, depthwise), norm, out, o);
    *at = norm + 3 * out;
    *x = y;
}

static void point(struct image *x, double *to, const float **at, uint32_t out)
{
    const struct image y = {x->height, x->width, out, to};
    const float *norm = *at + (size_t)x->channels * out;
    static double sum[YAMNET_VECTOR];

    for (size_t p = 0; p < (size_t)x->height * x->width; p++) {
        memset(sum, 0, sizeof(sum));
        for (uint32_t i = 0; i < x->channels; i++)
            for (uint32_t o = 0; o < out; o++)
                sum[o] += x->at[p * x->channels + i] * (*at)[(size_t)i * out + o];
        for (uint32_t o = 0; o < out; o++)
            to[p * out + o] = activated(sum[o], norm, out, o);
    }
    *at = norm + 3 * out;
    *x = y;
}

static void network(const float *log_mel, double vector[YAMNET_VECTOR], double scores[CLASSES])
{
    static double a[LARGEST], b[LARGEST];
    struct image x = {YAMNET_FRAMES, YAMNET_BINS, 1, a};
    const float *at = variables + BEGIN / 4;

    for (size_t i = 0; i < (size_t)YAMNET_FRAMES * YAMNET_BINS; i++)
        a[i] = log_mel[i];
    wide(&x, b, &at, yamnet_layers[0].stride, yamnet_layers[0].out);
    for (int i = 1; i < YAMNET_LAYERS; i++) {
        wide(&x, a, &at, yamnet_layers[i].stride, x.channels);
        point(&x, b, &at, yamnet_layers[i].out);
    }
    for (uint32_t i = 0; i < YAMNET_VECTOR; i++) {
        vector[i] = 0;
        for (int p = 0; p < 6; p++)
            vector[i] += x.at[(size_t)p * YAMNET_VECTOR + i] / 6;
    }
    for (uint32_t o = 0; o < CLASSES; o++) {
        double sum = at[(size_t)YAMNET_VECTOR * CLASSES + o];

        for (uint32_t i = 0; i < YAMNET_VECTOR; i++)
            sum += vector[i] * at[(size_t)i * CLASSES + o];
        scores[o] = 1 / (1 + exp(-sum));
    }
}

/* ---- the model */

static void write_model(const char *folder)
{
    struct buf out = BUF_INIT, classes = BUF_INIT;
    char path[64], *config = NULL;
    struct err e;

    mkdir(folder, 0777);
    assert_ok(hub_yamnet_weights((uint8_t *)variables, sizeof(variables), &out, &e), e);
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    file_write(path, out.data, out.len);
    assert_ok(hub_yamnet_config("of a \"test\"", &config, &e), e);
    snprintf(path, sizeof(path), "%s/config.json", folder);
    file_text(path, config);
    buf_printf(&classes, "index,mid,display_name\r\n");
    for (int i = 0; i < CLASSES; i++)
        buf_printf(&classes, "%d,/m/0,sound %d\r\n", i, i);
    snprintf(path, sizeof(path), "%s/classes.csv", folder);
    file_text(path, buf_cstr(&classes));
    free(config);
    buf_free(&out);
    buf_free(&classes);
}

TEST(computes_what_the_variables_say)
{
    static float pcm[YAMNET_PATCH], image[YAMNET_FRAMES * YAMNET_BINS], scores[CLASSES];
    static float vector[YAMNET_VECTOR];
    double want[CLASSES], want_vector[YAMNET_VECTOR], largest = 0, low = 1, high = 0;
    struct backend *be;
    struct yamnet *y;
    struct err e;

    fill_variables();
    write_model("made");
    for (size_t i = 0; i < YAMNET_PATCH; i++)
        pcm[i] = 0.4f * sinf(0.00001f * (float)(i * i % 1000003)) + 0.1f * between(-1, 1);
    assert_ok(backend_open_host(2, &be, &e), e);
    assert_ok(yamnet_load("made", be, 1, &y, &e), e);
    assert_string_equal(yamnet_class_name(y, 520), "sound 520");
    assert_ok(yamnet_listen(y, pcm, YAMNET_PATCH, image, &e), e);
    assert_ok(yamnet_run(y, pcm, YAMNET_PATCH, scores, vector, &e), e);
    network(image, want_vector, want);
    for (int i = 0; i < YAMNET_VECTOR; i++)
        largest = fmax(largest, fabs(want_vector[i]));
    assert_true(largest > 0.01);
    for (int i = 0; i < YAMNET_VECTOR; i++)
        assert_true(fabs(vector[i] - want_vector[i]) < 1e-4 * largest);
    for (int i = 0; i < CLASSES; i++) {
        assert_true(fabs(scores[i] - want[i]) < 1e-4);
        low = fmin(low, want[i]);
        high = fmax(high, want[i]);
    }
    assert_true(high - low > 0.1); /* they are not all one number */
    yamnet_free(y);
    backend_close(be);
}

TEST(variables_that_end_too_early)
{
    struct buf out = BUF_INIT;
    struct err e;

    assert_int_equal(hub_yamnet_weights((uint8_t *)variables, BEGIN + 4 * VALUES - 1, &out, &e),
                     ERR_PROTOCOL);
    assert_int_equal(out.len, 0);
    assert_ok(hub_yamnet_weights((uint8_t *)variables, BEGIN + 4 * VALUES, &out, &e), e);
    buf_free(&out);
}

TEST_MAIN(NULL, NULL)
