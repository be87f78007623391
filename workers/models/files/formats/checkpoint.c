#include "workers/models/files/formats/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "gpu/weights_map.h"
#include "workers/models/files/formats/pickle.h"
#include "workers/models/files/formats/stored_zip.h"
#include "workers/models/files/weight_layout.h"

#define NAME_MAX_BYTES 400

struct checkpoint {
    struct weights_map map; /* none when the memory is the caller's */
    struct stored_zip *zip;
    struct pickle *pickle;
    const struct pickle_value *dims; /* OpenAI's; NULL in other checkpoints */
    const char *folder;              /* of the archive, with its slash; not terminated */
    size_t folder_len;
    struct weight *weight;
    size_t count;
};

static const struct {
    enum weight_type type;
    uint32_t size;
    const char *name;
} types[] = {
    [PICKLE_FLOAT32] = {WEIGHT_F32, 4, "F32"},    [PICKLE_FLOAT16] = {WEIGHT_F16, 2, "F16"},
    [PICKLE_BFLOAT16] = {WEIGHT_BF16, 2, "BF16"}, [PICKLE_FLOAT64] = {WEIGHT_F64, 8, "F64"},
    [PICKLE_INT64] = {WEIGHT_OTHER, 8, "I64"},    [PICKLE_INT32] = {WEIGHT_OTHER, 4, "I32"},
    [PICKLE_INT16] = {WEIGHT_OTHER, 2, "I16"},    [PICKLE_INT8] = {WEIGHT_OTHER, 1, "I8"},
    [PICKLE_UINT8] = {WEIGHT_OTHER, 1, "U8"},     [PICKLE_BOOLEAN] = {WEIGHT_OTHER, 1, "BOOL"},
};

/* ---- the archive */

#define CONVERT                                                                           \
    "load it with transformers and save it with save_pretrained(DIR, safe_serialization=" \
    "True)"

/* If the file is no zip archive, the error names what it is. */
static int check_start(const uint8_t *data, size_t len, struct err *err)
{
    static const uint8_t before_1_6[] = {0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20};

    if (len >= 4 && memcmp(data, "PK\3\4", 4) == 0)
        return 0;
    if ((len >= sizeof(before_1_6) && memcmp(data, before_1_6, sizeof(before_1_6)) == 0) ||
        (len >= 512 && memcmp(data + 257, "ustar", 5) == 0))
        return err_set(err, ERR_MODEL,
                       "this checkpoint is in the format of PyTorch before 1.6, which is not read "
                       "here: " CONVERT);
    return err_set(err, ERR_MODEL,
                   "this is no PyTorch checkpoint, or not a whole one: fetch it again");
}

static bool ends_with(const struct stored_member *m, const char *tail)
{
    size_t n = strlen(tail);

    return m->name_len >= n && memcmp(m->name + m->name_len - n, tail, n) == 0;
}

/* The member FOLDER/name. */
static const struct stored_member *member_of(const struct checkpoint *c, const char *name,
                                             size_t len)
{
    char full[STORED_ZIP_MAX_NAME];

    if (c->folder_len + len > sizeof(full))
        return NULL;
    memcpy(full, c->folder, c->folder_len);
    memcpy(full + c->folder_len, name, len);
    return stored_zip_find(c->zip, full, c->folder_len + len);
}

/* Everything lies in one folder, whose name is whatever the file was called when it was saved. */
static int find_folder(struct checkpoint *c, const struct stored_member **ret, struct err *err)
{
    const struct stored_member *order;

    *ret = NULL;
    for (size_t i = 0; i < stored_zip_count(c->zip); i++) {
        const struct stored_member *m = stored_zip_at(c->zip, i);

        if (!ends_with(m, "/data.pkl") || memchr(m->name, '/', m->name_len - 9))
            continue;
        if (*ret)
            return err_set(err, ERR_MODEL, "the zip archive holds two checkpoints");
        *ret = m;
    }
    if (!*ret) {
        err_set(err, ERR_MODEL, "the zip archive is no PyTorch checkpoint: no data.pkl");
        return ERR_MODEL;
    }
    c->folder = (*ret)->name;
    c->folder_len = (*ret)->name_len - 8;
    if (member_of(c, "constants.pkl", 13))
        return err_set(err, ERR_MODEL,
                       "this is a TorchScript program, not a checkpoint of tensors: refused");
    order = member_of(c, "byteorder", 9);
    if (order && (order->size != 6 || memcmp(order->data, "little", 6) != 0))
        return err_set(err, ERR_MODEL,
                       "this checkpoint was written by a big-endian machine: " CONVERT);
    return 0;
}

/* ---- tensors */

/* The elements of its storage that a tensor reaches. A tensor that shows an element more than once
 * (expanded) could claim any size: refused, as safetensors does. */
static int check_reach(const struct weight *w, const struct pickle_tensor *t, uint64_t stored,
                       struct err *err)
{
    uint64_t last = t->offset, way;

