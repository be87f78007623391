/* A part of a catalog and back, at the store's level: what is refused, what comes twice, and what
 * is left when a merge ends in the middle. */
#include "tests/unit/store/stages.h"

#include "store/parting/parting.h"

#define PART "part.db"
#define SPLIT "00112233445566778899aabbccddeeff"

static const char *const said[] = {"the boats came in", "before the rain did"};

static void part_remove(const char *path)
{
    char name[64];

    unlink(path);
    snprintf(name, sizeof(name), "%s-wal", path);
    unlink(name);
    snprintf(name, sizeof(name), "%s-shm", path);
    unlink(name);
}

static struct store *part_new(void)
{
    struct store *st = NULL;
    struct err e = {0};

    part_remove(PART);
    assert_ok(store_open(PART, STORE_WRITE, &st, &e), e);
    return st;
}

static struct store *part_open(const char *path, enum store_mode mode)
{
    struct store *st = NULL;
    struct err e = {0};

    assert_ok(store_open(path, mode, &st, &e), e);
    return st;
}

/* Three recordings, and where checkpoints are. */
static struct store *archive(void)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);
    struct err e = {0};
    uint32_t ms;

    job_add1(st, job, "/a/one.wav", "", 1);
    job_add1(st, job, "/a/two.wav", "", 2);
    job_add1(st, job, "/a/three.wav", "", 3);
    job_end(st, job, "/a");
    assert_ok(store_shard_length(st, 30000, 30000, &ms, &e), e);
    return st;
}

/* A part with all of them. The first is done there, the second gave up, the third is half done. */
static void part_made(struct store *from)
{
    const struct parting_share shares[] = {{1, false, 0, 0}, {2, false, 0, 0}, {3, false, 0, 0}};
    const struct parting_part p = {SPLIT, 0, 1, shares, 3};
    struct store *st;
    struct err e = {0};

    st = part_new();
    assert_ok(parting_write(from, st, &p, &e), e);
    shard_put(st, 1, 0, said, 2);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    assert_ok(store_task_failed(st, 2, ERR_INPUT, "no audio", -1, &e), e);
    shard_put(st, 3, 0, said, 1);
    store_close(st);
}

static int merge(struct store *st, const char *path, struct parting_merged *ret, struct err *err)
{
    struct store *part = part_open(path, STORE_READ);
    int rc = parting_merge(st, part, ret, err);

    store_close(part);
    return rc;
}

static struct parting_merged merge_ok(struct store *st)
{
    struct parting_merged m;
    struct err e = {0};

    assert_ok(merge(st, PART, &m, &e), e);
    return m;
}

