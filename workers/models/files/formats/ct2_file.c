#include "workers/models/files/formats/ct2_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "gpu/weights_map.h"
#include "workers/models/files/weight_layout.h"

#define FORMAT_VERSION 6

struct alias {
    const char *name, *of;
};

struct ct2_file {
    struct weights_map map; /* none when the memory is the caller's */
    const char *spec;
    struct weight *variable; /* sorted by name; names and data are the file's bytes */
    size_t count;
    struct alias *alias; /* sorted by name */
    size_t alias_count;
};

/* By the number that the file has for it. int32 holds nothing that is read here. */
static const struct {
    enum weight_type type;
    const char *name;
    uint32_t size;
} types[] = {
    {WEIGHT_F32, "float32", 4}, {WEIGHT_I8, "int8", 1},     {WEIGHT_I16, "int16", 2},
    {WEIGHT_OTHER, "int32", 4}, {WEIGHT_F16, "float16", 2}, {WEIGHT_BF16, "bfloat16", 2},
};

#define TYPES (sizeof(types) / sizeof(types[0]))

static int cut_off(struct err *err)
{
    return err_set(err, ERR_MODEL,
                   "the file ends too early: it was not downloaded whole, fetch it again");
}

/* A length with the final NUL, then the bytes with it. */
static int read_name(struct reader *r, const char **ret, struct err *err)
{
    uint16_t len = reader_u16(r);
    const uint8_t *text = reader_raw(r, len);

    if (!text)
        return cut_off(err);
    if (!len || memchr(text, 0, len) != text + len - 1)
        return err_set(err, ERR_MODEL, "this is no model of CTranslate2: a name does not end");
    *ret = (const char *)text;
    return 0;
}

static int read_shape(struct reader *r, struct weight *w, struct err *err)
{
    w->rank = reader_u8(r);
    w->count = 1;
    if (w->rank > WEIGHT_MAX_RANK)
        return err_set(err, ERR_MODEL, "variable '%.200s' has %u dimensions, over %d", w->name,
                       w->rank, WEIGHT_MAX_RANK);
    for (uint32_t i = 0; i < w->rank; i++) {
        w->dim[i] = reader_u32(r);
        if (__builtin_mul_overflow(w->count, w->dim[i], &w->count))
            return err_set(err, ERR_MODEL, "variable '%.200s' has an impossible shape", w->name);
    }
    return r->failed ? cut_off(err) : 0;
}

static int read_variable(struct reader *r, struct weight *w, struct err *err)
{
    uint32_t type, bytes;
    uint64_t want;
    int rc = read_name(r, &w->name, err);

    if (rc == 0)
        rc = read_shape(r, w, err);
    if (rc != 0)
        return rc;
    type = reader_u8(r);
    bytes = reader_u32(r);
    if (r->failed)
        return cut_off(err);
    if (type >= TYPES)
        return err_set(err, ERR_MODEL, "variable '%.200s' has the unknown number type %u", w->name,
                       type);
    if (__builtin_mul_overflow(w->count, types[type].size, &want) || want != bytes)
        return err_set(err, ERR_MODEL, "variable '%.200s' has %u bytes, its shape wants others",
                       w->name, bytes);
    w->type = types[type].type;
    w->type_name = types[type].name;
    w->data = reader_raw(r, bytes);
    if (!w->data)
        return err_set(err, ERR_MODEL,
                       "variable '%.200s' ends past the end of the file: it was not downloaded "
                       "whole, fetch it again",
                       w->name);
    weight_set_contiguous(w);
    return 0;
}

/* A number of things of at least `least` bytes each, so no more than the file has room for. */
static int read_count(struct reader *r, size_t least, const char *what, uint32_t *ret,
                      struct err *err)
{
    uint32_t n = reader_u32(r);

