/* Results: shards with their segments, and what decoding told about a recording. */
#include <stdio.h>
#include <string.h>

#include "store/corrections/settle.h"
#include "store/register/voices.h"
#include "store/results/found.h"
#include "store/results/texts.h"
#include "store/results/complete.h"
#include "store/results/speakers.h"
#include "store/results/tags.h"

static int check(const struct store_shard_result *r, struct err *err)
{
    int rc;

    if (r->start_ms < 0 || r->end_ms < r->start_ms || r->seq == UINT32_MAX)
        return err_set(err, ERR_INPUT, "shard %u: impossible bounds", r->seq);
    rc = texts_check(r, err);
    return rc < 0 ? rc : found_check(r, err);
}

static int task_total(struct store *st, int64_t task_id, uint32_t shards, struct err *err);

/* Into *t's task, which has not got it yet. */
static int put(struct store *st, const struct store_shard_result *r, const struct complete_task *t,
               const char *now, struct err *err)
{
    int rc = db_run(st, err,
                    "INSERT INTO shard (task_id, seq, start_ms, end_ms, language, language_prob, "
                    "windows, wall_ms, device, done_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    "iiiitdiitt", r->task_id, (int64_t)r->seq, r->start_ms, r->end_ms,
                    r->language ? r->language : "", r->language_prob, (int64_t)r->windows,
                    (int64_t)r->wall_ms, r->device ? r->device : "", r->done_at ? r->done_at : now);

    if (rc == 0)
        rc = texts_put(st, r, err);
    if (rc == 0)
        rc = found_put(st, r, err);
    if (rc == 0 && r->segment_count)
        rc = speakers_assign(st, t->media_id, r->task_id, r->seq, err);
    if (rc == 0)
        rc = complete_shard(st, t, r->end_ms - r->start_ms, now, err);
    return rc < 0 ? rc : corrections_settle(st, err);
}

static int shard_done(struct store *st, const struct store_shard_result *r, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    struct complete_task t;
    int rc = complete_read(st, r->task_id, r->seq, &t, err);
    bool late, whole;

    if (rc != 1) /* one that is not there was forgotten meanwhile */
        return rc;
    /* One that waits for its source gets nothing: the result is of what the source was before. */
    late = t.has_shard || t.waits_source;
    /* Another number than before may make undone what is done. */
    whole = !late && r->shards && (t.total == 0 || t.total == r->shards);
    if (whole)
        t.total = r->shards;
    db_now(now);
    rc = late ? 0 : put(st, r, &t, now, err);
    if (rc == 0 && r->shards && !whole)
        return task_total(st, r->task_id, r->shards, err);
    return rc == 0 && whole ? voices_settle(st, err) : rc;
}

int store_shard_done(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int rc = check(r, err);

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
    struct speakers_of speakers;
    int forgot = complete_forget(st, task_id, shards, &speakers, err);
    int rc = forgot < 0 ? forgot : set_total(st, task_id, shards, err);

    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE task SET waits = iif(waits = 'settling', NULL, waits), "
                    "settled_at = iif(state = 'done', NULL, settled_at), "
                    "state = iif(state = 'done', 'pending', state) "
                    "WHERE task_id = ?1 AND shards_done < shards_total",
                    "i", task_id);
    if (rc == 0)
        rc = complete_check(st, task_id, now, err);
    return forgot == 1 ? speakers_after(st, &speakers, rc, err) : rc;
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
        rc = corrections_settle(st, err);
    return rc == 0 ? voices_settle(st, err) : rc;
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

/* Of a task that hears the mix alone, other things are left out than of one that hears each source
 * apart. */
