/* Stages that share a decoding pass, in a real worker with real decoders: what they yield is what
 * each yields alone, whatever is skipped, capped, cancelled or left behind. */
#include "tests/unit/workers/tracks.h"
#include "tests/common/random.h"
#include "tests/unit/workers/files.h"

static const int both[] = {SOUNDS, DIARIZE, -1};
static const int voices[] = {DIARIZE, -1};

static const int noises[] = {SOUNDS, -1};

/* ---- results */

/* One decoder, one pass, three stages; the second worker has no room for audio at all. */
TEST(one_pass_gives_what_each_stage_gives_alone)
{
    uint32_t shards = tracks_alone_of(0)->ends[0].shards;

    assert_true(shards > 3);
    for (int tight = 0; tight < 2; tight++) {
        struct play_options o = tracks_of(TRANSCRIBE, both);
        const struct msg_lease_end *end;
        const struct msg_shard_done *done;
        uint64_t lease;
        struct play p;

        o.pcm_bytes = tight ? 1 : 0;
        play_ready(&p, &o);
        assert_int_equal(p.stage_count, STAGES);
        for (int i = 0; i < STAGES; i++)
            assert_string_equal(p.why_not[i], "");
        lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);
        end = tracks_ended(&p, lease, 0);
        assert_true(end->reached_end);
        assert_true(end->has_hash);
        assert_int_equal(end->shards, shards);
        for (int i = 0; i < STAGES; i++) {
            assert_int_equal(end->total_ms, tracks_alone_of(i)->ends[0].total_ms);
            assert_int_equal(tracks_same(tracks_alone_of(i), &p, lease, (uint32_t)i), shards);
            /* Where the last shard ends the recording does. */
            done = play_shard_of(&p, lease, (uint32_t)i, shards - 1);
            assert_int_equal(done->shards, shards);
            assert_int_equal(done->total_ms, end->total_ms);
        }
        assert_int_equal(p.failed_count, 0);
        assert_int_equal(p.media_count, 1);
        assert_int_equal(p.media[0].lease_id, lease);
        play_quit(&p); /* and nothing came after LEASE_END */
        assert_int_equal(p.end_count, 0);
    }
}

/* As many channels as may be heard apart, more than the stage has lanes, with room for all audio
 * and for none. */
TEST(channels_heard_apart_need_no_room)
{
    enum { CHANNELS = 8, FRAMES = 40 * 16000 };
    static const int none[] = {-1};
    int16_t *pcm = malloc(sizeof(*pcm) * CHANNELS * FRAMES);
    uint64_t seed = 25;
    struct play p[2];
    char *path;

    assert_non_null(pcm);
    for (uint32_t i = 0; i < CHANNELS * FRAMES; i++)
        pcm[i] = (int16_t)random_below(&seed, 16384);
    path = files_wav_of("channels.wav", pcm, FRAMES, CHANNELS);
    for (int tight = 0; tight < 2; tight++) {
        struct play_options o = tracks_of(DIARIZE, none);

        o.params = "{\"channels\":\"split\"}";
        o.slots = 1;
        o.windows = 1;
        o.pcm_bytes = tight ? 1 : 0;
        play_ready(&p[tight], &o);
        tracks_ended(&p[tight], tracks_lease(&p[tight], path, 30000), 0);
        assert_int_equal(play_shard_of(&p[tight], 1, 0, 0)->voices.speakers, CHANNELS);
    }
    assert_int_equal(tracks_same(&p[0], &p[1], 1, 0), p[0].ends[0].shards);
    for (int tight = 0; tight < 2; tight++)
        play_quit(&p[tight]);
    free(path);
    free(pcm);
}

/* Two tracks with what each of them has done already. */
static void expect_skipping(struct play *p, uint32_t *own, uint32_t own_count, uint32_t *other,
                            uint32_t other_count)
{
    uint32_t shards = tracks_alone_of(0)->ends[0].shards;
    struct msg_lease m = tracks_lease_of(p, tracks_speech(), TRACKS_SHARD_MS);

    m.tracks[0].skip = own;
    m.tracks[0].skip_count = own_count;
    m.tracks[1].skip = other;
    m.tracks[1].skip_count = other_count;
    play_put_lease(p, &m);
    play_send(p);
    assert_true(tracks_ended(p, m.lease_id, 0)->reached_end);
    assert_int_equal(tracks_same(tracks_alone_of(SOUNDS), p, m.lease_id, 0), shards - own_count);
    assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), p, m.lease_id, 1), shards - other_count);
    for (uint32_t i = 0; i < own_count; i++)
        assert_null(play_shard_of(p, m.lease_id, 0, own[i]));
    for (uint32_t i = 0; i < other_count; i++)
        assert_null(play_shard_of(p, m.lease_id, 1, other[i]));
}

