#include "scheduler/ledger.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/list.h"
#include "scheduler/plan/retry.h"
#include "store/runs.h"
#include "store/store.h"
#include "store/tuning.h"
#include "workers/wire/protocol.h"

/* ---- one entry of the ledger, and how the store has it */

enum ledger_kind {
    LEDGER_SHARD,
    LEDGER_FINALIZED,
    LEDGER_MEDIA,
    LEDGER_TOTAL,
    LEDGER_FAILED,
    LEDGER_SUSPECT,
    LEDGER_EVENT,
    LEDGER_TUNING,
    LEDGER_RUN,
    LEDGER_SAMPLE
};

struct ledger_shard {
    char *device;
    struct msg_shard_done said;
    struct result_passage *passages; /* of said.vectors, one each; or NULL */
    uint32_t shards;                 /* of the whole recording; 0: not known */
};

struct ledger_media { /* what was said of a recording: its beginning, its end, or both */
    int64_t media_id;
    bool has_info, has_end;
    struct msg_media info;
    int64_t heard_by[SETUP_MAX_STAGES]; /* tasks that info's sources are noted for */
    uint32_t heard_count;
    struct msg_lease_end end; /* the parts that store_media_end has */
};

struct ledger_failed {
    int code;
    const char *message;
    int64_t retry_at_ms;
};

struct ledger_suspect {
    uint32_t deaths;
    int64_t retry_at_ms;
};

struct ledger_event {
    const char *kind, *device, *text;
    int64_t media_id; /* 0: none */
};

struct ledger_tuning {
    struct store_tuning_key key;
    struct store_tuning tuning;
};

struct ledger_entry { /* owns all that it points to */
    enum ledger_kind kind;
    int64_t task;    /* that it is of; 0: of none */
    struct err *why; /* the catalog refused it, which is a failure of the task; NULL: it did not */
    union {          /* a night of short recordings has thousands at a time */
        struct ledger_shard shard;
        struct msg_finalized finalized;
        struct ledger_media media;
        uint32_t total; /* shards */
        struct ledger_failed failed;
        struct ledger_suspect suspect;
        struct ledger_event event;
        struct ledger_tuning tuning;
        struct store_run run;
        struct store_sample sample;
    };
};

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

