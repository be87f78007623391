/* What lanes say of the texts that they yield: the reasons for doubt, what is dropped, how often a
 * window was tried, and how much voice was heard. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"

/* What is said at the first attempt, and at all later ones (NULL: the same). */
static const struct said {
    const char *text, *then;
    double from, to; /* seconds; 0.4 s of padding go before the voice */
    double no_speech;
    bool unsure, voice; /* voice: with voice activity */
    uint32_t attempts;
    float speech_prob;
    const char *reason;
    bool dropped;
} cases[] = {
    {" farmer", NULL, 0.5, 2, 0.01, false, false, 1, -1, "", false},
    {" farmer", NULL, 0.5, 2, 0.01, false, true, 1, 0.9f, "", false},
    {" farmer", NULL, 0, 0.38, 0.01, false, true, 1, 0.02f, "no voice", false},
    {" Thank you.", NULL, 0, 0.38, 0.01, false, true, 1, 0.02f, "no voice; silence phrase", true},
    {" Thank you.", NULL, 0.5, 2, 0.01, false, true, 1, 0.9f, "", false},
    {" Thank you.", NULL, 0.5, 2, 0.01, false, false, 1, -1, "", false},
    {" Thank you.", NULL, 0.5, 2, 0.7, false, false, 1, -1, "no speech", false},
    {" Thank you.", NULL, 0.5, 2, 0.7, false, true, 1, 0.9f, "no speech", false},
    {" Thanks for watching!", NULL, 0.5, 2, 0.01, false, true, 1, 0.9f, "silence phrase", false},
    {" Thanks for watching!", NULL, 0.5, 2, 0.7, false, true, 1, 0.9f, "no speech; silence phrase",
     false},
    {" Thanks for watching!", NULL, 0.5, 2, 0.7, false, false, 1, -1, "no speech; silence phrase",
     true},
    {" no no no no no no no no no no no no no no no no no no no no no no no no", " farmer", 0.5, 4,
     0.01, false, true, 2, 0.9f, "tried again: repetitive", false},
    {" no no no no no no no no no no no no no no no no no no no no no no no no", NULL, 0.5, 4, 0.01,
     false, true, 6, 0.9f, "tried again: repetitive; too repetitive; loop", false},
    {" no no no no no no no no no no no no no no no no no no no no no no no no", NULL, 0.5, 4, 0.01,
     false, false, 6, -1, "tried again: repetitive; too repetitive; loop", true},
    {" farmer from the south", " farmer", 0.5, 4, 0.01, true, false, 2, -1, "tried again: unlikely",
     false},
    {" the farmer came on tuesday in the morning with nobody", NULL, 0.5, 0.6, 0.01, false, false,
     1, -1, "impossible pace", false},
};

static void script(uint32_t attempt, const char *text, const struct said *s, int32_t *tokens)
{
    int32_t *ids;
    size_t n;
    struct err e;

    assert_ok(vocabulary_encode(nano, text, &ids, &n, &e), e);
    assert_true(n < 200);
    tokens[0] = T(s->from);
    memcpy(tokens + 1, ids, n * sizeof(*ids));
    tokens[n + 1] = T(s->to);
    free(ids);
    fake.scripts[0].attempt[attempt] =
        (struct fake_attempt){tokens, (uint32_t)n + 2, attempt == 0 && s->unsure, false};
    fake.scripts[0].attempts = attempt + 1;
}

static void transcribe(const struct said *s, struct recording *r)
{
    static int32_t tokens[2][256];
    struct transcribe_params p;
    struct transcriber *t;
    struct err e;

    recording_reset();
    script(0, s->text, s, tokens[0]);
    if (s->then)
        script(1, s->then, s, tokens[1]);
    fake.scripts[0].no_speech = s->no_speech;
    recording_packed(&p);
    if (!s->voice)
        p.vad_model[0] = p.vad_hash[0] = 0;
    /* A step of 512 samples begins with the voice, which ends with the text, or is too short to be
     * heard again. */
    *r = (struct recording){
        .parts = {{s->voice ? 512 * 100 : 0, SILENCE}, {SECONDS(5), 0}, {SECONDS(2), SILENCE}}};
    if (s->voice)
        r->parts[1].samples = SECONDS(s->to > 0.8 ? s->to - 0.4 : 0.4);
    else
        r->parts[1].samples = SECONDS(s->to);
    recording_rewind(r);
    assert_ok(
        transcriber_new(fake_whisper(nano), s->voice ? fake_silero() : NULL, &p, 2, 1, &t, &e), e);
    recording_add(t, r, NULL);
    recording_finish(t);
    transcriber_free(t);
}

TEST(test_reasons)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct recording r;
        const struct said *s = &cases[i];
        const struct kept_segment *k = &r.segment[0];

        transcribe(s, &r);
        assert_int_equal(r.told, 1);
        assert_int_equal(r.segments, 1);
        if (strcmp(k->reason, s->reason) != 0 || k->dropped != s->dropped ||
            k->attempts != s->attempts || fabsf(k->speech_prob - s->speech_prob) > 0.08f)
            fail_msg("%zu,%s: '%s', dropped %d, %u attempts, voice %f", i, s->text, k->reason,
                     k->dropped, k->attempts, (double)k->speech_prob);
        assert_string_equal(k->text, (s->then ? s->then : s->text) + 1);
    }
}

/* One window, two segments: each is judged by its own voice. */
TEST(test_each_by_itself)
{
    static const struct said thanks = {.text = " Thank you.", .from = 0, .to = 0.38, .voice = true};
    static int32_t tokens[64] = {T(0)};
    static struct recording r;
    uint32_t n;

    transcribe(&thanks, &r);
    n = fake.scripts[0].attempt[0].count;
    memcpy(tokens, fake.scripts[0].attempt[0].tokens, n * sizeof(*tokens));
    tokens[n++] = T(0.5);
    memcpy(tokens + n, tokens + 1, (n - 3) * sizeof(*tokens));
    n += n - 3;
    tokens[n++] = T(3);
    fake.scripts[0].attempt[0] = (struct fake_attempt){tokens, n, false, false};
    {
        struct transcribe_params p;
        struct transcriber *t;
        struct err e;

        recording_packed(&p);
        r.parts[1].samples = SECONDS(2.6);
        recording_rewind(&r);
        assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &p, 1, 1, &t, &e), e);
        recording_add(t, &r, NULL);
        recording_finish(t);
        transcriber_free(t);
    }
    assert_int_equal(r.segments, 2);
    assert_string_equal(r.segment[0].text, r.segment[1].text);
    assert_true(r.segment[0].dropped);
    assert_false(r.segment[1].dropped);
    assert_string_equal(r.segment[1].reason, "");
}

TEST_MAIN(nano_open, nano_close)
