/* tests/sim/short_run.h - the real scheduler on a real catalog of very many short recordings, with
 * the made-up device of swift_worker.c: in a process of its own, so that its memory and its time
 * are the scheduler's alone. */
#ifndef NIGHTSHIFT_TESTS_SIM_SHORT_RUN_H
#define NIGHTSHIFT_TESTS_SIM_SHORT_RUN_H

#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "scheduler/scheduler.h"
#include "tests/common/random.h"
#include "tests/unit/store/fixture.h"

#define SHORT_LEAST_MS 10000u /* of a recording; 50 s by the mean */
#define SHORT_SPREAD_MS 80000u

/* What the run's process counts, seen by the one that asks. */
struct short_count {
    uint64_t recordings;
    atomic_ullong statements, commits; /* of SQL, those of triggers too */
    atomic_ullong results;             /* shards that were written */
    atomic_ullong processor_us;        /* of the whole run, once it has ended */
    atomic_ullong cache; /* bytes of the catalog's pages in memory, after the last commit */
    /* Bytes on the heap without them, the most after a commit: of the first two thirds of the
     * results, and later. */
    atomic_ullong heap_begin, heap_later;
};

static struct short_count *short_count;

static inline void short_catalog(uint64_t n)
{
    static struct store_found found[REQUEST_MAX_FOUND];
    static char paths[REQUEST_MAX_FOUND][96];
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    for (uint64_t i = 0; i < n;) {
        uint32_t k = 0;

        for (; k < REQUEST_MAX_FOUND && i < n; k++, i++) {
            uint64_t r = i;

            snprintf(paths[k], sizeof(paths[k]), "/archive/calls %04d/call %07d.wav",
                     (int)(i / 1000), (int)i);
            found[k] = found_at(paths[k], "", i * 0x9E3779B97F4A7C15u >> 1);
            found[k].size_bytes = SHORT_LEAST_MS + random_below(&r, SHORT_SPREAD_MS);
        }
        job_add(st, job, found, k);
    }
    job_end(st, job, "/archive");
    store_close(st);
}

/* Of a heap without SQLite's pages, which have a bound of their own. */
static inline void short_after_commit(struct short_count *c, sqlite3 *db)
{
    int cache = 0, most;
    uint64_t heap;

    sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_USED, &cache, &most, 0);
    heap = mallinfo2().uordblks + mallinfo2().hblkhd - (uint64_t)cache;
    c->cache = (uint64_t)cache;
    c->commits++;
    if (c->results <= c->recordings * 2 / 3 && heap > c->heap_begin)
        c->heap_begin = heap;
    else if (c->results > c->recordings * 2 / 3 && heap > c->heap_later)
        c->heap_later = heap;
}

static inline int short_on_statement(unsigned what, void *arg, void *stmt, void *sql)
{
    static bool committed;
    struct short_count *c = arg;

    (void)what;
    c->statements++;
    c->results += strncmp(sql, "INSERT INTO shard (", 19) == 0;
    if (committed) /* what had waited for it is not there any more */
        short_after_commit(c, sqlite3_db_handle(stmt));
    committed = strncmp(sql, "COMMIT", 6) == 0;
    return 0;
}

static inline int short_trace(sqlite3 *db, char **why, const void *api)
{
    (void)why;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, short_on_statement, short_count);
}

/* Of a catalog with so many recordings. */
static inline pid_t short_run(uint64_t recordings)
{
    static const struct scheduler_tuning tuning = {.worker_program = SWIFT_WORKER};
    const struct scheduler_options o = {.catalog = CATALOG, .devices = "cpu", .tuning = &tuning};
    struct scheduler_result r;
    struct rusage used;
    struct err e = {0};
    pid_t pid;
    int rc;

    if (!short_count)
        short_count = mmap(NULL, sizeof(*short_count), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(short_count, MAP_FAILED);
    memset(short_count, 0, sizeof(*short_count));
    short_count->recordings = recordings;
    pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    log_set_level(LOG_WARN);
    sqlite3_auto_extension((void (*)(void))short_trace);
    rc = scheduler_run(&o, &r, &e);
    getrusage(RUSAGE_SELF, &used);
    short_count->processor_us = (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                                (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    if (rc)
        fprintf(stderr, "run: %s\n", e.msg);
    _exit(rc ? 1 : 0);
}

#endif
