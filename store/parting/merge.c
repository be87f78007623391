/* Merges a part's results into the catalog that the part comes from. */
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/parting/parting.h"
#include "store/parting/task_results.h"
#include "store/read/find.h"

struct merge {
    struct store *to, *part;
    struct shard_held *scratch;
    struct parting_merged *ret;
    struct task_results results;
};

/* --------------------------------------------------------------------------------- is it ours */

/* A setting as it is, newly allocated; NULL: there is none, or no memory (err->code). */
static char *setting_of(struct store *st, const char *name, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    char *ret = NULL;

    if (db_first(st, &stmt, err, "SELECT value FROM setting WHERE name = ?", "t", name) != 1)
        return NULL;
    ret = db_dup(stmt, 0);
    sqlite3_reset(stmt);
    if (!ret)
        err_no_memory(err, "catalog");
    return ret;
}

/* Checkpoints at other places would be other shards of the same numbers. */
static int check_length(struct merge *m, struct err *err)
{
    char *here = setting_of(m->to, "shard_ms", err), *there = setting_of(m->part, "shard_ms", err);
    int rc = err->code;

    if (rc == 0 && (!here || !there || strcmp(here, there) != 0))
        rc = err_set(
            err, ERR_INPUT,
            "it has checkpoints every %.20s ms, the catalog every %.20s: its results do not "
            "fit",
            there ? there : "?", here ? here : "?");
    free(here);
    free(there);
    return rc;
}

static int check_origin(struct merge *m, struct err *err)
{
    struct parting_about about;
    char here[PARTING_ID_LEN];
    int rc = parting_about(m->part, &about, err);

    if (rc == 0)
        rc = parting_origin(m->to, here, err);
    if (rc == 0 && strcmp(here, about.origin) != 0)
        rc = err_set(err, ERR_INPUT, "it is a part of another catalog than '%s'", m->to->path);
    return rc == 0 ? check_length(m, err) : rc;
}

/* --------------------------------------------------------------------------------- recordings */

struct tags {
    struct result_tag *list;
    char **texts; /* three of each */
    uint32_t count;
};

static void tags_free(struct tags *t)
{
    for (uint32_t i = 0; t->texts && i < 3 * t->count; i++)
        free(t->texts[i]);
    free(t->texts);
    free(t->list);
}

static int add_tag(struct tags *t, sqlite3_stmt *stmt, struct err *err)
{
    char **texts = t->texts + 3 * (size_t)t->count;

    for (int i = 0; i < 3; i++)
        texts[i] = db_dup(stmt, i);
    t->list[t->count++] = (struct result_tag){
        texts[0], texts[1], texts[2], sqlite3_column_int64(stmt, 3), sqlite3_column_int64(stmt, 4)};
    return texts[0] && texts[1] && texts[2] ? 0 : err_no_memory(err, "catalog");
}

/* Reads the tags that decoding found, within their limits; not those that people set. */
static int read_tags(struct store *part, int64_t media_id, struct tags *t, struct err *err)
{
    static const char sql[] =
        "SELECT source, substr(key, 1, ?2), substr(value, 1, ?3), ifnull(start_ms, 0), "
        "ifnull(end_ms, 0) FROM tag WHERE media_id = ?1 "
        "AND source IN ('container', 'stream', 'bext', 'ixml', 'chapter') "
        "ORDER BY source, key, seq LIMIT ?4";
    struct db_rows rows;

    t->list = calloc(RESULT_TAGS_MAX, sizeof(*t->list));
    t->texts = calloc(3 * (size_t)RESULT_TAGS_MAX, sizeof(*t->texts));
    if (!t->list || !t->texts)
        return err_no_memory(err, "catalog");
    db_rows_again(&rows, part, err, db_cached(part, sql, err), "iiii", media_id,
                  (int64_t)RESULT_TAG_KEY_MAX, (int64_t)RESULT_TAG_VALUE_MAX,
                  (int64_t)RESULT_TAGS_MAX);
    while (db_rows_next(&rows))
        rows.rc = add_tag(t, rows.stmt, err);
    return db_rows_end(&rows);
}

