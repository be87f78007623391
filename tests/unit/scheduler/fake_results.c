/* What the fake worker's stages make of a shard: the same of the same recording. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/scheduler/fake_worker.h"

/* What stages other than transcription make of a shard; the same of the same recording. */
struct other {
    struct result_sound sound;
    struct result_vector *vectors;
    float *values;
    uint8_t active[2 * 3];
    uint32_t of[4];
    float heard[4 * 4];
};

static void hear(const struct fake_lease *l, struct msg_shard_done *m, struct other *o)
{
    const char *stage = fake_stages[m->track];

    if (strcmp(stage, "sounds") == 0) {
        o->sound =
            (struct result_sound){m->start_ms, m->start_ms + 960, 7, fake_text("Applause"), 0.5f};
        m->sound_count = 1;
        m->sounds = &o->sound;
    } else if (strcmp(stage, "diarize") == 0) {
        m->voices = (struct result_voices){.first = m->seq * l->m.shard_ms / 1000,
                                           .windows = 2,
                                           .frames = 3,
                                           .speakers = 2,
                                           .active = o->active,
                                           .size = 4,
                                           .vector_count = 4,
                                           .of = o->of,
                                           .vectors = o->heard};
        for (uint32_t i = 0; i < 4; i++) {
            o->of[i] = i;
            o->heard[i * 4 + i] = 1;
        }
        memset(o->active, 3, sizeof(o->active));
    }
}

static void embed(const struct fake_lease *l, struct msg_shard_done *m, struct other *o)
{
    uint32_t n = m->vector_count = l->m.passage_count ? l->m.passage_count : 2;

    m->vector_size = 2;
    m->vectors = o->vectors = calloc(n, sizeof(*o->vectors));
    o->values = calloc(n, 2 * sizeof(float));
    for (uint32_t i = 0; i < n; i++) {
        const struct result_passage *p = l->m.passage_count ? &l->m.passages[i] : NULL;

        o->values[2 * i] = 0.6f;
        o->values[2 * i + 1] = 0.8f;
        o->vectors[i] = (struct result_vector){p ? p->start_ms : m->start_ms + i * 1000,
                                               p ? p->end_ms : m->start_ms + i * 1000 + 1000,
                                               o->values + 2 * i};
    }
}

/* With the last one its pass has seen the recording's end. */
static void put_total(const struct fake_lease *l, struct msg_shard_done *m)
{
    if (m->seq + 1 != l->shards && !(l->over && l->reached))
        return;
    m->shards = l->shards + fake_tracks_lie(m->track);
    m->total_ms = l->m.passage_count ? l->m.total_ms : (int64_t)l->shards * l->m.shard_ms;
}

static void other_done(const struct fake_lease *l, uint64_t lease, uint32_t track, uint32_t seq)
{
    struct other o = {0};
    struct buf b = BUF_INIT;
    struct msg_shard_done m = {
        .lease_id = lease,
        .media_id = l->m.media_id,
        .track = track,
        .seq = seq,
        .start_ms = (int64_t)seq * l->m.shard_ms,
        .end_ms = (int64_t)(seq + 1) * l->m.shard_ms,
        .language = fake_text(""),
        .windows = 2,
        .wall_ms = 1,
    };

    if (strncmp(fake_stages[track], "embed", 5) == 0)
        embed(l, &m, &o);
    else
        hear(l, &m, &o);
    put_total(l, &m);
    msg_shard_done_put(&b, &m);
    fake_say(MSG_SHARD_DONE, &b);
    free(o.vectors);
    free(o.values);
}

void fake_shard_done(const struct fake_lease *l, uint64_t lease, uint32_t track, uint32_t seq)
{
    char text[2][64];
    int64_t at = (int64_t)seq * l->m.shard_ms;
    bool bad = strcmp(l->kind, "badtext") == 0;
    struct result_word heard[1] = {{at + 1000, at + 1000, fake_text(" you"), 0.25f}};
    struct result_word words[2] = {{at + 1000, at + 1500, fake_text(" the"), 0.5f},
                                   {at + 1500, at + 2000, fake_text(" end"), 0.75f}};
    struct result_segment seg[3] = {
        {.start_ms = at,
         .end_ms = at + 1000,
         .text = text[0],
         .language = fake_text("en"),
         .attempts = 1,
         .speech_prob = -1},
        {.start_ms = at + 1000,
         .end_ms = at + 1000,
         .text = fake_text("you"),
         .language = fake_text("en"),
         .attempts = 6,
         .speech_prob = 0.125f,
         .dropped = true,
         .reason = fake_text("no voice"),
         .word_count = 1,
         .words = heard},
        {.start_ms = at + 1000,
         .end_ms = bad ? at : at + 2000,
         .text = text[1],
         .language = fake_text("en"),
         .attempts = 2,
         .speech_prob = 0.875f,
         .reason = fake_text("tried again: repetitive"),
         .word_count = 2,
         .words = words},
    };
    struct msg_shard_done m = {
        .lease_id = lease,
        .media_id = l->m.media_id,
        .track = track,
        .seq = seq,
        .start_ms = at,
        .end_ms = at + l->m.shard_ms,
        .language = fake_text("en"),
        .language_prob = 1,
        .windows = 1,
        .wall_ms = 1,
        .segment_count = fake_is(l, "mute") ? 0 : 3,
        .segments = seg,
    };
    struct buf b = BUF_INIT;

    if (strcmp(fake_stages[track < SETUP_MAX_STAGES ? track : 0], "transcribe") != 0) {
        other_done(l, lease, track, seq);
        return;
    }
    snprintf(text[0], sizeof(text[0]), "begin %02x%02x %u", l->m.fingerprint[0],
             l->m.fingerprint[1], seq);
    snprintf(text[1], sizeof(text[1]), "end %02x%02x %u", l->m.fingerprint[0], l->m.fingerprint[1],
             seq);
    put_total(l, &m);
    msg_shard_done_put(&b, &m);
    fake_say(MSG_SHARD_DONE, &b);
}

void fake_shard_failed(const struct fake_lease *l, uint32_t track, uint32_t seq, int code,
                       const char *message)
{
    struct msg_shard_failed m = {.lease_id = l->m.lease_id,
                                 .media_id = l->m.media_id,
                                 .track = track,
                                 .seq = seq,
                                 .code = code,
                                 .message = fake_text(message)};
    struct buf b = BUF_INIT;

    msg_shard_failed_put(&b, &m);
    fake_say(MSG_SHARD_FAILED, &b);
}
