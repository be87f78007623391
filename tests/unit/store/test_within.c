/* Words that are said within a time of each other: against a plain count of all stretches. */
#include "store/search/within.h"

#include "tests/common/nomem.h"
#include "tests/common/random.h"
#include "tests/unit/store/fixture.h"

struct seen {
    size_t n;
    char row[512][160];
    int stop_at;
};

static int on_span(void *arg, const struct read_span *s)
{
    struct seen *x = arg;

    assert_true(x->n < 512);
    snprintf(x->row[x->n++], sizeof(x->row[0]), "%lld %lld-%lld %zu %s", (long long)s->media_id,
             (long long)s->start_ms, (long long)s->end_ms, s->segments, s->snippet);
    assert_non_null(s->text);
    assert_string_equal(s->speaker, "");
    assert_int_equal(s->speaker_count, 0);
    assert_string_equal(s->language, "en");
    return x->stop_at && (int)x->n >= x->stop_at ? 7 : 0;
}

static struct store *filled(void)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/b.wav", "", 1);
    job_add1(st, job, "/a/a.wav", "", 2);
    job_end(st, job, "/");
    /* 30 s later first: segments are not stored in the order of their times. */
    shard_put(st, 1, 1, (const char *[]){"a fish", "and chips", "the harbour"}, 3);
    shard_put(st, 1, 0, (const char *[]){"the harbour", "no", "old fish", "fish and harbour"}, 4);
    shard_put(st, 2, 0, (const char *[]){"harbours", "a strike", "one fish", "so many fishes"}, 4);
    return st;
}

static void finds(struct store *st, struct read_search q, int64_t within_ms,
                  const char *const *rows, size_t n)
{
    struct seen *s = calloc(1, sizeof(*s));
    struct err e = {0};

    print_message("%s, %lld ms\n", q.text, (long long)within_ms);
    assert_ok(read_within(st, &q, within_ms, on_span, s, &e), e);
    for (size_t i = 0; i < s->n && i < n; i++)
        assert_string_equal(s->row[i], rows[i]);
    assert_int_equal(s->n, n);
    free(s);
}
#define FINDS(st, search, ms, ...)                                           \
    finds(st, (struct read_search)search, ms, (const char *[]){__VA_ARGS__}, \
          sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))
#define Q(...)      \
    {               \
        __VA_ARGS__ \
    }

TEST(the_nearest_first)
{
    struct store *st = filled();

    FINDS(st, Q(.text = "\"fish\" \"harbour\""), 4000, "1 6000-7500 1 [fish] and [harbour]",
          "1 0-5500 2 the [harbour] ... old [fish]", "1 30000-35500 2 a [fish] ... the [harbour]");
    FINDS(st, Q(.text = "\"fish\" \"harbour\""), 3999, "1 6000-7500 1 [fish] and [harbour]");
    FINDS(st, Q(.text = "\"fish\" \"harbour\"", .by_time = true), 4000,
          "1 0-5500 2 the [harbour] ... old [fish]", "1 6000-7500 1 [fish] and [harbour]",
          "1 30000-35500 2 a [fish] ... the [harbour]");
    /* Also in other forms and spellings. */
    FINDS(st, Q(.text = "strikes harbor"), 4000, "2 0-3500 2 [harbours] ... a [strike]");
    finds(st, (struct read_search){.text = "\"strikes\" harbor"}, 4000, NULL, 0);
    /* Over the border of two shards. */
    FINDS(st, Q(.text = "old chips"), 28000, "1 4000-33500 2 [old] fish ... and [chips]");
    finds(st, (struct read_search){.text = "old chips"}, 27999, NULL, 0);
    /* Not in two recordings. */
    finds(st, (struct read_search){.text = "chips strike"}, 86400000, NULL, 0);
    finds(st, (struct read_search){.text = "fish zeppelin"}, 86400000, NULL, 0);
    catalog_close(st);
}

TEST(terms_may_be_anything)
{
    struct store *st = filled();

    FINDS(st, Q(.text = "harb* AND (strike OR chips)"), 2000,
          "2 0-3500 2 [harbours] ... a [strike]", "1 32000-35500 2 and [chips] ... the [harbour]");
    FINDS(st, Q(.text = "\"one fish\" NEAR(many fish*, 0) harb*"), 6000,
          "2 0-7500 3 [harbours] ... [one fish] ... so [many] [fishes]");
    /* What lies between is seen, what lies beside is not. */
    finds(st, (struct read_search){.text = "\"harbours\" AND \"fish\" NOT strike"}, 60000, NULL, 0);
    FINDS(st, Q(.text = "strike fish NOT (harbours OR fishes)"), 60000,
          "2 2000-5500 2 a [strike] ... one [fish]");
    FINDS(st, Q(.text = "old AND and NOT zeppelin", .mark_begin = "<", .mark_end = ">"), 60000,
          "1 4000-7500 2 <old> fish ... fish <and> harbour");
    catalog_close(st);
}

