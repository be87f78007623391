/* Stages that cannot be had beside the first, that fail, and a scheduler that says anything at any
 * moment: the first goes on, every lease ends once, and what is computed is right. */
#include "tests/unit/workers/tracks.h"

#include <sys/wait.h>
#include <sysexits.h>

#include "tests/common/nomem.h"
#include "tests/unit/workers/files.h"
#include "workers/process/worker.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STORMS 4
#define SPARSE 2 /* every allocation up to this number, then as many in each power of e */
#else
#define STORMS 8
#define SPARSE 4
#endif

static const int both[] = {DIARIZE, TRANSCRIBE, -1};
static const int noises[] = {SOUNDS, -1};
static const int voices[] = {DIARIZE, -1};

/* ---- not loaded */

static void expect_unloaded(const struct play_options *o, const char *why)
{
    uint64_t lease;
    struct play p;

    play_ready(&p, o);
    assert_int_equal(p.stage_count, 2);
    if (!strstr(p.why_not[1], why))
        fail_msg("'%s' and not '%s'", p.why_not[1], why);
    lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS); /* as if it had not said so */
    tracks_ended(&p, lease, 0);
    assert_int_equal(tracks_same(tracks_alone_of(SOUNDS), &p, lease, 0), 5);
    assert_int_equal(play_shards_of(&p, lease, 1), 0);
    play_quit(&p);
}

TEST(what_cannot_be_loaded_is_said)
{
    struct play_options o = tracks_of(SOUNDS, voices), other;

    other = o;
    other.beside[0].model_hash = (char *)"00112233445566778899aabbccddeeff";
    expect_unloaded(&other, "are not those");
    other = o;
    other.beside[0].model_hash = (char *)"00112233445566778899aabbccddeeff";
    other.beside[0].model_dir = (char *)"/nowhere/at/all";
    expect_unloaded(&other, "/nowhere/at/all");
    other = o;
    other.beside[0].params_json = (char *)"{\"thresholds\":1}";
    expect_unloaded(&other, "thresholds");
    other = o;
    other.beside[0].name = (char *)"embed-text";
    expect_unloaded(&other, "decoding pass");
    other.beside[0].name = (char *)"smells";
    other.beside[0].model_hash = (char *)"00112233445566778899aabbccddeeff";
    expect_unloaded(&other, "decoding pass");
}

/* A device whose memory holds the first stage, and nothing else. */
TEST(what_does_not_fit_is_left_out)
{
    struct play_options o = tracks_of(SOUNDS, (const int[]){TRANSCRIBE, DIARIZE, -1});
    struct play p;

    setenv("NIGHTSHIFT_DEVICES", "sim:1GiB", 1);
    o.device = "sim:0";
    o.memory_limit = 4000;
    play_ready(&p, &o);
    assert_non_null(strstr(p.why_not[1], "device memory"));
    assert_string_equal(p.why_not[2], "");
    assert_true(p.predicted_bytes > 0);
    play_quit(&p);
    o.memory_limit = UINT64_C(512) << 20;
    play_ready(&p, &o);
    assert_string_equal(p.why_not[1], "");
    play_quit(&p);
    unsetenv("NIGHTSHIFT_DEVICES");
}

/* ---- refused */

/* Stages that SETUP did not name: nothing is decoded. */
TEST(a_track_of_no_stage_is_refused)
{
    struct play_options o = tracks_of(SOUNDS, voices);
    struct msg_lease m;
    struct play p;

    play_ready(&p, &o);
    for (uint32_t stage = 2; stage < SETUP_MAX_STAGES; stage++) {
        m = tracks_lease_of(&p, tracks_speech(), TRACKS_SHARD_MS);
        play_add_track(&m)->stage = stage;
        play_put_lease(&p, &m);
        play_send(&p);
        tracks_ended(&p, m.lease_id, ERR_PROTOCOL);
    }
    assert_int_equal(p.media_count, 0);
    m = tracks_lease_of(&p, tracks_speech(), TRACKS_SHARD_MS);
    play_put_lease(&p, &m);
    play_put_lease(&p, &m); /* the same once more: the answer is about either */
    play_send(&p);
    tracks_ended(&p, m.lease_id, ERR_PROTOCOL);
    while (p.end_count < SETUP_MAX_STAGES)
        assert_true(play_step(&p));
    assert_int_equal(p.ends[SETUP_MAX_STAGES - 1].code, 0);
    assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), &p, m.lease_id, 1), 5);
    play_quit(&p);
}

