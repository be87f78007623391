#include "workers/pass/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

#define APART_MOST 16
#define POINT_MAX 256

struct mount {
    unsigned major, minor;
    char point[POINT_MAX]; /* as the kernel writes it: blanks as \040 */
};

static struct {
    pthread_mutex_t lock;
    struct {
        struct mount of;
        int64_t until_ms;
    } apart[APART_MOST];
    size_t next;
    int64_t open_ms, apart_ms;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .open_ms = 60000,    /* a disk that slept, a server that starts again */
         .apart_ms = 600000}; /* less than until its recordings are tried again */

void mounts_set_patience(int64_t open_ms, int64_t apart_ms)
{
    all.open_ms = open_ms;
    all.apart_ms = apart_ms;
}

/* How many bytes of the path the mount point `at` covers; 0: it is not above the path. */
static size_t measure_mount_prefix(const char *at, const char *path)
{
    size_t n = 0;

    for (; *at; at++, n++) {
        unsigned char c = (unsigned char)*at;

        if (c == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] && at[3]) {
            c = (unsigned char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
            at += 3;
        }
        if ((unsigned char)path[n] != c)
            return 0;
    }
    return n == 1 || path[n] == 0 || path[n] == '/' ? n : 0;
}

/* Finds the path's mount by its names alone, without touching the file system. If mounts cover each
 * other, the last one counts. */
static bool mount_of(const char *path, struct mount *ret)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t room = 0, best = 0;

    while (f && getline(&line, &room, f) > 0) {
        struct mount m;
        size_t n;

        if (sscanf(line, "%*u %*u %u:%u %*s %255s", &m.major, &m.minor, m.point) != 3)
            continue;
        n = measure_mount_prefix(m.point, path);
        if (n >= best && n > 0) {
            best = n;
            *ret = m;
        }
    }
    free(line);
    if (f)
        fclose(f);
    return best > 0;
}

static int report_stalled_mount(const char *point, struct err *err)
{
    char *shown = utf8_display(point, strlen(point));

    err_set(err, ERR_STALLED,
            "what is mounted at %.200s does not answer: it is left alone for a while; look at that "
            "disk or share",
            shown ? shown : "?");
    free(shown);
    return err->code;
}

static bool is_apart(const struct mount *m)
{
    const int64_t now = clock_mono_ms();
    bool is = false;

    pthread_mutex_lock(&all.lock);
    for (size_t i = 0; i < APART_MOST; i++)
        is |= all.apart[i].until_ms > now && all.apart[i].of.major == m->major &&
              all.apart[i].of.minor == m->minor;
    pthread_mutex_unlock(&all.lock);
    return is;
}

int mounts_put_apart(const char *path, struct err *err)
{
    struct mount m = {0};

    if (!mount_of(path, &m))
        return report_stalled_mount("/", err);
    if (!is_apart(&m)) {
        pthread_mutex_lock(&all.lock);
        all.apart[all.next].of = m;
        all.apart[all.next].until_ms = clock_mono_ms() + all.apart_ms;
        all.next = (all.next + 1) % APART_MOST;
        pthread_mutex_unlock(&all.lock);
    }
    return report_stalled_mount(m.point, err);
}

/* An open in a thread of its own, which may never come back. */
struct opening {
    pthread_mutex_t lock;
    pthread_cond_t over;
    char *path;
    int fd, error;
    bool done, left; /* left: nobody waits for it any more */
};

static void opening_free(struct opening *o)
{
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->over);
    free(o->path);
    free(o);
}

static void *open_it(void *arg)
{
    struct opening *o = arg;
    int fd = open(o->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), error = errno;
    bool left;

    pthread_mutex_lock(&o->lock);
    o->fd = fd;
    o->error = fd < 0 ? error : 0;
    o->done = true;
    left = o->left;
    pthread_cond_signal(&o->over);
    pthread_mutex_unlock(&o->lock);
    if (left) {
        if (fd >= 0)
            close(fd);
        opening_free(o);
    }
    return NULL;
}

static struct opening *opening_new(const char *path)
{
    struct opening *o = calloc(1, sizeof(*o));
    pthread_condattr_t clock;

    if (!o || !(o->path = strdup(path))) {
        free(o);
        return NULL;
    }
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&o->over, &clock);
    pthread_condattr_destroy(&clock);
    return o;
}

/* False: it did not come back in time, and frees itself when it does. */
static bool wait_for(struct opening *o)
{
    const int64_t until_ms = clock_mono_ms() + all.open_ms;
    const struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    int rc = 0;
    bool done;

    pthread_mutex_lock(&o->lock);
    while (!o->done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&o->over, &o->lock, &until);
    done = o->done;
    o->left = !done;
    pthread_mutex_unlock(&o->lock);
    return done;
}

static int open_patiently(const char *path, int *ret, int *error, struct err *err)
{
    struct opening *o = opening_new(path);
    pthread_attr_t detached;
    pthread_t thread;
    int rc;

    if (!o)
        return err_set(err, ERR_NOMEM, "out of memory");
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    rc = pthread_create(&thread, &detached, open_it, o);
    pthread_attr_destroy(&detached);
    if (rc != 0) {
        opening_free(o);
        return err_set(err, ERR_NOMEM, "it cannot be opened: there are too many threads");
    }
    if (!wait_for(o))
        return mounts_put_apart(path, err);
    *ret = o->fd;
    *error = o->error;
    opening_free(o);
    return 0;
}

int mounts_open(const char *path, int *ret, struct err *err)
{
    struct mount m;
    int error = 0, rc;

    if (mount_of(path, &m) && is_apart(&m))
        return report_stalled_mount(m.point, err);
    rc = open_patiently(path, ret, &error, err);
    if (rc != 0)
        return rc;
    if (error == ENXIO || error == ENODEV)
        return err_set(err, ERR_INPUT, "it is not a regular file");
    return error ? err_sys(err, error, "it cannot be opened") : 0;
}
