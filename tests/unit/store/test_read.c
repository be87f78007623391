/* What the command line reads: recordings, names, transcripts, search, lists. */
#include <math.h>

#include "store/search/query.h"
#include "store/read/read.h"
#include "tests/unit/store/fixture.h"

struct seen {
    size_t n;
    char text[64][256];
    int stop_at;
};

static int stop(struct seen *s) { return s->stop_at && (int)s->n >= s->stop_at ? 7 : 0; }

static int on_recording(void *arg, const struct read_recording *r)
{
    struct seen *s = arg;

    assert_true(s->n < 64);
    snprintf(s->text[s->n++], sizeof(s->text[0]), "%lld %s%s%s %s %s", (long long)r->media_id,
             r->path, *r->member ? "//" : "", r->member, r->state, r->language);
    assert_non_null(r->title);
    assert_non_null(r->damage);
    assert_non_null(r->error);
    return stop(s);
}

static int on_bytes(void *arg, const struct read_recording *r)
{
    struct seen *s = arg;

    assert_true(s->n < 64);
    snprintf(s->text[s->n++], sizeof(s->text[0]), "%.*s", (int)r->member_raw_len,
             (const char *)r->member_raw);
    return 0;
}

static int on_segment(void *arg, const struct read_segment *g)
{
    struct seen *s = arg;

    assert_true(s->n < 64);
    snprintf(s->text[s->n++], sizeof(s->text[0]), "%lld %lld %s", (long long)g->media_id,
             (long long)g->start_ms, g->snippet ? g->snippet : g->text);
    return stop(s);
}

static struct store *filled(void)
{
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1990/tape 1.wav", "", 1);
    job_add1(st, job, "/a/1991/tape 1.wav", "", 2);
    job_add1(st, job, "/a/1991/box.zip", "one.mp3", 3);
    job_add1(st, job, "/a/1991/box.zip", "in/two.mp3", 4);
    job_add1(st, job, "/a/odd\xff.wav", "", 5);
    job_add1(st, job, "/b/copy.wav", "", 1);
    job_end(st, job, "/");
    shard_put(st, 1, 0, (const char *[]){"Der M\xc3\xa4rkt war voll", "nothing else"}, 2);
    shard_put(st, 1, 1, (const char *[]){"the market, again the market"}, 1);
    shard_put(st, 2, 0, (const char *[]){"markets are closed", "it's a \"quoted\" word"}, 2);
    assert_ok(store_task_total(st, 1, 2, &e), e);
    assert_ok(store_task_failed(st, 3, ERR_INPUT, "no audio", -1, &e), e);
    return st;
}

TEST(recordings)
{
    struct store *st = filled();
    struct seen s = {0};
    struct err e = {0};

    assert_ok(read_recordings(st, &(struct read_filter){0}, on_recording, &s, &e), e);
    assert_int_equal(s.n, 5);
    assert_string_equal(s.text[0], "1 /a/1990/tape 1.wav done en");
    assert_string_equal(s.text[1], "2 /a/1991/tape 1.wav started en");
    assert_string_equal(s.text[2], "3 /a/1991/box.zip//one.mp3 failed ");
    assert_string_equal(s.text[3], "4 /a/1991/box.zip//in/two.mp3 pending ");
    assert_string_equal(s.text[4], "5 /a/odd\\xFF.wav pending ");
    s = (struct seen){0};
    assert_ok(read_recordings(st, &(struct read_filter){.path = "/a/1991/"}, on_recording, &s, &e),
              e);
    assert_int_equal(s.n, 3);
    s = (struct seen){0};
    assert_ok(read_recordings(st, &(struct read_filter){.path = "/b"}, on_recording, &s, &e), e);
    assert_int_equal(s.n, 1);
    s = (struct seen){0};
    assert_ok(
        read_recordings(st, &(struct read_filter){.path = "/a/odd\\xFF.wav"}, on_recording, &s, &e),
        e);
    assert_int_equal(s.n, 1);
    s = (struct seen){0};
    assert_ok(read_recordings(st, &(struct read_filter){.state = "failed"}, on_recording, &s, &e),
              e);
    assert_int_equal(s.n, 1);
    s = (struct seen){0};
    assert_ok(read_recordings(st, &(struct read_filter){.with_results = true, .after = 1},
                              on_recording, &s, &e),
              e);
    assert_int_equal(s.n, 1);
    s = (struct seen){.stop_at = 2};
    assert_int_equal(read_recordings(st, &(struct read_filter){0}, on_recording, &s, &e), 7);
    assert_int_equal(s.n, 2);
    s = (struct seen){0};
    assert_ok(read_recordings(st, &(struct read_filter){.limit = 3}, on_recording, &s, &e), e);
    assert_int_equal(s.n, 3);
    catalog_close(st);
}

