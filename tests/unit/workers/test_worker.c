/* A real worker process with real decoders and the small model: what it answers to leases. */
#include "tests/unit/workers/play.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#define SHARD_MS 20000
#define LONG_SHARD_MS 45000 /* of two windows at least */

static char *sample(const char *name)
{
    char rel[256];

    snprintf(rel, sizeof(rel), "tests/samples/%s", name);
    return strdup(test_source_path(rel));
}

static char *read_all(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    struct buf b = BUF_INIT;
    char *text;
    size_t n;

    assert_non_null(f);
    while ((n = fread(buf_reserve(&b, 65536), 1, 65536, f)) > 0)
        b.len += n;
    fclose(f);
    *len = b.len;
    text = malloc(b.len + 1);
    memcpy(text, b.data ? b.data : (uint8_t *)"", b.len);
    text[b.len] = 0;
    buf_free(&b);
    return text;
}

static void write_all(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* An absolute path in the test's own directory. */
static char *own(const char *name)
{
    char dir[2048], path[4096];

    assert_non_null(getcwd(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return strdup(path);
}

/* How many of the reference's words occur in the text; enough to tell a transcript from another. */
static double words_found(const char *text, const char *reference)
{
    char *copy = strdup(reference), *save = NULL;
    int all = 0, found = 0;

    for (char *p = copy; *p; p++)
        *p = ispunct((unsigned char)*p) ? ' ' : *p;
    for (char *w = strtok_r(copy, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
        all++;
        found += strstr(text, w) != NULL;
    }
    free(copy);
    assert_true(all > 0);
    return (double)found / all;
}

static void check_words(const struct play *p, uint64_t lease, const char *reference, double least)
{
    char *path = sample(reference), *text = play_text(p, lease);
    size_t len;
    char *want = read_all(path, &len);

    if (words_found(text, want) < least)
        fail_msg("'%s' is not '%s'", text, want);
    free(want);
    free(text);
    free(path);
}

TEST(two_recordings_at_once)
{
    char *en = sample("01_en_short.wav"), *es = sample("04_es_clean.flac");
    struct msg_lease a, b;
    const struct msg_lease_end *end;
    struct play p;

    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 4});
    assert_int_equal(p.capacity, 8);
    a = play_lease_of(&p, en, 300000);
    b = play_lease_of(&p, es, 300000);
    play_put_lease(&p, &a);
    play_put_lease(&p, &b);
    play_send(&p);
    end = play_until_end(&p, a.lease_id);
    assert_int_equal(end->code, 0);
    assert_true(end->reached_end && end->has_hash);
    assert_int_equal(end->shards, 1);
    assert_string_equal(end->damage, "");
    assert_int_equal(end->media_id, a.media_id);
    assert_int_equal(play_until_end(&p, b.lease_id)->code, 0);
    assert_int_equal(p.media_count, 2);
    assert_int_equal(p.failed_count, 0);
    check_words(&p, a.lease_id, "01_en_short.txt", 0.8);
    check_words(&p, b.lease_id, "04_es_clean.txt", 0.8);
    assert_string_equal(play_shard(&p, a.lease_id, 0)->language, "en");
    assert_string_equal(play_shard(&p, b.lease_id, 0)->language, "es");
    play_quit(&p);
    free(en);
    free(es);
}

TEST(the_hash_is_the_file_s)
{
    char *path = sample("11_silence.wav");
    const struct msg_lease_end *end;
    XXH128_canonical_t want;
    struct msg_lease m;
    struct play p;
    size_t len;
    char *bytes = read_all(path, &len);

    XXH128_canonicalFromHash(&want, XXH3_128bits(bytes, len));
    play_ready(&p, &(struct play_options){0});
    m = play_lease_of(&p, path, 300000);
    play_put_lease(&p, &m);
    m = play_lease_of(&p, path, 300000);
    m.want_hash = false;
    play_put_lease(&p, &m);
    play_send(&p);
    end = play_until_end(&p, 1);
    assert_true(end->has_hash);
    assert_memory_equal(end->content_hash, want.digest, 16);
    assert_int_equal(end->total_ms, 10000);
    assert_int_equal(play_shard(&p, 1, 0)->segment_count, 0); /* silence has no words */
    assert_int_equal(play_shard(&p, 1, 0)->end_ms, 10000);
    assert_false(play_until_end(&p, 2)->has_hash);
    play_quit(&p);
    free(bytes);
    free(path);
}

/* The same shards, computed whole, from any shard on, up to any shard, and with gaps. */
TEST(however_it_is_leased_the_shards_are_the_same)
{
    char *path = sample("12_en_long_90s.mp3");
    uint32_t skips[] = {0, 2, 3};
    const struct msg_lease_end *end;
    struct msg_lease m;
    struct play p;
    uint32_t n;

    play_ready(&p, &(struct play_options){.slots = 4, .decoders = 2});
    m = play_lease_of(&p, path, SHARD_MS);
    play_put_lease(&p, &m);
    play_send(&p);
    end = play_until_end(&p, 1);
    n = end->shards;
    assert_int_equal(end->code, 0);
    assert_int_equal(n, (end->total_ms + SHARD_MS - 1) / SHARD_MS);
    assert_int_equal(play_shards(&p, 1), n);
    assert_true(n >= 4);
    check_words(&p, 1, "12_en_long_90s.txt", 0.6);
    assert_int_equal(play_shard(&p, 1, 0)->start_ms, 0);
    assert_int_equal(play_shard(&p, 1, n - 1)->end_ms, end->total_ms);
    for (uint32_t k = 1; k < n; k++) {
        const struct msg_shard_done *s = play_shard(&p, 1, k);

        assert_int_equal(play_shard(&p, 1, k - 1)->end_ms, s->start_ms);
        for (uint32_t i = 0; i < s->segment_count; i++)
            assert_true(s->segments[i].start_ms >= s->start_ms &&
                        s->segments[i].end_ms <= s->end_ms);
    }
    for (uint32_t k = 1; k < n; k++) {
        struct msg_lease head = play_lease_of(&p, path, SHARD_MS), tail;

        tail = play_lease_of(&p, path, SHARD_MS);
        head.last = k - 1;
        tail.first = k;
        play_put_lease(&p, &head);
        play_put_lease(&p, &tail);
        play_send(&p);
        assert_int_equal(play_until_end(&p, head.lease_id)->code, 0);
        end = play_until_end(&p, tail.lease_id);
        assert_int_equal(end->code, 0);
        assert_true(end->reached_end && end->has_hash);
        assert_int_equal(end->shards, n);
        assert_int_equal(play_shards(&p, head.lease_id), k);
        assert_int_equal(play_shards(&p, tail.lease_id), n - k);
        for (uint32_t i = 0; i < n; i++)
            play_same(play_shard(&p, 1, i),
                      play_shard(&p, i < k ? head.lease_id : tail.lease_id, i));
    }
    m = play_lease_of(&p, path, SHARD_MS);
    m.tracks[0].skip = skips;
    m.tracks[0].skip_count = 3;
    play_put_lease(&p, &m);
    play_send(&p);
    assert_int_equal(play_until_end(&p, m.lease_id)->code, 0);
    assert_int_equal(play_shards(&p, m.lease_id), n - 3);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || i == 2 || i == 3)
            assert_null(play_shard(&p, m.lease_id, i));
        else
            play_same(play_shard(&p, 1, i), play_shard(&p, m.lease_id, i));
    play_quit(&p);
    free(path);
}

/* A budget that nothing fits into, more leases than decoder threads: slow, but the same. */
TEST(a_tiny_budget_changes_nothing)
{
    char *path = sample("12_en_long_90s.mp3"), *other = sample("13_es_long_45s.ogg");
    struct msg_lease m;
    struct play p;
    uint32_t n;

    play_ready(&p, &(struct play_options){.slots = 2, .decoders = 2});
    m = play_lease_of(&p, path, SHARD_MS);
    play_put_lease(&p, &m);
    play_send(&p);
    n = play_until_end(&p, 1)->shards;
    play_put_empty(&p, MSG_QUIT);
    play_send(&p);
    play_until_gone(&p);
    play_wait(&p);
    {
        struct play q;

        play_ready(&q, &(struct play_options){.slots = 2, .decoders = 2, .pcm_bytes = 1});
        for (int i = 0; i < 4; i++) {
            m = play_lease_of(&q, i % 2 ? other : path, i < 2 ? SHARD_MS : 300000);
            play_put_lease(&q, &m);
        }
        play_send(&q);
        for (uint64_t id = 1; id <= 4; id++)
            assert_int_equal(play_until_end(&q, id)->code, 0);
        for (uint32_t i = 0; i < n; i++)
            play_same(play_shard(&p, 1, i), play_shard(&q, 1, i));
        assert_int_equal(play_shards(&q, 3), 1);
        play_quit(&q);
    }
    play_free(&p);
    free(path);
    free(other);
}

TEST(a_cap_ends_the_lease_early)
{
    char *path = sample("12_en_long_90s.mp3");
    const struct msg_lease_end *end;
    struct msg_lease m;
    struct play p;

    play_ready(&p, &(struct play_options){0});
    m = play_lease_of(&p, path, SHARD_MS);
    play_put_lease(&p, &m);
    play_put_cap(&p, m.lease_id, 1);
    play_put_cap(&p, m.lease_id, 3); /* a cap never raises */
    play_put_cap(&p, 4711, 0);       /* nobody's */
    play_send(&p);
    end = play_until_end(&p, m.lease_id);
    assert_int_equal(end->code, 0);
    assert_false(end->reached_end);
    assert_false(end->has_hash);
    assert_int_equal(play_shards(&p, m.lease_id), 2);
    assert_non_null(play_shard(&p, m.lease_id, 0));
    assert_non_null(play_shard(&p, m.lease_id, 1));
    play_quit(&p);
    free(path);
}

TEST(a_cancelled_lease_ends_and_others_go_on)
{
    char *path = sample("12_en_long_90s.mp3"), *short_one = sample("01_en_short.wav");
    struct msg_lease a, b, c;
    struct play p;

    play_ready(&p, &(struct play_options){
                       .fault = "slow-step:20", .slots = 1, .decoders = 1, .pcm_bytes = 1});
    a = play_lease_of(&p, path, 300000);
    b = play_lease_of(&p, path, 300000); /* waits for the only decoder thread */
    play_put_lease(&p, &a);
    play_put_lease(&p, &b);
    play_send(&p);
    play_until_busy(&p);
    play_put_cancel(&p, b.lease_id);
    play_put_cancel(&p, a.lease_id);
    c = play_lease_of(&p, short_one, 300000);
    play_put_lease(&p, &c);
    play_send(&p);
    assert_int_equal(play_until_end(&p, a.lease_id)->code, ERR_CANCELLED);
    assert_int_equal(play_until_end(&p, b.lease_id)->code, ERR_CANCELLED);
    assert_int_equal(play_until_end(&p, c.lease_id)->code, 0);
    assert_int_equal(play_shards(&p, a.lease_id), 0);
    assert_int_equal(play_shards(&p, b.lease_id), 0);
    check_words(&p, c.lease_id, "01_en_short.txt", 0.8);
    play_quit(&p);
    free(path);
    free(short_one);
}

/* A watchdog takes windows without a beat for a stuck engine. */
TEST(an_idle_worker_says_so_after_a_cancel)
{
    char *path = sample("12_en_long_90s.mp3");
    struct msg_lease m;
    struct play p;
    uint32_t beats;

    play_ready(&p, &(struct play_options){.fault = "slow-step:20", .slots = 1});
    m = play_lease_of(&p, path, 300000);
    play_put_lease(&p, &m);
    play_send(&p);
    play_until_busy(&p);
    play_put_cancel(&p, m.lease_id);
    play_send(&p);
    play_until_end(&p, m.lease_id);
    for (beats = p.beats; p.beats < beats + 5;)
        assert_true(play_step(&p));
    assert_int_equal(p.beat.windows, 0);
    assert_int_equal(p.beat.leases, 0);
    play_quit(&p);
    free(path);
}

/* What has begun is finished, the rest is given up, nothing new is taken. */
TEST(a_drained_worker_finishes_what_it_began)
{
    char *path = sample("12_en_long_90s.mp3");
    struct play whole, p;
    struct msg_lease m, waiting, late;
    uint32_t n, done;
    int code;

    play_ready(&whole, &(struct play_options){0});
    m = play_lease_of(&whole, path, LONG_SHARD_MS);
    play_put_lease(&whole, &m);
    play_send(&whole);
    n = play_until_end(&whole, 1)->shards;

    play_ready(&p, &(struct play_options){.fault = "slow-step:30", .slots = 1, .decoders = 1});
    m = play_lease_of(&p, path, LONG_SHARD_MS);
    waiting = play_lease_of(&p, path, LONG_SHARD_MS);
    play_put_lease(&p, &m);
    play_put_lease(&p, &waiting);
    play_send(&p);
    /* Its first window is through, so its first shard has begun; busy alone may be waiting for
     * audio. */
    while (p.beat.audio_ms == 0)
        assert_true(play_step(&p));
    play_put_empty(&p, MSG_DRAIN);
    late = play_lease_of(&p, path, LONG_SHARD_MS);
    play_put_lease(&p, &late);
    play_send(&p);
    code = play_until_end(&p, m.lease_id)->code;
    done = play_shards(&p, m.lease_id);
    assert_true(done >= 1);
    assert_int_equal(code, done == n ? 0 : ERR_CANCELLED);
    for (uint32_t i = 0; i < n; i++)
        if (play_shard(&p, m.lease_id, i))
            play_same(play_shard(&whole, 1, i), play_shard(&p, m.lease_id, i));
    assert_int_equal(play_until_end(&p, waiting.lease_id)->code, ERR_CANCELLED);
    assert_int_equal(play_until_end(&p, late.lease_id)->code, ERR_CANCELLED);
    assert_int_equal(play_shards(&p, late.lease_id), 0);
    play_quit(&p);
    play_quit(&whole);
    free(path);
}

/* Beyond the recording's end: said so, without results. */
TEST(a_lease_past_the_end_says_so)
{
    char *path = sample("01_en_short.wav");
    const struct msg_lease_end *end;
    struct msg_lease m;
    struct play p;

    play_ready(&p, &(struct play_options){0});
    m = play_lease_of(&p, path, SHARD_MS);
    m.first = 5;
    play_put_lease(&p, &m);
    play_send(&p);
    end = play_until_end(&p, m.lease_id);
    assert_int_equal(end->code, 0);
    assert_true(end->reached_end);
    assert_int_equal(end->shards, 1);
    assert_int_equal(p.done_count + p.failed_count, 0);
    play_quit(&p);
    free(path);
}

static void expect_code(struct play *p, const char *path, int code)
{
    struct msg_lease m = play_lease_of(p, path, 300000);
    const struct msg_lease_end *end;

    play_put_lease(p, &m);
    play_send(p);
    end = play_until_end(p, m.lease_id);
    if (end->code != code)
        fail_msg("%s: %d (%s) instead of %d", path, end->code, end->message, code);
    assert_true(end->message[0] != 0);
    assert_int_equal(play_shards(p, m.lease_id), 0);
    assert_false(end->reached_end);
}

TEST(bad_recordings_end_with_a_reason)
{
    char *good = sample("01_en_short.wav"), *fifo = own("fifo.wav"), *text = own("text.mp3");
    char *empty = own("empty.mp3"), *changed = own("changed.wav"), *missing = own("missing.wav");
    char *dir = own("folder.wav"), *denied = own("denied.wav");
    struct msg_lease m;
    struct play p;
    size_t len;
    char *bytes = read_all(good, &len);

    remove(fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    mkdir(dir, 0700);
    write_all(text, "this is not a recording, whatever its name says\n", 48);
    write_all(empty, "", 0);
    play_ready(&p, &(struct play_options){.decoders = 1});
    expect_code(&p, missing, ERR_MISSING);
    expect_code(&p, fifo, ERR_INPUT);
    expect_code(&p, dir, ERR_INPUT);
    expect_code(&p, "/dev/null", ERR_INPUT);
    expect_code(&p, text, ERR_INPUT);
    expect_code(&p, empty, ERR_INPUT);
    if (geteuid() != 0) { /* root may read everything */
        write_all(denied, bytes, len);
        chmod(denied, 0);
        expect_code(&p, denied, ERR_DENIED);
        chmod(denied, 0600);
    }
    write_all(changed, bytes, len);
    m = play_lease_of(&p, changed, 300000);
    bytes[len / 2] ^= 1;
    write_all(changed, bytes, len);
    play_put_lease(&p, &m);
    play_send(&p);
    assert_int_equal(play_until_end(&p, m.lease_id)->code, ERR_CHANGED);
    assert_int_equal(p.done_count, 0);
    /* None of them did the worker any harm. */
    m = play_lease_of(&p, good, 300000);
    play_put_lease(&p, &m);
    play_send(&p);
    assert_int_equal(play_until_end(&p, m.lease_id)->code, 0);
    check_words(&p, m.lease_id, "01_en_short.txt", 0.8);
    play_quit(&p);
    remove(fifo);
    free(bytes);
    free(good);
    free(fifo);
    free(text);
    free(empty);
    free(changed);
    free(missing);
    free(dir);
    free(denied);
}

/* A recording that breaks off: what was decoded gives the same shards as the whole, but the last.
 */
TEST(a_torn_recording_gives_what_it_holds)
{
    char *path = sample("12_en_long_90s.mp3"), *torn = own("torn.mp3");
    const struct msg_lease_end *end;
    struct msg_lease m;
    struct play p;
    size_t len;
    char *bytes = read_all(path, &len);

    write_all(torn, bytes, len * 6 / 10);
    play_ready(&p, &(struct play_options){0});
    m = play_lease_of(&p, path, SHARD_MS);
    play_put_lease(&p, &m);
    m = play_lease_of(&p, torn, SHARD_MS);
    play_put_lease(&p, &m);
    play_send(&p);
    assert_int_equal(play_until_end(&p, 1)->code, 0);
    end = play_until_end(&p, 2);
    assert_int_equal(end->code, 0);
    assert_true(end->reached_end);
    assert_true(end->total_ms > 45000 && end->total_ms < 60000);
    assert_int_equal(end->shards, 3);
    for (uint32_t i = 0; i < 2; i++)
        play_same(play_shard(&p, 1, i), play_shard(&p, 2, i));
    assert_non_null(play_shard(&p, 2, 2));
    play_quit(&p);
    remove(torn);
    free(bytes);
    free(path);
    free(torn);
}

int main(int argc, char **argv)
{
    int status;

    if (play_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
