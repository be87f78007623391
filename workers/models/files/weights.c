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
#include "workers/models/files/formats/ct2_file.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weight_reader.h"

/* ---- the names of Whisper's tensors in each layout */

/* A part of a tensor name in Hugging Face's, OpenAI's and CTranslate2's spelling; "weight" or
 * "bias" follows a final point. CTranslate2 keeps queries, keys and values as parts of one matrix,
 * and calls its norms' values gamma and beta. */
struct name {
    const char *ours, *openai, *ct2;
    uint32_t part, parts;
};

/* Tensors outside of the layers. */
static const struct name whole_names[] = {
    {"model.encoder.conv1.", "encoder.conv1.", "encoder/conv1/", 0, 1},
    {"model.encoder.conv2.", "encoder.conv2.", "encoder/conv2/", 0, 1},
    {"model.encoder.embed_positions.weight", "encoder.positional_embedding",
     "encoder/position_encodings/encodings", 0, 1},
    {"model.encoder.layer_norm.", "encoder.ln_post.", "encoder/layer_norm/", 0, 1},
    {"model.decoder.embed_tokens.weight", "decoder.token_embedding.weight",
     "decoder/embeddings/weight", 0, 1},
    {"model.decoder.embed_positions.weight", "decoder.positional_embedding",
     "decoder/position_encodings/encodings", 0, 1},
    {"model.decoder.layer_norm.", "decoder.ln.", "decoder/layer_norm/", 0, 1},
};

/* Tensors of a layer_names, behind "model.encoder.layers.3.". */
static const struct name layer_names[] = {
    {"self_attn_layer_norm.", "attn_ln.", "self_attention/layer_norm/", 0, 1},
    {"self_attn.q_proj.", "attn.query.", "self_attention/linear_0/", 0, 3},
    {"self_attn.k_proj.", "attn.key.", "self_attention/linear_0/", 1, 3},
    {"self_attn.v_proj.", "attn.value.", "self_attention/linear_0/", 2, 3},
    {"self_attn.out_proj.", "attn.out.", "self_attention/linear_1/", 0, 1},
    {"encoder_attn_layer_norm.", "cross_attn_ln.", "attention/layer_norm/", 0, 1},
    {"encoder_attn.q_proj.", "cross_attn.query.", "attention/linear_0/", 0, 1},
    {"encoder_attn.k_proj.", "cross_attn.key.", "attention/linear_1/", 0, 2},
    {"encoder_attn.v_proj.", "cross_attn.value.", "attention/linear_1/", 1, 2},
    {"encoder_attn.out_proj.", "cross_attn.out.", "attention/linear_2/", 0, 1},
    {"fc1.", "mlp.0.", "ffn/linear_0/", 0, 1},
    {"fc2.", "mlp.2.", "ffn/linear_1/", 0, 1},
    {"final_layer_norm.", "mlp_ln.", "ffn/layer_norm/", 0, 1},
};

/* The row whose spelling `name` begins with, and the rest of the name. */
static const struct name *find_name_prefix(const struct name *rows, size_t n, const char *name,
                                           const char **rest)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(rows[i].ours);

        if (strncmp(name, rows[i].ours, len) == 0) {
            *rest = name + len;
            return &rows[i];
        }
    }
    return NULL;
}

struct found {
    const struct name *row;
    char network[8]; /* of a layer; else empty */
    unsigned number;
    const char *rest;
};

static bool look_up(const char *name, struct found *ret)
{
    int len = 0;

    *ret = (struct found){.rest = name};
    if (sscanf(name, "model.%7[a-z].layers.%4u.%n", ret->network, &ret->number, &len) == 2 && len) {
        ret->row = find_name_prefix(layer_names, sizeof(layer_names) / sizeof(layer_names[0]),
                                    name + len, &ret->rest);
    } else {
        ret->network[0] = 0;
        ret->row = find_name_prefix(whole_names, sizeof(whole_names) / sizeof(whole_names[0]), name,
                                    &ret->rest);
    }
    return ret->row;
}

bool weight_name_openai(const char *name, struct weight_alias *ret)
{
    char before[40] = "";
    struct found f;

    if (!look_up(name, &f))
        return false;
    if (f.network[0])
        snprintf(before, sizeof(before), "%s.blocks.%u.", f.network, f.number);
    ret->part = 0;
    ret->parts = 1;
    return snprintf(ret->name, sizeof(ret->name), "%s%s%s", before, f.row->openai, f.rest) <
           (int)sizeof(ret->name);
}

