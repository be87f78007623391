/* What becomes of corrections when a recording is transcribed anew, pinned or forgotten. */
#include "tests/unit/store/corrections_fixture.h"

TEST(carried_to_another_model_and_back)
{
    struct store *st = catalog_new();
    struct err e = {0};
    char *before;

    hear(st, &stage_nano, nano, 3);
    correct(st, 0, "good evening my name is Eva S\u00e1nchez");
    correct(st, 1, "we came to Lisbon in winter");
    correct(st, 2, "and that was it");
    before = rows_now();
    hear(st, &stage_tiny, tiny, 3);
    assert_string_equal(text_of(LIST), "Ana Sanches>Eva S\u00e1nchez:conflict, "
                                       "Lisboa>Lisbon:applied, um>:agreed");
    assert_string_equal(reads(0), tiny[0].text);
    assert_string_equal(reads(1), "We came to Lisbon, in winter.");
    assert_string_equal(text_of("SELECT text FROM segment WHERE segment_id = 2"), nano[1].text);
    assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 'lisbon'"), 1);
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 1});
    rows_are(before);
    assert_string_equal(text_of(LIST), "Ana Sanches>Eva S\u00e1nchez:applied, "
                                       "Lisboa>Lisbon:applied, um>:applied");
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 0});
    assert_int_equal(count_of("SELECT count(*) FROM corrections WHERE state = 'conflict'"), 1);
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "Good evening. My name is Eva S\u00e1nchez.");
    assert_string_equal(text_of("SELECT state || decided_by FROM correction"), "agreedeva");
    assert_int_equal(decide(st, 1, false, &e), ERR_INPUT);
    assert_says(e.msg, "not in conflict");
    assert_ok(decide(st, 2, true, &e), e);
    assert_string_equal(reads(1), tiny[1].text);
    assert_int_equal(decide(st, 2, true, &e), ERR_INPUT);
    assert_says(e.msg, "undone already");
    free(before);
    catalog_close(st);
}

static int take_heard_now(void *arg, const struct read_correction *c)
{
    snprintf(arg, 100, "%s|%s|%s", c->state, c->heard_now, c->path);
    return 0;
}

/* What nobody hears any more is put beside what is heard near it; what is heard nowhere near stays
 * in conflict, and so does what would take half of another one's words. */
TEST(how_conflicts_are_decided)
{
    static const struct line there[] = {{0, 4000, "we saw the old red house there", true},
                                        {60000, 61000, "far away", true}};
    static const struct line anew[] = {{0, 2280, "we saw the cold", true},
                                       {3430, 4000, "there", true}};
    struct store *st = catalog_new();
    struct err e = {0};
    char row[100] = "";

    hear(st, &stage_nano, there, 2);
    correct(st, 0, "we saw the old green house there");
    correct(st, 1, "far off");
    correct_as(st, "ana", 0, "we saw the old green house here", true);
    hear(st, &stage_tiny, anew, 2);
    assert_string_equal(text_of(LIST),
                        "red>green:conflict, away>off:conflict, there>here:applied, we saw the old "
                        "red house there>we saw the old green house here:conflict");
    assert_ok(read_corrections(st, &(struct read_corrections){.correction_id = 2}, take_heard_now,
                               row, &e),
              e);
    assert_string_equal(row, "conflict||/a/1.wav");
    assert_ok(read_corrections(st, &(struct read_corrections){.path = "/b", .state = "conflict"},
                               take_heard_now, row, &e),
              e);
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "we saw the cold green");
    assert_string_equal(text_of("SELECT state FROM correction WHERE correction_id = 1"), "agreed");
    assert_int_equal(decide(st, 2, false, &e), ERR_INPUT);
    assert_says(e.msg, "nothing is heard there now");
    assert_ok(decide(st, 4, false, &e), e);
    assert_string_equal(reads(0), "we saw the old green");
    assert_string_equal(reads(1), "house here");
    assert_string_equal(text_of("SELECT state FROM correction WHERE correction_id = 4"),
                        "confirmed");
    assert_int_equal(count_of("SELECT count(*) FROM corrections WHERE state = 'conflict'"), 1);
    catalog_close(st);
}

