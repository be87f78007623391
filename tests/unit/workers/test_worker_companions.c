/* Stages that share a decoding pass, in a real worker with real decoders: what they yield is what
 * each yields alone, whatever is skipped, capped, cancelled or left behind. */
#include "tests/unit/workers/companions.h"
#include "tests/unit/workers/files.h"

#define SHARD_MS 20000

static const int both[] = {SOUNDS, DIARIZE, -1};
static const int voices[] = {DIARIZE, -1};

/* One decoder, one pass, three stages; a second worker has no room for audio at all. */
static void one_pass_gives_what_each_stage_gives_alone(void **state)
{
    char *path = files_sample("12_en_long_90s.mp3");
    struct play alone[STAGES];
    uint32_t shards;

    (void)state;
    companions_alone(path, SHARD_MS, alone);
    shards = alone[0].ends[0].shards;
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
        companions_lease(&p, path, SHARD_MS, m);
        for (int i = 0; i < STAGES; i++) {
            const struct msg_lease_end *end = play_until_end(&p, m[i].lease_id);

            assert_int_equal(end->code, 0);
            assert_true(end->reached_end);
            assert_int_equal(end->has_hash, i == 0);
            assert_int_equal(end->shards, shards);
            assert_int_equal(end->total_ms, alone[i].ends[0].total_ms);
            assert_int_equal(companions_same(&alone[i], &p, m[i].lease_id), shards);
        }
        assert_int_equal(p.failed_count, 0);
        assert_int_equal(p.media_count, 1);
        assert_int_equal(p.media[0].lease_id, m[0].lease_id);
        play_quit(&p);
    }
    companions_alone_free(alone);
    free(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pass_gives_what_each_stage_gives_alone),
    };
    int status;

    (void)voices;
    if (companions_dispatch(argc, argv, &status))
        return status;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
