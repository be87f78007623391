#include "scheduler/ledger/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "scheduler/ledger/ledger_entry.h"
#include "scheduler/plan/retry.h"

#define LATELY 8 /* entries: those of one recording come together */

struct ledger {
    struct store *st;
    ledger_durable_fn durable;
    ledger_refused_fn refused;
    void *arg;
    struct ledger_entry **entries; /* owned, each */
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

static void entry_free(struct ledger_entry *e)
{
    if (!e)
        return;
    if (e->kind == LEDGER_SHARD) {
        store_passages_free(e->passages, e->shard.vector_count);
        msg_shard_done_free(&e->shard);
    } else if (e->kind == LEDGER_SETTLED) {
        msg_settled_free(&e->settled);
    } else if (e->kind == LEDGER_MEDIA || e->kind == LEDGER_HEARD) {
        msg_media_free(&e->info);
        msg_lease_end_free(&e->end);
    } else if (e->kind == LEDGER_TUNING) {
        free(e->tuning.ways);
    }
    free(e->text);
    free(e->device);
    free(e->label);
    free(e->driver);
    free(e->decoding);
    free(e->why);
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
static struct ledger_entry *add(struct ledger *l, enum ledger_kind kind, struct err *err)
{
    struct ledger_entry *e;

    if (!list_grow(&l->entries, &l->cap, l->count, sizeof(*l->entries)))
        goto fail;
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
        const struct result_segment *g = &m->segments[i];

        n += strlen(g->text) + strlen(g->reason) + 32;
        for (uint32_t k = 0; k < g->word_count; k++)
            n += sizeof(g->words[k]) + strlen(g->words[k].text) + 16;
    }
    return n;
}

/* Of memory, about. */
static uint64_t shard_bytes(const struct ledger_entry *e)
{
    const struct msg_shard_done *m = &e->shard;
    const struct result_voices *v = &m->voices;
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
                    struct result_passage *passages, struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_SHARD, err);

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
    struct ledger_entry *e = add(l, LEDGER_SETTLED, err);
    const struct result_people *p = &m->people;

    if (!e) {
        msg_settled_free(m);
        return err->code;
    }
    e->task = task;
    l->bytes += p->speaker_count * (sizeof(*p->speakers) + p->size * sizeof(float));
    l->bytes += p->turn_count * sizeof(*p->turns);
    e->settled = *m;
    memset(m, 0, sizeof(*m));
    return 0;
}

/* Into msg_media's own memory, which msg_media_free frees. */
static bool copy_tags(struct ledger *l, struct msg_media *to, const struct msg_media *from)
{
    struct result_tag *list = calloc(from->tag_count + 1u, sizeof(*list));

    to->tags = list;
    for (uint32_t i = 0; list && i < from->tag_count; i++) {
        const struct result_tag *t = &from->tags[i];

        list[i] = (struct result_tag){strdup(t->source), strdup(t->key), strdup(t->value),
                                      t->start_ms, t->end_ms};
        to->tag_count = i + 1;
        if (!list[i].source || !list[i].key || !list[i].value)
            return false;
        l->bytes += sizeof(*t) + strlen(t->key) + strlen(t->value) + 64;
    }
    return list != NULL;
}

int ledger_media(struct ledger *l, const struct msg_media *m, struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_MEDIA, err);

    if (!e)
        return err->code;
    e->media = m->media_id;
    e->has_info = true;
    e->info.duration_ms = m->duration_ms;
    e->info.sample_rate_hz = m->sample_rate_hz;
    e->info.channels = m->channels;
    e->info.audio_tracks = m->audio_tracks;
    if (!copy(&e->info.container, m->container) || !copy(&e->info.codec, m->codec) ||
        !copy_tags(l, &e->info, m))
        return undo(l, err);
    return 0;
}

static bool copy_sources(struct ledger *l, struct msg_media *to, const struct msg_media *from)
{
    struct result_source *list = calloc(from->source_count + 1u, sizeof(*list));

    to->sources = list;
    for (uint32_t i = 0; list && i < from->source_count; i++) {
        list[i].label = strdup(from->sources[i].label);
        to->source_count = i + 1;
        if (!list[i].label)
            return false;
        l->bytes += sizeof(*list) + strlen(list[i].label) + 32;
    }
    return list != NULL;
}

int ledger_heard(struct ledger *l, int64_t task, const struct msg_media *m, struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_HEARD, err);

    if (!e)
        return err->code;
    e->task = task;
    return copy(&e->info.left_out, m->left_out) && copy(&e->info.mix_left_out, m->mix_left_out) &&
                   copy_sources(l, &e->info, m)
               ? 0
               : undo(l, err);
}

