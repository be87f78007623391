/* Results: shards with their segments, and what decoding told about a recording. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/choice.h"
#include "store/db.h"
#include "store/fact_result.h"
#include "store/reading/publish.h"
#include "store/register/voices.h"
#include "store/results/complete.h"
#include "store/results/found.h"
#include "store/results/naming.h"
#include "store/results/tags.h"

/* ---- how much sound a recording's channels have */

static int put_channel(struct store *st, int64_t media_id, const struct result_channel *c,
                       struct err *err)
{
    if (c->channel == 0) /* unless an earlier pass decoded it */
        return db_run(st, err,
                      "INSERT INTO channel (media_id, track, channel, length_ms, heard) "
                      "SELECT ?1, ?2, 0, nullif(?3, -1), 0 WHERE NOT EXISTS "
                      "(SELECT 1 FROM channel WHERE media_id = ?1 AND track = ?2)",
                      "iii", media_id, (int64_t)c->track, c->length_ms);
    return db_run(st, err,
                  "INSERT INTO channel (media_id, track, channel, sound_ms, length_ms, heard) "
                  "VALUES (?, ?, ?, ?, ?, ?)",
                  "iiiiii", media_id, (int64_t)c->track, (int64_t)c->channel, c->sound_ms,
                  c->length_ms, (int64_t)c->heard);
}

/* A pass over the whole recording found these. The tracks that it decoded are replaced; of others
 * what was measured before stays, as not heard. */
static int channels_found(struct store *st, int64_t media_id, const struct result_channel *list,
                          uint32_t count, struct err *err)
{
    int rc = db_run(st, err, "UPDATE channel SET heard = 0 WHERE media_id = ?", "i", media_id);

    for (uint32_t i = 0; rc == 0 && i < count; i++)
        if (list[i].channel && (i == 0 || list[i].track != list[i - 1].track))
            rc = db_run(st, err, "DELETE FROM channel WHERE media_id = ? AND track = ?", "ii",
                        media_id, (int64_t)list[i].track);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = put_channel(st, media_id, &list[i], err);
    return rc;
}

/* ---- a shard's texts: whether they are possible, and those that were not believed. Texts that
 * were believed are published. */

static int check_words(const struct store_shard_result *r, size_t i, struct err *err)
{
    const struct result_segment *s = &r->segments[i];

    for (size_t k = 0; k < s->word_count; k++)
        if (s->words[k].start_ms < 0 || s->words[k].end_ms < s->words[k].start_ms ||
            !s->words[k].text)
            return err_set(err, ERR_INPUT, "shard %u: word %zu of segment %zu is impossible",
                           r->seq, k, i);
    return 0;
}

/* ERR_INPUT: impossible values. */
static int texts_check(const struct store_shard_result *r, struct err *err)
{
    const struct fact_result texts = {.segments = (struct result_segment *)r->segments,
                                      .count = (uint32_t)r->segment_count};

    for (size_t i = 0; i < r->segment_count; i++) {
        const struct result_segment *s = &r->segments[i];
        int rc;

        if (s->start_ms < 0 || s->end_ms < s->start_ms || !s->text || (!s->text[0] && !s->dropped))
            return err_set(err, ERR_INPUT, "shard %u: segment %zu is impossible", r->seq, i);
        if ((rc = check_words(r, i, err)) != 0)
            return rc;
    }
    if (r->segment_count > UINT32_MAX || !fact_result_holds(&texts))
        return err_set(err, ERR_INPUT, "shard %u: a text or a number is impossible", r->seq);
    return 0;
}

/* NAN (NULL in the column) if it was not measured. */
static double speech_prob(const struct result_segment *s)
{
    if (!(s->speech_prob >= 0))
        return NAN;
    return s->speech_prob > 1 ? 1 : s->speech_prob;
}

