/* Where a segment is parted: chosen cases, and what must hold of random ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/reading/machine.h"
#include "tests/common/test.h"

#define MOST 400

struct heard {
    struct seams_word words[MOST];
    struct overlap_turn turns[MOST];
    size_t count, turn_count;
};

/* A letter is a word of `ms`, said by A or B or C; '.' by nobody. A pause of 100 ms is a blank.
 * Each run of a letter is a turn. */
static void hear(const char *who, int64_t ms, struct heard *h)
{
    int64_t now = 0, last = 0;

    *h = (struct heard){0};
    for (; *who; who++) {
        int64_t speaker = *who == '.' ? 0 : *who;

        if (*who == ' ') {
            now += 100;
            continue;
        }
        if (speaker && speaker == last)
            h->turns[h->turn_count - 1].end_ms = now + ms;
        else if (speaker)
            h->turns[h->turn_count++] = (struct overlap_turn){now, now + ms, speaker};
        last = speaker;
        h->words[h->count++] = (struct seams_word){now, now + ms, speaker};
        now += ms;
    }
}

/* "A5 B3": who says how many words. */
static const char *parts_of(const struct heard *h)
{
    static char out[256];
    struct seams_part parts[MOST];
    struct overlaps *turns = NULL;
    struct err e = {0};
    size_t n;

    *out = 0;
    assert_ok(overlap_make(h->turns, h->turn_count, &turns, &e), e);
    n = seams_find(h->words, h->count, turns, parts);
    for (size_t i = 0; i < n; i++)
        snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%c%zu", i ? " " : "",
                 parts[i].speaker ? (char)parts[i].speaker : '.', parts[i].count);
    overlap_free(turns);
    return out;
}

