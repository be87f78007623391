/* What people correct: segments as they read, and words with their times. */
#include "tests/unit/store/corrections_fixture.h"

TEST(a_segment_reads_as_it_was_corrected)
{
    struct store *st = catalog_new();
    char *before;

    hear(st, &stage_nano, nano, 3);
    before = rows_now();
    assert_int_equal(correct(st, 0, "good evening,  my name is Ana S\u00e1nchez"), 1);
    assert_string_equal(reads(0), "good evening, my name is Ana S\u00e1nchez");
    assert_string_equal(text_of("SELECT heard FROM transcript"), nano[0].text);
    assert_string_equal(text_of(LIST), "evening>evening,:applied, Sanches>S\u00e1nchez:applied");
    assert_string_equal(text_of("SELECT group_concat(said || '/' || before || '/' || after, ', ') "
                                "FROM correction"),
                        "evening/good/my name, Sanches/is Ana/we came");
    assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 's\u00e1nchez'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 'sanches'"), 0);
    /* Words that stayed have all they had; the new ones the time of the old. */
    assert_string_equal(text_of("SELECT group_concat(text || start_ms || '-' || end_ms || "
                                "ifnull(probability, '?')) FROM word WHERE segment_id = 1"),
                        " good0-5710.5, evening,571-1142?, my1142-17140.5, name1714-22850.5,"
                        " is2285-28570.5, Ana2857-34280.5, S\u00e1nchez3428-4000?");
    assert_int_equal(correct(st, 0, "good evening,  my name is Ana S\u00e1nchez"), 0);
    assert_int_equal(correct(st, 0, nano[0].text), 1);
    assert_string_equal(text_of(LIST), "evening>evening,:undone, Sanches>S\u00e1nchez:undone");
    rows_are(before);
    free(before);
    catalog_close(st);
}

/* Who made a change, and when, stays while others are made beside it. */
TEST(what_is_as_it_was_keeps_who_made_it)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    correct_as(st, "ana", 1, "we came to Lisbon in winter", false);
    correct_as(st, "eva", 1, "we came to Lisbon in the winter", false);
    correct_as(st, "ivo", 1, "we came to Lisbon this winter", false);
    assert_string_equal(text_of("SELECT group_concat(made_by || ' ' || said || '>' || meant || ':' "
                                "|| state, ', ') FROM correction"),
                        "ana Lisboa>Lisbon:applied, eva in>in the:undone, ivo in>this:applied");
    assert_string_equal(text_of("SELECT group_concat(decided_by) FROM correction"), "ivo");
    catalog_close(st);
}

TEST(words_come_and_go)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    correct(st, 2, "and that was it");
    assert_string_equal(reads(2), "and that was it");
    correct(st, 2, "");
    assert_string_equal(reads(2), "");
    assert_int_equal(count_of("SELECT count(*) FROM transcript"), 2);
    assert_int_equal(count_of("SELECT count(*) FROM transcript_all"), 3);
    assert_string_equal(text_of("SELECT heard FROM transcript_all WHERE text = ''"), nano[2].text);
    correct(st, 2, "so and um that was it then");
    assert_string_equal(text_of("SELECT group_concat(said || '>' || meant) FROM correction "
                                "WHERE state = 'applied'"),
                        "and>so and,it>it then");
    catalog_close(st);
}

TEST(what_is_confirmed_is_no_doubt)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    assert_int_equal(count_of("SELECT count(*) FROM doubts"), 3);
    assert_int_equal(correct_as(st, "ana", 0, nano[0].text, true), 1);
    assert_int_equal(correct_as(st, "ana", 0, nano[0].text, true), 0);
    correct(st, 1, "we came to Lisbon in winter");
    assert_string_equal(text_of("SELECT group_concat(text) FROM doubts"), nano[2].text);
    assert_string_equal(text_of("SELECT state || confirms FROM correction"), "confirmed1");
    assert_int_equal(correct(st, 0, "good evening my name is Eva Sanches"), 1);
    assert_string_equal(text_of("SELECT state FROM correction"), "undone");
    catalog_close(st);
}

