/* The messages: what is put comes back; what is cut, flipped or out of range does not crash. */
#include "tests/common/golden.h"

#include <math.h>

#include "base/buf.h"
#include "tests/common/nomem.h"
#include "workers/wire/protocol.h"

static uint32_t skips[] = {4, 7, 8};
static struct result_word words[] = {
    {0, 400, (char *)" hello", 1.0f},
    {400, 400, (char *)" there", 0.0f},
};
static struct result_segment segments[] = {
    {.start_ms = 0,
     .end_ms = 1500,
     .text = (char *)"hello there",
     .language = (char *)"en",
     .source = 2,
     .avg_logprob = -0.3f,
     .no_speech_prob = 0.01f,
     .compression_ratio = 1.1f,
     .attempts = 1,
     .speech_prob = -1,
     .reason = (char *)"",
     .word_count = 2,
     .words = words},
    {.start_ms = 1500,
     .end_ms = 2500,
     .text = (char *)"adiós",
     .language = (char *)"es",
     .avg_logprob = -0.5f,
     .no_speech_prob = 0.02f,
     .compression_ratio = 1.2f,
     .temperature = 0.2f,
     .attempts = 16,
     .speech_prob = 0.75f,
     .dropped = true,
     .reason = (char *)"no voice; silence phrase"},
};

static const struct msg_hello hello = {4711, (char *)"cpu", (char *)"0.1.0"};
static struct msg_stage stages[] = {
    {(char *)"transcribe", (char *)"/m/\xff", (char *)"00ff", (char *)"{}", 0},
    {(char *)"diarize", (char *)"/m/\xfe", (char *)"11", (char *)"{\"num_speakers\": 2}", 3005.5f},
    {(char *)"sounds", (char *)"", (char *)"", (char *)"", 0},
};
static char *why_not[] = {(char *)"", (char *)"", (char *)"there is no room for it"};
static const struct msg_setup setup = {.stage_count = 3,
                                       .stages = stages,
                                       .precision = (char *)"bf16",
                                       .slots = 8,
                                       .decoders = 2,
                                       .threads = 1,
                                       .workers = 8,
                                       .pcm_bytes = UINT64_MAX,
                                       .windows = 4,
                                       .memory_limit = UINT64_MAX,
                                       .deterministic = true,
                                       .tuned_slots = 64,
                                       .tuned_windows = 16,
                                       .tuned_rate = 812.5f,
                                       .algorithms = (char[]){'\0', '\xff', 'w'},
                                       .algorithms_bytes = 3};
static const struct msg_ready ready = {16,
                                       (char *)"cpu, 2 threads",
                                       (char *)"NVIDIA H200",
                                       (char *)"fp16",
                                       64,
                                       16,
                                       (uint64_t)10 << 30,
                                       (uint64_t)9 << 30,
                                       900.25f,
                                       true,
                                       (char[]){'\x01', '\0'},
                                       2,
                                       3,
                                       why_not,
                                       2,
                                       (float[]){0, 2810.25f}};
static const struct msg_fatal fatal = {ERR_MODEL, (char *)"config.json is missing"};
static struct result_passage passages[] = {
    {0, 0, ""},
    {1000, 9000, "Was nicht im Text steht."},
};
static const struct result_segment told_segments[] = {
    {.start_ms = 900000,
     .end_ms = 903000,
     .text = "Was im Text steht.",
     .language = "de",
     .attempts = 1,
     .reason = ""},
};
static struct result_known_text known_text[] = {
    {.seq = 3,
     .language = "de",
     .language_prob = 0.5f,
     .segment_count = 1,
     .segments = told_segments},
    {.seq = 4, .language = "", .account.speech_ms = -1},
};
static struct msg_track tracks[] = {
    {.language = (char *)"en",
     .skip_count = 3,
     .skip = skips,
     .known_text_count = 2,
     .known_text = known_text},
    {.stage = 3, .language = (char *)""},
    {.stage = 7, .language = (char *)"de", .skip_count = 1, .skip = skips},
};
static const struct msg_lease lease = {.lease_id = 1,
                                       .media_id = -2,
                                       .path = (char *)"/a\n\xfe",
                                       .member = (char *)"b//c",
                                       .nth = 0x80000001,
                                       .size_bytes = INT64_MAX,
                                       .fingerprint = {1, 2},
                                       .want_hash = true,
                                       .shard_ms = 300000,
                                       .first = 3,
                                       .last = UINT32_MAX,
                                       .track_count = 1,
                                       .tracks = tracks,
                                       .total_ms = 9000,
                                       .passage_count = 2,
                                       .passages = passages};