    if (r->failed)
        return cut_off(err);
    if (n > WEIGHT_INDEX_MAX_TENSORS || n > (r->len - r->pos) / least)
        return err_set(err, ERR_MODEL,
                       "it claims %u %s, more than it has room for: is it a whole model.bin of "
                       "CTranslate2?",
                       n, what);
    *ret = n;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

static int by_alias(const void *a, const void *b)
{
    return strcmp(((const struct alias *)a)->name, ((const struct alias *)b)->name);
}

static const struct weight *find_variable(const struct ct2_file *c, const char *name)
{
    const struct weight key = {.name = name};

    return bsearch(&key, c->variable, c->count, sizeof(*c->variable), by_name);
}

static const struct alias *find_alias(const struct ct2_file *c, const char *name)
{
    const struct alias key = {name, NULL};

    return bsearch(&key, c->alias, c->alias_count, sizeof(*c->alias), by_alias);
}

static int read_variables(struct ct2_file *c, struct reader *r, struct err *err)
{
    uint32_t n = 0;
    int rc = read_count(r, 9, "variables", &n, err);

    if (rc != 0)
        return rc;
    c->variable = calloc((size_t)n + 1, sizeof(*c->variable));
    if (!c->variable)
        return err_set(err, ERR_NOMEM, "out of memory for the list of variables");
    for (; c->count < n; c->count++)
        if ((rc = read_variable(r, &c->variable[c->count], err)))
            return rc;
    qsort(c->variable, c->count, sizeof(*c->variable), by_name);
    for (size_t i = 1; i < c->count; i++)
        if (strcmp(c->variable[i - 1].name, c->variable[i].name) == 0)
            return err_set(err, ERR_MODEL, "variable '%.200s' is there twice", c->variable[i].name);
    return 0;
}

static int read_aliases(struct ct2_file *c, struct reader *r, struct err *err)
{
    uint32_t n = 0;
    int rc = read_count(r, 6, "aliases", &n, err);

    if (rc != 0)
        return rc;
    c->alias = calloc((size_t)n + 1, sizeof(*c->alias));
    if (!c->alias)
        return err_set(err, ERR_NOMEM, "out of memory for the list of variables");
    for (; c->alias_count < n; c->alias_count++) {
        struct alias *a = &c->alias[c->alias_count];

        if ((rc = read_name(r, &a->name, err)) || (rc = read_name(r, &a->of, err)))
            return rc;
        if (!find_variable(c, a->of))
            return err_set(err, ERR_MODEL,
                           "'%.150s' stands for variable '%.150s', which is missing", a->name,
                           a->of);
    }
    qsort(c->alias, c->alias_count, sizeof(*c->alias), by_alias);
    for (size_t i = 0; i < c->alias_count; i++)
        if (find_variable(c, c->alias[i].name) ||
            (i && strcmp(c->alias[i - 1].name, c->alias[i].name) == 0))
            return err_set(err, ERR_MODEL, "variable '%.200s' is there twice", c->alias[i].name);
    return 0;
}

static int read_all(struct ct2_file *c, struct reader *r, struct err *err)
{
    uint32_t version = reader_u32(r);
    int rc;

    if (r->failed)
        return cut_off(err);
    if (version != FORMAT_VERSION)
        return err_set(err, ERR_MODEL,
                       "this is no model.bin of CTranslate2 in format version %d (it says %u)",
                       FORMAT_VERSION, version);
    rc = read_name(r, &c->spec, err);
    (void)reader_u32(r); /* the revision: of Whisper's, 1 to 3 have the same variables */
    if (rc == 0)
        rc = read_variables(c, r, err);
    if (rc == 0)
        rc = read_aliases(c, r, err);
    if (rc == 0 && !reader_done(r))
        rc = err_set(err, ERR_MODEL, "there are %zu bytes behind its end", r->len - r->pos);
    return rc;
}

int ct2_file_parse(const void *data, size_t len, struct ct2_file **ret, struct err *err)
{
    struct ct2_file *c = calloc(1, sizeof(*c));
    struct reader r = reader_of(data, len);
    int rc;

    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory for a weight file");
    rc = read_all(c, &r, err);
    if (rc != 0) {
        utf8_display_err(err);
        ct2_file_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

int ct2_file_open(const char *path, struct ct2_file **ret, struct err *err)
{
    struct weights_map map = {0};
    int rc = weights_map_open(path, 4, "model.bin of CTranslate2", &map, err);

    if (rc != 0)
        return rc;
    rc = ct2_file_parse(map.data, map.len, ret, err);
    return weights_map_give(&map, path, rc == 0 ? &(*ret)->map : NULL, err);
}

void ct2_file_close(struct ct2_file *c)
{
    if (!c)
        return;
    free(c->variable);
    free(c->alias);
    weights_map_close(&c->map);
    free(c);
}

/* ---- what was read */

const char *ct2_file_spec(const struct ct2_file *c) { return c->spec; }

size_t ct2_file_count(const struct ct2_file *c) { return c->count; }

const char *ct2_file_name_at(const struct ct2_file *c, size_t i) { return c->variable[i].name; }

bool ct2_file_is_alias(const struct ct2_file *c, const char *name) { return find_alias(c, name); }

static const struct weight *resolve_weight_name(const struct ct2_file *c, const char *name)
{
    const struct alias *a = find_alias(c, name);

    return find_variable(c, a ? a->of : name);
}

/* Integers without a scale are no weights: a single number, or a kind that is not known here. */
static void attach_scales(const struct ct2_file *c, struct weight *w)
{
    const struct weight *scale = NULL;
    char name[512];

    if (snprintf(name, sizeof(name), "%s_scale", w->name) < (int)sizeof(name))
        scale = resolve_weight_name(c, name);
    if (scale && scale->type <= WEIGHT_BF16 &&
        (scale->count == 1 || (w->rank && scale->count == w->dim[0]))) {
        w->scale = scale->data;
        w->scale_type = scale->type;
        w->scale_rows = scale->count != 1;
    } else {
        w->type = WEIGHT_OTHER;
    }
}

bool ct2_file_find(const struct ct2_file *c, const char *name, struct weight *ret)
{
    const struct weight *w = resolve_weight_name(c, name);

    if (!w)
        return false;
    *ret = *w;
    if (w->type == WEIGHT_I8 || w->type == WEIGHT_I16)
        attach_scales(c, ret);
    return true;
}

bool ct2_file_number(const struct ct2_file *c, const char *name, int64_t *ret)
{
    const struct weight *w = resolve_weight_name(c, name);
    struct reader r;

    if (!w || w->count != 1)
        return false;
    r = reader_of(w->data, 4);
    if (w->type == WEIGHT_I8)
        *ret = (int8_t)reader_u8(&r);
    else if (w->type == WEIGHT_I16)
        *ret = (int16_t)reader_u16(&r);
    else
        return false;
    return true;
}

/* ---- whether it computes what Whisper does here */

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
