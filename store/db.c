#include "store/db.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static bool too_many_files(int errnum) { return errnum == EMFILE || errnum == ENFILE; }

static int code_of(int rc, int system_errno)
{
    switch (rc & 0xFF) {
    case SQLITE_NOMEM:
        return ERR_NOMEM;
    case SQLITE_FULL:
        return ERR_FULL;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_CORRUPT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return ERR_DENIED;
    case SQLITE_CANTOPEN:
        if (too_many_files(system_errno))
            return ERR_NOMEM;
        return system_errno == ENOENT ? ERR_MISSING : ERR_DENIED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_LOCKED;
    case SQLITE_TOOBIG:
        return ERR_LIMIT;
    case SQLITE_INTERRUPT:
        return ERR_CANCELLED;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
        return ERR_INPUT;
    case SQLITE_IOERR:
        if (rc == SQLITE_IOERR_NOMEM)
            return ERR_NOMEM;
        if (rc == SQLITE_IOERR_CORRUPTFS)
            return ERR_CORRUPT;
        return err_from_errno(system_errno) == ERR_FULL ? ERR_FULL : ERR_IO;
    default:
        return ERR_IO;
    }
}

void db_note_files(struct store *st)
{
    char *log = NULL;

    if (stat(st->path, &st->file) != 0)
        st->file.st_ino = 0;
    if (asprintf(&log, "%s-wal", st->path) < 0)
        log = NULL;
    if (!log || stat(log, &st->log) != 0)
        st->log.st_ino = 0;
    free(log);
}

int db_error_of(int rc, int system_errno, const char *text, const char *what, struct err *err)
{
    int code = code_of(rc, system_errno);
    char why[64];

    switch (code) {
    case ERR_NOMEM:
        if ((rc & 0xFF) == SQLITE_CANTOPEN)
            return err_set(err, code, "%s: %s may not open more files%s", what,
                           system_errno == ENFILE ? "this machine" : "this process",
                           system_errno == ENFILE ? "" : ": raise its limit (ulimit -n)");
        return err_set(err, code, "%s: out of memory", what);
    case ERR_FULL:
        return err_set(err, code,
                       "%s: the disk is full; nothing that was committed is lost: make room and "
                       "try again",
                       what);
    case ERR_LOCKED:
        return err_set(err, code,
                       "%s: another program holds the catalog locked (a sqlite3 shell in a "
                       "transaction?); close it and try again",
                       what);
    default:
        break;
    }
    if (code == ERR_CORRUPT)
        return err_set(err, code,
                       "%s: the catalog is damaged (%s); keep a copy of it and its -wal, then try "
                       "`sqlite3 CATALOG .recover`",
                       what, text);
    if (system_errno && (code == ERR_IO || code == ERR_DENIED || code == ERR_MISSING))
        return err_set(err, code, "%s: %s (%s)", what, text,
                       strerror_r(system_errno, why, sizeof(why)));
    return err_set(err, code, "%s: %s", what, text);
}

int db_error(struct store *st, struct err *err, const char *what)
{
    return db_error_of(sqlite3_extended_errcode(st->db), sqlite3_system_errno(st->db),
                       sqlite3_errmsg(st->db), what, err);
}

sqlite3_stmt *db_prepare(struct store *st, const char *sql, struct err *err)
{
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(st->db, sql, -1, &stmt, NULL) != SQLITE_OK) {
        db_error(st, err, "catalog");
        return NULL;
    }
    return stmt;
}

sqlite3_stmt *db_cached(struct store *st, const char *sql, struct err *err)
{
    struct db_cached *slot;

    for (size_t i = 0; i < st->cached_count; i++)
        if (st->cached[i].sql == sql) {
            sqlite3_reset(st->cached[i].stmt);
            return st->cached[i].stmt;
        }
    if (st->cached_count == DB_STATEMENTS) {
        err_set(err, ERR_LIMIT, "catalog: more than %d statements", DB_STATEMENTS);
        return NULL;
    }
    slot = &st->cached[st->cached_count];
    if (sqlite3_prepare_v3(st->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &slot->stmt, NULL) !=
        SQLITE_OK) {
        db_error(st, err, "catalog");
        return NULL;
    }
    slot->sql = sql;
    st->cached_count++;
    return slot->stmt;
}