/* The end of a name before a part of it. */
static int fits(void *arg, const char *name)
{
    const char *what = arg;
    const size_t n = strlen(name), len = strlen(what);

    if (strcmp(what, "no memory") == 0)
        return ERR_NOMEM;
    return n >= len && strcmp(name + n - len, what) == 0 ? 1 : strstr(name, what) ? 2 : 0;
}

TEST(finding_one)
{
    static const struct {
        const char *what;
        int rc;
        int64_t id;
        size_t candidates;
    } table[] = {
        {"2", 0, 2, 0},
        {"77", ERR_MISSING, 0, 0},
        {"99999999999999999999999", ERR_MISSING, 0, 0},
        {"/a/1990/tape 1.wav", 0, 1, 0},
        {"/b/copy.wav", 0, 1, 0},
        {"copy.wav", 0, 1, 0},
        {"tape 1.wav", ERR_USAGE, 0, 2},
        {"1991/tape 1.wav", 0, 2, 0},
        {"copy", 0, 1, 0},
        {"ape 1", ERR_USAGE, 0, 2},
        {"tape", ERR_USAGE, 0, 2},
        {"a", ERR_USAGE, 0, 5},
        {"no memory", ERR_NOMEM, 0, 0},
        {"/a/1991/box.zip", ERR_USAGE, 0, 2},
        {"/a/1991/box.zip//one.mp3", 0, 3, 0},
        {"box.zip//in/two.mp3", 0, 4, 0},
        {"two.mp3", 0, 4, 0},
        {"odd\\xFF.wav", 0, 5, 0},
        {"'; DROP TABLE media; --", ERR_MISSING, 0, 0},
        {"", ERR_USAGE, 0, 0},
        {"%", ERR_MISSING, 0, 0},
    };
    struct store *st = filled();

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct seen s = {0};
        struct err e = {0};
        int64_t id = 0;

        print_message("%s\n", table[i].what);
        assert_int_equal(
            read_find(st, table[i].what, fits, (void *)table[i].what, on_recording, &s, &id, &e),
            table[i].rc);
        assert_int_equal(id, table[i].id);
        assert_int_equal(s.n, table[i].candidates);
    }
    catalog_close(st);
}

/* The name of several members is the first one's; the others say which they are. */
TEST(finding_one_of_a_name)
{
    static const struct {
        const char *what;
        int64_t id;
    } table[] = {
        {"/a/t.tar//take\\xFF.wav", 1},
        {"take\\xFF.wav", 1},
        {"/a/t.tar//take\\xFF.wav (2)", 2},
        {"t.tar//take\\xFF.wav (2)", 2},
    };
    struct store *st = catalog_new();
    struct store_found f[] = {found_at("/a/t.tar", "take\xff.wav", 1),
                              found_at("/a/t.tar", "take\xff.wav", 2)};
    struct seen s = {0};
    struct err e = {0};
    int64_t id;

    f[1].nth = 1;
    job_add(st, job_begin(st, &stage_nano), f, 2);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        print_message("%s\n", table[i].what);
        assert_ok(
            read_find(st, table[i].what, fits, (void *)table[i].what, on_recording, &s, &id, &e),
            e);
        assert_int_equal(id, table[i].id);
    }
    assert_ok(read_recordings(st, &(struct read_filter){0}, on_bytes, &s, &e), e);
    assert_string_equal(s.text[0], "take\xff.wav");
    assert_string_equal(s.text[1], "take\xff.wav (2)");
    catalog_close(st);
}