static const struct msg_lease shared = {.lease_id = UINT64_MAX,
                                        .path = (char *)"/b",
                                        .shard_ms = 1000,
                                        .last = 9,
                                        .track_count = 3,
                                        .tracks = tracks};
static const struct msg_cap cap = {5, 6};
static const struct msg_cancel cancel = {UINT64_MAX, 7};
static const struct result_tag tags[] = {{"container", "title", "Título", 0, 0},
                                         {"chapter", "title", "", 1000, PROTOCOL_MAX_MS}};
static const struct result_source sources[] = {{"channel 1"}, {"track 2"}};
static const struct msg_media media = {1,
                                       2,
                                       -1,
                                       44100,
                                       2,
                                       3,
                                       true,
                                       (char *)"track 2, channel 3",
                                       (char *)"track 2",
                                       (char *)"mp3",
                                       (char *)"mp3float",
                                       sources,
                                       2,
                                       tags,
                                       2};
static struct result_sound sounds[] = {
    {0, 960, 0, (char *)"Speech", 1.0f},
    {480, 2000, 62, (char *)"Applause", 0.25f},
};
static float values[] = {0.6f, -0.8f, 0, 1};
static struct result_vector vectors[] = {{0, 10000, values}, {10000, 10500, values + 2}};
static uint8_t active[] = {0, 3, 7, 4, 0, 1};
static uint32_t heard[] = {1, 5};
static float voice_values[] = {-3.5f, 2, 0, 1e-20f};
static const struct result_voices voices = {.first = 300,
                                            .windows = 2,
                                            .frames = 3,
                                            .speakers = 3,
                                            .active = active,
                                            .size = 2,
                                            .vector_count = 2,
                                            .of = heard,
                                            .vectors = voice_values};
static const struct msg_shard_done shard_done = {
    .lease_id = 1,
    .media_id = 2,
    .track = 6,
    .seq = 3,
    .start_ms = 4,
    .end_ms = 5,
    .language = (char *)"en",
    .language_prob = 0.5f,
    .windows = 6,
    .wall_ms = 7,
    .shards = 4,
    .total_ms = 5,
    .account = {900, 300, 600},
    .segment_count = 2,
    .segments = segments,
    .sound_count = 2,
    .sounds = sounds,
    .vector_count = 2,
    .vector_size = 2,
    .vectors = vectors,
    .voices = {300, 2, 3, 3, 2, 2, active, heard, voice_values},
};
static const struct msg_shard_failed shard_failed = {1, 2, 7, 3, ERR_CRASH, (char *)"bad"};
static const struct result_channel channels[] = {{1, 2, 900, 1000, true}, {2, 0, -1, -1, false}};
static const struct msg_lease_end lease_end = {
    1,        2, 0, (char *)"", true, 99, 1, true, {9, 8, 7}, (char *)"cut short", (char *)"a jump",
    channels, 2};
static const struct msg_heartbeat heartbeat = {1, 2, 3, 4, 5, 6, 7, INT64_MAX};
static const struct msg_log log_line = {2, (char *)"a line"};
static const struct msg_tuned tuned = {32, 8, (char *)"no memory for 64 slots"};

static const struct msg_finalize finalize = {
    7, (char *)"/m/\xff", (char *)"00ff", (char *)"{}", 36000, true, 2};
static struct result_speaker speakers[] = {{12000, values}, {500, values + 2}};
static struct result_turn turns[] = {{0, 9000, 1}, {0, 10, 0}, {4000, 4000, 0}};
static const struct msg_finalized finalized = {7, {2, 2, 3, speakers, turns}, 15};
static const struct msg_finalize_failed finalize_failed = {7, ERR_INPUT, (char *)"no voices"};

