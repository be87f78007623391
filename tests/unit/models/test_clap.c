/* CLAP with weights by formula: the orders of a Swin transformer against their definition, audio of
 * every length, what shares a call; and folders that are not what they should be. (Its figures
 * against transformers: tests/parity/clap.) */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/parity/clap/model.h"
#include "workers/models/clap/clap.h"
#include "workers/models/clap/clap_config.h"
#include "workers/models/clap/clap_maps.h"
#include "workers/models/clap/clap_mel.h"

#define SIZE 24
#define WINDOWS 3
#define MANY 11 /* more than are heard at once */

static struct backend *be;
static struct formula *formula;
static float *pcm;
static struct clap_shape shape; /* clap_small without its text tower */

static int set_up(void **state)
{
    struct err e;

    (void)state;
    shape = clap_small;
    shape.text = false;
    formula = clap_model(&shape);
    if (clap_model_write(&shape, formula, "good") != 0)
        return -1;
    pcm = clap_noise("unit", CLAP_SAMPLES, 0.2f);
    return backend_open_host(2, &be, &e);
}

static int tear_down(void **state)
{
    (void)state;
    backend_close(be);
    formula_free(formula);
    free(pcm);
    return 0;
}

/* ---- orders */

/* Which patch lies at a place of the windows of a grid that was rolled by `shift`. */
static uint32_t rolled(struct clap_order o, uint32_t place)
{
    uint32_t at = 0;

    for (uint32_t wy = 0; wy < o.grid; wy += o.window)
        for (uint32_t wx = 0; wx < o.grid; wx += o.window)
            for (uint32_t y = wy; y < wy + o.window; y++)
                for (uint32_t x = wx; x < wx + o.window; x++)
                    if (at++ == place)
                        return (y + o.shift) % o.grid * o.grid + (x + o.shift) % o.grid;
    return UINT32_MAX;
}

TEST(orders)
{
    const struct clap_order rows = {16, 16, 0}, plain = {16, 8, 0}, shifted = {16, 8, 4};
    int32_t there[512], back[512];

    clap_map_between(rows, shifted, 2, there);
    for (uint32_t i = 0; i < 512; i++) /* from row by row: a patch's number is its place */
        assert_int_equal(there[i], i / 256 * 256 + rolled(shifted, i % 256));
    clap_map_between(plain, shifted, 2, there);
    clap_map_between(shifted, plain, 2, back);
    for (uint32_t i = 0; i < 512; i++) {
        assert_int_equal(back[there[i]], i);
        assert_int_equal(rolled(plain, (uint32_t)there[i] % 256), rolled(shifted, i % 256));
    }
}

TEST(merging)
{
    const struct clap_order from = {16, 8, 0}, to = {8, 8, 0};
    int32_t map[256];

    clap_map_merge(from, to, 1, map);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t y = i / 8 * 2, x = i % 8 * 2;
        const uint32_t want[4] = {y * 16 + x, (y + 1) * 16 + x, y * 16 + x + 1,
                                  (y + 1) * 16 + x + 1};

        for (uint32_t k = 0; k < 4; k++)
            assert_int_equal(rolled(from, (uint32_t)map[4 * i + k]), want[k]);
    }
}

/* A patch sees another one of its window where both were neighbours before the shift. */
TEST(biases)
{
    const struct clap_order o = {8, 4, 2};
    uint32_t kinds[4];
    float table[49 * 2], bias[4 * 2 * 16 * 16];

    for (int i = 0; i < 98; i++)
        table[i] = (float)i;
    clap_map_kinds(o, 1, kinds);
    clap_map_bias(4, 2, 2, table, bias);
    for (uint32_t w = 0; w < 4; w++) {
        for (uint32_t h = 0; h < 2; h++) {
            for (uint32_t i = 0; i < 16; i++) {
                for (uint32_t j = 0; j < 16; j++) {
                    uint32_t p = rolled(o, w * 16 + i), q = rolled(o, w * 16 + j);
                    int down = (int)(i / 4) - (int)(j / 4), aside = (int)(i % 4) - (int)(j % 4);
                    bool near =
                        (int)(p / 8) - (int)(q / 8) == down && (int)(p % 8) - (int)(q % 8) == aside;
                    float want = table[((down + 3) * 7 + aside + 3) * 2 + (int)h];

                    want = near ? want : want - 100.0f;
                    assert_true(bias[((kinds[w] * 2 + h) * 16 + i) * 16 + j] == want);
                }
            }
        }
    }
    clap_map_kinds((struct clap_order){8, 4, 0}, 1, kinds);
    for (int w = 0; w < 4; w++)
        assert_int_equal(kinds[w], 0);
}