/* A callback may read on the same store. */
static int nested(void *arg, const struct read_recording *r)
{
    struct store *st = arg;
    struct seen s = {0};
    struct err e = {0};

    assert_ok(read_segments(st, r->media_id, 0, on_segment, &s, &e), e);
    assert_int_equal(s.n, r->segments);
    s = (struct seen){0};
    assert_ok(read_recordings(st, &(struct read_filter){0}, on_recording, &s, &e), e);
    assert_int_equal(s.n, 5);
    return 0;
}

TEST(transcripts)
{
    struct store *st = filled();
    struct seen s = {0};
    struct err e = {0};
    int64_t job;

    assert_ok(read_recordings(st, &(struct read_filter){0}, nested, st, &e), e);
    assert_ok(read_segments(st, 1, 0, on_segment, &s, &e), e);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.text[2], "1 30000 the market, again the market");
    /* A second model is read when it is done, and both when they are asked for. */
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/a/1990/tape 1.wav", "", 1);
    s = (struct seen){0};
    assert_ok(read_segments(st, 1, 0, on_segment, &s, &e), e);
    assert_int_equal(s.n, 3);
    shard_put(st, 6, 0, (const char *[]){"other model"}, 1);
    s = (struct seen){0};
    assert_ok(read_segments(st, 1, 0, on_segment, &s, &e), e);
    assert_int_equal(s.n, 3);
    s = (struct seen){0};
    assert_ok(read_segments(st, 1, 2, on_segment, &s, &e), e);
    assert_int_equal(s.n, 1);
    assert_ok(store_task_total(st, 6, 1, &e), e);
    s = (struct seen){0};
    assert_ok(read_segments(st, 1, 0, on_segment, &s, &e), e);
    assert_int_equal(s.n, 1);
    s = (struct seen){0};
    assert_ok(read_segments(st, 1, 1, on_segment, &s, &e), e);
    assert_int_equal(s.n, 3);
    s = (struct seen){0};
    assert_ok(read_segments(st, 99, 0, on_segment, &s, &e), e);
    assert_int_equal(s.n, 0);
    assert_int_equal(read_recording_by_id(st, 99, on_recording, &s, &e), ERR_MISSING);
    catalog_close(st);
}

TEST(search_words)
{
    static const struct {
        const char *text;
        size_t hits;
    } table[] = {
        {"\"market\"", 1},
        {"market", 2}, /* and markets */
        {"Markets", 2},
        {"markt", 1},
        {"MARKT voll", 1},
        {"\"market\" closed", 0},
        {"market closes", 1}, /* "markets", "closed" */
        {"mark*", 3},
        {"\"market again\"", 1},
        {"\"again market\"", 0},
        {"\"are clos\"*", 1},
        {"it's", 1},
        {"quoted", 1},
        {"market OR closed", 2},
        {"market or closed", 0},
        {"closed OR market again", 2},
        {"(closed OR market) again", 1},
        {"mark* NOT closed", 2},
        {"mark* NOT closed NOT voll", 1},
        {"mark* NOT (closed OR voll)", 1},
        {"market AND again", 1},
        {"NEAR(voll markt, 0)", 0},
        {"NEAR(voll markt, 1)", 1},
        {"NEAR(again \"the mark\"*)", 1},
        {"\"a \"\"quoted\"\" word\"", 1},
        {"market -again", 1},
        {"text:market", 0},
        {"^market", 2},
        {"a\"market\"again", 0},
        {"+market+again", 1},
        {"((((((((((market))))))))))", 2},
    };
    struct store *st = filled();

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct read_search q = {.text = table[i].text};
        struct seen s = {0};
        struct err e = {0};

        print_message("%s\n", table[i].text);
        assert_ok(read_search(st, &q, on_segment, &s, &e), e);
        assert_int_equal(s.n, table[i].hits);
    }
    static const char *const nothing[] = {"",
                                          "   ",
                                          "\"",
                                          "\"\"",
                                          "*",
                                          "- !",
                                          "(\n)",
                                          "market \xe2\x80\x94",
                                          "(market",
                                          "market)",
                                          "\"unclosed mar",
                                          "market AND",
                                          "market \xe2\x82\xac",
                                          "market NOT \xcc\x81"};
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
        struct seen s = {0};
        struct err e = {0};

        assert_int_equal(
            read_search(st, &(struct read_search){.text = nothing[i]}, on_segment, &s, &e),
            ERR_USAGE);
    }
    catalog_close(st);
}

