/* Stages that share a decoding pass, in a real worker with real decoders: what they yield is what
 * each yields alone, whatever is skipped, capped, cancelled or left behind. */
#include "tests/unit/workers/companions.h"
#include "tests/unit/workers/files.h"

#define SHARD_MS 20000

static const int both[] = {SOUNDS, DIARIZE, -1};
static const int voices[] = {DIARIZE, -1};

static const int noises[] = {SOUNDS, -1};

static const char *speech(void) /* 90 s: five shards */
{
    static char *path;

    if (!path)
        path = files_sample("12_en_long_90s.mp3");
    return path;
}

/* What each stage makes of it alone; computed once. */
static const struct play *alone_of(int stage)
{
    static struct play alone[STAGES];

    if (!alone[stage].end_count)
        companions_alone(stage, speech(), SHARD_MS, &alone[stage]);
    return &alone[stage];
}

/* The lease ends with this code. */
static const struct msg_lease_end *ended(struct play *p, uint64_t lease, int code)
{
    const struct msg_lease_end *end = play_until_end(p, lease);

    if (end->code != code)
        fail_msg("lease %llx: %d (%s), not %d", (unsigned long long)lease, end->code, end->message,
                 code);
    return end;
}

/* ---- results */

/* One decoder, one pass, three stages; the second worker has no room for audio at all. */
TEST(one_pass_gives_what_each_stage_gives_alone)
{
    uint32_t shards = alone_of(0)->ends[0].shards;

    assert_true(shards > 3);
    for (int tight = 0; tight < 2; tight++) {
        struct play_options o = companions_of(TRANSCRIBE, both);
        struct msg_lease m[STAGES];
        struct play p;

        o.pcm_bytes = tight ? 1 : 0;
        play_ready(&p, &o);
        assert_int_equal(p.companion_count, 2);
        assert_string_equal(p.companions[0], "");
        assert_string_equal(p.companions[1], "");
        companions_lease(&p, speech(), SHARD_MS, m);
        for (int i = 0; i < STAGES; i++) {
            const struct msg_lease_end *end = ended(&p, m[i].lease_id, 0);

            assert_true(end->reached_end);
            assert_int_equal(end->has_hash, i == 0);
            assert_int_equal(end->shards, shards);
            assert_int_equal(end->total_ms, alone_of(i)->ends[0].total_ms);
            assert_int_equal(companions_same(alone_of(i), &p, m[i].lease_id), shards);
        }
        assert_int_equal(p.failed_count, 0);
        assert_int_equal(p.media_count, 1);
        assert_int_equal(p.media[0].lease_id, m[0].lease_id);
        play_quit(&p);
    }
}

/* Two leases of one pass with what each of them has done already; the last: how many are left. */
static void expect_skipping(struct play *p, uint32_t *own, uint32_t own_count, uint32_t *other,
                            uint32_t other_count)
{
    uint32_t shards = alone_of(0)->ends[0].shards;
    struct msg_lease m, c;

    m = play_lease_of(p, speech(), SHARD_MS);
    m.companions = 1;
    m.skip = own;
    m.skip_count = own_count;
    c = play_companion_of(p, &m, 1);
    c.skip = other;
    c.skip_count = other_count;
    play_put_lease(p, &m);
    play_put_lease(p, &c);
    play_send(p);
    ended(p, m.lease_id, 0);
    ended(p, c.lease_id, 0);
    assert_true(play_until_end(p, c.lease_id)->reached_end);
    assert_int_equal(companions_same(alone_of(SOUNDS), p, m.lease_id), shards - own_count);
    assert_int_equal(companions_same(alone_of(DIARIZE), p, c.lease_id), shards - other_count);
    for (uint32_t i = 0; i < own_count; i++)
        assert_null(play_shard(p, m.lease_id, own[i]));
    for (uint32_t i = 0; i < other_count; i++)
        assert_null(play_shard(p, c.lease_id, other[i]));
}

/* Where the one has nothing to do, the other is fed all the same. */
TEST(each_skips_what_it_has)
{
    uint32_t few[] = {1}, some[] = {0, 2, 3}, all[] = {0, 1, 2, 3, 4};

    assert_int_equal(alone_of(0)->ends[0].shards, 5);
    for (int tight = 0; tight < 2; tight++) {
        struct play_options o = companions_of(SOUNDS, voices);
        struct play p;

        o.pcm_bytes = tight ? 1 : 0;
        play_ready(&p, &o);
        expect_skipping(&p, few, 1, some, 3);
        expect_skipping(&p, some, 3, few, 1);
        expect_skipping(&p, all, 5, NULL, 0);
        expect_skipping(&p, NULL, 0, all, 5);
        play_quit(&p);
    }
}

