/* Fails the first, second, third ... of everything, until a round sees no fault. After each: the
 * error is one of those that callers know, the catalog is intact, the same step can be done again
 * on the same connection, and the end is the same as without faults.
 *
 * Rounds are thinned out towards large N; NIGHTSHIFT_FAULTS_MORE=1 takes twice as many, and
 * NIGHTSHIFT_FAULTS_ALL=1 every one. */
#include "store/lock.h"
#include "store/read/find.h"
#include "store/read/read.h"
#include "store/search/near_words.h"
#include "store/search/within.h"
#include "tests/unit/store/fault_vfs.h"
#include "tests/unit/store/fixture.h"

static unsigned next_n(unsigned n, unsigned part)
{
    return n + 1 + (getenv("NIGHTSHIFT_FAULTS_ALL") ? 0 : n / part);
}

static bool expected(int code)
{
    return code == ERR_NOMEM || code == ERR_FULL || code == ERR_IO || code == ERR_DENIED ||
           code == ERR_MISSING || code == ERR_LOCKED || code == ERR_CORRUPT;
}

/* FULL says full, memory says memory: what people are told to do depends on it. */
static bool fits(enum fault_kind kind, int code)
{
    if (kind == FAULT_WRITE_FULL)
        return code == ERR_FULL;
    if (kind == FAULT_SQLITE_MALLOC || kind == FAULT_OUR_MALLOC)
        return code == ERR_NOMEM;
    return expected(code) && code != ERR_FULL && code != ERR_NOMEM && code != ERR_CORRUPT;
}

struct world {
    struct store *st;
    struct request_reply reply;
};

static int step_open(struct world *w, struct err *e)
{
    return w->st ? 0 : store_open(CATALOG, STORE_WRITE, &w->st, e);
}

static int step_begin(struct world *w, struct err *e)
{
    return request_apply(
        w->st,
        &(struct request){.type = REQUEST_ENQUEUE_BEGIN, .stage = stage_nano, .language = ""},
        &w->reply, e);
}

static int step_add(struct world *w, struct err *e)
{
    struct store_found f[] = {found_at("/a/1.wav", "", 1), found_at("/a/2\xff.wav", "", 2),
                              found_at("/a/3.zip", "m", 3)};

    return request_apply(
        w->st, &(struct request){.type = REQUEST_ENQUEUE_ADD, .job_id = 1, .found = f, .count = 3},
        &w->reply, e);
}

static int step_trouble(struct world *w, struct err *e)
{
    struct request_trouble t = {"/a/x", 4, "", 0, 0, ERR_DENIED, "no"};

    return request_apply(
        w->st,
        &(struct request){.type = REQUEST_ENQUEUE_TROUBLE, .job_id = 1, .troubles = &t, .count = 1},
        &w->reply, e);
}

static int step_end(struct world *w, struct err *e)
{
    const char *roots[] = {"/a"}, *unread[] = {"/a/u"};

    return request_apply(w->st,
                         &(struct request){.type = REQUEST_ENQUEUE_END,
                                           .job_id = 1,
                                           .roots = roots,
                                           .root_count = 1,
                                           .unread = unread,
                                           .unread_count = 1},
                         &w->reply, e);
}

static int step_same(struct world *w, struct err *e)
{
    int64_t ids[] = {1, 2};

    return request_apply(
        w->st,
        &(struct request){.type = REQUEST_ENQUEUE_SAME, .job_id = 1, .place_ids = ids, .count = 2},
        &w->reply, e);
}

