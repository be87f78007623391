/* Speakers as they are read from the catalog: in which order, and what is held in memory for it. */
#include "store/read/find.h"
#include "tests/unit/store/fixture.h"

static const struct store_stage stage_voices = {"diarize", "pyannote", "/models/p",
                                                "dd44",    "{}",       NULL};

#define VECTOR_BYTES 4096

/* A recording with so many speakers, each with a vector. */
static struct store *crowd(unsigned speakers)
{
    struct store *st = catalog_new();
    sqlite3 *db;
    char sql[512], *why = NULL;

    job_add1(st, job_begin(st, &stage_voices), "/a/1.wav", "", 1);
    store_close(st);
    snprintf(sql, sizeof(sql),
             "PRAGMA synchronous = OFF; UPDATE task SET state = 'done';"
             "WITH RECURSIVE n (i) AS (SELECT %u UNION ALL SELECT i - 1 FROM n WHERE i > 1) "
             "INSERT INTO speaker (task_id, media_id, label, speech_ms, vector) "
             "SELECT 1, 1, printf('SPEAKER_%%02d', i - 1), 1000, zeroblob(%d) FROM n",
             speakers, VECTOR_BYTES);
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(db);
    return catalog_open(STORE_READ);
}

struct seen {
    unsigned rows, vectors, disorder;
};

static int see(void *arg, const struct find_speaker *row)
{
    struct seen *s = arg;
    char label[32];

    snprintf(label, sizeof(label), "SPEAKER_%02u", s->rows++);
    s->disorder += strcmp(row->label, label) != 0;
    s->vectors += row->vector && row->vector_bytes == VECTOR_BYTES;
    return 0;
}

TEST(speakers_are_in_the_order_of_their_numbers)
{
    struct store *st = crowd(120);
    struct seen seen = {0};
    struct err e = {0};

    assert_ok(find_speakers(st, &(struct find_people){0}, see, &seen, &e), e);
    assert_int_equal(seen.rows, 120);
    assert_int_equal(seen.disorder, 0);
    catalog_close(st);
}

TEST(vectors_are_read_where_they_are_wanted)
{
    static const struct find_people people[] = {{0},
                                                {.media_id = 1},
                                                {.path = "/a"},
                                                {.media_id = 1, .vectors = true},
                                                {.vectors_only = true}};
    struct store *st = crowd(3);

    for (size_t i = 0; i < sizeof(people) / sizeof(people[0]); i++) {
        struct seen seen = {0};
        struct err e = {0};

        assert_ok(find_speakers(st, &people[i], see, &seen, &e), e);
        assert_int_equal(seen.rows, 3);
        assert_int_equal(seen.vectors, i < 3 ? 0 : 3);
    }
    catalog_close(st);
}

/* Rows are sorted in memory: of 40 MB of vectors none may be there, nor where they are compared. */
TEST(a_list_does_not_hold_the_voices)
{
    static const struct find_people people[] = {
        {0}, {.vectors_only = true}, {.path = "/a", .vectors_only = true}};
    enum { COUNT = 10000 };
    struct store *st = crowd(COUNT);

    for (size_t i = 0; i < sizeof(people) / sizeof(people[0]); i++) {
        sqlite3_int64 before = sqlite3_memory_used();
        struct seen seen = {0};
        struct err e = {0};

        assert_true(before > 0); /* it is counted */
        sqlite3_memory_highwater(1);
        assert_ok(find_speakers(st, &people[i], see, &seen, &e), e);
        assert_int_equal(seen.rows, COUNT);
        /* The reader's cache is 16 MiB. */
        assert_in_range(sqlite3_memory_highwater(0) - before, 0, 24 << 20);
    }
    store_close(st);
}

/* Before a store can tell SQLite not to count its memory. */
static int begin(void **state)
{
    (void)state;
    return sqlite3_initialize();
}

TEST_MAIN(begin, NULL)
