#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max = b->max, .packed = b->packed};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
    size_t want, capacity;
    uint8_t *p;

    if (b->failed)
        return NULL;
    if (n > SIZE_MAX / 2 - b->len || (b->max && b->len + n > b->max)) {
        b->failed = true;
        return NULL;
    }
    want = b->len + n;
    if (want > b->capacity || !b->data) {
        capacity = b->capacity ? b->capacity : 64;
        while (capacity < want)
            capacity *= 2;
        p = realloc(b->data, capacity);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        b->data = p;
        b->capacity = capacity;
    }
    return b->data + b->len;
}

void buf_put(struct buf *b, const void *data, size_t n)
{
    uint8_t *p = buf_reserve(b, n);

    if (p && n) {
        memcpy(p, data, n);
        b->len += n;
    }
}

static void put_le(struct buf *b, uint64_t v, size_t n)
{
    uint8_t tmp[8];

    for (size_t i = 0; i < n; i++)
        tmp[i] = (uint8_t)(v >> (8 * i));
    buf_put(b, tmp, n);
}

void buf_put_u8(struct buf *b, uint8_t v) { put_le(b, v, 1); }
void buf_put_u16(struct buf *b, uint16_t v) { put_le(b, v, 2); }

/* LEB128, as DWARF and others have it. */
static void put_packed(struct buf *b, uint64_t v)
{
    uint8_t tmp[10];
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        tmp[n++] = (uint8_t)(v | 0x80);
    tmp[n++] = (uint8_t)v;
    buf_put(b, tmp, n);
}

static void put_number(struct buf *b, uint64_t v, size_t n)
{
    if (b->packed)
        put_packed(b, v);
    else
        put_le(b, v, n);
}

void buf_put_u32(struct buf *b, uint32_t v) { put_number(b, v, 4); }
void buf_put_u64(struct buf *b, uint64_t v) { put_number(b, v, 8); }
void buf_put_i64(struct buf *b, int64_t v) { put_number(b, (uint64_t)v, 8); }

void buf_put_f32(struct buf *b, float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof(u));
    put_le(b, u, 4);
}

void buf_put_bytes(struct buf *b, const void *data, size_t n)
{
    if (n > UINT32_MAX) {
        b->failed = true;
        return;
    }
    buf_put_u32(b, (uint32_t)n);
    buf_put(b, data, n);
}

void buf_put_str(struct buf *b, const char *s) { buf_put_bytes(b, s ? s : "", s ? strlen(s) : 0); }

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    uint8_t *p;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
    } else {
        p = buf_reserve(b, (size_t)n + 1);
        if (p) {
            vsnprintf((char *)p, (size_t)n + 1, fmt, again);
            b->len += (size_t)n;
        }
    }
    va_end(again);
}

char *buf_cstr(struct buf *b)
{
    uint8_t *p = buf_reserve(b, 1);

    if (!p)
        return NULL;
    *p = 0;
    return (char *)b->data;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

struct reader reader_of(const void *data, size_t len)
{
    return (struct reader){.data = data, .len = len};
}

const uint8_t *reader_raw(struct reader *r, size_t n)
{
    const uint8_t *p;

    if (r->failed || n > r->len - r->pos) {
        r->failed = true;
        return NULL;
    }
    p = r->data + r->pos;
    r->pos += n;
    return p;
}

static uint64_t get_le(struct reader *r, size_t n)
{
    const uint8_t *p = reader_raw(r, n);
    uint64_t v = 0;

    for (size_t i = 0; p && i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t reader_u8(struct reader *r) { return (uint8_t)get_le(r, 1); }
uint16_t reader_u16(struct reader *r) { return (uint16_t)get_le(r, 2); }

/* Fails on what put_packed does not write: more than 64 bits, or a last byte of nothing. */
static uint64_t get_packed(struct reader *r)
{
    uint64_t v = 0;
    uint8_t byte = 0x80;

    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        byte = reader_u8(r);
        if (shift > 63 || (shift == 63 && byte > 1) || (shift > 0 && byte == 0))
            r->failed = true;
        if (r->failed)
            return 0;
        v |= (uint64_t)(byte & 0x7F) << shift;
    }
    return v;
}

static uint64_t get_number(struct reader *r, size_t n)
{
    return r->packed ? get_packed(r) : get_le(r, n);
}

uint32_t reader_u32(struct reader *r)
{
    uint64_t v = get_number(r, 4);

    if (v > UINT32_MAX)
        r->failed = true;
    return r->failed ? 0 : (uint32_t)v;
}

uint64_t reader_u64(struct reader *r) { return get_number(r, 8); }
int64_t reader_i64(struct reader *r) { return (int64_t)get_number(r, 8); }

float reader_f32(struct reader *r)
{
    uint32_t u = (uint32_t)get_le(r, 4);
    float v;

    memcpy(&v, &u, sizeof(v));
    return v;
}

const uint8_t *reader_bytes(struct reader *r, size_t max, size_t *len)
{
    uint32_t n = reader_u32(r);
    const uint8_t *p = NULL;

    if (n > max)
        r->failed = true;
    if (!r->failed)
        p = reader_raw(r, n);
    *len = p ? n : 0;
    return p;
}

char *reader_str(struct reader *r, size_t max)
{
    size_t n;
    const uint8_t *p = reader_bytes(r, max, &n);
    char *s;

    if (!p)
        return NULL;
    if (memchr(p, 0, n)) {
        r->failed = true;
        return NULL;
    }
    s = malloc(n + 1);
    if (!s) {
        r->failed = r->no_memory = true;
        return NULL;
    }
    memcpy(s, p, n);
    s[n] = 0;
    return s;
}

bool reader_done(const struct reader *r) { return !r->failed && r->pos == r->len; }
