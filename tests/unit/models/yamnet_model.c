#include "tests/unit/models/yamnet_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LAYERS 14

static const uint32_t width[LAYERS] = {32,  64,  128, 128, 256, 256,  512,
                                       512, 512, 512, 512, 512, 1024, 1024};
static const uint32_t stride[LAYERS] = {2, 1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};

static void must(int ok)
{
    if (!ok)
        abort();
}

/* ReLU halves the square sum: so scaled, values stay near 1 on the way through. */
static void add(struct formula *f, uint64_t out, uint64_t in, uint64_t kernel, const char *name)
{
    const uint64_t dim[4] = {out, in, kernel, kernel};

    formula_add(f, (float)sqrt(6.0 / (double)(in * kernel * kernel)), 0.0f, 4, dim, "%s.weight",
                name);
    formula_add(f, 0.1f, 0.0f, 1, dim, "%s.bias", name);
}

struct formula *yamnet_model(void)
{
    const uint64_t logits[2] = {YAMNET_MODEL_CLASSES, 1024};
    struct formula *f = formula_new("yamnet");
    char name[40];

    add(f, 32, 1, 3, "layer1.conv");
    for (int i = 1; i < LAYERS; i++) {
        snprintf(name, sizeof(name), "layer%d.depthwise", i + 1);
        add(f, width[i - 1], 1, 3, name);
        snprintf(name, sizeof(name), "layer%d.pointwise", i + 1);
        add(f, width[i], width[i - 1], 1, name);
    }
    formula_add(f, 0.05f, 0.0f, 2, logits, "logits.weight");
    formula_add(f, 0.5f, 0.0f, 1, logits, "logits.bias");
    return f;
}

/* ---- the folder */

static FILE *create(const char *dir, const char *name)
{
    char path[4096];
    FILE *f;

    mkdir(dir, 0777);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "wb");
    must(f != NULL);
    return f;
}

static void put_layer(FILE *f, const char *type, unsigned kernel, unsigned step)
{
    unsigned around = kernel == 3, before = around && step == 1;

    fprintf(f,
            "{\"type\":\"%s\",\"kernel\":[%u,%u],\"stride\":[%u,%u],\"pad_top\":%u,"
            "\"pad_left\":%u,\"pad_bottom\":%u,\"pad_right\":%u}",
            type, kernel, kernel, step, step, before, before, around, around);
}

void yamnet_model_config(const char *dir, const char *type, unsigned stride2)
{
    FILE *f = create(dir, "config.json");

    fprintf(f,
            "{\"model_type\":\"%s\",\"format_version\":1,\"audio\":{\"sample_rate\":16000},"
            "\"features\":{\"window_samples\":400,\"hop_samples\":160,\"fft_length\":512,"
            "\"mel_bins\":64,\"mel_min_hz\":125.0,\"mel_max_hz\":7500.0,\"log_offset\":0.001},"
            "\"patches\":{\"frames\":96,\"samples_per_patch\":15600},"
            "\"network\":{\"embedding_size\":1024,\"layers\":[",
            type);
    put_layer(f, "conv", 3, 2);
    for (int i = 1; i < LAYERS; i++) {
        fputc(',', f);
        put_layer(f, "depthwise", 3, i == 1 ? stride2 : stride[i]);
        fputc(',', f);
        put_layer(f, "pointwise", 1, 1);
    }
    fprintf(f, "]}}\n");
    must(fclose(f) == 0);
}

void yamnet_model_classes(const char *dir, const char *text)
{
    FILE *f = create(dir, "classes.csv");

    fputs(text ? text
               : "index,mid,display_name\r\n0,/m/a,Speech\r\n1,/m/b,\"Child speech, kid "
                 "speaking\"\n2,/m/c,\"A \"\"quoted\"\" name\"\n3,/m/d,Chant\n4,/m/e,Ni\xc3\xb1o\n"
                 "5,\"/m/f\",Dog\n6,/m/g,Music",
          f);
    must(fclose(f) == 0);
}