/* transformers' reshape: the image's row of patches y is row y % high of its part y / high, whose
 * columns are frames behind those of the parts before. */
TEST(patches)
{
    const struct clap_order rows = {16, 16, 0};
    int32_t map[2 * 256];

    clap_map_patches(4, rows, 2, map);
    for (int32_t i = 0; i < 2 * 256; i++) {
        int32_t y = i % 256 / 16, x = i % 16, part = y / 4, frame = part * 16 + x;

        assert_int_equal(map[i], i / 256 * 256 + frame * 4 + y % 4);
    }
}

/* ---- audio */

static struct clap *open_good(void)
{
    struct clap *c = NULL;
    struct err e;

    assert_ok(clap_load("good", be, PRECISION_F32, CLAP_AUDIO, WINDOWS, &c, &e), e);
    return c;
}

/* Any length; alone and among others bit for bit the same; length 1. */
TEST(windows_alone)
{
    const struct clap_audio audio[WINDOWS] = {{pcm, CLAP_SAMPLES}, {pcm + 1000, 1}, {pcm, 70001}};
    struct clap *c = open_good();
    float all[WINDOWS][SIZE], one[SIZE];
    struct err e;

    assert_int_equal(clap_size(c), SIZE);
    assert_int_equal(clap_windows(c), WINDOWS);
    assert_ok(clap_run_audio(c, audio, WINDOWS, all[0], &e), e);
    for (int i = 0; i < WINDOWS; i++) {
        double sum = 0.0;

        assert_ok(clap_run_audio(c, &audio[i], 1, one, &e), e);
        assert_memory_equal(one, all[i], sizeof(one));
        for (int k = 0; k < SIZE; k++)
            sum += (double)one[k] * (double)one[k];
        assert_true(fabs(sum - 1.0) < 1e-6);
        assert_true(i == 0 || memcmp(all[i], all[i - 1], sizeof(one)) != 0);
    }
    clap_free(c);
}

/* Where they share the device's work, what each gives is the same but for the rounding of larger
 * products. */
TEST(windows_together)
{
    const struct backend_info info = be->info;
    struct clap_audio audio[MANY];
    float alone[MANY][SIZE], together[MANY][SIZE];
    struct clap *c = open_good();
    struct err e;

    for (size_t i = 0; i < MANY; i++) {
        audio[i] = (struct clap_audio){pcm + 1000 * i, i % 3 ? 70001 / i : CLAP_SAMPLES - 1000 * i};
        assert_ok(clap_run_audio(c, &audio[i], 1, alone[i], &e), e);
    }
    clap_free(c);
    be->info.deterministic = false;
    be->info.wide_batches = true;
    assert_ok(clap_load("good", be, PRECISION_F32, CLAP_AUDIO, MANY, &c, &e), e);
    assert_ok(clap_run_audio(c, audio, MANY, together[0], &e), e);
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < SIZE; k++)
            assert_true(fabs((double)alone[i][k] - (double)together[i][k]) < 1e-5);
    be->info = info;
    clap_free(c);
}

TEST(what_is_no_audio)
{
    struct clap *c = open_good();
    struct clap_audio audio[WINDOWS + 1] = {{pcm, 0}};
    float ret[WINDOWS + 1][SIZE], quiet[SIZE], *wrong = malloc(1000 * sizeof(*wrong));
    const char *text = "a dog";
    struct err e;

    assert_int_equal(clap_run_audio(c, audio, 1, ret[0], &e), ERR_DEVICE);
    audio[0].n = CLAP_SAMPLES + 1;
    assert_int_equal(clap_run_audio(c, audio, 1, ret[0], &e), ERR_DEVICE);
    assert_int_equal(clap_run_audio(c, audio, WINDOWS + 1, ret[0], &e), ERR_DEVICE);
    assert_int_equal(clap_run_text(c, &text, 1, ret[0], &e), ERR_DEVICE);
    for (int i = 0; i < 1000; i++)
        wrong[i] = NAN;
    audio[0] = (struct clap_audio){wrong, 1000};
    assert_ok(clap_run_audio(c, audio, 1, ret[0], &e), e);
    memset(wrong, 0, 1000 * sizeof(*wrong));
    assert_ok(clap_run_audio(c, audio, 1, quiet, &e), e);
    assert_memory_equal(ret[0], quiet, sizeof(quiet));
    free(wrong);
    clap_free(c);
}