static int texts_put_dropped(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int64_t idx = 0;
    int rc = 0;

    for (size_t i = 0; i < r->segment_count && rc == 0; i++) {
        const struct result_segment *s = &r->segments[i];

        if (!s->dropped)
            continue;
        rc = db_run(st, err,
                    "INSERT INTO dropped (task_id, seq, idx, start_ms, end_ms, text, language, "
                    "reason, avg_logprob, no_speech_prob, compression_ratio, temperature, "
                    "attempts, speech_prob, source) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?)",
                    "iiiiitttddddidi", r->task_id, (int64_t)r->seq, idx++, s->start_ms, s->end_ms,
                    s->text, s->language ? s->language : "", s->reason ? s->reason : "",
                    s->avg_logprob, s->no_speech_prob, s->compression_ratio, s->temperature,
                    (int64_t)s->attempts, speech_prob(s), (int64_t)s->source);
    }
    return rc;
}

/* ---- Results */

static int check_shard_result(const struct store_shard_result *r, struct err *err)
{
    int rc;

    if (r->start_ms < 0 || r->end_ms < r->start_ms || r->seq == UINT32_MAX)
        return err_set(err, ERR_INPUT, "shard %u: impossible bounds", r->seq);
    if (!result_account_holds(&r->account))
        return err_set(err, ERR_INPUT, "shard %u: more speech without text than speech", r->seq);
    rc = texts_check(r, err);
    return rc < 0 ? rc : found_check(r, err);
}

static int task_total(struct store *st, int64_t task_id, uint32_t shards, struct err *err);

/* 1: it is new; 0: it was there already. texts: its result. */
static int put_row(struct store *st, const struct store_shard_result *r, const struct buf *texts,
                   const char *now, struct err *err)
{
    int rc = db_run(st, err,
                    "INSERT INTO shard (task_id, seq, start_ms, end_ms, language, language_prob, "
                    "windows, wall_ms, device, done_at, speech_ms, dropped_ms, missing_ms, result) "
                    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, nullif(?11, -1), "
                    "iif(?11 < 0, NULL, ?12), iif(?11 < 0, NULL, ?13), ?14) "
                    "ON CONFLICT (task_id, seq) DO NOTHING",
                    texts->len ? "iiiitdiittiiib" : "iiiitdiittiiin", r->task_id, (int64_t)r->seq,
                    r->start_ms, r->end_ms, r->language ? r->language : "", r->language_prob,
                    (int64_t)r->windows, (int64_t)r->wall_ms, r->device ? r->device : "",
                    r->done_at ? r->done_at : now, r->account.speech_ms, r->account.dropped_ms,
                    r->account.missing_ms, texts->data, texts->len);

    return rc < 0 ? rc : sqlite3_changes(st->db);
}

static int put_new(struct store *st, const struct store_shard_result *r, const char *now,
                   struct err *err)
{
    const struct fact_result texts = {.segments = (struct result_segment *)r->segments,
                                      .count = (uint32_t)r->segment_count};
    struct buf packed = BUF_INIT;
    int rc;

    if (r->segment_count)
        fact_result_put(&packed, &texts);
    rc = packed.failed ? err_no_memory(err, "catalog") : put_row(st, r, &packed, now, err);
    buf_free(&packed);
    return rc;
}

/* Stores the contents of a shard whose row was put. */
static int store_shard_contents(struct store *st, const struct store_shard_result *r,
                                const struct complete_task *t, const char *now, struct err *err)
{
    int rc = texts_put_dropped(st, r, err);

    if (rc == 0)
        rc = found_put(st, r, err);
    if (rc == 0 && r->segment_count)
        rc = reading_publish_new(st, t->media_id, r, err);
    if (rc == 0)
        rc = complete_shard(st, t, r->end_ms - r->start_ms, &r->account, now, err);
    return rc < 0 ? rc : reading_publish_due(st, err);
}