bool weight_name_ct2(const char *name, struct weight_alias *ret)
{
    char before[40] = "";
    struct found f;

    if (!look_up(name, &f))
        return false;
    if (f.network[0])
        snprintf(before, sizeof(before), "%s/layer_%u/", f.network, f.number);
    if (strstr(f.row->ct2, "layer_norm"))
        f.rest = strcmp(f.rest, "weight") == 0 ? "gamma" : "beta";
    ret->part = f.row->part;
    ret->parts = f.row->parts;
    return snprintf(ret->name, sizeof(ret->name), "%s%s%s", before, f.row->ct2, f.rest) <
           (int)sizeof(ret->name);
}

/* ---- the matrices of a LoRA adapter, by the tensors they are added to
 *
 * Hugging Face's names. The adapter's file stays mapped. */

#define MAX_NAME 300

struct entry {
    char *name; /* owned: "model.encoder.layers.0.fc1.weight" */
    struct weight_delta delta;
};

struct lora {
    const struct weight_reader *reader;
    void *file; /* the reader's */
    struct entry *entry;
    size_t count;
};

static const char before[] = "base_model.model.";
static const char first[] = ".lora_A.weight", second[] = ".lora_B.weight";

static bool ends_with(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);

    return n > t && strcmp(name + n - t, tail) == 0;
}

/* A: r x in (x kernel), B: out x r (x 1): the rank lies between them. */
static int check_pair(const char *module, const struct weight *a, const struct weight *b,
                      struct err *err)
{
    bool fits = a->rank >= 2 && b->rank >= 2 && a->dim[0] == b->dim[1] && a->count && b->count;

    for (uint32_t i = 2; fits && i < b->rank; i++)
        fits = b->dim[i] == 1;
    return fits
               ? 0
               : err_set(err, ERR_MODEL,
                         "lora_A and lora_B of '%.150s' have shapes without a common rank", module);
}

/* The module of a lora_A, its other half, and their target. */
static int add_pair(struct lora *l, const struct adapter *ad, const char *name, struct err *err)
{
    struct entry *e = &l->entry[l->count];
    size_t len = strlen(name) - (sizeof(first) - 1) - (sizeof(before) - 1);
    char module[MAX_NAME], other[MAX_NAME + 64];
    int rc;

    if (len >= sizeof(module))
        return err_set(err, ERR_MODEL, "a tensor's name has over %d bytes", MAX_NAME);
    memcpy(module, name + sizeof(before) - 1, len);
    module[len] = 0;
    snprintf(other, sizeof(other), "%s%s%s", before, module, second);
    if (!l->reader->find(l->file, name, &e->delta.a) ||
        !l->reader->find(l->file, other, &e->delta.b))
        return err_set(err, ERR_MODEL, "'%.150s' has no lora_B", module);
    rc = check_pair(module, &e->delta.a, &e->delta.b, err);
    if (rc != 0)
        return rc;
    e->delta.factor = (float)adapter_factor(ad, module, (double)e->delta.a.dim[0]);
    snprintf(other, sizeof(other), "%s.weight", module);
    e->name = strdup(other);
    if (!e->name)
        return err_set(err, ERR_NOMEM, "out of memory for an adapter");
    l->count++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int read_pairs(struct lora *l, const struct adapter *ad, struct err *err)
{
    size_t n = l->reader->count(l->file), halves = 0;
    int rc = 0;

    l->entry = calloc(n + 1, sizeof(*l->entry));
    if (!l->entry)
        return err_set(err, ERR_NOMEM, "out of memory for an adapter");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *name = l->reader->name_at(l->file, i);
        bool ours = strncmp(name, before, sizeof(before) - 1) == 0 &&
                    strlen(name) > sizeof(before) - 1 + sizeof(first) - 1;

        if (ours && ends_with(name, second))
            halves++;
        else if (ours && ends_with(name, first))
            rc = add_pair(l, ad, name, err);
        else
            rc = err_set(err, ERR_MODEL,
                         "it has a tensor '%.150s', which is none of a plain LoRA: merge the "
                         "adapter into its base with PEFT's merge_and_unload",
                         name);
    }
    if (rc == 0 && !l->count)
        rc = err_set(err, ERR_MODEL, "it adapts nothing");
    if (rc == 0 && halves != l->count)
        rc = err_set(err, ERR_MODEL, "it has %zu lora_A and %zu lora_B", l->count, halves);
    if (rc == 0)
        qsort(l->entry, l->count, sizeof(*l->entry), by_name);
    return rc;
}

/* Accepts NULL. */
static void lora_close(struct lora *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->count; i++)
        free(l->entry[i].name);
    free(l->entry);
    if (l->file)
        l->reader->close(l->file);
    free(l);
}

