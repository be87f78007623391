#include "workers/pass/shard_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "workers/wire/frame.h"
#include "workers/stages/stage.h"
#include "workers/pass/lease.h"

#define SAMPLES_PER_MS 16

/* ---- the sources of a shard: pure */

static int64_t text_ms(const struct msg_shard_done *m)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < m->segment_count; i++)
        if (!m->segments[i].dropped)
            sum += m->segments[i].end_ms - m->segments[i].start_ms;
    return sum;
}

/* Each source's speech counts by itself; where one was not listened to, nothing is known of all. */
static struct result_account sum_accounts(const struct msg_shard_done *const *of, uint32_t n)
{
    struct result_account sum = {0};

    for (uint32_t i = 0; i < n; i++) {
        if (of[i]->account.speech_ms < 0)
            return of[i]->account;
        sum.speech_ms += of[i]->account.speech_ms;
        sum.dropped_ms += of[i]->account.dropped_ms;
        sum.missing_ms += of[i]->account.missing_ms;
    }
    return sum;
}

static int merge_segments(const struct msg_shard_done *const *of, uint32_t n,
                          struct msg_shard_done *ret, struct err *err)
{
    uint32_t next[RESULT_SOURCES_MAX] = {0};
    uint64_t all = 0;

    for (uint32_t i = 0; i < n; i++)
        all += of[i]->segment_count;
    ret->segments = all < UINT32_MAX ? calloc(all + 1, sizeof(*ret->segments)) : NULL;
    if (!ret->segments)
        return err_set(err, ERR_NOMEM, "no memory for a shard's segments");
    /* Each source's are ascending; of those that begin together the first source's comes first. */
    for (ret->segment_count = 0; ret->segment_count < all; ret->segment_count++) {
        uint32_t first = n;

        for (uint32_t i = 0; i < n; i++)
            if (next[i] < of[i]->segment_count &&
                (first == n ||
                 of[i]->segments[next[i]].start_ms < of[first]->segments[next[first]].start_ms))
                first = i;
        ret->segments[ret->segment_count] = of[first]->segments[next[first]++];
        ret->segments[ret->segment_count].source = first + 1;
    }
    return 0;
}

/* ---- voices */

static bool are_voices_compatible(const struct result_voices *a, const struct result_voices *b)
{
    return a->first == b->first && a->windows == b->windows && a->frames == b->frames &&
           a->size == b->size;
}

/* The mean direction of a window's vectors in one source, from *next on; false: there is none. */
static bool mean_vector(const struct result_voices *v, uint32_t window, uint32_t *next, float *ret)
{
    double norm = 0;
    bool any = false;

    memset(ret, 0, v->size * sizeof(*ret));
    for (; *next < v->vector_count && v->of[*next] / v->speakers == window; ++*next) {
        for (uint32_t i = 0; i < v->size; i++)
            ret[i] += v->vectors[(size_t)*next * v->size + i];
        any = true;
    }
    for (uint32_t i = 0; i < v->size; i++)
        norm += (double)ret[i] * ret[i];
    if (!any || !(norm > 0) || !isfinite(norm))
        return false;
    for (uint32_t i = 0; i < v->size; i++)
        ret[i] = (float)(ret[i] / sqrt(norm));
    return true;
}

static int room_for(const struct msg_shard_done *const *of, uint32_t n, uint8_t **active,
                    uint32_t **whose, float **vectors, struct err *err)
{
    const struct result_voices *v = &of[0]->voices;

    *active = calloc((size_t)v->windows * v->frames + 1, 1);
    *whose = calloc((size_t)v->windows * n + 1, sizeof(**whose));
    *vectors = calloc((size_t)v->windows * n * v->size + 1, sizeof(**vectors));
    return *active && *whose && *vectors
               ? 0
               : err_set(err, ERR_NOMEM, "no memory for a shard's voices");
}

static int merge_voices(const struct msg_shard_done *const *of, uint32_t n,
                        struct msg_shard_done *ret, struct err *err)
{
    struct result_voices *to = &ret->voices;
    uint32_t next[RESULT_SOURCES_MAX] = {0}, *whose = NULL;
    uint8_t *active = NULL;
    float *vectors = NULL;
    int rc;

    for (uint32_t i = 1; i < n; i++)
        if (!are_voices_compatible(&of[0]->voices, &of[i]->voices))
            return err_set(err, ERR_INPUT, "its sources were heard in different windows");
    *to = of[0]->voices;
    to->speakers = to->windows ? n : 0;
    to->vector_count = 0;
    to->active = NULL;
    to->of = NULL;
    to->vectors = NULL;
    if (!to->windows)
        return 0;
    rc = room_for(of, n, &active, &whose, &vectors, err);
    to->active = active;
    to->of = whose;
    to->vectors = vectors;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        for (size_t f = 0; f < (size_t)to->windows * to->frames; f++)
            active[f] |= (uint8_t)((of[i]->voices.active[f] != 0) << i);
    for (uint32_t w = 0; rc == 0 && w < to->windows; w++)
        for (uint32_t i = 0; i < n; i++)
            if (mean_vector(&of[i]->voices, w, &next[i],
                            vectors + (size_t)to->vector_count * to->size))
                whose[to->vector_count++] = w * n + i;
    return rc;
}

