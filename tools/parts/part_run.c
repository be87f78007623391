#include "tools/parts/part_run.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/replace.h"
#include "store/parting/parting.h"
#include "tools/parts/part_file.h"

struct part_run {
    char *file, *place, *local, *whole;
    char *mark, *mark_file; /* who has the part: the run that began last */
    int64_t every_ms;
    sigset_t before;
    bool blocked;
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended;     /* lock */
    bool overtaken; /* the thread's, or while there is none */
};

#define FENCED 3
#define PATIENCE_MS 30000 /* at the end: Slurm's early signal leaves two minutes */

static const int signals[] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};
static volatile sig_atomic_t stopped;

static void on_signal(int signum)
{
    (void)signum;
    stopped = 1;
}

/* The run's loop handles them meanwhile, and then restores the system's defaults. An ignored signal
 * stays ignored: a run under nohup outlives its terminal. */
static void take_signals(void)
{
    struct sigaction take = {.sa_handler = on_signal}, now;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(signals[i], &take, NULL);
}

void part_run_hand_over(struct part_run *p)
{
    sigset_t block;

    sigemptyset(&block);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaddset(&block, signals[i]);
    pthread_sigmask(SIG_BLOCK, &block, &p->before);
    p->blocked = true;
}

/* Signals that came meanwhile are delivered now. */
static void take_back(struct part_run *p)
{
    take_signals();
    if (p->blocked)
        pthread_sigmask(SIG_SETMASK, &p->before, NULL);
    p->blocked = false;
}

/* ------------------------------------------------------------------------------- writing back */

/* Has another run begun since? No, if the mark cannot be read. */
static bool is_overtaken(const struct part_run *p)
{
    char there[200] = "";
    FILE *f = fopen(p->mark_file, "re");

    if (!f)
        return false;
    there[fread(there, 1, sizeof(there) - 1, f)] = 0;
    fclose(f);
    return there[0] && strcmp(there, p->mark) != 0;
}

/* If a part has two runs, the one that began last owns it and continues from what the other had
 * written back; a later write of the other would undo its work. A new run may begin between this
 * run's look at the mark and its rename, so a new run fences first: it puts its mark, removes files
 * that are being written, and reads the part last of all. So a rename comes before that reading, or
 * fails because its source is gone; and later writes find the mark. */
static int publish_once(struct part_run *p, struct err *err)
{
    char *beside = NULL;
    int rc = part_beside(p->whole, p->file, &beside, err);

    if (rc < 0)
        return rc;
    p->overtaken = p->overtaken || is_overtaken(p);
    if (!p->overtaken)
        return replace_with(beside, p->file, err);
    unlink(beside);
    free(beside);
    return 0;
}

static int publish_part(struct part_run *p, struct err *err)
{
    int rc = ERR_MISSING;

    p->overtaken = p->overtaken || is_overtaken(p);
    /* The fence of a run that was overtaken itself may hit the newest. */
    for (int i = 0; i < FENCED && rc == ERR_MISSING && !p->overtaken; i++) {
        *err = (struct err){0};
        rc = publish_once(p, err);
    }
    return p->overtaken
               ? err_set(err, ERR_CANCELLED, "another run of '%s' has begun since", p->file)
               : rc;
}

static int write_back(struct part_run *p, struct err *err)
{
    struct store *st = NULL;
    int rc;

    unlink(p->whole);
    rc = store_open(p->local, STORE_READ, &st, err);
    if (rc == 0)
        rc = parting_snapshot(st, p->whole, err);
    store_close(st);
    if (rc == 0)
        rc = publish_part(p, err);
    unlink(p->whole);
    return rc;
}

/* At the end it is tried for a while, for behind that there is only the copy on this machine's
 * disk. A signal ends the patience. */
