/* workers/wire/protocol_get.h - values of messages, read and held against their bounds: for
 * protocol*.c alone. */
#ifndef NIGHTSHIFT_WORKERS_WIRE_PROTOCOL_GET_H
#define NIGHTSHIFT_WORKERS_WIRE_PROTOCOL_GET_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/wire/protocol.h"

#define MAX_NAME 256u /* devices, codecs, versions, hashes */
#define MAX_LANGUAGE 15u
#define MAX_MESSAGE 8192u /* sentences for people */
#define MAX_PARAMS (64u << 10)
#define MAX_PATH (128u << 10) /* the kernel takes 4096; enqueue may have seen longer ones */
#define MAX_MEMBER (1u << 20) /* pax headers know no bound */
#define MAX_TEXT (64u << 10)  /* of one segment or passage: a window has at most some 2 KiB */
#define MAX_VECTOR 4096u      /* values */

static inline int malformed(const struct reader *r, const char *name, struct err *err)
{
    if (r->no_memory)
        return err_set(err, ERR_NOMEM, "no memory for a %s message", name);
    return err_set(err, ERR_PROTOCOL, "a malformed %s message (%zu bytes, wrong near byte %zu)",
                   name, r->len, r->pos);
}

/* Ends a get: what does not hold makes the reader fail, so that one test at the end is enough. */
static inline void require(struct reader *r, bool holds)
{
    if (!holds)
        r->failed = true;
}

static inline void require_memory(struct reader *r, const void *p)
{
    if (!p)
        r->failed = r->no_memory = true;
}

static inline bool get_bool(struct reader *r)
{
    uint8_t v = reader_u8(r);

    require(r, v <= 1);
    return v == 1;
}

static inline char *get_text(struct reader *r, size_t max)
{
    char *s = reader_str(r, max);

    require(r, s && utf8_valid(s, strlen(s)));
    return s;
}

static inline int64_t get_ms(struct reader *r, int64_t least)
{
    int64_t v = reader_i64(r);

    require(r, v >= least && v <= PROTOCOL_MAX_MS);
    return v;
}

static inline int32_t get_code(struct reader *r, bool may_be_ok)
{
    int32_t v = (int32_t)reader_u32(r);

    require(r, v >= ERR_CRASH && v <= (may_be_ok ? 0 : -1));
    return v;
}

static inline float get_f32(struct reader *r)
{
    float v = reader_f32(r);

    require(r, isfinite(v));
    return v;
}

static inline uint32_t get_u32(struct reader *r, uint32_t least, uint32_t most)
{
    uint32_t v = reader_u32(r);

    require(r, v >= least && v <= most);
    return v;
}

/* Of an array whose elements take so many bytes at least: what cannot be there is not believed. */
static inline uint32_t get_count(struct reader *r, size_t element_bytes)
{
    uint32_t n = reader_u32(r);

    require(r, n <= (r->len - r->pos) / element_bytes);
    return r->failed ? 0 : n;
}

/* A block of finite floats, newly allocated; NULL when there are none, or it failed. n: at most as
 * many as the bytes were checked to hold. */
float *get_floats(struct reader *r, size_t n);
void put_floats(struct buf *out, const float *v, size_t n);
/* Of the vectors that are promised to be of length 1. */
void require_length_1(struct reader *r, const float *v, uint32_t size);
/* The body of a VOICES message, which SHARD_DONE has too. */
void get_voices(struct reader *r, struct result_voices *m);

/* Times real time: from 0, for unknown, up. */
static inline float get_rate(struct reader *r)
{
    float v = get_f32(r);

    require(r, v >= 0);
    return v;
}

static inline float get_probability(struct reader *r)
{
    float v = get_f32(r);

    require(r, v >= 0 && v <= 1);
    return v;
}

/* Of memory: the catalog keeps it as a signed integer. */
static inline uint64_t get_bytes(struct reader *r)
{
    uint64_t v = reader_u64(r);

    require(r, v <= INT64_MAX);
    return v;
}

static inline void get_16(struct reader *r, uint8_t out[16])
{
    const uint8_t *p = reader_raw(r, 16);

    if (p)
        memcpy(out, p, 16);
}

/* The common end of every get; `m` is the local message, `r` its reader. */
#define GET_END(name, label)                  \
    do {                                      \
        if (!reader_done(&r)) {               \
            msg_##name##_free(&m);            \
            memset(ret, 0, sizeof(*ret));     \
            return malformed(&r, label, err); \
        }                                     \
        *ret = m;                             \
        return 0;                             \
    } while (0)

#endif
