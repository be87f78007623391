#include "workers/models/files/weights.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "gpu/safetensors.h"
#include "workers/models/files/checkpoint.h"
#include "workers/models/files/weight_layout.h"

_Static_assert(SAFETENSORS_MAX_RANK == WEIGHT_MAX_RANK, "a safetensor's shape fits a weight");

/* One file: one of the two. */
struct weight_file {
    struct safetensors *st;
    struct checkpoint *ck;
};

struct weights {
    struct weight_layout layout;
    uint32_t files;
    struct weight_file *file; /* [files]: the layout's, or the one that was opened by its path */
};

/* ---- one file */

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

static size_t file_count(const struct weight_file *f)
{
    return f->st ? safetensors_count(f->st) : checkpoint_count(f->ck);
}

static const char *file_name_at(const struct weight_file *f, size_t i)
{
    return f->st ? safetensors_at(f->st, i)->name : checkpoint_at(f->ck, i)->name;
}

static bool file_find(const struct weight_file *f, const char *name, struct weight *ret)
{
    const struct safetensor *t = f->st ? safetensors_find(f->st, name) : NULL;
    const struct weight *w = f->ck ? checkpoint_find(f->ck, name) : NULL;

    if (t)
        of_safetensor(t, ret);
    else if (w)
        *ret = *w;
    return t || w;
}

static int file_open(struct weights *w, const char *dir, uint32_t i, struct err *err)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", dir, w->layout.file[i]) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the model's path is too long");
    if (w->layout.format == WEIGHT_FORMAT_SAFETENSORS)
        return safetensors_open(path, &w->file[i].st, err);
    return checkpoint_open(path, &w->file[i].ck, err);
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
        for (size_t i = 0; i < file_count(&w->file[f]); i++) {
            const char *name = file_name_at(&w->file[f], i);
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

/* A .pt is nothing but OpenAI's; and OpenAI's names are understood wherever they are. */
static int check_format(const struct weights *w, struct err *err)
{
    if (w->layout.format != WEIGHT_FORMAT_OPENAI || checkpoint_is_openai(w->file[0].ck))
        return 0;
    return err_set(err, ERR_MODEL,
                   "%.150s is no Whisper model of OpenAI's (it has no dims and model_state_dict)",
                   w->layout.file[0]);
}

int weights_open(const char *dir, struct weights **ret, struct err *err)
{
    struct weights *w = calloc(1, sizeof(*w));
    int rc;

    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory for a model's weights");
    rc = weight_layout_find(dir, &w->layout, err);
    if (rc == 0) {
        w->files = w->layout.file_count;
        w->file = calloc(w->files, sizeof(*w->file));
        if (!w->file) {
            err_set(err, ERR_NOMEM, "out of memory for a model's weights");
            rc = ERR_NOMEM;
        }
    }
    for (uint32_t i = 0; rc == 0 && i < w->layout.file_count; i++)
        rc = file_open(w, dir, i, err);
    if (rc == 0)
        rc = check_format(w, err);
    if (rc == 0 && w->layout.index)
        rc = check_shards(w, err);
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
    else if (is_safetensors(path))
        rc = safetensors_open(path, &w->file[0].st, err);
    else
        rc = checkpoint_open_training(path, &w->file[0].ck, err);
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
    for (uint32_t i = 0; w->file && i < w->files; i++) {
        safetensors_close(w->file[i].st);
        checkpoint_close(w->file[i].ck);
    }
    free(w->file);
    weight_layout_free(&w->layout);
    free(w);
}

/* ---- names */

const struct checkpoint *weights_openai(const struct weights *w)
{
    const struct checkpoint *ck = w->file[0].ck;

    return ck && !w->layout.index && checkpoint_is_openai(ck) ? ck : NULL;
}

/* Of the two networks, outside of their layers. */
static const char *const whole[][2] = {
    {"model.encoder.conv1.", "encoder.conv1."},
    {"model.encoder.conv2.", "encoder.conv2."},
    {"model.encoder.embed_positions.weight", "encoder.positional_embedding"},
    {"model.encoder.layer_norm.", "encoder.ln_post."},
    {"model.decoder.embed_tokens.weight", "decoder.token_embedding.weight"},
    {"model.decoder.embed_positions.weight", "decoder.positional_embedding"},
    {"model.decoder.layer_norm.", "decoder.ln."},
};

/* Of a layer, behind "model.encoder.layers.3.": up to "weight" or "bias". */
static const char *const layer[][2] = {
    {"self_attn_layer_norm.", "attn_ln."},
    {"self_attn.q_proj.", "attn.query."},
    {"self_attn.k_proj.", "attn.key."},
    {"self_attn.v_proj.", "attn.value."},
    {"self_attn.out_proj.", "attn.out."},
    {"encoder_attn_layer_norm.", "cross_attn_ln."},
    {"encoder_attn.q_proj.", "cross_attn.query."},
    {"encoder_attn.k_proj.", "cross_attn.key."},
    {"encoder_attn.v_proj.", "cross_attn.value."},
    {"encoder_attn.out_proj.", "cross_attn.out."},
    {"fc1.", "mlp.0."},
    {"fc2.", "mlp.2."},
    {"final_layer_norm.", "mlp_ln."},
};

/* `before`, and what stands behind the pair's first text in `name`, with its second. */
static bool exchange(const char *const (*pairs)[2], size_t n, const char *before, const char *name,
                     char *out, size_t cap)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(pairs[i][0]);

        if (strncmp(name, pairs[i][0], len) == 0)
            return snprintf(out, cap, "%s%s%s", before, pairs[i][1], name + len) < (int)cap;
    }
    return false;
}

bool weights_openai_name(const char *name, char *out, size_t cap)
{
    char network[8], before[64];
    unsigned number;
    int len = 0;

    if (sscanf(name, "model.%7[a-z].layers.%4u.%n", network, &number, &len) == 2 && len > 0) {
        snprintf(before, sizeof(before), "%s.blocks.%u.", network, number);
        return exchange(layer, sizeof(layer) / sizeof(layer[0]), before, name + len, out, cap);
    }
    return exchange(whole, sizeof(whole) / sizeof(whole[0]), "", name, out, cap);
}

bool weights_find(const struct weights *w, const char *name, struct weight *ret)
{
    const struct weight_place *place;
    char other[200];

    if (w->layout.index) {
        place = weight_layout_place(&w->layout, name);
        return place && file_find(&w->file[place->file], name, ret);
    }
    if (weights_openai(w))
        return weights_openai_name(name, other, sizeof(other)) &&
               file_find(&w->file[0], other, ret);
    return file_find(&w->file[0], name, ret);
}

static void shape_text(char *out, size_t cap, uint32_t rank, const uint64_t *dim)
{
    size_t n = 0;

    snprintf(out, cap, "a single value");
    for (uint32_t i = 0; i < rank && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%llu", i ? " x " : "",
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
