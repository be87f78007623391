#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/db.h"
#include "store/full_text.h"
#include "store/lock.h"
#include "store/migrate.h"

#define BUSY_TIMEOUT_MS 10000

/* WAL with one writing connection and checkpoints by that connection alone: SQLite before 3.51.3
 * can damage a catalog when several connections write or checkpoint at the same moment. No mmap: an
 * I/O error of a mapped file is a signal. synchronous=FULL: a commit survives a power cut. */
static const char writer_pragmas[] = "PRAGMA synchronous = FULL;"
                                     "PRAGMA foreign_keys = ON;"
                                     "PRAGMA secure_delete = ON;" /* requests/erase.h */
                                     "PRAGMA cache_size = -16384;"
                                     "PRAGMA wal_autocheckpoint = 4000;"
                                     "PRAGMA journal_size_limit = 67108864;" /* STORE_LOG_KEPT */
                                     "PRAGMA temp_store = MEMORY;"
                                     "PRAGMA mmap_size = 0";
static const char reader_pragmas[] = "PRAGMA query_only = ON;"
                                     "PRAGMA wal_autocheckpoint = 0;"
                                     "PRAGMA cache_size = -16384;"
                                     "PRAGMA temp_store = MEMORY;"
                                     "PRAGMA mmap_size = 0";

static int connect_to(struct store *st, const char *name, int flags, struct err *err)
{
    int rc;

    /* Nobody asks how much memory SQLite has; counting each piece of it, locked, was a tenth of
     * what a result costs. Refused once SQLite has begun, as it should be: the first call decides.
     */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    rc = sqlite3_open_v2(name, &st->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (rc != SQLITE_OK) {
        if (st->db)
            db_error(st, err, "opening it");
        else
            err_no_memory(err, "opening it");
        return err_prefix(err, "catalog '%s'", st->path);
    }
    store_patience(st, BUSY_TIMEOUT_MS);
    /* A catalog may come from someone else: nothing in its schema may reach out of SQLite. A writer
     * has to trust it a little more: to SQLite before 3.41 FTS5 in a trigger is unsafe. */
    sqlite3_db_config(st->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, st->mode == STORE_WRITE, (int *)NULL);
    sqlite3_db_config(st->db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    return full_text_register(st, err);
}

/* A new catalog is private, because it holds what people said. To let others read it, use chmod.
 * SQLite gives its log the catalog's own mode. An empty file is a new catalog. */
static void make_private(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
}

/* A log that was left behind may have what was erased; where nothing ever was, that is no matter.
 */
static void finish_wipe(struct store *st)
{
    struct err ignored = {0};
    sqlite3_stmt *stmt = db_prepare(st, "SELECT 1 FROM erased LIMIT 1", &ignored);
    bool erased = stmt && db_next(st, stmt, &ignored) == 1;

    sqlite3_finalize(stmt);
    if (!erased)
        return;
    sqlite3_busy_timeout(st->db, 0);
    sqlite3_wal_checkpoint_v2(st->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_timeout(st->db, st->patience_ms);
}

static int open_writer(struct store *st, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc, version;
    bool wal;

    make_private(st->path);
    rc = connect_to(st, st->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err);
    if (rc < 0)
        return rc;
    if (sqlite3_db_readonly(st->db, "main") == 1)
        return err_set(err, ERR_DENIED,
                       "catalog '%s' is read-only: give write permission to it and its directory, "
                       "or use another catalog",
                       st->path);
    rc = migrate_check(st, &version, err);
    if (rc < 0)
        return rc;
    rc = db_exec(st, writer_pragmas, err);
    if (rc < 0)
        return err_prefix(err, "'%s'", st->path);
    stmt = db_prepare(st, "PRAGMA journal_mode = WAL", err);
    if (!stmt || db_next(st, stmt, err) < 0) {
        sqlite3_finalize(stmt);
        return err_prefix(err, "'%s': cannot be written", st->path);
    }
    wal = strcmp(db_text(stmt, 0), "wal") == 0;
    sqlite3_finalize(stmt);
    if (!wal)
        return err_set(err, ERR_DENIED,
                       "catalog '%s': its file system cannot hold a write-ahead log (a network "
                       "share?): put the catalog on a local disk",
                       st->path);
    rc = migrate_apply(st, version, err);
    if (rc == 0)
        db_note_files(st);
    if (rc == 0)
        finish_wipe(st);
    return rc;
}

/* file:<path>?immutable=1, every odd byte escaped. */
static int connect_immutable(struct store *st, struct err *err)
{
    struct buf uri = BUF_INIT;
    int rc;

    buf_put(&uri, "file:", 5);
    for (const char *p = st->path; *p; p++)
        if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
            strchr("/._-", *p))
            buf_put(&uri, p, 1);
        else
            buf_printf(&uri, "%%%02X", (unsigned char)*p);
    buf_put(&uri, "?immutable=1", 12);
    if (buf_cstr(&uri)) {
        sqlite3_close(st->db);
        st->db = NULL;
        rc = connect_to(st, buf_cstr(&uri), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, err);
    } else {
        rc = err_set(err, ERR_NOMEM, "catalog '%s': out of memory", st->path);
    }
    buf_free(&uri);
    return rc;
}

/* A WAL catalog needs FILE-shm, which cannot be made in a read-only place or on a full disk. When
 * the log is empty and nobody writes, the file alone is the whole catalog, and can be read as
 * immutable. */
static int read_without_shm(struct store *st, int *version, struct err *err)
{
    struct err why = *err, scratch = {0};
    char *wal = NULL, holder[160];
    struct stat info;
    bool pending;
    int rc;

    rc = catalog_sibling(st->path, "-wal", &wal, err);
    if (rc < 0)
        return rc;
    pending = stat(wal, &info) == 0 ? info.st_size > 0 : errno != ENOENT;
    free(wal);
    if (pending && why.code == ERR_FULL)
        return why.code;
    if (pending)
        return err_set(err, ERR_DENIED,
                       "catalog '%s' has recent changes in '%s-wal' that cannot be read in a "
                       "read-only place: copy both files to a writable directory and read them "
                       "there",
                       st->path, st->path);
    if (catalog_lock_holder(st->path, holder, sizeof(holder), &scratch) == 0) {
        *err = why;
        return err->code;
    }
    rc = connect_immutable(st, err);
    return rc < 0 ? rc : migrate_check(st, version, err);
}

static int open_reader(struct store *st, struct err *err)
{
    int rc, version = 0, on = 1;

    rc = connect_to(st, st->path, SQLITE_OPEN_READONLY, err);
    if (rc < 0)
        return rc;
    rc = migrate_check(st, &version, err);
    if (rc == ERR_DENIED || rc == ERR_MISSING || rc == ERR_FULL)
        rc = read_without_shm(st, &version, err);
    if (rc < 0)
        return rc;
    if (version == 0)
        return err_set(err, ERR_INPUT,
                       "'%s' is empty, not a catalog yet: start with `nightshift enqueue`",
                       st->path);
    if (version < migrations_last)
        return err_set(err, ERR_VERSION,
                       "'%s' was written by an older nightshift (schema %d, this one reads %d): "
                       "`nightshift run` or `nightshift enqueue` brings it up to date",
                       st->path, version, migrations_last);
    sqlite3_db_config(st->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on, (int *)NULL);
    rc = db_exec(st, reader_pragmas, err);
    return rc < 0 ? err_prefix(err, "'%s'", st->path) : 0;
}

/* Clear words for what SQLite would only call "unable to open database file". */
static int check_file(const char *path, enum store_mode mode, struct err *err)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        if (errno == ENOENT && mode == STORE_WRITE)
            return 0;
        if (errno == ENOENT)
            return err_set(
                err, ERR_MISSING,
                "there is no catalog at '%s': start with `nightshift enqueue PATH...`, or "
                "name another with --catalog",
                path);
        return err_sys(err, errno, "catalog '%s'", path);
    }
    if (!S_ISREG(info.st_mode))
        return err_set(err, ERR_INPUT, "catalog '%s' is not a file: name another with --catalog",
                       path);
    if (access(path, R_OK) != 0)
        return err_sys(err, errno, "catalog '%s'", path);
    return 0;
}

