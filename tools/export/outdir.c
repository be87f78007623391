#include "tools/export/outdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/replace.h"
#include "tools/cli/cli.h"

/* Files for one sync. Measured on ext4 with 10,000 transcripts while compilers kept the disk busy:
 * a sync for each 43 s, for each 64 37 s, for each 512 11 s. */
#define GROUP 512
#define HOST_LEN 65
#define TEMP_LEN (HOST_LEN + 64)

struct pending {
    char *name;
    char temp[TEMP_LEN]; /* its name now */
};

struct outdir {
    int fd;
    char host[HOST_LEN];
    struct pending group[GROUP];
    uint32_t count;
    int open; /* >= 0: the last of the group, which is still written */
    uint64_t serial, files;
    sigset_t mask; /* as it was before the group, while count > 0 */
    outdir_failure_fn failed;
    void *arg;
};

static const char temp_form[] = ".nightshift-%s-%ld-%llu.tmp";

/* Half-made files of exports that were killed on this machine: what another one's processes are,
 * nobody can say here. Those with our number are theirs, too. */
static void remove_stale_temps(int folder, const char *host)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), head;
    char ours[TEMP_LEN];
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (!dir && fd >= 0)
        close(fd);
    head = snprintf(ours, sizeof(ours), ".nightshift-%s-", host);
    while (dir && (entry = readdir(dir))) {
        unsigned long long serial;
        char again[TEMP_LEN];
        long pid;

        if (strncmp(entry->d_name, ours, (size_t)head) != 0 ||
            sscanf(entry->d_name + head, "%ld-%llu.tmp", &pid, &serial) != 2 || pid <= 0)
            continue;
        snprintf(again, sizeof(again), temp_form, host, pid, serial);
        if (strcmp(again, entry->d_name) == 0 &&
            (pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH)))
            unlinkat(folder, entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

int outdir_open(const char *path, struct outdir **ret, struct err *err)
{
    struct outdir *d;
    int rc = cli_make_directories(path, err);

    if (rc != 0)
        return rc;
    d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_NOMEM, "out of memory");
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0) {
        rc = err_sys(err, errno, "open the folder '%s'", path);
        free(d);
        return rc;
    }
    d->open = -1;
    gethostname(d->host, sizeof(d->host) - 1);
    remove_stale_temps(d->fd, d->host);
    *ret = d;
    return 0;
}

/* Another system's disk refuses some characters (vfat: ':' and '?'), other names are taken. */
static bool is_of_name(int error)
{
    return error == EINVAL || error == EILSEQ || error == ENAMETOOLONG || error == EISDIR ||
           error == ENOTEMPTY || error == EEXIST;
}

/* Opens the folder of name, making what is missing; *last is the name inside it. */
static int open_parent(struct outdir *d, const char *name, const char **last, int *ret,
                       struct err *err)
{
    int fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return err_sys(err, errno, "open the output folder");
    for (const char *slash; (slash = strchr(name, '/')); name = slash + 1) {
        char part[256];
        int next;

        if ((size_t)(slash - name) >= sizeof(part)) {
            close(fd);
            return err_set(err, ERR_INPUT, "a folder's name is too long");
        }
        memcpy(part, name, (size_t)(slash - name));
        part[slash - name] = 0;
        if (mkdirat(fd, part, 0777) != 0 && errno != EEXIST) {
            int rc = is_of_name(errno)
                         ? err_set(err, ERR_INPUT, "the folder '%s' cannot have that name here: %s",
                                   part, strerror(errno))
                         : err_sys(err, errno, "make the folder '%s'", part);

            close(fd);
            return rc;
        }
        next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            int rc = errno == ENOTDIR || errno == ELOOP
                         ? err_set(err, ERR_INPUT, "'%s' is there and is not a folder", part)
                         : err_sys(err, errno, "open the folder '%s'", part);

            close(fd);
            return rc;
        }
        close(fd);
        fd = next;
    }
    *last = name;
    *ret = fd;
    return 0;
}

