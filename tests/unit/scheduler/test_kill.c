/* kill -9 of the run at random moments: the next run goes on, and in the end the catalog is what an
 * undisturbed run makes. */
#include "tests/unit/scheduler/fixture.h"

static const char rows[] =
    "SELECT path, task.state, task.attempts, task.shards_total, task.shards_done, "
    "hex(content_hash), seq, shard.start_ms, shard.end_ms, idx, segment.start_ms, text "
    "FROM place JOIN media USING (media_id) JOIN task USING (media_id) "
    "LEFT JOIN shard USING (task_id) LEFT JOIN segment USING (task_id, seq) "
    "ORDER BY path, seq, idx";

static void fill(void)
{
    fixture_reset();
    setenv("FAKE_SHARD_US", "2000", 1);
    ADD("/a/ok-60", "/a/ok-1", "/a/ok-2", "/a/ok-33", "/a/input-3", "/a/ok-5", "/a/ok-80",
        "/a/shardfail-8", "/a/ok-17", "/b/ok-1", "/b/ok-90", "/c/denied-1");
}

/* The whole is too much for one message: the first row that differs. */
static void assert_same_rows(const char *got, const char *expected)
{
    size_t at = 0, row = 0;

    while (got[at] && got[at] == expected[at])
        if (got[at++] == '\n')
            row = at;
    if (got[at] != expected[at])
        fail_msg("'%.*s' instead of '%.*s'", (int)strcspn(got + row, "\n"), got + row,
                 (int)strcspn(expected + row, "\n"), expected + row);
}

/* No process of ours may outlive the run that was killed by more than a moment. */
static void workers_are_gone(const pid_t *pids, size_t n)
{
    int64_t end = clock_mono_ms() + 5000 * PATIENCE;
    size_t i;

    for (i = 0; i < n; i++)
        while (kill(pids[i], 0) == 0) {
            char name[64], state = 0;
            FILE *f;

            /* A zombie waits for whoever adopted it, which is not ours to hasten. */
            snprintf(name, sizeof(name), "/proc/%d/stat", (int)pids[i]);
            f = fopen(name, "r");
            if (!f)
                break;
            if (fscanf(f, "%*d %*s %c", &state) != 1)
                state = 'Z';
            fclose(f);
            if (state == 'Z')
                break;
            if (clock_mono_ms() > end)
                fail_msg("worker %d outlived its run", (int)pids[i]);
            usleep(2000);
        }
}

TEST(twenty_kills_change_nothing)
{
    struct scheduler_options o = fixture_options("cpu,cpu");
    char *expected, *got;
    unsigned seed = (unsigned)clock_mono_ns();
    int kills = 0, finished = 0;

    fill();
    run_all("cpu");
    expected = rows_of(rows);
    fill();
    print_message("seed %u\n", seed);
    while (kills < 20) {
        pid_t pid = run_child(&o), workers[8];
        size_t n;
        int status;

        usleep((useconds_t)(rand_r(&seed) % 150) * 1000);
        n = children_of(pid, workers, 8);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        workers_are_gone(workers, n);
        if (WIFSIGNALED(status)) {
            kills++;
        } else if (++finished > 3) {
            fill(); /* it came to its end in between: begin again, and count on */
            finished = 0;
        }
        assert_int_equal(count_of("SELECT count(*) FROM task WHERE shards_done <> (SELECT count(*) "
                                  "FROM shard WHERE shard.task_id = task.task_id)"),
                         0);
    }
    run_all("cpu,cpu");
    got = rows_of(rows);
    assert_same_rows(got, expected);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending'"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM pragma_integrity_check WHERE "
                              "integrity_check <> 'ok'"),
                     0);
    free(expected);
    free(got);
}

/* May a worker be killed, after so many kills, without that a recording is quarantined for it? What
 * a death was of is known when it was told; the third in a row may be the second one alone. */
static bool may_kill(int64_t kills)
{
    return count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'") == kills &&
           count_of("SELECT count(*) FROM task WHERE state = 'pending' AND suspect > 1") == 0;
}

/* The workers of a run that goes on: at most `most` of them. Returns how many were killed. */
static int kill_workers(unsigned *seed, int most)
{
    struct scheduler_options o = fixture_options("cpu,cpu,cpu");
    pid_t pid = run_child(&o);
    int64_t at = 0;
    int kills = 0, status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        int64_t shards = count_of("SELECT count(*) FROM shard");
        pid_t workers[8];
        size_t n = children_of(pid, workers, 8);

        /* Only after some results: workers that are killed before they are ready are given up. */
        if (n && kills < most && shards >= at + 5 && may_kill(kills)) {
            kill(workers[rand_r(seed) % n], SIGKILL);
            kills++;
            at = shards;
        }
        usleep(10000);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(kills > 0);
    return kills;
}

TEST(killed_workers_change_nothing)
{
    char *expected, *got;
    unsigned seed = (unsigned)clock_mono_ns();
    int kills = 0;

    fill();
    run_all("cpu");
    expected = rows_of(rows);
    print_message("seed %u\n", seed);
    while (kills < 20) {
        fill();
        setenv("FAKE_SHARD_US", "6000", 1);
        kills += kill_workers(&seed, 20 - kills);
        got = rows_of(rows);
        assert_same_rows(got, expected);
        free(got);
    }
    free(expected);
}

TEST_MAIN(NULL, NULL)