static int bind_text(sqlite3_stmt *stmt, int at, const char *s)
{
    size_t n;
    char *repaired;

    if (!s)
        return sqlite3_bind_null(stmt, at);
    n = strlen(s);
    if (utf8_valid(s, n))
        return sqlite3_bind_text64(stmt, at, s, n, SQLITE_STATIC, SQLITE_UTF8);
    repaired = utf8_repair(s, n);
    if (!repaired)
        return SQLITE_NOMEM;
    return sqlite3_bind_text64(stmt, at, repaired, strlen(repaired), free, SQLITE_UTF8);
}

int db_bind_list(sqlite3_stmt *stmt, const char *format, va_list ap)
{
    int rc = SQLITE_OK;

    for (int at = 1; *format && rc == SQLITE_OK; format++, at++) {
        if (*format == 'i') {
            rc = sqlite3_bind_int64(stmt, at, va_arg(ap, int64_t));
        } else if (*format == 't') {
            rc = bind_text(stmt, at, va_arg(ap, const char *));
        } else if (*format == 'd') {
            double v = va_arg(ap, double);
            rc = isfinite(v) ? sqlite3_bind_double(stmt, at, v) : sqlite3_bind_null(stmt, at);
        } else if (*format == 'b') {
            const void *data = va_arg(ap, const void *);
            size_t n = va_arg(ap, size_t);
            rc = n ? sqlite3_bind_blob64(stmt, at, data, n, SQLITE_STATIC)
                   : sqlite3_bind_zeroblob(stmt, at, 0);
        } else if (*format == 'n') {
            rc = sqlite3_bind_null(stmt, at);
        } else if (*format != '-') {
            rc = SQLITE_MISUSE;
        }
    }
    return rc;
}

int db_bind(sqlite3_stmt *stmt, const char *format, ...)
{
    va_list ap;
    int rc;

    va_start(ap, format);
    rc = db_bind_list(stmt, format, ap);
    va_end(ap);
    return rc;
}

/* A failed bind is not always kept as the connection's error. */
static int bind_failed(sqlite3_stmt *stmt, int rc, struct err *err)
{
    sqlite3_reset(stmt);
    return db_error_of(rc, 0, sqlite3_errstr(rc), "catalog", err);
}

int db_next(struct store *st, sqlite3_stmt *stmt, struct err *err)
{
    int rc = sqlite3_step(stmt);

    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE) {
        sqlite3_reset(stmt);
        return 0;
    }
    db_error(st, err, "catalog");
    sqlite3_reset(stmt);
    return err->code;
}

/* A cached statement, to its first row. */
static int first_row(struct store *st, sqlite3_stmt *stmt, struct err *err, const char *format,
                     va_list ap)
{
    int rc;

    if (!stmt)
        return err->code;
    rc = db_bind_list(stmt, format, ap);
    return rc == SQLITE_OK ? db_next(st, stmt, err) : bind_failed(stmt, rc, err);
}

int db_run(struct store *st, struct err *err, const char *sql, const char *format, ...)
{
    sqlite3_stmt *stmt = db_cached(st, sql, err);
    va_list ap;
    int rc;

    va_start(ap, format);
    rc = first_row(st, stmt, err, format, ap);
    va_end(ap);
    while (rc == 1)
        rc = db_next(st, stmt, err);
    return rc;
}

int db_first(struct store *st, sqlite3_stmt **ret, struct err *err, const char *sql,
             const char *format, ...)
{
    sqlite3_stmt *stmt = db_cached(st, sql, err);
    va_list ap;
    int rc;

    va_start(ap, format);
    rc = first_row(st, stmt, err, format, ap);
    va_end(ap);
    if (rc == 1)
        *ret = stmt;
    return rc;
}

static void rows_bind(struct db_rows *rows, const char *format, va_list ap)
{
    int rc = SQLITE_OK;

    if (rows->rc == 0)
        rc = db_bind_list(rows->stmt, format, ap);
    if (rc != SQLITE_OK)
        rows->rc = bind_failed(rows->stmt, rc, rows->err);
}

