#include "tools/enqueue/watching.h"

#include <errno.h>
#include <fts.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "tools/enqueue/found/skip_name.h"

#define EVENTS                                                                          \
    (IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)
#define ABSENT_MS 2000  /* between looks at whether a root is back */
#define AGAIN_MS 60000  /* after an enqueue that failed */
#define HOUR_MS 3600000 /* a look comes also when nothing is heard */
#define WAIT_MS 1000
#define CHILD_STEP_MS 50
#define CHILD_KILLED_MS 5000

static volatile sig_atomic_t stopped;

static void on_signal(int signum)
{
    (void)signum;
    stopped = 1;
}

struct look {
    const struct watching *w;
    int events; /* of inotify; -1: none */
    int64_t now_ms;
    uint64_t sum;      /* of stable files */
    uint64_t unstable; /* files */
    bool absent;       /* a root is */
    bool deaf;         /* some folder gives no events */
};

bool watching_is_stable(const struct stat *st, int64_t stable_ms, int64_t now_ms)
{
    const struct timespec *late = &st->st_mtim;
    int64_t age;

    if (st->st_ctim.tv_sec > late->tv_sec ||
        (st->st_ctim.tv_sec == late->tv_sec && st->st_ctim.tv_nsec > late->tv_nsec))
        late = &st->st_ctim;
    age = now_ms - clock_ns_of(late) / 1000000;
    return age >= stable_ms || age < -stable_ms;
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
    const unsigned char *p = data;

    while (len--)
        h = (h ^ *p++) * UINT64_C(0x100000001b3);
    return h;
}

/* In whichever order they come. */
static void add_entry_to_sum(struct look *l, const FTSENT *e, const void *facts, size_t bytes)
{
    l->sum += hash_bytes(hash_bytes(UINT64_C(0xcbf29ce484222325), e->fts_path, e->fts_pathlen),
                         facts, bytes);
}

static void add_file(struct look *l, const FTSENT *e)
{
    const struct stat *st = e->fts_statp;
    const int64_t facts[] = {(int64_t)st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                             (int64_t)st->st_ino};

    if (watching_is_stable(st, l->w->stable_ms, l->now_ms))
        add_entry_to_sum(l, e, facts, sizeof(facts));
    else
        l->unstable++;
}

