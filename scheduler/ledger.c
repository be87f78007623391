#include "scheduler/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/retry.h"

enum kind { SHARD, SETTLED, MEDIA, MEDIA_END, TOTAL, FAILED, SUSPECT, EVENT, TUNING };

struct entry {
    enum kind kind;
    int64_t task, media;
    int code;       /* FAILED */
    int64_t at_ms;  /* FAILED */
    uint32_t total; /* TOTAL */
    char *text, *device, *label, *driver, *decoding;
    bool refused; /* the catalog said no: settled as a failure of the task */
    struct err why;
    struct msg_shard_done shard;
    struct store_passage *passages; /* SHARD: of shard.vectors, one each; or NULL */
    struct msg_settled settled;
    struct msg_media info;
    struct msg_lease_end end;
    struct store_tuning tuning; /* of device, driver, model text, precision label, decoding */
};

struct ledger {
    struct store *st;
    ledger_durable_fn durable;
    ledger_refused_fn refused;
    void *arg;
    struct entry **entries; /* owned, each */
    size_t count, cap, shards;
    uint64_t bytes;
};

struct ledger *ledger_new(struct store *st, ledger_durable_fn durable, ledger_refused_fn refused,
                          void *arg)
{
    struct ledger *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->st = st;
    l->durable = durable;
    l->refused = refused;
    l->arg = arg;
    return l;
}

static void entry_free(struct entry *e)
{
    if (!e)
        return;
    store_passages_free(e->passages, e->shard.vector_count);
    msg_shard_done_free(&e->shard);
    msg_settled_free(&e->settled);
    msg_media_free(&e->info);
    msg_lease_end_free(&e->end);
    free(e->text);
    free(e->device);
    free(e->label);
    free(e->driver);
    free(e->decoding);
    free(e);
}

static void clear(struct ledger *l)
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
    clear(l);
    free(l->entries);
    free(l);
}

/* A new entry at the end, zeroed; NULL when out of memory. */
static struct entry *add(struct ledger *l, enum kind kind, struct err *err)
{
    struct entry *e;

    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct entry **p = realloc(l->entries, cap * sizeof(struct entry *));

        if (!p)
            goto fail;
        l->entries = p;
        l->cap = cap;
    }
    e = calloc(1, sizeof(*e));
    if (!e)
        goto fail;
    e->kind = kind;
    l->entries[l->count++] = e;
    l->bytes += sizeof(*e);
    return e;
fail:
    err_set(err, ERR_NOMEM, "no memory to keep results");
    return NULL;
}

static int undo(struct ledger *l, struct err *err)
{
    entry_free(l->entries[--l->count]);
    return err_set(err, ERR_NOMEM, "no memory to keep results");
}

static bool copy(char **dst, const char *src)
{
    *dst = strdup(src ? src : "");
    return *dst != NULL;
}

static uint64_t segments_bytes(const struct msg_shard_done *m)
{
    uint64_t n = m->segment_count * sizeof(*m->segments);

    for (uint32_t i = 0; i < m->segment_count; i++) {
        const struct msg_segment *g = &m->segments[i];

        n += strlen(g->text) + strlen(g->reason) + 32;
        for (uint32_t k = 0; k < g->word_count; k++)
            n += sizeof(g->words[k]) + strlen(g->words[k].text) + 16;
    }
    return n;
}

/* Of memory, about. */
static uint64_t shard_bytes(const struct entry *e)
{
    const struct msg_shard_done *m = &e->shard;
    const struct msg_voices *v = &m->voices;
    uint64_t n = segments_bytes(m);

    for (uint32_t i = 0; i < m->sound_count; i++)
        n += sizeof(m->sounds[i]) + strlen(m->sounds[i].name) + 16;
    n += m->vector_count * (sizeof(*m->vectors) + m->vector_size * sizeof(float));
    for (uint32_t i = 0; e->passages && i < m->vector_count; i++)
        n += sizeof(e->passages[i]) + strlen(e->passages[i].text) + 16;
    n += (uint64_t)v->windows * v->frames;
    n += v->vector_count * (sizeof(*v->of) + (uint64_t)v->size * sizeof(float));
    return n;
}

int ledger_passages(struct ledger *l, int64_t task, const char *device, struct msg_shard_done *m,
                    struct store_passage *passages, struct err *err)
{
    struct entry *e = add(l, SHARD, err);

    if (!e) {
        store_passages_free(passages, m->vector_count);
        msg_shard_done_free(m);
        return err->code;
    }
    e->task = task;
    e->passages = passages;
    e->shard = *m;
    memset(m, 0, sizeof(*m));
    if (!copy(&e->device, device))
        return undo(l, err);
    l->shards++;
    l->bytes += shard_bytes(e);
    return 0;
}

int ledger_shard(struct ledger *l, int64_t task, const char *device, struct msg_shard_done *m,
                 struct err *err)
{
    return ledger_passages(l, task, device, m, NULL, err);
}

int ledger_settled(struct ledger *l, int64_t task, struct msg_settled *m, struct err *err)
{
    struct entry *e = add(l, SETTLED, err);

    if (!e) {
        msg_settled_free(m);
        return err->code;
    }
    e->task = task;
    e->settled = *m;
    memset(m, 0, sizeof(*m));
    l->bytes +=
        e->settled.speaker_count * (sizeof(*e->settled.speakers) + e->settled.size * sizeof(float));
    l->bytes += e->settled.turn_count * sizeof(*e->settled.turns);
    return 0;
}