TEST(what_is_refused)
{
    struct store *st = catalog_new();
    struct request_reply reply = {0};
    struct err e = {0};
    struct request_correction c[2] = {{1, nano[0].text, "yes", false, NULL},
                                      {2, "other", "no", false, NULL}};
    struct request rq = {
        .type = REQUEST_CORRECT, .corrections = c, .count = 2, .made_by = "ana", .source = ""};

    hear(st, &stage_nano, nano, 3);
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "others by now");
    assert_int_equal(count_of("SELECT count(*) FROM correction"), 0);
    c[1] = c[0];
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "in it twice");
    assert_string_equal(reads(0), nano[0].text);
    c[1] = (struct request_correction){99, "", "", false, NULL};
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "others by now");
    c[0].text = "a\x01";
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "control characters");
    rq.made_by = "";
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "of nobody");
    assert_int_equal(decide(st, 7, true, &e), ERR_INPUT);
    assert_says(e.msg, "no correction 7");
    catalog_close(st);
}

TEST(what_somebody_else_changed_meanwhile)
{
    struct store *st = catalog_new();
    struct request_reply reply = {0};
    struct err e = {0};
    struct request_correction c[] = {
        {1, nano[0].text, "good evening my name is Eva", false, nano[0].text},
        {2, nano[1].text, "we came to Lisbon in winter", false, nano[1].text}};
    const struct request rq = {
        .type = REQUEST_CORRECT, .corrections = c, .count = 2, .made_by = "ana", .source = ""};

    hear(st, &stage_nano, nano, 3);
    correct_as(st, "eva", 1, "we came to Lisboa in summer", false);
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_says(e.msg, "segment 2 reads otherwise by now");
    assert_string_equal(reads(0), nano[0].text);
    assert_string_equal(reads(1), "we came to Lisboa in summer");
    c[1].was = "we came to Lisboa in summer";
    assert_int_equal(apply_ok(st, &rq).affected, 2);
    assert_string_equal(reads(1), c[1].text);
    /* The same once more: what it was to read it reads. */
    assert_int_equal(apply_ok(st, &rq).affected, 0);
    c[1].was = "";
    c[1].text = "";
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_string_equal(reads(1), "we came to Lisbon in winter");
    catalog_close(st);
}

/* What fails leaves nothing behind; what is done in the end is whole. */
static int correct_once(void *arg, struct err *err)
{
    const struct request_correction c[] = {
        {1, nano[0].text, "good evening my name is Eva", true, NULL},
        {2, nano[1].text, "we went to Lisbon", false, NULL}};
    struct request_reply reply = {0};

    return request_apply(
        arg,
        &(struct request){
            .type = REQUEST_CORRECT, .corrections = c, .count = 2, .made_by = "ana", .source = ""},
        &reply, err);
}

static int decide_once(void *arg, struct err *err) { return decide(arg, 2, false, err); }

static int pin_once(void *arg, struct err *err)
{
    struct request_reply reply = {0};

    return request_apply(arg, &(struct request){.type = REQUEST_PIN, .stage_id = 1}, &reply, err);
}

TEST(memory_that_runs_out)
{
    struct store *st = catalog_new();

    hear(st, &stage_nano, nano, 3);
    assert_true(nomem_each(correct_once, st) > 40);
    assert_string_equal(text_of(LIST),
                        "Ana Sanches>Eva:applied, good evening my name is Ana Sanches>"
                        "good evening my name is Eva:confirmed, came>went:applied, "
                        "Lisboa in winter>Lisbon:applied");
    hear(st, &stage_tiny, tiny, 3);
    assert_int_equal(decide(st, 1, true, &(struct err){0}), 0);
    assert_int_equal(count_of("SELECT count(*) FROM correction WHERE state = 'conflict'"), 1);
    assert_true(nomem_each(decide_once, st) > 40);
    assert_true(nomem_each(pin_once, st) > 40);
    assert_string_equal(reads(1), "we went to Lisbon");
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