/* Others write there, and this kernel does not hear of it. */
static bool is_share(const char *path)
{
    static const uint32_t kinds[] = {
        0x6969,     /* NFS */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB2 */
        0x517B,     /* SMB */
        0x65735546, /* FUSE: sshfs, rclone ... */
        0x01021997, /* 9p */
        0x5346414F, /* AFS */
        0x00C36400, /* Ceph */
    };
    struct statfs fs;

    if (statfs(path, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if ((uint32_t)fs.f_type == kinds[i])
            return true;
    return false;
}

static void add_folder(struct look *l, const FTSENT *e)
{
    const bool other_disk = e->fts_level == 0 || e->fts_parent->fts_dev != e->fts_dev;

    if ((other_disk && is_share(e->fts_path)) || l->events < 0 ||
        inotify_add_watch(l->events, e->fts_path, EVENTS) < 0)
        l->deaf = true;
}

/* Is it what an enqueue skips for its name? A path that the user named is never skipped. */
static bool is_skipped(const struct look *l, const FTSENT *e)
{
    const enum skip_reason why =
        e->fts_level > 0 ? skip_name(e->fts_path, e->fts_info == FTS_D) : SKIP_NONE;

    return why != SKIP_NONE && !(why == SKIP_HIDDEN && l->w->hidden);
}

/* It is no root without files: an enqueue may have found some that were unsettled to the look
 * before it. */
static void add_absent(struct look *l, const FTSENT *e)
{
    l->absent = true;
    add_entry_to_sum(l, e, "", 1);
}

static int look_at(struct look *l, struct err *err)
{
    char **roots = calloc(l->w->root_count + 1u, sizeof(*roots));
    FTS *fts = NULL;
    FTSENT *e;
    int rc = 0;

    if (!roots)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < l->w->root_count; i++)
        roots[i] = (char *)l->w->roots[i];
    fts = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
    if (!fts)
        rc = err_sys(err, errno, "look through the folders");
    while (rc == 0 && !stopped && (e = fts_read(fts)))
        if ((e->fts_info == FTS_D || e->fts_info == FTS_F) && is_skipped(l, e))
            fts_set(fts, e, FTS_SKIP);
        else if (e->fts_info == FTS_D)
            add_folder(l, e);
        else if (e->fts_info == FTS_F)
            add_file(l, e);
        else if (e->fts_level == 0 && e->fts_info == FTS_NS)
            add_absent(l, e);
    /* A single file has no folder of its own that could be heard. */
    for (uint32_t i = 0; rc == 0 && i < l->w->root_count; i++) {
        struct stat st;

        l->deaf |= stat(l->w->roots[i], &st) == 0 && !S_ISDIR(st.st_mode);
    }
    if (fts)
        fts_close(fts);
    free(roots);
    return rc;
}

/* The status with which it left; -1: it could not be started, or was ended. */
static int run_enqueue(const struct watching *w)
{
    pid_t pid;
    int rc = spawn_start(NULL, w->argv, (const int[]){SPAWN_NULL, STDOUT_FILENO, STDERR_FILENO}, 3,
                         &pid);
    int status;

    if (rc) {
        log_warn("the enqueue cannot be started: %s", strerror(rc));
        return -1;
    }
    while (!stopped && !spawn_ended(pid))
        poll(NULL, 0, CHILD_STEP_MS);
    status = spawn_end(pid, CHILD_KILLED_MS);
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool is_well(int status) { return status == EX_OK || status == EX_NOINPUT; }

/* Empties the queue; true: something was in it. */
static bool drain_events(int events)
{
    char chunk[1 << 14];
    bool any = false;

    while (events >= 0 && read(events, chunk, sizeof(chunk)) > 0)
        any = true;
    return any;
}

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

struct state {
    int events;
    bool enqueued; /* something was, and `done` is the sum of it */
    uint64_t done;
    int64_t due; /* the next look, unless something is heard */
};

/* One look, and what follows of it. */
static int run_watch_tick(const struct watching *w, struct state *s, struct err *err)
{
    struct look l = {.w = w, .events = s->events, .now_ms = clock_wall_ms()};
    const int64_t now = clock_mono_ms();
    int rc = look_at(&l, err), status = EX_OK;

    if (rc < 0 || stopped)
        return rc;
    s->due = now + HOUR_MS;
    if (l.deaf)
        s->due = sooner(s->due, now + w->poll_ms);
    if (l.absent)
        s->due = sooner(s->due, now + sooner(w->poll_ms, ABSENT_MS));
    if (l.unstable > 0)
        s->due = sooner(s->due, now + w->stable_ms);
    if (!s->enqueued || l.sum != s->done) {
        snprintf(w->as_of, WATCHING_AS_OF, "%lld", (long long)l.now_ms);
        status = run_enqueue(w);
    }
    if (is_well(status)) {
        s->done = l.sum;
        s->enqueued = true;
    } else if (!stopped) {
        log_warn("the enqueue ended with status %d; it is tried again in a minute", status);
        s->due = sooner(s->due, now + AGAIN_MS);
    }
    return 0;
}

/* Until something was heard, and the files have been stable; or it is due. */
static void wait_for(const struct watching *w, struct state *s)
{
    int64_t left;

    while (!stopped && (left = s->due - clock_mono_ms()) > 0) {
        struct pollfd f = {.fd = s->events, .events = POLLIN};

        /* Not for long: a signal may come just before. */
        if (poll(&f, 1, (int)sooner(left, WAIT_MS)) > 0 && drain_events(s->events))
            s->due = sooner(s->due, clock_mono_ms() + w->stable_ms);
    }
}

int watching_run(const struct watching *w, struct err *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on_signal};
    struct state s = {.events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
    int rc = 0;

    if (s.events < 0)
        log_warn(
            "the kernel does not report changes of files: %s; the folders are read every %lld s",
            strerror(errno), (long long)w->poll_ms / 1000);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &act, NULL);
    while (rc == 0 && !stopped) {
        rc = run_watch_tick(w, &s, err);
        if (rc == 0)
            wait_for(w, &s);
    }
    if (s.events >= 0)
        close(s.events);
    return rc;
}