    for (uint32_t i = 0; w->count && i < w->rank; i++)
        if (__builtin_mul_overflow(w->dim[i] - 1, w->stride[i], &way) ||
            __builtin_add_overflow(last, way, &last))
            return err_set(err, ERR_MODEL, "tensor '%.200s' has an impossible shape", w->name);
    if (w->count ? last >= stored : last > stored)
        return err_set(err, ERR_MODEL, "tensor '%.200s' ends outside of its storage", w->name);
    if (w->count > stored)
        return err_set(err, ERR_MODEL, "tensor '%.200s' shows values of its storage twice",
                       w->name);
    return 0;
}

static int set_shape(struct weight *w, const struct pickle_tensor *t, struct err *err)
{
    w->rank = t->rank;
    w->count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        w->dim[i] = t->dim[i];
        w->stride[i] = t->stride[i];
        if (__builtin_mul_overflow(w->count, t->dim[i], &w->count))
            return err_set(err, ERR_MODEL, "tensor '%.200s' has an impossible shape", w->name);
    }
    return 0;
}

static int set_data(const struct checkpoint *c, struct weight *w, const struct pickle_tensor *t,
                    struct err *err)
{
    const struct pickle_value *storage = pickle_at(c->pickle, t->storage);
    const struct pickle_value *key = pickle_at(c->pickle, storage->u.storage.key);
    const struct stored_member *m;
    char name[STORED_ZIP_MAX_NAME] = "data/";
    uint64_t bytes;
    uint32_t size = types[storage->u.storage.type].size;

    w->type = types[storage->u.storage.type].type;
    w->type_name = types[storage->u.storage.type].name;
    if (key->u.text.len > sizeof(name) - 5)
        return err_set(err, ERR_MODEL, "tensor '%.200s' has a storage of no valid name", w->name);
    memcpy(name + 5, key->u.text.at, key->u.text.len);
    m = member_of(c, name, 5 + key->u.text.len);
    if (!m)
        return err_set(err, ERR_MODEL, "the bytes of tensor '%.200s' are not in the file", w->name);
    if (__builtin_mul_overflow(storage->u.storage.count, size, &bytes) || bytes != m->size)
        return err_set(err, ERR_MODEL, "the storage of tensor '%.200s' has %llu bytes, not %llu",
                       w->name, (unsigned long long)m->size, (unsigned long long)bytes);
    w->data = m->data;
    if (check_reach(w, t, storage->u.storage.count, err) != 0)
        return ERR_MODEL;
    w->data = m->data + t->offset * size; /* within the storage, so no overflow */
    return 0;
}

