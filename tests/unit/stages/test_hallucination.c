/* The rule for invented text next to silence, by hand. Times are seconds of a window of 30. */
#include "tests/common/test.h"

#include <math.h>

#include "workers/stages/transcribe/outcome/timing.h"

#define GOOD 0.9f
#define BAD 0.05f

/* A window of segments, each of which has so many words of this probability that share its time. */
struct made {
    struct draft drafts[8];
    struct word words[64];
    struct outcome o;
};

static struct made made;

static void begin(void) { made = (struct made){.o = {0}}; }

static void segment(float start, float end, uint32_t words, float probability)
{
    static char text[] = " word";
    struct outcome *o = &made.o;
    float length = words ? (end - start) / (float)words : 0;

    o->drafts = made.drafts;
    o->words.words = made.words;
    made.drafts[o->count++] =
        (struct draft){.first_word = o->words.count, .words = words, .start = start, .end = end};
    for (uint32_t i = 0; i < words; i++)
        made.words[o->words.count++] = (struct word){.start = start + (float)i * length,
                                                     .end = start + (float)(i + 1) * length,
                                                     .text = text,
                                                     .probability = probability};
}

/* So many are kept, and where it goes on. */
static void keeps(struct hallucination_rule rule, uint32_t count, double seek)
{
    double at = -1;

    assert_int_equal(hallucination_find(&rule, &made.o, &at), count);
    if (fabs(at - seek) > 1e-6)
        fail_msg("goes on at %f, not at %f", at, seek);
}

#define RULE .threshold = 2, .begin = 100, .length = 30, .window = 30

TEST(test_good)
{
    begin();
    keeps((struct hallucination_rule){RULE}, 0, -1);
    segment(10, 12, 5, GOOD);
    segment(20, 22, 5, GOOD);
    keeps((struct hallucination_rule){RULE}, 2, -1);
}

/* The window's first words are odd, behind a silence: heard again from there. */
TEST(test_silence_first)
{
    begin();
    segment(3, 3.5f, 0, 0); /* nothing to judge */
    segment(5, 6, 4, BAD);
    segment(10, 12, 5, GOOD);
    keeps((struct hallucination_rule){RULE}, 0, 5);
    made.drafts[1].start = 2; /* no longer than the threshold; but silence after it */
    keeps((struct hallucination_rule){RULE, .last_speech = 1}, 3, -1);
    keeps((struct hallucination_rule){RULE, .last_speech = -0.5}, 1, 2);
}

TEST(test_between)
{
    begin();
    segment(0, 4, 8, GOOD);
    segment(8, 9, 4, BAD); /* silence of 4 s before, of 3 s after */
    segment(12, 15, 8, GOOD);
    keeps((struct hallucination_rule){RULE}, 1, 8);
    made.drafts[1].start = 5.5f; /* too near to what was said */
    keeps((struct hallucination_rule){RULE}, 3, -1);
    made.drafts[1].start = 8;
    made.drafts[1].end = made.words[11].end = 10.5f; /* too near to what is said next */
    keeps((struct hallucination_rule){RULE}, 3, -1);
    for (uint32_t i = 12; i < 20; i++)
        made.words[i].probability = BAD; /* which is no better */
    keeps((struct hallucination_rule){RULE}, 1, 8);
}

/* The recording's begin and the window's end count as silence. */
TEST(test_edges)
{
    begin();
    segment(1.5f, 3, 4, BAD);
    keeps((struct hallucination_rule){RULE, .last_speech = 1}, 0, 1.5);
    made.drafts[0].start = 0.3f; /* it goes on by a second at least */
    keeps((struct hallucination_rule){RULE, .last_speech = 0.2}, 0, 1);
    begin();
    segment(0, 20, 30, GOOD);
    segment(25, 28.5f, 4, BAD);
    keeps((struct hallucination_rule){RULE}, 1, 25);
    begin();
    segment(0, 20, 30, GOOD);
    segment(21, 27, 4, GOOD);
    segment(27.2f, 28.5f, 4, BAD); /* no silence before it */
    keeps((struct hallucination_rule){RULE}, 3, -1);
}

#define END .window = 30, .at_end = true

/* Nothing follows: what is left is silence. */
TEST(test_at_end)
{
    begin();
    segment(0, 4, 8, GOOD);
    segment(8, 9, 4, BAD);
    keeps((struct hallucination_rule){END, .threshold = 2, .length = 10.5}, 2, -1);
    keeps((struct hallucination_rule){END, .threshold = 1, .length = 9.9}, 2, -1);
    keeps((struct hallucination_rule){END, .threshold = 1, .length = 10.5}, 1, 8);
    made.drafts[1].end = 9.8f;
    made.o.count = 3;
    made.drafts[2] = (struct draft){.first_word = 12, .words = 1, .start = 10, .end = 10.4f};
    made.words[12] = (struct word){10, 10.4f, made.words[0].text, 0, 1, BAD};
    keeps((struct hallucination_rule){END, .threshold = 1, .length = 10.5}, 1, 10.5);
}

/* What is odd: one in all of few words, three in many; marks are not counted. */
TEST(test_odd)
{
    static char mark[] = ".";
    struct hallucination_rule rule = {RULE, .last_speech = 0};

    begin();
    segment(10, 12, 2, GOOD);
    keeps(rule, 1, -1);
    made.words[0].probability = BAD; /* one of two */
    keeps(rule, 1, -1);
    made.words[1].probability = BAD;
    keeps(rule, 0, 10);
    begin();
    segment(10, 20, 8, GOOD);
    made.words[0].probability = made.words[3].probability = BAD;
    keeps(rule, 1, -1);
    made.words[7].probability = BAD;
    keeps(rule, 0, 10);
    made.words[0].text = mark; /* none of its own */
    keeps(rule, 1, -1);
    begin();
    segment(10, 20, 9, GOOD); /* the ninth is not looked at */
    made.words[0].probability = made.words[3].probability = made.words[8].probability = BAD;
    keeps(rule, 1, -1);
    begin();
    segment(10, 15.1f, 1, GOOD); /* three seconds too long */
    keeps(rule, 0, 10);
    begin();
    segment(10, 10.25f, 3, GOOD); /* 83 ms each: not nearly */
    keeps(rule, 1, -1);
    begin();
    segment(10, 10.06f, 1, GOOD); /* (133 - 60) ms x 15 */
    keeps(rule, 0, 10);
}

TEST_MAIN(NULL, NULL)