static int task_heard(struct store *st, int64_t task_id, const struct store_heard *heard,
                      struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    const char *left_out = "";
    bool apart, other, had;
    int rc = db_first(st, &stmt, err,
                      "SELECT s." DB_TRANSCRIBES " OR s." DB_SETTLES ", ifnull(t.left_out, ''), "
                      "EXISTS (SELECT 1 FROM source WHERE task_id = ?1) "
                      "FROM task t CROSS JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.task_id = ?1",
                      "i", task_id);

    if (rc != 1)
        return rc;
    apart = sqlite3_column_int(stmt, 0);
    if (apart ? heard->left_out : heard->mix_left_out)
        left_out = apart ? heard->left_out : heard->mix_left_out;
    other = strcmp(db_text(stmt, 1), left_out) != 0;
    had = sqlite3_column_int(stmt, 2);
    sqlite3_reset(stmt);
    rc = 0;
    if (other)
        rc = db_run(st, err, "UPDATE task SET left_out = nullif(?2, '') WHERE task_id = ?1", "it",
                    task_id, left_out);
    if (rc == 0 && had)
        rc = db_run(st, err, "DELETE FROM source WHERE task_id = ?", "i", task_id);
    for (uint32_t i = 0; apart && i < heard->count && rc == 0; i++)
        rc = put_source(st, task_id, i + 1, heard->sources[i].label, err);
    return rc;
}

int store_task_heard(struct store *st, int64_t task_id, const struct store_heard *heard,
                     struct err *err)
{
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    return db_leave(st, task_heard(st, task_id, heard, err), err);
}

static int note(struct store *st, const char *kind, int64_t media_id, const char *text,
                struct err *err)
{
    char now[CLOCK_ISO_LEN];

    db_now(now);
    return db_run(st, err, "INSERT INTO event (at, kind, media_id, text) VALUES (?, ?, ?, ?)",
                  "ttit", now, kind, media_id, text);
}

/* The full hash may contradict the fingerprint, which reads a file only here and there. */
static int compare_hash(struct store *st, int64_t media_id, const uint8_t *hash, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    bool known, differs;
    char text[256];
    int64_t same;
    int rc = db_first(st, &stmt, err,
                      "SELECT m.content_hash IS NOT NULL, m.content_hash IS NOT ?2, "
                      "iif(m.content_hash IS NULL, ifnull((SELECT min(o.media_id) FROM media o "
                      "WHERE o.content_hash = ?2 AND o.size_bytes = m.size_bytes "
                      "AND o.media_id <> ?1), 0), 0) FROM media m WHERE m.media_id = ?1",
                      "ib", media_id, hash, (size_t)16);

    if (rc != 1)
        return rc;
    known = sqlite3_column_int(stmt, 0);
    differs = sqlite3_column_int(stmt, 1);
    same = sqlite3_column_int64(stmt, 2);
    sqlite3_reset(stmt);
    if (known && differs)
        return note(
            st, "content-differs", media_id,
            "files with the same size and fingerprint hold different bytes: they were taken "
            "for one recording, whose results are of the one that was decoded first",
            err);
    if (!same)
        return 0;
    snprintf(text, sizeof(text),
             "holds the same bytes as recording %lld, though they were enqueued "
             "as two",
             (long long)same);
    return note(st, "content-same", media_id, text, err);
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
        "codec = iif(?2, ?6, codec), audio_tracks = iif(?2, nullif(?7, 0), audio_tracks), "
        "duration_ms = CASE WHEN ?9 THEN ?10 WHEN decoded_at IS NULL AND ?8 >= 0 THEN ?8 "
        "ELSE duration_ms END, damage = iif(?11, nullif(?12, ''), damage), "
        "decoded_at = iif(?9, ?13, decoded_at), "
        "content_hash = ifnull(content_hash, ?14) WHERE media_id = ?1",
        e->content_hash ? "iiiittiiiiittb" : "iiiittiiiiittn", media_id, (int64_t)(info != NULL),
        (int64_t)i->sample_rate_hz, (int64_t)i->channels, i->container ? i->container : "",
        i->codec ? i->codec : "", (int64_t)i->audio_tracks, i->duration_ms, (int64_t)(end != NULL),
        e->total_ms, (int64_t)(e->damage != NULL), e->damage, now, e->content_hash, (size_t)16);
}

int store_media(struct store *st, int64_t media_id, const struct store_media_info *info,
                const struct store_media_end *end, struct err *err)
{
    int rc;

    if (end && end->total_ms < 0)
        return err_set(err, ERR_INPUT, "recording %lld: a negative duration", (long long)media_id);
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    if (end && end->content_hash)
        rc = compare_hash(st, media_id, end->content_hash, err);
    if (rc == 0)
        rc = put_media(st, media_id, info, end, err);
    if (rc == 0 && info)
        rc = tags_found(st, media_id, info->tags, info->tag_count, err);
    return db_leave(st, rc, err);
}
