/* A worker process and the end of things: its own, its scheduler's, its device's. */
#include "tests/unit/workers/play.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "workers/process/worker.h"

static char *sample(const char *name)
{
    char rel[256];

    snprintf(rel, sizeof(rel), "tests/samples/%s", name);
    return strdup(test_source_path(rel));
}

static void expect_exit(struct play *p, int status)
{
    int got = play_wait(p);

    if (!WIFEXITED(got) || WEXITSTATUS(got) != status)
        fail_msg("wait status %#x instead of exit status %d", got, status);
}

/* Gives a recording to a worker whose decoder is stopped by a tiny budget and a slow engine, so
 * that both have work in hand. */
static void start_busy(struct play *p)
{
    char *path = sample("12_en_long_90s.mp3");
    struct msg_lease m;

    play_ready(p, &(struct play_options){.fault = "slow-step:100",
                                         .slots = 1,
                                         .decoders = 1,
                                         .pcm_bytes = 1,
                                         .no_leak_check = true});
    m = play_lease_of(p, path, 300000);
    play_put_lease(p, &m);
    play_send(p);
    play_until_busy(p);
    free(path);
}

/* Every descendant that outlives its parent becomes ours, so none can hide. */
static int reap_orphans(int64_t within_ms)
{
    int64_t until = clock_mono_ms() + within_ms;
    int reaped = 0;

    while (clock_mono_ms() < until) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0) {
            assert_int_equal(errno, ECHILD);
            return reaped;
        }
        if (pid > 0)
            reaped++;
        else
            usleep(5000);
    }
    fail_msg("a decoder was left behind");
    return -1;
}

TEST(a_worker_leaves_with_its_scheduler)
{
    struct play p;

    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    start_busy(&p);
    close(p.fd);
    p.fd = -1;
    expect_exit(&p, EX_OK);
    /* It had ended its decoder itself: nothing was left even for a moment. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    play_free(&p);
}

TEST(a_killed_worker_leaves_no_decoder)
{
    struct play p;
    int status;

    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    start_busy(&p);
    kill(p.pid, SIGKILL);
    status = play_wait(&p);
    assert_true(WIFSIGNALED(status));
    /* The decoder and what forked it: both ended by themselves. */
    assert_int_equal(reap_orphans(60000), 2);
    play_free(&p);
}

TEST(signals_are_the_scheduler_s_affair)
{
    struct play p;
    uint32_t beats;

    play_ready(&p, &(struct play_options){0});
    kill(p.pid, SIGINT);
    kill(p.pid, SIGTERM);
    kill(p.pid, SIGHUP);
    beats = p.beats;
    while (p.beats < beats + 2)
        assert_true(play_step(&p));
    play_quit(&p);
}

static void expect_fatal(const struct play_options *o, int code, int status)
{
    struct play p;

    play_start(&p, o);
    play_until_gone(&p);
    assert_int_equal(p.fatal, code);
    assert_true(p.fatal_message[0] != 0);
    assert_false(p.ready);
    expect_exit(&p, status);
    play_free(&p);
}

/* With weights that take hours to read. */
static void make_endless_model(char dir[4096])
{
    char path[4200], command[9000];
    FILE *f;

    assert_non_null(getcwd(dir, 4000));
    strcat(dir, "/endless");
    snprintf(command, sizeof(command), "mkdir -p '%s' && cp '%s'/*.json '%s'", dir,
             test_source_path("workers/models/whisper-nano"), dir);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    if (truncate(path, INT64_C(8) << 40) != 0)
        skip(); /* no such file can be here */
}

/* A device that cannot be opened is told of, whatever the model is. */
TEST(a_device_s_fault_does_not_wait_for_the_model_s_hash)
{
    char dir[4096];

    make_endless_model(dir);
    expect_fatal(&(struct play_options){.device = "tpu:9", .model_dir = dir}, ERR_USAGE, EX_USAGE);
    strcat(dir, "/model.safetensors");
    unlink(dir);
}

