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

static int shard_done(struct store *st, const struct store_shard_result *r, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    sqlite3_stmt *stmt = NULL;
    /* One that waits for its source gets nothing: the result is of what the source was before. One
     * that is not there was forgotten meanwhile. */
    int rc = db_first(st, &stmt, err,
                      "SELECT EXISTS (SELECT 1 FROM shard WHERE task_id = ?1 AND seq = ?2) "
                      "OR waits IS 'source', media_id FROM task WHERE task_id = ?1",
                      "ii", r->task_id, (int64_t)r->seq);
    bool late = rc == 1 && sqlite3_column_int(stmt, 0);
    int64_t media_id = rc == 1 ? sqlite3_column_int64(stmt, 1) : 0;

    if (rc == 1)
        sqlite3_reset(stmt);
    if (rc != 1 || late)
        return rc < 0 ? rc : 0;
    db_now(now);
    rc = db_run(st, err,
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
        rc = speakers_assign(st, media_id, r->task_id, r->seq, err);
    if (rc == 0)
        rc = complete_check(st, r->task_id, now, err);
    return rc < 0 ? rc : corrections_settle(st, err);
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

/* The container's word: it must not replace the duration that decoding has found. */
int store_media_info(struct store *st, const struct store_media_info *info, struct err *err)
{
    int64_t duration = info->duration_ms;
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    rc = db_run(st, err,
                "UPDATE media SET sample_rate_hz = ?2, channels = ?3, container = ?4, codec = ?5, "
                "duration_ms = iif(decoded_at IS NULL AND ?6 >= 0, ?6, duration_ms), "
                "audio_tracks = nullif(?7, 0) WHERE media_id = ?1",
                "iiittii", info->media_id, (int64_t)info->sample_rate_hz, (int64_t)info->channels,
                info->container ? info->container : "", info->codec ? info->codec : "", duration,
                (int64_t)info->audio_tracks);
    if (rc == 0)
        rc = tags_found(st, info->media_id, info->tags, info->tag_count, err);
    return db_leave(st, rc, err);
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
    int64_t size_bytes;
    char text[256];
    int rc = db_first(st, &stmt, err,
                      "SELECT content_hash IS NOT NULL, content_hash IS NOT ?2, size_bytes "
                      "FROM media WHERE media_id = ?1",
                      "ib", media_id, hash, (size_t)16);

    if (rc != 1)
        return rc;
    known = sqlite3_column_int(stmt, 0);
    differs = sqlite3_column_int(stmt, 1);
    size_bytes = sqlite3_column_int64(stmt, 2);
    sqlite3_reset(stmt);
    if (known && differs)
        return note(
            st, "content-differs", media_id,
            "files with the same size and fingerprint hold different bytes: they were taken "
            "for one recording, whose results are of the one that was decoded first",
            err);
    if (known)
        return 0;
    rc = db_first(st, &stmt, err,
                  "SELECT media_id FROM media WHERE content_hash = ?2 AND media_id <> ?1 "
                  "AND size_bytes = ?3 ORDER BY media_id LIMIT 1",
                  "ibi", media_id, hash, (size_t)16, size_bytes);
    if (rc != 1)
        return rc;
    snprintf(text, sizeof(text),
             "holds the same bytes as recording %lld, though they were enqueued "
             "as two",
             (long long)sqlite3_column_int64(stmt, 0));
    sqlite3_reset(stmt);
    return note(st, "content-same", media_id, text, err);
}

int store_media_end(struct store *st, int64_t media_id, int64_t total_ms,
                    const uint8_t *content_hash, const char *damage, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    int rc;

    if (total_ms < 0)
        return err_set(err, ERR_INPUT, "recording %lld: a negative duration", (long long)media_id);
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    db_now(now);
    if (content_hash)
        rc = compare_hash(st, media_id, content_hash, err);
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE media SET duration_ms = ?2, damage = iif(?3, ?4, damage), "
                    "decoded_at = ?5, content_hash = ifnull(content_hash, ?6) WHERE media_id = ?1",
                    content_hash ? "iiittb" : "iiittn", media_id, total_ms,
                    (int64_t)(damage != NULL), damage && *damage ? damage : NULL, now, content_hash,
                    (size_t)16);
    return db_leave(st, rc, err);
}