static void change(const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(PART, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA foreign_keys = 0; PRAGMA ignore_check_constraints = 1",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

TEST(comes_back_and_again)
{
    struct store *st = archive();
    struct parting_merged m;

    part_made(st);
    m = merge_ok(st);
    assert_int_equal(m.shards, 2);
    assert_int_equal(m.segments, 3);
    assert_int_equal(m.tasks, 1);
    assert_int_equal(m.failed, 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending'"), 1);
    m = merge_ok(st);
    assert_int_equal(m.shards, 0);
    assert_int_equal(m.known, 2);
    assert_int_equal(m.tasks + m.failed + m.strange, 0);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 3);
    catalog_close(st);
}

/* How much sound its channels have comes back with a recording; rows that cannot be are left. */
TEST(channels_come_back)
{
    static const struct result_channel channels[] = {{1, 1, 900, 30000, true},
                                                     {2, 0, -1, 29000, false}};
    const struct parting_share share = {1, false, 0, 0};
    const struct parting_part p = {SPLIT, 0, 1, &share, 1};
    struct store *st = catalog_new(), *part;
    struct store_found f = found_at("/a/one.wav", "", 1);
    struct err e = {0};
    uint32_t ms;

    job_add(st, job_begin(st, &stage_nano), &f, 1);
    assert_ok(store_shard_length(st, 30000, 30000, &ms, &e), e);
    part = part_new();
    assert_ok(parting_write(st, part, &p, &e), e);
    assert_ok(
        store_media(part, 1,
                    &(struct store_media_info){30000, 16000, 1, "wav", "pcm", NULL, 0, 2, false},
                    &(struct store_media_end){30000, NULL, "", NULL, channels, 2}, &e),
        e);
    shard_put(part, 1, 0, said, 2);
    store_close(part);
    change("INSERT INTO channel VALUES (1, 3, 1, 9, 5, 1)"); /* more sound than it is long */
    (void)merge_ok(st);
    assert_string_equal(text_of("SELECT group_concat(track || ' ' || channel || ' ' || "
                                "ifnull(sound_ms, '-') || ' ' || length_ms || ' ' || heard, '; ') "
                                "FROM channel"),
                        "1 1 900 30000 1; 2 0 - 29000 0");
    catalog_close(st);
}

/* What has a recording's blocks in a part may be another one: enqueued there, or an edited copy
 * that lay at the recording's path. */
TEST(only_of_the_same_bytes)
{
    static const struct {
        const char *here, *there;
        uint64_t merged, strange;
    } cases[] = {
        {"", "", 1, 0}, /* the row that it was given */
        {"", "content_hash = zeroblob(16)", 1, 0},
        {"content_hash = zeroblob(16)", "content_hash = zeroblob(16), created_at = ''", 1, 0},
        {"content_hash = zeroblob(16)", "content_hash = randomblob(16)", 0, 1},
        {"", "created_at = ''", 0, 1},
        {"content_hash = zeroblob(16)", "created_at = ''", 0, 1},
        {"", "created_at = '', content_hash = zeroblob(16)", 0, 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct parting_share share = {1, false, 0, 0};
        const struct parting_part p = {SPLIT, 0, 1, &share, 1};
        struct store *st = catalog_new(), *part;
        struct store_found f = found_at("/a/one.wav", "", 1);
        struct parting_merged m;
        struct err e = {0};
        char sql[120];
        uint32_t ms;

        f.size_bytes = f.file_size_bytes = STORE_WHOLE_BYTES + 1;
        job_add(st, job_begin(st, &stage_nano), &f, 1);
        assert_ok(store_shard_length(st, 30000, 30000, &ms, &e), e);
        part = part_new();
        assert_ok(parting_write(st, part, &p, &e), e);
        shard_put(part, 1, 0, said, 2);
        store_close(part);
        snprintf(sql, sizeof(sql), "UPDATE media SET %s", cases[i].there);
        if (cases[i].there[0])
            change(sql);
        snprintf(sql, sizeof(sql), "UPDATE media SET %s", cases[i].here);
        if (cases[i].here[0])
            run_sql(sql);
        m = merge_ok(st);
        assert_int_equal(m.shards, cases[i].merged);
        assert_int_equal(m.strange, cases[i].strange);
        catalog_close(st);
    }
}

/* How much of the speech has a text goes with the shards, and what has none with it. */
TEST(speech_is_accounted_for_here_as_well)
{
    static const struct result_segment s[] = {
        {.start_ms = 100, .end_ms = 900, .text = "the boats", .language = "en", .speech_prob = -1},
        {.start_ms = 1000,
         .end_ms = 3500,
         .text = "",
         .language = "",
         .speech_prob = 0.75f,
         .dropped = true,
         .reason = RESULT_MISSING}};
    const struct parting_share share = {1, false, 0, 0};
    const struct parting_part p = {SPLIT, 0, 1, &share, 1};
    struct store *st = archive(), *part;
    struct err e = {0};

    part = part_new();
    assert_ok(parting_write(st, part, &p, &e), e);
    assert_ok(store_shard_done(part,
                               &(struct store_shard_result){.task_id = 1,
                                                            .end_ms = 30000,
                                                            .language = "en",
                                                            .device = "cpu",
                                                            .segments = s,
                                                            .segment_count = 2,
                                                            .account = {4000, 700, 2500}},
                               &e),
              e);
    assert_ok(store_shard_done(part,
                               &(struct store_shard_result){.task_id = 1,
                                                            .seq = 1,
                                                            .start_ms = 30000,
                                                            .end_ms = 50000,
                                                            .account.speech_ms = -1,
                                                            .shards = 2},
                               &e),
              e);
    store_close(part);
    merge_ok(st);
    assert_string_equal(text_of("SELECT group_concat(ifnull(speech_ms, '-') || ' ' || "
                                "ifnull(dropped_ms, '-') || ' ' || ifnull(missing_ms, '-')) "
                                "FROM shard"),
                        "4000 700 2500,- - -");
    assert_string_equal(text_of("SELECT speech_ms || ' ' || text_share FROM recordings "
                                "WHERE media_id = 1"),
                        "4000 0.2");
    assert_string_equal(text_of("SELECT start || text || reason FROM doubts "
                                "WHERE outcome = 'missing'"),
                        "0:01speech without text");
    catalog_close(st);
    /* A part may be anybody's. */
    st = archive();
    change("UPDATE shard SET missing_ms = 3301 WHERE seq = 0");
    {
        struct parting_merged m;

        assert_int_equal(merge(st, PART, &m, &e), ERR_INPUT);
    }
    catalog_close(st);
}

/* As good as their texts: those in between are longer. */
static int64_t triggers(void)
{
    return count_of("SELECT 1000000 * count(*) + sum(length(sql)) FROM sqlite_schema "
                    "WHERE type = 'trigger'");
}

static int64_t found(const char *word)
{
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM segment_fts WHERE segment_fts MATCH '%s'",
             word);
    return count_of(sql);
}

/* The index takes what comes at once, and only then: what was there goes when it is not current any
 * more, what came is there when it is, and the triggers are the catalog's own again. */
TEST(found_when_it_is_here)
{
    static const char *const old[] = {"nets and ropes"};
    const struct parting_share share = {1, false, 0, 0};
    const struct parting_part p = {SPLIT, 0, 1, &share, 1};
    struct store *st = archive(), *part;
    struct err e = {0};
    int64_t before = triggers();
    int64_t job;

    shard_put(st, 1, 0, old, 1);
    assert_ok(store_task_total(st, 1, 1, &e), e);
    shard_put(st, 2, 0, old, 1);
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/a/one.wav", "", 1);
    job_end(st, job, "/a");
    assert_int_equal(found("ropes"), 2);
    part = part_new();
    assert_ok(parting_write(st, part, &p, &e), e);
    shard_put(part, 4, 0, said, 2);
    assert_ok(store_task_total(part, 4, 1, &e), e);
    store_close(part);
    assert_int_equal(merge_ok(st).segments, 2);
    assert_int_equal(found("boats"), 1);
    assert_int_equal(found("rain"), 1);
    assert_int_equal(found("ropes"), 1);
    assert_int_equal(triggers(), before);
    shard_put(st, 3, 0, old, 1);
    assert_int_equal(found("ropes"), 2);
    catalog_close(st); /* which looks the index over */
}

/* What failed and is tried again here does not fail once more because its part comes back. */
TEST(a_failure_counts_once)
{
    struct store *st = archive();
    const struct request retry = {.type = REQUEST_RETRY};
    struct parting_merged m;

    part_made(st);
    merge_ok(st);
    assert_int_equal(apply_ok(st, &retry).affected, 1);
    m = merge_ok(st);
    assert_int_equal(m.failed, 0);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'failed'"), 0);
    /* Tried and given up once more in the part, that is news. */
    change("UPDATE task SET settled_at = '2999-01-01T00:00:00Z' WHERE state = 'failed'");
    m = merge_ok(st);
    assert_int_equal(m.failed, 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE settled_at > '2999'"), 0);
    catalog_close(st);
}

/* A merge that cannot take one row takes none: as if it had been killed there. */
TEST(all_or_nothing)
{
    static const char *const hostile[] = {
        "UPDATE shard SET result = x'01ff' WHERE task_id = 3",
        "UPDATE shard SET seq = -5 WHERE task_id = 3",
        "UPDATE shard SET seq = 1 << 40 WHERE task_id = 3",
        "UPDATE shard SET end_ms = -1 WHERE task_id = 3",
        "UPDATE task SET shards_total = 1 << 40 WHERE task_id = 3",
        "UPDATE media SET duration_ms = -7, container = 'wav' WHERE media_id = 3",
        "UPDATE setting SET value = '60000' WHERE name = 'shard_ms'",
        "UPDATE setting SET value = lower(hex(zeroblob(16))) WHERE name = 'part_of'",
        "UPDATE setting SET value = '4000000000' WHERE name = 'part'",
        "UPDATE setting SET value = 'x' WHERE name = 'split'",
        "DELETE FROM setting WHERE name = 'part_of'",
    };
    struct store *st = archive();
    int64_t before = triggers();

    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        struct parting_merged m;
        struct err e = {0};

        part_made(st);
        change(hostile[i]);
        if (merge(st, PART, &m, &e) == 0)
            fail_msg("taken: %s", hostile[i]);
        assert_true(e.code == ERR_INPUT);
        assert_int_equal(count_of("SELECT (SELECT count(*) FROM shard) + (SELECT count(*) FROM "
                                  "segment) + (SELECT count(*) FROM task WHERE state <> 'pending') "
                                  "+ (SELECT count(*) FROM setting WHERE name LIKE 'failed:%')"),
                         0);
        assert_int_equal(triggers(), before);
    }
    part_made(st);
    assert_int_equal(merge_ok(st).shards, 2);
    catalog_close(st);
}

/* A recording that is cut: shares come in any order, and are done when all are here. */
TEST(shares_of_a_recording)
{
    const struct parting_share shares[] = {{1, true, 0, 1}, {1, true, 1, 0}};
    struct store *st = archive();
    struct err e = {0};

    for (uint32_t i = 2; i-- > 0;) {
        const struct parting_part p = {SPLIT, i, 2, &shares[i], 1};
        struct parting_about about;
        struct store *part;

        part = part_new();
        assert_ok(parting_write(st, part, &p, &e), e);
        shard_put(part, 1, i, said, 2);
        assert_ok(store_task_total(part, 1, 2, &e), e);
        assert_ok(parting_about(part, &about, &e), e);
        assert_int_equal(about.open, 0);
        assert_int_equal(about.done, 1);
        store_close(part);
        assert_int_equal(merge_ok(st).tasks, i == 0);
    }
    assert_int_equal(count_of("SELECT state = 'done' FROM task WHERE task_id = 1"), 1);
    catalog_close(st);
}

/* How long a recording is, and of how many shards: what a part does not know, or found shorter,
 * takes nothing away; what it found longer is open again. */
TEST(totals_and_lengths)
{
    struct store *st = archive();
    struct err e = {0};

    part_made(st);
    change("UPDATE media SET container = 'wav', duration_ms = NULL WHERE media_id = 3");
    merge_ok(st);
    assert_int_equal(count_of("SELECT duration_ms IS NULL AND container = 'wav' FROM media "
                              "WHERE media_id = 3"),
                     1);
    assert_ok(store_task_total(st, 3, 3, &e), e);
    change("UPDATE task SET shards_total = 2 WHERE task_id = 3");
    merge_ok(st);
    assert_int_equal(count_of("SELECT shards_total FROM task WHERE task_id = 3"), 3);
    assert_int_equal(count_of("SELECT state = 'done' FROM task WHERE task_id = 1"), 1);
    change("UPDATE task SET shards_total = 2 WHERE task_id = 1");
    merge_ok(st);
    assert_int_equal(count_of("SELECT state = 'pending' AND shards_total = 2 FROM task "
                              "WHERE task_id = 1"),
                     1);
    catalog_close(st);
}

/* A try has failed that ended without a word and left no checkpoint behind. */
/* A part that finalized a recording has no voices any more: shards without these must not come
 * alone, or who retries has a recording in which nobody speaks. */
static void diarized_there(struct store *st, const char *select)
{
    struct parting_share share = {1, false, 0, 0};
    const struct parting_part p = {SPLIT, 0, 1, &share, 1};
    struct store *part = part_new();
    struct err e = {0};

    assert_ok(parting_write(st, part, &p, &e), e);
    diarize(part, 4);
    finalize(part, 4);
    store_close(part);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = select});
}