static struct clap_mel *open_mel(uint32_t windows)
{
    float one[CLAP_MEL_MAX_BINS], zero[CLAP_MEL_MAX_BINS] = {0};
    struct clap_mel *m = NULL;
    struct clap_config c;
    struct err e;

    for (int i = 0; i < CLAP_MEL_MAX_BINS; i++)
        one[i] = 1.0f;
    assert_ok(clap_config_read("good", &c, &e), e);
    assert_ok(clap_mel_new(&c, be, windows, one, zero, &m, &e), e);
    return m;
}

/* n samples at 48 kHz: [3 n]. */
static float *upsample(const float *x, size_t n)
{
    float *y = malloc(3 * n * sizeof(*y)), w[CLAP_UPSAMPLE_BY * CLAP_UPSAMPLE_TAPS];
    const struct resample_spec spec = clap_mel_upsampling(w);
    struct tensor from = tensor_of(DTYPE_F32, (float *)(uintptr_t)x, (int64_t)n, 1);
    struct tensor to = tensor_of(DTYPE_F32, y, 3 * (int64_t)n, 1);
    struct resampling *r = NULL;
    struct err e;

    assert_ok(be->ops->resample_new(be, &spec, w, &r, &e), e);
    assert_ok(be->ops->resample(be, r, 1, NULL, from, NULL, NULL, to, &e), e);
    be->ops->resample_free(be, r);
    return y;
}

/* "repeatpad": as often as it fits whole, then silence, whatever was there before. */
TEST(repeated)
{
    static const size_t lengths[] = {1, 7, 60000, 80000, 80001, 159999, CLAP_SAMPLES, 53333};
    struct clap_mel *m = open_mel(2);

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const struct clap_audio audio[] = {{pcm, CLAP_SAMPLES}, {pcm, lengths[i]}};
        size_t n = 3 * lengths[i], end = CLAP_MEL_SAMPLES / n * n;
        const float *have = clap_mel_samples(m) + CLAP_MEL_SAMPLES;
        float *want = upsample(pcm, lengths[i]);
        struct err e;

        assert_ok(clap_mel_put(m, audio, 2, &e), e);
        for (size_t k = 0; k < CLAP_MEL_SAMPLES; k++)
            assert_true(have[k] == (k < end ? want[k % n] : 0.0f));
        free(want);
    }
    clap_mel_free(m);
}

/* Windows behind each other in memory go to the device together, the last of them shorter; others
 * do not: all are heard as they are alone. */
TEST(behind_each_other)
{
    enum { COUNT = 5 };
    float *all = malloc((3 * CLAP_SAMPLES + 5) * sizeof(*all));
    const struct clap_audio audio[COUNT] = {{all + 5, CLAP_SAMPLES},
                                            {all + 5 + CLAP_SAMPLES, CLAP_SAMPLES},
                                            {all + 5 + 2 * CLAP_SAMPLES, 100000},
                                            {all + 5 + CLAP_SAMPLES, 120000},
                                            {all, CLAP_SAMPLES}};
    struct clap_mel *m = open_mel(COUNT), *one = open_mel(1);
    struct err e;

    for (size_t i = 0; i < 3 * CLAP_SAMPLES + 5; i++)
        all[i] = pcm[i * 7 % CLAP_SAMPLES];
    assert_ok(clap_mel_put(m, audio, COUNT, &e), e);
    for (int i = 0; i < COUNT; i++) {
        assert_ok(clap_mel_put(one, &audio[i], 1, &e), e);
        assert_memory_equal(clap_mel_samples(m) + (size_t)i * CLAP_MEL_SAMPLES,
                            clap_mel_samples(one), CLAP_MEL_SAMPLES * sizeof(float));
    }
    clap_mel_free(m);
    clap_mel_free(one);
    free(all);
}

TEST(memory)
{
    struct clap *c = open_good();
    uint64_t took = be->allocated;
    struct err e;

    clap_free(c);
    assert_true(be->allocated < took / 50);
    c = NULL;
    for (uint64_t i = 1; i < 7; i++) { /* each time it ends at another place */
        be->budget = took * i / 7;
        assert_int_equal(clap_load("good", be, PRECISION_F32, CLAP_AUDIO, 1, &c, &e), ERR_VRAM);
        assert_null(c);
        assert_true(be->allocated < took / 50);
    }
    be->budget = 0;
    assert_int_equal(clap_load("good", be, PRECISION_F32, CLAP_AUDIO, CLAP_MAX_WINDOWS + 1, &c, &e),
                     ERR_USAGE);
}

/* ---- hostile folders */

