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

int store_task_total(struct store *st, int64_t task_id, uint32_t shards, struct err *err)
{
    struct speakers_of speakers;
    char now[CLOCK_ISO_LEN];
    int rc, forgot;

    if (!shards)
        return err_set(err, ERR_INPUT, "task %lld: a recording has at least one shard",
                       (long long)task_id);
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    db_now(now);
    /* A recording that turns out to have more than a decoding before found is not done any more. */
    rc = forgot = complete_forget(st, task_id, shards, &speakers, err);
    if (rc >= 0)
        rc = db_run(st, err, "UPDATE task SET shards_total = ?2 WHERE task_id = ?1", "ii", task_id,
                    (int64_t)shards);
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE task SET waits = iif(waits = 'settling', NULL, waits), "
                    "settled_at = iif(state = 'done', NULL, settled_at), "
                    "state = iif(state = 'done', 'pending', state) "
                    "WHERE task_id = ?1 AND shards_done < shards_total "
                    "AND (waits = 'settling' OR state = 'done')",
                    "i", task_id);
    if (rc == 0)
        rc = complete_check(st, task_id, now, err);
    if (forgot == 1)
        rc = speakers_after(st, &speakers, rc, err);
    if (rc == 0)
        rc = corrections_settle(st, err);
    if (rc == 0)
        rc = voices_settle(st, err);
    return db_leave(st, rc, err);
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

/* And not the mix alone. */
#define HEARS_APART \
    "SELECT s." DB_TRANSCRIBES " OR s." DB_SETTLES " FROM stage s WHERE s.stage_id = "

static int put_sources(struct store *st, int64_t task_id, const struct store_heard *heard,
                       struct err *err)
{
    int rc = db_run(st, err, "DELETE FROM source WHERE task_id = ?", "i", task_id);

    for (uint32_t i = 0; i < heard->count && rc == 0; i++)
        rc = db_run(
            st, err,
            "INSERT INTO source (task_id, source, label) SELECT t.task_id, ?2, ?3 FROM task t "
            "WHERE t.task_id = ?1 AND (" HEARS_APART "t.stage_id)",
            "iit", task_id, (int64_t)i + 1, heard->sources[i].label);
    return rc;
}

static int task_heard(struct store *st, int64_t task_id, const struct store_heard *heard,
                      struct err *err)
{
    int rc = db_run(st, err,
                    "UPDATE task SET left_out = nullif(iif((" HEARS_APART
                    "task.stage_id), ?2, ?3), '') WHERE task_id = ?1 AND "
                    "left_out IS NOT nullif(iif((" HEARS_APART "task.stage_id), ?2, ?3), '')",
                    "itt", task_id, heard->left_out ? heard->left_out : "",
                    heard->mix_left_out ? heard->mix_left_out : "");

    return rc == 0 ? put_sources(st, task_id, heard, err) : rc;
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
    char text[256];
    int rc = db_first(st, &stmt, err,
                      "SELECT content_hash IS NOT NULL AND content_hash <> ?2 FROM media "
                      "WHERE media_id = ?1",
                      "ib", media_id, hash, (size_t)16);
    bool differs = rc == 1 && sqlite3_column_int(stmt, 0);

    if (rc == 1)
        sqlite3_reset(stmt);
    if (differs)
        return note(
            st, "content-differs", media_id,
            "files with the same size and fingerprint hold different bytes: they were taken "
            "for one recording, whose results are of the one that was decoded first",
            err);
    if (rc == 1)
        rc = db_first(st, &stmt, err,
                      "SELECT min(o.media_id) FROM media o JOIN media m ON m.media_id = ?1 "
                      "WHERE o.content_hash = ?2 AND o.media_id <> ?1 "
                      "AND o.size_bytes = m.size_bytes AND m.content_hash IS NULL "
                      "HAVING min(o.media_id) IS NOT NULL",
                      "ib", media_id, hash, (size_t)16);
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