/* Where the one has nothing to do, the other is fed all the same. */
TEST(each_skips_what_it_has)
{
    uint32_t few[] = {1}, some[] = {0, 2, 3}, all[] = {0, 1, 2, 3, 4};

    assert_int_equal(tracks_alone_of(0)->ends[0].shards, 5);
    for (int tight = 0; tight < 2; tight++) {
        struct play_options o = tracks_of(SOUNDS, voices);
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

/* A run of shards out of the middle, with a track's tail behind its end. */
TEST(a_part_of_a_recording_is_the_same)
{
    struct play_options o = tracks_of(TRANSCRIBE, both);
    struct msg_lease m;
    struct play p;

    play_ready(&p, &o);
    m = tracks_lease_of(&p, tracks_speech(), TRACKS_SHARD_MS);
    m.first = 1;
    m.last = 2;
    play_put_lease(&p, &m);
    play_send(&p);
    assert_false(tracks_ended(&p, m.lease_id, 0)->reached_end);
    for (int i = 0; i < STAGES; i++)
        assert_int_equal(tracks_same(tracks_alone_of(i), &p, m.lease_id, (uint32_t)i), 2);
    play_quit(&p);
}

/* Of three stages, the second has nothing to do with this recording. */
TEST(a_lease_need_not_have_all_stages)
{
    struct play_options o = tracks_of(TRANSCRIBE, both);
    struct msg_lease m;
    struct play p;

    play_ready(&p, &o);
    m = play_lease_of(&p, tracks_speech(), TRACKS_SHARD_MS);
    play_add_track(&m)->stage = 2;
    play_put_lease(&p, &m);
    play_send(&p);
    tracks_ended(&p, m.lease_id, 0);
    assert_int_equal(tracks_same(tracks_alone_of(TRANSCRIBE), &p, m.lease_id, 0), 5);
    assert_int_equal(play_shards_of(&p, m.lease_id, 1), 0);
    assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), &p, m.lease_id, 2), 5);
    play_quit(&p);
}

/* ---- what is said in between */

static struct play slow_worker(int stage, const int *beside)
{
    struct play_options o = tracks_of(stage, beside);
    struct play p;

    o.decoders = 1;
    o.pcm_bytes = 1;
    o.fault = "slow-step:5";
    play_ready(&p, &o);
    return p;
}

TEST(a_cap_is_for_all_tracks)
{
    struct play p = slow_worker(TRANSCRIBE, both);
    uint64_t lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);

    play_put_cap(&p, lease, 2);
    play_send(&p);
    tracks_ended(&p, lease, 0);
    for (int i = 0; i < STAGES; i++)
        assert_int_equal(tracks_same(tracks_alone_of(i), &p, lease, (uint32_t)i), 3);
    play_quit(&p);
}

/* Of the lease, and of a track, each before its decoder has begun, and when some of it is done. */
TEST(a_cancel_ends_a_track_or_all)
{
    for (uint32_t whom = 0; whom < STAGES; whom++)
        for (int begun = 0; begun < 2; begun++) {
            struct play p = slow_worker(TRANSCRIBE, both);
            uint64_t lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);

            while (begun && !p.done_count)
                assert_true(play_step(&p));
            play_put_cancel_track(&p, lease, whom);
            play_send(&p);
            tracks_ended(&p, lease, whom == 0 ? ERR_CANCELLED : 0);
            for (uint32_t i = 0; i < STAGES; i++)
                if (whom == 0 || i == whom)
                    assert_true(tracks_same(tracks_alone_of((int)i), &p, lease, i) < 5);
                else
                    assert_int_equal(tracks_same(tracks_alone_of((int)i), &p, lease, i), 5);
            assert_int_equal(p.failed_count, 0);
            play_quit(&p);
        }
}