static void hold_signals(struct outdir *d)
{
    sigset_t wait;

    sigemptyset(&wait);
    sigaddset(&wait, SIGINT);
    sigaddset(&wait, SIGTERM);
    sigaddset(&wait, SIGHUP);
    sigprocmask(SIG_BLOCK, &wait, &d->mask);
}

static bool is_folder(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void forget_last(struct outdir *d)
{
    const struct pending *p = &d->group[--d->count];

    unlinkat(d->fd, p->temp, 0);
    free(p->name);
    if (d->count == 0)
        sigprocmask(SIG_SETMASK, &d->mask, NULL);
}

/* Can a file have that name? */
static int check_name(struct outdir *d, const char *name, struct err *err)
{
    const char *last = NULL;
    int dir = -1, rc = open_parent(d, name, &last, &dir, err);

    if (rc == 0 && is_folder(dir, last))
        rc = err_set(err, ERR_INPUT, "'%s' is there and is a folder", last);
    if (dir >= 0)
        close(dir);
    return rc;
}

/* An empty file under its temporary name, as the group's last. */
static int create_temp_file(struct outdir *d, const char *name, struct err *err)
{
    struct pending *p = &d->group[d->count];
    int rc = check_name(d, name, err);

    if (rc != 0)
        return rc;
    p->name = strdup(name);
    if (!p->name)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (d->count++ == 0)
        hold_signals(d);
    snprintf(p->temp, sizeof(p->temp), temp_form, d->host, (long)getpid(),
             (unsigned long long)d->serial++);
    d->open = openat(d->fd, p->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (d->open >= 0)
        return 0;
    rc = err_sys(err, errno, "write '%s'", name);
    forget_last(d);
    return rc;
}

/* The last one is whole; error: it is not, for this reason. */
static int close_temp_file(struct outdir *d, int error, struct err *err)
{
    int rc;

    if (close(d->open) != 0 && error == 0)
        error = errno;
    d->open = -1;
    if (error == 0)
        return 0;
    rc = err_sys(err, error, "write '%s'", d->group[d->count - 1].name);
    forget_last(d);
    return rc;
}

int outdir_write(struct outdir *d, const char *name, const void *data, size_t len, struct err *err)
{
    int rc = d->count == GROUP ? outdir_flush(d, err) : 0;

    if (rc == 0)
        rc = create_temp_file(d, name, err);
    return rc == 0 ? close_temp_file(d, replace_put(d->open, data, len), err) : rc;
}

/* ---- a large file */

void outdir_drop(struct outdir *d)
{
    if (d->open < 0)
        return;
    close(d->open);
    d->open = -1;
    forget_last(d);
}

int outdir_begin(struct outdir *d, const char *name, struct err *err)
{
    int rc = outdir_flush(d, err);

    return rc == 0 ? create_temp_file(d, name, err) : rc;
}

int outdir_append(struct outdir *d, const void *data, size_t len, struct err *err)
{
    sigset_t waiting;
    int error;

    sigpending(&waiting);
    if (sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGTERM) ||
        sigismember(&waiting, SIGHUP)) {
        outdir_drop(d); /* and the signal comes */
        return err_set(err, ERR_CANCELLED, "it was stopped");
    }
    error = replace_put(d->open, data, len);
    return error ? err_sys(err, error, "write '%s'", d->group[d->count - 1].name) : 0;
}

int outdir_end(struct outdir *d, struct err *err) { return close_temp_file(d, 0, err); }

static bool same_bytes(int fd, const char *data, size_t len)
{
    char chunk[1 << 16];
    size_t at = 0;
    ssize_t n;

    while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
        if ((size_t)n > len - at || memcmp(chunk, data + at, (size_t)n) != 0)
            return false;
        at += (size_t)n;
    }
    return n == 0 && at == len;
}

