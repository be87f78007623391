/* kill -9 of the writer at random moments, then to the end: `results` is as if nothing had
 * happened. NIGHTSHIFT_SEED repeats a run, NIGHTSHIFT_KILLS says how many (20). */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/store/fixture.h"

#define RECORDINGS 12
#define SHARDS 3

static char names[RECORDINGS][64];

/* Enqueues what is not there, then makes shards that are missing, some commits together. */
static void work(void)
{
    struct store *st = catalog_open(STORE_WRITE);
    struct store_task t[RECORDINGS];
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);
    size_t n;

    for (int i = 0; i < RECORDINGS; i++) {
        snprintf(names[i], sizeof(names[i]), "/archive/%02d.wav", i);
        job_add1(st, job, names[i], "", (uint64_t)i);
    }
    job_end(st, job, "/archive");
    assert_ok(store_runnable(st, 1, 0, 0, t, RECORDINGS, &n, &e), e);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        const char *texts[] = {text, "and more"};
        uint32_t done = 0;

        assert_ok(store_begin(st, &e), e);
        for (uint32_t seq = 0; seq < SHARDS; seq++) {
            if (done < t[i].skip_count && t[i].skip[done] == seq) {
                done++;
                continue;
            }
            snprintf(text, sizeof(text), "what %s says in part %u", t[i].path, seq);
            shard_put(st, t[i].task_id, seq, texts, 2);
            if (seq == i % SHARDS) {
                assert_ok(store_commit(st, &e), e);
                assert_ok(store_begin(st, &e), e);
            }
        }
        assert_ok(store_media(st, t[i].media_id, NULL,
                              &(struct store_media_end){SHARDS * 30000, NULL, "", NULL, NULL, 0},
                              &e),
                  e);
        assert_ok(store_task_total(st, t[i].task_id, SHARDS, &e), e);
        assert_ok(store_commit(st, &e), e);
        store_task_free(&t[i]);
    }
    store_close(st);
}

/* True when the child came to its end before the kill. */
static bool killed_after(long us)
{
    struct timespec wait = {us / 1000000, us % 1000000 * 1000};
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        work();
        _exit(0);
    }
    nanosleep(&wait, NULL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static char *results(void)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    struct buf out = BUF_INIT;

    assert_int_equal(sqlite3_open_v2(CATALOG, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM results", -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *s = (const char *)sqlite3_column_text(stmt, i);

            buf_printf(&out, "%s|", s ? s : "NULL");
        }
        buf_printf(&out, "\n");
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    assert_non_null(buf_cstr(&out));
    return (char *)out.data;
}

TEST(kills)
{
    const char *seed_text = getenv("NIGHTSHIFT_SEED"), *kills_text = getenv("NIGHTSHIFT_KILLS");
    unsigned seed = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : (unsigned)time(NULL);
    int wanted = kills_text ? atoi(kills_text) : 20, given = 0, began = 0;
    char *whole, *interrupted;
    long longest = 20000;

    print_message("NIGHTSHIFT_SEED=%u\n", seed);
    srandom(seed);
    catalog_remove();
    work();
    catalog_audit();
    whole = results();
    assert_int_equal(count_of("SELECT count(*) FROM results"), RECORDINGS * SHARDS * 2);
    catalog_remove();
    while (given < wanted) {
        if (killed_after(random() % longest)) {
            /* Done already: from the beginning, and sooner. */
            catalog_audit();
            interrupted = results();
            assert_string_equal(whole, interrupted);
            free(interrupted);
            catalog_remove();
            longest = longest * 3 / 4 + 1000;
        } else {
            given++;
            began += access(CATALOG, F_OK) == 0;
        }
    }
    work();
    catalog_audit();
    fts_check();
    interrupted = results();
    assert_string_equal(whole, interrupted);
    assert_true(began > 0);
    free(interrupted);
    free(whole);
}

TEST_MAIN(NULL, NULL)
