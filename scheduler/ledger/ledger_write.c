/* An entry of the ledger as the store has it. */
#include <stdlib.h>

#include "scheduler/ledger/ledger_entry.h"

static void fill_vectors(const struct ledger_shard *s, struct store_vector *ret)
{
    for (uint32_t i = 0; i < s->said.vector_count; i++) {
        const struct result_vector *from = &s->said.vectors[i];

        ret[i] = (struct store_vector){
            .start_ms = from->start_ms,
            .end_ms = from->end_ms,
            .text = s->passages ? s->passages[i].text : NULL,
            .values = from->values,
            .size = s->said.vector_size,
        };
    }
}

static int write_shard(struct store *st, int64_t task, const struct ledger_shard *s,
                       struct err *err)
{
    const struct msg_shard_done *m = &s->said;
    struct store_vector *vectors = calloc(m->vector_count + 1u, sizeof(*vectors));
    const struct store_shard_result r = {
        .task_id = task,
        .seq = m->seq,
        .start_ms = m->start_ms,
        .end_ms = m->end_ms,
        .language = m->language,
        .language_prob = m->language_prob,
        .windows = m->windows,
        .wall_ms = m->wall_ms,
        .device = s->device,
        .segments = m->segments,
        .segment_count = m->segment_count,
        .account = m->account,
        .sounds = m->sounds,
        .sound_count = m->sound_count,
        .vectors = vectors,
        .vector_count = m->vector_count,
        .voices = m->voices.windows ? &m->voices : NULL,
        .shards = s->shards,
    };
    int rc;

    if (vectors)
        fill_vectors(s, vectors);
    rc = vectors ? store_shard_done(st, &r, err)
                 : err_set(err, ERR_NOMEM, "no memory for a shard's results");
    free(vectors);
    return rc;
}

static int write_media(struct store *st, const struct ledger_media *m, struct err *err)
{
    const struct store_media_info info = {
        .duration_ms = m->info.duration_ms,
        .sample_rate_hz = m->info.sample_rate_hz,
        .channels = m->info.channels,
        .audio_tracks = m->info.audio_tracks,
        .no_sound = m->info.no_sound,
        .container = m->info.container,
        .codec = m->info.codec,
        .tags = m->info.tags,
        .tag_count = m->info.tag_count,
    };
    const struct store_heard heard = {
        .sources = m->info.sources,
        .count = m->info.source_count,
        .left_out = m->info.left_out,
        .mix_left_out = m->info.mix_left_out,
    };
    const struct store_media_end end = {
        .total_ms = m->end.total_ms,
        .content_hash = m->end.has_hash ? m->end.content_hash : NULL,
        .damage = m->end.damage,
        .clock = m->end.clock,
        .channels = m->end.channels,
        .channel_count = m->end.channel_count,
    };
    int rc =
        store_media(st, m->media_id, m->has_info ? &info : NULL, m->has_end ? &end : NULL, err);

    for (uint32_t i = 0; rc == 0 && i < m->heard_count; i++)
        rc = store_task_heard(st, m->heard_by[i], &heard, err);
    return rc;
}

int ledger_entry_write(struct store *st, const struct ledger_entry *e, struct err *err)
{
    switch (e->kind) {
    case LEDGER_SHARD:
        return write_shard(st, e->task, &e->shard, err);
    case LEDGER_SETTLED:
        return store_settled(st, e->task, &e->settled.people, err);
    case LEDGER_MEDIA:
        return write_media(st, &e->media, err);
    case LEDGER_TOTAL:
        return store_task_total(st, e->task, e->total, err);
    case LEDGER_FAILED:
        return store_task_failed(st, e->task, e->failed.code, e->failed.message,
                                 e->failed.retry_at_ms, err);
    case LEDGER_SUSPECT:
        return store_task_suspect(st, e->task, e->suspect.deaths, e->suspect.retry_at_ms, err);
    case LEDGER_EVENT:
        return store_event(st, e->event.kind, e->event.media_id, e->event.device, e->event.text,
                           err);
    case LEDGER_TUNING:
        return store_tuning_note(st, &e->tuning.key, &e->tuning.tuning, err);
    case LEDGER_RUN:
        return store_run_note(st, &e->run, err);
    case LEDGER_SAMPLE:
        return store_sample_note(st, &e->sample, err);
    }
    return 0;
}