/* The last entry of a recording or task, where it came just now: what is said of a short
 * recording's beginning and end is written once. NULL: there is none, or it stays as it is. */
static struct ledger_entry *lately(struct ledger *l, enum ledger_kind kind, int64_t media,
                                   int64_t task)
{
    for (size_t i = 0; i < LATELY && i < l->count; i++) {
        struct ledger_entry *e = l->entries[l->count - 1 - i];

        if (media ? e->media == media : e->task == task)
            return e->kind == kind && !e->why ? e : NULL;
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
    struct ledger_entry *e = lately(l, LEDGER_MEDIA, media, 0);
    struct msg_lease_end end = {.total_ms = m->total_ms,
                                .has_hash = m->has_hash,
                                .damage = m->damage ? strdup(m->damage) : NULL,
                                .clock = m->clock ? strdup(m->clock) : NULL};

    memcpy(end.content_hash, m->content_hash, sizeof(end.content_hash));
    if (!copy_channels(&end, m) || (m->damage && !end.damage) || (m->clock && !end.clock)) {
        msg_lease_end_free(&end);
        return err_set(err, ERR_NOMEM, "no memory to keep results");
    }
    if (!e || e->has_end)
        e = add(l, LEDGER_MEDIA, err);
    if (!e) {
        msg_lease_end_free(&end);
        return err->code;
    }
    e->media = media;
    e->has_end = true;
    e->end = end;
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
    struct ledger_entry *e = lately(l, LEDGER_SHARD, 0, task);

    if (!e || e->total)
        e = add(l, LEDGER_TOTAL, err);
    if (!e)
        return err->code;
    e->task = task;
    e->total = shards;
    return 0;
}

int ledger_failed(struct ledger *l, int64_t task, int code, const char *message,
                  int64_t retry_at_ms, struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_FAILED, err);

    if (!e)
        return err->code;
    e->task = task;
    e->code = code;
    e->at_ms = retry_at_ms;
    return copy(&e->text, message) ? 0 : undo(l, err);
}

int ledger_suspect(struct ledger *l, int64_t task, uint32_t deaths, int64_t retry_at_ms,
                   struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_SUSPECT, err);

    if (!e)
        return err->code;
    e->task = task;
    e->total = deaths;
    e->at_ms = retry_at_ms;
    return 0;
}

int ledger_event(struct ledger *l, const char *kind, int64_t media, const char *device,
                 const char *text, struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_EVENT, err);

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
    struct ledger_entry *e = add(l, LEDGER_TUNING, err);

    if (!e)
        return err->code;
    e->tuning = *t;
    e->tuning.ways = t->ways_bytes ? malloc(t->ways_bytes) : NULL;
    if (e->tuning.ways)
        memcpy(e->tuning.ways, t->ways, t->ways_bytes);
    else
        e->tuning.ways_bytes = 0; /* it is no loss where there is no memory for it */
    if (!copy(&e->device, key->device_id) || !copy(&e->driver, key->driver) ||
        !copy(&e->text, key->model_hash) || !copy(&e->label, key->precision) ||
        !copy(&e->decoding, key->decoding))
        return undo(l, err);
    return 0;
}

int ledger_run(struct ledger *l, const struct store_run *r, struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_RUN, err);

    if (!e)
        return err->code;
    e->run = *r;
    if (!copy(&e->label, r->why) || !copy(&e->text, r->reason) || !copy(&e->device, r->devices))
        return undo(l, err);
    e->run.why = e->label;
    e->run.reason = e->text;
    e->run.devices = e->device;
    return 0;
}

int ledger_sample(struct ledger *l, const struct store_sample *s, struct err *err)
{
    struct ledger_entry *e = add(l, LEDGER_SAMPLE, err);

    if (!e)
        return err->code;
    e->sample = *s;
    if (!copy(&e->device, s->device))
        return undo(l, err);
    e->sample.device = e->device;
    return 0;
}

size_t ledger_pending(const struct ledger *l) { return l->count; }
size_t ledger_shards(const struct ledger *l) { return l->shards; }
uint64_t ledger_bytes(const struct ledger *l) { return l->bytes; }

/* NULL: there is no memory for it. */
static struct err *kept(const struct err *err)
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
            e->why = kept(err);
        if (rc && !e->why)
            return rc;
        /* Without this the task would be computed again for ever. */
        if (e->why && (e->kind == LEDGER_SHARD || e->kind == LEDGER_SETTLED)) {
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
        else if (e->kind == LEDGER_SHARD)
            l->durable(l->arg, e->task, e->shard.end_ms - e->shard.start_ms);
    }
    clear(l);
    return 0;
}
