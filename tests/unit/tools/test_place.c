/* What an edited file makes of a transcript: word by word, cue by cue, a part of it, another one.
 */
#include "tests/common/nomem.h"
#include "tests/common/random.h"
#include "tests/common/test.h"
#include "tools/correct/place_cues.h"

static const struct place_segment talk[] = {
    {0, 4000, "Good morning and welcome to the market."},
    {4000, 9000, "The Sanches family came from the harbour."},
    {9000, 12000, "They sold fish, bread and oranges."},
    {12000, 16000, "Nobody knew where the money went."},
    {16000, 20000, "In winter it was closed."},
};
#define TALK (sizeof(talk) / sizeof(talk[0]))

/* For each segment: "." the file does not say, "=" as it is, else what it is to read in brackets;
 * how many words belong nowhere; or what is wrong behind "!". */
static const char *placed_in(const struct place_segment *segments, size_t count,
                             enum cues_format format, const char *file)
{
    static struct buf said;
    struct cues cues = {0};
    struct placed p = {0};
    struct err err = {0};

    buf_clear(&said);
    assert_ok(cues_parse(format, file, &cues, &err), err);
    if (place_cues(segments, count, &cues, &p, &err) != 0) {
        assert_int_equal(err.code, ERR_INPUT);
        buf_printf(&said, "!%s", err.msg);
    }
    for (size_t i = 0; i < p.count; i++)
        if (p.texts[i])
            buf_printf(&said, "[%s]", p.texts[i]);
        else
            buf_printf(&said, "%s", i < p.first || i > p.last ? "." : "=");
    if (p.nowhere > 0)
        buf_printf(&said, " %zu nowhere", p.nowhere);
    placed_free(&p);
    cues_free(&cues);
    return buf_cstr(&said);
}

#define assert_placed(format, file, what) \
    assert_string_equal(placed_in(talk, TALK, format, file), what)

#define T1 "1\n00:00:00,000 --> 00:00:04,000\n"
#define T2 "2\n00:00:04,000 --> 00:00:09,000\n"
#define T3 "3\n00:00:09,000 --> 00:00:12,000\n"
#define T4 "4\n00:00:12,000 --> 00:00:16,000\n"
#define T5 "5\n00:00:16,000 --> 00:00:20,000\n"
#define S1 T1 "Good morning and welcome to the market.\n\n"
#define S2 T2 "The Sanches family came from the harbour.\n\n"
#define S3 T3 "They sold fish, bread and oranges.\n\n"
#define S4 T4 "Nobody knew where the money went.\n\n"
#define S5 T5 "In winter it was closed.\n\n"

TEST(nothing_is_changed)
{
    assert_placed(CUES_SRT, S1 S2 S3 S4 S5, "=====");
    /* White space, line breaks, markup and other times are no change. */
    assert_placed(CUES_SRT, T1 "<i>Good morning\nand  welcome</i> to the market.\n\n" S2 S3 S4 S5,
                  "=====");
    assert_placed(CUES_SRT,
                  "00:01:00,000 --> 00:01:04,000\nGood morning and welcome to the market.\n\n"
                  "00:01:04,100 --> 00:01:09,000\nThe Sanches family came from the harbour.\n\n"
                  "00:01:09,000 --> 00:01:12,000\nThey sold fish, bread and oranges.\n\n"
                  "00:01:12,000 --> 00:01:16,000\nNobody knew where the money went.\n\n"
                  "00:01:16,000 --> 00:01:20,000\nIn winter it was closed.\n\n",
                  "=====");
    assert_placed(CUES_TXT,
                  "Good morning and welcome to the market. The Sanches family came from\n"
                  "the harbour. They sold fish, bread and oranges. Nobody knew where the\n"
                  "money went. In winter it was closed.",
                  "=====");
}