/* The same short word stands elsewhere nearby: neither is it corrected there, nor does it say that
 * what was meant is read. */
TEST(another_one_is_not_the_word)
{
    static const struct line there[] = {{0, 3200, "we saw a boat come in from the bay", true}};
    static const struct line far[] = {{0, 3200, "we saw no boat come in from a bay", true}};
    static const struct line other[] = {{0, 3200, "we saw uh boat come in from the bay", true}};
    struct store *st = catalog_new();

    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we saw the boat come in from the bay");
    hear(st, &stage_tiny, far, 1);
    assert_string_equal(reads(0), far[0].text);
    assert_string_equal(text_of(LIST), "a>the:conflict");
    catalog_close(st);
    st = catalog_new();
    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we saw the boat come in from the bay");
    hear(st, &stage_tiny, other, 1);
    assert_string_equal(text_of(LIST), "a>the:conflict");
    catalog_close(st);
}

/* Words that are to go: once that holds of what stands there now, nothing is left to decide. */
TEST(what_is_kept_away_is_decided)
{
    static const struct line there[] = {{0, 3200, "we um came to the sea", true}};
    static const struct line anew[] = {{0, 3200, "they hm went to the sea", true}};
    struct store *st = catalog_new();
    struct err e = {0};

    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we came to the sea");
    hear(st, &stage_tiny, anew, 1);
    assert_string_equal(text_of(LIST), "um>:conflict");
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "they went to the sea");
    assert_string_equal(text_of(LIST), "um>:undone, hm>:applied");
    catalog_close(st);
}

/* The other model's times are others: a word beside it that reaches into its time stays. */
TEST(what_is_kept_takes_no_neighbour)
{
    static const struct line there[] = {{0, 3200, "we saw the boat come in", true}};
    static const struct line anew[] = {{100, 3300, "we saw the moat come in", true}};
    struct store *st = catalog_new();
    struct err e = {0};

    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we saw the goat come in");
    hear(st, &stage_tiny, anew, 1);
    assert_string_equal(text_of(LIST), "boat>goat:conflict");
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "we saw the goat come in");
    catalog_close(st);
}

/* A later correction of these words and their neighbour is not undone in silence. */
TEST(what_is_kept_undoes_no_wider_correction)
{
    static const struct line there[] = {{0, 3200, "we saw the boat come in", true}};
    static const struct line anew[] = {{0, 3200, "we saw the moat comes in", true}};
    struct store *st = catalog_new();
    struct err e = {0};

    hear(st, &stage_nano, there, 1);
    correct(st, 0, "we saw the goat come in");
    hear(st, &stage_tiny, anew, 1);
    correct(st, 0, "we saw the ship sailing in");
    assert_string_equal(text_of(LIST), "boat>goat:conflict, moat comes>ship sailing:applied");
    assert_int_equal(decide(st, 1, false, &e), ERR_INPUT);
    assert_says(e.msg, "correction 2 stands on some of the words");
    assert_string_equal(reads(0), "we saw the ship sailing in");
    assert_string_equal(text_of(LIST), "boat>goat:conflict, moat comes>ship sailing:applied");
    assert_ok(decide(st, 2, true, &e), e);
    assert_ok(decide(st, 1, false, &e), e);
    assert_string_equal(reads(0), "we saw the goat comes in");
    catalog_close(st);
}

/* Where the other model begins a segment within what was corrected, each gets its share; corrected
 * again in one of them, the other one's stays, and who made it. */