int shard_sources_merge(const struct msg_shard_done *const *of, uint32_t n,
                        struct msg_shard_done *ret, struct err *err)
{
    uint32_t most = 0;
    int rc;

    *ret = *of[0];
    ret->segments = NULL;
    ret->voices = (struct result_voices){0};
    for (uint32_t i = 1; i < n; i++) {
        ret->windows += of[i]->windows;
        most = text_ms(of[i]) > text_ms(of[most]) ? i : most;
    }
    ret->account = sum_accounts(of, n);
    ret->language = of[most]->language;
    ret->language_prob = of[most]->language_prob;
    rc = merge_segments(of, n, ret, err);
    return rc == 0 ? merge_voices(of, n, ret, err) : rc;
}

void shard_sources_free(struct msg_shard_done *m)
{
    free(m->segments);
    free((void *)(uintptr_t)m->voices.active);
    free((void *)(uintptr_t)m->voices.of);
    free((void *)(uintptr_t)m->voices.vectors);
}

/* ---- the messages */

void report_failed(struct worker *w, const struct lease *l, const struct track *t, uint32_t seq,
                   const struct err *why)
{
    struct buf b = BUF_INIT;
    char *sentence = worker_sentence(why);
    struct msg_shard_failed m = {
        .lease_id = l->msg.lease_id,
        .media_id = l->msg.media_id,
        .track = t->stage,
        .seq = seq,
        .code = why->code,
        .message = sentence,
    };

    msg_shard_failed_put(&b, &m);
    outbox_post(&w->out, MSG_SHARD_FAILED, &b);
    free(sentence);
}

/* A stage's result as a message that borrows all of it. */
static struct msg_shard_done message_of(const struct shard *s, const struct stage_result *r)
{
    struct msg_shard_done m = {
        .lease_id = s->lease->msg.lease_id,
        .media_id = s->lease->msg.media_id,
        .track = s->track->stage,
        .seq = s->seq,
        .start_ms = s->pcm.start / SAMPLES_PER_MS,
        .end_ms = s->pcm.cut / SAMPLES_PER_MS,
        .language = (char *)r->language,
        .language_prob = result_probability(r->language_prob),
        .windows = r->windows,
        .wall_ms = (uint32_t)(clock_mono_ms() - s->begun_ms),
        .segment_count = r->segment_count,
        .segments = (struct result_segment *)r->segments,
        .account = r->account,
        .sound_count = r->sound_count,
        .sounds = (struct result_sound *)r->sounds,
        .vector_count = r->vector_count,
        .vector_size = r->vector_count ? r->vector_size : 0,
        .vectors = (struct result_vector *)r->vectors,
        .voices = r->voices,
    };

    m.shards = lease_total(s->worker, s->lease, &m.total_ms);
    return m;
}

/* The result must be one that the scheduler can read: otherwise it would close a worker that did
 * nothing wrong, again and again. */
static int encode_shard_result(const struct msg_shard_done *m, struct buf *out, struct err *err)
{
    if (!fields_hold(msg_fields(MSG_SHARD_DONE), m))
        return err_set(err, ERR_INPUT, "the model gave a result that cannot be stored");
    msg_shard_done_put(out, m);
    if (out->failed)
        return err_set(err, ERR_NOMEM, "no memory to report a shard");
    if (out->len > FRAME_MAX)
        return err_set(err, ERR_LIMIT, "the shard gave more than a message can hold");
    return 0;
}

int report_encode(const struct shard *s, const struct stage_result *r, struct buf *out,
                  struct err *err)
{
    const struct msg_shard_done m = message_of(s, r);

    return encode_shard_result(&m, out, err);
}

/* By way of its bytes, which are a copy of all that it borrows. */
int report_keep(struct shard_part *p, const struct stage_result *r, struct err *err)
{
    const struct msg_shard_done m = message_of(p->shard, r);
    struct buf b = BUF_INIT;
    int rc = encode_shard_result(&m, &b, err);

    p->kept = rc == 0 ? calloc(1, sizeof(*p->kept)) : NULL;
    if (rc == 0 && !p->kept)
        rc = err_set(err, ERR_NOMEM, "no memory to report a shard");
    if (rc == 0)
        rc = msg_shard_done_get(b.data, b.len, p->kept, err);
    buf_free(&b);
    return rc;
}

void report_forget(struct shard_part *p)
{
    if (p->kept)
        msg_shard_done_free(p->kept);
    free(p->kept);
    p->kept = NULL;
}

int report_encode_parts(const struct shard *s, struct buf *out, struct err *err)
{
    const struct stage_result nothing = {.language = "", .account.speech_ms = -1};
    const struct msg_shard_done now = message_of(s, &nothing);
    const struct msg_shard_done *of[SHARD_PARTS_MAX];
    struct msg_shard_done m;
    int rc;

    for (uint32_t i = 0; i < s->part_count; i++)
        of[i] = s->parts[i].kept;
    rc = shard_sources_merge(of, s->part_count, &m, err);
    /* These may have changed since the first part was kept. */
    m.end_ms = now.end_ms;
    m.wall_ms = now.wall_ms;
    m.shards = now.shards;
    m.total_ms = now.total_ms;
    if (rc == 0)
        rc = encode_shard_result(&m, out, err);
    shard_sources_free(&m);
    return rc;
}