/* The file, or folder, below the output folder; -1: it is not there. */
static int open_inside(struct outdir *d, const char *name, int flags)
{
    const char *slash = strchr(name, '/');
    int dir = -1, fd;
    char part[256];

    if (!slash)
        return openat(d->fd, name, flags | O_NOFOLLOW | O_CLOEXEC);
    snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
    dir = openat(d->fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    fd = dir < 0 ? -1 : openat(dir, slash + 1, flags | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0)
        close(dir);
    return fd;
}

static bool is_no_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) != 0 || !S_ISREG(st.st_mode);
}

bool outdir_has(struct outdir *d, const char *name, const void *data, size_t len)
{
    int fd = open_inside(d, name, O_RDONLY | O_NONBLOCK);
    struct stat st;
    bool has = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

    if (has && data)
        has = (uint64_t)st.st_size == len && same_bytes(fd, data, len);
    if (fd >= 0)
        close(fd);
    return has;
}

ssize_t outdir_read(struct outdir *d, const char *name, char *ret, size_t n)
{
    int fd = open_inside(d, name, O_RDONLY | O_NONBLOCK);
    size_t at = 0;
    ssize_t got = fd < 0 || is_no_file(fd) ? -1 : 1;

    while (got > 0 && at < n) {
        got = read(fd, ret + at, n - at);
        at += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    return got < 0 ? -1 : (ssize_t)at;
}

int outdir_prune(struct outdir *d, const char *folder, bool (*keep)(void *arg, const char *name),
                 void *arg, struct err *err)
{
    int fd = open_inside(d, folder, O_RDONLY | O_DIRECTORY), rc = 0;
    struct dirent *entry;
    DIR *dir;

    if (fd < 0)
        return 0;
    dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    while (rc == 0 && (entry = readdir(dir)))
        if (!keep(arg, entry->d_name) && unlinkat(fd, entry->d_name, 0) != 0)
            rc = err_sys(err, errno, "remove '%s/%.200s'", folder, entry->d_name);
    closedir(dir);
    return rc;
}

/* Gives one file its name, or (with an `error`) takes it away. */
static int publish_temp_file(struct outdir *d, struct pending *p, int error, struct err *err)
{
    const char *last = NULL;
    int dir = -1, rc = open_parent(d, p->name, &last, &dir, err);

    if (rc == 0 && error == 0 && renameat(d->fd, p->temp, dir, last) != 0)
        error = errno;
    if (rc == 0 && error != 0)
        rc = is_of_name(error)
                 ? err_set(err, ERR_INPUT, "cannot have that name here: %s", strerror(error))
                 : err_sys(err, error, "write '%s'", p->name);
    if (rc != 0)
        unlinkat(d->fd, p->temp, 0);
    if (dir >= 0)
        close(dir);
    d->files += rc == 0;
    return rc;
}

static int finish_all(struct outdir *d, int error, struct err *err)
{
    int rc = 0;

    if (d->count == 0)
        return 0;
    for (uint32_t i = 0; i < d->count; i++) {
        struct err why = {0};
        int one = publish_temp_file(d, &d->group[i], error, &why);

        if (one != 0 && error != ECANCELED && d->failed)
            d->failed(d->arg, d->group[i].name, &why);
        free(d->group[i].name);
        if (one != 0 && one != ERR_INPUT && rc == 0) {
            *err = why;
            rc = one;
        }
    }
    d->count = 0;
    sigprocmask(SIG_SETMASK, &d->mask, NULL);
    return rc;
}

int outdir_flush(struct outdir *d, struct err *err)
{
    /* Tells of everything on that disk that could not be written since the folder was opened. */
    return finish_all(d, d->count > 0 && syncfs(d->fd) != 0 ? errno : 0, err);
}

void outdir_close(struct outdir *d)
{
    struct err ignored = {0};

    if (!d)
        return;
    outdir_drop(d);
    finish_all(d, ECANCELED, &ignored);
    close(d->fd);
    free(d);
}

void outdir_on_failure(struct outdir *d, outdir_failure_fn fn, void *arg)
{
    d->failed = fn;
    d->arg = arg;
}

uint64_t outdir_files(const struct outdir *d) { return d->files; }