static int put_shard(struct store *st, int64_t task, uint32_t seq, struct err *e)
{
    const struct result_word words[] = {{seq * 30000, seq * 30000 + 4, " al", 0.5},
                                        {seq * 30000 + 4, seq * 30000 + 9, "pha", 1}};
    struct result_segment s[] = {{.start_ms = seq * 30000,
                                  .end_ms = seq * 30000 + 10,
                                  .text = "alpha",
                                  .language = "en",
                                  .avg_logprob = -0.5,
                                  .words = words,
                                  .word_count = 2},
                                 {.start_ms = seq * 30000 + 10,
                                  .end_ms = seq * 30000 + 12,
                                  .text = "you",
                                  .language = "en",
                                  .dropped = true,
                                  .reason = "no voice"},
                                 {.start_ms = seq * 30000 + 10,
                                  .end_ms = seq * 30000 + 20,
                                  .text = "beta",
                                  .language = "en",
                                  .avg_logprob = -1}};

    return store_shard_done(st,
                            &(struct store_shard_result){.task_id = task,
                                                         .seq = seq,
                                                         .start_ms = seq * 30000,
                                                         .end_ms = seq * 30000 + 30000,
                                                         .language = "en",
                                                         .device = "cpu",
                                                         .segments = s,
                                                         .segment_count = 3},
                            e);
}

static int step_batch(struct world *w, struct err *e)
{
    uint8_t hash[16] = {3};
    int rc = store_begin(w->st, e);

    if (rc < 0)
        return rc;
    for (uint32_t seq = 0; seq < 3 && rc == 0; seq++)
        rc = put_shard(w->st, 1, seq, e);
    if (rc == 0)
        rc = store_media(w->st, 1, NULL,
                         &(struct store_media_end){90000, hash, "cut", NULL, NULL, 0}, e);
    if (rc == 0)
        rc = store_task_total(w->st, 1, 3, e);
    if (rc == 0)
        return store_commit(w->st, e);
    store_rollback(w->st);
    return rc;
}

/* The caller that goes on within the batch after an error: it must not commit half of it alone. */
static int step_stubborn_batch(struct world *w, struct err *e)
{
    struct err ignored = {0};
    bool failed = false;
    int rc = store_begin(w->st, e);

    if (rc < 0)
        return rc;
    failed |= put_shard(w->st, 2, 0, &ignored) < 0;
    failed |= put_shard(w->st, 2, 1, &ignored) < 0;
    failed |= store_task_total(w->st, 2, 2, &ignored) < 0;
    rc = store_commit(w->st, e);
    if (rc < 0)
        return rc;
    if (failed)
        *e = ignored;
    return failed ? e->code : 0;
}

/* What a decoding finds, a list says and a verify reads. */
static int step_known(struct world *w, struct err *e)
{
    static const struct result_tag tags[] = {{"bext", "origination_date", "1990-05-17", 0, 0},
                                             {"chapter", "title", "Harbour", 0, 900}};
    static const struct store_said said = {"title", "El puerto"};
    static const struct request_description described = {1, &said, 1};
    static const struct request_verified verified = {"/a/x", 4, 9, 8, true, "fedcba987654321"};
    const struct request rq[] = {{.type = REQUEST_DESCRIBE, .descriptions = &described, .count = 1},
                                 {.type = REQUEST_VERIFIED, .verified = &verified, .count = 1}};
    struct request_reply reply = {0};
    int rc = store_media(w->st, 1,
                         &(struct store_media_info){-1, 16000, 1, "wav", "pcm", tags, 2, 1, false},
                         NULL, e);

    for (int i = 0; i < 2 && rc == 0; i++)
        rc = request_apply(w->st, &rq[i], &reply, e);
    return rc;
}

static int step_failed(struct world *w, struct err *e)
{
    return store_task_failed(w->st, 3, ERR_INPUT, "bad", -1, e);
}

/* One that is erased again. */
static int step_guest(struct world *w, struct err *e)
{
    static const struct result_segment said = {.end_ms = 900, .text = "goes", .language = "en"};
    const struct store_found f = found_at("/a/guest.wav", "", 99);
    int rc = request_apply(
        w->st, &(struct request){.type = REQUEST_ENQUEUE_ADD, .job_id = 1, .found = &f, .count = 1},
        &w->reply, e);

    return rc < 0 ? rc
                  : store_shard_done(
                        w->st,
                        &(struct store_shard_result){
                            .task_id = 4, .end_ms = 900, .segments = &said, .segment_count = 1},
                        e);
}