TEST(words_are_changed)
{
    assert_placed(CUES_SRT, S1 T2 "The Sánchez family came from the harbour.\n\n" S3 S4 S5,
                  "=[The Sánchez family came from the harbour.]===");
    /* Case and punctuation are a change, though the same word. */
    assert_placed(CUES_SRT, S1 T2 "The Sanches family came from the Harbour!\n\n" S3 S4 S5,
                  "=[The Sanches family came from the Harbour!]===");
    /* The first and the last word of neighbours. */
    assert_placed(CUES_SRT,
                  T1 "Good morning and welcome to the supermarket.\n\n" T2
                     "A Sanches family came from the harbour.\n\n" S3 S4 S5,
                  "[Good morning and welcome to the supermarket.][A Sanches family came from the "
                  "harbour.]===");
    assert_placed(
        CUES_TXT,
        "Good morning and welcome to the supermarket.\nA Sanches family came from the harbour.\n"
        "They sold fish, bread and oranges.\nNobody knew where the money went.\nIn winter it was "
        "closed.\n",
        "[Good morning and welcome to the supermarket.][A Sanches family came from the "
        "harbour.]===");
    /* Taken out and put in; a whole one rewritten, and two side by side. */
    assert_placed(CUES_SRT,
                  T1 "Good morning.\n\n" S2 T3
                     "They sold fresh fish, bread and also oranges.\n\n" S4 S5,
                  "[Good morning.]=[They sold fresh fish, bread and also oranges.]==");
    assert_placed(CUES_SRT, S1 T2 "Something else was said.\n\n" S3 S4 S5,
                  "=[Something else was said.]===");
    assert_placed(CUES_SRT, S1 T2 "Something else.\n\n" T3 "Yes, one hears that.\n\n" S4 S5,
                  "=[Something else.][Yes, one hears that.]==");
    assert_placed(CUES_TXT,
                  "Good morning and welcome to the market.\nSomething else.\nYes, one hears that.\n"
                  "Nobody knew where the money went.\nIn winter it was closed.\n",
                  "=[Something else.][Yes, one hears that.]==");
    assert_placed(CUES_SRT, T1 "Hello.\n\n" S2 S3 S4 T5 "Cold!\n\n", "[Hello.]===[Cold!]");
    assert_placed(
        CUES_TXT,
        "Hello.\nThe Sanches family came from the harbour.\nThey sold fish, bread and oranges.\n"
        "Nobody knew where the money went.\nCold!",
        "[Hello.]===[Cold!]");
}

TEST(cues_are_merged_split_put_in_and_taken_out)
{
    assert_placed(CUES_SRT,
                  S1 "2\n00:00:04,000 --> 00:00:12,000\nThe Sanches family came from a port. We "
                     "sold fish, bread and oranges.\n\n" S4 S5,
                  "=[The Sanches family came from a port.][We sold fish, bread and oranges.]==");
    assert_placed(CUES_SRT,
                  S1 "2\n00:00:04,000 --> 00:00:06,000\nThe Sánchez family\n\n3\n00:00:06,000 --> "
                     "00:00:09,000\nfled from the harbour.\n\n" S3 S4 S5,
                  "=[The Sánchez family fled from the harbour.]===");
    /* All of a segment rewritten that was merged with the one before. */
    assert_placed(CUES_SRT,
                  S1 "2\n00:00:04,000 --> 00:00:12,000\nThe Sanches family came from the harbour. "
                     "Some things were sold.\n\n" S4 S5,
                  "==[Some things were sold.]==");
    assert_placed(CUES_SRT,
                  S1 "2\n00:00:04,000 --> 00:00:12,000\nThe Sanches family came from the "
                     "harbour. Nothing else matters.\n\n" S4 S5,
                  "==[Nothing else matters.]==");
    assert_placed(CUES_SRT,
                  "1\n00:00:00,000 --> 00:00:09,000\nHello, you all! The Sanches family came from "
                  "the harbour.\n\n" S3 S4 S5,
                  "[Hello, you all!]====");
    /* All of two rewritten: in the shares that they had. */
    assert_placed(CUES_SRT,
                  S1 "2\n00:00:04,000 --> 00:00:12,000\nNothing else matters now, or did ever "
                     "before.\n\n" S4 S5,
                  "=[Nothing else matters now,][or did ever before.]==");
    /* Put in: to the nearer one. */
    assert_placed(CUES_SRT, S1 S2 S3 "9\n00:00:12,000 --> 00:00:12,500\n(laughs)\n\n" S4 S5,
                  "===[(laughs) Nobody knew where the money went.]=");
    /* Taken out between two that are there. */
    assert_placed(CUES_SRT, S1 S2 S4 S5, "==[]==");
    assert_placed(CUES_SRT, S1 S2 T3 "\n" S4 S5, "==[]==");
    assert_placed(CUES_TXT, "Good morning and welcome to the market.\nIn winter it was closed.\n",
                  "=[][][]=");
}