void db_rows_open(struct db_rows *rows, struct store *st, struct err *err, const char *sql,
                  const char *format, ...)
{
    va_list ap;

    *rows = (struct db_rows){.st = st, .err = err};
    if (!sql)
        rows->rc = err_no_memory(err, "catalog");
    else if (!(rows->stmt = db_prepare(st, sql, err)))
        rows->rc = err->code;
    va_start(ap, format);
    rows_bind(rows, format, ap);
    va_end(ap);
}

void db_rows_again(struct db_rows *rows, struct store *st, struct err *err, sqlite3_stmt *stmt,
                   const char *format, ...)
{
    va_list ap;

    *rows = (struct db_rows){.st = st, .err = err, .stmt = stmt, .kept = true};
    if (stmt)
        sqlite3_reset(stmt); /* its result is of the last time */
    else
        rows->rc = err->code;
    va_start(ap, format);
    rows_bind(rows, format, ap);
    va_end(ap);
}

void db_rows_bind(struct db_rows *rows, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    rows_bind(rows, format, ap);
    va_end(ap);
}

bool db_rows_next(struct db_rows *rows)
{
    int rc;

    if (rows->rc != 0)
        return false;
    rc = db_next(rows->st, rows->stmt, rows->err);
    if (rc < 0)
        rows->rc = rc;
    return rc == 1;
}

int db_rows_end(struct db_rows *rows)
{
    if (rows->kept)
        sqlite3_reset(rows->stmt);
    else
        sqlite3_finalize(rows->stmt);
    rows->stmt = NULL;
    return rows->rc;
}