static int step_erase(struct world *w, struct err *e)
{
    static const int64_t ids[] = {4};

    return request_apply(
        w->st,
        &(struct request){
            .type = REQUEST_ERASE, .ids = ids, .count = 1, .speaker_name = "", .made_by = ""},
        &w->reply, e);
}

static int step_close(struct world *w, struct err *e)
{
    (void)e;
    store_close(w->st);
    w->st = NULL;
    return 0;
}

typedef int (*step_fn)(struct world *, struct err *);
static const step_fn steps[] = {
    step_open,           step_begin, step_add,    step_trouble, step_end,   step_same, step_batch,
    step_stubborn_batch, step_known, step_failed, step_guest,   step_erase, step_close};
#define STEPS (sizeof(steps) / sizeof(steps[0]))

static void check_end(void)
{
    catalog_audit();
    fts_check();
    /* A step whose answer was an error may have been committed all the same only if it says so:
     * none of ours does, so there is one job, and nothing is there twice. */
    own_kept = true;
    assert_int_equal(count_of("SELECT count(*) FROM job"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM media"), 3);
    assert_int_equal(count_of("SELECT count(*) FROM erased"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 5);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 10);
    assert_int_equal(count_of("SELECT count(*) FROM word"), 10);
    assert_int_equal(count_of("SELECT count(*) FROM dropped"), 5);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 2);
    assert_int_equal(count_of("SELECT attempts FROM task WHERE task_id = 3"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM results"), 15);
    assert_int_equal(count_of("SELECT count(*) FROM tag"), 3);
    assert_int_equal(count_of("SELECT count(*) FROM fixity WHERE changed_at IS NOT NULL"), 1);
    assert_string_equal(text_of("SELECT title || recorded_on FROM media WHERE media_id = 1"),
                        "El puerto1990-05-17");
    own_close();
}

/* One round: the fault strikes somewhere in steps[from..]; what failed is done again. */
static bool round_of(enum fault_kind kind, unsigned n, bool lasting, size_t from)
{
    struct world w = {0};
    bool given = false;

    if (from > 0)
        catalog_fresh();
    else
        catalog_remove();
    for (size_t i = 0; i < STEPS; i++) {
        struct err e = {0};
        int rc;

        if (i == from)
            fault_arm(kind, n, lasting);
        rc = steps[i](&w, &e);
        if (rc == 0)
            continue;
        given |= fault_disarm();
        if (!given || !fits(kind, rc))
            print_error("%s %u: step %zu: %d %s\n", fault_names[kind], n, i, rc, e.msg);
        assert_true(given);
        assert_true(fits(kind, rc));
        assert_true(e.msg[0] != 0);
        e = (struct err){0};
        assert_ok(steps[i](&w, &e), e);
    }
    given |= fault_disarm();
    check_end();
    return given;
}

/* part: how many rounds it takes until n has doubled, about. */
static void rounds_of(enum fault_kind kind, bool lasting, size_t from, unsigned part)
{
    unsigned n = 1, rounds = 0;

    while (round_of(kind, n, lasting, from)) {
        n = next_n(n, part);
        rounds++;
    }
    print_message("%s%s: %u rounds up to call %u\n", fault_names[kind], lasting ? ", lasting" : "",
                  rounds, n - 1);
    assert_true(rounds > 0 || from > 0); /* an open catalog opens nothing */
}

static unsigned usual_part(void) { return getenv("NIGHTSHIFT_FAULTS_MORE") ? 6 : 3; }

/* While the catalog is made calls are much alike, up to a million of them, and rounds are dear,
 * some seconds each under AddressSanitizer: few of these. Behind it the same steps are struck
 * densely, in a catalog that is there. */
static void all_rounds(enum fault_kind kind)
{
    rounds_of(kind, false, 0, 1);
    rounds_of(kind, false, 1, usual_part());
}

TEST(io_faults)
{
    for (enum fault_kind k = FAULT_WRITE_FULL; k <= FAULT_OPEN; k++)
        all_rounds(k);
    all_rounds(FAULT_SHM);
    rounds_of(FAULT_WRITE_FULL, true, 1, usual_part());
    rounds_of(FAULT_WRITE_IO, true, 1, usual_part());
}

TEST(sqlite_memory) { all_rounds(FAULT_SQLITE_MALLOC); }

TEST(our_memory) { all_rounds(FAULT_OUR_MALLOC); }

static int ends_so(void *arg, const char *name)
{
    const size_t n = strlen(name), len = strlen(arg);

    return n >= len && strcmp(name + n - len, arg) == 0;
}

static int count_span(void *arg, const struct read_span *row)
{
    (void)row;
    ++*(int *)arg;
    return 0;
}

static int count_segment(void *arg, const struct read_segment *g)
{
    (void)g;
    ++*(int *)arg;
    return 0;
}

static int count_recording(void *arg, const struct read_recording *r)
{
    (void)r;
    ++*(int *)arg;
    return 0;
}

static int count_other(void *arg, const struct read_other *r)
{
    (void)r;
    ++*(int *)arg;
    return 0;
}

static int count_tag(void *arg, const struct result_tag *t)
{
    (void)t;
    ++*(int *)arg;
    return 0;
}

static int count_file(void *arg, const struct read_file *f)
{
    (void)f;
    ++*(int *)arg;
    return 0;
}

static int count_place(void *arg, int64_t media_id, const char *path, const char *member)
{
    (void)media_id;
    (void)path;
    (void)member;
    ++*(int *)arg;
    return 0;
}

static int count_present(void *arg, int64_t place_id, int64_t media_id, uint64_t places,
                         struct err *err)
{
    (void)err;
    assert_true(place_id > 0 && media_id > 0 && places > 0);
    ++*(int *)arg;
    return 0;
}

/* Everything that reads, once; nothing it returned is leaked when a later part fails. */
static int read_everything(struct store **kept, struct err *e)
{
    struct store_stage_row *rows = NULL;
    struct request d = {0};
    struct buf b = BUF_INIT;
    struct store_task t[4];
    struct store_known k = {0};
    const struct store_found found = found_at("/a/1.wav", "", 1);
    static const char *const roots[] = {"/a"};
    const struct request end = {.type = REQUEST_ENQUEUE_END, .roots = roots, .root_count = 1};
    struct store_met met;
    uint64_t gone;
    struct coverage coverage;
    struct store *st = *kept;
    char name[] = "2\\xFF.wav";
    int seen = 0, rc = 0;
    int64_t id;
    size_t n = 0;

    if (!st) {
        rc = store_open(CATALOG, STORE_READ, &st, e);
        if (rc < 0)
            return rc;
        *kept = st;
    }
    rc = store_runnable(st, 1, 0, 0, t, 4, &n, e);
    while (n)
        store_task_free(&t[--n]);
    if (rc == 0)
        rc = store_known_path(st, "/a/1.wav", 8, &stage_nano, &k, e);
    store_known_free(&k);
    if (rc == 0)
        rc = store_meet(st, &found, &met, e);
    if (rc == 0)
        rc = store_present(st, &end, count_present, &seen, e);
    if (rc == 0)
        rc = store_gone(st, &gone, e);
    if (rc == 0)
        rc = read_unused(st, 1, &gone, e);
    if (rc == 0)
        rc = store_stages_runnable(st, 0, &rows, &n, e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        store_stage_row_free(&rows[i]);
    free(rows);
    if (rc == 0)
        rc = read_find(st, name, ends_so, name, count_recording, &seen, &id, e);
    if (rc == 0)
        rc = read_recordings(st, &(struct read_filter){.path = "/a"}, count_recording, &seen, e);
    if (rc == 0)
        rc = read_others(st, count_other, &seen, e);
    if (rc == 0)
        rc = read_segments(st, 1, 0, count_segment, &seen, e);
    if (rc == 0)
        rc = read_search(st, &(struct read_search){.text = "\"al\"* alpha", .path = "/a"},
                         count_segment, &seen, e);
    if (rc == 0)
        rc = read_within(st, &(struct read_search){.text = "al* alpha NOT zz", .path = "/a"}, 60000,
                         count_span, &seen, e);
    if (rc == 0)
        rc = coverage_read(st, "transcribe", "/a", &coverage, e);
    if (rc == 0)
        rc = find_tags(st, 1, count_tag, &seen, e);
    if (rc == 0)
        rc = read_files(st, "/a", count_file, &seen, e);
    if (rc == 0)
        rc = read_places(st, count_place, &seen, e);
    if (rc == 0 && (rc = read_place(st, "/nowhere", "", &id, e)) == ERR_MISSING)
        rc = 0;
    if (rc == 0) {
        request_put(&b, &(struct request){.type = REQUEST_ENQUEUE_BEGIN, .stage = stage_nano});
        if (b.failed)
            rc = err_set(e, ERR_NOMEM, "encoding");
    }
    if (rc == 0) {
        rc = request_get(b.data, b.len, &d, e);
        request_free(&d);
    }
    buf_free(&b);
    return rc;
}

TEST(reading)
{
    static const enum fault_kind kinds[] = {FAULT_READ, FAULT_OPEN, FAULT_SHM, FAULT_SQLITE_MALLOC,
                                            FAULT_OUR_MALLOC};
    struct world w = {0};

    catalog_remove();
    for (size_t i = 0; i + 1 < STEPS; i++) {
        struct err e = {0};

        assert_ok(steps[i](&w, &e), e);
    }
    /* The last task is pending again, and the writer's end leaves no log behind. */
    apply_ok(w.st, &(struct request){.type = REQUEST_RETRY});
    store_close(w.st);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        unsigned n = 1;

        for (;; n = next_n(n, usual_part())) {
            struct store *st = NULL;
            struct err e = {0};
            bool given;
            int rc;

            fault_arm(kinds[i], n, false);
            rc = read_everything(&st, &e);
            given = fault_disarm();
            if (rc < 0 && (!given || !fits(kinds[i], rc)))
                print_error("%s %u: %d %s\n", fault_names[kinds[i]], n, rc, e.msg);
            assert_true(rc == 0 || given);
            assert_true(rc == 0 || fits(kinds[i], rc));
            e = (struct err){0};
            assert_ok(read_everything(&st, &e), e);
            store_close(st);
            if (!given)
                break;
        }
        print_message("reading, %s: up to call %u\n", fault_names[kinds[i]], n - 1);
        assert_true(n > 1);
    }
    catalog_audit();
}

/* What the last close of a catalog waits for: the log's way to the disk, and the checkpoint's. The
 * statistics that it takes have no third. */
TEST(a_close_waits_for_the_disk_twice)
{
    struct world w = {0};

    catalog_remove();
    for (size_t i = 0; i + 1 < STEPS; i++) {
        struct err e = {0};

        assert_ok(steps[i](&w, &e), e);
    }
    run_sql("WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 256) "
            "INSERT INTO media (size_bytes, fingerprint, created_at) "
            "SELECT n, randomblob(16), '' FROM n"); /* of fewer it takes none */
    fault_arm(FAULT_SYNC, 3, true);
    store_close(w.st);
    assert_false(fault_disarm());
    assert_true(count_of("SELECT count(*) FROM sqlite_stat1") > 0);
}

int main(void)
{
    fault_install();
    return suite_run(NULL, NULL);
}
