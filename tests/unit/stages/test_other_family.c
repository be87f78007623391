/* The stage with a model of another family (other_family.h): its windows, its tokens, and what it
 * cannot do. */
#include "tests/common/test.h"

#include <stdlib.h>

#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/other_family.h"
#include "tests/unit/stages/recording.h"
#include "workers/models/asr_family.h"
#include "workers/models/whisper/whisper.h"

static const struct other_kind plain = {.languages = true};
static const struct other_kind timed = {.languages = true, .timed = true, .aligns = true};

static struct asr_model *model;
static struct transcribe_params params;

static struct transcriber *begin_slots(struct other_kind kind, uint32_t slots)
{
    struct silero *vad = params.vad_model[0] ? fake_silero() : NULL;
    struct transcriber *t;
    struct err e;

    assert_ok(other_open(kind, &model, &e), e);
    assert_ok(transcriber_new(model, vad, &params, slots, 0, &t, &e), e);
    return t;
}

static struct transcriber *begin(struct other_kind kind) { return begin_slots(kind, 2); }

static void end(struct transcriber *t)
{
    transcriber_free(t);
    model->ops->free(model);
}

/* Appends n words from number `first` on, of the eight of its language; first < 0: silence. */
static void add(struct recording *r, uint32_t *parts, int first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int word = first < 0 ? SILENCE : first / 8 * 8 + (first + (int)i) % 8;

        r->parts[(*parts)++] = (struct part){OTHER_WORD, word};
    }
    recording_rewind(r);
}

/* The text of such words. Static, for one call. */
static const char *said(int first, uint32_t n)
{
    static char text[256];
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s",
                               other_word((uint32_t)(first / 8 * 8 + (first + (int)i) % 8)));
    return text + 1;
}

static void is(const struct kept_segment *s, int64_t start_ms, int64_t end_ms, int first,
               uint32_t n)
{
    assert_int_equal(s->start_ms, start_ms);
    assert_int_equal(s->end_ms, end_ms);
    assert_string_equal(s->text, said(first, n));
    assert_false(s->dropped);
}

static void run(struct other_kind kind, struct recording *r)
{
    struct transcriber *t = begin(kind);

    recording_add(t, r, NULL);
    recording_finish(t);
    assert_int_equal(r->told, 1);
    assert_int_equal(r->code, 0);
    end(t);
}

/* Twenty words are 16 s: a window of 9.6 s, and a shorter one; without timestamps each is a
 * segment.
 */
TEST(its_own_windows)
{
    struct recording r = {0};
    uint32_t parts = 0;

    add(&r, &parts, 0, 20);
    transcribe_params_default(&params);
    run(plain, &r);
    assert_int_equal(r.windows, 2);
    assert_int_equal(other_seen.windows, 2);
    assert_int_equal(other_seen.longest, OTHER_WINDOW);
    assert_int_equal(r.segments, 2);
    is(&r.segment[0], 0, 9600, 0, 12);
    is(&r.segment[1], 9600, 16000, 4, 8);
    assert_string_equal(r.language, "de");
    assert_int_equal(other_seen.prompt_len, 3);
}

/* The same by a search, and by lots. */
TEST(beams_and_candidates)
{
    struct recording r = {0};
    uint32_t parts = 0;

    add(&r, &parts, 8, 14);
    transcribe_params_default(&params);
    params.beam_size = 3;
    params.best_of = 4;
    for (int draws = 0; draws < 2; draws++) {
        recording_rewind(&r);
        params.temperatures[0] = draws ? 0.2f : 0;
        params.temperature_count = 1;
        run(plain, &r);
        assert_int_equal(r.segments, 2);
        is(&r.segment[0], 0, 9600, 8, 12);
        is(&r.segment[1], 9600, 11200, 12, 2);
        assert_string_equal(r.language, "fr");
    }
}

/* Its timestamps are 80 ms from each other, and segments are what lies between them. */
TEST(its_own_timestamps)
{
    struct recording r = {0};
    uint32_t parts = 0;

    add(&r, &parts, -1, 1);
    add(&r, &parts, 2, 3);
    add(&r, &parts, -1, 2);
    add(&r, &parts, 5, 4);
    add(&r, &parts, -1, 2);
    add(&r, &parts, 0, 5);
    transcribe_params_default(&params);
    run(timed, &r);
    assert_int_equal(r.windows, 2);
    assert_int_equal(r.segments, 3);
    is(&r.segment[0], 800, 3200, 2, 3);
    is(&r.segment[1], 4800, 8000, 5, 4);
    is(&r.segment[2], 9600, 13600, 0, 5);
}

