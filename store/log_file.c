#include "store/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/utf8.h"
#include "store/db.h"

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
static void name_of(long pid, char *ret, size_t cap)
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
    utf8_copy(ret, cap, shown ? shown : "another program");
    free(shown);
}

/* A line of /proc/locks: "1: POSIX  ADVISORY  READ 4728 fe:00:10953801 123 123". The device is that
 * of the file system, which some number otherwise for stat(): the inode and the bytes must do. */
static bool reads(const char *line, uint64_t inode, long *pid)
{
    uint64_t of, first, last;

    return sscanf(line, "%*d: POSIX %*s READ %ld %*x:%*x:%" SCNu64 " %" SCNu64 " %" SCNu64, pid,
                  &of, &first, &last) == 4 &&
           of == inode && first <= READERS_LAST && last >= READERS_FIRST && *pid > 0 &&
           *pid != (long)getpid();
}

void store_log_readers(const struct store *st, char *ret, size_t cap)
{
    FILE *f = fopen("/proc/locks", "re");
    char line[256], name[160] = "another program";
    struct stat shm;
    long pid, who = 0;
    bool others = false;

    if (f && look_beside(st, "-shm", &shm))
        while (fgets(line, sizeof(line), f))
            if (reads(line, shm.st_ino, &pid)) {
                others = others || (who && pid != who);
                who = who ? who : pid;
            }
    if (f)
        fclose(f);
    if (who)
        name_of(who, name, sizeof(name));
    snprintf(ret, cap, "%s%s", name, others ? " and others" : "");
}