struct media {
    int64_t here, there, duration_ms, rate_hz, channels, tracks;
    char *container, *codec, *damage;
    bool ended, hashed, no_sound;
    uint8_t hash[16];
};

static void media_free(struct media *d)
{
    free(d->container);
    free(d->codec);
    free(d->damage);
}

struct channels {
    struct result_channel list[RESULT_CHANNELS_MAX];
    uint32_t count;
};

static int add_channel(void *arg, const struct result_channel *row)
{
    struct channels *c = arg;

    if (c->count < RESULT_CHANNELS_MAX)
        c->list[c->count++] = *row;
    return 0;
}

static int put_info(struct merge *m, const struct media *d, struct err *err)
{
    struct channels channels = {.count = 0};
    struct tags tags = {0};
    int read = read_tags(m->part, d->there, &tags, err);
    int rc = read ? read : find_channels(m->part, d->there, add_channel, &channels, err);
    const struct store_media_info info = {
        .duration_ms = d->duration_ms,
        .sample_rate_hz = (uint32_t)d->rate_hz,
        .channels = (uint32_t)d->channels,
        .container = d->container,
        .codec = d->codec,
        .tags = tags.list,
        .tag_count = tags.count,
        .audio_tracks = (uint32_t)d->tracks,
        .no_sound = d->no_sound,
    };
    const struct store_media_end end = {.total_ms = d->duration_ms,
                                        .content_hash = d->hashed ? d->hash : NULL,
                                        .damage = d->damage,
                                        .channels = channels.list,
                                        .channel_count = channels.count};

    if (rc == 0)
        rc = store_media(m->to, d->here, &info, d->ended ? &end : NULL, err);
    tags_free(&tags);
    return rc;
}

static int read_media(sqlite3_stmt *stmt, struct media *d, struct err *err)
{
    const void *hash = sqlite3_column_blob(stmt, 6);

    d->duration_ms = sqlite3_column_int64(stmt, 0);
    d->rate_hz = sqlite3_column_int64(stmt, 1);
    d->channels = sqlite3_column_int64(stmt, 2);
    d->container = db_dup(stmt, 3);
    d->codec = db_dup(stmt, 4);
    d->damage = db_dup(stmt, 5);
    d->hashed = hash && sqlite3_column_bytes(stmt, 6) == (int)sizeof(d->hash);
    if (d->hashed)
        memcpy(d->hash, hash, sizeof(d->hash));
    d->ended = sqlite3_column_int(stmt, 7);
    d->tracks = sqlite3_column_int64(stmt, 8);
    d->no_sound = sqlite3_column_int(stmt, 9);
    if (!d->container || !d->codec || !d->damage)
        return err_no_memory(err, "catalog");
    /* -1: its end has not been seen. */
    if (d->duration_ms < (d->ended ? 0 : -1) || d->rate_hz < 0 || d->rate_hz > UINT32_MAX ||
        d->channels < 0 || d->channels > UINT32_MAX || d->tracks < 0 || d->tracks > UINT32_MAX)
        return err_set(err, ERR_INPUT, "recording %lld is impossible", (long long)d->there);
    return 0;
}

/* Copies what decoding found in the part and this catalog does not know yet. */
static int merge_media(struct merge *m, int64_t there, int64_t here, bool began, struct err *err)
{
    struct media d = {.here = here, .there = there};
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(m->part, &stmt, err,
                 "SELECT ifnull(duration_ms, -1), ifnull(sample_rate_hz, 0), "
                 "ifnull(channels, 0), container, codec, damage, content_hash, "
                 "decoded_at IS NOT NULL, ifnull(audio_tracks, 0), audio_tracks IS 0 FROM media "
                 "WHERE media_id = ?1 AND container IS NOT NULL "
                 "AND (decoded_at IS NOT NULL OR ?2 = 0)",
                 "ii", there, (int64_t)began);

    if (rc != 1)
        return rc;
    rc = read_media(stmt, &d, err);
    sqlite3_reset(stmt);
    if (rc == 0)
        rc = put_info(m, &d, err);
    media_free(&d);
    return rc;
}

/* -------------------------------------------------------------------------------------- tasks */