TEST(what_was_taken_out_comes_back)
{
    static const struct place_segment left[] = {
        {0, 4000, "Good morning and welcome."}, {4000, 9000, ""}, {9000, 12000, "They sold fish."}};

    assert_string_equal(
        placed_in(left, 3, CUES_TXT, "Good morning and welcome.\nHello.\nThey sold fish."),
        "=[Hello.]=");
    assert_string_equal(placed_in(left, 3, CUES_SRT,
                                  T1 "Good morning and welcome.\n\n" T2 "Hello.\n\n" T3
                                     "They sold fish.\n"),
                        "=[Hello.]=");
    assert_string_equal(placed_in(left, 3, CUES_TXT, "Good morning and welcome.\nThey sold fish."),
                        "===");
}

TEST(a_part_changes_that_part)
{
    assert_placed(CUES_SRT, T2 "The Sánchez family came from the harbour.\n\n" S3,
                  ".[The Sánchez family came from the harbour.]=..");
    assert_placed(CUES_SRT, S3, "..=..");
    assert_placed(CUES_TXT, "They sold fish and oranges.\n", "..[They sold fish and oranges.]..");
    assert_placed(CUES_SRT, T4 "Nobody knew where the gold went.\n\n" T5 "Cold!\n\n",
                  "...[Nobody knew where the gold went.][Cold!]");
    /* It begins and ends within segments. */
    assert_placed(
        CUES_SRT,
        "1\n00:00:06,000 --> 00:00:09,000\nfamily came from that harbour.\n\n" S3
        "2\n00:00:12,000 --> 00:00:14,000\nNobody knew that\n\n",
        ".[The Sanches family came from that harbour.]=[Nobody knew that the money went.].");
    /* A heading is nobody's words. */
    assert_placed(CUES_TXT,
                  "Interview, tape 7\nSide A\n\nThe Sánchez family came from the harbour.\nThey "
                  "sold fish, bread and oranges.\n",
                  ".[The Sánchez family came from the harbour.]=.. 5 nowhere");
}

TEST(another_recordings_file_is_refused)
{
    assert_says(placed_in(talk, TALK, CUES_TXT,
                          "The trains were late again, and nobody said why it was so.\nWe waited."),
                "!too few of its words (14) are said");
    assert_placed(CUES_TXT, "", "!there is no word in it");
    assert_placed(CUES_SRT, T1 "\n" T2 "\n", "!there is no word in it");
    assert_says(placed_in(NULL, 0, CUES_TXT, "hello"), "!too few of its words (1)");
}

TEST(the_time_tells_equal_words_apart)
{
    static const struct place_segment yes[] = {{0, 1000, "Yes."},
                                               {5000, 6000, "Yes."},
                                               {10000, 11000, "Yes."},
                                               {20000, 21000, "Yes."},
                                               {30000, 32000, "Well, I do not know."}};

    assert_string_equal(
        placed_in(yes, 5, CUES_SRT,
                  "00:00:00,000 --> 00:00:01,000\nYes.\n\n00:00:10,000 --> 00:00:11,000\nYes!\n\n"
                  "00:00:20,000 --> 00:00:21,000\nYes.\n\n"),
        "=[][Yes!]=.");
    assert_string_equal(placed_in(yes, 5, CUES_SRT, "00:00:10,000 --> 00:00:11,000\nYes!\n\n"),
                        "..[Yes!]..");
}

TEST(scripts_without_blanks)
{
    static const struct place_segment harbour[] = {{0, 2000, "今日は港へ行きます。"},
                                                   {2000, 4000, "魚を買いました。"}};

    assert_string_equal(placed_in(harbour, 2, CUES_TXT, "今日は港へ行きます。\n魚を食べました。"),
                        "=[魚を食べました。]");
    assert_string_equal(placed_in(harbour, 2, CUES_TXT, "今日は市場へ行き ます。魚を買いました。"),
                        "[今日は市場へ行き ます。]=");
}

/* ------------------------------------------------------------------------------- large ones */

enum { LONG = 9000, OF_EACH = 8 }; /* segments: eight hours */

struct long_talk {
    struct place_segment *segments;
    struct buf texts, file;
};