/* Whatever is typed: an answer, or why there is none; never FTS5's. */
TEST(search_survives_anything)
{
    static const char *const pieces[] = {
        "a",    "b ",    " ",    "\"", "*",  "(",  ")",        "-",           "^", ":",
        "+",    "{",     "[",    "'",  "\\", ",",  "\xc3\xa4", "\xff",        "%", " AND ",
        " OR ", " NOT ", "NEAR", "5",  ".",  "/*", "market ",  "\xe2\x80\x94"};
    struct store *st = filled();
    uint32_t seed = 12345, answers = 0;

    for (int round = 0; round < 6000; round++) {
        char text[128] = "";
        struct seen s = {0};
        struct err e = {0};
        int rc;

        for (uint32_t n = 1 + (uint32_t)round % 12; n > 0; n--) {
            seed = seed * 1664525 + 1013904223;
            strcat(text, pieces[(seed >> 8) % (sizeof(pieces) / sizeof(pieces[0]))]);
        }
        rc = read_search(st, &(struct read_search){.text = text}, on_segment, &s, &e);
        if (rc != 0 && (rc != ERR_USAGE || strncmp(e.msg, "at character ", 13) != 0))
            fail_msg("'%s': %s", text, e.msg);
        answers += rc == 0;
    }
    print_message("%u answers\n", answers);
    assert_true(answers > 300);
    catalog_close(st);
}

/* As much as may be typed, in every way in which FTS5's tree could grow too high for it. */
TEST(search_takes_long_texts)
{
    static const char *const parts[] = {
        "market ",    "a OR ",     "a AND ",           "a NOT ",       "\"a b\" ",
        "NEAR(a b) ", "(a OR b) ", "a* OR (b c) NOT ", "a OR b c NOT "};
    static const char deep[] = "a OR b AND c NOT (";
    struct store *st = filled();
    struct seen s = {0};
    struct err e = {0};
    struct buf text = BUF_INIT;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        buf_clear(&text);
        while (text.len + strlen(parts[i]) + 8 < QUERY_BYTES)
            buf_printf(&text, "%s", parts[i]);
        buf_printf(&text, "zz");
        assert_ok(
            read_search(st, &(struct read_search){.text = buf_cstr(&text)}, on_segment, &s, &e), e);
    }
    buf_clear(&text);
    for (int i = 0; i < QUERY_DEPTH; i++)
        buf_printf(&text, "%s", deep);
    buf_printf(&text, "a");
    for (int i = 0; i < QUERY_DEPTH; i++)
        buf_printf(&text, " OR b)");
    assert_ok(read_search(st, &(struct read_search){.text = buf_cstr(&text)}, on_segment, &s, &e),
              e);
    buf_free(&text);
    catalog_close(st);
}

TEST(search_pages)
{
    struct store *st = filled();
    struct seen s = {0};
    struct err e = {0};
    struct read_search q = {.text = "mark*", .by_time = true, .mark_begin = "<", .mark_end = ">"};

    assert_ok(read_search(st, &q, on_segment, &s, &e), e);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.text[0], "1 0 Der <M\xc3\xa4rkt> war voll");
    assert_string_equal(s.text[1], "1 30000 the <market>, again the <market>");
    assert_string_equal(s.text[2], "2 0 <markets> are closed");
    q.limit = 1;
    q.offset = 2;
    s = (struct seen){0};
    assert_ok(read_search(st, &q, on_segment, &s, &e), e);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.text[0], "2 0 <markets> are closed");
    q = (struct read_search){.text = "mark*", .path = "/b/copy.wav"};
    s = (struct seen){0};
    assert_ok(read_search(st, &q, on_segment, &s, &e), e);
    assert_int_equal(s.n, 2);
    q.path = "/a/1991";
    s = (struct seen){.stop_at = 1};
    assert_int_equal(read_search(st, &q, on_segment, &s, &e), 7);
    catalog_close(st);
}

