#include "workers/wire/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define LENGTH_SLACK 1e-3 /* of a vector of length 1 */

/* ---- members of a struct that is known by offsets alone; FIELD_X has looked at their types */

static void *pointer_at(const void *m, size_t offset)
{
    void *p;

    memcpy(&p, (const uint8_t *)m + offset, sizeof(p));
    return p;
}

static void set_pointer(void *m, size_t offset, const void *p)
{
    memcpy((uint8_t *)m + offset, &p, sizeof(p));
}

static uint32_t u32_at(const void *m, size_t offset)
{
    return *(const uint32_t *)((const uint8_t *)m + offset);
}

static int64_t i64_at(const void *m, size_t offset)
{
    return *(const int64_t *)((const uint8_t *)m + offset);
}

static size_t *size_at(void *m, size_t offset) { return (size_t *)((uint8_t *)m + offset); }

static size_t block_of(const struct field *f, const void *m)
{
    return (size_t)u32_at(m, f->by) * u32_at(m, f->by_too);
}

/* Is this where a message without a rest ends? */
static bool ends_at(const struct field *f, const void *m)
{
    return f->kind == FIELD_IS_REST && u32_at(m, f->offset) == 0;
}

/* ---- what a message may hold. Its own memory is in order, wherever it came from: the reader has
 * held lengths and counts against the bytes that were there. */

static bool list_holds(const struct field *list, size_t count, const void *m, const void *owner);

static bool is_in_field_range(const struct field *f, uint64_t v)
{
    return v >= (uint64_t)f->least && v <= f->most;
}

static bool signed_within(int64_t v, int64_t least, uint64_t most)
{
    return v >= least && v <= (int64_t)most;
}

