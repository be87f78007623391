/* tests/unit/store/bench.h - a made-up catalog's beginning, for the benches that fill one. */
#ifndef NIGHTSHIFT_TESTS_UNIT_STORE_BENCH_H
#define NIGHTSHIFT_TESTS_UNIT_STORE_BENCH_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sqlite3.h>

#include "store/store.h"
#include "tests/common/random.h"

static inline uint64_t bench_mix(uint64_t x) { return random_next(&x); }

/* -1 to 1. */
static inline float bench_noise(uint64_t x) { return (float)(bench_mix(x) >> 40) / 8388608.0f - 1; }

static inline void bench_stop(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static inline void bench_sql(sqlite3 *db, const char *format, ...)
{
    char *why = NULL, *sql;
    va_list ap;

    va_start(ap, format);
    sql = sqlite3_vmprintf(format, ap);
    va_end(ap);
    if (!sql || sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        bench_stop(why ? why : "out of memory");
    sqlite3_free(sql);
}

/* A new catalog with a job and so many recordings, a place each, in /0 and /1 in turn; their
 * numbers are in the table m. In a transaction, for the rest: bench_end. */
static inline sqlite3 *bench_begin(const char *catalog, int recordings)
{
    struct store *st = NULL;
    struct err err = {0};
    sqlite3 *db;

    unlink(catalog);
    if (store_open(catalog, STORE_WRITE, &st, &err) != 0)
        bench_stop(err.msg);
    store_close(st);
    if (sqlite3_open(catalog, &db) != SQLITE_OK)
        bench_stop("cannot open the catalog");
    bench_sql(db,
              "PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; BEGIN;"
              "INSERT INTO job (stage_id, language, command, created_at) "
              "VALUES (1, '', '', '2026');"
              "CREATE TEMP TABLE m AS WITH RECURSIVE m(i) AS "
              "(SELECT 1 UNION ALL SELECT i + 1 FROM m WHERE i < %d) SELECT i FROM m;"
              "INSERT INTO media (media_id, size_bytes, fingerprint, created_at) "
              "SELECT i, i, randomblob(16), '2026' FROM m;"
              "INSERT INTO place (media_id, path, path_raw, member, member_raw, "
              "file_size_bytes, mtime_ns, inode, device, state, job_id, seen_job) "
              "SELECT i, printf('/%%d/%%d.wav', i %% 2, i), "
              "CAST(printf('/%%d/%%d.wav', i %% 2, i) AS BLOB), '', x'', i, 1, i, 1, "
              "'present', 1, 1 FROM m",
              recordings);
    return db;
}

/* What stmt (finalized by bench_end) has bound, as a row. */
static inline void bench_row(sqlite3 *db, sqlite3_stmt *stmt)
{
    if (sqlite3_step(stmt) != SQLITE_DONE)
        bench_stop(sqlite3_errmsg(db));
    sqlite3_reset(stmt);
}

static inline void bench_end(sqlite3 *db, sqlite3_stmt *stmt)
{
    sqlite3_finalize(stmt);
    bench_sql(db, "COMMIT");
    sqlite3_close(db);
}

#endif