static int on_failure(void *arg, const struct read_failure *f)
{
    struct seen *s = arg;

    snprintf(s->text[s->n++], sizeof(s->text[0]), "%s %s %s %s %u", f->kind, f->path, f->code,
             f->reason, f->attempts);
    return stop(s);
}

static int on_event(void *arg, const struct read_event *v)
{
    struct seen *s = arg;

    snprintf(s->text[s->n++], sizeof(s->text[0]), "%s %s %s %s", v->kind, v->path, v->device,
             v->text);
    return stop(s);
}

static int on_job(void *arg, const struct read_job *j)
{
    struct seen *s = arg;

    snprintf(s->text[s->n++], sizeof(s->text[0]), "%lld %s %llu %llu %llu", (long long)j->job_id,
             j->model, (unsigned long long)j->counts.seen, (unsigned long long)j->counts.added,
             (unsigned long long)j->tasks_done);
    assert_true(*j->ended_at);
    return stop(s);
}

static int on_progress(void *arg, const struct read_progress *p)
{
    struct seen *s = arg;

    snprintf(s->text[s->n++], sizeof(s->text[0]), "%s %llu %llu %llu %llu", p->model,
             (unsigned long long)p->tasks, (unsigned long long)p->pending,
             (unsigned long long)p->done, (unsigned long long)p->failed);
    return stop(s);
}

TEST(lists)
{
    struct store *st = filled();
    struct seen s = {0};
    struct err e = {0};

    assert_ok(store_media(st, 2, NULL,
                          &(struct store_media_end){5000, NULL, "cut off", NULL, NULL, 0}, &e),
              e);
    assert_ok(read_failures(st, NULL, 0, on_failure, &s, &e), e);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.text[0], "failed /a/1991/box.zip input no audio 1");
    assert_string_equal(s.text[1], "damaged /a/1991/tape 1.wav  cut off 0");
    s = (struct seen){0};
    assert_ok(read_failures(st, "damaged", 5, on_failure, &s, &e), e);
    assert_int_equal(s.n, 1);
    for (int i = 0; i < 4; i++) {
        char text[8];

        snprintf(text, sizeof(text), "e%d", i);
        assert_ok(store_event(st, "test", i == 1 ? 2 : 0, "cpu", text, &e), e);
    }
    s = (struct seen){0};
    assert_ok(read_events(st, 0, 3, on_event, &s, &e), e);
    assert_int_equal(s.n, 3);
    assert_string_equal(s.text[0], "test /a/1991/tape 1.wav cpu e1");
    assert_string_equal(s.text[2], "test  cpu e3");
    s = (struct seen){0};
    assert_ok(read_events(st, 3, 0, on_event, &s, &e), e);
    assert_int_equal(s.n, 1);
    s = (struct seen){0};
    assert_ok(read_jobs(st, on_job, &s, &e), e);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.text[0], "1 nano 6 5 1");
    s = (struct seen){0};
    assert_ok(read_progress(st, on_progress, &s, &e), e);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.text[0], "nano 5 3 1 1");
    catalog_close(st);
}

/* Recordings without text, whatever is known of the reason. */
static uint64_t textless(struct store *st, const char *since)
{
    struct err e = {0};
    uint64_t n[TEXTLESS_KINDS], sum = 0;

    assert_ok(store_textless(st, since, n, &e), e);
    for (int i = 0; i < TEXTLESS_KINDS; i++)
        sum += n[i];
    return sum;
}