static void refused(const char *says)
{
    struct clap *c = NULL;
    struct err e;

    assert_int_equal(clap_load("bad", be, PRECISION_F32, CLAP_AUDIO, 1, &c, &e), ERR_MODEL);
    assert_null(c);
    assert_says(e.msg, says);
}

static void put(const char *name, const char *format, const char *what)
{
    char path[100];
    FILE *f;

    snprintf(path, sizeof(path), "bad/%s", name);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s%s%s", format, what, format[0] ? "}}" : "");
    assert_int_equal(fclose(f), 0);
}

TEST(bad_config)
{
    static const struct {
        const char *audio, *says;
    } bad[] = {
        {"\"enable_fusion\":true", "enable_fusion"},
        {"\"qkv_bias\":false", "qkv_bias"},
        {"\"hidden_act\":\"relu\"", "hidden_act is 'relu'"},
        {"\"spec_size\":-256", "spec_size is -256"},
        {"\"spec_size\":1e300", "spec_size"},
        {"\"spec_size\":250", "spec_size 250"},
        {"\"spec_size\":64", "10 s are 1001 frames"},
        {"\"spec_size\":\"x\"", "spec_size is no number"},
        {"\"patch_size\":8", "patch_stride"},
        {"\"patch_stride\":[4,2]", "patch_stride"},
        {"\"window_size\":7", "windows of 7"},
        {"\"window_size\":8.5", "no whole number"},
        {"\"depths\":[2,2,6]", "num_attention_heads"},
        {"\"depths\":[2,2,6,0]", "depths"},
        {"\"depths\":[2,2,6,100000]", "depths"},
        {"\"depths\":[]", "depths"},
        {"\"depths\":7", "depths"},
        {"\"num_attention_heads\":[4,8,16,33]", "stage 4 has 33 heads"},
        {"\"num_attention_heads\":[1,1,1,1]", "stage 2 has 1 heads"},
        {"\"hidden_size\":512", "hidden_size is 512"},
        {"\"num_mel_bins\":80", "num_mel_bins"},
        {"\"spec_size\":1024,\"patch_size\":1,\"patch_stride\":1", "1024 x 1024 patches"},
        {"\"window_size\":32", "windows of 32"},
        {"\"depths\":[64,2,6,2]", "74 layers"},
        {"\"mlp_ratio\":1e9", "mlp_ratio"},
        {"\"mlp_ratio\":0.52", "mlp_ratio 0.52 makes 49 of stage 1's 96 values"},
        {"\"layer_norm_eps\":0", "layer_norm_eps"},
        {"\"depths\":[2,2],\"num_attention_heads\":[4,8],\"hidden_size\":192",
         "model's is 96 x 1 x 4 x 4"},
    };
    const char *head = "{\"model_type\":\"clap\",\"audio_config\":{";

    assert_int_equal(clap_model_write(&clap_published, formula, "bad"), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put("config.json", head, bad[i].audio);
        refused(bad[i].says);
    }
    put("config.json", "", "{\"model_type\":\"clip\"}");
    refused("type 'clip'");
    put("config.json", "", "{\"model_type\":\"clap\"}");
    refused("no audio_config");
    put("config.json", "",
        "{\"model_type\":\"clap\",\"projection_dim\":99999,\"audio_config\":{}}");
    refused("projection_dim");
    put("config.json", "", "{\"model_type\":\"clap\",\"projection_dim\":511,\"audio_config\":{}}");
    refused("projection_dim is 511, an odd number");
    put("config.json", "", "[1]");
    refused("not a JSON object");
    put("config.json", "", "{\"model_type\":");
    refused("config.json");
    assert_int_equal(truncate("bad/config.json", (32 << 20) + 1), 0);
    refused("over 32 MiB");
}

TEST(bad_features)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"truncation\":\"fusion\"}", "truncation is 'fusion'"},
        {"{}", "truncation is missing"},
        {"{\"padding\":\"pad\",\"truncation\":\"rand_trunc\"}", "padding is 'pad'"},
        {"{\"sampling_rate\":16000}", "sampling_rate"},
        {"{\"fft_window_size\":1e9}", "fft_window_size"},
        {"{\"fft_window_size\":1022,\"truncation\":\"rand_trunc\"}",
         "preprocessor_config.json: fft_window_size is 1022: no Fourier transform"},
        {"{\"hop_length\":0}", "hop_length"},
        {"{\"feature_size\":0}", "feature_size"},
        {"{\"frequency_max\":40000}", "frequency_max"},
        {"{\"frequency_min\":9000,\"frequency_max\":8000}", "frequency_max"},
        {"", "preprocessor_config.json"},
    };

    assert_int_equal(clap_model_write(&clap_published, formula, "bad"), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put("preprocessor_config.json", "", bad[i].text);
        refused(bad[i].says);
    }
    put("config.json", "{\"model_type\":\"clap\",\"audio_config\":{",
        "\"spec_size\":1024,\"num_mel_bins\":8,\"patch_size\":8,\"patch_stride\":8");
    put("preprocessor_config.json", "",
        "{\"feature_size\":8,\"truncation\":\"rand_trunc\",\"padding\":\"repeatpad\"}");
    refused("more than 65536");
    assert_int_equal(unlink("bad/preprocessor_config.json"), 0);
    refused("preprocessor_config.json");
}

