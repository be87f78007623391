#include "workers/models/files/weights.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "workers/models/files/adapter.h"
#include "workers/models/files/formats/checkpoint.h"
#include "workers/models/files/formats/ct2_whisper.h"
#include "workers/models/files/lora.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weight_names.h"
#include "workers/models/files/weight_reader.h"

struct weight_file {
    const struct weight_reader *reader;
    void *of; /* the reader's; NULL: not open */
};

struct weights {
    struct weight_layout layout;
    uint32_t files;
    struct weight_file *file; /* [files]: the layout's, or the one that was opened by its path */
    struct weights *base;     /* of an adapter, which has none of these: what it adapts, and how */
    struct lora *lora;
};

/* ---- one file */

static bool file_find(const struct weight_file *f, const char *name, struct weight *ret)
{
    return f->reader->find(f->of, name, ret);
}

static int file_open(struct weights *w, const char *dir, uint32_t i, struct err *err)
{
    char path[PATH_MAX];

    if (w->layout.format == WEIGHT_FORMAT_GGML)
        snprintf(path, sizeof(path), "%s", w->layout.file[i]);
    else if (snprintf(path, sizeof(path), "%s/%s", dir, w->layout.file[i]) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the model's path is too long");
    w->file[i].reader = weight_reader(w->layout.format);
    return w->file[i].reader->open(path, &w->file[i].of, err);
}

/* ---- shards */

/* Every tensor is where the index says. */
static int check_places(const struct weights *w, struct err *err)
{
    const struct weight_layout *l = &w->layout;
    struct weight found;

    for (uint32_t i = 0; i < l->place_count; i++)
        if (!file_find(&w->file[l->place[i].file], l->place[i].tensor, &found))
            return err_set(err, ERR_MODEL,
                           "%s says that tensor '%.150s' is in %.100s, but it is not", l->index,
                           l->place[i].tensor, l->file[l->place[i].file]);
    return 0;
}

/* And nowhere else: of two it would be chance which one is taken. */
static int check_twice(const struct weights *w, struct err *err)
{
    const struct weight_layout *l = &w->layout;

    for (uint32_t f = 0; f < l->file_count; f++) {
        const struct weight_file *file = &w->file[f];

        for (size_t i = 0; i < file->reader->count(file->of); i++) {
            const char *name = file->reader->name_at(file->of, i);
            const struct weight_place *place = weight_layout_place(l, name);

            if (place && place->file != f)
                return err_set(err, ERR_MODEL, "tensor '%.150s' is both in %.100s and in %.100s",
                               name, l->file[f], l->file[place->file]);
        }
    }
    return 0;
}

static int check_shards(const struct weights *w, struct err *err)
{
    int rc = check_places(w, err);

    if (rc == 0)
        rc = check_twice(w, err);
    if (rc != 0)
        utf8_display_err(err);
    return rc;
}

/* A CTranslate2 model must be a Whisper of the kind that is computed here. A .pt must be OpenAI's;
 * OpenAI's names are understood in any format. */
static int check_format(const struct weights *w, struct err *err)
{
    if (weights_ct2(w))
        return ct2_whisper_check(weights_ct2(w), err);
    if (w->layout.format != WEIGHT_FORMAT_OPENAI || weights_openai(w))
        return 0;
    return err_set(err, ERR_MODEL,
                   "%.150s is no Whisper model of OpenAI's (it has no dims and model_state_dict)",
                   w->layout.file[0]);
}

/* Everything that is adapted is there to be. */
static int check_adapter(const struct weights *w, struct err *err)
{
    struct weight t;

    for (size_t i = 0; i < lora_count(w->lora); i++) {
        const char *name = lora_name_at(w->lora, i);

        if (!weights_find(w->base, name, &t))
            return err_set(err, ERR_MODEL, "it adapts '%.150s', which its base lacks", name);
        if (!lora_fits(lora_find(w->lora, name), &t))
            return err_set(err, ERR_MODEL,
                           "what it adds to '%.150s' has another shape: it is of "
                           "another base",
                           name);
    }
    return 0;
}

static int adapter_open(const char *dir, struct weights *w, struct err *err)
{
    struct adapter a = {0};
    int rc = adapter_read(dir, &a, err);

    if (rc == 0)
        rc = weights_open(a.base, &w->base, err);
    if (rc == 0)
        rc = lora_open(dir, &a, &w->lora, err);
    if (rc == 0 && (rc = check_adapter(w, err)) != 0) {
        err_prefix(err, "the adapter '%.200s'", dir);
        utf8_display_err(err);
    }
    adapter_free(&a);
    return rc;
}

static int files_open(const char *dir, struct weights *w, struct err *err)
{
    int rc;

    w->files = w->layout.file_count;
    w->file = calloc(w->files, sizeof(*w->file));
    if (!w->file)
        return err_set(err, ERR_NOMEM, "out of memory for a model's weights");
    for (uint32_t i = 0; i < w->files; i++)
        if ((rc = file_open(w, dir, i, err)))
            return rc;
    rc = check_format(w, err);
    return rc == 0 && w->layout.index ? check_shards(w, err) : rc;
}

int weights_open(const char *dir, struct weights **ret, struct err *err)
{
    struct weights *w = calloc(1, sizeof(*w));
    int rc;

    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory for a model's weights");
    rc = weight_layout_find(dir, &w->layout, err);
    if (rc == 0)
        rc = w->layout.format == WEIGHT_FORMAT_ADAPTER ? adapter_open(dir, w, err)
                                                       : files_open(dir, w, err);
    if (rc != 0)
        weights_close(w);
    else
        *ret = w;
    return rc;
}

/* By its name, or by its first bytes: a header's length, then the header. */
static bool is_safetensors(const char *path)
{
    static const char suffix[] = ".safetensors";
    size_t len = strlen(path), n = sizeof(suffix) - 1;
    char begin = 0;
    int fd;

    if (len >= n && strcmp(path + len - n, suffix) == 0)
        return true;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && pread(fd, &begin, 1, 8) != 1)
        begin = 0;
    if (fd >= 0)
        close(fd);
    return begin == '{';
}

