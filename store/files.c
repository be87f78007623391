#include "store/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"
#include "store/db.h"
#include "store/lock.h"
#include "store/store.h"

/* The bytes of FILE-shm that readers lock while they are in a transaction
 * (https://www.sqlite.org/walformat.html, "WAL locks"). */
#define READERS_FIRST 123
#define READERS_LAST 127

/* False: there is none, or it cannot be looked at. */
static bool look_beside(const struct store *st, const char *suffix, struct stat *ret)
{
    char *path = NULL;
    bool there;

    if (asprintf(&path, "%s%s", st->path, suffix) < 0)
        return false;
    there = stat(path, ret) == 0;
    free(path);
    return there;
}

uint64_t store_log_bytes(const struct store *st)
{
    struct stat info;

    return look_beside(st, "-wal", &info) ? (uint64_t)info.st_size : 0;
}

int store_log_empty(struct store *st, struct err *err)
{
    int rc;

    sqlite3_busy_timeout(st->db, 0);
    rc = sqlite3_wal_checkpoint_v2(st->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    if (rc != SQLITE_OK)
        db_error(st, err, "the catalog's log");
    sqlite3_busy_timeout(st->db, st->patience_ms);
    return rc == SQLITE_OK ? 0 : err->code;
}

int store_log_room(const struct store *st, uint64_t *ret, uint64_t *all, struct err *err)
{
    struct statvfs fs;

    if (statvfs(st->path, &fs) != 0)
        return err_sys(err, errno, "the file system of '%s'", st->path);
    *ret = (uint64_t)fs.f_bavail * fs.f_frsize;
    *all = (uint64_t)fs.f_blocks * fs.f_frsize;
    return 0;
}

/* "sqlite3 (pid 123)"; a process chooses its name itself. */
static void name_of(long pid, char *ret, size_t capacity)
{
    char path[64], name[64] = "", text[128], *shown;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    f = fopen(path, "re");
    if (f && fgets(name, sizeof(name), f))
        name[strcspn(name, "\n")] = 0;
    if (f)
        fclose(f);
    snprintf(text, sizeof(text), "%s (pid %ld)", name[0] ? name : "a program", pid);
    shown = utf8_display(text, strlen(text));
    utf8_copy(ret, capacity, shown ? shown : "another program");
    free(shown);
}

/* A line of /proc/locks: "1: POSIX  ADVISORY  READ 4728 fe:00:10953801 123 123". The device is that
 * of the file system, which some number otherwise for stat(): the inode and the bytes must do. */
static bool is_reader_lock(const char *line, uint64_t inode, long *pid)
{
    uint64_t of, first, last;

    return sscanf(line, "%*d: POSIX %*s READ %ld %*x:%*x:%" SCNu64 " %" SCNu64 " %" SCNu64, pid,
                  &of, &first, &last) == 4 &&
           of == inode && first <= READERS_LAST && last >= READERS_FIRST && *pid > 0 &&
           *pid != (long)getpid();
}

void store_log_readers(const struct store *st, char *ret, size_t capacity)
{
    FILE *f = fopen("/proc/locks", "re");
    char line[256], name[160] = "another program";
    struct stat shm;
    long pid, who = 0;
    bool others = false;

    if (f && look_beside(st, "-shm", &shm))
        while (fgets(line, sizeof(line), f))
            if (is_reader_lock(line, shm.st_ino, &pid)) {
                others = others || (who && pid != who);
                who = who ? who : pid;
            }
    if (f)
        fclose(f);
    if (who)
        name_of(who, name, sizeof(name));
    snprintf(ret, capacity, "%s%s", name, others ? " and others" : "");
}

/* ---- is the catalog still where it was, and a copy of it where it is not */

#define NAMES_MAX 100 /* of one second */

/* 0, or as store_in_place. */
static int check_file_in_place(const struct stat *open, const char *path)
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
    int rc = check_file_in_place(&st->file, st->path);

    if (rc == ERR_MISSING)
        return err_set(err, rc, "the catalog '%s' was deleted or moved while it was in use",
                       st->path);
    if (rc)
        return err_set(err, rc, "another file took the catalog's place while it was in use: '%s'",
                       st->path);
    if (asprintf(&log, "%s-wal", st->path) < 0)
        return 0;
    if (check_file_in_place(&st->log, log))
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
            return err_no_memory(err, NULL);
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

/* If it stayed, SQLite would put our log into the file that took the catalog's place. */
static void remove_log(const struct store *st)
{
    char *log = NULL;

    if (asprintf(&log, "%s-wal", st->path) < 0)
        return;
    if (st->log.st_ino && check_file_in_place(&st->file, st->path) &&
        check_file_in_place(&st->log, log) == 0)
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
