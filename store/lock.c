#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

#define SYMLINKS_MAX 40
#define HEIR_MS 3000 /* how long a child of a holder that was killed is waited for, */
#define HEIR_STEP_MS 10
#define COMMAND_MS 10000 /* and another command, as commands wait for each other */
#define HOLDER_MAX 256   /* bytes of a lock file's text */

struct catalog_lock {
    int fd;
};

/* The directory part, newly allocated: "." for a bare name. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return strdup(".");
    if (slash == path)
        return strdup("/");
    return strndup(path, (size_t)(slash - path));
}

/* A symbolic link whose target does not exist yet: where the file will be created. */
static char *link_target(const char *path)
{
    char buf[PATH_MAX], *dir, *out = NULL;
    ssize_t n = readlink(path, buf, sizeof(buf) - 1);

    if (n <= 0)
        return NULL;
    buf[n] = 0;
    if (buf[0] == '/')
        return strdup(buf);
    dir = directory_of(path);
    if (dir && asprintf(&out, "%s/%s", dir, buf) < 0)
        out = NULL;
    free(dir);
    return out;
}

/* The directory's real path and the name behind it. */
static char *resolve_new(const char *catalog, const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *dir = directory_of(path), *real, *out = NULL;

    if (!dir) {
        err_no_memory(err, "catalog");
        return NULL;
    }
    if (!*name) {
        err_set(err, ERR_USAGE, "catalog '%s': a directory's name, not a file's", catalog);
        free(dir);
        return NULL;
    }
    real = realpath(dir, NULL);
    if (!real)
        err_sys(err, errno, "catalog '%s': its directory", catalog);
    else if (asprintf(&out, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) < 0) {
        out = NULL;
        err_no_memory(err, "catalog");
    }
    free(real);
    free(dir);
    return out;
}

/* realpath() of a file that need not exist, in a directory that must. NULL: err says why. */
static char *resolve_catalog_path(const char *catalog, struct err *err)
{
    char *path = strdup(catalog), *real = NULL, *next;

    for (int depth = 0; path && depth < SYMLINKS_MAX; depth++) {
        real = realpath(path, NULL);
        next = real ? NULL : link_target(path);
        if (!next)
            break;
        free(path);
        path = next;
    }
    if (!path)
        err_no_memory(err, "catalog");
    else if (!real)
        real = resolve_new(catalog, path, err);
    free(path);
    return real;
}

static char *make_sibling_path(const char *catalog, const char *suffix, struct err *err)
{
    char *real, *out = NULL;

    if (!*catalog) {
        err_set(err, ERR_USAGE, "catalog: its name is empty");
        return NULL;
    }
    real = resolve_catalog_path(catalog, err);
    if (real && asprintf(&out, "%s%s", real, suffix) < 0) {
        out = NULL;
        err_no_memory(err, "catalog");
    }
    free(real);
    return out;
}

int catalog_sibling(const char *catalog, const char *suffix, char **ret, struct err *err)
{
    char *path = make_sibling_path(catalog, suffix, err);

    if (!path)
        return err->code;
    *ret = path;
    return 0;
}

int catalog_make_directory(const char *catalog, struct err *err)
{
    char *dir = directory_of(catalog);
    int rc = 0, why;

    if (!dir)
        return err_no_memory(err, "catalog");
    for (char *p = dir + 1; rc == 0; p++) {
        char c = *p;

        if (c != '/' && c != 0)
            continue;
        *p = 0;
        why = mkdir(dir, 0777) == 0 || errno == EEXIST ? 0 : errno;
        if (why != 0 && access(dir, F_OK) != 0)
            rc = err_sys(err, why, "catalog '%s': creating the directory '%s'", catalog, dir);
        if (c == 0)
            break;
        *p = c;
    }
    free(dir);
    return rc;
}

static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* Never through a symbolic link, and without waiting for whoever opens a pipe's other end. Returns
 * the descriptor or an error; *err has one for ENOENT, too. */