static void word(struct buf *b, uint64_t *seed)
{
    /* Some words all the time, and many seldom. */
    uint64_t n = random_next(seed) % 1000, k = n < 500 ? n % 30 : random_next(seed) % 5000;

    buf_printf(b, "%sw%llu", b->len && b->data[b->len - 1] != 0 ? " " : "", (unsigned long long)k);
}

static void make_long_talk(struct long_talk *t, uint64_t seed)
{
    size_t *at = calloc(LONG, sizeof(*at));

    t->segments = calloc(LONG, sizeof(*t->segments));
    for (size_t i = 0; i < LONG; i++) {
        at[i] = t->texts.len;
        for (int k = 0; k < OF_EACH; k++)
            word(&t->texts, &seed);
        buf_put_u8(&t->texts, 0);
    }
    for (size_t i = 0; i < LONG; i++)
        t->segments[i] = (struct place_segment){(int64_t)i * 3200, (int64_t)i * 3200 + 3000,
                                                (char *)t->texts.data + at[i]};
    free(at);
}

static void free_long_talk(struct long_talk *t)
{
    free(t->segments);
    buf_free(&t->texts);
    buf_free(&t->file);
}

static void put_cue(struct buf *b, int64_t from, int64_t to, const char *text)
{
    buf_printf(b, "%d:%02d:%02d,%03d --> %d:%02d:%02d,%03d\n%s\n\n", (int)(from / 3600000),
               (int)(from / 60000 % 60), (int)(from / 1000 % 60), (int)(from % 1000),
               (int)(to / 3600000), (int)(to / 60000 % 60), (int)(to / 1000 % 60), (int)(to % 1000),
               text);
}

TEST(eight_hours_with_a_change_in_every_fifth)
{
    struct long_talk t = {0};
    struct cues cues = {0};
    struct placed p = {0};
    struct err err = {0};

    make_long_talk(&t, 1);
    for (size_t i = 1000; i < LONG - 1000; i++) {
        char text[400];

        snprintf(text, sizeof(text), "new%zu %s", i, i % 50 ? t.segments[i].text : "and no more");
        put_cue(&t.file, t.segments[i].start_ms + 7000, t.segments[i].end_ms + 7000,
                i % 5 == 0 ? text : t.segments[i].text);
    }
    assert_ok(cues_parse(CUES_SRT, buf_cstr(&t.file), &cues, &err), err);
    assert_ok(place_cues(t.segments, LONG, &cues, &p, &err), err);
    assert_int_equal(p.first, 1000);
    assert_int_equal(p.last, LONG - 1001);
    for (size_t i = 0; i < LONG; i++) {
        char text[400];

        snprintf(text, sizeof(text), "new%zu %s", i, i % 50 ? t.segments[i].text : "and no more");
        if (i >= 1000 && i < LONG - 1000 && i % 5 == 0)
            assert_string_equal(p.texts[i] ? p.texts[i] : "", text);
        else
            assert_null(p.texts[i]);
    }
    placed_free(&p);
    cues_free(&cues);
    free_long_talk(&t);
}

/* Words of its heading are said hours before. */
TEST(a_part_with_a_heading)
{
    struct long_talk t = {0};
    struct cues cues = {0};
    struct placed p = {0};
    struct err err = {0};

    make_long_talk(&t, 3);
    buf_printf(&t.file, "w1 w2 w3\n");
    for (size_t i = 5000; i < 5100; i++)
        buf_printf(&t.file, "%s\n", t.segments[i].text);
    buf_printf(&t.file, "w4 w5\n");
    assert_ok(cues_parse(CUES_TXT, buf_cstr(&t.file), &cues, &err), err);
    assert_ok(place_cues(t.segments, LONG, &cues, &p, &err), err);
    assert_int_equal(p.first, 5000);
    assert_int_equal(p.last, 5099);
    assert_int_equal(p.nowhere, 5);
    for (size_t i = 0; i < LONG; i++)
        assert_null(p.texts[i]);
    placed_free(&p);
    cues_free(&cues);
    free_long_talk(&t);
}

TEST(eight_hours_of_another_talk)
{
    struct long_talk t = {0}, other = {0};
    struct cues cues = {0};
    struct placed p = {0};
    struct err err = {0};

    make_long_talk(&t, 1);
    make_long_talk(&other, 2);
    for (size_t i = 0; i < LONG; i++)
        put_cue(&other.file, other.segments[i].start_ms, other.segments[i].end_ms,
                other.segments[i].text);
    assert_ok(cues_parse(CUES_SRT, buf_cstr(&other.file), &cues, &err), err);
    assert_int_equal(place_cues(t.segments, LONG, &cues, &p, &err), ERR_INPUT);
    cues_free(&cues);
    free_long_talk(&t);
    free_long_talk(&other);
}

