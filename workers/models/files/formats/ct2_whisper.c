#include "workers/models/files/formats/ct2_whisper.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/models/files/formats/ct2_file.h"

/* Settings that may be missing, and Whisper's values of them. */
static const struct {
    const char *name;
    int64_t value;
} settings[] = {
    {"decoder/activation", 3}, /* GELU */
    {"encoder/activation", 3},
    {"decoder/pre_norm", 1},
    {"encoder/pre_norm", 1},
    {"decoder/scale_embeddings", 0},
    {"decoder/start_from_zero_embedding", 0},
    {"decoder/alibi", 0},
};

static int check_settings(const struct ct2_file *c, struct err *err)
{
    int64_t value;

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (ct2_file_number(c, settings[i].name, &value) && value != settings[i].value)
            return err_set(err, ERR_MODEL,
                           "its %s is %" PRId64 ", but %" PRId64 " is what Whisper has",
                           settings[i].name, value, settings[i].value);
    return 0;
}

/* Variables whose values are not read: a factor for queries in place of the usual one. */
static int check_names(const struct ct2_file *c, struct err *err)
{
    static const char tail[] = "/queries_scale";

    for (size_t i = 0; i < ct2_file_count(c); i++) {
        const char *name = ct2_file_name_at(c, i);
        size_t len = strlen(name), n = sizeof(tail) - 1;

        if (len >= n && strcmp(name + len - n, tail) == 0)
            return err_set(err, ERR_MODEL, "it has '%.150s', which is not supported", name);
    }
    return 0;
}

/* Logits are the products with the token embedding. */
static int check_projection(const struct ct2_file *c, struct err *err)
{
    struct weight out, in;

    if (!ct2_file_find(c, "decoder/projection/weight", &out) ||
        !ct2_file_find(c, "decoder/embeddings/weight", &in) || out.data == in.data)
        return 0;
    return err_set(err, ERR_MODEL,
                   "its output matrix is not its token embedding, as it is in every Whisper model");
}

/* Whether `n` values from `first` on are all nought. */
static int check_zeros(const struct weight *w, uint64_t first, uint64_t n, struct err *err)
{
    struct weight one;
    float value;

    for (uint64_t i = first; i < first + n; i++) {
        int rc;

        weight_rows(w, i, 1, &one);
        rc = weight_read(&one, &value, err);
        if (rc != 0)
            return rc;
        if (value != 0.0f)
            return err_set(err, ERR_MODEL,
                           "'%.150s': keys have no bias in a Whisper model, but here", w->name);
    }
    return 0;
}

/* Keys are the second of three parts beside queries and values, the first of two beside values. */
static int check_biases(const struct ct2_file *c, struct err *err)
{
    static const struct {
        const char *network, *of;
        uint32_t part, parts;
    } fused[] = {{"encoder", "self_attention/linear_0", 1, 3},
                 {"decoder", "self_attention/linear_0", 1, 3},
                 {"decoder", "attention/linear_1", 0, 2}};
    struct weight w;
    char name[80];

    for (size_t i = 0; i < sizeof(fused) / sizeof(fused[0]); i++) {
        for (unsigned l = 0;; l++) {
            int rc;

            snprintf(name, sizeof(name), "%s/layer_%u/%s/bias", fused[i].network, l, fused[i].of);
            if (!ct2_file_find(c, name, &w))
                break;
            if (w.rank != 1)
                return err_set(err, ERR_MODEL, "'%.150s' is no row of values", name);
            rc = check_zeros(&w, w.count / fused[i].parts * fused[i].part, w.count / fused[i].parts,
                             err);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

static int check_ct2_whisper(const struct ct2_file *c, struct err *err)
{
    int rc;

    if (strcmp(ct2_file_spec(c), "WhisperSpec") != 0)
        return err_set(err, ERR_MODEL, "it is of the kind '%.60s', not WhisperSpec",
                       ct2_file_spec(c));
    if ((rc = check_settings(c, err)) || (rc = check_names(c, err)) ||
        (rc = check_projection(c, err)))
        return rc;
    return check_biases(c, err);
}

int ct2_whisper_check(const struct ct2_file *c, struct err *err)
{
    int rc = check_ct2_whisper(c, err);

    if (rc != 0) {
        err_prefix(err, "model.bin");
        utf8_display_err(err);
    }
    return rc;
}