int store_open(const char *path, enum store_mode mode, struct store **ret, struct err *err)
{
    struct store *st = calloc(1, sizeof(*st));
    int rc;

    if (!st)
        return err_set(err, ERR_NOMEM, "catalog '%s': out of memory", path);
    st->mode = mode;
    rc = mode == STORE_WRITE ? catalog_make_directory(path, err) : check_file(path, mode, err);
    if (rc == 0)
        rc = catalog_sibling(path, "", &st->path, err);
    if (rc == 0)
        rc = check_file(st->path, mode, err);
    if (rc == 0)
        rc = mode == STORE_WRITE ? open_writer(st, err) : open_reader(st, err);
    if (rc < 0) {
        store_close(st);
        return rc;
    }
    *ret = st;
    return 0;
}

/* Statistics of few recordings would have SQLite read all of them, for what concerns one, when they
 * have become many while a run has the catalog open. */
static bool is_large(struct store *st)
{
    sqlite3_stmt *stmt = NULL;
    struct err ignored = {0};
    bool ret;

    if (db_first(st, &stmt, &ignored, "SELECT count(*) >= 256 FROM (SELECT 1 FROM media LIMIT 256)",
                 "") != 1)
        return false;
    ret = sqlite3_column_int(stmt, 0);
    sqlite3_reset(stmt);
    return ret;
}

/* In the end a few sampled statistics, so that people's own queries are planned well: of all
 * tables, since those of some alone mislead SQLite about the others; in one commit, whose way to
 * the disk is the checkpoint's that follows: a power cut before that costs them alone. */
void store_close(struct store *st)
{
    if (!st)
        return;
    store_rollback(st);
    if (st->db && st->mode == STORE_WRITE && sqlite3_total_changes64(st->db) > 0 && is_large(st))
        sqlite3_exec(st->db,
                     "PRAGMA analysis_limit = 400; PRAGMA synchronous = NORMAL;"
                     "BEGIN; ANALYZE; COMMIT",
                     NULL, NULL, NULL);
    for (size_t i = 0; i < st->cached_count; i++)
        sqlite3_finalize(st->cached[i].stmt);
    sqlite3_close(st->db);
    if (st->sums)
        st->sums_free(st->sums);
    free(st->path);
    free(st);
}

void store_patience(struct store *st, uint32_t ms)
{
    st->patience_ms = ms < INT32_MAX ? (int)ms : INT32_MAX;
    sqlite3_busy_timeout(st->db, st->patience_ms);
}

const char *store_path(const struct store *st) { return st->path; }

int store_schema_version(struct store *st)
{
    struct err err = {0};
    sqlite3_stmt *stmt;
    int version = 0;

    if (db_first(st, &stmt, &err, "PRAGMA user_version", "") == 1) {
        version = sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
    return version;
}

const char *store_sqlite_version(void) { return sqlite3_libversion(); }

/* ---- what belongs to the catalog as a whole: table setting */

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
