/* kill -9 of the run at random moments: the next run goes on, and in the end the catalog is what an
 * undisturbed run makes. */
#include "tests/unit/scheduler/fixture.h"

static const char rows[] =
    "SELECT path, task.state, task.shards_total, task.shards_done, "
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
    RUN("cpu");
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
    RUN("cpu,cpu");
    got = rows_of(rows);
    assert_string_equal(got, expected);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending'"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM pragma_integrity_check WHERE "
                              "integrity_check <> 'ok'"),
                     0);
    free(expected);
    free(got);
}

/* The workers instead: the run itself goes on. */
TEST(killed_workers_change_nothing)
{
    struct scheduler_options o = fixture_options("cpu,cpu,cpu");
    char *expected, *got;
    unsigned seed = (unsigned)clock_mono_ns();
    int64_t at = 0;
    int kills = 0;
    pid_t pid;

    fill();
    RUN("cpu");
    expected = rows_of(rows);
    fill();
    print_message("seed %u\n", seed);
    setenv("FAKE_SHARD_US", "6000", 1);
    pid = run_child(&o);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        int64_t shards = count_of("SELECT count(*) FROM shard");
        pid_t workers[8];
        size_t n = children_of(pid, workers, 8);

        /* Only after some results: workers that are killed before they are ready are given up. */
        if (n && kills < 20 && shards >= at + 5) {
            kill(workers[rand_r(&seed) % n], SIGKILL);
            kills++;
            at = shards;
        }
        usleep(10000);
    }
    assert_true(kills > 0);
    got = rows_of(rows);
    assert_string_equal(got, expected);
    free(expected);
    free(got);
}

TEST_MAIN(NULL, NULL)