/* A run of shards out of the middle, with a companion's tail behind its end. */
TEST(a_part_of_a_recording_is_the_same)
{
    struct play_options o = companions_of(TRANSCRIBE, both);
    struct msg_lease m, c[2];
    struct play p;

    play_ready(&p, &o);
    m = play_lease_of(&p, speech(), SHARD_MS);
    m.first = 1;
    m.last = 2;
    m.companions = 2;
    play_put_lease(&p, &m);
    for (uint32_t k = 0; k < 2; k++) {
        c[k] = play_companion_of(&p, &m, k + 1);
        play_put_lease(&p, &c[k]);
    }
    play_send(&p);
    ended(&p, m.lease_id, 0);
    assert_int_equal(companions_same(alone_of(TRANSCRIBE), &p, m.lease_id), 2);
    for (int k = 0; k < 2; k++) {
        const struct msg_lease_end *end = play_until_end(&p, c[k].lease_id);

        assert_int_equal(end->code, 0);
        assert_false(end->reached_end);
        assert_int_equal(companions_same(alone_of(both[k]), &p, c[k].lease_id), 2);
    }
    play_quit(&p);
}

/* ---- what is said in between */

static struct play slow_worker(int stage, const int *beside)
{
    struct play_options o = companions_of(stage, beside);
    struct play p;

    o.decoders = 1;
    o.pcm_bytes = 1;
    o.fault = "slow-step:5";
    play_ready(&p, &o);
    return p;
}

TEST(a_cap_is_for_companions_too)
{
    struct play p = slow_worker(TRANSCRIBE, both);
    struct msg_lease m[STAGES];

    companions_lease(&p, speech(), SHARD_MS, m);
    play_put_cap(&p, m[0].lease_id, 2);
    play_put_cap(&p, m[1].lease_id, 1); /* and of one alone */
    play_send(&p);
    for (int i = 0; i < STAGES; i++) {
        ended(&p, m[i].lease_id, 0);
        assert_int_equal(companions_same(alone_of(i), &p, m[i].lease_id), i == 1 ? 2 : 3);
        assert_null(play_shard(&p, m[i].lease_id, 3));
    }
    play_quit(&p);
}

/* Of the pass, and of a companion, each before its decoder has begun, and when some of it is done.
 */
TEST(a_cancel_ends_a_companion_or_all)
{
    for (int whom = 0; whom < STAGES; whom++)
        for (int begun = 0; begun < 2; begun++) {
            struct play p = slow_worker(TRANSCRIBE, both);
            struct msg_lease m[STAGES];

            companions_lease(&p, speech(), SHARD_MS, m);
            while (begun && !p.done_count)
                assert_true(play_step(&p));
            play_put_cancel(&p, m[whom].lease_id);
            play_send(&p);
            for (int i = 0; i < STAGES; i++) {
                bool ends = whom == 0 || i == whom;

                ended(&p, m[i].lease_id, ends ? ERR_CANCELLED : 0);
                if (!ends)
                    assert_int_equal(companions_same(alone_of(i), &p, m[i].lease_id), 5);
                else
                    assert_true(companions_same(alone_of(i), &p, m[i].lease_id) < 5);
            }
            assert_int_equal(p.failed_count, 0);
            play_quit(&p);
        }
}

/* Noise that is never silent. */
static char *noise(uint32_t seconds)
{
    uint32_t n = seconds * 16000;
    int16_t *pcm = malloc(n * sizeof(*pcm));
    char *path;

    assert_non_null(pcm);
    for (uint32_t i = 0; i < n; i++)
        pcm[i] = (int16_t)(i * 7919 % 20011 + 1);
    path = files_wav("noise.wav", pcm, n);
    free(pcm);
    return path;
}

