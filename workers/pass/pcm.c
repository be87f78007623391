#include "workers/pass/pcm.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_SAMPLES 32768 /* 2 s: small beside a shard, large beside its header */
#define WINDOW_SAMPLES 480000

struct pcm_chunk {
    struct pcm_chunk *next;
    int64_t at; /* of data[0] in the recording */
    size_t n;   /* frames */
    int16_t data[CHUNK_SAMPLES];
};

/* Frames that a chunk of the lane holds. */
static size_t room_of(const struct pcm_lane *l) { return CHUNK_SAMPLES / l->stride; }

void pcm_lane_init(struct pcm_lane *l, struct pcm_pool *pool, uint32_t stride, int64_t start)
{
    *l = (struct pcm_lane){.pool = pool,
                           .stride = stride,
                           .start = start,
                           .cut = -1,
                           .end = start,
                           .asked = start + WINDOW_SAMPLES};
}

static void drop_first(struct pcm_lane *l)
{
    struct pcm_chunk *c = l->first;

    l->first = c->next;
    if (!l->first)
        l->last = NULL;
    l->pool->used_bytes -= sizeof(*c);
    l->held_bytes -= sizeof(*c);
    free(c);
}

void pcm_lane_free(struct pcm_lane *l)
{
    while (l->first)
        drop_first(l);
}

void pcm_pool_widen(struct pcm_pool *p, uint32_t slots, uint32_t shard_ms)
{
    uint64_t want = ((uint64_t)slots + 2) * shard_ms * (16 * sizeof(int16_t));

    want = want < PCM_BYTES_MOST ? want : PCM_BYTES_MOST;
    p->budget_bytes = p->budget_bytes > want ? p->budget_bytes : want;
}

bool pcm_pool_has_room(const struct pcm_pool *p) { return p->used_bytes < p->budget_bytes; }

bool pcm_lane_starves(const struct pcm_lane *l) { return l->end < l->asked; }

int pcm_lane_append(struct pcm_lane *l, const int16_t *pcm, size_t n, struct err *err)
{
    while (n) {
        struct pcm_chunk *c = l->last;
        size_t m;

        if (!c || c->n == room_of(l)) {
            c = malloc(sizeof(*c));
            if (!c)
                return err_set(err, ERR_NOMEM, "no memory for decoded audio");
            c->next = NULL;
            c->at = l->end;
            c->n = 0;
            if (l->last)
                l->last->next = c;
            else
                l->first = c;
            l->last = c;
            l->pool->used_bytes += sizeof(*c);
            l->held_bytes += sizeof(*c);
        }
        m = n < room_of(l) - c->n ? n : room_of(l) - c->n;
        memcpy(c->data + c->n * l->stride, pcm, m * l->stride * sizeof(*pcm));
        c->n += m;
        l->end += (int64_t)m;
        pcm += m * l->stride;
        n -= m;
    }
    return 0;
}

void pcm_lane_cut(struct pcm_lane *l) { l->cut = l->end; }

void pcm_lane_close(struct pcm_lane *l) { l->closed = true; }

/* One source's samples of n frames. Most lanes have one source: in that loop the compiler takes
 * many samples at once. */
static void convert_frames(const int16_t *from, size_t stride, size_t n, float *out)
{
    for (size_t i = 0; stride == 1 && i < n; i++)
        out[i] = (float)from[i] / 32768.0f;
    for (size_t i = 0; stride > 1 && i < n; i++)
        out[i] = (float)from[i * stride] / 32768.0f;
}

/* Released audio reads as silence: the engine has promised not to want it. */
static void copy_out(const struct pcm_lane *l, uint32_t source, int64_t at, size_t n, float *out)
{
    int64_t to = at + (int64_t)n, done = at;

    for (const struct pcm_chunk *c = l->first; c && c->at < to; c = c->next) {
        int64_t from = c->at > at ? c->at : at;
        int64_t end = c->at + (int64_t)c->n < to ? c->at + (int64_t)c->n : to;

        if (end <= from)
            continue;
        if (from > done)
            memset(out + (done - at), 0, (size_t)(from - done) * sizeof(*out));
        convert_frames(c->data + (size_t)(from - c->at) * l->stride + source, l->stride,
                       (size_t)(end - from), out + (from - at));
        done = end;
    }
    memset(out + (done - at), 0, (size_t)(to - done) * sizeof(*out));
}

int64_t pcm_lane_read(struct pcm_lane *l, uint32_t source, int64_t at, size_t n, bool ahead,
                      float *out)
{
    int64_t want = at + (int64_t)n;

    if (want > l->asked && (want <= l->end || !ahead || pcm_pool_has_room(l->pool)))
        l->asked = want;
    if (want > l->end) {
        if (!l->closed)
            return -1;
        n = at < l->end ? (size_t)(l->end - at) : 0;
    }
    copy_out(l, source, at, n, out);
    return (int64_t)n;
}

bool pcm_lane_release(struct pcm_lane *l, int64_t at)
{
    bool freed = false;

    /* A chunk that is not full yet is still written to. */
    while (l->first && l->first->at + (int64_t)l->first->n <= at &&
           (l->first->n == room_of(l) || l->closed)) {
        drop_first(l);
        freed = true;
    }
    return freed;
}