TEST(over_the_end_of_a_segment)
{
    static const struct line whole[] = {{0, 8000, "my name is Ana Maria Sanches and so on", true}};
    static const struct line parted[] = {{0, 4400, "my name is Ana Maria", true},
                                         {4400, 8000, "Sanches, and so on", true}};
    struct store *st = catalog_new();

    hear(st, &stage_nano, whole, 1);
    correct(st, 0, "my name is Eva Marta S\u00e1nchez and so on");
    hear(st, &stage_tiny, parted, 2);
    assert_string_equal(text_of(LIST), "Ana Maria Sanches>Eva Marta S\u00e1nchez:applied");
    assert_string_equal(reads(0), "my name is Eva Marta");
    assert_string_equal(reads(1), "S\u00e1nchez, and so on");
    assert_int_equal(count_of("SELECT count(*) FROM correction_at"), 2);
    correct_as(st, "eva", 0, "my name is Eva Maria", false);
    assert_string_equal(reads(0), "my name is Eva Maria");
    assert_string_equal(reads(1), "S\u00e1nchez, and so on");
    assert_string_equal(text_of("SELECT group_concat(made_by || ' ' || said || '>' || meant || ':' "
                                "|| state, ', ') FROM correction"),
                        "ana Ana Maria Sanches>Eva Marta S\u00e1nchez:undone, "
                        "eva Ana>Eva:applied, ana Sanches,>S\u00e1nchez,:applied");
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 1});
    assert_string_equal(reads(0), "my name is Eva Maria S\u00e1nchez and so on");
    catalog_close(st);
}

/* The same with both segments in one request: one that keeps it, one that does not, in either
 * order.
 */
TEST(over_the_end_of_a_segment_at_once)
{
    static const struct line whole[] = {{0, 8000, "my name is Ana Maria Sanches and so on", true}};
    static const struct line parted[] = {{0, 4400, "my name is Ana Maria", true},
                                         {4400, 8000, "Sanches, and so on", true}};
    static const char *const texts[2][2] = {{"my name is Eva Marta", "Sanches, and so on"},
                                            {"my name is Ana Maria", "S\u00e1nchez, and so on"}};

    for (int k = 0; k < 2; k++) {
        struct store *st = catalog_new();
        struct request_correction c[2];

        hear(st, &stage_nano, whole, 1);
        correct(st, 0, "my name is Eva Marta S\u00e1nchez and so on");
        hear(st, &stage_tiny, parted, 2);
        for (int i = 0; i < 2; i++)
            c[i] =
                (struct request_correction){segment(i), parted[i].text, texts[k][i], false, NULL};
        apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                       .corrections = c,
                                       .count = 2,
                                       .made_by = "eva",
                                       .source = ""});
        assert_string_equal(reads(0), texts[k][0]);
        assert_string_equal(reads(1), texts[k][1]);
        assert_int_equal(count_of("SELECT count(*) FROM correction WHERE state = 'undone'"), 1);
        assert_string_equal(text_of("SELECT made_by FROM correction WHERE state = 'applied'"),
                            "ana");
        catalog_close(st);
    }
}

/* Who speaks is found for the machine's words, too, and for those that people put in; the segment
 * is parted between the two. */
TEST(speakers_of_corrected_words)
{
    static const struct result_turn said[] = {{0, 2000, 0}, {2000, 9000, 1}};
    static const struct result_speaker people[] = {{2000, NULL}, {7000, NULL}};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t task;
    char *before;

    hear(st, &stage_nano, nano, 1);
    correct(st, 0, "good evening my name isn't really Ana Sanches");
    task = ask(st, &stage_voices);
    voices_put(st, task, 0);
    assert_ok(store_task_total(st, task, 1, &e), e);
    assert_ok(store_finalized(st, task, &(struct result_people){0, 2, 2, people, said}, &e), e);
    assert_string_equal(text_of("SELECT group_concat(text || ':' || speaker_id, '') FROM word"),
                        " good:1 evening:1 my:1 name:1 isn't:2 really:2 Ana:2 Sanches:2");
    correct(st, 1, "is Ana Sanches");
    assert_string_equal(text_of("SELECT group_concat(text || ':' || speaker_id, '') FROM word"),
                        " good:1 evening:1 my:1 name:1 is:2 Ana:2 Sanches:2");
    before = rows_now();
    correct(st, 0, "good night my name");
    assert_int_equal(count_of("SELECT speaker_id FROM word WHERE text = ' night'"), 1);
    correct(st, 0, "good evening my name");
    rows_are(before);
    free(before);
    catalog_close(st);
}

