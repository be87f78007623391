/* Which speech of a window has a text: by hand, and of random voices and texts against the same
 * written down step by step. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "tests/common/random.h"
#include "workers/stages/transcribe/outcome/coverage.h"

#define STEP ((int64_t)SPEECH_STEP)
#define MS (SPEECH_STEP / 16)
#define MOST COVERAGE_STEPS_MAX

/* A coverage of the voice that the letters say: 'v' somebody speaks, '.' nobody does. */
static struct coverage of(const char *voice)
{
    float prob[MOST];
    struct coverage c;
    size_t n = strlen(voice);

    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++)
        prob[i] = voice[i] == 'v' ? 0.5f : 0.49f;
    coverage_begin(&c, prob, (int64_t)n * STEP, 0.5f);
    return c;
}

/* '.' quiet, 'm' missing, 'd' dropped, 't' text. */
static const char *states(const struct coverage *c)
{
    static char text[MOST + 1];

    for (uint32_t i = 0; i < c->steps; i++)
        text[i] = ".mdt"[c->state[i]];
    text[c->steps] = 0;
    return text;
}

TEST(test_begin)
{
    const float prob[3] = {0.2f, 0.3f, 0.9f};
    static float many[MOST + 10];
    struct coverage c = of("vv.v..");

    assert_string_equal(states(&c), "mm.m..");
    coverage_begin(&c, prob, 2 * STEP + 1, 0.3f); /* the last step is hardly begun */
    assert_string_equal(states(&c), ".mm");
    coverage_begin(&c, prob, 1, 0.1f);
    assert_string_equal(states(&c), "m");
    coverage_begin(&c, many, 480000, 0.5f);
    assert_int_equal(c.steps, (480000 + STEP - 1) / STEP);
    coverage_begin(&c, many, 480000 + 20 * STEP, 0.5f); /* more than there is room for */
    assert_int_equal(c.steps, MOST);
}

/* 0.2 s beside a text are its: 6.25 steps. */
TEST(test_add)
{
    const char *voice = "vvvvvvvvvvvvvvvvvvvv.vvvvvvvvv";
    struct coverage c = of(voice);

    coverage_add(&c, 10 * STEP, 12 * STEP, false);
    assert_string_equal(states(&c), "mmmttttttttttttttttm.mmmmmmmmm");
    c = of(voice);
    coverage_add(&c, 0, 0, false);
    assert_string_equal(states(&c), "tttttttmmmmmmmmmmmmm.mmmmmmmmm");
    coverage_add(&c, 2 * STEP, 4 * STEP, true); /* what has a text keeps it */
    assert_string_equal(states(&c), "tttttttddddmmmmmmmmm.mmmmmmmmm");
    coverage_add(&c, 3 * STEP, 3 * STEP, false); /* what was dropped may get one */
    assert_string_equal(states(&c), "ttttttttttdmmmmmmmmm.mmmmmmmmm");
    coverage_add(&c, -50 * STEP, 1000 * STEP, true);
    assert_string_equal(states(&c), "ttttttttttdddddddddd.ddddddddd");
    coverage_add(&c, 900 * STEP, 1000 * STEP, false); /* behind the end */
    assert_string_equal(states(&c), "ttttttttttdddddddddd.ddddddddd");
}

static void gap_is(const struct coverage *c, int64_t from, int64_t to, uint32_t least,
                   int64_t start, int64_t end, uint32_t steps)
{
    struct coverage_gap gap = {-1, -1, 0};

    assert_int_equal(coverage_next_gap(c, from * STEP, to * STEP, least, &gap), steps > 0);
    if (!steps)
        return;
    assert_int_equal(gap.start, start * STEP);
    assert_int_equal(gap.end, end * STEP);
    assert_int_equal(gap.steps, steps);
}

TEST(test_gaps)
{
    /*                   0         1         2         3 */
    struct coverage c = of("..vv.vvv..vvvvvvvv..vvvvvvvvv...");

    gap_is(&c, 0, 32, 1, 2, 29, 22); /* without the quiet at its ends */
    gap_is(&c, 0, 32, 22, 2, 29, 22);
    gap_is(&c, 0, 32, 23, 0, 0, 0);
    memset(c.state + 10, COVERAGE_TEXT, 2);
    gap_is(&c, 0, 32, 1, 2, 8, 5);
    gap_is(&c, 8, 32, 1, 12, 29, 15);
    gap_is(&c, 0, 32, 6, 12, 29, 15); /* the first is too small */
    gap_is(&c, 3, 32, 1, 3, 8, 4);    /* from its middle */
    gap_is(&c, 3, 7, 1, 3, 7, 3);     /* and to it */
    gap_is(&c, 29, 32, 1, 0, 0, 0);
    gap_is(&c, 0, 2, 1, 0, 0, 0);
    gap_is(&c, 100, 200, 1, 0, 0, 0);
    memset(c.state + 14, COVERAGE_DROPPED, 1); /* dropped is no gap, and parts one */
    gap_is(&c, 8, 32, 1, 12, 14, 2);
    gap_is(&c, 14, 32, 1, 15, 29, 12);
}

