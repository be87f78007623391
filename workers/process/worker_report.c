/* What a shard has yielded, as a message. */
#include "workers/process/worker_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "workers/wire/frame.h"
#include "workers/stages/stage.h"

#define SAMPLES_PER_MS 16

void report_failed(const struct shard *s, const struct err *why)
{
    struct buf b = BUF_INIT;
    char *sentence = worker_sentence(why);
    struct msg_shard_failed m = {
        .lease_id = s->lease->msg.lease_id,
        .media_id = s->lease->msg.media_id,
        .seq = s->seq,
        .code = why->code,
        .message = sentence,
    };

    msg_shard_failed_put(&b, &m);
    outbox_post(&s->worker->out, MSG_SHARD_FAILED, &b);
    free(sentence);
}

static float between_0_and_1(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

static void free_parts(struct msg_shard_done *m)
{
    for (uint32_t i = 0; m->segments && i < m->segment_count; i++)
        free(m->segments[i].words);
    free(m->segments);
    free(m->sounds);
    free(m->vectors);
}

static int put_words(const struct transcribe_segment *from, struct msg_segment *to, struct err *err)
{
    if (!from->word_count)
        return 0;
    to->words = calloc(from->word_count, sizeof(*to->words));
    if (!to->words)
        return err_set(err, ERR_NOMEM, "no memory to report %u words", from->word_count);
    to->word_count = from->word_count;
    for (uint32_t i = 0; i < from->word_count; i++)
        to->words[i] = (struct msg_word){
            .start_ms = from->words[i].start_ms,
            .end_ms = from->words[i].end_ms,
            .text = (char *)from->words[i].text,
            .probability = between_0_and_1(from->words[i].probability),
        };
    return 0;
}

static struct msg_segment put_segment(const struct transcribe_segment *from)
{
    return (struct msg_segment){
        .start_ms = from->start_ms,
        .end_ms = from->end_ms,
        .text = (char *)from->text,
        .language = (char *)from->language,
        .avg_logprob = from->avg_logprob,
        .no_speech_prob = from->no_speech_prob,
        .compression_ratio = from->compression_ratio,
        .temperature = from->temperature,
        .attempts = from->attempts,
        .speech_prob = from->speech_prob > 1 ? 1 : from->speech_prob, /* -1 stays */
        .dropped = from->dropped,
        .reason = (char *)from->reason,
    };
}

static int put_segments(const struct stage_result *r, struct msg_shard_done *m, struct err *err)
{
    int rc = 0;

    if (!r->segment_count)
        return 0;
    m->segments = calloc(r->segment_count, sizeof(*m->segments));
    if (!m->segments)
        return err_set(err, ERR_NOMEM, "no memory to report %u segments", r->segment_count);
    m->segment_count = r->segment_count;
    for (uint32_t i = 0; rc == 0 && i < r->segment_count; i++) {
        m->segments[i] = put_segment(&r->segments[i]);
        rc = put_words(&r->segments[i], &m->segments[i], err);
    }
    return rc;
}

static int put_sounds(const struct stage_result *r, struct msg_shard_done *m, struct err *err)
{
    if (!r->sound_count)
        return 0;
    m->sounds = calloc(r->sound_count, sizeof(*m->sounds));
    if (!m->sounds)
        return err_set(err, ERR_NOMEM, "no memory to report %u sounds", r->sound_count);
    m->sound_count = r->sound_count;
    for (uint32_t i = 0; i < r->sound_count; i++)
        m->sounds[i] = (struct msg_sound){
            .start_ms = r->sounds[i].start_ms,
            .end_ms = r->sounds[i].end_ms,
            .class_id = r->sounds[i].class_id,
            .name = (char *)r->sounds[i].name,
            .score = between_0_and_1(r->sounds[i].score),
        };
    return 0;
}

static int put_vectors(const struct stage_result *r, struct msg_shard_done *m, struct err *err)
{
    if (!r->vector_count)
        return 0;
    m->vectors = calloc(r->vector_count, sizeof(*m->vectors));
    if (!m->vectors)
        return err_set(err, ERR_NOMEM, "no memory to report %u vectors", r->vector_count);
    m->vector_count = r->vector_count;
    m->vector_size = r->vector_size;
    for (uint32_t i = 0; i < r->vector_count; i++)
        m->vectors[i] = (struct msg_vector){
            .start_ms = r->vectors[i].start_ms,
            .end_ms = r->vectors[i].end_ms,
            .values = (float *)r->vectors[i].values,
        };
    return 0;
}

static struct msg_voices put_voices(const struct stage_voices *v)
{
    return (struct msg_voices){
        .first = v->first,
        .windows = v->windows,
        .frames = v->frames,
        .speakers = v->speakers,
        .active = (uint8_t *)v->active,
        .size = v->size,
        .vector_count = v->vector_count,
        .of = (uint32_t *)v->of,
        .vectors = (float *)v->vectors,
    };
}

/* A stage's result as a message whose strings and values are borrowed; only the arrays are ours. */
static int make_message(const struct shard *s, const struct stage_result *r,
                        struct msg_shard_done *m, struct err *err)
{
    int rc;

    *m = (struct msg_shard_done){
        .lease_id = s->lease->msg.lease_id,
        .media_id = s->lease->msg.media_id,
        .seq = s->seq,
        .start_ms = s->pcm.start / SAMPLES_PER_MS,
        .end_ms = s->pcm.cut / SAMPLES_PER_MS,
        .language = (char *)r->language,
        .language_prob = between_0_and_1(r->language_prob),
        .windows = r->windows,
        .wall_ms = (uint32_t)(clock_mono_ms() - s->begun_ms),
        .voices = put_voices(&r->voices),
    };
    rc = put_segments(r, m, err);
    if (rc == 0)
        rc = put_sounds(r, m, err);
    return rc != 0 ? rc : put_vectors(r, m, err);
}

/* The result must be one that the scheduler can read: otherwise it would close a worker that did
 * nothing wrong, again and again. */
int report_encode(const struct shard *s, const struct stage_result *r, struct buf *out,
                  struct err *err)
{
    struct msg_shard_done m, check;
    int rc = make_message(s, r, &m, err);

    if (rc == 0)
        msg_shard_done_put(out, &m);
    free_parts(&m);
    if (rc != 0)
        return rc;
    if (out->failed)
        return err_set(err, ERR_NOMEM, "no memory to report a shard");
    if (out->len > FRAME_MAX)
        return err_set(err, ERR_LIMIT, "the shard gave more than a message can hold");
    rc = msg_shard_done_get(out->data, out->len, &check, err);
    if (rc == ERR_NOMEM)
        return rc;
    if (rc != 0)
        return err_set(err, ERR_INPUT, "the model gave a result that cannot be stored");
    msg_shard_done_free(&check);
    return 0;
}