/* Its pieces come one by one, and what is in conflict is looked at again with each. */
TEST(piece_by_piece)
{
    static const struct line late[] = {{301000, 303000, "that was in Lisboa then", true}};
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t task = ask(st, &stage_nano);

    put_lines(st, task, 0, nano, 3);
    put_lines(st, task, 1, late, 1);
    assert_ok(store_task_total(st, task, 2, &e), e);
    correct(st, 3, "that was in Lisbon then");
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 1});
    task = ask(st, &stage_tiny);
    put_lines(st, task, 0, nano, 3);
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:conflict");
    put_lines(st, task, 1, late, 1);
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:applied");
    assert_ok(store_task_total(st, task, 2, &e), e);
    assert_string_equal(reads(3), "that was in Lisbon then");
    catalog_close(st);
}

TEST(forgotten_and_heard_again)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    correct(st, 1, "we came to Lisbon in winter");
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 1});
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:conflict");
    assert_int_equal(count_of("SELECT count(*) FROM correction_at"), 0);
    hear(st, &stage_nano, nano, 3);
    assert_string_equal(text_of(LIST), "Lisboa>Lisbon:applied");
    assert_string_equal(reads(1), "we came to Lisbon in winter");
    catalog_close(st);
}

/* ------------------------------------------------------------------------- a thousand of them
 *
 * What is really said, as two models hear it, each with errors of its own; a thousand words of the
 * first one's are mended. Words that a model made up begin with x (the first) or y, those that
 * people put in with m: each is there once. */
#define SAID 3000
#define EDITS 1000 /* of every third word */
#define WORD_MS 400

static uint32_t chance = 20261124;

static uint32_t draw(uint32_t below)
{
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % below;
}

static char truth[SAID][12];
static char nano_word[SAID][12], tiny_word[SAID][24]; /* "": not heard */
enum edit { MENDED, REPLACED, PUT_IN, TAKEN_OUT };
static enum edit edits[EDITS];

static void make_words(void)
{
    for (int i = 0; i < SAID; i++) {
        snprintf(truth[i], sizeof(truth[i]), "%s%u", draw(3) ? "w" : "c",
                 draw(3) ? draw(900) : draw(12));
        snprintf(nano_word[i], sizeof(nano_word[i]), "%s", truth[i]);
        if (draw(6) == 0)
            snprintf(nano_word[i], sizeof(nano_word[i]), "x%d", i);
        snprintf(tiny_word[i], sizeof(tiny_word[i]), "%s", truth[i]);
        if (draw(10) == 0)
            snprintf(tiny_word[i], sizeof(tiny_word[i]), "y%d", i);
        if (draw(20) == 0)
            tiny_word[i][0] = 0;
    }
}

/* Segments of so many words, with times of words in every other one, some words from where they
 * are said. */
static size_t make_lines(struct line *lines, char texts[][800], int length, int shift_ms,
                         const char *(*word)(int i))
{
    size_t n = 0;

    for (int i = 0; i < SAID; i += length, n++) {
        char *to = texts[n];

        *to = 0;
        for (int k = i; k < i + length && k < SAID; k++)
            if (*word(k))
                to += snprintf(to, 50, "%s%s", to == texts[n] ? "" : " ", word(k));
        lines[n] = (struct line){i * WORD_MS + shift_ms, (i + length) * WORD_MS + shift_ms,
                                 texts[n], n % 2 == 0};
    }
    return n;
}