/* ------------------------------------------------------------------------------- any edit */

enum { FEW = 60 };

static void edit_word(struct buf *b, const char *word, uint64_t *seed)
{
    uint32_t kind = random_below(seed, 20);

    if (kind == 0)
        return;
    if (kind < 4)
        buf_printf(b, " x%u", random_below(seed, 1000));
    if (kind != 1)
        buf_printf(b, " %s", word);
    if (kind == 5)
        buf_printf(b, "\n");
}

/* Cues with other words, taken out, merged and put in; what is said in them behind *words. */
static void edit(const struct place_segment *segments, size_t count, uint64_t *seed,
                 struct buf *file, struct buf *words)
{
    struct buf cue = BUF_INIT;
    int64_t from = 0;

    for (size_t i = 0; i < count; i++) {
        char *copy = strdup(segments[i].text), *rest = copy, *word;
        uint32_t kind = random_below(seed, 12);

        from = cue.len > 0 ? from : segments[i].start_ms;
        while (kind > 0 && (word = strsep(&rest, " ")))
            edit_word(&cue, word, seed);
        free(copy);
        if ((kind == 1 && i + 1 < count) || cue.len == 0)
            continue;
        put_cue(file, from, segments[i].end_ms, buf_cstr(&cue));
        buf_put(words, cue.data, cue.len);
        buf_clear(&cue);
    }
    if (cue.len > 0)
        buf_put(words, cue.data, cue.len);
    assert_true(cue.len == 0 || cue.data[0] == ' ');
    buf_free(&cue);
}

/* Blanks and line ends aside. */
static void assert_same_words(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, " \n");
        b += strspn(b, " \n");
        if (*a != *b)
            fail_msg("'%.60s' is not '%.60s'", a, b);
        if (*a == 0)
            return;
    }
}

static void place_edited(const struct place_segment *segments, uint64_t *seed)
{
    struct place_segment after[FEW];
    struct buf file = BUF_INIT, words = BUF_INIT, result = BUF_INIT;
    struct cues cues = {0};
    struct placed p = {0}, again = {0};
    struct err err = {0};

    edit(segments, FEW, seed, &file, &words);
    assert_ok(cues_parse(CUES_SRT, buf_cstr(&file), &cues, &err), err);
    assert_ok(place_cues(segments, FEW, &cues, &p, &err), err);
    assert_int_equal(p.nowhere, 0);
    for (size_t i = 0; i < FEW; i++) {
        after[i] = segments[i];
        after[i].text = p.texts[i] ? p.texts[i] : segments[i].text;
        if (i >= p.first && i <= p.last)
            buf_printf(&result, " %s", after[i].text);
    }
    assert_same_words(buf_cstr(&words), buf_cstr(&result));
    assert_ok(place_cues(after, FEW, &cues, &again, &err), err);
    for (size_t i = 0; i < FEW; i++)
        assert_null(again.texts[i]);
    placed_free(&p);
    placed_free(&again);
    cues_free(&cues);
    buf_free(&file);
    buf_free(&words);
    buf_free(&result);
}

/* Every word of the file is read afterwards, in its order, and none besides; and the same file
 * again changes nothing. */
TEST(no_word_of_a_file_is_lost)
{
    struct long_talk t = {0};

    make_long_talk(&t, 5);
    for (uint64_t round = 0; round < 300; round++) {
        uint64_t seed = round;

        place_edited(t.segments + round * 20, &seed);
    }
    free_long_talk(&t);
}

/* ------------------------------------------------------------------------------- memory */

static int place_all(void *arg, struct err *err)
{
    struct cues cues = {0};
    struct placed p = {0};
    int rc = cues_parse(CUES_SRT, arg, &cues, err);

    if (rc == 0)
        rc = place_cues(talk, TALK, &cues, &p, err);
    placed_free(&p);
    cues_free(&cues);
    return rc;
}

TEST(memory_runs_out)
{
    assert_true(nomem_each(place_all, (void *)(S1 T2 "Nobody else\n\n" S3 S4)) > 20);
}

TEST_MAIN(NULL, NULL)
