/* An entry of the ledger as the store has it. */
#include <stdlib.h>

#include "scheduler/ledger/ledger_entry.h"

static void fill_vectors(const struct ledger_entry *e, struct store_vector *ret)
{
    for (uint32_t i = 0; i < e->shard.vector_count; i++) {
        const struct result_vector *from = &e->shard.vectors[i];

        ret[i] = (struct store_vector){
            .start_ms = from->start_ms,
            .end_ms = from->end_ms,
            .text = e->passages ? e->passages[i].text : NULL,
            .values = from->values,
            .size = e->shard.vector_size,
        };
    }
}

static int write_shard(struct store *st, const struct ledger_entry *e, struct err *err)
{
    const struct msg_shard_done *m = &e->shard;
    struct store_vector *vectors = calloc(m->vector_count + 1u, sizeof(*vectors));
    const struct store_shard_result r = {
        .task_id = e->task,
        .seq = m->seq,
        .start_ms = m->start_ms,
        .end_ms = m->end_ms,
        .language = m->language,
        .language_prob = m->language_prob,
        .windows = m->windows,
        .wall_ms = m->wall_ms,
        .device = e->device,
        .segments = m->segments,
        .segment_count = m->segment_count,
        .account = m->account,
        .sounds = m->sounds,
        .sound_count = m->sound_count,
        .vectors = vectors,
        .vector_count = m->vector_count,
        .voices = m->voices.windows ? &m->voices : NULL,
        .shards = e->total,
    };
    int rc;

    if (vectors)
        fill_vectors(e, vectors);
    rc = vectors ? store_shard_done(st, &r, err)
                 : err_set(err, ERR_NOMEM, "no memory for a shard's results");
    free(vectors);
    return rc;
}

static int write_media(struct store *st, const struct ledger_entry *e, struct err *err)
{
    const struct store_media_info info = {
        .duration_ms = e->info.duration_ms,
        .sample_rate_hz = e->info.sample_rate_hz,
        .channels = e->info.channels,
        .audio_tracks = e->info.audio_tracks,
        .container = e->info.container,
        .codec = e->info.codec,
        .tags = e->info.tags,
        .tag_count = e->info.tag_count,
    };
    const struct store_media_end end = {
        .total_ms = e->end.total_ms,
        .content_hash = e->end.has_hash ? e->end.content_hash : NULL,
        .damage = e->end.damage,
        .clock = e->end.clock,
        .channels = e->end.channels,
        .channel_count = e->end.channel_count,
    };

    return store_media(st, e->media, e->has_info ? &info : NULL, e->has_end ? &end : NULL, err);
}

int ledger_entry_write(struct store *st, const struct ledger_entry *e, struct err *err)
{
    switch (e->kind) {
    case LEDGER_SHARD:
        return write_shard(st, e, err);
    case LEDGER_SETTLED:
        return store_settled(st, e->task, &e->settled.people, err);
    case LEDGER_MEDIA:
        return write_media(st, e, err);
    case LEDGER_HEARD:
        return store_task_heard(st, e->task,
                                &(struct store_heard){.sources = e->info.sources,
                                                      .count = e->info.source_count,
                                                      .left_out = e->info.left_out,
                                                      .mix_left_out = e->info.mix_left_out},
                                err);
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
    case LEDGER_RUN:
        return store_run_note(st, &e->run, err);
    case LEDGER_SAMPLE:
        return store_sample_note(st, &e->sample, err);
    }
    return 0;
}