int weights_open_file(const char *path, struct weights **ret, struct err *err)
{
    struct weights *w = calloc(1, sizeof(*w));
    int rc = 0;

    if (w) {
        w->files = 1;
        w->file = calloc(1, sizeof(*w->file));
    }
    if (!w || !w->file)
        rc = err_set(err, ERR_NOMEM, "out of memory for a model's weights");
    else {
        w->file[0].reader = is_safetensors(path) ? weight_reader(WEIGHT_FORMAT_SAFETENSORS)
                                                 : &weight_reader_training;
        rc = w->file[0].reader->open(path, &w->file[0].of, err);
    }
    if (rc == ERR_MISSING || rc == ERR_DENIED) /* of a model, that is no file to be skipped */
        rc = err->code = ERR_MODEL;
    if (rc != 0)
        weights_close(w);
    else
        *ret = w;
    return rc;
}

void weights_close(struct weights *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; w->file && i < w->files; i++)
        if (w->file[i].of)
            w->file[i].reader->close(w->file[i].of);
    free(w->file);
    weights_close(w->base);
    lora_close(w->lora);
    weight_layout_free(&w->layout);
    free(w);
}

/* ---- names */

const struct checkpoint *weights_openai(const struct weights *w)
{
    const struct checkpoint *ck =
        w->file && w->file[0].reader == weight_reader(WEIGHT_FORMAT_TORCH) ? w->file[0].of : NULL;

    return ck && !w->layout.index && checkpoint_is_openai(ck) ? ck : NULL;
}

const struct ct2_file *weights_ct2(const struct weights *w)
{
    return w->layout.format == WEIGHT_FORMAT_CT2 ? w->file[0].of : NULL;
}

const struct ggml_file *weights_ggml(const struct weights *w)
{
    return w->layout.format == WEIGHT_FORMAT_GGML ? w->file[0].of : NULL;
}

/* Our part of another layout's tensor, whose first dimension has room for all of them. */
static bool find_alias(const struct weight_file *f, const struct weight_alias *alias,
                       struct weight *ret)
{
    struct weight whole;
    uint64_t rows;

    if (!file_find(f, alias->name, &whole))
        return false;
    rows = whole.rank ? whole.dim[0] / alias->parts : 0;
    if (alias->parts == 1)
        *ret = whole;
    else if (rows * alias->parts == whole.dim[0] && whole.type != WEIGHT_OTHER && whole.rank)
        weight_rows(&whole, alias->part * rows, rows, ret);
    else
        return false;
    return true;
}

bool weights_find(const struct weights *w, const char *name, struct weight *ret)
{
    const struct weight_place *place;
    struct weight_alias alias;

    if (w->base) {
        if (!weights_find(w->base, name, ret))
            return false;
        ret->delta = lora_find(w->lora, name);
        return true;
    }
    if (w->layout.index) {
        place = weight_layout_place(&w->layout, name);
        return place && file_find(&w->file[place->file], name, ret);
    }
    if (weights_openai(w) || weights_ggml(w))
        return weight_name_openai(name, &alias) && find_alias(&w->file[0], &alias, ret);
    if (weights_ct2(w))
        return weight_name_ct2(name, &alias) && find_alias(&w->file[0], &alias, ret);
    return file_find(&w->file[0], name, ret);
}

static void shape_text(char *out, size_t capacity, uint32_t rank, const uint64_t *dim)
{
    size_t n = 0;

    snprintf(out, capacity, "a single value");
    for (uint32_t i = 0; i < rank && n < capacity; i++)
        n += (size_t)snprintf(out + n, capacity - n, "%s%llu", i ? " x " : "",
                              (unsigned long long)dim[i]);
}

int weights_values(const struct weights *w, const char *name, uint32_t rank, const uint64_t *dim,
                   float *out, struct err *err)
{
    char want[200], have[200];
    struct weight t;
    int rc;

    shape_text(want, sizeof(want), rank, dim);
    if (!weights_find(w, name, &t))
        return err_set(err, ERR_MODEL, "tensor '%.150s' (%s) is missing from the weights", name,
                       want);
    shape_text(have, sizeof(have), t.rank, t.dim);
    if (t.rank != rank || memcmp(t.dim, dim, rank * sizeof(*dim)) != 0)
        return err_set(err, ERR_MODEL, "tensor '%.150s' is %s, but this model's is %s", name, have,
                       want);
    rc = weight_read(&t, out, err);
    for (uint64_t i = 0; rc == 0 && i < t.count; i++)
        if (!isfinite(out[i]))
            return err_set(err, ERR_MODEL, "tensor '%.150s' holds a value that is no finite number",
                           name);
    return rc;
}
