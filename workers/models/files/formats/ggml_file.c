#include "workers/models/files/formats/ggml_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "gpu/weights_map.h"
#include "workers/models/files/formats/ggml_types.h"
#include "workers/models/files/weight_layout.h"

#define MAX_TOKENS (1u << 20)
#define MAX_TOKEN_BYTES (32u << 20) /* of all; Whisper's have half a megabyte */
#define MAX_NAME 256
#define MAX_RANK 4

struct ggml_file {
    struct weights_map map; /* none when the memory is the caller's */
    struct ggml_sizes sizes;
    struct ggml_token *token;
    size_t token_count;
    struct weight *tensor; /* sorted by name; owns the names */
    size_t count, capacity;
};

static int cut_off(struct err *err)
{
    return err_set(err, ERR_MODEL,
                   "the file ends too early: it was not downloaded whole, fetch it again");
}

static int read_head(struct ggml_file *g, struct reader *r, struct err *err)
{
    uint32_t *const sizes[] = {
        &g->sizes.vocabulary,  &g->sizes.audio_positions, &g->sizes.audio_state,
        &g->sizes.audio_heads, &g->sizes.audio_layers,    &g->sizes.text_positions,
        &g->sizes.text_state,  &g->sizes.text_heads,      &g->sizes.text_layers,
        &g->sizes.mels,
    };

    if (reader_u32(r) != WEIGHT_GGML_MAGIC)
        return err_set(err, ERR_MODEL, "this is no model of whisper.cpp's");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        *sizes[i] = reader_u32(r);
    (void)reader_u32(r); /* the type of most tensors; each has its own, too */
    return r->failed ? cut_off(err) : 0;
}

static int skip_filters(struct reader *r, struct err *err)
{
    uint64_t rows = reader_u32(r), values = rows * reader_u32(r);

    if (r->failed || values > (r->len - r->pos) / 4)
        return cut_off(err);
    r->pos += (size_t)values * 4;
    return 0;
}

static int read_tokens(struct ggml_file *g, struct reader *r, struct err *err)
{
    uint32_t n = reader_u32(r);
    size_t start = r->pos;

    if (r->failed || n > (r->len - r->pos) / 4)
        return cut_off(err);
    if (n > MAX_TOKENS)
        return err_set(err, ERR_MODEL, "it claims %u tokens, over %u", n, MAX_TOKENS);
    g->token = calloc((size_t)n + 1, sizeof(*g->token));
    if (!g->token)
        return err_set(err, ERR_NOMEM, "out of memory for the list of tokens");
    for (; g->token_count < n; g->token_count++) {
        struct ggml_token *t = &g->token[g->token_count];

        t->len = reader_u32(r);
        t->bytes = reader_raw(r, t->len);
        if (r->failed)
            return cut_off(err);
        if (r->pos - start > MAX_TOKEN_BYTES)
            return err_set(err, ERR_MODEL, "its tokens have over %u MiB", MAX_TOKEN_BYTES >> 20);
    }
    return 0;
}

/* The dimensions stand there with the last one first. A last one of 1, which biases of convolutions
 * have, is none. */
static int read_shape(struct reader *r, struct weight *w, uint32_t rank, struct err *err)
{
    w->rank = rank;
    w->count = 1;
    for (uint32_t i = rank; i-- > 0;) {
        w->dim[i] = reader_u32(r);
        if (__builtin_mul_overflow(w->count, w->dim[i], &w->count))
            return err_set(err, ERR_MODEL, "a tensor has an impossible shape");
    }
    while (w->rank > 1 && w->dim[w->rank - 1] == 1)
        w->rank--;
    return r->failed ? cut_off(err) : 0;
}

static int read_name(struct reader *r, uint32_t len, struct weight *w, struct err *err)
{
    const uint8_t *name = len <= MAX_NAME ? reader_raw(r, len) : NULL;

    if (r->failed)
        return cut_off(err);
    if (!name || !len || memchr(name, 0, len))
        return err_set(err, ERR_MODEL, "a tensor has no name of 1 to %d bytes", MAX_NAME);
    w->name = strndup((const char *)name, len);
    return w->name ? 0 : err_set(err, ERR_NOMEM, "out of memory for the list of tensors");
}

static int read_data(struct reader *r, struct weight *w, uint32_t type, struct err *err)
{
    uint64_t bytes;

    if (!ggml_type_set(w, type))
        return err_set(err, ERR_MODEL,
                       "tensor '%.200s' is of ggml's type %u, which is not read here", w->name,
                       type);
    if (!ggml_type_bytes(w, &bytes))
        return err_set(err, ERR_MODEL, "tensor '%.200s' has no shape that %s can have", w->name,
                       w->type_name);
    if (bytes > r->len - r->pos)
        return err_set(err, ERR_MODEL,
                       "tensor '%.200s' ends %llu bytes past the end of the file: it was not "
                       "downloaded whole, fetch it again",
                       w->name, (unsigned long long)(bytes - (r->len - r->pos)));
    w->data = reader_raw(r, (size_t)bytes);
    weight_set_contiguous(w);
    return 0;
}

