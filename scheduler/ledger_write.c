/* An entry of the ledger as the store has it. */
#include <stdlib.h>

#include "scheduler/ledger_entry.h"

/* Of all segments together; NULL when there are none, or no memory. */
static struct store_word *words_of(const struct msg_shard_done *m, bool *failed)
{
    struct store_word *all, *w;
    size_t n = 0;

    for (uint32_t i = 0; i < m->segment_count; i++)
        n += m->segments[i].word_count;
    *failed = false;
    if (n == 0)
        return NULL;
    all = w = calloc(n, sizeof(*all));
    *failed = !all;
    for (uint32_t i = 0; all && i < m->segment_count; i++)
        for (uint32_t k = 0; k < m->segments[i].word_count; k++) {
            const struct msg_word *from = &m->segments[i].words[k];

            *w++ = (struct store_word){from->start_ms, from->end_ms, from->text, from->probability};
        }
    return all;
}

static void fill_segments(const struct msg_shard_done *m, const struct store_word *words,
                          struct store_segment *ret)
{
    for (uint32_t i = 0; i < m->segment_count; i++) {
        const struct msg_segment *from = &m->segments[i];

        ret[i] = (struct store_segment){
            .start_ms = from->start_ms,
            .end_ms = from->end_ms,
            .text = from->text,
            .language = from->language,
            .avg_logprob = from->avg_logprob,
            .no_speech_prob = from->no_speech_prob,
            .compression_ratio = from->compression_ratio,
            .temperature = from->temperature,
            .attempts = from->attempts,
            .speech_prob = from->speech_prob,
            .dropped = from->dropped,
            .reason = from->reason,
            .words = words,
            .word_count = from->word_count,
        };
        if (words)
            words += from->word_count;
    }
}

static void fill_sounds(const struct msg_shard_done *m, struct store_sound *ret)
{
    for (uint32_t i = 0; i < m->sound_count; i++) {
        const struct msg_sound *from = &m->sounds[i];

        ret[i] = (struct store_sound){
            .start_ms = from->start_ms,
            .end_ms = from->end_ms,
            .class_id = from->class_id,
            .name = from->name,
            .score = from->score,
        };
    }
}

static void fill_vectors(const struct ledger_entry *e, struct store_vector *ret)
{
    for (uint32_t i = 0; i < e->shard.vector_count; i++) {
        const struct msg_vector *from = &e->shard.vectors[i];

        ret[i] = (struct store_vector){
            .start_ms = from->start_ms,
            .end_ms = from->end_ms,
            .text = e->passages ? e->passages[i].text : NULL,
            .values = from->values,
            .size = e->shard.vector_size,
        };
    }
}

static struct store_voices voices_of(const struct msg_voices *v)
{
    return (struct store_voices){
        .first = v->first,
        .windows = v->windows,
        .frames = v->frames,
        .speakers = v->speakers,
        .size = v->size,
        .vector_count = v->vector_count,
        .active = v->active,
        .of = v->of,
        .vectors = v->vectors,
    };
}

/* A shard's parts as the store has them; free each. False: no memory. */
struct parts {
    struct store_segment *segments;
    struct store_word *words;
    struct store_sound *sounds;
    struct store_vector *vectors;
    struct store_voices voices;
};

static bool parts_of(const struct ledger_entry *e, struct parts *ret)
{
    const struct msg_shard_done *m = &e->shard;
    bool failed;

    *ret = (struct parts){.voices = voices_of(&m->voices)};
    ret->words = words_of(m, &failed);
    if (failed)
        return false;
    ret->segments = calloc(m->segment_count + 1u, sizeof(*ret->segments));
    ret->sounds = calloc(m->sound_count + 1u, sizeof(*ret->sounds));
    ret->vectors = calloc(m->vector_count + 1u, sizeof(*ret->vectors));
    if (!ret->segments || !ret->sounds || !ret->vectors)
        return false;
    fill_segments(m, ret->words, ret->segments);
    fill_sounds(m, ret->sounds);
    fill_vectors(e, ret->vectors);
    return true;
}

