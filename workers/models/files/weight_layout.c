#include "workers/models/files/weight_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"

static const char safetensors_index[] = "model.safetensors.index.json";
static const char torch_index[] = "pytorch_model.bin.index.json";

static bool ends_with(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);

    return n > t && strcmp(name + n - t, tail) == 0;
}

/* ---- an index */

/* A file of this folder: no path, nothing hidden, nothing of another format. */
static bool is_shard_name(const char *name, enum weight_format format)
{
    return name[0] != '.' && strlen(name) < NAME_MAX && !strchr(name, '/') &&
           ends_with(name, format == WEIGHT_FORMAT_SAFETENSORS ? ".safetensors" : ".bin");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct weight_place *)a)->tensor,
                  ((const struct weight_place *)b)->tensor);
}

/* l->file has room for it. */
static int add_file(struct weight_layout *l, const char *name, struct err *err)
{
    char **at = &l->file[l->file_count];

    *at = strdup(name);
    if (!*at)
        return err_set(err, ERR_NOMEM, "out of memory for an index of weights");
    l->file_count++;
    return 0;
}

/* The files that a map of tensors names: each once, sorted. */
static int collect_files(struct weight_layout *l, json_t *map, enum weight_format format,
                         struct err *err)
{
    size_t n = json_object_size(map), unique = 0;
    const char **names = calloc(n, sizeof(*names)), *tensor;
    json_t *value;
    int rc = 0;

    if (!names)
        return err_set(err, ERR_NOMEM, "out of memory for an index of weights");
    n = 0;
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);

        if (!name || !is_shard_name(name, format)) {
            rc = err_set(err, ERR_MODEL,
                         "it says that tensor '%.150s' is in '%.150s', which is no weight file of "
                         "the model's folder",
                         tensor, name ? name : "(no name)");
            goto out;
        }
        names[n++] = name;
    }
    qsort(names, n, sizeof(*names), by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[unique - 1]) != 0)
            names[unique++] = names[i];
    if (unique > WEIGHT_INDEX_MAX_FILES) {
        rc = err_set(err, ERR_MODEL, "it names %zu files, over %d", unique, WEIGHT_INDEX_MAX_FILES);
        goto out;
    }
    l->file = calloc(unique + 1, sizeof(*l->file));
    if (!l->file) {
        rc = err_set(err, ERR_NOMEM, "out of memory for an index of weights");
        goto out;
    }
    for (size_t i = 0; rc == 0 && i < unique; i++)
        rc = add_file(l, names[i], err);
out:
    free(names);
    return rc;
}

static int collect_places(struct weight_layout *l, json_t *map, struct err *err)
{
    const char *tensor;
    json_t *value;

    l->place = calloc(json_object_size(map), sizeof(*l->place));
    if (!l->place)
        return err_set(err, ERR_NOMEM, "out of memory for an index of weights");
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        char **at = bsearch(&name, l->file, l->file_count, sizeof(*l->file), by_text);

        l->place[l->place_count++] = (struct weight_place){tensor, (uint32_t)(at - l->file)};
    }
    qsort(l->place, l->place_count, sizeof(*l->place), by_tensor);
    return 0;
}

static int read_map(struct weight_layout *l, const char *json, size_t len,
                    enum weight_format format, struct err *err)
{
    json_error_t bad;
    json_t *map;
    int rc;

    if (len > WEIGHT_INDEX_MAX_BYTES)
        return err_set(err, ERR_MODEL, "it has %zu bytes, over %u", len, WEIGHT_INDEX_MAX_BYTES);
    l->owner = json_loadb(json, len, JSON_REJECT_DUPLICATES, &bad);
    if (!l->owner)
        return err_set(err, ERR_MODEL, "it is no valid JSON: %.150s", bad.text);
    map = json_object_get(l->owner, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        return err_set(err, ERR_MODEL, "it has no weight_map");
    if (json_object_size(map) > WEIGHT_INDEX_MAX_TENSORS)
        return err_set(err, ERR_MODEL, "it names %zu tensors, over %d", json_object_size(map),
                       WEIGHT_INDEX_MAX_TENSORS);
    rc = collect_files(l, map, format, err);
    return rc != 0 ? rc : collect_places(l, map, err);
}

int weight_layout_parse(const char *json, size_t len, enum weight_format format,
                        struct weight_layout *ret, struct err *err)
{
    struct weight_layout l = {.format = format};
    int rc;

    l.index = format == WEIGHT_FORMAT_SAFETENSORS ? safetensors_index : torch_index;
    rc = read_map(&l, json, len, format, err);
    if (rc != 0) {
        err_prefix(err, "the index of weights, %s", l.index);
        utf8_display_err(err);
        weight_layout_free(&l);
        return rc;
    }
    *ret = l;
    return 0;
}

/* ---- a folder */

static bool has_file_in_dir(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
           stat(path, &st) == 0;
}

static int make_single_file_layout(enum weight_format format, const char *name,
                                   struct weight_layout *ret, struct err *err)
{
    struct weight_layout l = {.format = format};
    int rc;