TEST(cancelled_here_and_finalized_there)
{
    struct store *st = archive();
    struct parting_merged m;
    struct err e = {0};

    job_add1(st, job_begin(st, &stage_voices), "/a/one.wav", "", 1);
    diarized_there(st, "/a/one.wav");
    m = merge_ok(st);
    assert_int_equal(m.shards, 2);
    assert_int_equal(m.tasks, 1); /* as a transcription of which nothing is left to do */
    assert_string_equal(text_of("SELECT state FROM task WHERE task_id = 4"), "done");
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 4);
    assert_ok(store_drop_cancelled(st, &e), e);
    assert_int_equal(merge_ok(st).known, 2);
    catalog_close(st);
}

/* Of which more is here than the part found: its speakers are not those of all of it. */
TEST(shorter_there_and_finalized)
{
    struct store *st = archive();
    struct err e = {0};

    job_add1(st, job_begin(st, &stage_voices), "/a/one.wav", "", 1);
    diarized_there(st, "/a/two.wav");
    voices_put(st, 4, 0);
    assert_ok(store_task_total(st, 4, 3, &e), e);
    assert_int_equal(merge_ok(st).shards, 0);
    assert_int_equal(count_of("SELECT shards_done FROM task WHERE task_id = 4"), 1);
    catalog_close(st);
}