static int write_shard(struct store *st, const struct ledger_entry *e, struct err *err)
{
    const struct msg_shard_done *m = &e->shard;
    struct parts parts;
    struct store_shard_result r = {
        .task_id = e->task,
        .seq = m->seq,
        .start_ms = m->start_ms,
        .end_ms = m->end_ms,
        .language = m->language,
        .language_prob = m->language_prob,
        .windows = m->windows,
        .wall_ms = m->wall_ms,
        .device = e->device,
        .segment_count = m->segment_count,
        .sound_count = m->sound_count,
        .vector_count = m->vector_count,
    };
    int rc;

    if (parts_of(e, &parts)) {
        r.segments = parts.segments;
        r.sounds = parts.sounds;
        r.vectors = parts.vectors;
        r.voices = m->voices.windows ? &parts.voices : NULL;
        rc = store_shard_done(st, &r, err);
    } else {
        rc = err_set(err, ERR_NOMEM, "no memory for a shard's results");
    }
    free(parts.segments);
    free(parts.words);
    free(parts.sounds);
    free(parts.vectors);
    return rc;
}

static int write_settled(struct store *st, const struct ledger_entry *e, struct err *err)
{
    const struct msg_settled *m = &e->settled;
    struct store_speaker *speakers = calloc(m->speaker_count + 1u, sizeof(*speakers));
    struct store_turn *turns = calloc(m->turn_count + 1u, sizeof(*turns));
    int rc;

    for (uint32_t i = 0; speakers && i < m->speaker_count; i++)
        speakers[i] = (struct store_speaker){
            .speech_ms = m->speakers[i].speech_ms,
            .values = m->speakers[i].values,
            .size = m->speakers[i].values ? m->size : 0,
        };
    for (uint32_t i = 0; turns && i < m->turn_count; i++)
        turns[i] = (struct store_turn){
            .start_ms = m->turns[i].start_ms,
            .end_ms = m->turns[i].end_ms,
            .speaker = m->turns[i].speaker,
        };
    if (speakers && turns)
        rc = store_settled(st, e->task, speakers, m->speaker_count, turns, m->turn_count, err);
    else
        rc = err_set(err, ERR_NOMEM, "no memory for a recording's speakers");
    free(speakers);
    free(turns);
    return rc;
}

int ledger_entry_write(struct store *st, const struct ledger_entry *e, struct err *err)
{
    switch (e->kind) {
    case LEDGER_SHARD:
        return write_shard(st, e, err);
    case LEDGER_SETTLED:
        return write_settled(st, e, err);
    case LEDGER_MEDIA: {
        struct store_media_info info = {
            .media_id = e->media,
            .duration_ms = e->info.duration_ms,
            .sample_rate_hz = e->info.sample_rate_hz,
            .channels = e->info.channels,
            .container = e->info.container,
            .codec = e->info.codec,
            .title = e->info.title,
        };
        return store_media_info(st, &info, err);
    }
    case LEDGER_MEDIA_END:
        return store_media_end(st, e->media, e->end.total_ms,
                               e->end.has_hash ? e->end.content_hash : NULL, e->end.damage, err);
    case LEDGER_TOTAL:
        return store_task_total(st, e->task, e->total, err);
    case LEDGER_FAILED:
        return store_task_failed(st, e->task, e->code, e->text, e->at_ms, err);
    case LEDGER_SUSPECT:
        return store_task_suspect(st, e->task, e->total, e->at_ms, err);
    case LEDGER_EVENT:
        return store_event(st, e->label, e->media, e->device, e->text, err);
    case LEDGER_TUNING:
        return store_tuning_note(
            st, &(struct store_tuning_key){e->device, e->driver, e->text, e->label, e->decoding},
            &e->tuning, err);
    }
    return 0;
}
