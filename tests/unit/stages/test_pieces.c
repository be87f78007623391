/* Speech without text is heard again by itself: what stands in order then, what is told as missing,
 * and that it is the same whatever the slots. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"
#include "workers/models/whisper/whisper.h"

#define SLOTS 6

static struct transcribe_params params;

static int setup(void **state)
{
    (void)state;
    recording_reset();
    recording_packed(&params);
    SAY(1, T(0), TUESDAY, T(30));
    SAY(2, T(0), FARMER, TUESDAY, T(30));
    SAY(3, T(0)); /* nothing */
    return 0;
}

static void transcribe_with(struct recording *r, uint32_t slots)
{
    struct transcriber *t;
    struct err e;

    recording_rewind(r);
    assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &params, slots, 1, &t, &e), e);
    recording_add(t, r, NULL);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r->told, 1);
    assert_int_equal(r->code, 0);
}

/* With one slot; and it is the same with more. */
static void transcribe(struct recording *r)
{
    static struct recording again;

    transcribe_with(r, 1);
    again = *r;
    for (uint32_t slots = 2; slots <= SLOTS; slots++) {
        transcribe_with(&again, slots);
        recording_equal(r, &again);
    }
}

static void accounts(const struct recording *r, int64_t speech, int64_t dropped, int64_t missing)
{
    assert_int_equal(r->account.speech_ms, speech);
    assert_int_equal(r->account.dropped_ms, dropped);
    assert_int_equal(r->account.missing_ms, missing);
}

/* The model closes its window early. Four steps of the text's go with the piece. */
TEST_SETUP(test_early_end, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(9.9), 0}, {SECONDS(14.1), 1}}};
    SAY(0, T(0), FARMER, T(9.9));
    transcribe(&r);
    assert_string_equal(recording_text(&r), "[0-9900 farmer][9984-24000 tuesday]");
    assert_int_equal(r.windows, 2);
    accounts(&r, 24000, 0, 0);
}

static uint32_t windows, sparse_windows, pieces, sparse_pieces;

/* The whole is longer than 15 s in the recordings below, and its pieces are not. */
static void count_sparse(const struct asr_window *w)
{
    bool whole = w->n > SECONDS(15);

    windows += whole;
    sparse_windows += whole && w->sparse_silence;
    pieces += !whole;
    sparse_pieces += !whole && w->sparse_silence;
}

/* The silence behind a piece is always sparse, that of a whole window if it was wished. */
TEST_SETUP(test_sparse_silence, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(9.9), 0}, {SECONDS(14.1), 1}}};
    SAY(0, T(0), FARMER, T(9.9));
    fake.on_window = count_sparse;
    transcribe_with(&r, 1);
    assert_int_equal(windows, 1);
    assert_int_equal(pieces, 1);
    assert_int_equal(sparse_windows, 0);
    assert_int_equal(sparse_pieces, 1);
    params.sparse_silence = true;
    transcribe_with(&r, 1);
    assert_int_equal(sparse_windows, 1);
    assert_int_equal(sparse_pieces, 2);
}

TEST_SETUP(test_late_begin, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(8), 0}, {SECONDS(16), 1}}};
    SAY(0, T(8), FARMER, T(30));
    params.max_initial_timestamp = 30;
    /* The piece is of the same script as its whole: it says from its 8th second on, which is its
     * last one. */
    transcribe(&r);
    assert_int_equal(recording_texts(&r), 1);
    assert_true(r.segments > 1 && r.account.missing_ms >= 7500 && r.account.missing_ms <= 8000);
    assert_int_equal(r.segment[r.segments - 1].end_ms, 24000);
}

/* Between two texts: what is heard there stands between them. */
TEST_SETUP(test_middle, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(5), 0}, {SECONDS(7), 2}, {SECONDS(12), 1}}};
    SAY(0, T(0), FARMER, T(5), T(12), TUESDAY, T(30));
    transcribe(&r);
    assert_string_equal(recording_text(&r),
                        "[0-5000 farmer][5088-11904 farmer tuesday][12000-24000 tuesday]");
    assert_int_equal(r.windows, 2);
    accounts(&r, 24000, 0, 0);
}

/* Two gaps in one window, and the window after it. */
TEST_SETUP(test_two_gaps, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(5), 0},
                                     {SECONDS(5), 2},
                                     {SECONDS(5), 1},
                                     {SECONDS(9), 1},
                                     {SECONDS(3), SILENCE},
                                     {SECONDS(20), 2}}};
    SAY(0, T(0), FARMER, T(5), T(10), TUESDAY, T(15));
    transcribe(&r);
    assert_int_equal(r.windows, 4);
    assert_int_equal(r.segments, 5);
    assert_string_equal(r.segment[0].text, "farmer");
    assert_string_equal(r.segment[1].text, "farmer tuesday");
    assert_string_equal(r.segment[2].text, "tuesday");
    assert_string_equal(r.segment[3].text, "tuesday");
    assert_string_equal(r.segment[4].text, "farmer tuesday");
    assert_true(r.segment[1].end_ms <= 10000 && r.segment[3].start_ms >= 15000);
    assert_int_equal(r.account.missing_ms, 0);
}

/* How long speech without text must be: heard again from 20 steps on, told from 16 on, and less
 * was said a little longer than the timestamps say. */
TEST_SETUP(test_short, setup)
{
    static const struct {
        int32_t end;
        uint32_t windows;
        int64_t missing_ms;
    } cases[] = {{T(3.4), 1, 0}, {T(3.2), 1, 18 * 32}, {T(3.1), 2, 0}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct recording r;
        const int32_t tokens[] = {T(0), FARMER, cases[i].end};

        r = (struct recording){.parts = {{SECONDS(3), 0}, {SECONDS(1), 1}}};
        fake.scripts[0].attempt[0] = (struct fake_attempt){tokens, COUNT(tokens), false, false};
        transcribe(&r);
        assert_int_equal(r.windows, cases[i].windows);
        accounts(&r, 4000, 0, cases[i].missing_ms);
        assert_int_equal(r.segments, cases[i].windows + (cases[i].missing_ms > 0));
    }
}

