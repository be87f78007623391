/* What a part says of itself. */
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/parting/parting.h"

#define MOST_PARTS 1000000u

static void keep(sqlite3_stmt *stmt, int column, char ret[PARTING_ID_LEN], bool *good)
{
    const char *text = db_text(stmt, column);

    *good = *good && strlen(text) == PARTING_ID_LEN - 1 &&
            strspn(text, "0123456789abcdef") == PARTING_ID_LEN - 1;
    if (*good)
        memcpy(ret, text, PARTING_ID_LEN);
}

static int whose(struct store *part, struct parting_about *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t number, parts;
    bool good = true;
    int rc = db_first(part, &stmt, err,
                      "SELECT max(iif(name = 'part_of', value, NULL)), "
                      "max(iif(name = 'split', value, NULL)), "
                      "max(iif(name = 'part', CAST(value AS INTEGER), NULL)), "
                      "max(iif(name = 'parts', CAST(value AS INTEGER), NULL)) FROM setting",
                      "");

    if (rc != 1)
        return rc;
    if (sqlite3_column_type(stmt, 0) == SQLITE_NULL) {
        sqlite3_reset(stmt);
        return err_set(err, ERR_INPUT,
                       "'%s' is a catalog, but no part of one: `nightshift split` makes those",
                       part->path);
    }
    keep(stmt, 0, ret->origin, &good);
    keep(stmt, 1, ret->split, &good);
    number = sqlite3_column_int64(stmt, 2);
    parts = sqlite3_column_int64(stmt, 3);
    sqlite3_reset(stmt);
    if (!good || parts < 1 || parts > MOST_PARTS || number < 0 || number >= parts)
        return err_set(err, ERR_INPUT, "'%s': what it says of itself makes no sense", part->path);
    ret->number = (uint32_t)number;
    ret->parts = (uint32_t)parts;
    return 0;
}

/* A try that ended in order says so; of one that was killed nothing more is heard. One that left a
 * checkpoint behind has not failed however it ended: nodes die, and time runs out without a word.
 * Of more than the last thousand nobody asks. */
static const char sql_tries[] =
    "WITH try AS (SELECT event_id, at, lead(event_id, 1, 9e18) OVER w AS next_id, "
    "lead(at, 1, '~') OVER w AS next_at FROM event WHERE kind = 'part-try' "
    "WINDOW w AS (ORDER BY event_id) ORDER BY event_id DESC LIMIT 1000), "
    "judged AS (SELECT t.event_id, NOT EXISTS (SELECT 1 FROM event e WHERE e.kind = 'part-end' "
    "AND e.event_id > t.event_id AND e.event_id < t.next_id) AND NOT EXISTS (SELECT 1 FROM shard s "
    "WHERE s.done_at >= t.at AND s.done_at < t.next_at) AS failed FROM try t) "
    "SELECT (SELECT count(*) FROM event WHERE kind = 'part-try'), ifnull(sum(failed), 0), "
    "ifnull((SELECT failed FROM judged ORDER BY event_id DESC LIMIT 1), 0) FROM judged";

static int tries(struct store *part, struct parting_about *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t began;
    int rc = db_first(part, &stmt, err, sql_tries, "");

    if (rc != 1)
        return rc;
    began = sqlite3_column_int64(stmt, 0);
    ret->tries = began > 0 && began < UINT32_MAX ? (uint32_t)began : 0;
    ret->failed_tries = (uint32_t)sqlite3_column_int(stmt, 1);
    ret->last_failed = sqlite3_column_int(stmt, 2);
    sqlite3_reset(stmt);
    return 0;
}

int parting_about(struct store *part, struct parting_about *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    *ret = (struct parting_about){0};
    rc = whose(part, ret, err);
    if (rc == 0)
        rc = tries(part, ret, err);
    if (rc == 0)
        rc = db_first(part, &stmt, err,
                      "SELECT (SELECT count(*) FROM media), "
                      "count(*) FILTER (WHERE state = 'done' OR (state = 'pending' AND paused)), "
                      "count(*) FILTER (WHERE state = 'failed'), count(*) FROM task",
                      "");
    if (rc != 1)
        return rc;
    ret->recordings = (uint64_t)sqlite3_column_int64(stmt, 0);
    ret->done = (uint64_t)sqlite3_column_int64(stmt, 1);
    ret->failed = (uint64_t)sqlite3_column_int64(stmt, 2);
    ret->open = (uint64_t)sqlite3_column_int64(stmt, 3) - ret->done - ret->failed;
    sqlite3_reset(stmt);
    return 0;
}

int parting_try_begins(struct store *part, const char *text, struct err *err)
{
    return store_event(part, "part-try", 0, "", text, err);
}

int parting_try_ends(struct store *part, const char *text, struct err *err)
{
    return store_event(part, "part-end", 0, "", text, err);
}