static const char *as_nano(int i) { return nano_word[i]; }

static const char *as_tiny(int i)
{
    static char out[32];

    snprintf(out, sizeof(out), "%s%s", tiny_word[i], *tiny_word[i] && i % 7 == 6 ? "." : "");
    if (i % 7 == 0 && *out >= 'a')
        *out = (char)(*out - 'a' + 'A');
    return out;
}

static const char *as_mended(int i)
{
    static char out[32];
    int e = i / 3;

    if (i % 3 != 1)
        return nano_word[i];
    if (edits[e] == MENDED)
        return truth[i];
    if (edits[e] == TAKEN_OUT)
        return "";
    if (edits[e] == REPLACED)
        snprintf(out, sizeof(out), "m%d", i);
    else
        snprintf(out, sizeof(out), "%s m%d", nano_word[i], i);
    return out;
}

/* Words alone, in small letters, a blank around each. */
static void plain(char *to, size_t cap, const char *from)
{
    size_t n = 0;

    to[n++] = ' ';
    for (; *from && n + 2 < cap; from++)
        if (*from == ' ' && to[n - 1] != ' ')
            to[n++] = ' ';
        else if ((*from >= 'a' && *from <= 'z') || (*from >= '0' && *from <= '9'))
            to[n++] = *from;
        else if (*from >= 'A' && *from <= 'Z')
            to[n++] = (char)(*from + 32);
    if (to[n - 1] != ' ')
        to[n++] = ' ';
    to[n] = 0;
}

/* What the transcript reads around a time. */
static const char *around(int64_t start_ms, int64_t end_ms)
{
    static char out[8000];
    char text[4000], sql[400];

    snprintf(sql, sizeof(sql),
             "SELECT group_concat(text, ' ') FROM (SELECT text FROM transcript "
             "WHERE start_ms <= %lld AND end_ms >= %lld ORDER BY start_ms)",
             (long long)(end_ms + 2000), (long long)(start_ms - 2000));
    {
        sqlite3_stmt *stmt = own_row(sql);

        snprintf(text, sizeof(text), "%s", (const char *)sqlite3_column_text(stmt, 0));
        own_done(stmt);
    }
    plain(out, sizeof(out), text);
    return out;
}

struct tally {
    int applied, agreed, conflict, wrong;
};

/* Applied or agreed: it reads so. */
static int on_correction(void *arg, const struct read_correction *c)
{
    struct tally *t = arg;
    char meant[300], said[300];
    bool reads_so;

    plain(meant, sizeof(meant), c->meant);
    plain(said, sizeof(said), c->said);
    reads_so = strstr(around(c->start_ms, c->end_ms), meant) != NULL;
    t->applied += strcmp(c->state, "applied") == 0;
    t->agreed += strcmp(c->state, "agreed") == 0;
    t->conflict += strcmp(c->state, "conflict") == 0;
    if (strcmp(c->state, "conflict") != 0 && !reads_so) {
        print_error("%lld: '%s' -> '%s' is %s, and not read\n", (long long)c->correction_id,
                    c->said, c->meant, c->state);
        t->wrong++;
    }
    if (strcmp(c->state, "conflict") == 0 && !*c->heard_now)
        t->wrong++;
    return 0;
}

/* Of the edit of word i, by the word that is there once. */
static const char *state_of(const char *column, const char *word)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT ifnull((SELECT state FROM correction WHERE %s = '%s' OR %s LIKE '%% %s'), "
             "'none')",
             column, word, column, word);
    return text_of(sql);
}

/* Is this word of the first one's alone for so far that it cannot be taken for another? */
static bool alone(int i)
{
    for (int k = i - 12; k <= i + 12; k++)
        if (k >= 0 && k < SAID && k != i &&
            (!strcmp(nano_word[k], nano_word[i]) || !strcmp(tiny_word[k], nano_word[i])))
            return false;
    return true;
}