int ledger_media(struct ledger *l, const struct msg_media *m, struct err *err)
{
    struct entry *e = add(l, MEDIA, err);

    if (!e)
        return err->code;
    e->media = m->media_id;
    e->info.duration_ms = m->duration_ms;
    e->info.sample_rate_hz = m->sample_rate_hz;
    e->info.channels = m->channels;
    if (!copy(&e->info.container, m->container) || !copy(&e->info.codec, m->codec) ||
        !copy(&e->info.title, m->title))
        return undo(l, err);
    return 0;
}

int ledger_media_end(struct ledger *l, const struct msg_lease_end *m, struct err *err)
{
    struct entry *e = add(l, MEDIA_END, err);

    if (!e)
        return err->code;
    e->media = m->media_id;
    e->end.total_ms = m->total_ms;
    e->end.has_hash = m->has_hash;
    memcpy(e->end.content_hash, m->content_hash, sizeof(e->end.content_hash));
    if (!copy(&e->end.damage, m->damage))
        return undo(l, err);
    return 0;
}

int ledger_total(struct ledger *l, int64_t task, uint32_t shards, struct err *err)
{
    struct entry *e = add(l, TOTAL, err);

    if (!e)
        return err->code;
    e->task = task;
    e->total = shards;
    return 0;
}

int ledger_failed(struct ledger *l, int64_t task, int code, const char *message,
                  int64_t retry_at_ms, struct err *err)
{
    struct entry *e = add(l, FAILED, err);

    if (!e)
        return err->code;
    e->task = task;
    e->code = code;
    e->at_ms = retry_at_ms;
    return copy(&e->text, message) ? 0 : undo(l, err);
}

int ledger_suspect(struct ledger *l, int64_t task, struct err *err)
{
    struct entry *e = add(l, SUSPECT, err);

    if (!e)
        return err->code;
    e->task = task;
    return 0;
}

int ledger_event(struct ledger *l, const char *kind, int64_t media, const char *device,
                 const char *text, struct err *err)
{
    struct entry *e = add(l, EVENT, err);

    if (!e)
        return err->code;
    e->media = media;
    if (!copy(&e->label, kind) || !copy(&e->device, device) || !copy(&e->text, text))
        return undo(l, err);
    return 0;
}

int ledger_tuning(struct ledger *l, const struct store_tuning_key *key,
                  const struct store_tuning *t, struct err *err)
{
    struct entry *e = add(l, TUNING, err);

    if (!e)
        return err->code;
    e->tuning = *t;
    if (!copy(&e->device, key->device_id) || !copy(&e->driver, key->driver) ||
        !copy(&e->text, key->model_hash) || !copy(&e->label, key->precision) ||
        !copy(&e->decoding, key->decoding))
        return undo(l, err);
    return 0;
}

size_t ledger_pending(const struct ledger *l) { return l->count; }
size_t ledger_shards(const struct ledger *l) { return l->shards; }
uint64_t ledger_bytes(const struct ledger *l) { return l->bytes; }

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

static void fill_vectors(const struct entry *e, struct store_vector *ret)
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

static bool parts_of(const struct entry *e, struct parts *ret)
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

static int write_shard(struct store *st, const struct entry *e, struct err *err)
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

static int write_settled(struct store *st, const struct entry *e, struct err *err)
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

static int write_entry(struct store *st, const struct entry *e, struct err *err)
{
    switch (e->kind) {
    case SHARD:
        return write_shard(st, e, err);
    case SETTLED:
        return write_settled(st, e, err);
    case MEDIA: {
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
    case MEDIA_END:
        return store_media_end(st, e->media, e->end.total_ms,
                               e->end.has_hash ? e->end.content_hash : NULL, e->end.damage, err);
    case TOTAL:
        return store_task_total(st, e->task, e->total, err);
    case FAILED:
        return store_task_failed(st, e->task, e->code, e->text, e->at_ms, err);
    case SUSPECT:
        return store_task_suspect(st, e->task, err);
    case EVENT:
        return store_event(st, e->label, e->media, e->device, e->text, err);
    case TUNING:
        return store_tuning_note(
            st, &(struct store_tuning_key){e->device, e->driver, e->text, e->label, e->decoding},
            &e->tuning, err);
    }
    return 0;
}

/* Everything in one transaction, which is open when this returns 0. */
static int write_all(struct ledger *l, struct err *err)
{
    size_t i;
    int rc;

    for (i = 0; i < l->count; i++) {
        struct entry *e = l->entries[i];

        if (e->refused)
            rc = 0;
        else
            rc = write_entry(l->st, e, err);
        if (rc && retry_store(rc) == STORE_BAD) {
            e->refused = true;
            e->why = *err;
        } else if (rc) {
            return rc;
        }
        /* Without this the task would be computed again for ever. */
        if (e->refused && (e->kind == SHARD || e->kind == SETTLED)) {
            rc = store_task_failed(l->st, e->task, e->why.code, e->why.msg, -1, err);
            if (rc && retry_store(rc) != STORE_BAD)
                return rc;
        }
    }
    return 0;
}

int ledger_flush(struct ledger *l, struct err *err)
{
    size_t i;
    int rc;

    if (l->count == 0)
        return 0;
    rc = store_begin(l->st, err);
    if (rc)
        return rc;
    rc = write_all(l, err);
    if (rc == 0)
        rc = store_commit(l->st, err);
    if (rc) {
        store_rollback(l->st);
        return rc;
    }
    for (i = 0; i < l->count; i++) {
        const struct entry *e = l->entries[i];

        if (e->refused)
            l->refused(l->arg, e->task, &e->why);
        else if (e->kind == SHARD)
            l->durable(l->arg, e->task, e->shard.end_ms - e->shard.start_ms);
    }
    clear(l);
    return 0;
}
