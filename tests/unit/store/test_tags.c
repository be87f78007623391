/* What the archive says of itself: dates in all their forms, tags that decodings find and people
 * write, and what follows from them. */
#include "store/results/recorded.h"
#include "tests/unit/store/fixture.h"

TEST(dates_are_told)
{
    static const char *const table[][2] = {
        {"2003", "2003"},
        {" 2003 \r\n", "2003"},
        {"2003-05", "2003-05"},
        {"2003-05-17", "2003-05-17"},
        {"2003:05:17", "2003-05-17"},
        {"2003/05/17", "2003-05-17"},
        {"2003.05.17", "2003-05-17"},
        {"20030517", "2003-05-17"},
        {"2003-05-17T21:30:00Z", "2003-05-17"},
        {"2003-05-17 21:30", "2003-05-17"},
        {"2003:05:17 21:30:00", "2003-05-17"},
        {"20030517T213000", "2003-05-17"},
        {"2003-00-00", "2003"},
        {"2003-05-00", "2003-05"},
        {"2004-02-29", "2004-02-29"},
        {"2000-02-29", "2000-02-29"},
        {"1850", "1850"},
        {"2027", "2027"},
        {"2003-02-29", NULL},
        {"1900-02-29", NULL},
        {"2003-04-31", NULL},
        {"2003-13-01", NULL},
        {"2003-00-17", NULL},
        {"1849", NULL},
        {"2028", NULL},
        {"0000-00-00", NULL},
        {"200305", NULL},
        {"2003-5-17", NULL},
        {"2003-05-1", NULL},
        {"2003-05/17", NULL},
        {"2003-", NULL},
        {"2003-05-", NULL},
        {"2003-05T10:00", NULL},
        {"2003 or so", NULL},
        {"2003?", NULL},
        {"20030517123", NULL},
        {"17.05.2003", NULL},
        {"05/17/2003", NULL},
        {"21:30:00", NULL},
        {"", NULL},
        {"MMIII", NULL},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char got[RECORDED_LEN] = "untouched";
        bool is = recorded_date(table[i][0], 2027, got);

        if (is != (table[i][1] != NULL) || strcmp(got, is ? table[i][1] : "untouched") != 0)
            fail_msg("'%s' is %s", table[i][0], got);
    }
}

TEST(some_tags_are_believed_sooner)
{
    assert_int_equal(recorded_rank("csv", "Recorded-on"), 1);
    assert_true(recorded_rank("csv", "Date of recording") < recorded_rank("csv", "Date"));
    assert_true(recorded_rank("csv", "Date") < recorded_rank("csv", "YEAR"));
    assert_int_equal(recorded_rank("csv", "date of birth"), 0);
    assert_int_equal(recorded_rank("csv", "dat"), 0);
    assert_int_equal(recorded_rank("chapter", "date"), 0);
    assert_true(recorded_rank("csv", "date") < recorded_rank("bext", "origination_date"));
    assert_true(recorded_rank("bext", "origination_date") < recorded_rank("container", "date"));
    assert_true(recorded_rank("stream", "DATE") < recorded_rank("container", "TORY"));
    assert_true(recorded_rank("container", "TORY") < recorded_rank("container", "creation_time"));
}

/* ---- in the catalog */

static struct store *with_two(void)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/archive/a.wav", "", 1);
    job_add1(st, job, "/archive/b.wav", "", 2);
    return st;
}

static void found(struct store *st, const struct result_tag *tags, uint32_t n)
{
    struct store_media_info info = {60000, 44100, 2, "wav", "pcm", tags, n, 1, false};
    struct err e = {0};

    assert_ok(store_media(st, 1, &info, NULL, &e), e);
}

static uint64_t described(struct store *st, int64_t media_id, const char *key, const char *value)
{
    const struct store_said said = {key, value};
    const struct request_description d = {media_id, &said, 1};
    struct request rq = {.type = REQUEST_DESCRIBE, .descriptions = &d, .count = 1};
    struct request_reply reply = {0};
    struct err e = {0};

    assert_ok(request_apply(st, &rq, &reply, &e), e);
    return reply.affected;
}

#define RECORDED "SELECT ifnull(recorded_on, '-') || ' ' || ifnull(recorded_from, '-') FROM media"
#define TITLE "SELECT title FROM media WHERE media_id = 1"