/* Into the transaction that is open. */
static int ledger_entry_write(struct store *st, const struct ledger_entry *e, struct err *err)
{
    switch (e->kind) {
    case LEDGER_SHARD:
        return write_shard(st, e->task, &e->shard, err);
    case LEDGER_FINALIZED:
        return store_finalized(st, e->task, &e->finalized.people, err);
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

/* ---- results on their way into the catalog */

#define LATELY 8 /* entries: those of one recording come together */

struct ledger {
    struct store *st;
    ledger_refused_fn refused;
    void *arg;
    struct ledger_entry **entries; /* owned, each */
    size_t count, capacity, shards;
    uint64_t bytes, written;
};

struct ledger *ledger_new(struct store *st, ledger_refused_fn refused, void *arg)
{
    struct ledger *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->st = st;
    l->refused = refused;
    l->arg = arg;
    return l;
}

/* A text that belongs to its entry. */
static void drop(const char *text) { free((char *)text); }

static void entry_free(struct ledger_entry *e)
{
    if (!e)
        return;
    switch (e->kind) {
    case LEDGER_SHARD:
        store_passages_free(e->shard.passages, e->shard.said.vector_count);
        msg_shard_done_free(&e->shard.said);
        free(e->shard.device);
        break;
    case LEDGER_FINALIZED:
        msg_finalized_free(&e->finalized);
        break;
    case LEDGER_MEDIA:
        msg_media_free(&e->media.info);
        msg_lease_end_free(&e->media.end);
        break;
    case LEDGER_TOTAL:
    case LEDGER_SUSPECT:
        break;
    case LEDGER_FAILED:
        drop(e->failed.message);
        break;
    case LEDGER_EVENT:
        drop(e->event.kind);
        drop(e->event.device);
        drop(e->event.text);
        break;
    case LEDGER_TUNING:
        drop(e->tuning.key.device_id);
        drop(e->tuning.key.driver);
        drop(e->tuning.key.model_hash);
        drop(e->tuning.key.precision);
        drop(e->tuning.key.decoding);
        free(e->tuning.tuning.algorithms);
        break;
    case LEDGER_RUN:
        drop(e->run.why);
        drop(e->run.reason);
        drop(e->run.devices);
        break;
    case LEDGER_SAMPLE:
        drop(e->sample.device);
        break;
    }
    free(e->why);
    free(e);
}

static void clear_entries(struct ledger *l)
{
    size_t i;

    for (i = 0; i < l->count; i++)
        entry_free(l->entries[i]);
    l->count = l->shards = 0;
    l->bytes = 0;
}

void ledger_free(struct ledger *l)
{
    if (!l)
        return;
    clear_entries(l);
    free(l->entries);
    free(l);
}

/* A new entry at the end, otherwise zeroed; NULL when out of memory. */
static struct ledger_entry *append_entry(struct ledger *l, enum ledger_kind kind, int64_t task,
                                         struct err *err)
{
    struct ledger_entry *e;

    if (!list_grow(&l->entries, &l->capacity, l->count, sizeof(*l->entries)))
        goto fail;
    e = calloc(1, sizeof(*e));
    if (!e)
        goto fail;
    e->kind = kind;
    e->task = task;
    l->entries[l->count++] = e;
    l->bytes += sizeof(*e);
    return e;
fail:
    err_set(err, ERR_NOMEM, "no memory to keep results");
    return NULL;
}

static int undo_last_entry(struct ledger *l, struct err *err)
{
    entry_free(l->entries[--l->count]);
    return err_set(err, ERR_NOMEM, "no memory to keep results");
}

/* Each text becomes a copy of what it is; NULL when out of memory (false). */
static bool copy_texts(const char **const texts[], size_t n)
{
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        *texts[i] = strdup(*texts[i] ? *texts[i] : "");
        all = all && *texts[i];
    }
    return all;
}

#define OWN(...)                                    \
    copy_texts((const char **const[]){__VA_ARGS__}, \
               sizeof((const char **const[]){__VA_ARGS__}) / sizeof(const char **))

static uint64_t segments_bytes(const struct msg_shard_done *m)
{
    uint64_t n = m->segment_count * sizeof(*m->segments);

    for (uint32_t i = 0; i < m->segment_count; i++) {
        const struct result_segment *g = &m->segments[i];

        n += strlen(g->text) + strlen(g->reason) + 32;
        for (uint32_t k = 0; k < g->word_count; k++)
            n += sizeof(g->words[k]) + strlen(g->words[k].text) + 16;
    }
    return n;
}

/* Approximate memory. */
static uint64_t shard_bytes(const struct ledger_shard *s)
{
    const struct msg_shard_done *m = &s->said;
    const struct result_voices *v = &m->voices;
    uint64_t n = segments_bytes(m);

    for (uint32_t i = 0; i < m->sound_count; i++)
        n += sizeof(m->sounds[i]) + strlen(m->sounds[i].name) + 16;
    n += m->vector_count * (sizeof(*m->vectors) + m->vector_size * sizeof(float));
    for (uint32_t i = 0; s->passages && i < m->vector_count; i++)
        n += sizeof(s->passages[i]) + strlen(s->passages[i].text) + 16;
    n += (uint64_t)v->windows * v->frames;
    n += v->vector_count * (sizeof(*v->of) + (uint64_t)v->size * sizeof(float));
    return n;
}

int ledger_passages(struct ledger *l, int64_t task, const char *device, struct msg_shard_done *m,
                    struct result_passage *passages, struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_SHARD, task, err);

    if (!e) {
        store_passages_free(passages, m->vector_count);
        msg_shard_done_free(m);
        return err->code;
    }
    e->shard = (struct ledger_shard){.device = strdup(device), .said = *m, .passages = passages};
    memset(m, 0, sizeof(*m));
    if (!e->shard.device)
        return undo_last_entry(l, err);
    l->shards++;
    l->bytes += shard_bytes(&e->shard);
    return 0;
}

int ledger_shard(struct ledger *l, int64_t task, const char *device, struct msg_shard_done *m,
                 struct err *err)
{
    return ledger_passages(l, task, device, m, NULL, err);
}

int ledger_finalized(struct ledger *l, int64_t task, struct msg_finalized *m, struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_FINALIZED, task, err);
    const struct result_people *p = &m->people;

    if (!e) {
        msg_finalized_free(m);
        return err->code;
    }
    l->bytes += p->speaker_count * (sizeof(*p->speakers) + p->size * sizeof(float));
    l->bytes += p->turn_count * sizeof(*p->turns);
    e->finalized = *m;
    memset(m, 0, sizeof(*m));
    return 0;
}