    l.file = calloc(1, sizeof(*l.file));
    if (!l.file)
        return err_set(err, ERR_NOMEM, "out of memory for a file's name");
    rc = add_file(&l, name, err);
    if (rc != 0)
        weight_layout_free(&l);
    else
        *ret = l;
    return rc;
}

static int read_index_file(const char *dir, const char *name, struct buf *out, struct err *err)
{
    char path[PATH_MAX];
    uint8_t *scratch;
    ssize_t n = 0;
    int fd, bad = 0;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the path of %s is too long", name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "%.300s", path);
    out->max = WEIGHT_INDEX_MAX_BYTES + 65536u; /* one reading past the bound, to notice it */
    while ((scratch = buf_reserve(out, 65536))) {
        n = read(fd, scratch, 65536);
        bad = errno;
        if (n < 0 && bad == EINTR)
            continue;
        if (n <= 0 || out->len > WEIGHT_INDEX_MAX_BYTES)
            break;
        out->len += (size_t)n;
    }
    close(fd);
    if (n < 0)
        return err_sys(err, bad, "%.300s", path);
    if (!scratch && out->len <= WEIGHT_INDEX_MAX_BYTES)
        return err_set(err, ERR_NOMEM, "out of memory for an index of weights");
    return 0;
}

static int read_sharded_layout(const char *dir, enum weight_format format, const char *index,
                               struct weight_layout *ret, struct err *err)
{
    struct weight_layout l = {0};
    struct buf text = BUF_INIT;
    int rc = read_index_file(dir, index, &text, err);

    if (rc == 0)
        rc = weight_layout_parse((const char *)text.data, text.len, format, &l, err);
    buf_free(&text);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; rc == 0 && i < l.file_count; i++)
        if (!has_file_in_dir(dir, l.file[i]))
            rc = err_set(err, ERR_MISSING,
                         "%.200s has no %.150s, which its %s names; fetch the model's files again",
                         dir, l.file[i], index);
    if (rc != 0) {
        utf8_display_err(err);
        weight_layout_free(&l);
    } else {
        *ret = l;
    }
    return rc;
}

static int is_checkpoint(const struct dirent *e)
{
    return e->d_name[0] != '.' && ends_with(e->d_name, ".pt");
}

static int find_openai_checkpoint(const char *dir, struct weight_layout *ret, struct err *err)
{
    struct dirent **names = NULL;
    int rc, n = scandir(dir, &names, is_checkpoint, alphasort);

    if (n == 1)
        rc = make_single_file_layout(WEIGHT_FORMAT_OPENAI, names[0]->d_name, ret, err);
    else if (n > 1)
        rc = err_set(err, ERR_MODEL,
                     "%.200s holds %d checkpoints (%.60s, %.60s ...); give each model a folder of "
                     "its own",
                     dir, n, names[0]->d_name, names[1]->d_name);
    else
        rc = err_set(
            err, ERR_MISSING,
            "%.300s has no model.safetensors, pytorch_model.bin, model.bin or .pt checkpoint; "
            "fetch the model's files again",
            dir);
    if (rc != 0)
        utf8_display_err(err);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return rc;
}

/* In the order in which they are looked for; an OpenAI checkpoint, of any name, comes last. */
static const struct {
    const char *name;
    enum weight_format format;
    bool index;
} known[] = {
    {"model.safetensors", WEIGHT_FORMAT_SAFETENSORS, false},
    {safetensors_index, WEIGHT_FORMAT_SAFETENSORS, true},
    {"pytorch_model.bin", WEIGHT_FORMAT_TORCH, false},
    {torch_index, WEIGHT_FORMAT_TORCH, true},
    {"model.bin", WEIGHT_FORMAT_CT2, false},
    {"adapter_config.json", WEIGHT_FORMAT_ADAPTER, false},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

static bool is_ggml(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t b[4] = {0};
    bool whole;

    if (fd < 0)
        return false;
    whole = pread(fd, b, sizeof(b), 0) == (ssize_t)sizeof(b); /* of a folder: no */
    close(fd);
    return whole && ((uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0]) ==
                        WEIGHT_GGML_MAGIC;
}

int weight_layout_find(const char *dir, struct weight_layout *ret, struct err *err)
{
    if (is_ggml(dir))
        return make_single_file_layout(WEIGHT_FORMAT_GGML, dir, ret, err);
    for (size_t i = 0; i < KNOWN; i++)
        if (has_file_in_dir(dir, known[i].name))
            return known[i].index
                       ? read_sharded_layout(dir, known[i].format, known[i].name, ret, err)
                       : make_single_file_layout(known[i].format, known[i].name, ret, err);
    return find_openai_checkpoint(dir, ret, err);
}

/* It may not fail, so it allocates nothing of its own. */
enum weight_format weight_layout_format(const char *dir)
{
    struct dirent **names = NULL;
    int n;

    if (is_ggml(dir))
        return WEIGHT_FORMAT_GGML;
    for (size_t i = 0; i < KNOWN; i++)
        if (has_file_in_dir(dir, known[i].name))
            return known[i].format;
    n = scandir(dir, &names, is_checkpoint, NULL);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return n == 1 ? WEIGHT_FORMAT_OPENAI : WEIGHT_FORMAT_NONE;
}

bool weight_format_has_sizes(enum weight_format format) { return format >= WEIGHT_FORMAT_CT2; }

void weight_layout_free(struct weight_layout *l)
{
    for (uint32_t i = 0; i < l->file_count; i++)
        free(l->file[i]);
    free(l->file);
    free(l->place);
    json_decref(l->owner);
    *l = (struct weight_layout){0};
}

const struct weight_place *weight_layout_place(const struct weight_layout *l, const char *tensor)
{
    const struct weight_place key = {tensor, 0};

    return bsearch(&key, l->place, l->place_count, sizeof(*l->place), by_tensor);
}