/* Vectors of sound take 8.5 kB a second, voices half as much: of an hour and a half the former are
 * more than a message holds, which their own turn will say. */
TEST(a_track_whose_shards_are_too_long_is_left_out)
{
    struct play_options o = tracks_of(DIARIZE, noises);
    uint64_t lease;
    struct play p;

    play_ready(&p, &o);
    lease = tracks_lease(&p, tracks_speech(), 90 * 60000);
    tracks_ended(&p, lease, 0);
    assert_int_equal(play_shards_of(&p, lease, 0), 1);
    assert_int_equal(play_shards_of(&p, lease, 1), 0);
    tracks_ended(&p, tracks_lease(&p, tracks_speech(), 86400000),
                 ERR_LIMIT); /* too long for the first, too */
    play_quit(&p);
}

/* ---- failing */

/* The pass goes on, with and after a stage that fails in its middle. */
TEST(a_stage_that_fails_is_given_up)
{
    static const int codes[] = {ERR_MODEL, ERR_VRAM, ERR_NOMEM};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct play_options o = tracks_of(DIARIZE, noises);
        uint64_t lease, later;
        char code[16];
        struct play p;

        snprintf(code, sizeof(code), "%d", codes[i]);
        setenv("TRACKS_FAIL", "70", 1);
        setenv("TRACKS_FAIL_CODE", code, 1);
        play_ready(&p, &o);
        unsetenv("TRACKS_FAIL");
        unsetenv("TRACKS_FAIL_CODE");
        lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
        tracks_ended(&p, lease, 0);
        later = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
        tracks_ended(&p, later, 0);
        assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), &p, lease, 0), 5);
        assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), &p, later, 0), 5);
        assert_int_equal(tracks_same(tracks_alone_of(SOUNDS), &p, lease, 1), 1);
        assert_int_equal(play_shards_of(&p, later, 1), 0);
        assert_int_equal(p.failed_count, 0);
        assert_int_equal(p.tuned_count, 0);
        play_quit(&p);
    }
}

TEST(a_lost_device_is_everybody_s_end)
{
    struct play_options o = tracks_of(DIARIZE, noises);
    struct play p;
    char code[16];
    int status;

    snprintf(code, sizeof(code), "%d", ERR_DEVICE);
    setenv("TRACKS_FAIL", "70", 1);
    setenv("TRACKS_FAIL_CODE", code, 1);
    play_ready(&p, &o);
    unsetenv("TRACKS_FAIL");
    unsetenv("TRACKS_FAIL_CODE");
    tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
    play_until_gone(&p);
    assert_int_equal(p.fatal, ERR_DEVICE);
    status = play_wait(&p);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), WORKER_EXIT_DEVICE);
    play_free(&p);
}

/* Nobody is charged twice for a bad recording. */
TEST(a_bad_recording_is_the_first_stage_s_affair)
{
    struct play_options o = tracks_of(SOUNDS, both);
    char *path = files_wav("empty.wav", NULL, 0);
    struct msg_lease m;
    uint64_t lease;
    struct play p;

    play_ready(&p, &o);
    m = tracks_lease_of(&p, path, TRACKS_SHARD_MS);
    m.fingerprint[3] ^= 1;
    play_put_lease(&p, &m);
    play_send(&p);
    tracks_ended(&p, m.lease_id, ERR_CHANGED);
    assert_int_equal(p.done_count + p.failed_count, 0);
    lease = tracks_lease(&p, path, TRACKS_SHARD_MS); /* no audio is a result */
    tracks_ended(&p, lease, 0);
    for (uint32_t i = 0; i < STAGES; i++)
        assert_int_equal(play_shards_of(&p, lease, i), 1);
    play_quit(&p);
    free(path);
}

/* ---- without memory */

