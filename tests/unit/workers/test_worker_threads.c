/* A device with forks, on which each stage has a thread of its own: what they yield is what each
 * yields alone, none waits for another, and one that fails or hangs is seen.
 *
 * The device is the processor, and a fork of it a second one. */
#include "tests/unit/workers/tracks.h"

#include <sys/wait.h>

#include "gpu/backend.h"
#include "gpu/devices/devices.h"
#include "workers/process/worker.h"

static const int voices[] = {DIARIZE, -1};
static const int noises[] = {SOUNDS, -1};

/* ---- the device */

int __real_device_open(const char *name, const struct device_options *options, struct backend **ret,
                       struct err *err);
int __wrap_device_open(const char *name, const struct device_options *options, struct backend **ret,
                       struct err *err);

static int fork_processor(struct backend *be, bool leads, struct backend **ret, struct err *err)
{
    int rc = backend_open_host(1, ret, err);

    (void)leads;
    if (rc == 0)
        (*ret)->forked = be;
    return rc;
}

int __wrap_device_open(const char *name, const struct device_options *options, struct backend **ret,
                       struct err *err)
{
    static struct backend_ops ops;
    int rc = __real_device_open(name, options, ret, err);

    if (rc != 0)
        return rc;
    ops = *(*ret)->ops;
    ops.fork = fork_processor;
    (*ret)->ops = &ops;
    return 0;
}

/* ---- the tests */

static void start_slowly(struct play *p, int stage, const int *beside, const char *window_ms)
{
    struct play_options o = tracks_of(stage, beside);

    setenv("TRACKS_VOICES_MS", window_ms, 1);
    play_ready(p, &o);
    unsetenv("TRACKS_VOICES_MS");
}

/* How many of a track's shards came before the last one of another track. */
static uint32_t count_before_last(const struct play *p, uint32_t track, uint32_t other)
{
    uint32_t last = 0, n = 0;

    for (uint32_t i = 0; i < p->done_count; i++)
        if (p->done[i].track == other)
            last = i;
    for (uint32_t i = 0; i < last; i++)
        n += p->done[i].track == track;
    return n;
}

TEST(threads_give_what_each_stage_gives_alone)
{
    for (int tight = 0; tight < 2; tight++)
        for (int first = SOUNDS; first <= DIARIZE; first++) {
            struct play_options o = tracks_of(first, first == SOUNDS ? voices : noises);
            uint64_t lease[3];
            struct play p;

            o.pcm_bytes = tight ? 1 : 0;
            play_ready(&p, &o);
            for (int i = 0; i < 3; i++)
                lease[i] = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
            for (int i = 0; i < 3; i++) {
                tracks_ended(&p, lease[i], 0);
                assert_int_equal(tracks_same(tracks_alone_of(first), &p, lease[i], 0), 5);
                assert_int_equal(
                    tracks_same(tracks_alone_of(SOUNDS + DIARIZE - first), &p, lease[i], 1), 5);
            }
            assert_int_equal(p.failed_count, 0);
            play_quit(&p);
        }
}

/* A window of voices takes 30 ms, all sounds of the recording less than a few. A thread for both
 * would give each a step in turn, and the sounds have more steps. */
TEST(a_stage_does_not_wait_for_a_slower_one)
{
    struct play p;

    start_slowly(&p, DIARIZE, noises, "30");
    tracks_ended(&p, tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS), 0);
    assert_int_equal(count_before_last(&p, 1, 0), 5);
    play_quit(&p);
}

static void await_beats(struct play *p, uint32_t n)
{
    for (n += p->beats; p->beats < n;)
        assert_true(play_step(p));
}

/* The worker leaves a thread that hangs behind, as it should. ThreadSanitizer would call that a
 * leak.
 */
static void allow_thread_leaks(const char *before)
{
    char options[4096];

    snprintf(options, sizeof(options), "%s:report_thread_leaks=0", before);
    setenv("TSAN_OPTIONS", options, 1);
}

/* A window of voices takes a minute. The scheduler sees that, whatever the sounds do; and the
 * worker leaves when it is told to. */
TEST(a_thread_that_hangs_is_seen_while_another_works)
{
    uint32_t all[] = {0, 1, 2, 3, 4};
    char *tsan = strdup(getenv("TSAN_OPTIONS") ? getenv("TSAN_OPTIONS") : "");
    struct msg_lease m;
    uint64_t beat;
    struct play p;

    allow_thread_leaks(tsan);
    start_slowly(&p, SOUNDS, voices, "60000");
    setenv("TSAN_OPTIONS", tsan, 1);
    free(tsan);
    tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
    while (play_shards_of(&p, 1, 0) < 5)
        assert_true(play_step(&p));
    await_beats(&p, 2);
    beat = p.beat.engine_beat;
    for (int i = 0; i < 3; i++) {
        m = tracks_lease_of(&p, tracks_speech(), TRACKS_SHARD_MS);
        m.tracks[1].skip = all;
        m.tracks[1].skip_count = 5;
        play_put_lease(&p, &m);
        play_send(&p);
        tracks_ended(&p, m.lease_id, 0);
        assert_int_equal(tracks_same(tracks_alone_of(SOUNDS), &p, m.lease_id, 0), 5);
        await_beats(&p, 1);
        assert_int_equal(p.beat.engine_beat, beat);
        assert_true(p.beat.windows > 0);
    }
    play_quit(&p);
}

static void start_failing(struct play *p, int code)
{
    struct play_options o = tracks_of(DIARIZE, noises);
    char text[16];

    snprintf(text, sizeof(text), "%d", code);
    setenv("TRACKS_FAIL", "60", 1);
    setenv("TRACKS_FAIL_CODE", text, 1);
    play_ready(p, &o);
    unsetenv("TRACKS_FAIL");
    unsetenv("TRACKS_FAIL_CODE");
}

TEST(a_thread_whose_stage_fails_leaves_the_others)
{
    uint64_t lease;
    struct play p;

    start_failing(&p, ERR_MODEL);
    for (int i = 0; i < 2; i++) {
        lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
        tracks_ended(&p, lease, 0);
        assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), &p, lease, 0), 5);
        assert_true(tracks_same(tracks_alone_of(SOUNDS), &p, lease, 1) < 5);
    }
    play_quit(&p);
}

TEST(a_device_lost_in_one_thread_is_lost_for_all)
{
    struct play p;

    start_failing(&p, ERR_DEVICE);
    tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
    play_until_gone(&p);
    assert_int_equal(p.fatal, ERR_DEVICE);
    assert_int_equal(WEXITSTATUS(play_wait(&p)), WORKER_EXIT_DEVICE);
    play_free(&p);
}

/* Each at a moment of its own, with both threads at work. */
TEST(a_cancel_or_a_cap_reaches_every_thread)
{
    for (uint32_t whom = 0; whom < 3; whom++) {
        uint64_t lease;
        struct play p;

        start_slowly(&p, SOUNDS, voices, "50");
        lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
        play_until_busy(&p);
        if (whom < 2)
            play_put_cancel_track(&p, lease, whom);
        else
            play_put_cap(&p, lease, 2);
        play_send(&p);
        tracks_ended(&p, lease, whom == 0 ? ERR_CANCELLED : 0);
        assert_int_equal(p.failed_count, 0);
        assert_true(tracks_same(tracks_alone_of(SOUNDS), &p, lease, 0) >= (whom == 0 ? 0 : 3));
        assert_true(tracks_same(tracks_alone_of(DIARIZE), &p, lease, 1) >= (whom == 2 ? 3 : 0));
        play_quit(&p);
    }
}

int main(int argc, char **argv)
{
    int status;

    if (tracks_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
