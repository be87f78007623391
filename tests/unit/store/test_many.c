/* Searches of so many segments that the best are chosen before they are looked up: against SQL that
 * sorts them all, and recording by recording. */
#include "store/read/read.h"
#include "store/search/within.h"

#include "tests/unit/store/fixture.h"

/* Segments: more than what is looked at one by one has each of the words a ... d. */
#define ROWS 15000

/* Word 'a' is in nearly all, each of the next in fewer; texts of 1 to 12 words. Two languages, five
 * speakers of each recording, of which one has a name. */
static const char sql_fill[] =
    "PRAGMA synchronous = OFF; BEGIN;"
    "INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) VALUES "
    "('transcribe', 'm', '/', 'a', '{}', '2026'), ('diarize', 'm', '/', 'a', '{}', '2026');"
    "INSERT INTO job (stage_id, language, command, created_at) VALUES (1, '', '', '2026');"
    "CREATE TEMP TABLE m AS WITH RECURSIVE m(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM m "
    "WHERE i < 60) SELECT i FROM m; CREATE TEMP TABLE k AS WITH RECURSIVE k(i) AS (SELECT 0 UNION "
    "ALL SELECT i + 1 FROM k WHERE i < 249) SELECT i FROM k;"
    "INSERT INTO media (media_id, size_bytes, fingerprint, created_at) "
    "SELECT i, i, randomblob(16), '2026' FROM m;"
    "INSERT INTO place (media_id, path, path_raw, member, member_raw, file_size_bytes, mtime_ns, "
    "inode, device, state, job_id, seen_job) SELECT i, p, CAST(p AS BLOB), '', x'', i, 1, i, 1, "
    "'present', 1, 1 FROM (SELECT i, printf('/%d/%03d.wav', i % 3, i * 7 % 151) AS p FROM m);"
    "UPDATE media SET places = 1, place_id = (SELECT place_id FROM place p "
    "WHERE p.media_id = media.media_id);"
    "INSERT INTO task (task_id, media_id, stage_id, job_id, language, state, shards_total) "
    "SELECT i, i, 1, 1, '', 'done', 1 FROM m UNION ALL SELECT 1000 + i, i, 2, 1, '', 'done', 1 "
    "FROM m;"
    "INSERT INTO shard (task_id, seq, start_ms, end_ms, language, language_prob, windows, "
    "wall_ms, device, done_at) SELECT task_id, 0, 0, 9000000, '', 0, 1, 1, '', '2026' FROM task;"
    "INSERT INTO speaker (speaker_id, task_id, media_id, label, name, speech_ms) "
    "SELECT m.i * 5 + k.i, 1000 + m.i, m.i, printf('SPEAKER_%02d', k.i), "
    "iif(k.i = 4 AND m.i % 10 = 0, 'Ana', NULL), 1 FROM m JOIN k WHERE k.i < 5;"
    "CREATE TEMP TABLE g AS SELECT m.i AS m, k.i AS k, "
    "(m.i * 7919 + k.i * 104729 + m.i * k.i * 31) % 100003 AS r FROM m JOIN k;"
    "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, speaker_id) "
    "SELECT m, 0, k, k * 15000 + r % 9000, k * 15000 + r % 9000 + 3000, "
    "trim(iif(r % 10 < 9, 'a ', '') || iif(r % 2, 'a ', '') || iif(r / 7 % 3 = 0, 'b ', '') || "
    "iif(r / 3 % 5 = 0, 'Bett ', '') || iif(r / 11 % 6 = 0, 'c b ', '') || "
    "iif(r / 13 % 7 = 0, 'd a ', '') || iif(r / 17 % 900 = 0, 'rare ', '') || "
    "substr('x y z w v u t s ', 1, 2 * (r / 19 % 8)) || 'e'), "
    "iif(r % 3, 'en', 'es'), m * 5 + r % 5 FROM g ORDER BY m, k;"
    "INSERT INTO segment_fts (segment_fts) VALUES ('rebuild'); COMMIT;";

static struct store *filled(void)
{
    char *why = NULL;
    sqlite3 *db;

    store_close(catalog_new());
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql_fill, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(db);
    assert_int_equal(count_of("SELECT count(*) FROM transcript"), ROWS);
    return catalog_open(STORE_READ);
}

struct rows {
    size_t n;
    char row[1500][160];
};

/* ------------------------------------------------------------------------------------ the best */

static int on_segment(void *arg, const struct read_segment *s)
{
    struct rows *x = arg;

    assert_true(x->n < sizeof(x->row) / sizeof(x->row[0]));
    snprintf(x->row[x->n++], sizeof(x->row[0]), "%lld %s", (long long)s->segment_id, s->snippet);
    return 0;
}

/* What SQLite's own ranking has, sorted whole. */
static void same_as_sorted(struct store *st, const struct read_search *q, const char *match,
                           const char *where, struct rows *got)
{
    char *sql = sqlite3_mprintf(
        "SELECT g.segment_id || ' ' || highlight(segment_fts, 0, '[', ']') FROM segment_fts "
        "JOIN segment g ON g.segment_id = segment_fts.rowid JOIN task t ON t.task_id = g.task_id "
        "JOIN media m ON m.media_id = t.media_id JOIN place p ON p.place_id = m.place_id "
        "JOIN speaker k ON k.speaker_id = g.speaker_id WHERE segment_fts MATCH %Q %s "
        "ORDER BY segment_fts.rank, p.path, p.member, g.start_ms, g.segment_id LIMIT %d OFFSET %d",
        match, where, (int)q->limit, (int)q->offset);
    struct err e = {0};
    sqlite3_stmt *stmt = NULL;
    size_t i = 0;

    got->n = 0;
    assert_ok(read_search(st, q, on_segment, got, &e), e);
    own_open();
    assert_int_equal(sqlite3_prepare_v2(own_db, sql, -1, &stmt, NULL), SQLITE_OK);
    for (; sqlite3_step(stmt) == SQLITE_ROW; i++) {
        const char *want = (const char *)sqlite3_column_text(stmt, 0);

        if (i >= got->n || strcmp(got->row[i], want) != 0)
            fail_msg("%s %s %d+%d: row %zu is '%s', not '%s'", match, where, (int)q->offset,
                     (int)q->limit, i, i < got->n ? got->row[i] : "", want);
    }
    assert_int_equal(got->n, i);
    own_done(stmt);
    sqlite3_free(sql);
}