TEST(test_close)
{
    struct coverage c = of("vvvv..vvvvvv.vvv.vv..v");

    coverage_close(&c, 1);
    assert_string_equal(states(&c), "mmmm..mmmmmm.mmm.mm..m");
    coverage_close(&c, 16);
    assert_string_equal(states(&c), "mmmm..mmmmmm.mmm.mm..m"); /* together as many: it is told */
    coverage_close(&c, 17);
    assert_string_equal(states(&c), "......................"); /* no text, and too short */
    c = of("vvvv..vvvvvv.vvv.vv..v");
    memset(c.state + 8, COVERAGE_TEXT, 1);
    memset(c.state + 17, COVERAGE_DROPPED, 1);
    coverage_close(&c, 7);
    assert_string_equal(states(&c), "tttt..tttttt.ttt.dd..d");
    c = of("vvvv..vvvvvv.vvv.vv..v");
    memset(c.state + 8, COVERAGE_DROPPED, 1);
    memset(c.state + 17, COVERAGE_TEXT, 1);
    coverage_close(&c, 7);
    assert_string_equal(states(&c), "dddd..dddttt.ttt.tt..t");
    coverage_close(&c, 1000);
    assert_string_equal(states(&c), "dddd..dddttt.ttt.tt..t");
    c.steps = 0;
    coverage_close(&c, 1000);
}

TEST(test_count)
{
    struct result_account sum = {.speech_ms = 32};
    struct coverage c = of("vvvvv...vvv.");

    memset(c.state, COVERAGE_TEXT, 2);
    memset(c.state + 2, COVERAGE_DROPPED, 1);
    coverage_count(&c, &sum);
    assert_int_equal(sum.speech_ms, 9 * MS);
    assert_int_equal(sum.dropped_ms, MS);
    assert_int_equal(sum.missing_ms, 5 * MS);
    coverage_count(&c, &sum); /* it adds */
    assert_int_equal(sum.speech_ms, 17 * MS);
    assert_int_equal(sum.missing_ms, 10 * MS);
}

/* ---- random voices and texts */

#define TEXTS 6

struct text {
    int64_t start, end;
    bool dropped;
};

/* Whether one of these texts, or what is beside it, lies in step i. */
static bool has_text(const struct text *texts, uint32_t n, bool dropped, uint32_t i)
{
    for (uint32_t k = 0; k < n; k++)
        if (texts[k].dropped == dropped && (i + 1) * STEP > texts[k].start - 3200 &&
            i * STEP < texts[k].end + 3200)
            return true;
    return false;
}

static void check_states(const struct coverage *c, const float *voice, const struct text *texts,
                         uint32_t n)
{
    for (uint32_t i = 0; i < c->steps; i++) {
        enum coverage_state want = COVERAGE_MISSING;

        if (has_text(texts, n, true, i))
            want = COVERAGE_DROPPED;
        if (has_text(texts, n, false, i))
            want = COVERAGE_TEXT;
        assert_int_equal(c->state[i], voice[i] < 0.5f ? COVERAGE_QUIET : want);
    }
}

/* Of all its steps each is one thing, and the gaps are all that is missing. */
static void check_sums(const struct coverage *c, uint32_t least)
{
    struct coverage_gap gap = {0, 0, 0};
    struct result_account sum = {0};
    uint32_t n[4] = {0}, missing = 0;
    int64_t last = 0;

    for (uint32_t i = 0; i < c->steps; i++)
        n[c->state[i]]++;
    coverage_count(c, &sum);
    assert_true(result_account_holds(&sum));
    assert_int_equal(sum.dropped_ms, n[COVERAGE_DROPPED] * MS);
    assert_int_equal(sum.missing_ms, n[COVERAGE_MISSING] * MS);
    assert_int_equal(sum.speech_ms, sum.dropped_ms + sum.missing_ms + n[COVERAGE_TEXT] * MS);
    while (coverage_next_gap(c, gap.end, c->steps * STEP, 1, &gap)) {
        assert_true(gap.start >= last && gap.end > gap.start && gap.steps >= least);
        assert_true(gap.steps <= (gap.end - gap.start) / STEP);
        assert_int_equal(c->state[gap.start / STEP], COVERAGE_MISSING);
        assert_int_equal(c->state[gap.end / STEP - 1], COVERAGE_MISSING);
        missing += gap.steps;
        last = gap.end;
    }
    assert_int_equal(missing, n[COVERAGE_MISSING]);
}

TEST(test_random)
{
    uint64_t seed = 2024;
    uint32_t with_gaps = 0;

    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 2000; round++) {
        struct text texts[TEXTS];
        struct coverage c, closed;
        float voice[MOST];
        uint32_t n = random_below(&seed, TEXTS + 1), least = 1 + random_below(&seed, 30);
        int64_t samples = 1 + random_below(&seed, 480000);

        random_probs(&seed, voice, MOST, 1 + random_below(&seed, 200));
        coverage_begin(&c, voice, samples, 0.5f);
        assert_int_equal(c.steps, (samples + STEP - 1) / STEP);
        for (uint32_t i = 0; i < n; i++) {
            texts[i].start = random_below(&seed, 490000);
            texts[i].end = texts[i].start + random_below(&seed, 100000);
            texts[i].dropped = random_below(&seed, 3) == 0;
            coverage_add(&c, texts[i].start, texts[i].end, texts[i].dropped);
        }
        check_states(&c, voice, texts, n);
        check_sums(&c, 1);
        coverage_close(&c, least);
        check_sums(&c, least);
        closed = c;
        coverage_close(&closed, least);
        assert_memory_equal(closed.state, c.state, c.steps);
        with_gaps += memchr(c.state, COVERAGE_MISSING, c.steps) != NULL;
    }
    assert_true(with_gaps > 200 && with_gaps < 1990);
}

TEST_MAIN(NULL, NULL)
