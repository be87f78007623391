/* Encodes a shard's result as a message. */
#include "workers/pass/shard_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "workers/wire/frame.h"
#include "workers/stages/stage.h"
#include "workers/pass/lease.h"
#include "workers/pass/shard_sources.h"

#define SAMPLES_PER_MS 16

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