TEST(filters_and_pages)
{
    struct store *st = filled();
    struct read_search q = {.text = "harb* fish*", .by_time = true, .path = "/a/a.wav"};
    struct seen *s = calloc(1, sizeof(*s));
    struct err e = {0};

    FINDS(st, Q(.text = "harb* fish*", .by_time = true, .limit = 1), 4000,
          "2 0-5500 2 [harbours] ... one [fish]");
    FINDS(st, Q(.text = "harb* fish*", .by_time = true, .limit = 1, .offset = 1), 4000,
          "1 0-5500 2 the [harbour] ... old [fish]");
    finds(st, (struct read_search){.text = "harb* fish*", .limit = 1, .offset = 99}, 4000, NULL, 0);
    finds(st, q, 4000, (const char *[]){"2 0-5500 2 [harbours] ... one [fish]"}, 1);
    q.language = "es";
    finds(st, q, 4000, NULL, 0);
    q = (struct read_search){.text = "harb* fish*", .speaker = "Ana"};
    finds(st, q, 4000, NULL, 0);
    q = (struct read_search){.text = "harb* fish*"};
    s->stop_at = 2;
    assert_int_equal(read_within(st, &q, 4000, on_span, s, &e), 7);
    assert_int_equal(s->n, 2);
    free(s);
    catalog_close(st);
}

TEST(mistakes)
{
    struct store *st = filled();
    struct buf many = BUF_INIT;
    struct err e = {0};

    for (int i = 0; i <= WITHIN_TERMS; i++)
        buf_printf(&many, "w%d ", i);
    const char *const texts[] = {"fish", "fish OR chips", "fish NOT chips", "fish (",
                                 buf_cstr(&many)};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(
            read_within(st, &(struct read_search){.text = texts[i]}, 1000, on_span, NULL, &e),
            ERR_USAGE);
    buf_free(&many);
    catalog_close(st);
}

/* --------------------------------------------------------------------- against a plain count */

#define LETTERS 4
#define SHARDS 6
#define LINES 9
static unsigned has[SHARDS * LINES]; /* bits of letters */

static int64_t start_of(size_t i)
{
    return (int64_t)(i / LINES) * 30000 + (int64_t)(i % LINES) * 2000;
}

static unsigned all_in(size_t from, size_t to)
{
    unsigned all = 0;

    for (size_t i = from; i <= to; i++)
        all |= has[i];
    return all;
}

/* Stretches that have a, b and c, without d, no longer than that, and with none within. */
static size_t plain_count(int64_t within_ms, size_t *at)
{
    size_t n = 0;

    for (size_t from = 0; from < SHARDS * LINES; from++)
        for (size_t to = from; to < SHARDS * LINES; to++)
            if (start_of(to) - start_of(from) <= within_ms && (all_in(from, to) & 7) == 7 &&
                (from == to ||
                 ((all_in(from + 1, to) & 7) != 7 && (all_in(from, to - 1) & 7) != 7)) &&
                !(all_in(from, to) & 8))
                at[n++] = from;
    return n;
}

static struct store *some(uint64_t seed)
{
    struct store *st = catalog_new();
    uint64_t r = seed;
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a.wav", "", 1);
    job_end(st, job, "/");
    for (uint32_t seq = SHARDS; seq-- > 0;) {
        char texts[LINES][16] = {{0}};
        const char *list[LINES];

        for (size_t i = 0; i < LINES; i++) {
            list[i] = texts[i];
            has[seq * LINES + i] = 0;
            strcpy(texts[i], "x");
            for (int k = 0; k < LETTERS; k++)
                if (random_below(&r, k == 3 ? 12 : 4) == 0) {
                    has[seq * LINES + i] |= 1u << k;
                    strncat(texts[i], (const char[]){' ', (char)('a' + k), 0}, 3);
                }
        }
        shard_put(st, 1, seq, list, LINES);
    }
    return st;
}

TEST(as_a_plain_count)
{
    size_t most = 0;

    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct store *st = some(seed);

        for (int64_t within_ms = 0; within_ms <= 40000; within_ms += 4000) {
            struct seen *s = calloc(1, sizeof(*s));
            size_t at[SHARDS * LINES], n = plain_count(within_ms, at);
            struct err e = {0};

            assert_ok(read_within(st, &(struct read_search){.text = "a b c NOT d", .by_time = true},
                                  within_ms, on_span, s, &e),
                      e);
            assert_int_equal(s->n, n);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(strtoll(s->row[i] + 2, NULL, 10), start_of(at[i]));
            most = n > most ? n : most;
            free(s);
        }
        catalog_close(st);
    }
    print_message("%zu at most\n", most);
    assert_true(most > 5);
}

/* ------------------------------------------------------------------------- pages of very many */