TEST(the_best_are_those_of_a_sort)
{
    static const char *const asked[][2] = {
        {"a", "a"},           {"rare", "rare"},
        {"c", "c"},           {"\"a a\"", "\"a a\""},
        {"b OR d", "b OR d"}, {"b*", "b*"},
        {"a b", "a AND b"},   {"a NOT (b OR c)", "a NOT (b OR c)"},
        {"e", "e"},           {"NEAR(b d, 3)", "NEAR(b d, 3)"},
        {"bétt", "bett"},     {"nobody", "nobody"}};
    static const uint64_t pages[][2] = {{21, 0}, {10, 35}, {1000, 0}};
    struct rows *got = calloc(1, sizeof(*got));
    struct store *st = filled();

    own_kept = true;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        for (size_t k = 0; k < sizeof(pages) / sizeof(pages[0]); k++) {
            struct read_search q = {
                .text = asked[i][0], .limit = pages[k][0], .offset = pages[k][1]};

            same_as_sorted(st, &q, asked[i][1], "", got);
            q.language = "es";
            same_as_sorted(st, &q, asked[i][1], "AND g.language = 'es'", got);
            q.speaker = "ana";
            same_as_sorted(st, &q, asked[i][1], "AND k.name = 'Ana' AND g.language = 'es'", got);
            q.language = NULL;
            q.path = "/1";
            same_as_sorted(st, &q, asked[i][1], "AND k.name = 'Ana' AND p.path LIKE '/1/%'", got);
            q.speaker = "speaker_02";
            same_as_sorted(st, &q, asked[i][1], "AND k.label = 'SPEAKER_02' AND p.path LIKE '/1/%'",
                           got);
        }
    own_close();
    store_close(st);
    free(got);
}

/* -------------------------------------------------------------------------------------- within */

struct spans {
    size_t n, room;
    struct {
        int64_t media_id, start_ms, end_ms;
        size_t segments;
    } * list;
};

static int on_span(void *arg, const struct read_span *s)
{
    struct spans *x = arg;

    if (x->n == x->room) {
        x->room = x->room * 2 + 64;
        x->list = realloc(x->list, x->room * sizeof(*x->list));
        assert_non_null(x->list);
    }
    x->list[x->n].media_id = s->media_id;
    x->list[x->n].start_ms = s->start_ms;
    x->list[x->n].end_ms = s->end_ms;
    x->list[x->n++].segments = s->segments;
    return 0;
}

static struct spans spans_of(struct store *st, struct read_search q)
{
    struct spans s = {0};
    struct err e = {0};

    assert_ok(read_within(st, &q, 20000, on_span, &s, &e), e);
    return s;
}

/* Each recording by itself is few enough to be looked at one by one. */
static struct spans one_by_one(struct store *st, struct read_search q)
{
    struct spans all = {0};
    struct err e = {0};
    sqlite3_stmt *stmt;

    own_open();
    assert_int_equal(
        sqlite3_prepare_v2(own_db, "SELECT path FROM place ORDER BY path", -1, &stmt, NULL),
        SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        q.path = (const char *)sqlite3_column_text(stmt, 0);
        assert_ok(read_within(st, &q, 20000, on_span, &all, &e), e);
    }
    own_done(stmt);
    return all;
}

static void same(const struct spans *a, const struct spans *b, size_t n)
{
    assert_true(a->n >= n && b->n >= n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a->list[i], &b->list[i], sizeof(a->list[i])) != 0)
            fail_msg("span %zu: %lld at %lld, not %lld at %lld", i, (long long)a->list[i].media_id,
                     (long long)a->list[i].start_ms, (long long)b->list[i].media_id,
                     (long long)b->list[i].start_ms);
}

TEST(what_is_near_is_the_same_in_one_look)
{
    static const char *const asked[] = {"a b", "b c", "c d", "rare a", "bett* c NOT d", "c d b"};
    struct store *st = filled();

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        for (int of = 0; of < 3; of++) {
            struct read_search q = {.text = asked[i],
                                    .by_time = true,
                                    .language = of == 1 ? "es" : NULL,
                                    .speaker = of == 2 ? "SPEAKER_01" : NULL};
            struct spans all = spans_of(st, q), single = one_by_one(st, q), near, first;

            print_message("%s: %zu\n", q.text, all.n);
            assert_int_equal(all.n, single.n);
            same(&all, &single, all.n);
            q.by_time = false;
            near = spans_of(st, q);
            q.limit = 30;
            first = spans_of(st, q);
            assert_int_equal(near.n, all.n);
            same(&first, &near, all.n < 30 ? all.n : 30);
            free(all.list);
            free(single.list);
            free(near.list);
            free(first.list);
        }
    store_close(st);
}

TEST_MAIN(NULL, NULL)
