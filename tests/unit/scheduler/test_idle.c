/* run --idle, and what the driver sees of GPUs: with fake workers on simulated devices, and a fake
 * watcher that tells what a file says. */
#include "tests/unit/scheduler/fixture.h"

static struct scheduler_tuning tuning;

/* "PERCENT CELSIUS MILLIWATTS PID...": of others. */
static void see(int gpu, const char *what)
{
    char path[64];
    FILE *f;

    f = fopen("state/gpu.new", "we");
    assert_non_null(f);
    fprintf(f, "%s\n", what);
    fclose(f);
    snprintf(path, sizeof(path), "state/gpu-%d", gpu);
    assert_int_equal(rename("state/gpu.new", path), 0);
}

static void begin(const char *devices)
{
    fixture_reset();
    setenv("NIGHTSHIFT_DEVICES", devices, 1);
    tuning = quick;
    tuning.idle = (struct idle_times){.busy_ms = 60, .free_ms = 200, .blind_ms = 400};
    tuning.sample_ms = 20 * PATIENCE;
    tuning.sample_still_ms = 300 * PATIENCE;
    tuning.sample_again_ms = 100;
}

static int end(void **state)
{
    (void)state;
    unsetenv("NIGHTSHIFT_DEVICES");
    return 0;
}

static struct scheduler_options options(bool idle)
{
    struct scheduler_options o = fixture_options("auto");

    o.tuning = &tuning;
    o.idle = idle;
    return o;
}

/* Until what the run says of itself is so. */
static struct control_live wait_live(bool (*is)(const struct control_live *l))
{
    int64_t end_ms = clock_mono_ms() + 30000 * PATIENCE;
    struct control *c = reach_run();
    struct control_live live;
    struct err e = {0};

    do {
        if (clock_mono_ms() > end_ms)
            fail_msg("it stays at '%s'", live.note);
        assert_ok(control_status(c, &live, &e), e);
    } while (!is(&live));
    control_close(c);
    return live;
}

static bool waits(const struct control_live *l)
{
    return strcmp(l->note, "waiting: others use sim:0") == 0 && l->workers_ready == 0;
}
static bool sees(const struct control_live *l) { return l->device[0].percent >= 0; }
static bool first_left(const struct control_live *l)
{
    return l->device[0].left && !l->device[0].ready && l->device[1].ready;
}

static void end_run(pid_t pid)
{
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
    assert_int_equal(count_of("SELECT count(*) FROM (SELECT 1 FROM shard GROUP BY task_id, seq "
                              "HAVING count(*) > 1)"),
                     0);
}

TEST_TEARDOWN(a_gpu_is_left_to_others, end)
{
    struct scheduler_options o;
    struct control_live live;
    int64_t before;
    pid_t pid, child[4];

    begin("sim:2GiB");
    see(0, "5 60 100000"); /* our own worker alone */
    ADD("/a/slow-9000");
    o = options(true);
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM shard", 2);
    see(0, "90 80 300000 4711");
    live = wait_live(waits);
    assert_true(live.device[0].left);
    assert_int_equal(live.device[0].percent, 90);
    assert_int_equal(live.device[0].celsius, 80);
    assert_int_equal(live.device[0].milliwatts, 300000);
    assert_int_equal(live.device[0].used_bytes, 1000);
    assert_int_equal(live.low_ms, -1);
    before = count_of("SELECT count(*) FROM shard");
    while (children_of(pid, child, 4) > 1) /* the watcher alone is to stay */
        usleep(10000);
    usleep(400000); /* longer than what would be free for long enough */
    assert_int_equal(count_of("SELECT count(*) FROM shard"), before);
    see(0, "0 50 30000");
    wait_count("SELECT count(*) FROM shard", before + 2);
    end_run(pid);
    assert_int_equal(count_of("SELECT count(*) FROM run_sample WHERE temperature_c = 80 AND "
                              "used_bytes = 1000 AND left_ms >= 400 AND seen_ms >= left_ms AND "
                              "load_ms BETWEEN 1 AND seen_ms AND energy_j > 0"),
                     1);
}

