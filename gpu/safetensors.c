#include "gpu/safetensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "gpu/tensor.h"
#include "gpu/weights_map.h"

struct entry {
    struct safetensor t;
    uint64_t begin, end;
};

struct safetensors {
    struct weights_map map; /* none when the memory is the caller's */
    json_t *header;         /* owns the names */
    struct entry *entries;
    size_t count;
};

static const struct {
    const char *name;
    enum safetensor_type type;
    uint32_t size;
} types[] = {
    {"F32", SAFETENSOR_F32, 4},       {"F16", SAFETENSOR_F16, 2},
    {"BF16", SAFETENSOR_BF16, 2},     {"F64", SAFETENSOR_OTHER, 8},
    {"I64", SAFETENSOR_OTHER, 8},     {"U64", SAFETENSOR_OTHER, 8},
    {"I32", SAFETENSOR_OTHER, 4},     {"U32", SAFETENSOR_OTHER, 4},
    {"I16", SAFETENSOR_OTHER, 2},     {"U16", SAFETENSOR_OTHER, 2},
    {"I8", SAFETENSOR_OTHER, 1},      {"U8", SAFETENSOR_OTHER, 1},
    {"BOOL", SAFETENSOR_OTHER, 1},    {"F8_E4M3", SAFETENSOR_OTHER, 1},
    {"F8_E5M2", SAFETENSOR_OTHER, 1},
};

/* A non-negative integer below 2^63. */
static bool get_u64(const json_t *value, uint64_t *ret)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

static int parse_type(struct safetensor *t, const json_t *value, uint32_t *size, struct err *err)
{
    const char *name = json_string_value(value);

    for (size_t i = 0; name && i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, name) == 0) {
            t->type = types[i].type;
            snprintf(t->type_name, sizeof(t->type_name), "%s", types[i].name);
            *size = types[i].size;
            return 0;
        }
    }
    return err_set(err, ERR_MODEL, "tensor '%.200s' has an unknown number type '%.16s'", t->name,
                   name ? name : "(none)");
}

static int parse_shape(struct safetensor *t, const json_t *value, struct err *err)
{
    if (!json_is_array(value) || json_array_size(value) > SAFETENSORS_MAX_RANK)
        return err_set(err, ERR_MODEL, "tensor '%.200s' has no shape of at most %d dimensions",
                       t->name, SAFETENSORS_MAX_RANK);
    t->rank = (uint32_t)json_array_size(value);
    t->count = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!get_u64(json_array_get(value, i), &t->dim[i]) ||
            __builtin_mul_overflow(t->count, t->dim[i], &t->count))
            return err_set(err, ERR_MODEL, "tensor '%.200s' has an impossible shape", t->name);
    return 0;
}

static int parse_entry(struct entry *e, const json_t *value, const uint8_t *data, uint64_t data_len,
                       struct err *err)
{
    const json_t *offsets = json_object_get(value, "data_offsets");
    uint64_t bytes;
    uint32_t size = 0;
    int rc;

    rc = parse_type(&e->t, json_object_get(value, "dtype"), &size, err);
    if (rc == 0)
        rc = parse_shape(&e->t, json_object_get(value, "shape"), err);
    if (rc != 0)
        return rc;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !get_u64(json_array_get(offsets, 0), &e->begin) ||
        !get_u64(json_array_get(offsets, 1), &e->end) || e->begin > e->end)
        return err_set(err, ERR_MODEL, "tensor '%.200s' has no valid data_offsets", e->t.name);
    if (e->end > data_len)
        return err_set(err, ERR_MODEL,
                       "tensor '%.200s' ends %llu bytes past the end of the file: it was not "
                       "downloaded whole, fetch it again",
                       e->t.name, (unsigned long long)(e->end - data_len));
    if (__builtin_mul_overflow(e->t.count, size, &bytes) || bytes != e->end - e->begin)
        return err_set(err, ERR_MODEL, "tensor '%.200s' has %llu bytes, its shape wants others",
                       e->t.name, (unsigned long long)(e->end - e->begin));
    e->t.data = data + e->begin;
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->t.name, ((const struct entry *)b)->t.name);
}