/* Is one of the words beside it heard alike? Where none is, and its time is only guessed, it may be
 * another one. */
static bool known_beside(int i)
{
    return !strcmp(nano_word[i - 1], tiny_word[i - 1]) ||
           !strcmp(nano_word[i + 1], tiny_word[i + 1]);
}

/* What must have become of those of which it can be known. */
static void check_known(int *known)
{
    char word[16];

    for (int e = 0; e < EDITS; e++) {
        int i = e * 3 + 1;
        bool same = !strcmp(tiny_word[i], nano_word[i]) && alone(i) && known_beside(i);

        snprintf(word, sizeof(word), "m%d", i);
        if (edits[e] == REPLACED && same) {
            assert_string_equal(state_of("meant", word), "applied");
            ++*known;
        } else if (edits[e] == REPLACED && !*tiny_word[i] && alone(i)) {
            assert_string_equal(state_of("meant", word), "conflict");
            ++*known;
        } else if (edits[e] == MENDED && !strcmp(tiny_word[i], truth[i]) && known_beside(i)) {
            assert_string_equal(state_of("said", nano_word[i]), "agreed");
            ++*known;
        }
    }
}

/* All segments at once: these are to read so. */
static uint64_t correct_all(struct store *st, const struct line *heard, const struct line *text,
                            size_t n)
{
    static struct request_correction c[SEGMENTS];

    own_kept = true;
    for (size_t i = 0; i < n; i++)
        c[i] =
            (struct request_correction){segment((int)i), heard[i].text, text[i].text, false, NULL};
    own_close();
    return apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                          .corrections = c,
                                          .count = (uint32_t)n,
                                          .made_by = "ana",
                                          .source = "file all.srt"})
        .affected;
}

TEST(a_thousand_edits_and_another_model)
{
    static struct line a[SEGMENTS], b[SEGMENTS], m[SEGMENTS];
    static char a_texts[SEGMENTS][800], b_texts[SEGMENTS][800], m_texts[SEGMENTS][800];
    struct store *st = catalog_new();
    struct err e = {0};
    struct tally t = {0};
    size_t n, count;
    int known = 0;
    char *before, *machine;

    make_words();
    for (int i = 0; i < EDITS; i++)
        edits[i] = nano_word[i * 3 + 1][0] == 'x' ? MENDED : (enum edit)(1 + draw(3));
    n = make_lines(a, a_texts, 10, 0, as_nano);
    hear(st, &stage_nano, a, n);
    machine = rows_now();
    assert_int_equal(make_lines(m, m_texts, 10, 0, as_mended), n);
    assert_int_equal(correct_all(st, a, m, n), n);
    own_kept = true;
    for (size_t i = 0; i < n; i++)
        assert_string_equal(reads((int)i), m_texts[i]);
    count = (size_t)count_of("SELECT count(*) FROM correction");
    assert_in_range(count, EDITS - 20, EDITS + 20); /* one may be seen as two */
    assert_int_equal(count_of("SELECT count(*) FROM correction WHERE state = 'applied'"), count);
    before = rows_now();
    own_close();
    hear(st, &stage_tiny, b, make_lines(b, b_texts, 7, 130, as_tiny));
    own_kept = true;
    assert_ok(read_corrections(st, &(struct read_corrections){0}, on_correction, &t, &e), e);
    assert_int_equal(t.wrong, 0);
    assert_int_equal(t.applied + t.agreed + t.conflict, count);
    check_known(&known);
    print_message("%d applied, %d agreed, %d in conflict; %d known before\n", t.applied, t.agreed,
                  t.conflict, known);
    assert_in_range(known, EDITS * 3 / 10, EDITS);
    assert_int_equal(count_of("SELECT count(*) FROM corrections WHERE state = 'conflict'"),
                     t.conflict);
    own_close();
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 1});
    rows_are(before);
    assert_int_equal(correct_all(st, a, a, n), n);
    rows_are(machine);
    free(before);
    free(machine);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