static const struct {
    enum msg_type type;
    const char *name;
    const void *sample;
} codecs[] = {
    {MSG_HELLO, "hello", &hello},
    {MSG_SETUP, "setup", &setup},
    {MSG_READY, "ready", &ready},
    {MSG_FATAL, "fatal", &fatal},
    {MSG_LEASE, "lease", &lease},
    {MSG_LEASE, "lease_shared", &shared},
    {MSG_CAP, "cap", &cap},
    {MSG_CANCEL, "cancel", &cancel},
    {MSG_MEDIA, "media", &media},
    {MSG_SHARD_DONE, "shard_done", &shard_done},
    {MSG_SHARD_FAILED, "shard_failed", &shard_failed},
    {MSG_LEASE_END, "lease_end", &lease_end},
    {MSG_HEARTBEAT, "heartbeat", &heartbeat},
    {MSG_LOG, "log", &log_line},
    {MSG_TUNED, "tuned", &tuned},
    {MSG_VOICES, "voices", &voices},
    {MSG_FINALIZE, "finalize", &finalize},
    {MSG_FINALIZED, "finalized", &finalized},
    {MSG_FINALIZE_FAILED, "finalize_failed", &finalize_failed},
};
#define CODECS (sizeof(codecs) / sizeof(codecs[0]))

union any {
    struct msg_setup a;
    struct msg_lease b;
    struct msg_shard_done c;
    struct msg_lease_end d;
    struct msg_media e;
    uint8_t bytes[512];
};

static bool all_zero(const void *p, size_t n)
{
    const uint8_t *b = p;

    while (n && b[n - 1] == 0)
        n--;
    return n == 0;
}

/* From a heap block of exactly n bytes, so that a sanitizer sees a read past its end. */
static int get_exact(const struct fields *k, const uint8_t *data, size_t n, union any *m)
{
    uint8_t *exact = malloc(n ? n : 1);
    struct err e = {0};
    int rc;

    memcpy(exact, data, n);
    memset(m, 0x5a, sizeof(*m));
    rc = fields_get(exact, n, k, m, &e);
    free(exact);
    if (rc != 0) {
        assert_int_equal(rc, ERR_PROTOCOL);
        assert_int_equal(e.code, ERR_PROTOCOL);
        if (!all_zero(m, k->size))
            fail_msg("%s: not zeroed after an error", k->name);
    }
    return rc;
}

TEST(the_bytes_stay)
{
    for (size_t i = 0; i < CODECS; i++) {
        struct buf b = BUF_INIT;

        fields_put(&b, msg_fields(codecs[i].type), codecs[i].sample);
        golden_holds(codecs[i].type, codecs[i].name, &b);
        buf_free(&b);
    }
}

TEST(what_is_empty_has_no_fields)
{
    for (unsigned type = 0; type < 256; type++) {
        bool is_known = false;

        for (size_t i = 0; i < CODECS; i++)
            is_known |= codecs[i].type == type;
        assert_int_equal(msg_fields((uint8_t)type) != NULL, is_known);
    }
}

TEST(all_round_trip)
{
    for (size_t i = 0; i < CODECS; i++) {
        const struct fields *k = msg_fields(codecs[i].type);
        struct buf first = BUF_INIT, again = BUF_INIT;
        union any m;

        fields_put(&first, k, codecs[i].sample);
        if (get_exact(k, first.data, first.len, &m) != 0)
            fail_msg("%s does not read what it wrote", k->name);
        fields_put(&again, k, &m);
        assert_int_equal(first.len, again.len);
        assert_memory_equal(first.data, again.data, first.len);
        fields_free(k, &m);
        assert_true(all_zero(&m, k->size));
        fields_free(k, &m);
        buf_free(&first);
        buf_free(&again);
    }
}

/* The same as it would be kept. */
TEST(all_are_packed_and_unpacked)
{
    for (size_t i = 0; i < CODECS; i++) {
        const struct fields *k = msg_fields(codecs[i].type);
        struct buf first = BUF_INIT, again = BUF_INIT;
        struct err err;
        union any m;

        fields_pack(&first, k, codecs[i].sample);
        assert_false(first.packed);
        for (size_t n = 0; n < first.len; n++)
            assert_int_equal(fields_unpack(first.data, n, k, &m, &err), ERR_PROTOCOL);
        assert_ok(fields_unpack(first.data, first.len, k, &m, &err), err);
        fields_pack(&again, k, &m);
        assert_int_equal(first.len, again.len);
        assert_memory_equal(first.data, again.data, first.len);
        fields_free(k, &m);
        buf_free(&first);
        buf_free(&again);
    }
}