/* 0: this catalog has it not. Over: done, and no shorter than the part found it. */
static int task_here(struct merge *m, int64_t there, int64_t media, int64_t *ret, bool *over,
                     struct err *err)
{
    sqlite3_stmt *stmt = NULL, *found = NULL;
    int rc =
        db_first(m->part, &stmt, err,
                 "SELECT s.name, s.model_hash, s.params, ifnull(t.shards_total, 0) FROM task t "
                 "JOIN stage s ON s.stage_id = t.stage_id WHERE t.task_id = ?",
                 "i", there);

    *ret = 0;
    if (rc != 1)
        return rc;
    rc = db_first(m->to, &found, err,
                  "SELECT t.task_id, t.state = 'done' AND t.shards_total >= ?5 FROM stage s "
                  "JOIN task t ON t.stage_id = s.stage_id AND t.media_id = ?4 "
                  "WHERE s.name = ?1 AND s.model_hash = ?2 AND s.params = ?3",
                  "tttii", db_text(stmt, 0), db_text(stmt, 1), db_text(stmt, 2), media,
                  sqlite3_column_int64(stmt, 3));
    if (rc == 1) {
        *ret = sqlite3_column_int64(found, 0);
        *over = sqlite3_column_int(found, 1);
        sqlite3_reset(found);
    }
    sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

static int count_known(struct merge *m, int64_t there, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(m->part, &stmt, err, "SELECT count(*) FROM shard WHERE task_id = ?", "i", there);

    if (rc == 1) {
        m->results.known += (uint64_t)sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

/* A failure in a part counts once. After `retry` here it is over, however often the part comes
 * back. So the catalog remembers the time of the last failure it took over. Returns 1 if this one
 * is news. */
static int is_news(struct merge *m, int64_t here, const char *when, struct err *err)
{
    int rc = db_run(m->to, err,
                    "INSERT INTO setting (name, value) VALUES ('failed:' || ?1, ?2) "
                    "ON CONFLICT (name) DO UPDATE SET value = excluded.value "
                    "WHERE excluded.value > value",
                    "it", here, when);

    return rc < 0 ? rc : sqlite3_changes(m->to->db) > 0;
}

/* Given up there; what is done meanwhile, or was cancelled, stays. */
static int fail_here(struct merge *m, int64_t there, int64_t here, struct err *err)
{
    char when[CLOCK_ISO_LEN];
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(
        m->part, &stmt, err,
        "SELECT ifnull(error_code, ''), ifnull(error, ''), attempts, "
        "ifnull(substr(settled_at, 1, 24), '') FROM task WHERE task_id = ? AND state = 'failed'",
        "i", there);

    if (rc != 1)
        return rc;
    rc = is_news(m, here, db_text(stmt, 3), err);
    if (rc == 1) {
        rc = db_run(m->to, err,
                    "UPDATE task SET state = 'failed', error_code = ?2, error = ?3, "
                    "attempts = max(attempts, ?4), retry_at = NULL, settled_at = ?5 "
                    "WHERE task_id = ?1 AND state = 'pending' AND waits IS NULL",
                    "ittit", here, db_text(stmt, 0), db_text(stmt, 1),
                    sqlite3_column_int64(stmt, 2), task_results_when(db_text(stmt, 3), when));
        if (rc == 0)
            m->ret->failed += (uint64_t)sqlite3_changes(m->to->db);
    }
    sqlite3_reset(stmt);
    return rc;
}

static int merge_task(struct merge *m, int64_t there, int64_t media, struct err *err)
{
    int64_t here = 0;
    bool over = false;
    int rc = task_here(m, there, media, &here, &over, err);

    if (rc < 0)
        return rc;
    if (here == 0) {
        m->ret->strange++;
        return 0;
    }
    if (over)
        return count_known(m, there, err);
    rc = task_results_copy(m->part, there, m->to, here, m->scratch, &m->results, err);
    return rc == 0 ? fail_here(m, there, here, err) : rc;
}

/* Is what has the fingerprint there the recording that has it here? Their hashes say so; where one
 * is not known, only that the part's row is the one that it was given. row: of merge_all; here: its
 * media_id, content_hash and created_at. */
static bool is_same(sqlite3_stmt *row, sqlite3_stmt *here)
{
    const void *a = sqlite3_column_blob(row, 3), *b = sqlite3_column_blob(here, 3);

    if (sqlite3_column_int64(row, 2) <= (int64_t)STORE_WHOLE_BYTES)
        return true;
    if (a && b && sqlite3_column_bytes(row, 3) == 16 && sqlite3_column_bytes(here, 3) == 16)
        return memcmp(a, b, 16) == 0;
    return sqlite3_column_int64(row, 0) == sqlite3_column_int64(here, 0) &&
           strcmp(db_text(row, 4), db_text(here, 4)) == 0;
}

/* *here: what this catalog calls it; 0: it is none of its recordings. */
static int find_media(struct merge *m, sqlite3_stmt *row, int64_t *here, struct err *err)
{
    int64_t there = sqlite3_column_int64(row, 0);
    const void *fingerprint = sqlite3_column_blob(row, 1);
    bool began = false, ended = false;
    sqlite3_stmt *stmt = NULL;
    int rc;

    *here = 0;
    if (!fingerprint)
        return err_set(err, ERR_INPUT, "recording %lld has no fingerprint", (long long)there);
    rc = db_first(m->to, &stmt, err,
                  "SELECT media_id, container IS NOT NULL, decoded_at IS NOT NULL, content_hash, "
                  "created_at FROM media WHERE fingerprint = ? AND size_bytes = ?",
                  "bi", fingerprint, (size_t)sqlite3_column_bytes(row, 1),
                  sqlite3_column_int64(row, 2));
    if (rc != 1)
        return rc;
    *here = is_same(row, stmt) ? sqlite3_column_int64(stmt, 0) : 0;
    began = sqlite3_column_int(stmt, 1);
    ended = sqlite3_column_int(stmt, 2);
    sqlite3_reset(stmt);
    return ended || *here == 0 ? 0 : merge_media(m, there, *here, began, err);
}

static int merge_recording(struct merge *m, sqlite3_stmt *row, struct err *err)
{
    static const char sql[] =
        "SELECT t.task_id FROM task t JOIN stage s ON s.stage_id = t.stage_id "
        "WHERE t.media_id = ? ORDER BY s.source_id IS NOT NULL, t.task_id";
    struct db_rows rows;
    int64_t here = 0;
    int rc = find_media(m, row, &here, err);

    if (rc < 0)
        return rc;
    db_rows_again(&rows, m->part, err, db_cached(m->part, sql, err), "i",
                  sqlite3_column_int64(row, 0));
    while (db_rows_next(&rows))
        if (here)
            rows.rc = merge_task(m, sqlite3_column_int64(rows.stmt, 0), here, err);
        else
            m->ret->strange++;
    return db_rows_end(&rows);
}

static int merge_all(struct merge *m, struct err *err)
{
    static const char sql[] =
        "SELECT media_id, fingerprint, size_bytes, content_hash, created_at FROM media "
        "ORDER BY media_id";
    struct db_rows rows;

    db_rows_again(&rows, m->part, err, db_cached(m->part, sql, err), "");
    while (db_rows_next(&rows))
        rows.rc = merge_recording(m, rows.stmt, err);
    return db_rows_end(&rows);
}

int parting_merge(struct store *to, struct store *part, struct parting_merged *ret, struct err *err)
{
    struct merge m = {.to = to, .part = part, .ret = ret, .scratch = shard_held_new()};
    uint64_t before = store_completed(to).tasks;
    bool held = false;
    int rc = m.scratch ? check_origin(&m, err) : err_no_memory(err, "catalog");

    *ret = (struct parting_merged){0};
    if (rc == 0)
        rc = store_hold(part, &held, err);
    if (rc == 0)
        rc = store_begin(to, err);
    if (rc == 0) {
        rc = merge_all(&m, err);
        if (rc == 0)
            rc = store_commit(to, err);
        if (rc < 0)
            store_rollback(to);
    }
    store_let_go(part, held);
    shard_held_free(m.scratch);
    ret->shards = m.results.shards;
    ret->known = m.results.known;
    ret->segments = m.results.segments;
    ret->tasks = store_completed(to).tasks - before;
    return rc < 0 ? err_prefix(err, "merging '%s'", part->path) : 0;
}
