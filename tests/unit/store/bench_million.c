/* A million recordings through request_apply: prints seconds and memory. Not a test of speed: run
 * by hand, `bench_store_million [entries]`. It fails when the catalog is wrong. */
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "tests/unit/store/fixture.h"

static long rss_kib(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* Of this process alone: others may be at work. */
static int64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void said(const char *what, int64_t *since, uint64_t n)
{
    static int64_t cpu_since;
    int64_t now = clock_mono_ms(), cpu = cpu_ms();

    printf("%-30s %8.2f s  %8.2f s of the processor, %6.2f us each  %ld MiB peak\n", what,
           (double)(now - *since) / 1000, (double)(cpu - cpu_since) / 1000,
           (double)(cpu - cpu_since) * 1000 / (double)n, rss_kib() / 1024);
    fflush(stdout);
    cpu_since = cpu_ms();
    *since = clock_mono_ms();
}

static void add_all(struct store *st, int64_t job, uint64_t n)
{
    static struct store_found found[REQUEST_MAX_FOUND];
    static char paths[REQUEST_MAX_FOUND][96];

    for (uint64_t i = 0; i < n;) {
        uint32_t k = 0;

        for (; k < REQUEST_MAX_FOUND && i < n; k++, i++) {
            snprintf(paths[k], sizeof(paths[k]),
                     "/archive/collection %04d/tape %03d/side a, recording %07d.wav",
                     (int)(i / 10000), (int)(i / 100 % 100), (int)i);
            found[k] = found_at(paths[k], "", i * 0x9E3779B97F4A7C15u >> 1);
            found[k].size_bytes = 4000 + i % 1000;
        }
        job_add(st, job, found, k);
    }
}

/* A thousand pages of 64, from turns that are evenly apart up to `last`. */
static void lease_some(struct store *st, int64_t first, uint64_t last)
{
    for (int i = 0; i < 1000; i++) {
        struct store_task tasks[64];
        struct err e = {0};
        size_t c = 0;

        assert_ok(store_runnable(st, 1, first + (int64_t)(last / 1000 * (uint64_t)i), 0, tasks, 64,
                                 &c, &e),
                  e);
        assert_true(c > 0);
        while (c)
            store_task_free(&tasks[--c]);
    }
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    struct store *st = catalog_new();
    struct store_totals totals;
    struct store_known k;
    struct err e = {0};
    int64_t t = clock_mono_ms(), job = job_begin(st, &stage_nano), found = 0;
    int64_t *ids = malloc(REQUEST_MAX_FOUND * sizeof(*ids));

    add_all(st, job, n);
    said("add, new", &t, n);
    job_end(st, job, "/archive");
    said("end, nothing vanished", &t, n);
    job = job_begin(st, &stage_nano);
    for (uint64_t i = 0; i < n; i++) {
        char path[96];
        int len = snprintf(path, sizeof(path),
                           "/archive/collection %04d/tape %03d/side a, recording %07d.wav",
                           (int)(i / 10000), (int)(i / 100 % 100), (int)i);

        if (store_known_path(st, path, (size_t)len, &stage_nano, &k, &e) == 0)
            found += k.count;
        store_known_free(&k);
    }
    said("known", &t, n);
    for (uint64_t i = 0; i < n;) {
        uint32_t c = 0;

        for (; c < REQUEST_MAX_FOUND && i < n; c++, i++)
            ids[c] = (int64_t)i + 1;
        apply_ok(st,
                 &(struct request){
                     .type = REQUEST_ENQUEUE_SAME, .job_id = job, .place_ids = ids, .count = c});
    }
    said("same", &t, n);
    job_end(st, job, "/archive");
    said("end, nothing vanished", &t, n);
    for (int i = 0; i < 1000; i++)
        store_totals(st, &totals, &e);
    said("totals", &t, 1000);
    lease_some(st, 0, n);
    said("64 runnable tasks", &t, 1000);
    lease_some(st, INT64_MIN, 0);
    said("the first 64", &t, 1000);
    for (int i = 0; i < 2; i++)
        apply_ok(st, &(struct request){.type = REQUEST_PRIORITY,
                                       .priority = i ? STORE_LOW : STORE_HIGH,
                                       .select_path = i ? "/archive/collection 0001"
                                                        : "/archive/collection 0002"});
    said("priorities, 20,000", &t, 20000);
    lease_some(st, INT64_MIN, 0);
    said("the first 64, of high priority", &t, 1000);
    lease_some(st, 0, n);
    said("64 of normal priority", &t, 1000);
    for (int i = 0; i < 1000; i++)
        store_totals(st, &totals, &e);
    said("totals", &t, 1000);
    job = job_begin(st, &stage_tiny);
    add_all(st, job, n);
    said("add, another model", &t, n);
    job_end(st, job, "/archive");
    job = job_begin(st, &stage_tiny);
    job_end(st, job, "/archive");
    said("end, all vanished", &t, n);
    store_totals(st, &totals, &e);
    store_close(st);
    said("close", &t, 1);
    free(ids);
    if (totals.recordings != n || found != (int64_t)n || totals.tasks_absent != n ||
        totals.vanished != n) {
        fprintf(stderr, "the catalog is wrong\n");
        return 1;
    }
    return 0;
}
