#include "workers/pass/split.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/audio/cut.h"

#define SAMPLES_PER_MS 16

struct splitter {
    struct split_sink sink;
    uint32_t shard_ms;
    uint32_t next;    /* the boundary whose cut comes next: audio belongs to shard next - 1 */
    bool live;        /* the sink has a shard open */
    int64_t start;    /* shard_first_sample */
    int64_t pos;      /* of the next sample */
    int64_t from, to; /* stretch of `next` */
    int16_t *stretch; /* what has come of it, frames; capacity of a whole one */
    int16_t *mix;     /* the first of each; NULL: stretch is that */
    size_t stride;
    size_t held;
};

int64_t shard_boundary(uint32_t shard_ms, uint32_t k)
{
    return (int64_t)k * shard_ms * SAMPLES_PER_MS;
}

static int64_t whole_frames(int64_t samples) { return samples - samples % CUT_FRAME_SAMPLES; }

static int64_t reach_of(uint32_t shard_ms)
{
    uint32_t ms = shard_ms / 4 < CUT_REACH_MS ? shard_ms / 4 : CUT_REACH_MS;

    return whole_frames((int64_t)ms * SAMPLES_PER_MS);
}

void shard_stretch(uint32_t shard_ms, uint32_t k, int64_t *from, int64_t *to)
{
    int64_t b = whole_frames(shard_boundary(shard_ms, k));

    *from = b - reach_of(shard_ms);
    *to = b + reach_of(shard_ms);
}

uint32_t shard_count(uint32_t shard_ms, int64_t total)
{
    int64_t nominal = (int64_t)shard_ms * SAMPLES_PER_MS;
    int64_t n = total / nominal + (total % nominal ? 1 : 0);

    if (n < 1)
        return 1;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

int64_t shard_first_sample(uint32_t shard_ms, uint32_t first)
{
    int64_t from = 0, to;

    if (first)
        shard_stretch(shard_ms, first, &from, &to);
    return from;
}

int splitter_new(uint32_t shard_ms, uint32_t first, struct split_sink sink, struct splitter **ret,
                 struct err *err)
{
    struct splitter *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory to split a recording");
    s->sink = sink;
    s->shard_ms = shard_ms;
    s->stride = 1;
    s->next = first ? first : 1;
    s->start = s->pos = shard_first_sample(shard_ms, first);
    shard_stretch(shard_ms, s->next, &s->from, &s->to);
    s->stretch = malloc((size_t)(s->to - s->from) * sizeof(*s->stretch));
    if (!s->stretch) {
        free(s);
        return err_set(err, ERR_NOMEM, "no memory to split a recording");
    }
    *ret = s;
    return 0;
}

int splitter_stride(struct splitter *s, uint32_t stride, struct err *err)
{
    size_t most = (size_t)(s->to - s->from);
    int16_t *stretch;

    if (stride < 2)
        return 0;
    stretch = realloc(s->stretch, most * stride * sizeof(*stretch));
    if (stretch)
        s->stretch = stretch;
    s->mix = malloc(most * sizeof(*s->mix));
    if (!stretch || !s->mix)
        return err_set(err, ERR_NOMEM, "no memory to split a recording");
    s->stride = stride;
    return 0;
}

void splitter_free(struct splitter *s)
{
    if (!s)
        return;
    free(s->stretch);
    free(s->mix);
    free(s);
}

static int open_shard(struct splitter *s, uint32_t shard, int64_t at, struct err *err)
{
    int rc = s->sink.open(s->sink.arg, shard, at, err);

    s->live = rc == 0;
    return rc;
}

static int close_shard(struct splitter *s, int64_t at, struct err *err)
{
    if (!s->live)
        return 0;
    s->live = false;
    return s->sink.close(s->sink.arg, at, err);
}

static int send_audio(struct splitter *s, const int16_t *pcm, size_t n, struct err *err)
{
    return s->live && n ? s->sink.audio(s->sink.arg, pcm, n, err) : 0;
}

/* Shard 0 begins with the recording, not with a cut. */
static int begin_first_shard(struct splitter *s, struct err *err)
{
    if (s->start == 0 && s->next == 1 && !s->live && s->pos == 0)
        return open_shard(s, 0, 0, err);
    return 0;
}

static int64_t find_cut(const struct splitter *s)
{
    for (size_t i = 0; s->mix && i < s->held; i++)
        s->mix[i] = s->stretch[i * s->stride];
    return cut_find(s->mix ? s->mix : s->stretch, s->held, s->from);
}

/* The stretch is complete (or the recording has ended in it): cuts there. */
static int cut_at_stretch(struct splitter *s, struct err *err)
{
    int64_t cut = find_cut(s);
    size_t before;
    int rc;

    /* A cut at the very end would leave a shard without a sample. */
    if (cut > s->from + (int64_t)s->held - 1)
        cut = s->from + (int64_t)s->held - 1;
    if (cut < s->from)
        cut = s->from;
    before = (size_t)(cut - s->from);
    rc = send_audio(s, s->stretch, before, err);
    if (rc == 0)
        rc = close_shard(s, cut, err);
    if (rc == 0)
        rc = open_shard(s, s->next, cut, err);
    if (rc == 0)
        rc = send_audio(s, s->stretch + before * s->stride, s->held - before, err);
    s->held = 0;
    s->next++;
    shard_stretch(s->shard_ms, s->next, &s->from, &s->to);
    return rc;
}

/* Takes a prefix of pcm: up to the stretch, or up to its end. */
static int consume_samples(struct splitter *s, const int16_t *pcm, size_t n, size_t *used,
                           struct err *err)
{
    int64_t until = s->pos < s->from ? s->from : s->to;
    size_t m = (int64_t)n < until - s->pos ? n : (size_t)(until - s->pos);
    int rc = 0;

    if (s->pos < s->from) {
        rc = send_audio(s, pcm, m, err);
    } else {
        memcpy(s->stretch + s->held * s->stride, pcm, m * s->stride * sizeof(*pcm));
        s->held += m;
    }
    s->pos += (int64_t)m;
    *used = m;
    if (rc == 0 && s->pos == s->to)
        rc = cut_at_stretch(s, err);
    return rc;
}

int splitter_feed(struct splitter *s, const int16_t *pcm, size_t n, int64_t at, struct err *err)
{
    int rc = begin_first_shard(s, err);

    if (rc != 0)
        return rc;
    if (at < 0 || at > s->pos)
        return err_set(err, ERR_INPUT, "its audio has a gap at sample %lld", (long long)s->pos);
    if (s->pos - at >= (int64_t)n)
        return 0;
    pcm += (size_t)(s->pos - at) * s->stride;
    n -= (size_t)(s->pos - at);
    while (rc == 0 && n) {
        size_t used = 0;

        rc = consume_samples(s, pcm, n, &used, err);
        pcm += used * s->stride;
        n -= used;
    }
    return rc;
}

int splitter_end(struct splitter *s, int64_t total, struct err *err)
{
    int rc;

    if (total < 0 || (s->pos != total && (total > s->start || s->pos > s->start)))
        return err_set(err, ERR_INPUT, "its audio ends at sample %lld, though %lld were announced",
                       (long long)s->pos, (long long)total);
    rc = begin_first_shard(s, err);
    if (rc == 0 && total > shard_boundary(s->shard_ms, s->next))
        rc = cut_at_stretch(s, err);
    if (rc == 0)
        rc = send_audio(s, s->stretch, s->held, err);
    if (rc == 0)
        rc = close_shard(s, total, err);
    s->held = 0;
    return rc;
}
