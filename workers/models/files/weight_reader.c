#include "workers/models/files/weight_reader.h"

#include <string.h>

#include "gpu/safetensors.h"
#include "workers/models/files/formats/checkpoint.h"
#include "workers/models/files/formats/ct2_file.h"
#include "workers/models/files/formats/ggml_file.h"

_Static_assert(SAFETENSORS_MAX_RANK == WEIGHT_MAX_RANK, "a safetensor's shape fits a weight");

/* ---- safetensors */

static int st_open(const char *path, void **ret, struct err *err)
{
    struct safetensors *st;
    int rc = safetensors_open(path, &st, err);

    if (rc == 0)
        *ret = st;
    return rc;
}

static void st_close(void *file) { safetensors_close(file); }

static size_t st_count(const void *file) { return safetensors_count(file); }

static const char *st_name_at(const void *file, size_t i) { return safetensors_at(file, i)->name; }

static void of_safetensor(const struct safetensor *t, struct weight *ret)
{
    static const enum weight_type types[] = {
        [SAFETENSOR_F32] = WEIGHT_F32,
        [SAFETENSOR_F16] = WEIGHT_F16,
        [SAFETENSOR_BF16] = WEIGHT_BF16,
        [SAFETENSOR_OTHER] = WEIGHT_OTHER,
    };

    *ret = (struct weight){.name = t->name,
                           .type = types[t->type],
                           .type_name = t->type_name,
                           .rank = t->rank,
                           .count = t->count,
                           .data = t->data};
    if (t->type == SAFETENSOR_OTHER && strcmp(t->type_name, "F64") == 0)
        ret->type = WEIGHT_F64;
    memcpy(ret->dim, t->dim, sizeof(ret->dim));
    weight_set_contiguous(ret);
}

static bool st_find(const void *file, const char *name, struct weight *ret)
{
    const struct safetensor *t = safetensors_find(file, name);

    if (t)
        of_safetensor(t, ret);
    return t;
}

/* ---- PyTorch's */

static int ck_open(const char *path, void **ret, struct err *err)
{
    struct checkpoint *ck;
    int rc = checkpoint_open(path, &ck, err);

    if (rc == 0)
        *ret = ck;
    return rc;
}

static int training_open(const char *path, void **ret, struct err *err)
{
    struct checkpoint *ck;
    int rc = checkpoint_open_training(path, &ck, err);

    if (rc == 0)
        *ret = ck;
    return rc;
}

static void ck_close(void *file) { checkpoint_close(file); }

static size_t ck_count(const void *file) { return checkpoint_count(file); }

static const char *ck_name_at(const void *file, size_t i) { return checkpoint_at(file, i)->name; }

static bool ck_find(const void *file, const char *name, struct weight *ret)
{
    const struct weight *w = checkpoint_find(file, name);

    if (w)
        *ret = *w;
    return w;
}

/* ---- CTranslate2's */

static int ct2_open(const char *path, void **ret, struct err *err)
{
    struct ct2_file *c;
    int rc = ct2_file_open(path, &c, err);

    if (rc == 0)
        *ret = c;
    return rc;
}

static void ct2_close(void *file) { ct2_file_close(file); }

static size_t ct2_count(const void *file) { return ct2_file_count(file); }

static const char *ct2_name_at(const void *file, size_t i) { return ct2_file_name_at(file, i); }

static bool ct2_find(const void *file, const char *name, struct weight *ret)
{
    return ct2_file_find(file, name, ret);
}

/* ---- whisper.cpp's */

static int ggml_open(const char *path, void **ret, struct err *err)
{
    struct ggml_file *g;
    int rc = ggml_file_open(path, &g, err);

    if (rc == 0)
        *ret = g;
    return rc;
}

static void ggml_close(void *file) { ggml_file_close(file); }

static size_t ggml_count(const void *file) { return ggml_file_count(file); }

static const char *ggml_name_at(const void *file, size_t i) { return ggml_file_name_at(file, i); }

static bool ggml_find(const void *file, const char *name, struct weight *ret)
{
    const struct weight *w = ggml_file_find(file, name);

    if (w)
        *ret = *w;
    return w;
}

/* ---- all of them */

const struct weight_reader weight_reader_training = {training_open, ck_close, ck_count, ck_name_at,
                                                     ck_find};

const struct weight_reader *weight_reader(enum weight_format format)
{
    static const struct weight_reader safetensors = {st_open, st_close, st_count, st_name_at,
                                                     st_find};
    static const struct weight_reader torch = {ck_open, ck_close, ck_count, ck_name_at, ck_find};
    static const struct weight_reader ct2 = {ct2_open, ct2_close, ct2_count, ct2_name_at, ct2_find};

    static const struct weight_reader ggml = {ggml_open, ggml_close, ggml_count, ggml_name_at,
                                              ggml_find};

    switch (format) {
    case WEIGHT_FORMAT_SAFETENSORS:
        return &safetensors;
    case WEIGHT_FORMAT_CT2:
        return &ct2;
    case WEIGHT_FORMAT_GGML:
        return &ggml;
    default:
        return &torch;
    }
}