/* Voice activity packs speech into windows of at most this length. */
TEST(windows_of_speech)
{
    struct recording r = {0}, longer = {0};
    uint32_t parts = 0;

    add(&r, &parts, -1, 3);
    add(&r, &parts, 0, 8);
    add(&r, &parts, -1, 3);
    add(&r, &parts, 3, 4);
    add(&r, &parts, -1, 3);
    add(&r, &parts, 8, 5);
    recording_packed(&params);
    params.vad_speech_pad_ms = 0;
    fake_ear = (struct fake_ear){.fails_at = -1};
    run(plain, &r);
    assert_int_equal(other_seen.windows, 2);
    assert_int_equal(other_seen.longest, OTHER_WINDOW);
    assert_int_equal(r.segments, 3); /* a window's text is parted at its pauses */
    is(&r.segment[0], 2400, 8800, 0, 8);
    is(&r.segment[1], 11200, 14400, 3, 4);
    is(&r.segment[2], 16800, 20800, 8, 5);
    assert_int_equal(r.account.speech_ms, 13600);
    assert_int_equal(r.account.missing_ms, 0);

    parts = 0;
    add(&longer, &parts, 0, 30);
    run(plain, &longer);
    assert_in_range(other_seen.windows, 3, 4);
    assert_in_range(other_seen.longest, OTHER_WINDOW - OTHER_WORD, OTHER_WINDOW);
}

TEST(languages_may_change)
{
    struct recording r = {0};
    uint32_t parts = 0;

    add(&r, &parts, 0, 12);
    add(&r, &parts, 8, 12);
    transcribe_params_default(&params);
    params.multilingual = true;
    run(plain, &r);
    assert_int_equal(r.segments, 2);
    is(&r.segment[0], 0, 9600, 0, 12);
    is(&r.segment[1], 9600, 19200, 8, 12);
    assert_string_equal(r.segment[0].language, "de");
    assert_string_equal(r.segment[1].language, "fr");
}

TEST(one_language)
{
    struct recording r = {0};
    uint32_t parts = 0;

    add(&r, &parts, 0, 6);
    transcribe_params_default(&params);
    snprintf(params.language, sizeof(params.language), "eo");
    run((struct other_kind){0}, &r);
    assert_int_equal(r.segments, 1);
    is(&r.segment[0], 0, 4800, 0, 6);
    assert_string_equal(r.language, "eo");
    assert_string_equal(r.segment[0].language, "eo");
    assert_int_equal(other_seen.prompt_len, 2);
}

/* ---- words */

#define WORDS_MAX 16

struct heard {
    struct recording r;
    int64_t start_ms[WORDS_MAX], end_ms[WORDS_MAX];
    uint32_t words;
};

static void take_words(void *arg, const struct lane_result *result, const struct err *err)
{
    struct heard *h = arg;

    for (uint32_t i = 0; result && i < result->segment_count; i++)
        for (uint32_t k = 0; k < result->segments[i].word_count; k++) {
            assert_true(h->words < WORDS_MAX);
            h->start_ms[h->words] = result->segments[i].words[k].start_ms;
            h->end_ms[h->words++] = result->segments[i].words[k].end_ms;
        }
    recording_take(&h->r, result, err);
}

/* By columns of 80 ms. */
TEST(its_own_alignment)
{
    struct heard h = {0};
    struct transcriber *t;
    struct lane *lane;
    uint32_t parts = 0;
    struct err e;

    add(&h.r, &parts, 2, 3);
    add(&h.r, &parts, -1, 2);
    add(&h.r, &parts, 8, 4);
    transcribe_params_default(&params);
    params.word_timestamps = true;
    t = begin(timed);
    assert_ok(transcriber_add(t, 0, NULL, 7, recording_source(&h.r), take_words, &h, &lane, &e), e);
    recording_finish(t);
    assert_int_equal(h.r.code, 0);
    assert_int_equal(other_seen.aligned, 1);
    assert_int_equal(h.r.segments, 2);
    assert_int_equal(h.words, 7);
    for (uint32_t i = 0; i < 7; i++) {
        int64_t at = 800 * (int64_t)(i < 3 ? i : i + 2);

        if (llabs(h.start_ms[i] - at) > 100 || llabs(h.end_ms[i] - at - 800) > 100)
            fail_msg("word %u from %lld to %lld ms, not from %lld", i, (long long)h.start_ms[i],
                     (long long)h.end_ms[i], (long long)at);
    }
    end(t);
}

#define MANY 16