static void chosen(void **state)
{
    static const struct {
        const char *who;
        int64_t ms;
        const char *parts;
    } cases[] = {
        {"", 200, ""},
        {"A", 200, "A1"},
        {"AAAAAA", 200, "A6"},
        {"...", 200, ".3"},
        {"AAABBB", 200, "A3 B3"},
        {"AAABB", 200, "A5"},    /* two words, 400 ms: a crumb at the end */
        {"AABBB", 200, "B5"},    /* and at the beginning */
        {"AAABB", 400, "A3 B2"}, /* two words, but 800 ms */
        {"AAAB", 799, "A4"},     /* one, and a millisecond less */
        {"AAAB", 800, "A3 B1"},
        {"AAABAAA", 200, "A7"},         /* somebody says yes */
        {"AAABBBAAA", 200, "A3 B3 A3"}, /* somebody says more than that */
        {"AAABB CCC", 200, "A5 C3"},    /* to the side that is nearer */
        {"AAA BBCCC", 200, "A3 C5"},
        {"AAABBCCC", 200, "A5 C3"}, /* as near: to the one before */
        {"ABABABAB", 200, "B8"},    /* crumbs alone: one takes them all */
        {"AAA.BBB", 200, "A4 B3"},  /* nobody takes nothing, and has nothing */
        {"AAA....BBB", 200, "A7 B3"},
        {"..AAA", 200, "A5"},
        {"AAAB.CCC", 200, "A5 C3"}, /* and is no way round a crumb */
        {"AAABBBCCC", 200, "A3 B3 C3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct heard h;
        const char *is;

        hear(cases[i].who, cases[i].ms, &h);
        is = parts_of(&h);
        if (strcmp(is, cases[i].parts) != 0)
            fail_msg("%s of %d ms: %s, not %s", cases[i].who, (int)cases[i].ms, is, cases[i].parts);
    }
}

/* What was given to one another without one handing over to the other is not parted. */
static void the_change_is_seen(void **state)
{
    struct heard h;

    (void)state;
    hear("AAAABBB", 200, &h);
    h.turns[0].end_ms = 800 - SEAMS_NEAR_MS; /* A falls silent before */
    h.turns[1].start_ms = 800 + SEAMS_NEAR_MS + 1;
    assert_string_equal(parts_of(&h), "A4 B3");
    h.turns[0].end_ms--;
    assert_string_equal(parts_of(&h), "A7");
    h.turns[1].start_ms--;
    assert_string_equal(parts_of(&h), "A4 B3");
    /* Of two seams that nobody saw the one goes at which less is said. */
    hear("AAAABBBBBCCC", 200, &h);
    h.turn_count = 0;
    assert_string_equal(parts_of(&h), "B12");
    hear("AAAABBBAAAA", 200, &h);
    h.turn_count = 0;
    assert_string_equal(parts_of(&h), "A11");
}

static void as_long_as_no_model_writes(void **state)
{
    const size_t n = SEAMS_WORDS_MOST + 1;
    struct seams_word *words = calloc(n, sizeof(*words));
    struct seams_part *parts = calloc(n, sizeof(*parts));
    static const struct overlap_turn turns[] = {{0, 100000, 'A'}, {100000, 900000, 'B'}};
    struct overlaps *a = NULL;
    struct err e = {0};

    (void)state;
    assert_true(words && parts);
    assert_ok(overlap_make(turns, 2, &a, &e), e);
    for (size_t i = 0; i < n; i++)
        words[i] =
            (struct seams_word){(int64_t)i * 100, (int64_t)i * 100 + 100, i < 1000 ? 'A' : 'B'};
    assert_int_equal(seams_find(words, n - 1, a, parts), 2);
    assert_int_equal(parts[1].first, 1000);
    assert_int_equal(seams_find(words, n, a, parts), 1);
    assert_int_equal(parts[0].count, n);
    overlap_free(a);
    free(words);
    free(parts);
}

static void make(unsigned *seed, struct heard *h)
{
    int64_t now = rand_r(seed) % 3000;
    bool wild = rand_r(seed) % 8 == 0;

    *h = (struct heard){.count = 1 + (size_t)rand_r(seed) % (rand_r(seed) % 2 ? 120 : 12)};
    for (size_t i = 0; i < h->count; i++) {
        h->words[i].start_ms = wild ? rand_r(seed) % 60000 : now;
        h->words[i].end_ms = h->words[i].start_ms + rand_r(seed) % 700;
        now = h->words[i].end_ms + rand_r(seed) % (rand_r(seed) % 9 ? 100 : 1500);
    }
    for (int64_t at = 0; at < now && h->turn_count < MOST;) {
        int64_t ms = 50 + rand_r(seed) % (rand_r(seed) % 2 ? 500 : 6000);

        h->turns[h->turn_count++] = (struct overlap_turn){at, at + ms, 1 + rand_r(seed) % 4};
        at += ms - rand_r(seed) % 300 + (rand_r(seed) % 4 ? 0 : rand_r(seed) % 4000);
    }
}

/* Each word in one part, neighbours by others, no crumb beside another part, and each seam is one
 * where one of the two speakers hands over to the other. */
static size_t hold(const struct heard *h, const struct overlaps *turns,
                   const struct seams_part *parts, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const struct seams_word *first = &h->words[parts[i].first];
        const struct seams_word *last = first + parts[i].count - 1;
        int64_t from = i > 0 ? first[-1].end_ms : 0, to = first->start_ms;

        assert_int_equal(parts[i].first, at);
        assert_true(parts[i].count > 0);
        at += parts[i].count;
        if (n > 1) {
            assert_true(parts[i].speaker != 0);
            assert_true(parts[i].count >= 3 || last->end_ms - first->start_ms >= 800);
        }
        if (i == 0)
            continue;
        assert_true(parts[i].speaker != parts[i - 1].speaker);
        assert_true(overlap_changes(turns, parts[i - 1].speaker, parts[i].speaker,
                                    (from < to ? from : to) - 500, (from < to ? to : from) + 500));
    }
    assert_int_equal(at, h->count);
    return n;
}

static void random_ones(void **state)
{
    unsigned seed = 11;
    size_t parted = 0, whole = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        static struct heard h;
        struct seams_part parts[MOST];
        struct overlaps *turns = NULL;
        struct err e = {0};
        size_t n;

        make(&seed, &h);
        assert_ok(overlap_make(h.turns, h.turn_count, &turns, &e), e);
        for (size_t i = 0; i < h.count; i++)
            h.words[i].speaker = overlap_speaker(turns, h.words[i].start_ms, h.words[i].end_ms, 0);
        n = hold(&h, turns, parts, seams_find(h.words, h.count, turns, parts));
        *(n > 1 ? &parted : &whole) += 1;
        overlap_free(turns);
    }
    assert_true(parted > 500 && whole > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen), cmocka_unit_test(the_change_is_seen),
        cmocka_unit_test(as_long_as_no_model_writes), cmocka_unit_test(random_ones)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
