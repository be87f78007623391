/* What diarization's networks heard of a shard, as a message and as a part of one. Bounds as in
 * protocol.c. */
#include "workers/wire/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "workers/wire/protocol_get.h"

#define MAX_WINDOWS (LEASE_SHARD_MS_MAX / 1000 + 60) /* one a second, and a cut's reach */
#define MAX_FRAMES 4096u
#define MAX_SPEAKERS 8u
#define LENGTH_SLACK 1e-3 /* of a vector of length 1 */

void put_floats(struct buf *out, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_put_f32(out, v[i]);
}

float *get_floats(struct reader *r, size_t n)
{
    float *v;

    require(r, n <= (r->len - r->pos) / 4);
    if (r->failed || n == 0)
        return NULL;
    v = malloc(n * sizeof(*v));
    require_memory(r, v);
    for (size_t i = 0; i < n && v; i++)
        v[i] = get_f32(r);
    return v;
}

void require_length_1(struct reader *r, const float *v, uint32_t size)
{
    double sum = 0;

    for (uint32_t i = 0; i < size; i++)
        sum += (double)v[i] * (double)v[i];
    require(r, fabs(sqrt(sum) - 1) <= LENGTH_SLACK);
}

/* Nothing more follows where there are no windows: all else is 0 then. */
void msg_voices_put(struct buf *out, const struct result_voices *m)
{
    buf_put_u32(out, m->windows);
    if (m->windows == 0)
        return;
    buf_put_u32(out, m->first);
    buf_put_u32(out, m->frames);
    buf_put_u32(out, m->speakers);
    buf_put_u32(out, m->size);
    buf_put(out, m->active, (size_t)m->windows * m->frames);
    buf_put_u32(out, m->vector_count);
    for (uint32_t i = 0; i < m->vector_count; i++)
        buf_put_u32(out, m->of[i]);
    put_floats(out, m->vectors, (size_t)m->vector_count * m->size);
}

static void get_active(struct reader *r, struct result_voices *m)
{
    size_t n = (size_t)m->windows * m->frames;
    const uint8_t *bytes = r->failed ? NULL : reader_raw(r, n);
    uint8_t any = 0, *active;

    if (!bytes)
        return;
    m->active = active = malloc(n);
    require_memory(r, active);
    if (!active)
        return;
    memcpy(active, bytes, n);
    for (size_t i = 0; i < n; i++)
        any |= bytes[i];
    require(r, any >> m->speakers == 0);
}

static void get_heard(struct reader *r, struct result_voices *m)
{
    uint32_t most = m->windows * m->speakers, n = get_count(r, 4 + 4 * (size_t)m->size), *of;

    require(r, n <= most);
    if (r->failed || n == 0)
        return;
    m->of = of = malloc(n * sizeof(*of));
    require_memory(r, of);
    for (uint32_t i = 0; i < n && !r->failed; i++)
        of[i] = get_u32(r, i ? of[i - 1] + 1 : 0, most - 1);
    m->vectors = get_floats(r, (size_t)n * m->size);
    m->vector_count = n;
}

void get_voices(struct reader *r, struct result_voices *m)
{
    m->windows = get_u32(r, 0, MAX_WINDOWS);
    if (r->failed || m->windows == 0)
        return;
    m->first = get_u32(r, 0, INT32_MAX);
    m->frames = get_u32(r, 1, MAX_FRAMES);
    m->speakers = get_u32(r, 1, MAX_SPEAKERS);
    m->size = get_u32(r, 1, MAX_VECTOR);
    get_active(r, m);
    if (!r->failed)
        get_heard(r, m);
}

int msg_voices_get(const uint8_t *data, size_t len, struct result_voices *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct result_voices m = {0};

    get_voices(&r, &m);
    GET_END(voices, "VOICES");
}

void msg_voices_free(struct result_voices *m)
{
    free((uint8_t *)m->active);
    free((uint32_t *)m->of);
    free((float *)m->vectors);
    memset(m, 0, sizeof(*m));
}
