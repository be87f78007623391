#include "store/db.h"

/* From the sums that triggers keep (migrations/): the cost does not grow with the catalog. */
static const char sql_totals[] =
    "SELECT c.recordings, c.places, c.vanished, c.damaged, ifnull(sum(s.shards_done), 0), "
    "c.segments, "
    "ifnull(sum(s.pending), 0), ifnull(sum(s.done), 0), ifnull(sum(s.failed), 0), "
    "ifnull(sum(s.cancelled), 0), ifnull(sum(s.paused), 0), ifnull(sum(s.absent), 0), "
    "ifnull(sum(s.audio_known_ms), 0), ifnull(sum(s.audio_done_ms), 0), "
    "ifnull(sum(s.audio_left_ms), 0), ifnull(sum(s.unknown), 0), ifnull(sum(s.bytes_pending), 0), "
    "ifnull(sum(s.waiting), 0), "
    "c.pending, c.waiting, c.paused, c.absent, c.done, c.failed, c.cancelled, c.unknown, "
    "c.bytes_unknown, c.bytes_known, c.audio_known_ms, c.audio_done_ms, c.audio_left_ms, "
    "EXISTS (SELECT 1 FROM setting WHERE name = 'paused'), (SELECT count(*) FROM trouble), "
    "ifnull(sum(s.speech_ms), 0), ifnull(sum(s.dropped_ms), 0), ifnull(sum(s.missing_ms), 0) "
    "FROM catalog_total c LEFT JOIN stage_total s ON true";

int store_totals(struct store *st, struct store_totals *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int column = 0, rc = db_first(st, &stmt, err, sql_totals, "");

    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_set(err, ERR_CORRUPT, "catalog '%s': its sums are gone", st->path);
#define NEXT sqlite3_column_int64(stmt, column++)
    ret->recordings = (uint64_t)NEXT;
    ret->places = (uint64_t)NEXT;
    ret->vanished = (uint64_t)NEXT;
    ret->damaged = (uint64_t)NEXT;
    ret->shards_done = (uint64_t)NEXT;
    ret->segments = (uint64_t)NEXT;
    ret->tasks_pending = (uint64_t)NEXT;
    ret->tasks_done = (uint64_t)NEXT;
    ret->tasks_failed = (uint64_t)NEXT;
    ret->tasks_cancelled = (uint64_t)NEXT;
    ret->tasks_paused = (uint64_t)NEXT;
    ret->tasks_absent = (uint64_t)NEXT;
    ret->audio_known_ms = NEXT;
    ret->audio_done_ms = NEXT;
    ret->audio_left_ms = NEXT;
    ret->tasks_unknown = (uint64_t)NEXT;
    ret->bytes_pending = (uint64_t)NEXT;
    ret->tasks_waiting = (uint64_t)NEXT;
    ret->archive.pending = (uint64_t)NEXT;
    ret->archive.waiting = (uint64_t)NEXT;
    ret->archive.paused = (uint64_t)NEXT;
    ret->archive.absent = (uint64_t)NEXT;
    ret->archive.done = (uint64_t)NEXT;
    ret->archive.failed = (uint64_t)NEXT;
    ret->archive.cancelled = (uint64_t)NEXT;
    ret->archive.unknown = (uint64_t)NEXT;
    ret->archive.bytes_unknown = (uint64_t)NEXT;
    ret->archive.bytes_known = (uint64_t)NEXT;
    ret->archive.audio_known_ms = NEXT;
    ret->archive.audio_done_ms = NEXT;
    ret->archive.audio_left_ms = NEXT;
    ret->paused = NEXT != 0;
    ret->troubles = (uint64_t)NEXT;
    ret->account.speech_ms = NEXT;
    ret->account.dropped_ms = NEXT;
    ret->account.missing_ms = NEXT;
#undef NEXT
    sqlite3_reset(stmt);
    return 0;
}

uint64_t store_archive_all(const struct store_archive *a)
{
    return a->pending + a->waiting + a->paused + a->absent + a->done + a->failed + a->cancelled;
}

int store_recordings_done(struct store *st, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT done FROM catalog_total", "");

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "catalog '%s': its sums are gone", st->path);
    *ret = (uint64_t)sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

static int count_of(struct store *st, const char *sql, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql, "");

    if (rc < 0)
        return rc;
    *ret = (uint64_t)sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

/* A file that holds something else now has not vanished, and neither has what it held before. */
static const char sql_gone[] =
    "SELECT count(*) FROM media m INDEXED BY media_gone WHERE m.places = 0 AND NOT m.replaced";

int store_gone(struct store *st, uint64_t *ret, struct err *err)
{
    return count_of(st, sql_gone, ret, err);
}

static const char sql_left_out[] =
    "SELECT count(DISTINCT t.media_id) FROM task t INDEXED BY task_left_out "
    "WHERE t.left_out IS NOT NULL AND t.current";

int store_left_out(struct store *st, uint64_t *ret, struct err *err)
{
    return count_of(st, sql_left_out, ret, err);
}

static const char sql_speechless[] = "SELECT count(*) FROM task t INDEXED BY task_silent "
                                     "WHERE t.silent AND t.current AND t.state = 'done'";

int store_speechless(struct store *st, uint64_t *ret, struct err *err)
{
    return count_of(st, sql_speechless, ret, err);
}