/* One worker whose nth allocation fails; false when it had fewer. */
static bool with_failing_allocation(long n)
{
    struct play_options o = tracks_of(SOUNDS, voices);
    uint64_t lease;
    struct play p;
    char text[32];
    bool clean;
    int status;

    snprintf(text, sizeof(text), "%ld", n);
    setenv("TRACKS_FAIL_ALLOCATION", text, 1);
    play_start(&p, &o);
    unsetenv("TRACKS_FAIL_ALLOCATION");
    while (!p.ready && play_step(&p))
        ;
    lease =
        tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS); /* one that has left does not hear it */
    while (p.end_count < 1 && play_step(&p))
        ;
    play_put_empty(&p, MSG_QUIT);
    play_send(&p);
    play_until_gone(&p);
    status = play_wait(&p);
    if (!WIFEXITED(status) ||
        (!p.fatal && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EX_OSERR &&
         WEXITSTATUS(status) != WORKER_EXIT_DEVICE))
        fail_msg("allocation %ld: wait status %#x after '%s'", n, status, p.fatal_message);
    clean = tracks_same(tracks_alone_of(SOUNDS), &p, lease, 0) == 5 &&
            tracks_same(tracks_alone_of(DIARIZE), &p, lease, 1) == 5;
    for (uint32_t i = 0; i < p.failed_count; i++)
        assert_int_equal(p.failed[i].code, ERR_NOMEM);
    play_free(&p);
    return !clean || p.fatal;
}

/* What is said is right, and the worker comes to an end. */
TEST(without_memory_nothing_wrong_is_said)
{
    uint32_t faults = 0;

    for (long n = 1; n < 4000; n += 1 + n / SPARSE)
        faults += with_failing_allocation(n);
    print_message("%u of the workers had too little memory\n", faults);
    assert_true(faults > 5);
}

/* ---- anything at any moment */

#define LEASES 6

struct said {
    uint64_t lease;
    bool cancelled[STAGES]; /* [0]: all of it */
    uint32_t last;
};

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % n;
}

/* A cap or a cancel for some lease, or a cancel of a track alone. */
static void say(struct play *p, struct said *s, uint64_t *seed)
{
    uint32_t track = draw(seed, STAGES), cap = draw(seed, 5);

    if (draw(seed, 3) == 0) {
        s->cancelled[track] = true;
        play_put_cancel_track(p, s->lease, track);
        return;
    }
    s->last = cap < s->last ? cap : s->last;
    play_put_cap(p, s->lease, cap);
}

static void check(struct play *p, const struct said *s, bool drained)
{
    static const int stages[] = {SOUNDS, DIARIZE, TRANSCRIBE};
    const struct msg_lease_end *end = play_until_end(p, s->lease);
    uint32_t want = s->last < 4 ? s->last + 1 : 5, ends = 0;

    for (uint32_t k = 0; k < p->end_count; k++)
        ends += p->ends[k].lease_id == s->lease;
    assert_int_equal(ends, 1);
    if (end->code != 0 && (end->code != ERR_CANCELLED || !(s->cancelled[0] || drained)))
        fail_msg("lease %llx: %d (%s)", (unsigned long long)end->lease_id, end->code, end->message);
    for (uint32_t i = 0; i < STAGES; i++) {
        uint32_t n = tracks_same(tracks_alone_of(stages[i]), p, s->lease, i);

        assert_true(end->code != 0 || n >= want || (i > 0 && (s->cancelled[i] || drained)));
    }
}

static void storm(uint64_t seed)
{
    struct play_options o = tracks_of(SOUNDS, both);
    struct said said[LEASES] = {0};
    uint32_t given = 0;
    bool drained = false;
    struct play p;

    print_message("storm with seed %llu\n", (unsigned long long)seed);
    o.pcm_bytes = 1;
    o.decoders = 3;
    play_ready(&p, &o);
    while (p.end_count < LEASES) {
        uint32_t what = draw(&seed, 10);

        if (given < LEASES && what < 4) {
            said[given].lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
            said[given++].last = UINT32_MAX;
        } else if (given && what < 6) {
            say(&p, &said[draw(&seed, given)], &seed);
        } else if (given == LEASES && what == 6 && draw(&seed, 4) == 0) {
            drained = true;
            play_put_empty(&p, MSG_DRAIN);
        }
        play_send(&p);
        if (given && what > 2)
            assert_true(play_step(&p));
    }
    for (int i = 0; i < LEASES; i++)
        check(&p, &said[i], drained);
    assert_int_equal(p.failed_count, 0);
    play_quit(&p);
}

TEST(whatever_is_said_leases_end_and_results_are_right)
{
    for (uint64_t seed = 1; seed <= STORMS; seed++)
        storm(seed);
}

int main(int argc, char **argv)
{
    const char *fail = getenv("TRACKS_FAIL_ALLOCATION");
    int status;

    if (argc > 1 && strcmp(argv[1], "worker") == 0 && fail)
        nomem_fail(strtol(fail, NULL, 10));
    if (tracks_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
