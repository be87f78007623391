/* Companions that cannot be had, that fail, and a scheduler that says anything at any moment: the
 * run's own stage goes on, every lease ends once, and what is computed is right. */
#include "tests/unit/workers/companions.h"

#include <sys/wait.h>
#include <sysexits.h>

#include "tests/unit/workers/allocations.h"
#include "tests/unit/workers/files.h"
#include "workers/process/worker.h"

#define SHARD_MS 20000

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

static const char *speech(void) /* 90 s: five shards */
{
    static char *path;

    if (!path)
        path = files_sample("12_en_long_90s.mp3");
    return path;
}

static const struct play *alone_of(int stage)
{
    static struct play alone[STAGES];

    if (!alone[stage].end_count)
        companions_alone(stage, speech(), SHARD_MS, &alone[stage]);
    return &alone[stage];
}

static void ended(struct play *p, uint64_t lease, int code)
{
    const struct msg_lease_end *end = play_until_end(p, lease);

    if (end->code != code)
        fail_msg("lease %llx: %d (%s), not %d", (unsigned long long)lease, end->code, end->message,
                 code);
}

/* ---- not loaded */

static void expect_unloaded(const struct play_options *o, const char *why)
{
    struct msg_lease m[2];
    struct play p;

    play_ready(&p, o);
    assert_int_equal(p.companion_count, 1);
    if (!strstr(p.companions[0], why))
        fail_msg("'%s' and not '%s'", p.companions[0], why);
    companions_lease(&p, speech(), SHARD_MS, m);
    ended(&p, m[1].lease_id, ERR_CANCELLED);
    ended(&p, m[0].lease_id, 0);
    assert_int_equal(companions_same(alone_of(SOUNDS), &p, m[0].lease_id), 5);
    assert_int_equal(play_shards(&p, m[1].lease_id), 0);
    play_quit(&p);
}

TEST(what_cannot_be_loaded_is_said)
{
    struct play_options o = companions_of(SOUNDS, voices), other;

    other = o;
    other.companions[0].model_hash = (char *)"00112233445566778899aabbccddeeff";
    expect_unloaded(&other, "are not those");
    other = o;
    other.companions[0].model_hash = (char *)"00112233445566778899aabbccddeeff";
    other.companions[0].model_dir = (char *)"/nowhere/at/all";
    expect_unloaded(&other, "/nowhere/at/all");
    other = o;
    other.companions[0].params_json = (char *)"{\"thresholds\":1}";
    expect_unloaded(&other, "thresholds");
    other = o;
    other.companions[0].stage = (char *)"embed-text";
    expect_unloaded(&other, "decoding pass");
    other.companions[0].stage = (char *)"smells";
    other.companions[0].model_hash = (char *)"00112233445566778899aabbccddeeff";
    expect_unloaded(&other, "decoding pass");
}

/* A device whose memory holds the first stage, and nothing else. */
TEST(what_does_not_fit_is_left_out)
{
    struct play_options o = companions_of(SOUNDS, (const int[]){TRANSCRIBE, DIARIZE, -1});
    struct play p;

    setenv("NIGHTSHIFT_DEVICES", "sim:1GiB", 1);
    o.device = "sim:0";
    o.vram_budget = 4000;
    play_ready(&p, &o);
    assert_non_null(strstr(p.companions[0], "device memory"));
    assert_string_equal(p.companions[1], "");
    assert_true(p.predicted_bytes > 0);
    play_quit(&p);
    o.vram_budget = UINT64_C(512) << 20;
    play_ready(&p, &o);
    assert_string_equal(p.companions[0], "");
    play_quit(&p);
    unsetenv("NIGHTSHIFT_DEVICES");
}

/* ---- refused */

static void refuse(struct play *p, const struct msg_lease *m, int code)
{
    play_put_lease(p, m);
    play_send(p);
    ended(p, m->lease_id, code);
}