static int no_bank(struct backend *b, const struct filter_bank_spec *spec, struct filter_bank **ret,
                   struct err *err)
{
    (void)b;
    (void)ret;
    return err_set(err, ERR_MODEL, "no filter bank of %u samples here", spec->mel.fft);
}

/* What one device transforms another may not. */
TEST(a_device_without_that_transform)
{
    const struct backend_ops *kept = be->ops;
    struct backend_ops ops = *kept;

    ops.filter_bank_new = no_bank;
    be->ops = &ops;
    assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
    refused("bad: preprocessor_config.json: fft_window_size is 1024: no filter bank of 1024");
    be->ops = kept;
}

/* Within the bounds of the config: the longest and the shortest frames, and what is no power of 2.
 */
TEST(frames_of_other_lengths)
{
    static const uint32_t lengths[][2] = {{8192, 4800}, {64, 2400}, {1500, 1999}};
    const struct clap_audio audio = {pcm, 50000};
    float ret[SIZE];
    char text[100];

    assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct clap *c = NULL;
        struct err e;

        snprintf(text, sizeof(text),
                 "{\"fft_window_size\":%u,\"hop_length\":%u,\"truncation\":\"rand_trunc\"}",
                 lengths[i][0], lengths[i][1]);
        put("preprocessor_config.json", "", text);
        assert_ok(clap_load("bad", be, PRECISION_F32, CLAP_AUDIO, 1, &c, &e), e);
        assert_ok(clap_run_audio(c, &audio, 1, ret, &e), e);
        clap_free(c);
    }
}

TEST(bad_weights)
{
    static const char *const names[] = {
        "audio_model.audio_encoder.batch_norm.running_var",
        "audio_model.audio_encoder.patch_embed.proj.bias",
        "audio_model.audio_encoder.layers.1.blocks.1.attention.self.relative_position_bias_table",
        "audio_model.audio_encoder.layers.1.downsample.reduction.weight",
        "audio_model.audio_encoder.layers.2.blocks.0.attention.self.key.bias",
        "audio_projection.linear2.weight"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct formula_tensor *t = formula_find(formula, names[i]), kept = *t;
        char says[200];

        t->name[0] = '\0';
        assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
        snprintf(says, sizeof(says), "tensor '%s' (", names[i]);
        refused(says);
        *t = kept;
        t->dim[0] += 8;
        assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
        snprintf(says, sizeof(says), "tensor '%s' is", names[i]);
        refused(says);
        *t = kept;
        t->plus = NAN;
        assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
        refused("no finite number");
        *t = kept;
    }
    assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
    assert_int_equal(truncate("bad/model.safetensors", 100000), 0);
    refused("model.safetensors");
    assert_int_equal(unlink("bad/model.safetensors"), 0);
    refused("bad");
}

/* As where a precision has too small a range. */
TEST(a_vector_that_overflows)
{
    struct formula_tensor *t = formula_find(formula, "audio_projection.linear2.weight"), kept = *t;
    const struct clap_audio audio = {pcm, 70001};
    struct clap *c = NULL;
    float v[SIZE];
    struct err e;

    t->plus = 3e38f;
    assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
    *t = kept;
    assert_ok(clap_load("bad", be, PRECISION_F32, CLAP_AUDIO, WINDOWS, &c, &e), e);
    assert_int_equal(clap_run_audio(c, &audio, 1, v, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "try --precision fp32"));
    clap_free(c);
}

TEST(negative_variance)
{
    struct formula_tensor *t =
        formula_find(formula, "audio_model.audio_encoder.batch_norm.running_var");

    t->plus = -1.0f;
    assert_int_equal(clap_model_write(&shape, formula, "bad"), 0);
    t->plus = 1.0f;
    refused("negative variance");
}

TEST_MAIN(set_up, tear_down)