static int write_back_last(struct part_run *p, struct err *err)
{
    int64_t until = clock_mono_ms() + (p->every_ms < PATIENCE_MS ? p->every_ms : PATIENCE_MS);
    int64_t wait_ms = 100;
    int rc;

    while ((rc = write_back(p, err)) < 0 && rc != ERR_CANCELLED && !stopped &&
           clock_mono_ms() + wait_ms < until) {
        const struct timespec pause = {wait_ms / 1000, wait_ms % 1000 * 1000000};

        log_warn("writing back to '%s' failed, and is tried again: %s", p->file, err->msg);
        *err = (struct err){0};
        nanosleep(&pause, NULL);
        wait_ms *= 2;
    }
    return rc;
}

/* True: the run is over. */
static bool wait_for_end(struct part_run *p)
{
    struct timespec until;
    bool ended;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += p->every_ms / 1000;
    until.tv_nsec += p->every_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&p->lock);
    while (!p->ended && pthread_cond_timedwait(&p->over, &p->lock, &until) != ETIMEDOUT)
        continue;
    ended = p->ended;
    pthread_mutex_unlock(&p->lock);
    return ended;
}

/* A write that fails is tried again next time, and at the end. */
static void *write_backs(void *arg)
{
    struct part_run *p = arg;

    while (!wait_for_end(p)) {
        struct err err = {0};

        if (write_back(p, &err) == 0)
            continue;
        if (p->overtaken) {
            log_warn("%s: this one stops", err.msg);
            kill(getpid(), SIGTERM);
            break;
        }
        log_warn("writing back to '%s' failed, and is tried again later: %s", p->file, err.msg);
    }
    return NULL;
}

static int start_thread(struct part_run *p, struct err *err)
{
    pthread_condattr_t monotonic;
    sigset_t all, before;
    int rc;

    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&p->thread, NULL, write_backs, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->threaded = rc == 0;
    return rc == 0 ? 0 : err_sys(err, rc, "a thread that writes back");
}

static void end_thread(struct part_run *p)
{
    if (!p->threaded)
        return;
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_cond_signal(&p->over);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->over);
    pthread_mutex_destroy(&p->lock);
    p->threaded = false;
}

/* -------------------------------------------------------------------------- beginning and end */

static void part_run_free(struct part_run *p)
{
    part_workplace_leave(p->place);
    free(p->file);
    free(p->local);
    free(p->whole);
    free(p->mark);
    free(p->mark_file);
    free(p);
}

/* Says where the part runs: "job 12_3, try 2, on node7". */
static void describe_run_place(char *ret, size_t capacity)
{
    const char *job = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    const char *again = getenv("SLURM_RESTART_COUNT");
    char host[65] = "";
    int n = 0;

    gethostname(host, sizeof(host) - 1);
    if (job && task)
        n = snprintf(ret, capacity, "job %.20s_%.20s, ", job, task);
    if (again && n >= 0 && (size_t)n < capacity)
        n += snprintf(ret + n, capacity - (size_t)n, "requeued %.10s times, ", again);
    if (n >= 0 && (size_t)n < capacity)
        snprintf(ret + n, capacity - (size_t)n, "on %s", host);
}

static int write_note_to_part(struct part_run *p,
                              int (*fn)(struct store *st, const char *text, struct err *err),
                              const char *text, struct err *err)
{
    struct store *st = NULL;
    int rc = store_open(p->local, STORE_WRITE, &st, err);

    if (rc == 0)
        rc = fn(st, text, err);
    store_close(st);
    return rc;
}

static int check_part(const struct part_run *p, struct parting_about *about, struct err *err)
{
    struct store *st = NULL;
    int rc = store_open(p->local, STORE_READ, &st, err);

    if (rc == 0)
        rc = parting_about(st, about, err);
    store_close(st);
    return rc < 0 ? err_prefix(err, "the copy of '%.200s'", p->file) : rc;
}

