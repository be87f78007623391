#include "workers/pass/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "workers/media/unpacker.h"
#include "workers/pass/mounts.h"

#define MEMBERS_MOST 64u /* kept at once: each has a descriptor */
#define FAILED_READINGS 2u
#define IDLE_MS 3000

/* One reading of an archive. */
struct unpacking {
    struct unpacking *next;
    char *path;
    struct unpacker *unpacker; /* NULL: not begun */
    struct stat file;          /* that it reads */
    int64_t used_ms;           /* a thread went on with it last, or a lease of its archive ended */
    bool busy;                 /* one goes on with it; what follows is that one's */
    bool stands;               /* at a member, unanswered: */
    struct unpacker_member at;
};

int unpack_open(const char *path, int *ret, struct err *err)
{
    struct stat st;
    int fd = -1, rc = mounts_open(path, &fd, err);

    if (rc != 0)
        return rc;
    if (fstat(fd, &st) != 0) {
        err_sys(err, errno, "it cannot be looked at");
        close(fd);
        return err->code;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, ERR_INPUT, "it is not a regular file");
    }
    *ret = fd;
    return 0;
}

/* ---- what leases wait for */

/* One that nobody has looked at waits too: there is a reading of its archive already. */
static bool waits_for(const struct lease *l, const struct unpacking *u)
{
    return (l->from == LEASE_AWAITED || (l->from == LEASE_UNSEEN && !l->running)) &&
           !l->input_over && strcmp(l->msg.path, u->path) == 0;
}

static struct unpacking *find_unpacking(const struct worker *w, const char *path)
{
    struct unpacking *u = w->unpackings;

    while (u && strcmp(u->path, path) != 0)
        u = u->next;
    return u;
}

static bool is_awaited(const struct worker *w, const struct unpacking *u)
{
    for (const struct lease *l = w->leases; l; l = l->next)
        if (waits_for(l, u))
            return true;
    return false;
}

/* Whether any lease of the archive is left. The next recording may lie behind it, and a new reading
 * would start from the front. */
static bool has_leases(const struct worker *w, const struct unpacking *u)
{
    for (const struct lease *l = w->leases; l; l = l->next)
        if (strcmp(l->msg.path, u->path) == 0)
            return true;
    return false;
}

/* The first lease from l on that wants the member at which the reading stands. */
static struct lease *who_wants(struct lease *l, const struct unpacking *u)
{
    while (l &&
           !(waits_for(l, u) && l->msg.nth == u->at.nth && strcmp(l->msg.member, u->at.name) == 0))
        l = l->next;
    return l;
}

void unpack_bound(struct worker *w)
{
    w->unpacked_most = w->setup.pcm_bytes ? w->setup.pcm_bytes : unpacker_most(w->setup.workers);
}

/* Whether the current member fits. One larger than the limit does not wait. */
static bool has_room(const struct worker *w, const struct unpacking *u)
{
    return u->at.bytes > w->unpacked_most || (w->unpacked_bytes <= w->unpacked_most - u->at.bytes &&
                                              w->unpacked_count < MEMBERS_MOST);
}

/* A file that was written anew in its place is another one, too. */
static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           clock_ns_of(&a->st_mtim) == clock_ns_of(&b->st_mtim);
}

static void forget_vain(struct worker *w)
{
    free(w->vain);
    w->vain = NULL;
}

void unpack_note_vain(struct worker *w, const struct lease *l, const struct stat *file)
{
    const struct unpacking *u = find_unpacking(w, l->msg.path);

    if (!l->msg.member[0] || (u && u->unpacker && !is_same(&u->file, file)))
        return;
    forget_vain(w);
    w->vain = strdup(l->msg.path);
    w->vain_file = *file;
}

/* A later member of the same name may have another number now, so only nth 0 counts. */
bool unpack_is_vain(const struct worker *w, const struct lease *l)
{
    return w->vain && l->msg.nth == 0 && strcmp(w->vain, l->msg.path) == 0;
}

static void go_by_itself(struct lease *l) { l->from = LEASE_FILE; }

/* Lets all leases that want the current member go by themselves. */
static void let_go(struct worker *w, const struct unpacking *u)
{
    for (struct lease *l = w->leases; (l = who_wants(l, u)); l = l->next)
        go_by_itself(l);
}

/* One member more, or one less. */
static void count_kept(struct worker *w, uint64_t bytes, int by)
{
    w->unpacked_bytes += by > 0 ? bytes : -bytes;
    w->unpacked_count += (uint32_t)by;
}

void unpack_release(struct worker *w, struct lease *l)
{
    struct unpacking *u = find_unpacking(w, l->msg.path);

    if (u)
        u->used_ms = clock_mono_ms();
    if (l->from != LEASE_MEMORY)
        return;
    close(l->unpacked);
    count_kept(w, l->unpacked_bytes, -1);
    l->from = LEASE_FILE;
    worker_changed(w);
}

/* ---- readings */