int db_exec(struct store *st, const char *sql, struct err *err)
{
    if (sqlite3_exec(st->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return db_error(st, err, "catalog");
    return 0;
}

/* A statement that was left on a row would hold a commit back or block a rollback's statements. */
static void reset_all(struct store *st)
{
    for (size_t i = 0; i < st->cached_count; i++)
        sqlite3_reset(st->cached[i].stmt);
}

/* After FULL, IOERR, NOMEM and CORRUPT SQLite may have rolled back all of the transaction; a change
 * that cannot be undone alone has. */
static void notice_loss(struct store *st, const struct err *err)
{
    if (st->batch && !st->lost.code && sqlite3_get_autocommit(st->db)) {
        st->lost = *err;
        if (!st->lost.code)
            err_set(&st->lost, ERR_IO, "catalog: the transaction was rolled back");
    }
}

/* Can a change be undone alone? */
static bool alone(const struct store *st) { return !st->batch || st->apart; }

int db_enter(struct store *st, struct err *err)
{
    int rc;

    if (st->mode != STORE_WRITE)
        return err_set(err, ERR_DENIED, "catalog '%s': opened for reading only", st->path);
    if (st->lost.code) {
        *err = st->lost;
        return err->code;
    }
    if (st->inside)
        return err_set(err, ERR_USAGE, "catalog: a change within a change");
    rc = 0;
    if (alone(st))
        rc = db_run(st, err, st->batch ? "SAVEPOINT change" : "BEGIN IMMEDIATE", "");
    if (rc < 0) {
        notice_loss(st, err);
    } else {
        st->inside = true;
        st->completing_before = st->completing;
    }
    return rc;
}

static int run_before_commit(struct store *st, struct err *err)
{
    int rc = st->before_commit ? st->before_commit(st, err) : 0;

    st->before_commit = NULL;
    return rc;
}

/* The transaction is over. */
static void count_completed(struct store *st, bool committed)
{
    if (committed) {
        st->completed.tasks += st->completing.tasks;
        st->completed.recordings += st->completing.recordings;
    } else {
        st->undone++;
    }
    st->before_commit = NULL;
    st->completing = (struct store_completed){0};
}

static void rollback_change(struct store *st)
{
    struct err ignored = {0};

    reset_all(st);
    if (!st->batch || !st->apart)
        st->before_commit = NULL;
    if (sqlite3_get_autocommit(st->db))
        return;
    if (!st->batch || !st->apart)
        sqlite3_exec(st->db, "ROLLBACK", NULL, NULL, NULL);
    else if (db_exec(st, "ROLLBACK TO change; RELEASE change", &ignored) < 0)
        sqlite3_exec(st->db, "ROLLBACK", NULL, NULL, NULL);
}

int db_leave(struct store *st, int rc, struct err *err)
{
    int done;

    st->inside = false;
    if (rc >= 0 && !alone(st))
        return rc;
    reset_all(st);
    if (rc >= 0 && !st->batch && (done = run_before_commit(st, err)) < 0)
        rc = done;
    if (rc >= 0) {
        done = db_run(st, err, st->batch ? "RELEASE change" : "COMMIT", "");
        if (done == 0) {
            if (!st->batch)
                count_completed(st, true);
            return rc;
        }
        rc = done;
    }
    st->completing = st->completing_before;
    st->undone++;
    rollback_change(st);
    notice_loss(st, err);
    return rc;
}

int store_hold(struct store *st, bool *held, struct err *err)
{
    int rc;

    *held = false;
    if (st->mode != STORE_READ || !sqlite3_get_autocommit(st->db))
        return 0;
    rc = db_exec(st, "BEGIN", err);
    *held = rc == 0;
    return rc;
}

void store_let_go(struct store *st, bool held)
{
    struct err none = {0};

    if (held)
        (void)db_exec(st, "COMMIT", &none); /* nothing was written that could be lost */
}

static int begin_transaction(struct store *st, bool apart, struct err *err)
{
    int rc;

    if (st->mode != STORE_WRITE)
        return err_set(err, ERR_DENIED, "catalog '%s': opened for reading only", st->path);
    if (st->batch)
        return err_set(err, ERR_USAGE, "catalog: store_begin twice");
    rc = db_run(st, err, "BEGIN IMMEDIATE", "");
    st->batch = rc == 0;
    st->apart = apart;
    return rc;
}

int store_begin(struct store *st, struct err *err) { return begin_transaction(st, false, err); }
int store_begin_apart(struct store *st, struct err *err)
{
    return begin_transaction(st, true, err);
}

int store_commit(struct store *st, struct err *err)
{
    int rc;

    if (!st->batch)
        return err_set(err, ERR_USAGE, "catalog: store_commit without store_begin");
    if (st->lost.code) {
        *err = st->lost;
        rc = err->code;
    } else {
        reset_all(st);
        rc = run_before_commit(st, err);
        if (rc == 0)
            rc = db_run(st, err, "COMMIT", "");
    }
    if (rc < 0)
        store_rollback(st);
    count_completed(st, rc >= 0);
    st->batch = false;
    st->lost.code = 0;
    return rc;
}

void store_rollback(struct store *st)
{
    if (!st->batch)
        return;
    reset_all(st);
    if (!sqlite3_get_autocommit(st->db))
        sqlite3_exec(st->db, "ROLLBACK", NULL, NULL, NULL);
    count_completed(st, false);
    st->batch = false;
    st->lost.code = 0;
}

struct store_completed store_completed(const struct store *st) { return st->completed; }

void db_now(char out[CLOCK_ISO_LEN]) { clock_iso8601(clock_wall_ms(), out); }

const char *db_text(sqlite3_stmt *stmt, int column)
{
    const char *s = (const char *)sqlite3_column_text(stmt, column);

    return s ? s : "";
}

char *db_dup(sqlite3_stmt *stmt, int column)
{
    const void *data = sqlite3_column_blob(stmt, column);
    size_t n = (size_t)sqlite3_column_bytes(stmt, column);
    char *s = malloc(n + 1);

    if (!s)
        return NULL;
    if (n && data)
        memcpy(s, data, n);
    else
        n = 0;
    s[n] = 0;
    return s;
}

int db_prefix(const void *path, size_t len, struct db_prefix *ret, struct err *err)
{
    struct db_prefix p;

    while (len && ((const char *)path)[len - 1] == '/')
        len--;
    p.len = len + 1;
    p.low = malloc(len + 2);
    p.high = malloc(len + 2);
    if (!p.low || !p.high) {
        free(p.low);
        free(p.high);
        return err_no_memory(err, "catalog");
    }
    memcpy(p.low, path, len);
    memcpy(p.high, path, len);
    memcpy(p.low + len, "/", 2);
    memcpy(p.high + len, "0", 2);
    *ret = p;
    return 0;
}

void db_prefix_free(struct db_prefix *p)
{
    free(p->low);
    free(p->high);
    *p = (struct db_prefix){0};
}