/* "job 12_3, on node7 4711 1764009000000": no two runs have the same. */
static int put_mark(struct part_run *p, const char *text, struct err *err)
{
    FILE *f;
    bool good;

    if (asprintf(&p->mark, "%s %ld %lld\n", text, (long)getpid(), (long long)clock_wall_ms()) < 0) {
        p->mark = NULL;
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    f = fopen(p->whole, "we");
    good = f && fputs(p->mark, f) >= 0;
    if (f)
        good = fclose(f) == 0 && good;
    if (!good)
        return err_sys(err, errno ? errno : EIO, "'%s'", p->whole);
    return part_publish(p->whole, p->mark_file, err);
}

static int begin_part_try(struct part_run *p, uint32_t tries, struct err *err)
{
    struct parting_about about;
    char text[160];
    int rc = replace_copy(p->file, p->local, err);

    if (rc == 0)
        rc = check_part(p, &about, err);
    if (rc == 0 && tries && about.open > 0 && about.failed_tries >= tries)
        rc = err_set(err, ERR_LIMIT,
                     "%u tries of '%s' have failed: its log says why; nightshift slurm submit "
                     "--again",
                     about.failed_tries, p->file);
    if (rc < 0)
        return rc;
    describe_run_place(text, sizeof(text));
    rc = put_mark(p, text, err);
    if (rc == 0) { /* what the other one has written back until now */
        part_fence(p->file);
        unlink(p->local);
        rc = replace_copy(p->file, p->local, err);
    }
    if (rc == 0)
        rc = check_part(p, &about, err);
    if (rc < 0)
        return rc;
    log_info("part %u of %u, try %u, %s: %llu of its %llu tasks are done", about.number,
             about.parts, about.tries + 1, text, (unsigned long long)about.done,
             (unsigned long long)(about.open + about.done + about.failed));
    rc = write_note_to_part(p, parting_try_begins, text, err);
    return rc == 0 ? write_back(p, err) : rc; /* of a try that is killed this is what stays */
}

int part_run_open(const char *file, int64_t write_back_ms, uint32_t tries, struct part_run **ret,
                  struct err *err)
{
    struct part_run *p = calloc(1, sizeof(*p));
    int rc;

    if (!p)
        return err_set(err, ERR_NOMEM, "out of memory");
    p->every_ms = write_back_ms;
    take_signals();
    p->file = strdup(file);
    rc = p->file ? part_workplace(&p->place, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && (!(p->local = part_path(p->place, "part.db", err)) ||
                    !(p->whole = part_path(p->place, "whole.db", err))))
        rc = err->code;
    if (rc == 0 && asprintf(&p->mark_file, "%s.try", file) < 0) {
        p->mark_file = NULL;
        rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc == 0)
        rc = begin_part_try(p, tries, err);
    if (rc == 0)
        rc = start_thread(p, err);
    if (rc < 0)
        part_run_free(p);
    else
        *ret = p;
    return rc;
}

const char *part_run_catalog(const struct part_run *p) { return p->local; }

bool part_run_stopped(const struct part_run *p)
{
    (void)p;
    return stopped;
}

int part_run_end(struct part_run *p, bool in_order, const char *text, struct err *err)
{
    struct err why = {0};
    int rc = 0;

    take_back(p);
    end_thread(p);
    if (in_order)
        rc = write_note_to_part(p, parting_try_ends, text, &why);
    if (rc == 0)
        rc = write_back_last(p, &why);
    if (rc == ERR_CANCELLED) {
        *err = why;
    } else if (rc < 0) {
        err_set(err, rc, "writing back to '%s': %s; what is done lies in '%s'", p->file, why.msg,
                p->local);
        free(p->place); /* it stays */
        p->place = NULL;
    }
    return rc;
}

uint32_t part_run_failed_tries(const struct part_run *p)
{
    struct parting_about about = {0};
    struct err none = {0};

    return check_part(p, &about, &none) == 0 ? about.failed_tries : 0;
}

void part_run_close(struct part_run *p) { part_run_free(p); }