/* ERR_MODEL: a tensor of the file is none of a LoRA's, or its other half is missing or does not
 * fit. dir: the adapter's folder. */
static int lora_open(const char *dir, const struct adapter *a, struct lora **ret, struct err *err)
{
    struct lora *l = calloc(1, sizeof(*l));
    char path[PATH_MAX];
    int rc;

    if (!l)
        return err_set(err, ERR_NOMEM, "out of memory for an adapter");
    l->reader = weight_reader(a->format);
    if (snprintf(path, sizeof(path), "%s/%s", dir, a->file) >= (int)sizeof(path))
        rc = err_set(err, ERR_MODEL, "the model's path is too long");
    else
        rc = l->reader->open(path, &l->file, err);
    if (rc == 0 && (rc = read_pairs(l, a, err)) != 0) {
        err_prefix(err, "'%.200s'", path);
        utf8_display_err(err);
    }
    if (rc != 0)
        lora_close(l);
    else
        *ret = l;
    return rc;
}

static size_t lora_count(const struct lora *l) { return l->count; }

/* of the tensor that is adapted */
static const char *lora_name_at(const struct lora *l, size_t i) { return l->entry[i].name; }

/* The delta of a tensor, or NULL. Lives as long as l. */
static const struct weight_delta *lora_find(const struct lora *l, const char *name)
{
    const struct entry key = {.name = (char *)name};
    const struct entry *e = bsearch(&key, l->entry, l->count, sizeof(*l->entry), by_name);

    return e ? &e->delta : NULL;
}

/* Whether a delta can be added to a tensor of this shape. */
static bool lora_fits(const struct weight_delta *d, const struct weight *w)
{
    return w->rank == d->a.rank && w->dim[0] == d->b.dim[0] &&
           memcmp(w->dim + 1, d->a.dim + 1, (w->rank - 1) * sizeof(w->dim[0])) == 0;
}

/* ---- a model's files */

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

/* ---- a network's tensors as arrays */

#define MAX_RANK 4

struct weights_block {
    struct weights_block *next;
    float values[];
};

bool weights_has(const struct weights *w, const char *name)
{
    struct weight t;

    return weights_find(w, name, &t);
}

bool weights_has_layer(const struct weights *w, const char *const *formats, size_t n,
                       uint32_t layer)
{
    char name[100];

    for (size_t i = 0; i < n; i++) {
        const char *number = strstr(formats[i], "%u");

        snprintf(name, sizeof(name), "%.*s%u%s", (int)(number - formats[i]), formats[i], layer,
                 number + 2);
        if (weights_has(w, name))
            return true;
    }
    return false;
}

float *weights_pool_array(struct weights_pool *pool, uint64_t count)
{
    struct weights_block *b = NULL;

    if (count < SIZE_MAX / sizeof(float) - sizeof(*b))
        b = malloc(sizeof(*b) + (size_t)count * sizeof(float));
    if (!b)
        return NULL;
    b->next = pool->first;
    pool->first = b;
    return b->values;
}

void weights_pool_free(struct weights_pool *pool)
{
    while (pool->first) {
        struct weights_block *b = pool->first;

        pool->first = b->next;
        free(b);
    }
}

int weights_take(const struct weights *w, struct weights_pool *pool, const char *name,
                 uint32_t rank, uint32_t *dim, uint32_t most, float **ret, struct err *err)
{
    uint64_t shape[MAX_RANK] = {0}, count = 1;
    struct weight t;
    float *values;
    int rc;

    if (!weights_find(w, name, &t))
        return err_set(err, ERR_MODEL, "tensor '%.150s' is missing from the weights", name);
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t has = i < t.rank ? t.dim[i] : 1;

        if (!dim[i] && t.rank == rank && (has < 1 || has > most))
            return err_set(err, ERR_MODEL,
                           "tensor '%.150s' has a size of %llu, but 1 to %u is what is read here",
                           name, (unsigned long long)has, most);
        shape[i] = dim[i] ? dim[i] : has;
        count *= shape[i]; /* at most four sizes of 2^16 */
    }
    values = t.rank == rank && count == t.count ? weights_pool_array(pool, count) : NULL;
    if (t.rank == rank && count == t.count && !values)
        return err_set(err, ERR_NOMEM, "no memory for a model's weights");
    /* A wrong shape is an error before anything is written. */
    rc = weights_values(w, name, rank, shape, values, err);
    for (uint32_t i = 0; rc == 0 && i < rank; i++)
        dim[i] = (uint32_t)shape[i];
    if (rc == 0)
        *ret = values;
    return rc;
}