/* While nothing of ours is up, the load is others' whoever they are. */
TEST_TEARDOWN(what_is_used_at_first_is_not_begun_with, end)
{
    struct scheduler_options o;
    pid_t pid;

    begin("sim:2GiB");
    see(0, "50 60 100000");
    ADD("/a/slow-9000");
    o = options(true);
    pid = run_child(&o);
    wait_live(waits);
    usleep(300000);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 0);
    see(0, "9 60 100000");
    wait_count("SELECT count(*) FROM shard", 1);
    end_run(pid);
}

TEST_TEARDOWN(each_device_for_itself, end)
{
    struct scheduler_options o;
    int64_t before;
    pid_t pid;

    begin("sim:2GiB,sim:2GiB");
    see(0, "0 60 100000");
    see(1, "0 61 100000");
    ADD("/a/slow-9000", "/a/slow-9001");
    o = options(true);
    pid = run_child(&o);
    wait_count("SELECT count(DISTINCT device) FROM shard", 2);
    see(0, "50 60 100000 4711");
    wait_live(first_left);
    before = count_of("SELECT count(*) FROM shard WHERE device = 'sim:0'");
    wait_count("SELECT count(*) FROM shard WHERE device = 'sim:1'",
               count_of("SELECT count(*) FROM shard WHERE device = 'sim:1'") + 3);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE device = 'sim:0'"), before);
    see(0, "0 60 100000");
    wait_count("SELECT count(*) FROM shard WHERE device = 'sim:0'", before + 1);
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
}

static void refused(const char *devices, int code, const char *words)
{
    struct scheduler_options o = options(true);
    struct scheduler_result r;
    struct err e = {0};

    o.devices = devices;
    assert_int_equal(scheduler_run(&o, &r, &e), code);
    if (!strstr(e.msg, words))
        fail_msg("it says: %s", e.msg);
    assert_int_equal(count_of("SELECT count(*) FROM run"), 0);
}

TEST_TEARDOWN(without_nvml_it_refuses, end)
{
    begin("sim:2GiB");
    ADD("/a/ok-1");
    refused("auto", ERR_DEVICE, "there is none here: install the driver's libnvidia-ml.so.1");
    refused("cpu", ERR_USAGE, "no device of this run is one");
    see(0, "");
    refused("auto", ERR_DEVICE, "of sim:0 it does not tell");
    see(0, "0 60 100000");
    leave_word("probe-hang");
    refused("auto", ERR_DEVICE, "it does not answer");
    take_word_back("probe-hang");
    leave_word("probe-crash");
    refused("auto", ERR_DEVICE, "the process that asks it ended");
}

/* Who does not see does not know whether anybody is there. */
TEST_TEARDOWN(a_watcher_that_crashes, end)
{
    struct scheduler_options o;
    int64_t before;
    pid_t pid;

    begin("sim:2GiB");
    see(0, "0 60 100000");
    ADD("/a/slow-9000");
    o = options(true);
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM shard", 1);
    leave_word("probe-crash");
    wait_live(waits);
    before = count_of("SELECT count(*) FROM shard");
    take_word_back("probe-crash");
    wait_count("SELECT count(*) FROM shard", before + 1);
    end_run(pid);
}

/* Without --idle nothing depends on it. */
TEST_TEARDOWN(a_watcher_that_hangs_or_is_not_there, end)
{
    struct scheduler_options o;
    struct scheduler_result r;
    struct err e = {0};
    pid_t pid;

    begin("sim:2GiB");
    ADD("/a/ok-1");
    o = options(false);
    assert_ok(scheduler_run(&o, &r, &e), e);
    assert_int_equal(r.tasks_done, 1);
    assert_int_equal(count_of("SELECT count(*) FROM run_sample WHERE seen_ms = 0 AND load_ms IS "
                              "NULL AND energy_j IS NULL AND temperature_c IS NULL AND used_bytes "
                              "IS NULL AND left_ms = 0"),
                     1);
    see(0, "50 60 100000 4711");
    ADD("/a/slow-9000");
    pid = run_child(&o);
    wait_live(sees);
    leave_word("probe-hang");
    wait_count("SELECT count(*) FROM shard", 5);
    end_run(pid);
}

TEST_MAIN(NULL, NULL)