/* With each allocation failing in its turn: nothing is kept, which the sanitizer sees. */
struct received {
    const struct fields *k;
    struct buf b;
};

static int receive(void *arg, struct err *err)
{
    const struct received *r = arg;
    union any m;
    int rc;

    memset(&m, 0x5a, sizeof(m));
    rc = fields_get(r->b.data, r->b.len, r->k, &m, err);
    if (rc != 0 && !all_zero(&m, r->k->size))
        fail_msg("%s: %d leaves something", r->k->name, rc);
    fields_free(r->k, &m);
    return rc;
}

TEST(memory_may_run_out)
{
    for (size_t i = 0; i < CODECS; i++) {
        struct received r = {msg_fields(codecs[i].type), BUF_INIT};

        fields_put(&r.b, r.k, codecs[i].sample);
        nomem_each(receive, &r);
        buf_free(&r.b);
    }
}

TEST(every_truncation_and_excess_is_refused)
{
    for (size_t i = 0; i < CODECS; i++) {
        const struct fields *k = msg_fields(codecs[i].type);
        struct buf b = BUF_INIT;
        union any m;

        fields_put(&b, k, codecs[i].sample);
        for (size_t n = 0; n < b.len; n++)
            if (get_exact(k, b.data, n, &m) == 0)
                fail_msg("%s accepts %zu of %zu bytes", k->name, n, b.len);
        buf_put_u8(&b, 0);
        assert_int_equal(get_exact(k, b.data, b.len, &m), ERR_PROTOCOL);
        buf_free(&b);
    }
}