/* A window without a text is halved; the second half has one. */
TEST_SETUP(test_halved, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(12), 3}, {SECONDS(12), 1}}};
    transcribe(&r);
    assert_string_equal(recording_text(&r), "[0-11776 ][12000-24000 tuesday]");
    assert_string_equal(r.segment[0].reason, RESULT_MISSING);
    assert_true(r.segment[0].dropped && r.segment[0].speech_prob > 0.8f);
    assert_string_equal(r.segment[0].language, "");
    assert_int_equal(r.windows, 1 + 2 + 2); /* the first half is halved again */
    accounts(&r, 24000, 0, 11776);
}

/* What is without text for good is told, on each side of a pause. */
TEST_SETUP(test_missing, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(24), 3}}};
    transcribe(&r);
    assert_string_equal(recording_text(&r), "[0-24000 ]");
    assert_int_equal(r.windows, 1 + 2 + 4);
    accounts(&r, 24000, 0, 24000);
    r = (struct recording){.parts = {{SECONDS(6.016), 3}, {SECONDS(20), SILENCE}, {SECONDS(6), 3}}};
    transcribe(&r);
    assert_int_equal(r.segments, 2);
    assert_int_equal(recording_texts(&r), 0);
    assert_true(r.segment[0].end_ms < 7000 && r.segment[1].start_ms > 25000);
    assert_true(r.account.speech_ms == r.account.missing_ms && r.account.missing_ms >= 12000 - 64);
    /* Too short to be speech. */
    r = (struct recording){.parts = {{SECONDS(0.4), 3}}};
    transcribe(&r);
    assert_int_equal(r.segments, 0);
    accounts(&r, 0, 0, 0);
}

/* A model that says a word, and closes, however often it is asked: not for ever. */
TEST_SETUP(test_a_word_each, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(24), 0}}};
    SAY(0, T(0), FARMER, T(1));
    transcribe(&r);
    assert_int_equal(r.windows, 4);
    assert_int_equal(recording_texts(&r), 4);
    for (uint32_t i = 1; i < 4; i++)
        assert_true(r.segment[i].start_ms >= r.segment[i - 1].end_ms);
    assert_true(r.account.missing_ms > 18000);
    assert_int_equal(r.account.speech_ms, 24000);
}

/* A text that is dropped is none: the window is halved; it is accounted for by itself. */
TEST_SETUP(test_dropped, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(24), 0}}};
    SAY(0, T(0), FARMER, TUESDAY, T(30));
    fake.scripts[0].no_speech = 0.7;
    fake.scripts[0].attempt[0].unsure = true;
    transcribe(&r);
    assert_int_equal(r.windows, 7);
    assert_int_equal(recording_texts(&r), 7);
    for (uint32_t i = 0; i < r.segments; i++)
        assert_true(r.segment[i].dropped);
    accounts(&r, 24000, 24000, 0);
    /* Half of it is heard in the end. */
    r = (struct recording){.parts = {{SECONDS(12), 0}, {SECONDS(12), 1}}};
    transcribe(&r);
    assert_int_equal(r.account.missing_ms, 0);
    assert_true(r.account.dropped_ms > 11500 && r.account.dropped_ms < 12000);
    assert_string_equal(r.segment[r.segments - 1].text, "tuesday");
}

/* A window that is silent beyond doubt, so that nobody asked it for its language, and whose second
 * half speaks: that half waits for nobody, also where no other window ever says anything. */
TEST_SETUP(test_silent_half, setup)
{
    static struct recording r;

    fake.scripts[5].no_speech = 0.995;
    fake.scripts[1].rival = ES;
    fake.scripts[1].rival_prob = 0.4;
    params.language_detection_threshold = 0.95f;
    for (uint32_t wholes = 1; wholes <= 9; wholes += 4) {
        uint32_t n = 0;

        r = (struct recording){0};
        for (uint32_t i = 0; i < wholes; i++) {
            r.parts[n++] = (struct part){SECONDS(12.4), 5};
            r.parts[n++] = (struct part){SECONDS(12.6), 1};
            r.parts[n++] = (struct part){SECONDS(3), SILENCE};
        }
        transcribe(&r);
        assert_int_equal(r.segments, 2 * wholes);
        assert_int_equal(recording_texts(&r), wholes);
        for (uint32_t i = 0; i < r.segments; i++)
            assert_string_equal(r.segment[i].language, r.segment[i].text[0] ? "en" : "");
    }
}

/* Random recordings of models that close early, say nothing, or are not sure. */
TEST_SETUP(test_random, setup)
{
    uint32_t missing = 0, heard_again = 0;

    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5), T(4.5), FARMER);
    fake.scripts[2].rival = ES;
    fake.scripts[2].rival_prob = 0.4;
    print_message("seeds 1 to 12\n");
    for (uint64_t seed = 1; seed <= 12; seed++) {
        static struct recording r;
        uint64_t at = seed;

        recording_random(&r, &at, 4);
        params.multilingual = seed % 2;
        transcribe(&r);
        missing += r.account.missing_ms > 0;
        heard_again += r.windows > (uint32_t)(recording_length(&r) / SECONDS(28) + 1);
    }
    assert_true(missing > 1 && heard_again > 1);
}

static int open_all(void **state)
{
    log_set_sink(test_no_log, NULL);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