void yamnet_model_write(const struct formula *f, const char *dir)
{
    char path[4096];

    yamnet_model_config(dir, "yamnet", 1);
    yamnet_model_classes(dir, NULL);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    must(formula_write(f, path) == 0);
}

/* ---- plain loops */

struct image {
    int h, w, c;
    double *v; /* [h][w][c] */
};

static double *values(size_t n)
{
    double *v = calloc(n, sizeof(*v));

    must(v != NULL);
    return v;
}

static float *tensor(struct formula *f, const char *prefix, const char *tail)
{
    struct formula_tensor *t;
    char name[60];

    snprintf(name, sizeof(name), "%s.%s", prefix, tail);
    t = formula_find(f, name);
    must(t != NULL);
    return formula_values(f, t);
}

/* One value of a 3 x 3 convolution over channel c of x, TensorFlow's SAME. */
static double around(const struct image *x, int y0, int x0, int c, int step, const float *w)
{
    int back = step == 1;
    double sum = 0.0;

    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            int y = y0 * step + i - back, z = x0 * step + j - back;

            if (y >= 0 && y < x->h && z >= 0 && z < x->w)
                sum += (double)w[3 * i + j] *
                       x->v[((size_t)y * (size_t)x->w + (size_t)z) * (size_t)x->c + (size_t)c];
        }
    }
    return sum;
}

static double relu(double v) { return v > 0.0 ? v : 0.0; }

/* From one channel when x has one, else of each channel by itself. */
static struct image wide(struct formula *f, struct image x, int out, int step, const char *name)
{
    struct image y = {x.h / step, x.w / step, out, NULL};
    float *w = tensor(f, name, "weight"), *b = tensor(f, name, "bias");
    size_t at = 0;

    y.v = values((size_t)(y.h * y.w * out));
    for (int i = 0; i < y.h; i++)
        for (int j = 0; j < y.w; j++)
            for (int c = 0; c < out; c++)
                y.v[at++] =
                    relu((double)b[c] + around(&x, i, j, x.c == 1 ? 0 : c, step, w + 9 * c));
    free(w);
    free(b);
    free(x.v);
    return y;
}

static struct image point(struct formula *f, struct image x, int out, const char *name)
{
    struct image y = {x.h, x.w, out, values((size_t)(x.h * x.w * out))};
    float *w = tensor(f, name, "weight"), *b = tensor(f, name, "bias");

    for (int p = 0; p < x.h * x.w; p++) {
        for (int o = 0; o < out; o++) {
            const double *v = x.v + (size_t)p * (size_t)x.c;
            double sum = (double)b[o];

            for (int c = 0; c < x.c; c++)
                sum += (double)w[o * x.c + c] * v[c];
            y.v[(size_t)p * (size_t)out + (size_t)o] = relu(sum);
        }
    }
    free(w);
    free(b);
    free(x.v);
    return y;
}

void yamnet_model_run(struct formula *f, const float *image, double *vector, double *scores)
{
    struct image x = {96, 64, 1, values((size_t)96 * 64)};
    float *w = tensor(f, "logits", "weight"), *b = tensor(f, "logits", "bias");
    char name[40];

    for (int i = 0; i < 96 * 64; i++)
        x.v[i] = (double)image[i];
    x = wide(f, x, 32, 2, "layer1.conv");
    for (int i = 1; i < LAYERS; i++) {
        snprintf(name, sizeof(name), "layer%d.depthwise", i + 1);
        x = wide(f, x, x.c, (int)stride[i], name);
        snprintf(name, sizeof(name), "layer%d.pointwise", i + 1);
        x = point(f, x, (int)width[i], name);
    }
    for (int c = 0; c < 1024; c++) {
        vector[c] = 0.0;
        for (int p = 0; p < x.h * x.w; p++)
            vector[c] += x.v[p * 1024 + c] / (x.h * x.w);
    }
    for (int k = 0; k < YAMNET_MODEL_CLASSES; k++) {
        double sum = (double)b[k];

        for (int c = 0; c < 1024; c++)
            sum += (double)w[k * 1024 + c] * vector[c];
        scores[k] = 1.0 / (1.0 + exp(-sum));
    }
    free(w);
    free(b);
    free(x.v);
}
