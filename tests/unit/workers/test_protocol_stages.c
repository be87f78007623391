/* What the messages of stages beside transcription refuse. That they come back as they were put,
 * and survive cuts and flips, is in test_protocol.c. */
#include "tests/common/golden.h"

#include <math.h>

#include "base/buf.h"
#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"

static float units[] = {1, 0, 0, 0.6f, 0.8f, 0};

/* Puts the message, reads it, frees what was read. */
#define TAKE(name)                                       \
    static int take_##name(const struct msg_##name *m)   \
    {                                                    \
        struct msg_##name back;                          \
        struct buf b = BUF_INIT;                         \
        struct err e = {0};                              \
        int rc;                                          \
        msg_##name##_put(&b, m);                         \
        assert_false(b.failed);                          \
        rc = msg_##name##_get(b.data, b.len, &back, &e); \
        msg_##name##_free(&back);                        \
        buf_free(&b);                                    \
        return rc;                                       \
    }
TAKE(lease)
TAKE(setup)
TAKE(ready)
TAKE(shard_done)
TAKE(voices)
TAKE(finalize)
TAKE(finalized)

/* `good` is taken, and with one field changed it is not. */
#define REFUSED(name, good, field, value)                      \
    do {                                                       \
        struct msg_##name changed = good;                      \
        assert_int_equal(take_##name(&changed), 0);            \
        changed.field = (value);                               \
        assert_int_equal(take_##name(&changed), ERR_PROTOCOL); \
    } while (0)

TEST(stages_are_checked)
{
    struct msg_stage s[SETUP_MAX_STAGES + 1];
    struct msg_setup setup = {.stage_count = SETUP_MAX_STAGES, .stages = s};
    char *why[SETUP_MAX_STAGES + 1];
    struct msg_ready ready = {
        .capacity = 1, .slots = 1, .windows = 1, .stage_count = SETUP_MAX_STAGES, .why_not = why};

    for (uint32_t i = 0; i <= SETUP_MAX_STAGES; i++) {
        s[i] = (struct msg_stage){(char *)"sounds", (char *)"/m", (char *)"1", (char *)"{}", 0};
        why[i] = (char *)"";
    }
    REFUSED(setup, setup, stage_count, SETUP_MAX_STAGES + 1);
    REFUSED(setup, setup, stage_count, 0);
    REFUSED(ready, ready, stage_count, SETUP_MAX_STAGES + 1);
    REFUSED(ready, ready, stage_count, 0);
    s[1].name = (char *)"\xff";
    assert_int_equal(take_setup(&setup), ERR_PROTOCOL);
    why[1] = (char *)"\xff";
    assert_int_equal(take_ready(&ready), ERR_PROTOCOL);
    why[1] = (char *)"no room";
    assert_int_equal(take_ready(&ready), 0);
    why[0] = (char *)"no room"; /* the first is loaded, or the worker is not ready */
    assert_int_equal(take_ready(&ready), ERR_PROTOCOL);
}

/* `track` of a lease of three is as it should be, and with one field changed it is not. */
#define TRACK_REFUSED(track, field, value)                  \
    do {                                                    \
        struct msg_track good = tracks[track];              \
        assert_int_equal(take_lease(&lease), 0);            \
        tracks[track].field = (value);                      \
        assert_int_equal(take_lease(&lease), ERR_PROTOCOL); \
        tracks[track] = good;                               \
    } while (0)

TEST(tracks_are_checked)
{
    uint32_t skip[] = {3, 4, 9}, twice[] = {4, 4, 8}, falling[] = {4, 3, 9}, below[] = {2, 4, 8},
             behind[] = {3, 4, 10};
    struct msg_track tracks[SETUP_MAX_STAGES + 1] = {
        {.stage = 0, .language = (char *)"en", .skip_count = 3, .skip = skip},
        {.stage = 2, .language = (char *)"", .skip_count = 3, .skip = skip},
        {.stage = 5, .language = (char *)""}};
    struct result_passage text = {0, 100, "one"};
    struct msg_lease lease = {.path = (char *)"/a",
                              .shard_ms = 1000,
                              .first = 3,
                              .last = 9,
                              .track_count = 3,
                              .tracks = tracks};

    TRACK_REFUSED(0, stage, 1); /* the first is not there */
    TRACK_REFUSED(1, stage, 0);
    TRACK_REFUSED(2, stage, 2); /* twice */
    TRACK_REFUSED(2, stage, 1);
    TRACK_REFUSED(2, stage, SETUP_MAX_STAGES);
    TRACK_REFUSED(2, stage, UINT32_MAX);
    for (int i = 0; i < 2; i++) {
        TRACK_REFUSED(i, language, (char *)"a very long language");
        TRACK_REFUSED(i, language, (char *)"\xff");
        TRACK_REFUSED(i, skip, twice);
        TRACK_REFUSED(i, skip, falling);
        TRACK_REFUSED(i, skip, below);
        TRACK_REFUSED(i, skip, behind);
    }
    REFUSED(lease, lease, track_count, 0);
    for (uint32_t i = 0; i <= SETUP_MAX_STAGES; i++)
        tracks[i] = (struct msg_track){.stage = i};
    lease.track_count = SETUP_MAX_STAGES;
    REFUSED(lease, lease, track_count, SETUP_MAX_STAGES + 1);
    lease.passages = &text; /* nobody hears a text */
    REFUSED(lease, lease, passage_count, 1);
}

#define TOLD_REFUSED(of, field, value)                      \
    do {                                                    \
        const __typeof__((of).field) good = (of).field;     \
        (of).field = (value);                               \
        assert_int_equal(take_lease(&lease), ERR_PROTOCOL); \
        (of).field = good;                                  \
        assert_int_equal(take_lease(&lease), 0);            \
    } while (0)

/* Texts that are there: of the lease's shards, in their order, and as a worker would have sent
 * them.
 */
TEST(texts_are_checked)
{
    struct result_segment said[] = {{.start_ms = 100,
                                     .end_ms = 900,
                                     .text = "one",
                                     .language = "en",
                                     .attempts = 1,
                                     .speech_prob = -1,
                                     .reason = ""},
                                    {.start_ms = 900,
                                     .end_ms = 900,
                                     .text = "",
                                     .language = "",
                                     .attempts = 1,
                                     .speech_prob = 1,
                                     .dropped = true,
                                     .reason = "loop"}};
    struct result_known_text known_text[] = {
        {.seq = 3, .language = "en", .account.speech_ms = -1, .segment_count = 2, .segments = said},
        {.seq = 9, .language = "", .account.speech_ms = 0}};
    struct msg_track track = {
        .language = (char *)"", .known_text_count = 2, .known_text = known_text};
    struct msg_lease lease = {.path = (char *)"/a",
                              .shard_ms = 1000,
                              .first = 3,
                              .last = 9,
                              .track_count = 1,
                              .tracks = &track};

    assert_int_equal(take_lease(&lease), 0);
    TOLD_REFUSED(known_text[0], seq, 2);
    TOLD_REFUSED(known_text[0], seq, 9); /* twice */
    TOLD_REFUSED(known_text[1], seq, 10);
    TOLD_REFUSED(known_text[0], language, "a very long language");
    TOLD_REFUSED(known_text[0], language_prob, 1.5f);
    TOLD_REFUSED(known_text[0], account.speech_ms, -2);
    TOLD_REFUSED(known_text[1], account.missing_ms, 1);
    TOLD_REFUSED(said[0], start_ms, -1);
    TOLD_REFUSED(said[0], end_ms, 99);
    TOLD_REFUSED(said[0], start_ms, 901); /* behind the next one */
    TOLD_REFUSED(said[0], text, "");
    TOLD_REFUSED(said[0], text, "\xff");
    TOLD_REFUSED(said[0], attempts, 0);
    TOLD_REFUSED(said[1], source, RESULT_SOURCES_MAX + 1);
}

TEST(passages_are_checked)
{
    struct result_passage p[] = {{0, 100, "one"}, {100, 200, "two"}};
    struct msg_track first = {.stage = 0};
    struct msg_lease m = {.path = (char *)"/a",
                          .shard_ms = 1000,
                          .last = UINT32_MAX,
                          .track_count = 1,
                          .tracks = &first,
                          .total_ms = 200,
                          .passage_count = 2,
                          .passages = p};

    assert_int_equal(take_lease(&m), 0);
    REFUSED(lease, m, total_ms, -1);
    p[1].end_ms = 99;
    assert_int_equal(take_lease(&m), ERR_PROTOCOL);
    p[1].end_ms = 200;
    p[0].start_ms = -1;
    assert_int_equal(take_lease(&m), ERR_PROTOCOL);
    p[0].start_ms = 0;
    p[0].text = (char *)"\xff";
    assert_int_equal(take_lease(&m), ERR_PROTOCOL);
}

static struct result_sound sound;
static struct result_vector vector;

static struct msg_shard_done done_with_both(void)
{
    sound = (struct result_sound){0, 960, 3, (char *)"Music", 0.5f};
    vector = (struct result_vector){0, 960, units + 3};
    return (struct msg_shard_done){.language = (char *)"",
                                   .sound_count = 1,
                                   .sounds = &sound,
                                   .vector_count = 1,
                                   .vector_size = 3,
                                   .vectors = &vector};
}

/* As many values as no model has. */
static struct msg_shard_done long_one(void)
{
    static float values[4097] = {1};
    struct msg_shard_done m = done_with_both();

    vector.values = values;
    m.vector_size = 4097;
    return m;
}

#define PART_REFUSED(field, value)                              \
    do {                                                        \
        struct msg_shard_done with = done_with_both();          \
        assert_int_equal(take_shard_done(&with), 0);            \
        field = (value);                                        \
        assert_int_equal(take_shard_done(&with), ERR_PROTOCOL); \
    } while (0)

TEST(sounds_and_vectors_are_checked)
{
    float nan[] = {1, 0, NAN}, longer[] = {1, 0, 0.1f}, shorter[] = {0, 0, 0};

    PART_REFUSED(sound.start_ms, -1);
    PART_REFUSED(sound.end_ms, -1);
    PART_REFUSED(sound.name, (char *)"\xc3");
    PART_REFUSED(sound.score, 1.5f);
    PART_REFUSED(sound.score, NAN);
    PART_REFUSED(sound.class_id, UINT32_MAX);
    PART_REFUSED(vector.end_ms, -1);
    PART_REFUSED(vector.values, nan);
    PART_REFUSED(vector.values, longer);
    PART_REFUSED(vector.values, shorter);
    PART_REFUSED(with.vector_count, 0); /* a size without vectors */
    PART_REFUSED(with.vector_size, 0);
    PART_REFUSED(with, long_one());
}

TEST(voices_are_checked)
{
    uint8_t active[] = {1, 2, 4, 7, 0, 0}, fourth[] = {1, 2, 8, 0, 0, 0};
    uint32_t of[] = {0, 5}, twice[] = {5, 5}, outside[] = {0, 6};
    float wrong[] = {1, 0, 0, 1, 0, INFINITY};
    const struct result_voices m = {7, 2, 3, 3, 3, 2, active, of, units};

    REFUSED(voices, m, active, fourth);
    REFUSED(voices, m, of, twice);
    REFUSED(voices, m, of, outside);
    REFUSED(voices, m, vectors, wrong);
    REFUSED(voices, m, speakers, 0);
    REFUSED(voices, m, speakers, 9);
    REFUSED(voices, m, frames, 0);
    REFUSED(voices, m, size, 0);
    REFUSED(voices, m, first, UINT32_MAX);
    REFUSED(voices, m, windows, 1); /* the bytes are for two */
}

/* Five minutes of three voices that speak all the time fit a frame thirty times; a day does not, so
 * shards are not a day long where voices are listened to. */
TEST(voices_of_a_shard_fit_a_frame)
{
    struct result_voices m = {.windows = 300, .frames = 589, .speakers = 3, .size = 256};
    struct buf b = BUF_INIT;
    uint32_t *of;

    m.vector_count = m.windows * m.speakers;
    m.active = calloc((size_t)m.windows * m.frames, 1);
    m.of = of = calloc(m.vector_count, sizeof(*of));
    m.vectors = calloc((size_t)m.vector_count * m.size, sizeof(*m.vectors));
    for (uint32_t i = 0; i < m.vector_count; i++)
        of[i] = i;
    msg_voices_put(&b, &m);
    assert_true(b.len < FRAME_MAX / 28);
    assert_int_equal(take_voices(&m), 0);
    msg_voices_free(&m);
    buf_free(&b);
}

TEST(finalizing_is_checked)
{
    const struct msg_finalize s = {1, (char *)"/m", (char *)"aa", (char *)"{}", 1000, false, 0};
    struct result_speaker speakers[] = {{500, units}, {600, units + 3}};
    struct result_speaker silent = {-1, units};
    struct result_turn turns[] = {{0, 500, 0}, {200, 900, 1}};
    struct result_turn back[] = {{200, 900, 1}, {0, 500, 0}},
                       third[] = {{0, 500, 0}, {200, 900, 2}},
                       turned[] = {{0, 500, 0}, {200, 199, 1}};
    const struct msg_finalized m = {1, {3, 2, 2, speakers, turns}, 5};
    const struct msg_finalized nobody = {.task_id = 1},
                               nameless = {1, {0, 2, 2, speakers, turns}, 5};

    REFUSED(finalize, s, total_ms, -1);
    REFUSED(finalize, s, params_json, (char *)"\xff");
    REFUSED(finalized, m, people.turns, back);
    REFUSED(finalized, m, people.turns, third);
    REFUSED(finalized, m, people.turns, turned);
    REFUSED(finalized, m, people.speaker_count, 1);
    REFUSED(finalized, m, people.size, 1); /* then the values are not of length 1 */
    assert_int_equal(take_finalized(&nobody), 0);
    assert_int_equal(take_finalized(&nameless), 0); /* voices without vectors */
    speakers[0].values = NULL;
    assert_int_equal(take_finalized(&m), 0);
    speakers[0].values = units;
    speakers[1] = silent;
    assert_int_equal(take_finalized(&m), ERR_PROTOCOL);
}

#define BYTES(type, line, name, ...)              \
    do {                                          \
        const struct msg_##name of = __VA_ARGS__; \
        struct buf b = BUF_INIT;                  \
        msg_##name##_put(&b, &of);                \
        golden_holds(type, line, &b);             \
        buf_free(&b);                             \
    } while (0)

TEST(what_is_not_there_has_its_bytes_too)
{
    struct result_speaker mixed[] = {{500, NULL}, {600, units + 3}, {700, NULL}};

    BYTES(MSG_SHARD_DONE, "shard_done_empty", shard_done, {.language = NULL});
    BYTES(MSG_VOICES, "voices_empty", voices, {.windows = 0});
    BYTES(MSG_FINALIZED, "finalized_nobody", finalized, {.task_id = 1});
    BYTES(MSG_FINALIZED, "finalized_mixed", finalized, {1, {3, 3, 0, mixed, NULL}, 5});
    BYTES(MSG_FINALIZED, "finalized_nameless", finalized, {1, {0, 3, 0, mixed, NULL}, 5});
    BYTES(MSG_SETUP, "setup_empty", setup, {.slots = 0});
    BYTES(MSG_LEASE, "lease_empty", lease, {.lease_id = 0});
}

TEST_MAIN(NULL, NULL)