/* Each for one thing that is not as it should be, while the pass waits. */
TEST(what_does_not_belong_to_the_pass_is_refused)
{
    struct play_options o = companions_of(SOUNDS, voices);
    struct msg_lease m, c, wrong;
    struct play p;

    play_ready(&p, &o);
    m = play_lease_of(&p, speech(), SHARD_MS);
    m.companions = 7;
    play_put_lease(&p, &m);
    wrong = c = play_companion_of(&p, &m, 1);
#define WRONG(change, code)                   \
    do {                                      \
        wrong = play_companion_of(&p, &m, 1); \
        change;                               \
        refuse(&p, &wrong, code);             \
    } while (0)
    WRONG(wrong.with = 4711, ERR_CANCELLED); /* does not count: it is of no pass that waits */
    WRONG(wrong.companion = 2, ERR_PROTOCOL);
    WRONG(wrong.media_id++, ERR_PROTOCOL);
    WRONG(wrong.path = (char *)"/elsewhere", ERR_PROTOCOL);
    WRONG(wrong.shard_ms++, ERR_PROTOCOL);
    WRONG(wrong.fingerprint[0]++, ERR_PROTOCOL);
    play_put_lease(&p, &c);
    WRONG(wrong.with = c.lease_id, ERR_PROTOCOL); /* as the first */
    assert_int_equal(p.media_count, 0);
    WRONG((void)0, ERR_PROTOCOL); /* there is one already; the seventh */
    ended(&p, m.lease_id, 0);
    ended(&p, c.lease_id, 0);
    assert_int_equal(companions_same(alone_of(DIARIZE), &p, c.lease_id), 5);
    WRONG((void)0, ERR_CANCELLED); /* it is over */
    play_quit(&p);
#undef WRONG
}

TEST(who_comes_late_misses_the_pass)
{
    struct play_options o = companions_of(SOUNDS, voices);
    struct msg_lease m, c;
    struct play p;

    o.fault = "slow-step:20";
    play_ready(&p, &o);
    m = play_lease_of(&p, speech(), SHARD_MS);
    play_put_lease(&p, &m);
    play_send(&p);
    play_until_media(&p);
    while (!p.beat.windows && !p.done_count)
        assert_true(play_step(&p));
    c = play_companion_of(&p, &m, 1);
    refuse(&p, &c, ERR_CANCELLED);
    ended(&p, m.lease_id, 0);
    assert_int_equal(companions_same(alone_of(SOUNDS), &p, m.lease_id), 5);
    play_quit(&p);
}

/* ---- failing */

/* The pass goes on, with and after a companion that fails in its middle. */
TEST(a_companion_that_fails_is_given_up)
{
    static const int codes[] = {ERR_MODEL, ERR_VRAM, ERR_NOMEM};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct play_options o = companions_of(DIARIZE, noises);
        struct msg_lease m[2], later[2];
        char code[16];
        struct play p;

        snprintf(code, sizeof(code), "%d", codes[i]);
        setenv("COMPANIONS_FAIL", "70", 1);
        setenv("COMPANIONS_FAIL_CODE", code, 1);
        play_ready(&p, &o);
        unsetenv("COMPANIONS_FAIL");
        unsetenv("COMPANIONS_FAIL_CODE");
        companions_lease(&p, speech(), SHARD_MS, m);
        ended(&p, m[1].lease_id, ERR_CANCELLED);
        companions_lease(&p, speech(), SHARD_MS, later);
        ended(&p, m[0].lease_id, 0);
        ended(&p, later[0].lease_id, 0);
        ended(&p, later[1].lease_id, ERR_CANCELLED);
        assert_int_equal(companions_same(alone_of(DIARIZE), &p, m[0].lease_id), 5);
        assert_int_equal(companions_same(alone_of(DIARIZE), &p, later[0].lease_id), 5);
        assert_int_equal(companions_same(alone_of(SOUNDS), &p, m[1].lease_id), 1);
        assert_int_equal(p.failed_count, 0);
        assert_int_equal(p.tuned_count, 0);
        play_quit(&p);
    }
}

TEST(a_lost_device_is_everybody_s_end)
{
    struct play_options o = companions_of(DIARIZE, noises);
    struct msg_lease m[2];
    struct play p;
    char code[16];
    int status;

    snprintf(code, sizeof(code), "%d", ERR_DEVICE);
    setenv("COMPANIONS_FAIL", "70", 1);
    setenv("COMPANIONS_FAIL_CODE", code, 1);
    play_ready(&p, &o);
    unsetenv("COMPANIONS_FAIL");
    unsetenv("COMPANIONS_FAIL_CODE");
    companions_lease(&p, speech(), SHARD_MS, m);
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
    struct play_options o = companions_of(SOUNDS, both);
    char *path = files_wav("empty.wav", NULL, 0);
    struct msg_lease m[STAGES];
    struct play p;

    play_ready(&p, &o);
    m[0] = play_lease_of(&p, path, SHARD_MS);
    m[0].companions = 1;
    m[0].fingerprint[3] ^= 1;
    play_put_lease(&p, &m[0]);
    m[1] = play_companion_of(&p, &m[0], 1);
    play_put_lease(&p, &m[1]);
    play_send(&p);
    ended(&p, m[0].lease_id, ERR_CHANGED);
    ended(&p, m[1].lease_id, ERR_CANCELLED);
    companions_lease(&p, path, SHARD_MS, m); /* no audio is a result */
    for (int i = 0; i < STAGES; i++) {
        ended(&p, m[i].lease_id, 0);
        assert_int_equal(play_shards(&p, m[i].lease_id), 1);
    }
    play_quit(&p);
    free(path);
}

