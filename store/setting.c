/* What belongs to the catalog as a whole: table setting. */
#include <stdio.h>
#include <string.h>

#include "store/db.h"

int store_identity(struct store *st, char ret[STORE_IDENTITY_LEN], struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    bool fits = false;
    int rc = db_first(st, &stmt, err, "SELECT value FROM setting WHERE name = 'identity'", "");

    if (rc < 0)
        return rc;
    if (rc == 1) {
        fits = strlen(db_text(stmt, 0)) == STORE_IDENTITY_LEN - 1;
        if (fits)
            memcpy(ret, db_text(stmt, 0), STORE_IDENTITY_LEN);
        sqlite3_reset(stmt);
    }
    return fits ? 0 : err_set(err, ERR_CORRUPT, "catalog '%s': it has no identity", st->path);
}

/* *kept 0: none yet. *out: parts of this catalog are, or it is one. */
static int length_kept(struct store *st, uint32_t *kept, bool *results, bool *out, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t ms;
    int rc = db_first(st, &stmt, err,
                      "SELECT ifnull((SELECT CAST(value AS INTEGER) FROM setting "
                      "               WHERE name = 'shard_ms'), 0), "
                      "EXISTS (SELECT 1 FROM shard), EXISTS "
                      "(SELECT 1 FROM setting WHERE name IN ('split_out', 'part_of'))",
                      "");

    if (rc != 1)
        return rc;
    ms = sqlite3_column_int64(stmt, 0);
    *results = sqlite3_column_int(stmt, 1);
    *out = sqlite3_column_int(stmt, 2);
    sqlite3_reset(stmt);
    if (ms < 0 || ms > UINT32_MAX)
        return err_set(err, ERR_CORRUPT, "catalog '%s': setting 'shard_ms' is %lld", st->path,
                       (long long)ms);
    *kept = (uint32_t)ms;
    return 0;
}

static int length_keep(struct store *st, uint32_t ms, struct err *err)
{
    char text[16];
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    snprintf(text, sizeof(text), "%u", ms);
    rc = db_run(st, err,
                "INSERT INTO setting (name, value) VALUES ('shard_ms', ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                "t", text);
    return db_leave(st, rc, err);
}

int store_shard_length(struct store *st, uint32_t wanted_ms, uint32_t otherwise_ms, uint32_t *ret,
                       struct err *err)
{
    uint32_t kept = 0, use;
    bool results = false, out = false;
    int rc = length_kept(st, &kept, &results, &out, err);

    if (rc < 0)
        return rc;
    if (wanted_ms && kept && wanted_ms != kept && results)
        return err_set(err, ERR_USAGE,
                       "this catalog's results have a checkpoint every %g s, and %g s would give "
                       "others: leave --shard away, or use another catalog",
                       kept / 1000.0, wanted_ms / 1000.0);
    if (wanted_ms && kept && wanted_ms != kept && out)
        return err_set(err, ERR_USAGE,
                       "parts of this catalog are out that have a checkpoint every %g s, and with "
                       "%g s would not come back: leave --shard away, or give them up "
                       "(`nightshift merge --finish CATALOG`)",
                       kept / 1000.0, wanted_ms / 1000.0);
    use = wanted_ms ? wanted_ms : kept ? kept : otherwise_ms;
    if (use != kept)
        rc = length_keep(st, use, err);
    if (rc == 0)
        *ret = use;
    return rc;
}