TEST(what_is_found_takes_the_place_of_what_was)
{
    static const struct result_tag first[] = {
        {"container", "date", "1999", 0, 0},  {"container", "artist", "Ana", 0, 0},
        {"container", "ARTIST", "Eva", 0, 0}, {"container", "title", "El\npuerto", 0, 0},
        {"chapter", "title", "", 0, 9000},    {"chapter", "title", "Mar", 9000, 9500}};
    static const struct result_tag second[] = {{"stream", "title", "Otro", 0, 0}};
    struct store *st = with_two();

    found(st, first, 6);
    found(st, first, 6);
    assert_int_equal(count_of("SELECT count(*) FROM tag"), 6);
    assert_string_equal(text_of("SELECT group_concat(seq || value, ',') FROM tags "
                                "WHERE key = 'Artist' AND path = '/archive/a.wav'"),
                        "0Ana,1Eva");
    assert_string_equal(text_of("SELECT group_concat(start || title, ',') FROM chapters"),
                        "0:00,0:09Mar");
    assert_string_equal(text_of(TITLE), "El puerto");
    assert_string_equal(text_of(RECORDED), "1999 container:date");
    found(st, second, 1);
    assert_int_equal(count_of("SELECT count(*) FROM tag"), 1);
    assert_string_equal(text_of(TITLE), "Otro");
    assert_string_equal(text_of(RECORDED), "- -");
    catalog_close(st);
}

TEST(the_day_is_told_by_who_knows_best)
{
    static const struct result_tag tags[] = {
        {"container", "creation_time", "2010-01-02T03:04:05Z", 0, 0},
        {"container", "date", "someday", 0, 0},
        {"stream", "date", "2009", 0, 0},
        {"bext", "origination_date", "2008:07:06", 0, 0}};
    static const struct result_tag epoch = {"container", "creation_time", "1970-01-01T00:00:00Z", 0,
                                            0};
    struct store *st = with_two();

    found(st, tags, 1);
    assert_string_equal(text_of(RECORDED), "2010-01-02 container:creation_time");
    found(st, tags, 3);
    assert_string_equal(text_of(RECORDED), "2009 stream:date");
    found(st, tags, 4);
    assert_string_equal(text_of(RECORDED), "2008-07-06 bext:origination_date");
    assert_int_equal(described(st, 1, "Recorded", "2007-05"), 1);
    assert_string_equal(text_of(RECORDED), "2007-05 csv:Recorded");
    described(st, 1, "recorded", "nobody knows");
    assert_string_equal(text_of(RECORDED), "2008-07-06 bext:origination_date");
    found(st, &epoch, 1);
    assert_string_equal(text_of(RECORDED), "- -");
    catalog_close(st);
}

TEST(what_people_say_stays)
{
    static const struct result_tag tags[] = {{"container", "title", "TRACK01", 0, 0}};
    struct store *st = with_two();

    found(st, tags, 1);
    assert_int_equal(described(st, 1, "Title", "El mercado"), 1);
    assert_int_equal(described(st, 1, "box", "7"), 1);
    found(st, tags, 1);
    assert_string_equal(text_of(TITLE), "El mercado");
    assert_int_equal(described(st, 1, "BOX", "8"), 1);
    assert_string_equal(text_of("SELECT group_concat(key || value) FROM tags WHERE key = 'box'"),
                        "BOX8");
    assert_int_equal(described(st, 1, "title", ""), 1);
    assert_string_equal(text_of(TITLE), "TRACK01");
    assert_int_equal(described(st, 99, "box", "8"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM tag WHERE media_id <> 1"), 0);
    catalog_close(st);
}

TEST(several_values_of_a_key_are_kept_in_order)
{
    static const struct store_said said[] = {{"speaker", "Ana"}, {"Speaker", "Eva"}},
                                   later[] = {{"speaker", "Luz"}};
    struct request_description d[] = {{1, said, 2}, {2, said, 1}};
    struct request rq = {.type = REQUEST_DESCRIBE, .descriptions = d, .count = 2};
    struct store *st = with_two();

    apply_ok(st, &rq);
    assert_string_equal(text_of("SELECT group_concat(value) FROM tags WHERE media_id = 1"),
                        "Ana,Eva");
    d[0] = (struct request_description){1, later, 1};
    apply_ok(st, &rq);
    assert_string_equal(text_of("SELECT group_concat(value) FROM tags WHERE media_id = 1"), "Luz");
    catalog_close(st);
}

TEST(impossible_descriptions_are_refused)
{
    static char longest[RESULT_TAG_VALUE_MAX + 2];
    const struct store_said bad[] = {{"", "x"},      {"a\nb", "x"},      {"a", "\x1b"},
                                     {"a", "x\xff"}, {"a", "x\xc2\x85"}, {"a", longest}};
    struct store *st = with_two();

    memset(longest, 'x', sizeof(longest) - 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct store_said said[] = {{"good", "x"}, bad[i]};
        struct request_description d = {1, said, 2};
        struct request rq = {.type = REQUEST_DESCRIBE, .descriptions = &d, .count = 1};
        struct request_reply reply = {0};
        struct err e = {0};

        assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    }
    assert_int_equal(count_of("SELECT count(*) FROM tag"), 0);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