static uint64_t media_bytes(const struct msg_media *m)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->tag_count; i++)
        n += sizeof(m->tags[i]) + strlen(m->tags[i].key) + strlen(m->tags[i].value) + 64;
    for (uint32_t i = 0; i < m->source_count; i++)
        n += sizeof(m->sources[i]) + strlen(m->sources[i].label) + 32;
    return n;
}

int ledger_media(struct ledger *l, struct msg_media *m, const int64_t *tasks, uint32_t n,
                 struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_MEDIA, 0, err);

    if (!e) {
        msg_media_free(m);
        return err->code;
    }
    e->media = (struct ledger_media){
        .media_id = m->media_id, .has_info = true, .info = *m, .heard_count = n};
    memset(m, 0, sizeof(*m));
    memcpy(e->media.heard_by, tasks, n * sizeof(*tasks));
    l->bytes += media_bytes(&e->media.info);
    return 0;
}

/* The beginning and end of a short recording are written in one row: this finds the recording's
 * last entry, if it was just added. NULL: there is none, or it must stay as it is. */
static struct ledger_entry *lately_of_media(struct ledger *l, int64_t media)
{
    for (size_t i = 0; i < LATELY && i < l->count; i++) {
        struct ledger_entry *e = l->entries[l->count - 1 - i];

        if (e->kind == LEDGER_MEDIA && e->media.media_id == media)
            return e->why || e->media.has_end ? NULL : e;
    }
    return NULL;
}

static struct ledger_entry *lately_of_task(struct ledger *l, int64_t task)
{
    for (size_t i = 0; i < LATELY && i < l->count; i++) {
        struct ledger_entry *e = l->entries[l->count - 1 - i];

        if (e->task == task)
            return e->kind == LEDGER_SHARD && !e->why && !e->shard.shards ? e : NULL;
    }
    return NULL;
}

static bool copy_channels(struct msg_lease_end *to, const struct msg_lease_end *from)
{
    struct result_channel *list =
        from->channel_count ? calloc(from->channel_count, sizeof(*list)) : NULL;

    if (list)
        memcpy(list, from->channels, from->channel_count * sizeof(*list));
    to->channels = list;
    to->channel_count = list ? from->channel_count : 0;
    return list || !from->channel_count;
}

static int add_end(struct ledger *l, int64_t media, const struct msg_lease_end *m, struct err *err)
{
    struct ledger_entry *e = lately_of_media(l, media);
    struct msg_lease_end end = {.total_ms = m->total_ms,
                                .has_hash = m->has_hash,
                                .damage = m->damage ? strdup(m->damage) : NULL,
                                .clock = m->clock ? strdup(m->clock) : NULL};

    memcpy(end.content_hash, m->content_hash, sizeof(end.content_hash));
    if (!copy_channels(&end, m) || (m->damage && !end.damage) || (m->clock && !end.clock)) {
        msg_lease_end_free(&end);
        return err_set(err, ERR_NOMEM, "no memory to keep results");
    }
    if (!e)
        e = append_entry(l, LEDGER_MEDIA, 0, err);
    if (!e) {
        msg_lease_end_free(&end);
        return err->code;
    }
    e->media.media_id = media;
    e->media.has_end = true;
    e->media.end = end;
    l->bytes += end.channel_count * sizeof(*end.channels);
    return 0;
}

int ledger_media_end(struct ledger *l, const struct msg_lease_end *m, struct err *err)
{
    return add_end(l, m->media_id, m, err);
}

int ledger_media_length(struct ledger *l, int64_t media, int64_t total_ms, struct err *err)
{
    return add_end(l, media, &(struct msg_lease_end){.total_ms = total_ms}, err);
}

int ledger_total(struct ledger *l, int64_t task, uint32_t shards, struct err *err)
{
    struct ledger_entry *e = lately_of_task(l, task);

    if (e) {
        e->shard.shards = shards;
        return 0;
    }
    e = append_entry(l, LEDGER_TOTAL, task, err);
    if (!e)
        return err->code;
    e->total = shards;
    return 0;
}

int ledger_failed(struct ledger *l, int64_t task, int code, const char *message,
                  int64_t retry_at_ms, struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_FAILED, task, err);

    if (!e)
        return err->code;
    e->failed = (struct ledger_failed){code, message, retry_at_ms};
    return OWN(&e->failed.message) ? 0 : undo_last_entry(l, err);
}