static void unlink_unpacking(struct worker *w, const struct unpacking *u)
{
    struct unpacking **p = &w->unpackings;

    while (*p != u)
        p = &(*p)->next;
    *p = u->next;
}

static void unpacking_free(struct unpacking *u)
{
    unpacker_close(u->unpacker);
    free(u->path);
    free(u);
}

static struct unpacking *add_unpacking(struct worker *w, const char *path)
{
    struct unpacking *u = calloc(1, sizeof(*u));

    if (!u || !(u->path = strdup(path))) {
        free(u);
        return NULL;
    }
    u->next = w->unpackings;
    w->unpackings = u;
    return u;
}

/* Closes readings that no lease waits for, and whose archives have had no lease for for_ms.
 * Releases the lock meanwhile. False: there were none. for_ms 0: leases in work do not count. */
static bool close_idle(struct worker *w, int64_t for_ms)
{
    const int64_t until_ms = clock_mono_ms() - for_ms;
    struct unpacking *u = w->unpackings, *idle = NULL, *next;

    for (; u; u = next) {
        next = u->next;
        if (u->busy || u->used_ms > until_ms || (for_ms ? has_leases(w, u) : is_awaited(w, u)))
            continue;
        unlink_unpacking(w, u);
        u->next = idle;
        idle = u;
    }
    if (!idle)
        return false;
    pthread_mutex_unlock(&w->lock);
    for (; idle; idle = next) {
        next = idle->next;
        unpacking_free(idle);
    }
    pthread_mutex_lock(&w->lock);
    return true;
}

/* A reading that a thread should go on with: of the first lease that waits and can be helped. One
 * that stands for want of room gets what comes free before those behind it. *freed: one can begin
 * without. */
static struct unpacking *choose_unpacking(struct worker *w, const struct lease *before, bool *freed)
{
    for (struct lease *l = w->leases; l && l != before; l = l->next) {
        struct unpacking *u;

        if (l->from != LEASE_AWAITED || l->input_over)
            continue;
        u = find_unpacking(w, l->msg.path);
        if (!u)
            u = add_unpacking(w, l->msg.path);
        *freed |= !u;
        if (!u)
            go_by_itself(l);
        else if (!u->busy)
            return !u->stands || has_room(w, u) || !who_wants(w->leases, u) ? u : NULL;
    }
    return NULL;
}

static bool is_read_from_the_front(const struct lease *l)
{
    struct err ignored;
    bool is;
    int fd = -1;

    if (unpack_open(l->msg.path, &fd, &ignored) != 0)
        return false; /* its decoder says why */
    is = unpacker_serves(fd, l->msg.member);
    close(fd);
    return is;
}

bool unpack_awaits(struct worker *w, struct lease *l)
{
    bool awaits = l->from == LEASE_UNSEEN && l->msg.member[0];

    if (awaits && !find_unpacking(w, l->msg.path)) {
        l->running = true;
        pthread_mutex_unlock(&w->lock);
        awaits = is_read_from_the_front(l);
        pthread_mutex_lock(&w->lock);
        l->running = false;
        awaits = awaits && !l->cancelled && !w->draining && !w->leaving;
    }
    if (l->from == LEASE_UNSEEN)
        l->from = awaits ? LEASE_AWAITED : LEASE_FILE;
    if (awaits)
        worker_changed(w); /* another thread may have nothing else to do */
    return awaits;
}

static void on_pulse(void *arg)
{
    struct worker *w = arg;

    pthread_mutex_lock(&w->lock);
    w->pulses++;
    pthread_mutex_unlock(&w->lock);
}

/* Takes the lock. */
static int begin_unpacking(struct worker *w, struct unpacking *u, struct err *err)
{
    struct unpacker *opened = NULL;
    struct stat st = {0};
    int fd = -1, rc = unpack_open(u->path, &fd, err);

    if (rc == 0 && fstat(fd, &st) != 0)
        rc = err_sys(err, errno, "it cannot be looked at");
    if (rc == 0)
        rc = unpacker_open(fd, on_pulse, w, &opened, err);
    if (fd >= 0)
        close(fd);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&w->lock);
    u->file = st;
    u->unpacker = opened;
    if (w->vain && strcmp(w->vain, u->path) == 0 && !is_same(&w->vain_file, &st))
        forget_vain(w);
    if (w->leaving)
        rc = err_set(err, ERR_CANCELLED, "cancelled");
    for (struct lease *l = w->leases; l; l = l->next)
        if (waits_for(l, u))
            l->readings++;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* ERR_CHANGED if another file has replaced the archive. A deleted one is read on. */
static int look_for_another(const struct unpacking *u, struct err *err)
{
    struct stat st;

    if (stat(u->path, &st) == 0 && !is_same(&st, &u->file))
        return err_set(err, ERR_CHANGED, "another file is at its place");
    return 0;
}