static int add_tensor(struct checkpoint *c, const struct pickle_value *key,
                      const struct pickle_tensor *t, struct err *err)
{
    struct weight *w = &c->weight[c->count];
    char *name;
    int rc;

    if (key->kind != PICKLE_TEXT || key->u.text.len > NAME_MAX_BYTES ||
        memchr(key->u.text.at, 0, key->u.text.len))
        return err_set(err, ERR_MODEL, "the checkpoint has a tensor of no valid name");
    name = malloc(key->u.text.len + 1);
    if (!name)
        return err_set(err, ERR_NOMEM, "out of memory for the list of tensors");
    memcpy(name, key->u.text.at, key->u.text.len);
    name[key->u.text.len] = 0;
    w->name = name;
    c->count++; /* from here on the name is the checkpoint's */
    rc = set_shape(w, t, err);
    return rc != 0 ? rc : set_data(c, w, t, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

/* The tensors of a dictionary; other values, such as a training's epoch, are ignored. */
static int take_tensors(struct checkpoint *c, const struct pickle_value *dict, struct err *err)
{
    int rc = 0;

    if (dict->u.list.n / 2 > WEIGHT_INDEX_MAX_TENSORS)
        return err_set(err, ERR_MODEL, "the checkpoint's dictionary has over %d entries",
                       WEIGHT_INDEX_MAX_TENSORS);
    c->weight = calloc(dict->u.list.n / 2 + 1, sizeof(*c->weight));
    if (!c->weight)
        return err_set(err, ERR_NOMEM, "out of memory for the list of tensors");
    for (uint32_t i = 0; rc == 0 && i < dict->u.list.n; i += 2) {
        const struct pickle_value *key = pickle_at(c->pickle, dict->u.list.item[i]);
        const struct pickle_value *value = pickle_at(c->pickle, dict->u.list.item[i + 1]);

        if (value->kind == PICKLE_TENSOR)
            rc = add_tensor(c, key, value->u.tensor, err);
    }
    if (rc != 0)
        return rc;
    if (!c->count)
        return err_set(err, ERR_MODEL, "the checkpoint is no dictionary of tensors by their names");
    qsort(c->weight, c->count, sizeof(*c->weight), by_name);
    for (size_t i = 1; i < c->count; i++)
        if (strcmp(c->weight[i - 1].name, c->weight[i].name) == 0)
            return err_set(err, ERR_MODEL, "tensor '%.200s' is there twice", c->weight[i].name);
    return 0;
}

/* The dictionary of tensors in a training checkpoint. */
static const struct pickle_value *training_weights(const struct checkpoint *c,
                                                   const struct pickle_value *root)
{
    static const char *const keys[] = {"state_dict", "model_state"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct pickle_value *v = pickle_get(c->pickle, root, keys[i]);

        if (v && v->kind == PICKLE_DICT)
            return v;
    }
    return root;
}

/* The dictionary of the tensors; NULL when it claims to be OpenAI's and is not. */
static const struct pickle_value *find_weights(struct checkpoint *c, bool training)
{
    const struct pickle_value *root = pickle_root(c->pickle), *weights;

    if (training)
        return training_weights(c, root);
    weights = pickle_get(c->pickle, root, "model_state_dict");
    c->dims = pickle_get(c->pickle, root, "dims");
    if (weights && c->dims)
        return weights->kind == PICKLE_DICT && c->dims->kind == PICKLE_DICT ? weights : NULL;
    c->dims = NULL;
    return root;
}

static int read_all(struct checkpoint *c, const void *data, size_t len, bool training,
                    struct err *err)
{
    const struct pickle_value *weights;
    const struct stored_member *list;
    int rc = check_start(data, len, err);

    if (rc == 0)
        rc = stored_zip_open(data, len, &c->zip, err);
    if (rc == 0)
        rc = find_folder(c, &list, err);
    if (rc == 0)
        rc = (training ? pickle_parse_skipping : pickle_parse)(list->data, (size_t)list->size,
                                                               &c->pickle, err);
    if (rc != 0)
        return rc;
    if (pickle_root(c->pickle)->kind != PICKLE_DICT)
        return err_set(err, ERR_MODEL, "the checkpoint is no dictionary of tensors by their names");
    weights = find_weights(c, training);
    if (!weights)
        return err_set(err, ERR_MODEL, "the checkpoint is no Whisper model of OpenAI's");
    return take_tensors(c, weights, err);
}

static int parse_checkpoint_bytes(const void *data, size_t len, bool training,
                                  struct checkpoint **ret, struct err *err)
{
    struct checkpoint *c = calloc(1, sizeof(*c));
    int rc;

    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory for a checkpoint");
    rc = read_all(c, data, len, training, err);
    if (rc != 0) {
        utf8_display_err(err);
        checkpoint_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

static int open_file(const char *path, bool training, struct checkpoint **ret, struct err *err)
{
    struct weights_map map = {0};
    int rc = weights_map_open(path, 4, "PyTorch checkpoint", &map, err);

    if (rc != 0)
        return rc;
    rc = parse_checkpoint_bytes(map.data, map.len, training, ret, err);
    return weights_map_give(&map, path, rc == 0 ? &(*ret)->map : NULL, err);
}

int checkpoint_parse(const void *data, size_t len, struct checkpoint **ret, struct err *err)
{
    return parse_checkpoint_bytes(data, len, false, ret, err);
}

int checkpoint_parse_training(const void *data, size_t len, struct checkpoint **ret,
                              struct err *err)
{
    return parse_checkpoint_bytes(data, len, true, ret, err);
}

int checkpoint_open(const char *path, struct checkpoint **ret, struct err *err)
{
    return open_file(path, false, ret, err);
}

int checkpoint_open_training(const char *path, struct checkpoint **ret, struct err *err)
{
    return open_file(path, true, ret, err);
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        free((char *)c->weight[i].name);
    free(c->weight);
    pickle_free(c->pickle);
    stored_zip_free(c->zip);
    weights_map_close(&c->map);
    free(c);
}

/* ---- what was read */

bool checkpoint_is_openai(const struct checkpoint *c) { return c->dims != NULL; }

int checkpoint_dim(const struct checkpoint *c, const char *key, uint32_t max, uint32_t *ret,
                   struct err *err)
{
    const struct pickle_value *v = c->dims ? pickle_get(c->pickle, c->dims, key) : NULL;

    if (!v || v->kind != PICKLE_INT || v->u.integer < 1 || v->u.integer > (int64_t)max)
        return err_set(err, ERR_MODEL, "the checkpoint's dims have no %s from 1 to %u", key, max);
    *ret = (uint32_t)v->u.integer;
    return 0;
}

size_t checkpoint_count(const struct checkpoint *c) { return c->count; }

const struct weight *checkpoint_at(const struct checkpoint *c, size_t i) { return &c->weight[i]; }

const struct weight *checkpoint_find(const struct checkpoint *c, const char *name)
{
    const struct weight key = {.name = name};

    return bsearch(&key, c->weight, c->count, sizeof(*c->weight), by_name);
}