/* One lease waits for the only decoder thread, and its companions with it. */
TEST(a_drained_worker_finishes_what_it_began)
{
    struct play alone[STAGES], p = slow_worker(SOUNDS, voices);
    struct msg_lease m[2], waiting[2];
    char *path = noise(600);

    for (int i = 1; i < STAGES; i++)
        companions_alone(i, path, 30000, &alone[i]);
    companions_lease(&p, path, 30000, m);
    companions_lease(&p, path, 30000, waiting);
    while (!p.done_count)
        assert_true(play_step(&p));
    play_put_empty(&p, MSG_DRAIN);
    play_send(&p);
    for (int i = 0; i < 2; i++) {
        ended(&p, waiting[i].lease_id, ERR_CANCELLED);
        assert_int_equal(play_shards(&p, waiting[i].lease_id), 0);
        ended(&p, m[i].lease_id, ERR_CANCELLED);
        assert_true(companions_same(&alone[i + 1], &p, m[i].lease_id) < 20);
    }
    assert_non_null(play_shard(&p, m[0].lease_id, 0));
    assert_non_null(play_shard(&p, m[1].lease_id, 0));
    assert_int_equal(p.failed_count, 0);
    play_quit(&p);
    for (int i = 1; i < STAGES; i++)
        play_quit(&alone[i]);
    free(path);
}

/* A pass whose companions are still to come waits for them; those that are refused have come. */
TEST(a_pass_waits_for_its_companions)
{
    struct play_options o = companions_of(SOUNDS, voices);
    struct msg_lease m, c;
    uint32_t beats;
    struct play p;

    play_ready(&p, &o);
    m = play_lease_of(&p, speech(), SHARD_MS);
    m.companions = 2;
    c = play_companion_of(&p, &m, 1);
    play_put_lease(&p, &m);
    play_put_lease(&p, &c);
    play_send(&p);
    for (beats = p.beats; p.beats < beats + 2;)
        assert_true(play_step(&p));
    assert_int_equal(p.media_count, 0);
    m.companions = 0;
    c.lease_id++;
    play_put_lease(&p, &c); /* the same once more */
    play_send(&p);
    ended(&p, c.lease_id, ERR_PROTOCOL);
    ended(&p, m.lease_id, 0);
    ended(&p, c.lease_id - 1, 0);
    assert_int_equal(companions_same(alone_of(DIARIZE), &p, c.lease_id - 1), 5);
    play_quit(&p);
}

/* The watchdog's view: the companion alone has work. */
TEST(a_companion_at_work_is_work)
{
    struct play_options o = companions_of(SOUNDS, voices);
    uint32_t all[] = {0, 1, 2, 3, 4};
    struct msg_lease m, c;
    struct play p;

    setenv("COMPANIONS_VOICES_MS", "30", 1);
    play_ready(&p, &o);
    unsetenv("COMPANIONS_VOICES_MS");
    m = play_lease_of(&p, speech(), SHARD_MS);
    m.companions = 1;
    m.skip = all;
    m.skip_count = 5;
    c = play_companion_of(&p, &m, 1);
    play_put_lease(&p, &m);
    play_put_lease(&p, &c);
    play_send(&p);
    play_until_busy(&p);
    assert_int_equal(p.beat.audio_ms, 0); /* of the run's own stage */
    ended(&p, c.lease_id, 0);
    assert_int_equal(companions_same(alone_of(DIARIZE), &p, c.lease_id), 5);
    play_quit(&p);
}

/* Half an hour, of which a step of voices hears sixteen seconds and one of sounds half a second,
 * and hardly any room. What the companion was given it does. */
TEST(who_falls_behind_is_left_behind)
{
    struct play_options o = companions_of(DIARIZE, noises);
    const struct msg_lease_end *end;
    struct msg_lease m[2];
    char *path = noise(900);
    struct play alone, p;
    uint32_t n;

    companions_alone(SOUNDS, path, 60000, &alone);
    o.pcm_bytes = 1;
    setenv("COMPANIONS_LAG", "880", 1);
    setenv("COMPANIONS_WINDOWS", "16", 1);
    setenv("COMPANIONS_PATCHES", "1", 1);
    play_ready(&p, &o);
    unsetenv("COMPANIONS_LAG");
    unsetenv("COMPANIONS_WINDOWS");
    unsetenv("COMPANIONS_PATCHES");
    companions_lease(&p, path, 60000, m);
    ended(&p, m[0].lease_id, 0);
    assert_int_equal(play_shards(&p, m[0].lease_id), 15);
    end = ended(&p, m[1].lease_id, ERR_CANCELLED);
    assert_non_null(strstr(end->message, "behind"));
    assert_true(end->reached_end);
    n = companions_same(&alone, &p, m[1].lease_id);
    assert_true(n >= 9 && n < 15);
    assert_int_equal(p.failed_count, 0);
    play_quit(&p);
    play_quit(&alone);
    free(path);
}

int main(int argc, char **argv)
{
    int status;

    if (companions_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