static int open_lock(const char *catalog, const char *path, int flags, struct err *err)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0666);
    int why = errno;
    struct stat info;

    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        return fd;
    if (fd < 0 && why != ELOOP && why != EISDIR && why != ENXIO)
        return err_sys(err, why, "catalog '%s': cannot be written here: its lock file '%s'",
                       catalog, path);
    if (fd >= 0)
        close(fd);
    return err_set(err, ERR_INPUT,
                   "catalog '%s': '%s' is no plain file, and so not its lock: move it away, or try "
                   "another --catalog",
                   catalog, path);
}

/* Is what the file holds a holder's lines, or their beginning, or nothing? A power cut may leave
 * zeros of them. */
static bool is_ours(int fd)
{
    static const char zeros[HOLDER_MAX], begin[] = "pid ";
    char text[HOLDER_MAX];
    ssize_t n = pread(fd, text, sizeof(text), 0);

    return n >= 0 && (size_t)n < sizeof(text) &&
           (memcmp(text, begin, n < 4 ? (size_t)n : 4) == 0 || memcmp(text, zeros, (size_t)n) == 0);
}

/* Copies the rest of the line that begins with `key`. */
static bool read_lock_field(const char *text, const char *key, char *ret, size_t capacity)
{
    const char *at = strstr(text, key);
    size_t n;

    if (!at || (at != text && at[-1] != '\n'))
        return false;
    at += strlen(key);
    n = strcspn(at, "\n");
    if (!n || n >= capacity)
        return false;
    memcpy(ret, at, n);
    ret[n] = 0;
    return true;
}

/* "Mon 30 Nov, 07:37" in the zone of $TZ or the machine, as `report` has it; what is no time of
 * clock_iso8601's stays as it is. */
static void say_day(const char *iso8601, char *ret, size_t capacity)
{
    struct tm utc = {0}, here;
    const char *end = strptime(iso8601, "%Y-%m-%dT%H:%M:%S", &utc);
    const time_t s = timegm(&utc);

    if (!end || (*end != '.' && *end != 'Z') || !localtime_r(&s, &here) ||
        strftime(ret, capacity, "%a %d %b, %H:%M", &here) == 0)
        snprintf(ret, capacity, "%s", iso8601);
}

/* "`nightshift run` (pid 123, since ...)" from the lock file's lines. */
static void describe_lock_holder(int fd, char *ret, size_t capacity)
{
    char text[HOLDER_MAX], pid[24], purpose[64], since[32], day[40], safe[300], *shown;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = 0;
    if (!read_lock_field(text, "pid ", pid, sizeof(pid)) ||
        !read_lock_field(text, "purpose ", purpose, sizeof(purpose)) ||
        !read_lock_field(text, "since ", since, sizeof(since))) {
        snprintf(ret, capacity, "another process");
        return;
    }
    say_day(since, day, sizeof(day));
    snprintf(safe, sizeof(safe), "`nightshift %s` (pid %s, since %s)", purpose, pid, day);
    shown = utf8_display(safe, strlen(safe));
    utf8_copy(ret, capacity, shown ? shown : "another process");
    free(shown);
}

/* Who wrote the lock file's lines is no more; on this machine, that is. */
static bool holder_is_gone(int fd)
{
    char text[HOLDER_MAX], pid[24];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    long id;

    text[n > 0 ? n : 0] = 0;
    if (!read_lock_field(text, "pid ", pid, sizeof(pid)))
        return false;
    id = strtol(pid, NULL, 10);
    return id > 0 && id <= INT_MAX && kill((pid_t)id, 0) != 0 && errno == ESRCH;
}

/* A run holds the catalog for hours, any other command for moments. False if the holder has not
 * written its lines yet. */
static bool holder_is_run(int fd)
{
    char text[HOLDER_MAX], purpose[64];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = 0;
    return read_lock_field(text, "purpose ", purpose, sizeof(purpose)) &&
           strcmp(purpose, "run") == 0;
}

/* How long a run waits for the holder of the lock. */
static int patience_ms(int fd)
{
    return holder_is_gone(fd) ? HEIR_MS : holder_is_run(fd) ? 0 : COMMAND_MS;
}

/* 0 or an errno. The lock belongs to the open file, not to the process: closing another descriptor
 * of the file does not release it. */
