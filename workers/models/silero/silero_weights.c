#include "workers/models/silero/silero_weights.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/safetensors.h"

static const struct part {
    const char *name;
    uint32_t rank;
    uint32_t dim[3];
    size_t offset; /* of the pointer in struct silero_weights */
} parts[] = {
#define PART(name, field, rank, ...)                                      \
    {                                                                     \
        name, rank, {__VA_ARGS__}, offsetof(struct silero_weights, field) \
    }
    PART("stft_conv.weight", stft, 3, 258, 1, 256), PART("conv1.weight", conv[0], 3, 128, 129, 3),
    PART("conv1.bias", conv_bias[0], 1, 128),       PART("conv2.weight", conv[1], 3, 64, 128, 3),
    PART("conv2.bias", conv_bias[1], 1, 64),        PART("conv3.weight", conv[2], 3, 64, 64, 3),
    PART("conv3.bias", conv_bias[2], 1, 64),        PART("conv4.weight", conv[3], 3, 128, 64, 3),
    PART("conv4.bias", conv_bias[3], 1, 128),       PART("lstm_cell.weight_ih", w_ih, 2, 512, 128),
    PART("lstm_cell.weight_hh", w_hh, 2, 512, 128), PART("lstm_cell.bias_ih", b_ih, 1, 512),
    PART("lstm_cell.bias_hh", b_hh, 1, 512),        PART("final_conv.weight", out, 3, 1, 128, 1),
    PART("final_conv.bias", out_bias, 1, 1),
#undef PART
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

static size_t part_count(const struct part *p)
{
    size_t count = 1;

    for (uint32_t i = 0; i < p->rank; i++)
        count *= p->dim[i];
    return count;
}

static bool same_shape(const struct part *p, const struct safetensor *t)
{
    if (t->rank != p->rank)
        return false;
    for (uint32_t i = 0; i < p->rank; i++)
        if (t->dim[i] != p->dim[i])
            return false;
    return true;
}

static int wrong_shape(const struct part *p, const struct safetensor *t, struct err *err)
{
    char have[128] = "", want[64] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < t->rank && n < sizeof(have); i++)
        n += (size_t)snprintf(have + n, sizeof(have) - n, "%s%llu", i ? " x " : "",
                              (unsigned long long)t->dim[i]);
    n = 0;
    for (uint32_t i = 0; i < p->rank && n < sizeof(want); i++)
        n += (size_t)snprintf(want + n, sizeof(want) - n, "%s%u", i ? " x " : "", p->dim[i]);
    return err_set(err, ERR_MODEL,
                   "tensor '%s' is %s, but Silero's voice activity model at 16 kHz has %s", p->name,
                   have[0] ? have : "a single value", want);
}

static int read_part(const struct safetensors *st, const struct part *p, float *out,
                     struct err *err)
{
    const struct safetensor *t = safetensors_find(st, p->name);
    size_t count = part_count(p);
    int rc;

    if (!t)
        return err_set(err, ERR_MODEL,
                       "tensor '%s' is missing: this is not Silero's voice activity model at "
                       "16 kHz",
                       p->name);
    if (!same_shape(p, t))
        return wrong_shape(p, t, err);
    rc = safetensor_read(t, out, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return err_set(err, ERR_MODEL, "tensor '%s' holds a value that is no finite number",
                           p->name);
    return 0;
}

int silero_weights_read(const char *file, struct silero_weights **ret, struct err *err)
{
    struct silero_weights *w = calloc(1, sizeof(*w));
    struct safetensors *st = NULL;
    size_t total = 0, at = 0;
    int rc = 0;

    for (size_t i = 0; i < PARTS; i++)
        total += part_count(&parts[i]);
    if (w)
        w->values = malloc(total * sizeof(float));
    if (!w || !w->values)
        rc = err_set(err, ERR_NOMEM, "no memory for the voice activity model");
    if (rc == 0)
        rc = safetensors_open(file, &st, err);
    if (rc == ERR_MISSING || rc == ERR_DENIED) /* of a model, that is no file to be skipped */
        rc = err->code = ERR_MODEL;
    for (size_t i = 0; rc == 0 && i < PARTS; i++) {
        rc = read_part(st, &parts[i], w->values + at, err);
        if (rc != 0)
            err_prefix(err, "%.200s", file);
        *(float **)(void *)((char *)w + parts[i].offset) = w->values + at;
        at += part_count(&parts[i]);
    }
    safetensors_close(st);
    if (rc != 0) {
        silero_weights_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void silero_weights_free(struct silero_weights *w)
{
    if (!w)
        return;
    free(w->values);
    free(w);
}