/* A flipped bit may give another valid message; then it must round-trip like any other. */
TEST(bit_flips_are_survived)
{
    for (size_t i = 0; i < CODECS; i++) {
        const struct fields *k = msg_fields(codecs[i].type);
        struct buf b = BUF_INIT, again = BUF_INIT;
        union any m;

        fields_put(&b, k, codecs[i].sample);
        for (size_t bit = 0; bit < b.len * 8; bit++) {
            b.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            if (get_exact(k, b.data, b.len, &m) == 0) {
                buf_clear(&again);
                fields_put(&again, k, &m);
                assert_int_equal(again.len, b.len);
                assert_memory_equal(again.data, b.data, b.len);
                fields_free(k, &m);
            }
            b.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        buf_free(&b);
        buf_free(&again);
    }
}

/* Puts a changed copy and expects the receiver to refuse it. */
#define REFUSED(name, field, value) REFUSED_OF(name, name, field, value)
#define REFUSED_OF(name, sample, field, value)                                                  \
    do {                                                                                        \
        struct msg_##name changed = sample;                                                     \
        struct buf refused_b = BUF_INIT;                                                        \
        struct err refused_e = {0};                                                             \
        changed.field = (value);                                                                \
        msg_##name##_put(&refused_b, &changed);                                                 \
        assert_int_equal(msg_##name##_get(refused_b.data, refused_b.len, &changed, &refused_e), \
                         ERR_PROTOCOL);                                                         \
        buf_free(&refused_b);                                                                   \
    } while (0)

TEST(ranges_are_checked)
{
    REFUSED(hello, device, (char *)"cp\xffu");
    REFUSED(setup, slots, 5000);
    REFUSED(setup, windows, 5000);
    REFUSED(setup, tuned_slots, 4097);
    REFUSED(setup, tuned_windows, 4097);
    REFUSED(setup, tuned_rate, -1.0f);
    REFUSED(setup, tuned_rate, NAN);
    REFUSED(ready, capacity, 0);
    REFUSED(ready, slots, 0);
    REFUSED(ready, slots, 4097);
    REFUSED(ready, windows, 0);
    REFUSED(ready, windows, UINT32_MAX);
    REFUSED(ready, rate, INFINITY);
    REFUSED(ready, predicted_bytes, UINT64_MAX);
    REFUSED(ready, allocated_bytes, (uint64_t)INT64_MAX + 1);
    REFUSED(ready, precision, (char *)"\xff");
    REFUSED(heartbeat, vram_bytes, UINT64_MAX);
    REFUSED(heartbeat, vram_peak, UINT64_MAX);
    REFUSED(tuned, slots, 0);
    REFUSED(tuned, windows, 0);
    REFUSED(tuned, windows, 5000);
    REFUSED(fatal, code, 0);
    REFUSED(fatal, code, -1000);
    REFUSED(lease, path, (char *)"relative");
    REFUSED(lease, path, (char *)"");
    REFUSED(lease, shard_ms, 0);
    REFUSED(lease, shard_ms, UINT32_MAX);
    REFUSED(lease, last, 2);
    REFUSED(lease, first, 5);
    REFUSED(lease, size_bytes, UINT64_MAX);
    REFUSED(media, duration_ms, -2);
    REFUSED(cancel, track, SETUP_MAX_STAGES);
    REFUSED(shard_done, track, SETUP_MAX_STAGES);
    REFUSED(shard_failed, track, SETUP_MAX_STAGES);
    REFUSED(shard_done, shards, 0); /* a length without them */
    REFUSED(shard_done, total_ms, -1);
    REFUSED(shard_done, end_ms, 3);
    REFUSED(shard_done, start_ms, -1);
    REFUSED(shard_done, language_prob, NAN);
    REFUSED(shard_done, language_prob, 1.5f);
    REFUSED(shard_done, account.speech_ms, -2);
    REFUSED(shard_done, account.speech_ms, -1); /* nobody listened, but so much is missing */
    REFUSED(shard_done, account.speech_ms, 899);
    REFUSED(shard_done, account.speech_ms, INT64_MAX);
    REFUSED(shard_done, account.dropped_ms, -1);
    REFUSED(shard_done, account.dropped_ms, 301);
    REFUSED(shard_done, account.missing_ms, -1);
    REFUSED(shard_done, account.missing_ms, 601);
    REFUSED(shard_done, account.missing_ms, INT64_MAX);
    REFUSED(shard_failed, code, 0);
    REFUSED(shard_failed, code, ERR_LAST - 1);
    REFUSED(lease_end, code, 1);
    REFUSED(lease_end, shards, 0);
    REFUSED_OF(log, log_line, level, 9);
}

/* Reads a shard with this one segment. */
static int get_one(struct result_segment *s)
{
    struct msg_shard_done one = shard_done, back;
    struct buf b = BUF_INIT;
    struct err e = {0};
    int rc;

    one.segments = s;
    one.segment_count = 1;
    msg_shard_done_put(&b, &one);
    rc = msg_shard_done_get(b.data, b.len, &back, &e);
    if (rc == 0)
        msg_shard_done_free(&back);
    else
        assert_int_equal(rc, ERR_PROTOCOL);
    buf_free(&b);
    return rc;
}

#define SEGMENT_REFUSED(field, value)                         \
    do {                                                      \
        struct result_segment of_segment = segments[0];       \
        assert_int_equal(get_one(&of_segment), 0);            \
        of_segment.field = (value);                           \
        assert_int_equal(get_one(&of_segment), ERR_PROTOCOL); \
    } while (0)
#define WORD_REFUSED(field, value)                         \
    do {                                                   \
        struct result_word of_word = words[0];             \
        struct result_segment with_it = segments[0];       \
        with_it.words = &of_word;                          \
        with_it.word_count = 1;                            \
        assert_int_equal(get_one(&with_it), 0);            \
        of_word.field = (value);                           \
        assert_int_equal(get_one(&with_it), ERR_PROTOCOL); \
    } while (0)

TEST(segments_are_checked)
{
    char long_reason[258];

    memset(long_reason, 'r', sizeof(long_reason));
    long_reason[257] = 0;
    SEGMENT_REFUSED(source, RESULT_SOURCES_MAX + 1);
    SEGMENT_REFUSED(avg_logprob, INFINITY);
    SEGMENT_REFUSED(start_ms, -1);
    SEGMENT_REFUSED(start_ms, 1501);
    SEGMENT_REFUSED(text, (char *)"\xc3");
    SEGMENT_REFUSED(text, (char *)"");
    SEGMENT_REFUSED(attempts, 0);
    SEGMENT_REFUSED(attempts, 17);
    SEGMENT_REFUSED(speech_prob, -0.5f);
    SEGMENT_REFUSED(speech_prob, 1.01f);
    SEGMENT_REFUSED(speech_prob, NAN);
    SEGMENT_REFUSED(reason, (char *)"\xff");
    SEGMENT_REFUSED(reason, long_reason);
    WORD_REFUSED(start_ms, -1);
    WORD_REFUSED(start_ms, 401);
    WORD_REFUSED(end_ms, 31501);
    WORD_REFUSED(text, (char *)"\x80");
    WORD_REFUSED(probability, -0.1f);
    WORD_REFUSED(probability, 1.1f);
    WORD_REFUSED(probability, NAN);
}

/* Somebody speaks, and no text came: that alone may be empty. */
TEST(speech_without_text_is_read)
{
    struct result_segment s = {.start_ms = 100,
                               .end_ms = 3000,
                               .text = "",
                               .language = "",
                               .attempts = 1,
                               .speech_prob = 0.9f,
                               .dropped = true,
                               .reason = RESULT_MISSING};

    assert_int_equal(get_one(&s), 0);
    s.dropped = false;
    assert_int_equal(get_one(&s), ERR_PROTOCOL);
}

/* Leaves segments alone: what follows them is four counts of 0. */
#define AFTER_SEGMENTS 16
static void without_the_rest(struct msg_shard_done *m)
{
    m->sound_count = m->vector_count = m->vector_size = 0;
    m->voices = (struct result_voices){0};
}

/* 4096 words are read, one more is not, and a count without its words is not believed. */
TEST(words_are_bounded)
{
    struct result_segment s = segments[0];
    struct result_word *many;
    struct msg_shard_done one = shard_done;
    struct buf b = BUF_INIT;
    struct err e = {0};

    s.words = many = calloc(4097, sizeof(*many));
    for (int i = 0; i < 4097; i++)
        many[i] = words[0];
    s.word_count = 4096;
    assert_int_equal(get_one(&s), 0);
    s.word_count = 4097;
    assert_int_equal(get_one(&s), ERR_PROTOCOL);
    free(many);

    s = segments[1];
    one.segments = &s;
    one.segment_count = 1;
    without_the_rest(&one);
    msg_shard_done_put(&b, &one);
    b.data[b.len - AFTER_SEGMENTS - 3] = 1; /* 256 words, of which none is there */
    assert_int_equal(msg_shard_done_get(b.data, b.len, &one, &e), ERR_PROTOCOL);
    buf_free(&b);
}

/* A count of four thousand million in a message of a few bytes must not be believed. */
TEST(counts_are_held_against_the_bytes)
{
    struct msg_shard_done none = shard_done, changed;
    struct msg_track none_done = {.stage = 0};
    struct msg_lease all = lease, changed_lease;
    struct buf b = BUF_INIT;
    struct err e = {0};

    none.segment_count = 0;
    without_the_rest(&none);
    for (int back = 4; back <= 20; back += 4) { /* voices, vectors, their size, sounds, segments */
        msg_shard_done_put(&b, &none);
        memset(b.data + b.len - back, 0xff, 4);
        assert_int_equal(msg_shard_done_get(b.data, b.len, &changed, &e), ERR_PROTOCOL);
        buf_clear(&b);
    }
    all.passage_count = 0;
    all.tracks = &none_done;
    for (int back = 4; back <= 16; back += 12) { /* passages; before the total, shards to skip */
        msg_lease_put(&b, &all);
        memset(b.data + b.len - back, 0xff, 4);
        assert_int_equal(msg_lease_get(b.data, b.len, &changed_lease, &e), ERR_PROTOCOL);
        buf_clear(&b);
    }
    buf_free(&b);
}

/* xorshift64*, seeded, so that a failure can be run again. */
static uint64_t next(uint64_t *x)
{
    *x ^= *x >> 12;
    *x ^= *x << 25;
    *x ^= *x >> 27;
    return *x * UINT64_C(2685821657736338717);
}

TEST(random_bytes_are_survived)
{
    uint64_t x = 20260131;
    uint8_t data[300];
    union any m;

    for (int round = 0; round < 20000; round++) {
        const struct fields *k = msg_fields(codecs[next(&x) % CODECS].type);
        size_t n = next(&x) % sizeof(data);

        for (size_t i = 0; i < n; i++)
            data[i] = next(&x) % 3 ? 0 : (uint8_t)next(&x);
        if (get_exact(k, data, n, &m) == 0)
            fields_free(k, &m);
    }
}

TEST_MAIN(NULL, NULL)