TEST(tries_that_failed)
{
    struct store *st = archive(), *part;
    struct parting_about about;
    struct err e = {0};

    part_made(st);
    part = part_open(PART, STORE_WRITE);
    assert_ok(parting_about(part, &about, &e), e);
    assert_int_equal(about.tries + about.failed_tries + about.last_failed, 0);
    for (int i = 0; i < 2; i++)
        assert_ok(parting_try_begins(part, "on node1", &e), e);
    assert_ok(parting_about(part, &about, &e), e);
    assert_int_equal(about.failed_tries, 2);
    assert_true(about.last_failed);
    change("UPDATE event SET at = '2999-01-01T00:00:00.000Z'"); /* of a node whose clock is wrong */
    shard_put(part, 3, 1, said, 1); /* preempted without a word, and not in vain */
    assert_ok(parting_about(part, &about, &e), e);
    assert_int_equal(about.tries, 2);
    assert_int_equal(about.failed_tries, 1);
    assert_false(about.last_failed);
    assert_ok(parting_try_begins(part, "on node2", &e), e);
    assert_ok(parting_try_ends(part, "interrupted", &e), e);
    assert_ok(parting_about(part, &about, &e), e);
    assert_int_equal(about.tries, 3);
    assert_int_equal(about.failed_tries, 1);
    change("UPDATE event SET text = 'on node1'"); /* an older program did not count */
    assert_ok(parting_about(part, &about, &e), e);
    assert_int_equal(about.failed_tries, 0);
    store_close(part);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