/* Recordings of different lengths, each a lane: the words of all of them. failed: one that fails.
 */
static void hear_many(struct heard *h, uint32_t count, uint32_t slots, uint32_t failed)
{
    struct transcriber *t = begin_slots(timed, slots);
    struct lane *lane;
    struct err e;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t parts = 0;

        h[i] = (struct heard){0};
        add(&h[i].r, &parts, i == failed ? 7 : (int)(i * 5 % 7), i == failed ? 1 : 1 + i % 6);
        add(&h[i].r, &parts, -1, 1 + i % 3);
        add(&h[i].r, &parts, (int)(i % 7), 1 + i * 3 % 8);
        assert_ok(
            transcriber_add(t, 0, NULL, i, recording_source(&h[i].r), take_words, &h[i], &lane, &e),
            e);
    }
    recording_finish(t);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(h[i].r.code, i == failed ? ERR_MODEL : 0);
    end(t);
}

/* The words of windows that wait for each other are those that each gets at once; all end, also
 * the last; and no call takes more than a session has room for. */
TEST(words_together)
{
    static struct heard alone[MANY], together[MANY];
    static const uint32_t counts[] = {1, 2, 8, 16};

    transcribe_params_default(&params);
    params.word_timestamps = true;
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        uint32_t n = counts[k];

        hear_many(alone, n, 1, MANY);
        assert_int_equal(other_seen.most_aligned, 1);
        hear_many(together, n, 128, MANY);
        assert_true(n == 1 || other_seen.most_aligned > 1);
        assert_true(n < 16 || other_seen.most_aligned > 4);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(alone[i].words > 0);
            assert_int_equal(together[i].words, alone[i].words);
            assert_memory_equal(together[i].start_ms, alone[i].start_ms, sizeof(alone[i].start_ms));
            assert_memory_equal(together[i].end_ms, alone[i].end_ms, sizeof(alone[i].end_ms));
            recording_equal(&together[i].r, &alone[i].r);
        }
    }
}

/* One of those that are asked for together cannot be aligned: its lane fails, and no other. */
TEST(one_of_many_fails)
{
    static struct heard whole[MANY], rest[MANY];

    transcribe_params_default(&params);
    params.word_timestamps = true;
    hear_many(whole, 8, 128, MANY);
    other_damaged = 7;
    hear_many(rest, 8, 128, 3);
    other_damaged = -1;
    for (uint32_t i = 0; i < 8; i++)
        if (i != 3) {
            assert_memory_equal(rest[i].start_ms, whole[i].start_ms, sizeof(whole[i].start_ms));
            recording_equal(&rest[i].r, &whole[i].r);
        }
}

/* ---- what it cannot do */

static void refused(struct other_kind kind, const char *say)
{
    struct transcriber *t;
    struct err e = {0};

    assert_ok(other_open(kind, &model, &e), e);
    assert_int_equal(transcriber_new(model, NULL, &params, 1, 0, &t, &e), ERR_USAGE);
    if (!strstr(e.msg, say))
        fail_msg("'%s' does not say '%s'", e.msg, say);
    model->ops->free(model);
    transcribe_params_default(&params);
}

TEST(refusals)
{
    transcribe_params_default(&params);
    params.word_timestamps = true;
    refused(plain, "when words are said");
    params.translate = true;
    refused(plain, "cannot translate");
    snprintf(params.initial_prompt, sizeof(params.initial_prompt), "Anna");
    refused(plain, "takes no prompt");
    params.without_timestamps = true;
    refused(timed, "without timestamps");
    snprintf(params.language, sizeof(params.language), "en");
    refused(plain, "no language 'en'");
    snprintf(params.language, sizeof(params.language), "de");
    refused((struct other_kind){0}, "knows 'eo' alone");
}

TEST(a_window_beyond_the_limit)
{
    struct transcriber *t;
    struct err e;

    transcribe_params_default(&params);
    assert_ok(other_open(plain, &model, &e), e);
    model->window_samples = ASR_WINDOW_MAX + 1;
    assert_int_equal(transcriber_new(model, NULL, &params, 1, 0, &t, &e), ERR_MODEL);
    model->ops->free(model);
}

/* ---- the families that there are */

TEST(a_folder_has_a_family)
{
    assert_ptr_equal(asr_family_of(test_source_path("workers/models/whisper-nano")),
                     &whisper_family);
    assert_ptr_equal(asr_family_of("/nowhere"), &whisper_family);
    assert_string_equal(asr_model_types[0], "whisper");
}

TEST_MAIN(NULL, NULL)