static int shard_done(struct store *st, const struct store_shard_result *r, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    struct complete_task t;
    int rc = complete_read(st, r->task_id, &t, err);
    bool late, whole;

    if (rc != 1) /* one that is not there was forgotten meanwhile */
        return rc;
    db_now(now);
    /* One that waits for its source gets nothing: the result is of what the source was before. */
    rc = t.waits_source ? 0 : put_new(st, r, now, err);
    late = rc == 0;
    /* Another number than before may make undone what is done. */
    whole = !late && r->shards && (t.total == 0 || t.total == r->shards);
    if (whole)
        t.total = r->shards;
    if (rc == 1)
        rc = store_shard_contents(st, r, &t, now, err);
    if (rc == 0 && r->shards && !whole)
        return task_total(st, r->task_id, r->shards, err);
    return rc == 0 && whole ? voices_match(st, err) : rc;
}

int store_shard_done(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int rc = check_shard_result(r, err);

    if (rc == 0)
        rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    return db_leave(st, shard_done(st, r, err), err);
}

static int set_total(struct store *st, int64_t task_id, uint32_t shards, struct err *err)
{
    return db_run(st, err, "UPDATE task SET shards_total = ?2 WHERE task_id = ?1", "ii", task_id,
                  (int64_t)shards);
}

/* A recording that turns out to have more than a decoding before found is not done any more. */
static int total_grew(struct store *st, int64_t task_id, uint32_t shards, const char *now,
                      struct err *err)
{
    struct naming_change speakers;
    struct complete_task was = {0};
    int found = complete_read(st, task_id, &was, err);
    int forgot = found < 0 ? found : complete_forget(st, task_id, shards, &speakers, err);
    int rc = forgot < 0 ? forgot : set_total(st, task_id, shards, err);

    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE task SET waits = iif(waits = 'settling', NULL, waits), "
                    "settled_at = iif(state = 'done', NULL, settled_at), "
                    "state = iif(state = 'done', 'pending', state) "
                    "WHERE task_id = ?1 AND shards_done < shards_total",
                    "i", task_id);
    if (rc == 0)
        rc = was.is_done ? choice_undone(st, was.media_id, task_id, err)
                         : choice_apply(st, was.media_id, err);
    if (rc == 0 && forgot == 1)
        rc = choice_voices_changed(st, was.media_id, task_id, err);
    if (rc == 0)
        rc = complete_check(st, task_id, now, err);
    return forgot == 1 ? naming_after(st, &speakers, rc, err) : rc;
}

static int task_total(struct store *st, int64_t task_id, uint32_t shards, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    sqlite3_stmt *stmt = NULL;
    bool other, grew;
    int rc = db_first(st, &stmt, err,
                      "SELECT shards_total IS NOT ?2, "
                      "shards_done < ?2 AND (state = 'done' OR waits = 'settling') "
                      "FROM task WHERE task_id = ?1",
                      "ii", task_id, (int64_t)shards);

    if (rc != 1)
        return rc;
    other = sqlite3_column_int(stmt, 0);
    grew = sqlite3_column_int(stmt, 1);
    sqlite3_reset(stmt);
    db_now(now);
    if (grew) {
        rc = total_grew(st, task_id, shards, now, err);
    } else {
        rc = other ? set_total(st, task_id, shards, err) : 0;
        if (rc == 0)
            rc = complete_check(st, task_id, now, err);
    }
    if (rc == 0)
        rc = reading_publish_due(st, err);
    return rc == 0 ? voices_match(st, err) : rc;
}

int store_task_total(struct store *st, int64_t task_id, uint32_t shards, struct err *err)
{
    int rc;

    if (!shards)
        return err_set(err, ERR_INPUT, "task %lld: a recording has at least one shard",
                       (long long)task_id);
    rc = db_enter(st, err);
    return rc < 0 ? rc : db_leave(st, task_total(st, task_id, shards, err), err);
}

static int put_source(struct store *st, int64_t task_id, uint32_t source, const char *label,
                      struct err *err)
{
    return db_run(st, err, "INSERT INTO source (task_id, source, label) VALUES (?, ?, ?)", "iit",
                  task_id, (int64_t)source, label);
}