#define MANY_SHARDS 64
#define MANY_LINES 16
struct row {
    int64_t media_id, start_ms, end_ms;
    size_t segments;
};
struct list {
    struct row *rows;
    size_t n, room;
};

static int on_row(void *arg, const struct read_span *s)
{
    struct list *l = arg;

    if (l->n == l->room) {
        l->room = l->room * 2 + 64;
        l->rows = realloc(l->rows, l->room * sizeof(*l->rows));
        assert_non_null(l->rows);
    }
    l->rows[l->n++] = (struct row){s->media_id, s->start_ms, s->end_ms, s->segments};
    return 0;
}

/* So many segments have each word that they are not looked up one by one; some begin together. */
static void many_put(struct store *st, int64_t task, uint32_t seq, uint64_t *r)
{
    static const char *const texts[] = {"x", "a", "b", "a b", "a b", "a d", "b", "a b d"};
    struct result_segment s[MANY_LINES];
    const int64_t base = (int64_t)seq * 30000;
    struct err e = {0};

    for (int i = 0; i < MANY_LINES; i++) {
        int64_t at = base + (i - (int)random_below(r, 4) / 3 * (i > 0)) * 1500;

        s[i] = (struct result_segment){.start_ms = at,
                                       .end_ms = at + 1000,
                                       .text = texts[random_below(r, 8)],
                                       .language = random_below(r, 200) == 0 ? "fr"
                                                   : random_below(r, 3)      ? "en"
                                                                             : "es",
                                       .attempts = 1,
                                       .speech_prob = -1};
    }
    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = task,
                                                            .seq = seq,
                                                            .start_ms = base,
                                                            .end_ms = base + 30000,
                                                            .language = "en",
                                                            .windows = 1,
                                                            .device = "cpu",
                                                            .segments = s,
                                                            .segment_count = MANY_LINES},
                               &e),
              e);
}

static struct store *very_many(void)
{
    static const char *const places[][2] = {
        {"/q/z.wav", ""}, {"/p/b.zip", "2.wav"}, {"/p/a.wav", ""}, {"/p/b.zip", "1.wav"}};
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);
    uint64_t r = 7;

    for (int i = 0; i < 4; i++)
        job_add1(st, job, places[i][0], places[i][1], (uint64_t)i + 1);
    job_end(st, job, "/");
    for (int64_t task = 1; task <= 4; task++)
        for (uint32_t seq = 0; seq < MANY_SHARDS; seq++)
            many_put(st, task, seq, &r);
    return st;
}

static void ask(struct store *st, const struct read_search *q, struct list *ret)
{
    struct err e = {0};

    *ret = (struct list){0};
    assert_ok(read_within(st, q, 8000, on_row, ret, &e), e);
}

/* What is asked for a page at a time, read by names, is what all of it is, read by times. */
static void pages(struct store *st, struct read_search q)
{
    struct list all, page;

    ask(st, &q, &all);
    print_message("%s, %s, %s: %zu\n", q.by_time ? "by time" : "nearest", q.path ? q.path : "all",
                  q.language ? q.language : "any", all.n);
    assert_true(all.n > (q.language && strcmp(q.language, "fr") == 0 ? 2 : 200));
    for (uint64_t limit = 1; limit < 3 * all.n; limit = limit * 6 + 1)
        for (q.offset = 0, q.limit = limit; q.offset <= all.n + limit;
             q.offset += all.n / 2 + limit) {
            size_t left = q.offset < all.n ? all.n - q.offset : 0;

            ask(st, &q, &page);
            assert_int_equal(page.n, limit < left ? limit : left);
            for (size_t i = 0; i < page.n; i++)
                assert_memory_equal(&page.rows[i], &all.rows[q.offset + i], sizeof(*page.rows));
            free(page.rows);
        }
    free(all.rows);
}

TEST(pages_are_parts_of_the_whole)
{
    struct store *st = very_many();

    for (int by_time = 0; by_time < 2; by_time++) {
        struct read_search q = {.text = "a b", .by_time = by_time};

        pages(st, q);
        q.text = "a b NOT d";
        pages(st, q);
        q.language = "fr"; /* of few of those that are looked at */
        pages(st, q);
        q.language = "es";
        pages(st, q);
        q.path = "/p";
        pages(st, q);
        q.language = NULL;
        pages(st, q);
        q.path = "/p/b.zip";
        pages(st, q);
    }
    catalog_close(st);
}

/* ------------------------------------------------------------------------------ without memory */

static struct store *shared;

static int within_all(void *arg, struct err *err)
{
    struct seen *s = arg;

    s->n = 0;
    return read_within(shared,
                       &(struct read_search){.text = "harb* fish* NOT strike", .path = "/a"}, 60000,
                       on_span, s, err);
}

TEST(without_memory)
{
    static struct seen s;

    shared = filled();
    assert_true(nomem_each(within_all, &s) > 10);
    assert_true(s.n > 2);
    catalog_close(shared);
}

TEST_MAIN(NULL, NULL)