/* ---- without memory */

/* One worker whose nth allocation fails; false when it had fewer. */
static bool with_failing_allocation(long n)
{
    struct play_options o = companions_of(SOUNDS, voices);
    struct msg_lease m[2];
    struct play p;
    char text[32];
    bool clean;
    int status;

    snprintf(text, sizeof(text), "%ld", n);
    setenv("COMPANIONS_FAIL_ALLOCATION", text, 1);
    play_start(&p, &o);
    unsetenv("COMPANIONS_FAIL_ALLOCATION");
    while (!p.ready && play_step(&p))
        ;
    companions_lease(&p, speech(), SHARD_MS, m); /* one that has left does not hear it */
    while (p.end_count < 2 && play_step(&p))
        ;
    play_put_empty(&p, MSG_QUIT);
    play_send(&p);
    play_until_gone(&p);
    status = play_wait(&p);
    if (!WIFEXITED(status) ||
        (!p.fatal && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EX_OSERR &&
         WEXITSTATUS(status) != WORKER_EXIT_DEVICE))
        fail_msg("allocation %ld: wait status %#x after '%s'", n, status, p.fatal_message);
    clean = companions_same(alone_of(SOUNDS), &p, m[0].lease_id) == 5 && p.companion_count &&
            companions_same(alone_of(DIARIZE), &p, m[1].lease_id) == 5;
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
    struct msg_lease m[STAGES];
    bool cancelled[STAGES];
    uint32_t last[STAGES];
};

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % n;
}

/* A cap or a cancel for some lease, or for a companion's alone. */
static void say(struct play *p, struct said *s, uint64_t *seed)
{
    uint32_t i = draw(seed, STAGES), cap = draw(seed, 5);
    bool cancel = draw(seed, 3) == 0;

    for (uint32_t k = i; k < STAGES && (k == i || i == 0); k++) {
        s->cancelled[k] |= cancel;
        if (!cancel && cap < s->last[k])
            s->last[k] = cap;
    }
    if (cancel)
        play_put_cancel(p, s->m[i].lease_id);
    else
        play_put_cap(p, s->m[i].lease_id, cap);
}

static void check(struct play *p, const struct said *s, bool drained)
{
    static const int stages[] = {SOUNDS, DIARIZE, TRANSCRIBE};

    for (int i = 0; i < STAGES; i++) {
        const struct msg_lease_end *end = play_until_end(p, s->m[i].lease_id);
        uint32_t n = companions_same(alone_of(stages[i]), p, s->m[i].lease_id);
        uint32_t want = s->last[i] < 4 ? s->last[i] + 1 : 5, ends = 0;

        for (uint32_t k = 0; k < p->end_count; k++)
            ends += p->ends[k].lease_id == s->m[i].lease_id;
        assert_int_equal(ends, 1);
        if (end->code != 0 &&
            (end->code != ERR_CANCELLED || !(s->cancelled[i] || s->cancelled[0] || drained)))
            fail_msg("lease %llx: %d (%s)", (unsigned long long)end->lease_id, end->code,
                     end->message);
        assert_true(end->code != 0 || n >= want);
    }
}

static void storm(uint64_t seed)
{
    struct play_options o = companions_of(SOUNDS, both);
    static struct said said[LEASES];
    uint32_t given = 0;
    bool drained = false;
    struct play p;

    print_message("storm with seed %llu\n", (unsigned long long)seed);
    o.pcm_bytes = 1;
    o.decoders = 3;
    play_ready(&p, &o);
    while (p.end_count < LEASES * STAGES) {
        uint32_t what = draw(&seed, 10);

        if (given < LEASES && what < 4) {
            said[given] = (struct said){.last = {UINT32_MAX, UINT32_MAX, UINT32_MAX}};
            companions_lease(&p, speech(), SHARD_MS, said[given++].m);
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
    const char *fail = getenv("COMPANIONS_FAIL_ALLOCATION");
    int status;

    if (argc > 1 && strcmp(argv[1], "worker") == 0 && fail)
        allocations_fail(strtol(fail, NULL, 10));
    if (companions_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
