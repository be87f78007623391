#include "store/rescue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "store/db.h"
#include "store/lock.h"

#define NAMES_MAX 100 /* of one second */

/* 0, or as store_in_place. */
static int named(const struct stat *open, const char *path)
{
    struct stat now;

    if (open->st_ino == 0)
        return 0;
    if (stat(path, &now) != 0)
        return errno == ENOENT || errno == ENOTDIR ? ERR_MISSING : 0;
    return now.st_ino == open->st_ino && now.st_dev == open->st_dev ? 0 : ERR_CHANGED;
}

int store_in_place(const struct store *st, struct err *err)
{
    char *log = NULL;
    int rc = named(&st->file, st->path);

    if (rc == ERR_MISSING)
        return err_set(err, rc, "the catalog '%s' was deleted or moved while it was in use",
                       st->path);
    if (rc)
        return err_set(err, rc, "another file took the catalog's place while it was in use: '%s'",
                       st->path);
    if (asprintf(&log, "%s-wal", st->path) < 0)
        return 0;
    if (named(&st->log, log))
        rc = err_set(err, ERR_CHANGED,
                     "the catalog's log '%s' was deleted or replaced while it was in use", log);
    free(log);
    return rc;
}

/* An empty file that nobody had, with the catalog's permissions. */
static int new_file(const struct store *st, char **ret, struct err *err)
{
    time_t now = (time_t)(clock_wall_ms() / 1000);
    struct tm tm;
    char stamp[32], *path = NULL;
    int fd = -1;

    gmtime_r(&now, &tm);
    strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
    for (int i = 1; fd < 0 && i <= NAMES_MAX; i++) {
        free(path);
        if ((i == 1 ? asprintf(&path, "%s.rescued-%s", st->path, stamp)
                    : asprintf(&path, "%s.rescued-%s-%d", st->path, stamp, i)) < 0)
            return err_set(err, ERR_NOMEM, "out of memory");
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, st->file.st_mode & 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0) {
        err_sys(err, errno, "'%s'", path);
        free(path);
        return err->code;
    }
    close(fd);
    *ret = path;
    return 0;
}

static int copy_to(struct store *st, const char *path, struct err *err)
{
    sqlite3 *to = NULL;
    sqlite3_backup *b = NULL;
    int rc = sqlite3_open_v2(
        path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    if (rc == SQLITE_OK)
        b = sqlite3_backup_init(to, "main", st->db, "main");
    if (b) {
        sqlite3_backup_step(b, -1);
        rc = sqlite3_backup_finish(b);
    } else if (rc == SQLITE_OK) {
        rc = sqlite3_extended_errcode(to);
    }
    if (rc != SQLITE_OK)
        db_error_of(rc, to ? sqlite3_system_errno(to) : 0, sqlite3_errstr(rc), path, err);
    sqlite3_close(to);
    return rc == SQLITE_OK ? 0 : err->code;
}

/* Left where it is, the next who opens what took the catalog's place would have our log put into
 * it.
 */
static void remove_log(const struct store *st)
{
    char *log = NULL;

    if (asprintf(&log, "%s-wal", st->path) < 0)
        return;
    if (st->log.st_ino && named(&st->file, st->path) && named(&st->log, log) == 0)
        unlink(log);
    free(log);
}

int store_rescue(struct store *st, char **ret, struct err *err)
{
    char *path = NULL;
    int rc = catalog_make_directory(st->path, err);

    if (rc == 0)
        rc = new_file(st, &path, err);
    if (rc)
        return rc;
    rc = copy_to(st, path, err);
    if (rc) {
        unlink(path);
        free(path);
        return rc;
    }
    remove_log(st);
    *ret = path;
    return 0;
}