static int check_overlap(struct safetensors *st, struct err *err)
{
    qsort(st->entries, st->count, sizeof(*st->entries), by_offset);
    for (size_t i = 1; i < st->count; i++) {
        if (st->entries[i].begin < st->entries[i - 1].end)
            return err_set(err, ERR_MODEL, "tensors '%.150s' and '%.150s' share bytes",
                           st->entries[i - 1].t.name, st->entries[i].t.name);
    }
    qsort(st->entries, st->count, sizeof(*st->entries), by_name);
    return 0;
}

static int parse_header(struct safetensors *st, const uint8_t *data, uint64_t data_len,
                        struct err *err)
{
    const char *name;
    json_t *value;
    int rc;

    st->entries = calloc(json_object_size(st->header) + 1, sizeof(*st->entries));
    if (!st->entries)
        return err_set(err, ERR_NOMEM, "out of memory for the list of tensors");
    json_object_foreach(st->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        st->entries[st->count].t.name = name;
        rc = parse_entry(&st->entries[st->count], value, data, data_len, err);
        if (rc != 0)
            return rc;
        st->count++;
    }
    return check_overlap(st, err);
}

int safetensors_parse(const void *data, size_t len, struct safetensors **ret, struct err *err)
{
    const uint8_t *bytes = data;
    struct safetensors *st;
    json_error_t bad;
    uint64_t header = 0;
    int rc;

    if (len < 8)
        return err_set(err, ERR_MODEL, "this is no safetensors file: it has only %zu bytes", len);
    for (int i = 7; i >= 0; i--)
        header = header << 8 | bytes[i];
    if (header > SAFETENSORS_MAX_HEADER || header > len - 8 || header < 2)
        return err_set(err, ERR_MODEL,
                       "this is no safetensors file, or not a whole one: its header claims %llu "
                       "bytes of %zu",
                       (unsigned long long)header, len);
    st = calloc(1, sizeof(*st));
    if (!st)
        return err_set(err, ERR_NOMEM, "out of memory for a weight file");
    st->header = json_loadb((const char *)bytes + 8, (size_t)header, JSON_REJECT_DUPLICATES, &bad);
    if (!st->header || !json_is_object(st->header))
        rc = err_set(err, ERR_MODEL, "the header is no JSON object: %.150s",
                     st->header ? "another value" : bad.text);
    else
        rc = parse_header(st, bytes + 8 + header, len - 8 - header, err);
    if (rc != 0) {
        safetensors_close(st);
        return rc;
    }
    *ret = st;
    return 0;
}

int safetensors_open(const char *path, struct safetensors **ret, struct err *err)
{
    struct weights_map map = {0};
    int rc = weights_map_open(path, 8, "safetensors file", &map, err);

    if (rc != 0)
        return rc;
    rc = safetensors_parse(map.data, map.len, ret, err);
    return weights_map_give(&map, path, rc == 0 ? &(*ret)->map : NULL, err);
}

void safetensors_close(struct safetensors *st)
{
    if (!st)
        return;
    json_decref(st->header);
    free(st->entries);
    weights_map_close(&st->map);
    free(st);
}

size_t safetensors_count(const struct safetensors *st) { return st->count; }

const struct safetensor *safetensors_at(const struct safetensors *st, size_t i)
{
    return &st->entries[i].t;
}

const struct safetensor *safetensors_find(const struct safetensors *st, const char *name)
{
    size_t low = 0, high = st->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(name, st->entries[mid].t.name);

        if (order == 0)
            return &st->entries[mid].t;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

int safetensor_read(const struct safetensor *t, float *out, struct err *err)
{
    const uint8_t *p = t->data;
    uint16_t half;

    if (t->type == SAFETENSOR_OTHER)
        return err_set(err, ERR_MODEL, "tensor '%.200s' is of type %s, not F32, F16 or BF16",
                       t->name, t->type_name);
    if (t->type == SAFETENSOR_F32) {
        memcpy(out, p, (size_t)t->count * 4);
        return 0;
    }
    for (uint64_t i = 0; i < t->count; i++) {
        memcpy(&half, p + 2 * i, 2);
        out[i] = t->type == SAFETENSOR_F16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
    return 0;
}