static bool all_finite(const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

static bool is_unit(const float *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return fabs(sqrt(sum) - 1) <= LENGTH_SLACK; /* which NaN is not */
}

/* An optional one that is not there, or has no length, is not written. */
static bool unit_holds(const struct field *f, const float *v, uint32_t n)
{
    return f->optional && (!v || n == 0) ? true : v && is_unit(v, n);
}

static bool string_holds(const struct field *f, const char *s)
{
    size_t n = s ? strnlen(s, (size_t)f->most + 1) : 0;

    return n <= f->most && (!f->utf8 || !s || utf8_valid(s, n));
}

static bool span_holds(const struct field *f, const void *m)
{
    int64_t from = i64_at(m, f->offset), to = i64_at(m, f->by);

    return from >= 0 && from <= to && to <= (int64_t)f->most;
}

/* But for what is in structs of its own. */
static bool field_holds(const struct field *f, const void *m, const void *owner)
{
    const uint8_t *p = (const uint8_t *)m + f->offset;

    switch (f->kind) {
    case FIELD_IS_U8:
        return is_in_field_range(f, *p);
    case FIELD_IS_U32:
        return is_in_field_range(f, u32_at(m, f->offset));
    case FIELD_IS_U64:
        return is_in_field_range(f, (uint64_t)i64_at(m, f->offset));
    case FIELD_IS_I64:
        return signed_within(i64_at(m, f->offset), f->least, f->most);
    case FIELD_IS_CODE:
        return signed_within((int32_t)u32_at(m, f->offset), f->least, f->most);
    case FIELD_IS_F32:
        return *(const float *)p >= f->low && *(const float *)p <= f->high; /* NaN is not */
    case FIELD_IS_SPAN:
        return span_holds(f, m);
    case FIELD_IS_STRING:
        return string_holds(f, pointer_at(m, f->offset));
    case FIELD_IS_BYTES:
    case FIELD_IS_HEAD:
        return *(const size_t *)((const uint8_t *)m + f->by) <= f->most;
    case FIELD_IS_CHARS:
        return memchr(p, 0, f->most) && utf8_valid(p, strlen((const char *)p));
    case FIELD_IS_ARRAY:
        return u32_at(m, f->by) <= f->most;
    case FIELD_IS_UNIT:
        return unit_holds(f, pointer_at(m, f->offset), u32_at(owner, f->by));
    case FIELD_IS_F32S:
        return all_finite(pointer_at(m, f->offset), block_of(f, m));
    default:
        return true;
    }
}

static bool array_holds(const struct field *f, const void *m)
{
    const uint8_t *list = pointer_at(m, f->offset);

    for (size_t i = 0; i < u32_at(m, f->by); i++)
        if (!list_holds(f->of, f->of_count, list + i * f->stride, m))
            return false;
    return true;
}

/* Checks the fields of nested structs. */
static bool inside_holds(const struct field *f, const void *m)
{
    const uint8_t *p = (const uint8_t *)m + f->offset;

    switch (f->kind) {
    case FIELD_IS_STRUCT:
        return list_holds(f->of, f->of_count, p, m);
    case FIELD_IS_ONE:
        p = pointer_at(m, f->offset);
        return !p || list_holds(f->of, f->of_count, p, m);
    case FIELD_IS_ARRAY:
        return array_holds(f, m);
    default:
        return true;
    }
}

static bool list_holds(const struct field *list, size_t count, const void *m, const void *owner)
{
    for (size_t i = 0; i < count && !ends_at(&list[i], m); i++)
        if (!field_holds(&list[i], m, owner) || !inside_holds(&list[i], m))
            return false;
    return true;
}

bool fields_hold(const struct fields *k, const void *m)
{
    return list_holds(k->list, k->count, m, NULL) && (!k->holds || k->holds(m));
}
/* ---- writing */

static void put_list(struct buf *out, const struct field *list, size_t count, const void *m,
                     const void *owner);

static void put_floats(struct buf *out, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_put_f32(out, v[i]);
}

/* The values that FIELD_UNIT puts behind all elements. */
static void put_units(struct buf *out, const struct field *array, const void *element,
                      const void *owner)
{
    for (size_t i = 0; i < array->of_count; i++) {
        const struct field *f = &array->of[i];
        const float *v = f->kind == FIELD_IS_UNIT ? pointer_at(element, f->offset) : NULL;

        if (v)
            put_floats(out, v, u32_at(owner, f->by));
    }
}

static void put_array(struct buf *out, const struct field *f, const void *m)
{
    const uint8_t *list = pointer_at(m, f->offset);
    uint32_t n = u32_at(m, f->by);

    buf_put_u32(out, n);
    for (size_t i = 0; i < n; i++)
        put_list(out, f->of, f->of_count, list + i * f->stride, m);
    for (size_t i = 0; i < n; i++)
        put_units(out, f, list + i * f->stride, m);
}

/* Writes a field behind a pointer. */
static void put_owned(struct buf *out, const struct field *f, const void *m, const void *owner)
{
    const void *p = pointer_at(m, f->offset);

    switch (f->kind) {
    case FIELD_IS_STRING:
        if (f->optional)
            buf_put_u8(out, p != NULL);
        if (p || !f->optional)
            buf_put_str(out, p);
        return;
    case FIELD_IS_BYTES:
        buf_put_bytes(out, p, *size_at((void *)m, f->by));
        return;
    case FIELD_IS_ONE:
        buf_put_u8(out, p != NULL);
        if (p)
            put_list(out, f->of, f->of_count, p, m);
        return;
    case FIELD_IS_ARRAY:
        put_array(out, f, m);
        return;
    case FIELD_IS_UNIT:
        if (f->optional)
            buf_put_u8(out, p && u32_at(owner, f->by));
        return;
    case FIELD_IS_U8S:
        buf_put(out, p, block_of(f, m));
        return;
    default: /* FIELD_IS_F32S */
        put_floats(out, p, block_of(f, m));
        return;
    }
}

static void put_span(struct buf *out, int64_t from, int64_t to)
{
    buf_put_i64(out, from);
    buf_put_i64(out, out->packed ? to - from : to);
}

static void put_field(struct buf *out, const struct field *f, const void *m, const void *owner)
{
    const uint8_t *p = (const uint8_t *)m + f->offset;

    switch (f->kind) {
    case FIELD_IS_U8:
        buf_put_u8(out, *p);
        return;
    case FIELD_IS_BOOL:
        buf_put_u8(out, *(const bool *)p);
        return;
    case FIELD_IS_U32:
    case FIELD_IS_CODE:
        buf_put_u32(out, *(const uint32_t *)p);
        return;
    case FIELD_IS_U64:
    case FIELD_IS_I64:
        buf_put_u64(out, *(const uint64_t *)p);
        return;
    case FIELD_IS_F32:
        buf_put_f32(out, *(const float *)p);
        return;
    case FIELD_IS_SPAN:
        put_span(out, i64_at(m, f->offset), i64_at(m, f->by));
        return;
    case FIELD_IS_CHARS:
        buf_put_str(out, (const char *)p);
        return;
    case FIELD_IS_HEAD:
        buf_put_bytes(out, p, *size_at((void *)m, f->by));
        return;
    case FIELD_IS_FIXED:
        buf_put(out, p, f->most);
        return;
    case FIELD_IS_STRUCT:
        put_list(out, f->of, f->of_count, p, m);
        return;
    case FIELD_IS_REST:
        return;
    default:
        put_owned(out, f, m, owner);
        return;
    }
}

static void put_list(struct buf *out, const struct field *list, size_t count, const void *m,
                     const void *owner)
{
    for (size_t i = 0; i < count && !ends_at(&list[i], m); i++)
        put_field(out, &list[i], m, owner);
}

void fields_put(struct buf *out, const struct fields *k, const void *m)
{
    put_list(out, k->list, k->count, m, NULL);
}

void fields_pack(struct buf *out, const struct fields *k, const void *m)
{
    bool was = out->packed;

    out->packed = true;
    put_list(out, k->list, k->count, m, NULL);
    out->packed = was;
}

/* ---- reading: what does not hold makes the reader fail, so that one test at the end is enough */

static void get_list(struct reader *r, const struct field *list, size_t count, void *m,
                     const void *owner);

static void fail_unless(struct reader *r, bool holds)
{
    if (!holds)
        r->failed = true;
}

/* Allocates n zeroed things; NULL: the reader has failed, or fails now. */
static void *memory_for(struct reader *r, size_t n, size_t bytes)
{
    void *p = r->failed ? NULL : calloc(n ? n : 1, bytes);

    if (!p && !r->failed)
        r->failed = r->no_memory = true;
    return p;
}

/* Whether n things of at least `bytes` bytes each can follow. */
static bool can_hold(const struct reader *r, size_t n, size_t bytes)
{
    return !r->failed && (n == 0 || bytes <= (r->len - r->pos) / n);
}

static bool get_bool(struct reader *r)
{
    uint8_t v = reader_u8(r);

    fail_unless(r, v <= 1);
    return v == 1;
}

static float *get_floats(struct reader *r, size_t n)
{
    float *v;

    fail_unless(r, can_hold(r, n, sizeof(*v)));
    v = n ? memory_for(r, n, sizeof(*v)) : NULL;
    for (size_t i = 0; i < n && v; i++)
        v[i] = reader_f32(r);
    return v;
}

static void get_string(struct reader *r, const struct field *f, void *m)
{
    if (!f->optional || get_bool(r))
        set_pointer(m, f->offset, reader_str(r, f->most));
}

static void get_chars(struct reader *r, const struct field *f, uint8_t *to)
{
    size_t len;
    const uint8_t *p = reader_bytes(r, f->most - 1, &len);

    fail_unless(r, p && !memchr(p, 0, len));
    if (p)
        memcpy(to, p, len); /* and the NUL is there */
}

/* `to` NULL: newly allocated. */
static uint8_t *get_bytes(struct reader *r, const uint8_t *from, size_t len, uint8_t *to)
{
    if (!to)
        to = memory_for(r, len, 1);
    if (to && from)
        memcpy(to, from, len);
    return to;
}

static void get_one(struct reader *r, const struct field *f, void *m)
{
    void *p = get_bool(r) ? memory_for(r, 1, f->stride) : NULL;

    set_pointer(m, f->offset, p);
    if (p)
        get_list(r, f->of, f->of_count, p, m);
}

/* Whether one follows: then it has memory already, by which get_units knows. */
static void get_unit_begin(struct reader *r, const struct field *f, void *m, const void *owner)
{
    if (!f->optional || !get_bool(r))
        return;
    fail_unless(r, u32_at(owner, f->by) > 0);
    set_pointer(m, f->offset, memory_for(r, 1, 1));
}

static void get_units(struct reader *r, const struct field *array, void *element, const void *owner)
{
    for (size_t i = 0; i < array->of_count && !r->failed; i++) {
        const struct field *f = &array->of[i];
        void *begun = f->kind == FIELD_IS_UNIT ? pointer_at(element, f->offset) : NULL;
        float *v;

        if (f->kind != FIELD_IS_UNIT || (f->optional && !begun))
            continue;
        v = get_floats(r, u32_at(owner, f->by));
        free(begun);
        set_pointer(element, f->offset, v);
        fail_unless(r, r->failed || field_holds(f, element, owner));
    }
}

static size_t least_packed(enum field_kind kind)
{
    return kind == FIELD_IS_F32 ? sizeof(float) : kind == FIELD_IS_SPAN ? 2 : 1;
}

/* The bytes that the smallest such fields take; packed ones at least one each, two of a span. */
static size_t least_bytes(const struct field *list, size_t count, bool packed)
{
    static const uint8_t of_kind[] = {
        [FIELD_IS_U8] = 1,    [FIELD_IS_U32] = 4,    [FIELD_IS_U64] = 8,   [FIELD_IS_I64] = 8,
        [FIELD_IS_F32] = 4,   [FIELD_IS_BOOL] = 1,   [FIELD_IS_CODE] = 4,  [FIELD_IS_SPAN] = 16,
        [FIELD_IS_CHARS] = 4, [FIELD_IS_STRING] = 4, [FIELD_IS_BYTES] = 4, [FIELD_IS_HEAD] = 4,
        [FIELD_IS_ONE] = 1,   [FIELD_IS_ARRAY] = 4,  [FIELD_IS_REST] = 0};
    size_t n = 0;

    for (size_t i = 0; i < count && list[i].kind != FIELD_IS_REST; i++)
        n += list[i].optional                  ? 1
             : list[i].kind == FIELD_IS_FIXED  ? list[i].most
             : list[i].kind == FIELD_IS_STRUCT ? least_bytes(list[i].of, list[i].of_count, packed)
             : packed && of_kind[list[i].kind] > 1 ? least_packed(list[i].kind)
                                                   : of_kind[list[i].kind];
    return n;
}

static void get_array(struct reader *r, const struct field *f, void *m)
{
    uint32_t n = reader_u32(r);
    uint8_t *list;

    fail_unless(r, n <= f->most && can_hold(r, n, least_bytes(f->of, f->of_count, r->packed)));
    list = n ? memory_for(r, n, f->stride) : NULL;
    if (!list)
        return;
    set_pointer(m, f->offset, list);
    *(uint32_t *)((uint8_t *)m + f->by) = n; /* all of them zeros, or whole */
    for (size_t i = 0; i < n && !r->failed; i++)
        get_list(r, f->of, f->of_count, list + i * f->stride, m);
    for (size_t i = 0; i < n && !r->failed; i++)
        get_units(r, f, list + i * f->stride, m);
}

/* Reads a field into memory of its own. */
static void get_owned(struct reader *r, const struct field *f, void *m, const void *owner)
{
    const uint8_t *from;

    switch (f->kind) {
    case FIELD_IS_STRING:
        get_string(r, f, m);
        return;
    case FIELD_IS_BYTES:
        from = reader_bytes(r, f->most, size_at(m, f->by));
        set_pointer(m, f->offset, get_bytes(r, from, *size_at(m, f->by), NULL));
        return;
    case FIELD_IS_ONE:
        get_one(r, f, m);
        return;
    case FIELD_IS_ARRAY:
        get_array(r, f, m);
        return;
    case FIELD_IS_UNIT:
        get_unit_begin(r, f, m, owner);
        return;
    case FIELD_IS_U8S:
        from = reader_raw(r, block_of(f, m));
        set_pointer(m, f->offset, get_bytes(r, from, block_of(f, m), NULL));
        return;
    default: /* FIELD_IS_F32S */
        set_pointer(m, f->offset, get_floats(r, block_of(f, m)));
        return;
    }
}

static void get_span(struct reader *r, int64_t *from, int64_t *to)
{
    int64_t second;

    *from = reader_i64(r);
    second = reader_i64(r);
    if (r->packed) {
        fail_unless(r, *from >= 0 && second >= 0 && second <= INT64_MAX - *from);
        second = r->failed ? 0 : *from + second;
    }
    *to = second;
}

static void get_field(struct reader *r, const struct field *f, void *m, const void *owner)
{
    uint8_t *p = (uint8_t *)m + f->offset;
    const uint8_t *from;

    switch (f->kind) {
    case FIELD_IS_U8:
        *p = reader_u8(r);
        return;
    case FIELD_IS_BOOL:
        *(bool *)p = get_bool(r);
        return;
    case FIELD_IS_U32:
        *(uint32_t *)p = reader_u32(r);
        return;
    case FIELD_IS_U64:
        *(uint64_t *)p = reader_u64(r);
        return;
    case FIELD_IS_I64:
        *(int64_t *)p = reader_i64(r);
        return;
    case FIELD_IS_CODE:
        *(int *)p = (int32_t)reader_u32(r);
        return;
    case FIELD_IS_F32:
        *(float *)p = reader_f32(r);
        return;
    case FIELD_IS_SPAN:
        get_span(r, (int64_t *)p, (int64_t *)((uint8_t *)m + f->by));
        return;
    case FIELD_IS_CHARS:
        get_chars(r, f, p);
        return;
    case FIELD_IS_HEAD:
        from = reader_bytes(r, f->most, size_at(m, f->by));
        get_bytes(r, from, *size_at(m, f->by), p);
        return;
    case FIELD_IS_FIXED:
        get_bytes(r, reader_raw(r, f->most), f->most, p);
        return;
    case FIELD_IS_STRUCT:
        get_list(r, f->of, f->of_count, p, m);
        return;
    case FIELD_IS_REST:
        return;
    default:
        get_owned(r, f, m, owner);
        return;
    }
}

/* m must be zeroed. FIELD_UNIT's vectors are read and checked later. */
static void get_list(struct reader *r, const struct field *list, size_t count, void *m,
                     const void *owner)
{
    for (size_t i = 0; i < count && !r->failed && !ends_at(&list[i], m); i++) {
        get_field(r, &list[i], m, owner);
        fail_unless(r,
                    r->failed || list[i].kind == FIELD_IS_UNIT || field_holds(&list[i], m, owner));
    }
}

static int get_all(struct reader r, const struct fields *k, void *ret, struct err *err)
{
    memset(ret, 0, k->size);
    get_list(&r, k->list, k->count, ret, NULL);
    fail_unless(&r, r.failed || !k->holds || k->holds(ret));
    if (reader_done(&r))
        return 0;
    fields_free(k, ret);
    if (r.no_memory)
        return err_set(err, ERR_NOMEM, "no memory for a %s message", k->name);
    return err_set(err, ERR_PROTOCOL, "a malformed %s message (%zu bytes, wrong near byte %zu)",
                   k->name, r.len, r.pos);
}

int fields_get(const uint8_t *data, size_t len, const struct fields *k, void *ret, struct err *err)
{
    return get_all(reader_of(data, len), k, ret, err);
}

int fields_unpack(const uint8_t *data, size_t len, const struct fields *k, void *ret,
                  struct err *err)
{
    struct reader r = reader_of(data, len);

    r.packed = true;
    return get_all(r, k, ret, err);
}

/* ---- freeing */

static void free_list(const struct field *list, size_t count, void *m)
{
    for (size_t i = 0; i < count; i++) {
        const struct field *f = &list[i];
        uint8_t *p;

        switch (f->kind) {
        case FIELD_IS_STRUCT:
            free_list(f->of, f->of_count, (uint8_t *)m + f->offset);
            break;
        case FIELD_IS_ONE:
        case FIELD_IS_ARRAY:
            p = pointer_at(m, f->offset);
            for (size_t k = 0; p && k < (f->kind == FIELD_IS_ONE ? 1 : u32_at(m, f->by)); k++)
                free_list(f->of, f->of_count, p + k * f->stride);
            free(p);
            break;
        case FIELD_IS_STRING:
        case FIELD_IS_BYTES:
        case FIELD_IS_UNIT:
        case FIELD_IS_U8S:
        case FIELD_IS_F32S:
            free(pointer_at(m, f->offset));
            break;
        default:
            break;
        }
    }
}

void fields_free(const struct fields *k, void *m)
{
    free_list(k->list, k->count, m);
    memset(m, 0, k->size);
}