static int take_whole(int fd, bool waits)
{
    const struct timespec step = {.tv_nsec = HEIR_STEP_MS * 1000000L};

    for (int waited_ms = 0;; waited_ms += HEIR_STEP_MS) {
        struct flock whole = whole_file();
        int why;

        if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
            return 0;
        why = errno;
        if ((why != EAGAIN && why != EACCES) || !waits || waited_ms >= patience_ms(fd))
            return why;
        nanosleep(&step, NULL);
    }
}

static void write_holder(int fd, const char *purpose)
{
    char text[HOLDER_MAX], now[CLOCK_ISO_LEN];
    int n;

    clock_iso8601(clock_wall_ms(), now);
    n = snprintf(text, sizeof(text), "pid %ld\npurpose %.63s\nsince %s\n", (long)getpid(), purpose,
                 now);
    /* Only people read these lines. The lock holds without them when the disk is full. */
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return;
}

static int acquire_lock(const char *catalog, const char *purpose, bool waits,
                        struct catalog_lock **ret, struct err *err)
{
    struct catalog_lock *lock = NULL;
    char *path, holder[160];
    int rc, fd = -1, why;

    rc = catalog_make_directory(catalog, err);
    if (rc < 0)
        return rc;
    path = make_sibling_path(catalog, ".lock", err);
    if (!path)
        return err->code;
    fd = open_lock(catalog, path, O_RDWR | O_CREAT, err);
    if (fd < 0) {
        rc = fd;
        goto out;
    }
    why = take_whole(fd, waits);
    if (why != 0) {
        if (why == EAGAIN || why == EACCES) {
            describe_lock_holder(fd, holder, sizeof(holder));
            rc = err_set(err, ERR_LOCKED,
                         "another %s holds this catalog: wait for it, stop it, or use another one",
                         strncmp(holder, "another ", 8) == 0 ? holder + 8 : holder);
        } else {
            rc = err_sys(err, why, "catalog '%s': locking '%s'", catalog, path);
        }
        goto out;
    }
    if (!is_ours(fd)) {
        rc =
            err_set(err, ERR_INPUT,
                    "catalog '%s': '%s' is somebody's file, and not its lock: move it away, or try "
                    "another --catalog",
                    catalog, path);
        goto out;
    }
    lock = malloc(sizeof(*lock));
    if (!lock) {
        rc = err_no_memory(err, "catalog");
        goto out;
    }
    write_holder(fd, purpose);
    lock->fd = fd;
    fd = -1;
    *ret = lock;
out:
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

int catalog_lock_take(const char *catalog, const char *purpose, struct catalog_lock **ret,
                      struct err *err)
{
    return acquire_lock(catalog, purpose, false, ret, err);
}

int catalog_lock_inherit(const char *catalog, const char *purpose, struct catalog_lock **ret,
                         struct err *err)
{
    return acquire_lock(catalog, purpose, true, ret, err);
}

void catalog_lock_release(struct catalog_lock *lock)
{
    if (!lock)
        return;
    /* The file stays: removing it would let two processes lock two files of one name. */
    if (ftruncate(lock->fd, 0) != 0)
        write_holder(lock->fd, "(ended)");
    close(lock->fd);
    free(lock);
}

int catalog_lock_holder(const char *catalog, char *ret, size_t capacity, struct err *err)
{
    struct flock whole = whole_file();
    char *path = make_sibling_path(catalog, ".lock", err);
    int rc = 0, fd;

    if (!path)
        return err->code;
    fd = open_lock(catalog, path, O_RDONLY, err);
    if (fd < 0) {
        rc = fd;
        if (access(path, F_OK) != 0 && errno == ENOENT)
            rc = err_set(err, ERR_EMPTY, "nobody holds the catalog '%s'", catalog);
        goto out;
    }
    if (fcntl(fd, F_OFD_GETLK, &whole) != 0)
        rc = err_sys(err, errno, "catalog '%s': testing the lock of '%s'", catalog, path);
    else if (whole.l_type == F_UNLCK)
        rc = err_set(err, ERR_EMPTY, "nobody holds the catalog '%s'", catalog);
    else
        describe_lock_holder(fd, ret, capacity);
    close(fd);
out:
    free(path);
    return rc;
}
