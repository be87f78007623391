#include "store/migrate.h"

#include <stdio.h>

/* The first schema that was released: development versions had smaller numbers. */
#define SCHEMA_FIRST 100

/* One integer of a PRAGMA or SELECT. Not cached: the schema is about to change. */
static int number_of(struct store *st, const char *sql, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = db_prepare(st, sql, err);
    int rc;

    if (!stmt)
        return err->code;
    rc = db_next(st, stmt, err);
    if (rc == 1)
        *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

static int refuse_unreadable(struct store *st, struct err *err)
{
    if ((sqlite3_errcode(st->db) & 0xFF) == SQLITE_NOTADB)
        return err_set(err, ERR_CORRUPT,
                       "'%s' is not an SQLite database, so not a catalog: give another name with "
                       "--catalog",
                       st->path);
    return err_prefix(err, "'%s'", st->path);
}

int migrate_check(struct store *st, int *version, struct err *err)
{
    int64_t app = 0, schema = 0, objects = 0;

    if (number_of(st, "PRAGMA application_id", &app, err) < 0 ||
        number_of(st, "PRAGMA user_version", &schema, err) < 0 ||
        number_of(st, "SELECT count(*) FROM sqlite_schema", &objects, err) < 0)
        return refuse_unreadable(st, err);
    if (app != STORE_APPLICATION_ID && (app || schema || objects))
        return err_set(err, ERR_INPUT,
                       "'%s' is an SQLite database, but not a nightshift catalog: give another "
                       "name with --catalog",
                       st->path);
    if (schema > migrations_last)
        return err_set(err, ERR_VERSION,
                       "'%s' was written by a newer nightshift (schema %d, this one knows %d): use "
                       "that version, or another catalog",
                       st->path, (int)schema, migrations_last);
    if (schema < 0)
        return err_set(err, ERR_CORRUPT, "'%s': schema number %d is none of ours", st->path,
                       (int)schema);
    if (schema > 0 && schema < SCHEMA_FIRST)
        return err_set(err, ERR_VERSION,
                       "'%s' was written by a development version of nightshift (schema %d), and "
                       "no release reads it: move it away and enqueue its folders again",
                       st->path, (int)schema);
    *version = (int)schema;
    return 0;
}

static int apply_migration(struct store *st, const struct migration *m, struct err *err)
{
    char mark[96];
    int rc = db_exec(st, m->sql, err);

    snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d",
             STORE_APPLICATION_ID, m->number);
    if (rc == 0)
        rc = db_exec(st, mark, err);
    return rc < 0 ? err_prefix(err, "migration %s", m->name) : 0;
}

int migrate_apply(struct store *st, int version, struct err *err)
{
    int rc = 0;

    for (const struct migration *m = migrations; rc == 0 && m->name; m++) {
        if (m->number <= version)
            continue;
        rc = db_enter(st, err);
        if (rc < 0)
            return rc;
        rc = db_leave(st, apply_migration(st, m, err), err);
        if (rc < 0)
            err_prefix(err, "'%s'", st->path);
    }
    return rc;
}
