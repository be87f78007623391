/* store/db.h - the connection itself: cached statements, transactions, errors.
 *
 * Internal to store/. The store's thread only. */
#ifndef NIGHTSHIFT_STORE_DB_H
#define NIGHTSHIFT_STORE_DB_H

#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "store/store.h"

#define DB_STATEMENTS 256

/* The stages that the catalog's own queries treat specially, as conditions on a row of the table
 * stage. The store knows stages by name alone; a test compares these with the stages themselves. */
#define DB_TRANSCRIBES "name = 'transcribe'" /* yields segments */
#define DB_FINALIZES "name = 'diarize'" /* not done with its last shard (store.h, finalizing) */
#define DB_LISTENS "name = 'sounds'"    /* yields sounds */

struct db_cached {
    const char *sql; /* the key is the pointer: each is a literal or a static array */
    sqlite3_stmt *stmt;
};

struct sums;

struct store {
    sqlite3 *db;
    char *path;
    enum store_mode mode;
    int patience_ms;
    struct stat file, log; /* of a writer: what is open (files.h); st_ino 0: unknown */
    struct db_cached cached[DB_STATEMENTS];
    size_t cached_count;
    bool batch;      /* between store_begin and store_commit */
    bool apart;      /* of a batch: a change can be undone alone */
    bool inside;     /* between db_enter and db_leave */
    bool ranks;      /* has the functions of search/search.c */
    struct err lost; /* code != 0: SQLite rolled the batch back by itself, and why */
    /* Tasks that became done: committed; of the transaction that is open; of it when db_enter was
     * called. */
    struct store_completed completed, completing, completing_before;
    uint64_t undone;   /* so many changes were rolled back */
    struct sums *sums; /* read/sums.h; NULL: not counted */
    void (*sums_free)(struct sums *);
    /* Before a commit, once: what is due of the whole transaction. Forgotten when that is undone.
     */
    int (*before_commit)(struct store *st, struct err *err);
    int64_t indexed; /* segments above this number are new (full_text.h) */
};

/* Notes which files are open, for store/files.h. Right after they were opened. */
void db_note_files(struct store *st);

/* Sets err from the connection's last error; `what` says what was being done. */
int db_error(struct store *st, struct err *err, const char *what);
/* Like db_error, but for a result code without a connection. system_errno: 0 unknown. */
int db_error_of(int rc, int system_errno, const char *text, const char *what, struct err *err);

/* A cached statement, reset and unbound; NULL on error. Valid until the store closes. */
sqlite3_stmt *db_cached(struct store *st, const char *sql, struct err *err);
/* A statement of its own: finalize it. */
sqlite3_stmt *db_prepare(struct store *st, const char *sql, struct err *err);

/* Binds from 1 on: i int64_t, d double (not finite: NULL), t const char * (NULL: NULL; ill-formed
 * UTF-8 is repaired), b const void * and size_t (a NULL pointer: empty blob), n NULL, - leaves the
 * parameter. Pointers must live until the statement is reset. Returns an SQLite code. */
int db_bind_list(sqlite3_stmt *stmt, const char *format, va_list ap);
int db_bind(sqlite3_stmt *stmt, const char *format, ...);

/* Runs a cached statement that yields no rows (or whose rows do not matter). */
int db_run(struct store *st, struct err *err, const char *sql, const char *format, ...);
/* Runs a cached statement to its first row. 1: *stmt has it, sqlite3_reset it after reading; 0: no
 * row, nothing to reset. */
int db_first(struct store *st, sqlite3_stmt **stmt, struct err *err, const char *sql,
             const char *format, ...);
/* Steps on. 1: row; 0: done (and reset); negative: error (and reset). */
int db_next(struct store *st, sqlite3_stmt *stmt, struct err *err);

/* The rows of a statement of its own, one after the other, while what is done with them may read
 * too:
 *
 *     db_rows_open(&rows, st, err, sql, "i", id);
 *     while (db_rows_next(&rows))
 *         rows.rc = fn(arg, row_of(rows.stmt));
 *     return db_rows_end(&rows);
 *
 * rc is what came of it so far: the first call that fails leaves its error there, the others then
 * do nothing; and what the caller puts there, if not 0, ends the reading, too. */
struct db_rows {
    struct store *st;
    struct err *err;
    sqlite3_stmt *stmt;
    bool kept; /* the statement is not ours to finalize */
    int rc;
};
/* sql NULL: a buffer that ran out of memory. Pointers that are bound must live until db_rows_end,
 * which is called whatever happened. */
void db_rows_open(struct db_rows *rows, struct store *st, struct err *err, const char *sql,
                  const char *format, ...);
/* The rows of a statement that is kept, and run again with other values: of db_cached, or one of
 * db_prepare's. Values bound earlier stay bound. stmt NULL: *err says why. */
void db_rows_again(struct db_rows *rows, struct store *st, struct err *err, sqlite3_stmt *stmt,
                   const char *format, ...);
void db_rows_bind(struct db_rows *rows, const char *format, ...); /* further parameters */
bool db_rows_next(struct db_rows *rows);
int db_rows_end(struct db_rows *rows); /* rc */

int db_exec(struct store *st, const char *sql, struct err *err);

/* Brackets one change: a transaction of its own, a savepoint within store_begin_apart, or a part of
 * store_begin's whole. db_leave commits when rc >= 0 and undoes the change, or the whole, when
 * rc < 0; returns rc, or what the commit said. */
int db_enter(struct store *st, struct err *err);
int db_leave(struct store *st, int rc, struct err *err);

void db_now(char out[CLOCK_ISO_LEN]);
/* Column as text, "" for NULL. Valid until the statement moves. */
const char *db_text(sqlite3_stmt *stmt, int column);
/* Newly allocated copy of a blob or text column as C string; NULL when out of memory. */
char *db_dup(sqlite3_stmt *stmt, int column);

/* The least upper bound of the names below a directory: path without trailing slashes, then '/' and
 * '0' (the byte after '/'). Newly allocated, NULL when out of memory.
 *
 * In SQL, with the path itself, low and high: one range of the index, of which what lies between
 * the path and low ("dir-2" beside "dir/") is left out. `= path OR >= low AND < high` has no upper
 * bound for SQLite, and reads all that follows. */
#define DB_BELOW(column, path, low, high)                                                 \
    column " >= " path " AND " column " < " high " AND (" column " = " path " OR " column \
           " >= " low ")"
/* In SQL: is the path the root, or below it? Both are blobs. It uses no index, so use it for few
 * roots. */
#define DB_UNDER(path, root)                                                       \
    "(" path " = " root " OR " root " = x'2F' OR substr(" path ", 1, length(" root \
    ") + 1) = CAST(" root " || x'2F' AS BLOB))"
/* The same from each root to its paths, by the index on these: for many of both. */
#define DB_PATHS_OF(root, path)                                       \
    DB_BELOW(path, root, "CAST(rtrim(" root ", '/') || '/' AS BLOB)", \
             "CAST(rtrim(" root ", '/') || '0' AS BLOB)")
struct db_prefix {
    char *low, *high; /* low = "dir/", high = "dir0" */
    size_t len;       /* of each; len - 1 without the last byte is the path itself */
};
int db_prefix(const void *path, size_t len, struct db_prefix *ret, struct err *err);
void db_prefix_free(struct db_prefix *p);

#endif