static int read_tensor(struct reader *r, struct weight *w, struct err *err)
{
    uint32_t rank = reader_u32(r), name_len = reader_u32(r), type = reader_u32(r);
    int rc;

    if (r->failed)
        return cut_off(err);
    if (rank < 1 || rank > MAX_RANK)
        return err_set(err, ERR_MODEL, "a tensor has %u dimensions, not 1 to %d", rank, MAX_RANK);
    rc = read_shape(r, w, rank, err);
    if (rc == 0)
        rc = read_name(r, name_len, w, err);
    return rc != 0 ? rc : read_data(r, w, type, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

/* A zeroed place at the end; NULL: no memory. */
static struct weight *next_place(struct ggml_file *g)
{
    size_t capacity = g->capacity ? 2 * g->capacity : 256;
    struct weight *more;

    if (g->count == g->capacity) {
        more = realloc(g->tensor, capacity * sizeof(*more));
        if (!more)
            return NULL;
        g->tensor = more;
        g->capacity = capacity;
    }
    g->tensor[g->count] = (struct weight){0};
    return &g->tensor[g->count++];
}

/* Tensors follow each other up to the end of the file. */
static int read_tensors(struct ggml_file *g, struct reader *r, struct err *err)
{
    while (r->pos < r->len) {
        struct weight *w = g->count < WEIGHT_INDEX_MAX_TENSORS ? next_place(g) : NULL;
        int rc;

        if (!w && g->count < WEIGHT_INDEX_MAX_TENSORS)
            return err_set(err, ERR_NOMEM, "out of memory for the list of tensors");
        if (!w)
            return err_set(err, ERR_MODEL, "it has over %d tensors", WEIGHT_INDEX_MAX_TENSORS);
        rc = read_tensor(r, w, err);
        if (rc != 0)
            return rc;
    }
    if (!g->count)
        return err_set(err, ERR_MODEL, "it has no tensors: it is a file for tests, or not whole");
    qsort(g->tensor, g->count, sizeof(*g->tensor), by_name);
    for (size_t i = 1; i < g->count; i++)
        if (strcmp(g->tensor[i - 1].name, g->tensor[i].name) == 0)
            return err_set(err, ERR_MODEL, "tensor '%.200s' is there twice", g->tensor[i].name);
    return 0;
}

int ggml_file_parse(const void *data, size_t len, struct ggml_file **ret, struct err *err)
{
    struct ggml_file *g = calloc(1, sizeof(*g));
    struct reader r = reader_of(data, len);
    int rc;

    if (!g)
        return err_set(err, ERR_NOMEM, "out of memory for a weight file");
    rc = read_head(g, &r, err);
    if (rc == 0)
        rc = skip_filters(&r, err);
    if (rc == 0)
        rc = read_tokens(g, &r, err);
    if (rc == 0)
        rc = read_tensors(g, &r, err);
    if (rc != 0) {
        utf8_display_err(err);
        ggml_file_close(g);
        return rc;
    }
    *ret = g;
    return 0;
}

int ggml_file_open(const char *path, struct ggml_file **ret, struct err *err)
{
    struct weights_map map = {0};
    int rc = weights_map_open(path, 4, "model of whisper.cpp's", &map, err);

    if (rc != 0)
        return rc;
    rc = ggml_file_parse(map.data, map.len, ret, err);
    if (rc != 0) {
        weights_map_close(&map);
        err_prefix(err, "'%.200s'", path);
        return rc;
    }
    (*ret)->map = map;
    return 0;
}

void ggml_file_close(struct ggml_file *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->count; i++)
        free((char *)g->tensor[i].name);
    free(g->tensor);
    free(g->token);
    weights_map_close(&g->map);
    free(g);
}

/* ---- what was read */

const struct ggml_sizes *ggml_file_sizes(const struct ggml_file *g) { return &g->sizes; }

const struct ggml_token *ggml_file_tokens(const struct ggml_file *g, size_t *n)
{
    *n = g->token_count;
    return g->token;
}

size_t ggml_file_count(const struct ggml_file *g) { return g->count; }

const char *ggml_file_name_at(const struct ggml_file *g, size_t i) { return g->tensor[i].name; }

const struct weight *ggml_file_find(const struct ggml_file *g, const char *name)
{
    const struct weight key = {.name = name};

    return bsearch(&key, g->tensor, g->count, sizeof(*g->tensor), by_name);
}