/* Lock held; u is gone afterwards. whole: the reading came to the archive's end. */
static void end_unpacking(struct worker *w, struct unpacking *u, bool whole)
{
    const bool saw_all = whole && unpacker_saw_all(u->unpacker);

    for (struct lease *l = w->leases; l; l = l->next)
        if (waits_for(l, u) && (!u->unpacker || l->readings >= (whole ? 1 : FAILED_READINGS)))
            l->from = saw_all && unpack_is_vain(w, l) ? LEASE_ABSENT : LEASE_FILE;
    unlink_unpacking(w, u);
    pthread_mutex_unlock(&w->lock);
    unpacking_free(u);
    pthread_mutex_lock(&w->lock);
}

/* ---- members */

/* To all leases that want the member at which it stands, each with a descriptor of its own. Lock
 * held. */
static void share_member(struct worker *w, const struct unpacking *u, int fd)
{
    for (struct lease *l = w->leases; (l = who_wants(l, u)); l = l->next) {
        l->unpacked = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        l->from = l->unpacked >= 0 ? LEASE_MEMORY : LEASE_FILE;
        l->unpacked_bytes = u->at.bytes;
        if (l->unpacked >= 0)
            count_kept(w, u->at.bytes, 1);
    }
}

/* Keeps the member at which it stands; its bytes are counted already. Takes the lock. */
static int unpack_member(struct worker *w, struct unpacking *u, struct err *err)
{
    char *name = strdup(u->at.name); /* which goes with the answer */
    int fd = -1,
        rc = name ? unpacker_take(u->unpacker, &fd, err) : err_set(err, ERR_NOMEM, "out of memory");

    u->at.name = name;
    pthread_mutex_lock(&w->lock);
    count_kept(w, u->at.bytes, -1);
    if (fd >= 0)
        share_member(w, u, fd);
    else if (rc == 0)
        let_go(w, u);
    u->stands = false;
    pthread_mutex_unlock(&w->lock);
    free(name);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int pass_by(struct unpacking *u, struct err *err)
{
    u->stands = false;
    return unpacker_pass(u->unpacker, err);
}

/* Takes the current member, passes by it, or leaves it for later. *done: a lease can begin, nobody
 * waits, or there is no room. Takes the lock. */
static int handle_member(struct worker *w, struct unpacking *u, bool *done, struct err *err)
{
    enum { STAND_STILL, PASS_BY, TAKE } how = STAND_STILL;

    pthread_mutex_lock(&w->lock);
    *done = true;
    if (!who_wants(w->leases, u)) {
        *done = w->leaving || !is_awaited(w, u);
        how = *done ? STAND_STILL : PASS_BY;
    } else if (u->at.bytes > w->unpacked_most) {
        let_go(w, u);
        how = PASS_BY;
    } else if (has_room(w, u)) {
        count_kept(w, u->at.bytes, 1);
        how = TAKE;
    }
    pthread_mutex_unlock(&w->lock);
    if (how == STAND_STILL)
        return 0;
    return how == TAKE ? unpack_member(w, u, err) : pass_by(u, err);
}

bool unpack_step(struct worker *w, const struct lease *before)
{
    bool done = false, freed = false;
    struct unpacking *u;
    struct err err = {0};
    int rc = 0;

    if (close_idle(w, IDLE_MS))
        return true;
    u = choose_unpacking(w, before, &freed);
    if (!u)
        return freed;
    u->busy = true;
    if (!u->unpacker)
        close_idle(w, 0); /* they were of other archives */
    pthread_mutex_unlock(&w->lock);
    rc = u->unpacker ? look_for_another(u, &err) : begin_unpacking(w, u, &err);
    while (rc == 0 && !done) {
        rc = unpacker_next(u->unpacker, &u->at, &err);
        u->stands = rc == 0;
        if (rc == 0)
            rc = handle_member(w, u, &done, &err);
    }
    if (rc != 0 && rc != ERR_EMPTY && rc != ERR_CANCELLED)
        log_info("unpacking %s: %s", u->path, err.msg);
    pthread_mutex_lock(&w->lock);
    u->busy = false;
    u->used_ms = clock_mono_ms();
    if (rc != 0)
        end_unpacking(w, u, rc == ERR_EMPTY);
    worker_changed(w);
    return true;
}

void unpack_wait(struct worker *w)
{
    const int64_t until_ms = clock_mono_ms() + IDLE_MS;
    const struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};

    if (w->unpackings) /* one may be to be closed then */
        pthread_cond_timedwait(&w->room, &w->lock, &until);
    else
        pthread_cond_wait(&w->room, &w->lock);
}

void unpack_leave(struct worker *w)
{
    for (struct unpacking *u = w->unpackings; u; u = u->next)
        if (u->unpacker)
            unpacker_cancel(u->unpacker);
}

void unpack_free_all(struct worker *w)
{
    while (w->unpackings) {
        struct unpacking *u = w->unpackings;

        unlink_unpacking(w, u);
        unpacking_free(u);
    }
    free(w->vain);
}