/* *ret: its first n sources are what is known of it. Each pass says them again. */
static int same_sources(struct store *st, int64_t task_id, const struct store_heard *heard,
                        uint32_t n, bool *ret, struct err *err)
{
    struct db_rows rows;
    uint32_t i = 0;

    *ret = true;
    db_rows_again(&rows, st, err,
                  db_cached(st, "SELECT label FROM source WHERE task_id = ? ORDER BY source", err),
                  "i", task_id);
    for (; db_rows_next(&rows); i++)
        *ret = *ret && i < n && strcmp(db_text(rows.stmt, 0), heard->sources[i].label) == 0;
    *ret = *ret && i == n;
    return db_rows_end(&rows);
}

/* A task that hears only the mix leaves out other tracks than a task that hears each source
 * apart. */
static int task_heard(struct store *st, int64_t task_id, const struct store_heard *heard,
                      struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    const char *left_out = "";
    bool apart, other, same = false;
    int64_t media_id;
    int rc = db_first(st, &stmt, err,
                      "SELECT s." DB_TRANSCRIBES " OR s." DB_FINALIZES ", ifnull(t.left_out, ''), "
                      "t.media_id FROM task t CROSS JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.task_id = ?1",
                      "i", task_id);

    if (rc != 1)
        return rc;
    apart = sqlite3_column_int(stmt, 0);
    if (apart ? heard->left_out : heard->mix_left_out)
        left_out = apart ? heard->left_out : heard->mix_left_out;
    other = strcmp(db_text(stmt, 1), left_out) != 0;
    media_id = sqlite3_column_int64(stmt, 2);
    sqlite3_reset(stmt);
    rc = 0;
    if (other)
        rc = db_run(st, err, "UPDATE task SET left_out = nullif(?2, '') WHERE task_id = ?1", "it",
                    task_id, left_out);
    if (rc == 0)
        rc = same_sources(st, task_id, heard, apart ? heard->count : 0, &same, err);
    if (rc < 0 || same)
        return rc;
    rc = db_run(st, err, "DELETE FROM source WHERE task_id = ?", "i", task_id);
    for (uint32_t i = 0; apart && i < heard->count && rc == 0; i++)
        rc = put_source(st, task_id, i + 1, heard->sources[i].label, err);
    /* A segment's speaker follows from its source's label, so the segments change too. */
    if (rc == 0)
        rc = reading_due(st, media_id, err);
    return rc < 0 ? rc : reading_publish_due(st, err);
}

int store_task_heard(struct store *st, int64_t task_id, const struct store_heard *heard,
                     struct err *err)
{
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    return db_leave(st, task_heard(st, task_id, heard, err), err);
}

struct before {
    bool there;       /* it was not erased meanwhile */
    bool other_bytes; /* were decoded */
    bool has_tags;    /* that a decoding found */
};

static int read_media(struct store *st, int64_t media_id, const uint8_t *hash, struct before *ret,
                      struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT content_hash <> ?2, EXISTS (SELECT 1 FROM tag WHERE media_id = ?1 "
                      "AND source <> 'csv') FROM media WHERE media_id = ?1",
                      hash ? "ib" : "in", media_id, hash, (size_t)16);

    if (rc != 1)
        return rc;
    *ret = (struct before){true, sqlite3_column_int(stmt, 0), sqlite3_column_int(stmt, 1)};
    sqlite3_reset(stmt);
    return 0;
}

/* A fingerprint does not tell of all bytes: some file is not what it was enqueued as. Which one
 * that is the next enqueue finds, which reads them all. */