int ledger_suspect(struct ledger *l, int64_t task, uint32_t deaths, int64_t retry_at_ms,
                   struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_SUSPECT, task, err);

    if (!e)
        return err->code;
    e->suspect = (struct ledger_suspect){deaths, retry_at_ms};
    return 0;
}

int ledger_event(struct ledger *l, const char *kind, int64_t media, const char *device,
                 const char *text, struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_EVENT, 0, err);

    if (!e)
        return err->code;
    e->event = (struct ledger_event){kind, device, text, media};
    return OWN(&e->event.kind, &e->event.device, &e->event.text) ? 0 : undo_last_entry(l, err);
}

int ledger_tuning(struct ledger *l, const struct store_tuning_key *key,
                  const struct store_tuning *t, struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_TUNING, 0, err);
    struct ledger_tuning *to;

    if (!e)
        return err->code;
    to = &e->tuning;
    *to = (struct ledger_tuning){*key, *t};
    to->tuning.algorithms = t->algorithms_bytes ? malloc(t->algorithms_bytes) : NULL;
    if (to->tuning.algorithms)
        memcpy(to->tuning.algorithms, t->algorithms, t->algorithms_bytes);
    else
        to->tuning.algorithms_bytes = 0; /* it is no loss where there is no memory for it */
    return OWN(&to->key.device_id, &to->key.driver, &to->key.model_hash, &to->key.precision,
               &to->key.decoding)
               ? 0
               : undo_last_entry(l, err);
}

int ledger_run(struct ledger *l, const struct store_run *r, struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_RUN, 0, err);

    if (!e)
        return err->code;
    e->run = *r;
    return OWN(&e->run.why, &e->run.reason, &e->run.devices) ? 0 : undo_last_entry(l, err);
}

int ledger_sample(struct ledger *l, const struct store_sample *s, struct err *err)
{
    struct ledger_entry *e = append_entry(l, LEDGER_SAMPLE, 0, err);

    if (!e)
        return err->code;
    e->sample = *s;
    return OWN(&e->sample.device) ? 0 : undo_last_entry(l, err);
}

size_t ledger_pending(const struct ledger *l) { return l->count; }
size_t ledger_shards(const struct ledger *l) { return l->shards; }
uint64_t ledger_bytes(const struct ledger *l) { return l->bytes; }
uint64_t ledger_written(const struct ledger *l) { return l->written; }

/* NULL: there is no memory for it. */
static struct err *copy_err(const struct err *err)
{
    struct err *ret = malloc(sizeof(*ret));

    if (ret)
        *ret = *err;
    return ret;
}

/* Into the transaction that is open. apart: what the catalog refuses is known by it. */
static int write_all(struct ledger *l, bool apart, struct err *err)
{
    size_t i;
    int rc;

    for (i = 0; i < l->count; i++) {
        struct ledger_entry *e = l->entries[i];

        rc = e->why ? 0 : ledger_entry_write(l->st, e, err);
        if (rc && apart && retry_store(rc) == STORE_BAD)
            e->why = copy_err(err);
        if (rc && !e->why)
            return rc;
        /* Without this the task would be computed again for ever. */
        if (e->why && (e->kind == LEDGER_SHARD || e->kind == LEDGER_FINALIZED)) {
            rc = store_task_failed(l->st, e->task, e->why->code, e->why->msg, -1, err);
            if (rc && (!apart || retry_store(rc) != STORE_BAD))
                return rc;
        }
    }
    return 0;
}

/* Everything in one transaction. */
static int commit_all(struct ledger *l, bool apart, struct err *err)
{
    int rc = apart ? store_begin_apart(l->st, err) : store_begin(l->st, err);

    if (rc)
        return rc;
    rc = write_all(l, apart, err);
    if (rc == 0)
        rc = store_commit(l->st, err);
    if (rc)
        store_rollback(l->st);
    return rc;
}

int ledger_flush(struct ledger *l, struct err *err)
{
    size_t i;
    int rc;

    if (l->count == 0)
        return 0;
    rc = commit_all(l, false, err);
    if (rc && retry_store(rc) == STORE_BAD)
        rc = commit_all(l, true, err);
    if (rc)
        return rc;
    for (i = 0; i < l->count; i++) {
        const struct ledger_entry *e = l->entries[i];

        if (e->why)
            l->refused(l->arg, e->task, e->why);
        else
            l->written += e->kind == LEDGER_SHARD;
    }
    clear_entries(l);
    return 0;
}
