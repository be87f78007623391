/* A night of very many short recordings: what the scheduler of it costs, with a device that is not
 * there (swift_worker.c). By hand:
 *
 *     bench_short PROGRAM [RECORDINGS [SPEED [SEGMENTS]]]
 *
 * in a folder that may be written to. Defaults: 100,000 recordings of 50 s by the mean, 50,000
 * times real time (1,000 results a second; 0: as fast as the scheduler takes them), 2 segments
 * each. PROGRAM is nightshift, whose `status` is asked for all along. Prints a row every ten
 * seconds, and in the end what is of interest. Of the memory, the catalog's pages are SQLite's to
 * keep, 16 MiB; the rest is flat, or it is not. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "tests/sim/short_run.h"

#define ROW_MS 10000
#define ASK_MS 1000
#define ASKED_MAX 100000

static double asked[ASKED_MAX];     /* ms of each `status` */
static double asked_cpu[ASKED_MAX]; /* and of its processor time */
static size_t asked_count;

/* Fields of /proc/PID/stat: [13] and [14] are its time in ticks, [23] its resident pages. */
static void read_stat(pid_t pid, double *cpu_s, double *rss_mib)
{
    unsigned long long utime = 0, stime = 0;
    char name[64], line[1024];
    long rss = 0;
    FILE *f;

    snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    f = fopen(name, "r");
    if (f && fgets(line, sizeof(line), f) && strrchr(line, ')'))
        sscanf(strrchr(line, ')') + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %*u "
               "%*u %ld",
               &utime, &stime, &rss);
    if (f)
        fclose(f);
    *cpu_s = (double)(utime + stime) / (double)sysconf(_SC_CLK_TCK);
    *rss_mib = (double)rss * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

static void ask_status(const char *program)
{
    const char *const argv[] = {"nightshift", "--catalog", CATALOG, "status", NULL};
    posix_spawn_file_actions_t quiet;
    double began = now_ms();
    struct rusage used = {0};
    int status = -1;
    pid_t pid;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&pid, program, &quiet, NULL, (char *const *)argv, environ) == 0)
        wait4(pid, &status, 0, &used);
    posix_spawn_file_actions_destroy(&quiet);
    if (status != 0)
        fail_msg("`%s status` ended with %d", program, status);
    if (asked_count == ASKED_MAX)
        return;
    asked_cpu[asked_count] = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
                             (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
    asked[asked_count++] = now_ms() - began;
}

static int64_t results(sqlite3_stmt *stmt)
{
    int64_t n = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;

    sqlite3_reset(stmt);
    return n;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of those that were asked from the n-th on; sorts them. */
static void asked_of(double *list, size_t from, double *median, double *most)
{
    size_t n = asked_count - from;

    *median = *most = 0;
    if (n == 0)
        return;
    qsort(list + from, n, sizeof(*list), by_size);
    *median = list[from + n / 2];
    *most = list[asked_count - 1];
}

struct seen {
    double at_ms, cpu_s, rss_mib;
    int64_t results;
};

static void look(pid_t pid, sqlite3_stmt *stmt, struct seen *ret)
{
    ret->at_ms = now_ms();
    ret->results = results(stmt);
    read_stat(pid, &ret->cpu_s, &ret->rss_mib);
}

static void print_row(const struct seen *a, const struct seen *b, double began_ms, size_t from)
{
    double s = (b->at_ms - a->at_ms) / 1000, n = (double)(b->results - a->results), median, most;

    asked_of(asked, from, &median, &most);
    printf("%.0f\t%lld\t%.0f\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\n", (b->at_ms - began_ms) / 1000,
           (long long)b->results, n / s, b->rss_mib, (double)short_count->cache / 1048576,
           100 * (b->cpu_s - a->cpu_s) / s, n > 0 ? 1e6 * (b->cpu_s - a->cpu_s) / n : 0, median,
           most);
    fflush(stdout);
}

static void watch(pid_t pid, const char *program)
{
    struct seen first = {0}, last = {0}, now = {0}, warm = {0};
    double began = now_ms(), least = 1e9, most = 0, median, slowest;
    size_t from = 0;
    sqlite3_stmt *stmt;

    own_open();
    assert_int_equal(
        sqlite3_prepare_v2(own_db, "SELECT sum(shards_done) FROM task", -1, &stmt, NULL),
        SQLITE_OK);
    look(pid, stmt, &first);
    last = first;
    printf("s\tresults\ta_second\trss_mib\tpages_mib\tof_a_core_%%\tus_each\tstatus_ms\tstatus_"
           "most\n");
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        double next = now_ms() + ASK_MS;

        look(pid, stmt, &now);
        if (now.at_ms - last.at_ms >= ROW_MS) {
            print_row(&last, &now, began, from);
            last = now;
            from = asked_count;
            warm = warm.at_ms > 0 ? warm : now;
        }
        if (warm.at_ms > 0) {
            least = now.rss_mib < least ? now.rss_mib : least;
            most = now.rss_mib > most ? now.rss_mib : most;
        }
        ask_status(program);
        if (now_ms() < next)
            usleep((useconds_t)((next - now_ms()) * 1000));
    }
    sqlite3_finalize(stmt);
    own_close();
    if (warm.at_ms > 0 && now.results > warm.results)
        printf("# from %.0f s on: %.0f us of processor time for a result, %.1f %% of a core, "
               "%.0f results a second; %.1f to %.1f MiB\n",
               (warm.at_ms - began) / 1000,
               1e6 * (now.cpu_s - warm.cpu_s) / (double)(now.results - warm.results),
               100000 * (now.cpu_s - warm.cpu_s) / (now.at_ms - warm.at_ms),
               1000 * (double)(now.results - warm.results) / (now.at_ms - warm.at_ms), least, most);
    if (short_count->results)
        printf("# %.0f us of processor time for a result, the run's beginning and end among it; "
               "%.1f statements, %.0f results a commit; without pages %.1f MiB on the heap in the "
               "first two thirds, then %.1f\n",
               (double)short_count->processor_us / (double)short_count->results,
               (double)short_count->statements / (double)short_count->results,
               (double)short_count->results / (double)short_count->commits,
               (double)short_count->heap_begin / 1048576,
               (double)short_count->heap_later / 1048576);
    asked_of(asked, 0, &median, &slowest);
    printf("# status: %zu times, median %.0f ms, at most %.0f ms", asked_count, median, slowest);
    asked_of(asked_cpu, 0, &median, &slowest);
    printf("; of the processor %.0f and %.0f ms\n", median, slowest);
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;

    if (argc < 2)
        return 64;
    setenv("SWIFT_SPEED", argc > 3 ? argv[3] : "50000", 1);
    setenv("SWIFT_SEGMENTS", argc > 4 ? argv[4] : "2", 1);
    short_catalog(n);
    watch(short_run(n), argv[1]);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), n);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), n);
    return 0;
}
