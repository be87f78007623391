/* A worker for long: much of real recordings, and an evening of leases. Sanitizers would only make
 * it slow, and they keep what was freed, so that memory that grows is seen without them alone. */
#include "tests/unit/workers/play.h"

#include <dirent.h>

#include "tests/common/files.h"
#include "tests/unit/workers/files.h"

#define EVENING 30

static const struct msg_lease_end *whole(struct play *p, const char *path, uint32_t shard_ms)
{
    struct msg_lease m = play_lease_of(p, path, shard_ms);

    play_put_lease(p, &m);
    play_send(p);
    return play_until_end(p, m.lease_id);
}

static void check_order(const struct msg_shard_done *s, int64_t *last_end)
{
    for (uint32_t i = 0; i < s->segment_count; i++) {
        const struct result_segment *g = &s->segments[i];

        if (g->start_ms < *last_end || g->start_ms < s->start_ms || g->end_ms < g->start_ms ||
            g->end_ms > s->end_ms)
            fail_msg("shard %u [%lld, %lld): segment %u is [%lld, %lld), after %lld", s->seq,
                     (long long)s->start_ms, (long long)s->end_ms, i, (long long)g->start_ms,
                     (long long)g->end_ms, (long long)*last_end);
        *last_end = g->end_ms;
    }
}

TEST(segments_are_in_order_and_inside)
{
    static const char *const names[] = {"12_en_long_90s.mp3", "13_es_long_45s.ogg",
                                        "08_two_voices_stereo.wav", "09_long_silences.flac"};
    static const uint32_t lengths[] = {7000, 300000};
    uint32_t segments = 0;

    for (size_t l = 0; l < 2; l++) {
        struct play p;

        play_ready(&p, &(struct play_options){.slots = 8, .decoders = 2});
        for (size_t i = 0; i < 4; i++) {
            char *path = files_sample(names[i]);
            const struct msg_lease_end *end = whole(&p, path, lengths[l]);
            int64_t last_end = 0, cut = 0;

            assert_int_equal(end->code, 0);
            for (uint32_t k = 0; k < end->shards; k++) {
                const struct msg_shard_done *s = play_shard(&p, end->lease_id, k);

                assert_non_null(s);
                assert_int_equal(s->start_ms, cut);
                check_order(s, &last_end);
                cut = s->end_ms;
                segments += s->segment_count;
            }
            assert_int_equal(cut, end->total_ms);
            free(path);
        }
        play_quit(&p);
    }
    assert_true(segments > 40);
}

static uint32_t open_files(pid_t pid)
{
    char path[64];
    uint32_t n = 0;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    d = opendir(path);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Leases as they come in a long run: done, bad, missing, cancelled, capped. */
static void evening(struct play *p, const char *good, const char *bad, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        struct msg_lease m[4];

        for (int k = 0; k < 4; k++) {
            m[k] = play_lease_of(p,
                                 k == 0   ? good
                                 : k == 1 ? bad
                                 : k == 2 ? "/none.wav"
                                          : good,
                                 300000);
            play_put_lease(p, &m[k]);
        }
        if (i % 2)
            play_put_cancel(p, m[3].lease_id);
        else
            play_put_cap(p, m[3].lease_id, 0);
        play_send(p);
        for (int k = 0; k < 4; k++)
            play_until_end(p, m[k].lease_id);
        play_forget(p);
    }
}

TEST(a_long_evening_leaves_nothing_behind)
{
    char *good = files_sample("01_en_short.wav"), *bad = files_path("bad.mp3");
    uint32_t files, beats;
    uint64_t rss;
    struct play p;

    file_text(bad, "no recording");
    play_ready(&p, &(struct play_options){.slots = 2, .decoders = 2});
    evening(&p, good, bad, 10);
    for (beats = p.beats; p.beats < beats + 2;)
        assert_true(play_step(&p));
    files = open_files(p.pid);
    rss = p.beat.rss_bytes;
    evening(&p, good, bad, EVENING);
    for (beats = p.beats; p.beats < beats + 2;)
        assert_true(play_step(&p));
    assert_int_equal(p.beat.leases, 0);
    assert_int_equal(open_files(p.pid), files);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (p.beat.rss_bytes > rss + (4u << 20))
        fail_msg("%llu KiB before, %llu KiB after", (unsigned long long)rss >> 10,
                 (unsigned long long)p.beat.rss_bytes >> 10);
#else
    (void)rss;
#endif
    play_quit(&p);
    free(good);
    free(bad);
}

int main(int argc, char **argv)
{
    int status;

    return play_dispatch(argc, argv, &status) ? status : suite_run(NULL, NULL);
}