/* Measuring what another model takes would last for ever here. */
TEST(another_model_is_told_of_while_it_is_loaded)
{
    FILE *f = fopen("sim-0", "wb");
    char dir[4096];

    assert_non_null(f);
    fputs("hang", f);
    assert_int_equal(fclose(f), 0);
    setenv("NIGHTSHIFT_DEVICES", "sim:8GiB", 1);
    setenv("NIGHTSHIFT_SIM_CONTROL", getcwd(dir, sizeof(dir)), 1);
    expect_fatal(
        &(struct play_options){.device = "sim:0", .model_hash = "00112233445566778899aabbccddeeff"},
        ERR_MODEL, EX_CONFIG);
    unsetenv("NIGHTSHIFT_SIM_CONTROL");
    unsetenv("NIGHTSHIFT_DEVICES");
    unlink("sim-0");
}

TEST(what_cannot_work_is_said_before_it_begins)
{
    expect_fatal(&(struct play_options){.model_hash = "00112233445566778899aabbccddeeff"},
                 ERR_MODEL, EX_CONFIG);
    expect_fatal(&(struct play_options){.model_dir = "/nowhere/at/all"}, ERR_MODEL, EX_CONFIG);
    expect_fatal(&(struct play_options){.memory_limit = 1 << 20}, ERR_VRAM, WORKER_EXIT_DEVICE);
    /* Another model than was meant is no matter of its size, though it is loaded meanwhile. */
    expect_fatal(&(struct play_options){.model_hash = "00112233445566778899aabbccddeeff",
                                        .memory_limit = 1 << 20},
                 ERR_MODEL, EX_CONFIG);
    expect_fatal(&(struct play_options){.device = "tpu:9"}, ERR_USAGE, EX_USAGE);
}

TEST(nonsense_on_the_socket_ends_the_worker)
{
    struct play p;

    play_ready(&p, &(struct play_options){0});
    buf_put(&p.out, "GET / HTTP/1.1\r\n\r\n", 18);
    play_send(&p);
    play_until_gone(&p);
    assert_int_equal(p.fatal, ERR_PROTOCOL);
    expect_exit(&p, EX_PROTOCOL);
    play_free(&p);

    play_ready(&p, &(struct play_options){0});
    frame_put(&p.out, MSG_LEASE, "too short", 9);
    play_send(&p);
    play_until_gone(&p);
    assert_int_equal(p.fatal, ERR_PROTOCOL);
    expect_exit(&p, EX_PROTOCOL);
    play_free(&p);
}

static void lease(struct play *p, uint32_t shard_ms)
{
    char *path = sample("12_en_long_90s.mp3");
    struct msg_lease m = play_lease_of(p, path, shard_ms);

    play_put_lease(p, &m);
    play_send(p);
    free(path);
}

TEST(a_lost_device_is_reported)
{
    struct play p;

    play_ready(&p, &(struct play_options){.fault = "device-after-shards:1", .slots = 1});
    lease(&p, 20000);
    play_until_gone(&p);
    assert_int_equal(p.fatal, ERR_DEVICE);
    assert_int_equal(p.done_count, 1); /* what was ready before is not lost */
    expect_exit(&p, WORKER_EXIT_DEVICE);
    play_free(&p);
}

TEST(faults_come_when_asked_for)
{
    struct play p;
    int status;

    play_ready(&p, &(struct play_options){.fault = "exit-after-shards:2", .slots = 1});
    lease(&p, 20000);
    play_until_gone(&p);
    assert_true(p.done_count >= 2);
    expect_exit(&p, 1);
    play_free(&p);

    play_ready(&p, &(struct play_options){.fault = "crash-on-path:12_en_long"});
    lease(&p, 20000);
    play_until_gone(&p);
    status = play_wait(&p);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(p.done_count, 0);
    play_free(&p);

    play_ready(&p, &(struct play_options){.fault = "hang-on-path:12_en_long"});
    lease(&p, 20000);
    close(p.fd);
    p.fd = -1;
    play_wait(&p);
    play_free(&p);
}

/* A stuck engine: the worker lives, says that it has work, and its beat stands still. */
TEST(a_stalled_engine_is_seen)
{
    uint64_t beat;
    struct play p;

    play_ready(&p, &(struct play_options){.fault = "stall-on-path:12_en_long"});
    lease(&p, 20000);
    play_until_busy(&p);
    beat = p.beat.engine_beat;
    for (int i = 0; i < 2; i++) {
        play_until_busy(&p);
        assert_int_equal(p.beat.engine_beat, beat);
        assert_int_equal(p.beat.leases, 1);
    }
    play_quit(&p);
}

int main(int argc, char **argv)
{
    int status;

    if (play_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