static int note_other_bytes(struct store *st, int64_t media_id, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    int rc;

    db_now(now);
    rc = db_run(st, err,
                "INSERT INTO event (at, kind, media_id, text) VALUES (?, 'content-differs', ?, "
                "'other bytes were decoded than are known of it, of the same size and fingerprint: "
                "its files are read whole, and told apart, when they are enqueued next')",
                "ti", now, media_id);
    return rc < 0 ? rc
                  : db_run(st, err,
                           "UPDATE place SET unproven = 1 WHERE media_id = ? "
                           "AND state <> 'replaced'",
                           "i", media_id);
}

/* Each pass over a recording says it again. */
static int note_clock(struct store *st, int64_t media_id, const char *what, struct err *err)
{
    char now[CLOCK_ISO_LEN];

    db_now(now);
    return db_run(st, err,
                  "INSERT INTO event (at, kind, media_id, text) SELECT ?1, 'clock-jumps', ?2, ?3 "
                  "WHERE NOT EXISTS (SELECT 1 FROM event WHERE media_id = ?2 "
                  "AND kind = 'clock-jumps' AND text = ?3)",
                  "tit", now, media_id, what);
}

static int put_media(struct store *st, int64_t media_id, const struct store_media_info *info,
                     const struct store_media_end *end, struct err *err)
{
    static const struct store_media_info no_info = {.duration_ms = -1};
    static const struct store_media_end no_end;
    const struct store_media_info *i = info ? info : &no_info;
    const struct store_media_end *e = end ? end : &no_end;
    char now[CLOCK_ISO_LEN];

    db_now(now);
    return db_run(
        st, err,
        "UPDATE media SET sample_rate_hz = iif(?2, ?3, sample_rate_hz), "
        "channels = iif(?2, ?4, channels), container = iif(?2, ?5, container), "
        "codec = iif(?2, ?6, codec), "
        "audio_tracks = iif(?2, iif(?14, 0, nullif(?7, 0)), audio_tracks), "
        "duration_ms = CASE WHEN ?9 THEN ?10 WHEN decoded_at IS NULL AND ?8 >= 0 THEN ?8 "
        "ELSE duration_ms END, damage = iif(?11, nullif(?12, ''), damage), "
        "decoded_at = iif(?9, ?13, decoded_at), "
        /* A recording is the bytes that its first results are of. */
        "content_hash = coalesce(iif(decoded_at IS NULL AND content_hash IS NOT fingerprint, ?15, "
        "NULL), content_hash, ?15) WHERE media_id = ?1",
        e->content_hash ? "iiiittiiiiittib" : "iiiittiiiiittin", media_id, (int64_t)(info != NULL),
        (int64_t)i->sample_rate_hz, (int64_t)i->channels, i->container ? i->container : "",
        i->codec ? i->codec : "", (int64_t)i->audio_tracks, i->duration_ms, (int64_t)(end != NULL),
        e->total_ms, (int64_t)(e->damage != NULL), e->damage, now, (int64_t)i->no_sound,
        e->content_hash, (size_t)16);
}

int store_media(struct store *st, int64_t media_id, const struct store_media_info *info,
                const struct store_media_end *end, struct err *err)
{
    struct before before = {0};
    int rc;

    if (end && end->total_ms < 0)
        return err_set(err, ERR_INPUT, "recording %lld: a negative duration", (long long)media_id);
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    rc = read_media(st, media_id, end ? end->content_hash : NULL, &before, err);
    if (rc < 0 || !before.there)
        return db_leave(st, rc, err);
    if (before.other_bytes)
        rc = note_other_bytes(st, media_id, err);
    if (rc == 0)
        rc = put_media(st, media_id, info, end, err);
    if (rc == 0 && end && end->clock && end->clock[0])
        rc = note_clock(st, media_id, end->clock, err);
    if (rc == 0 && end && end->channel_count)
        rc = channels_found(st, media_id, end->channels, end->channel_count, err);
    if (rc == 0 && info && (before.has_tags || info->tag_count))
        rc = tags_found(st, media_id, info->tags, info->tag_count, err);
    return db_leave(st, rc, err);
}