/* One that the lease does not have, and one of a lease that does not exist. */
TEST(a_cancel_of_nothing_does_nothing)
{
    struct play p = slow_worker(SOUNDS, voices);
    uint64_t lease = tracks_lease(&p, tracks_speech(), TRACKS_SHARD_MS);

    play_put_cancel_track(&p, lease, 2);
    play_put_cancel_track(&p, lease, SETUP_MAX_STAGES - 1);
    play_put_cancel_track(&p, 4711, 1);
    play_send(&p);
    tracks_ended(&p, lease, 0);
    assert_int_equal(tracks_same(tracks_alone_of(SOUNDS), &p, lease, 0), 5);
    assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), &p, lease, 1), 5);
    play_quit(&p);
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

/* One lease waits for the only decoder thread; where that was quick, some of it is begun as well.
 */
TEST(a_drained_worker_finishes_what_it_began)
{
    struct play alone[STAGES], p = slow_worker(SOUNDS, voices);
    uint64_t lease, waiting;
    char *path = noise(600);

    for (int i = 1; i < STAGES; i++)
        tracks_alone(i, path, 30000, &alone[i]);
    lease = tracks_lease(&p, path, 30000);
    waiting = tracks_lease(&p, path, 30000);
    while (!p.done_count)
        assert_true(play_step(&p));
    play_put_empty(&p, MSG_DRAIN);
    play_send(&p);
    tracks_ended(&p, waiting, ERR_CANCELLED);
    tracks_ended(&p, lease, ERR_CANCELLED);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(tracks_same(&alone[i + 1], &p, waiting, i) < 20);
        assert_true(tracks_same(&alone[i + 1], &p, lease, i) < 20);
        assert_non_null(play_shard_of(&p, lease, i, 0));
    }
    assert_int_equal(p.failed_count, 0);
    play_quit(&p);
    for (int i = 1; i < STAGES; i++)
        play_quit(&alone[i]);
    free(path);
}

/* The watchdog's view: another track than the first alone has work. */
TEST(a_track_at_work_is_work)
{
    struct play_options o = tracks_of(SOUNDS, voices);
    uint32_t all[] = {0, 1, 2, 3, 4};
    struct msg_lease m;
    struct play p;

    setenv("TRACKS_VOICES_MS", "30", 1);
    play_ready(&p, &o);
    unsetenv("TRACKS_VOICES_MS");
    m = tracks_lease_of(&p, tracks_speech(), TRACKS_SHARD_MS);
    m.tracks[0].skip = all;
    m.tracks[0].skip_count = 5;
    play_put_lease(&p, &m);
    play_send(&p);
    play_until_busy(&p);
    assert_int_equal(p.beat.audio_ms, 0); /* of the first stage */
    tracks_ended(&p, m.lease_id, 0);
    assert_int_equal(tracks_same(tracks_alone_of(DIARIZE), &p, m.lease_id, 1), 5);
    play_quit(&p);
}

/* Half an hour, of which a step of voices hears sixteen seconds and one of sounds half a second,
 * and hardly any room. What the slow one was given it does, and of the rest it is said which. */
TEST(who_falls_behind_is_left_behind)
{
    struct play_options o = tracks_of(DIARIZE, noises);
    uint64_t lease;
    char *path = noise(900);
    struct play alone, p;
    uint32_t n;

    tracks_alone(SOUNDS, path, 60000, &alone);
    o.pcm_bytes = 1;
    setenv("TRACKS_LAG", "880", 1);
    setenv("TRACKS_WINDOWS", "16", 1);
    setenv("TRACKS_PATCHES", "1", 1);
    play_ready(&p, &o);
    unsetenv("TRACKS_LAG");
    unsetenv("TRACKS_WINDOWS");
    unsetenv("TRACKS_PATCHES");
    lease = tracks_lease(&p, path, 60000);
    assert_true(tracks_ended(&p, lease, 0)->reached_end);
    assert_int_equal(play_shards(&p, lease), 15);
    n = tracks_same(&alone, &p, lease, 1);
    assert_true(n >= 9 && n < 15);
    assert_int_equal(p.failed_count, 15 - n);
    for (uint32_t i = 0; i < p.failed_count; i++) {
        assert_int_equal(p.failed[i].track, 1);
        assert_int_equal(p.failed[i].code, ERR_CANCELLED);
        assert_non_null(strstr(p.failed[i].message, "behind"));
        assert_null(play_shard_of(&p, lease, 1, p.failed[i].seq));
    }
    play_quit(&p);
    play_quit(&alone);
    free(path);
}

int main(int argc, char **argv)
{
    int status;

    if (tracks_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
