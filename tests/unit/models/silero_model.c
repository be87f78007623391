#include "tests/unit/models/silero_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/random.h"

static const struct {
    const char *name, *shape;
    size_t count;
    float scale; /* such that the values stay near 1 on the way through */
} layout[SILERO_TENSORS] = {
    {"stft_conv.weight", "258,1,256", (size_t)258 * 256, 0.3f},
    {"conv1.weight", "128,129,3", (size_t)128 * 129 * 3, 0.08f},
    {"conv1.bias", "128", 128, 0.3f},
    {"conv2.weight", "64,128,3", (size_t)64 * 128 * 3, 0.12f},
    {"conv2.bias", "64", 64, 0.3f},
    {"conv3.weight", "64,64,3", (size_t)64 * 64 * 3, 0.2f},
    {"conv3.bias", "64", 64, 0.3f},
    {"conv4.weight", "128,64,3", (size_t)128 * 64 * 3, 0.3f},
    {"conv4.bias", "128", 128, 0.3f},
    {"lstm_cell.weight_ih", "512,128", (size_t)512 * 128, 0.15f},
    {"lstm_cell.weight_hh", "512,128", (size_t)512 * 128, 0.15f},
    {"lstm_cell.bias_ih", "512", 512, 0.3f},
    {"lstm_cell.bias_hh", "512", 512, 0.3f},
    {"final_conv.weight", "1,128,1", 128, 0.6f},
    {"final_conv.bias", "1", 1, 0.3f},
};

static float uniform(uint64_t *state) /* in [-1, 1) */
{
    return (float)(random_next(state) >> 40) * 0x1p-23f - 1.0f;
}

struct silero_model *silero_model_new(uint64_t seed)
{
    struct silero_model *m = calloc(1, sizeof(*m));

    if (!m)
        abort();
    for (size_t i = 0; i < SILERO_TENSORS; i++) {
        struct silero_tensor *t = &m->tensor[i];

        *t = (struct silero_tensor){layout[i].name, "F32", layout[i].shape, layout[i].count,
                                    malloc(layout[i].count * sizeof(float))};
        if (!t->value)
            abort();
        for (size_t k = 0; k < t->count; k++)
            t->value[k] = layout[i].scale * uniform(&seed);
    }
    return m;
}

void silero_model_free(struct silero_model *m)
{
    for (size_t i = 0; i < SILERO_TENSORS; i++)
        free(m->tensor[i].value);
    free(m);
}

void silero_model_write(const struct silero_model *m, const char *path, size_t cut)
{
    char header[4096] = "{";
    size_t n = 1, at = 0;
    FILE *f = fopen(path, "wb");

    if (!f)
        abort();
    for (size_t i = 0; i < SILERO_TENSORS; i++) {
        const struct silero_tensor *t = &m->tensor[i];

        if (!t->name)
            continue;
        n += (size_t)snprintf(
            header + n, sizeof(header) - n,
            "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
            n > 1 ? "," : "", t->name, t->type, t->shape, at, at + 4 * t->count);
        at += 4 * t->count;
    }
    header[n++] = '}';
    for (int i = 0; i < 8; i++)
        fputc((int)((uint64_t)n >> (8 * i) & 255), f);
    fwrite(header, 1, n, f);
    for (size_t i = 0; i < SILERO_TENSORS; i++)
        if (m->tensor[i].name)
            fwrite(m->tensor[i].value, 4, m->tensor[i].count, f);
    if (fflush(f) != 0 || ftruncate(fileno(f), ftell(f) - (long)cut) != 0)
        abort();
    fclose(f);
}

/* x: [frames][in] to y: [..][out], ReLU; returns how many frames y has. */
static int convolve(const float *w, const float *bias, int in, int out, int stride, const double *x,
                    int frames, double *y)
{
    int n = 0;

    for (int at = 0; at < frames; at += stride, n++) {
        for (int o = 0; o < out; o++) {
            double sum = (double)bias[o];

            for (int k = 0; k < 3; k++) {
                int f = at + k - 1;

                for (int i = 0; f >= 0 && f < frames && i < in; i++)
                    sum += (double)w[(o * in + i) * 3 + k] * x[f * in + i];
            }
            y[n * out + o] = sum > 0.0 ? sum : 0.0;
        }
    }
    return n;
}

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

static void lstm(const struct silero_model *m, const double *x, double *h, double *c)
{
    const float *w_ih = m->tensor[9].value, *w_hh = m->tensor[10].value;
    double gate[512];

    for (int g = 0; g < 512; g++) {
        gate[g] = (double)m->tensor[11].value[g] + (double)m->tensor[12].value[g];
        for (int i = 0; i < 128; i++)
            gate[g] += (double)w_ih[g * 128 + i] * x[i] + (double)w_hh[g * 128 + i] * h[i];
    }
    for (int i = 0; i < 128; i++) { /* input, forget, cell, output */
        c[i] = sigmoid(gate[128 + i]) * c[i] + sigmoid(gate[i]) * tanh(gate[256 + i]);
        h[i] = sigmoid(gate[384 + i]) * tanh(c[i]);
    }
}

/* [4][129]: the padded samples are context, step, and the step's end mirrored about its last. */
static void spectrum(const struct silero_model *m, const float *context, const float *pcm,
                     double *out)
{
    const float *w = m->tensor[0].value;
    double x[640];

    for (int i = 0; i < 640; i++)
        x[i] = (double)(i < 64 ? context[i] : i < 576 ? pcm[i - 64] : pcm[1022 - (i - 64)]);
    for (int f = 0; f < 4; f++) {
        for (int b = 0; b < 129; b++) {
            double re = 0.0, im = 0.0;

            for (int i = 0; i < 256; i++) {
                re += (double)w[b * 256 + i] * x[128 * f + i];
                im += (double)w[(129 + b) * 256 + i] * x[128 * f + i];
            }
            out[f * 129 + b] = sqrt(re * re + im * im);
        }
    }
}

double silero_model_step(const struct silero_model *m, struct silero_model_stream *s,
                         const float *pcm)
{
    static const int shape[4][3] = {{129, 128, 1}, {128, 64, 2}, {64, 64, 2}, {64, 128, 1}};
    double x[4 * 129], y[4 * 129], sum = (double)m->tensor[14].value[0];
    int frames = 4;

    spectrum(m, s->context, pcm, x);
    for (int i = 0; i < 4; i++) {
        frames = convolve(m->tensor[1 + 2 * i].value, m->tensor[2 + 2 * i].value, shape[i][0],
                          shape[i][1], shape[i][2], x, frames, y);
        memcpy(x, y, sizeof(x));
    }
    lstm(m, x, s->h, s->c);
    for (int i = 0; i < 128; i++)
        sum += (double)m->tensor[13].value[i] * (s->h[i] > 0.0 ? s->h[i] : 0.0);
    memcpy(s->context, pcm + 448, sizeof(s->context));
    return sigmoid(sum);
}