/* A film without sound is done, is no failure, and nobody is missed in it. */
TEST(what_has_no_sound)
{
    struct store *st = filled();
    struct seen s = {0};
    struct err e = {0};
    uint64_t n = 9;

    shard_put(st, 4, 0, NULL, 0);
    shard_put(st, 5, 0, NULL, 0);
    assert_ok(store_task_total(st, 4, 1, &e), e);
    assert_ok(store_task_total(st, 5, 1, &e), e);
    assert_ok(store_media(st, 4,
                          &(struct store_media_info){
                              .duration_ms = -1, .container = "mov", .codec = "", .no_sound = true},
                          &(struct store_media_end){0, NULL, "", NULL, NULL, 0}, &e),
              e);
    assert_ok(store_media(st, 5,
                          &(struct store_media_info){.container = "wav", .codec = "pcm_s16le"},
                          &(struct store_media_end){0, NULL, "", NULL, NULL, 0}, &e),
              e);
    assert_int_equal(count_of("SELECT audio_tracks FROM recordings WHERE media_id = 4"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM recordings WHERE audio_tracks = 0"), 1);
    assert_ok(store_no_sound(st, &n, &e), e);
    assert_int_equal(n, 1);
    assert_int_equal(textless(st, ""), 1); /* in the other one */
    assert_int_equal(textless(st, "2999"), 0);
    assert_ok(read_no_sound(st, "", on_failure, &s, &e), e);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.text[0], "no sound /a/1991/box.zip  no audio track 0");
    assert_ok(read_no_sound(st, "2999", on_failure, &s, &e), e);
    assert_int_equal(s.n, 1);
    assert_int_equal(count_of("SELECT count(*) FROM failures WHERE media_id = 4"), 0);
    assert_int_equal(count_of("SELECT done FROM archive"), 3);
    catalog_close(st);
}

/* What cannot be tried again, for it is nowhere, has gone: it has not failed. */
TEST(what_failed_and_is_gone)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);
    struct store_totals t;
    struct seen s = {0};
    struct err e = {0};

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    job_end(st, job, "/");
    assert_ok(store_task_failed(st, 1, ERR_INPUT, "no format", -1, &e), e);
    assert_ok(store_task_failed(st, 2, ERR_MISSING, "no such file", -1, &e), e);
    run_sql("UPDATE task SET settled_at = '2001'");
    job = job_begin(st, &stage_nano);
    job_end(st, job, "/");
    assert_ok(read_failures(st, NULL, 0, on_failure, &s, &e), e);
    assert_int_equal(s.n, 2);
    assert_memory_equal(s.text[0], "absent /a/1.wav missing ", 24);
    assert_memory_equal(s.text[1], "absent /a/2.wav missing ", 24);
    assert_string_equal(text_of("SELECT group_concat(state) FROM recordings"), "absent,absent");
    assert_string_equal(text_of("SELECT group_concat(state) FROM tasks"), "absent,absent");
    assert_int_equal(count_of("SELECT failed FROM archive"), 0);
    assert_int_equal(count_of("SELECT absent FROM archive"), 2);
    assert_int_equal(count_of("SELECT absent FROM progress"), 2);
    assert_ok(store_totals(st, &t, &e), e);
    assert_int_equal(t.archive.failed, 0);
    assert_int_equal(t.archive.absent, 2);
    /* That one is missing was found by a run before. */
    assert_string_equal(text_of("SELECT group_concat(path) FROM failures WHERE at = '2001'"),
                        "/a/2.wav");
    /* It is back as it was. */
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/1.wav", "", 1);
    job_end(st, job, "/");
    s = (struct seen){0};
    assert_ok(read_failures(st, "failed", 0, on_failure, &s, &e), e);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.text[0], "failed /a/1.wav input no format 1");
    catalog_close(st);
}

TEST(where_nobody_speaks)
{
    struct store *st = filled();
    struct err e = {0};
    int64_t job, again;

    assert_int_equal(textless(st, ""),
                     0); /* one is done, and somebody speaks; others are not done */
    shard_put(st, 4, 0, NULL, 0);
    assert_int_equal(textless(st, ""), 0);
    assert_ok(store_task_total(st, 4, 1, &e), e);
    assert_int_equal(textless(st, ""), 1);
    /* Another model hears nobody in the first: it is that model's word that counts. */
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/a/1990/tape 1.wav", "", 1);
    job_end(st, job, "/a/1990");
    again = count_of("SELECT max(task_id) FROM task");
    shard_put(st, again, 0, NULL, 0);
    assert_ok(store_task_total(st, again, 1, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 3);
    assert_int_equal(textless(st, ""), 2);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
