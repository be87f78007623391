/* What enqueueing means: content, places, tasks, vanishing, troubles, selections. */
#include "tests/unit/store/fixture.h"

TEST(new_content_and_again)
{
    struct store *st = catalog_new();
    struct store_found f[] = {found_at("/a/one.wav", "", 1), found_at("/a/two.wav", "", 2),
                              found_at("/a/copy of one.wav", "", 1)};
    struct request_reply r;
    int64_t job;

    job = job_begin(st, &stage_nano);
    r = job_add(st, job, f, 3);
    assert_int_equal(r.counts.seen, 3);
    assert_int_equal(r.counts.added, 2);
    assert_int_equal(r.counts.places, 1);
    assert_int_equal(r.counts.tasks, 2);
    job_end(st, job, "/a");
    job = job_begin(st, &stage_nano);
    r = job_add(st, job, f, 3);
    assert_int_equal(r.counts.added + r.counts.places + r.counts.changed + r.counts.tasks, 0);
    assert_int_equal(r.counts.unchanged, 3);
    assert_int_equal(job_end(st, job, "/a").counts.vanished, 0);
    /* Another model: tasks only. */
    job = job_begin(st, &stage_tiny);
    r = job_add(st, job, f, 3);
    assert_int_equal(r.counts.added, 0);
    assert_int_equal(r.counts.tasks, 2);
    assert_int_equal(count_of("SELECT count(*) FROM stage"), 2);
    assert_int_equal(count_of("SELECT seen FROM job WHERE job_id = 2"), 3);
    assert_int_equal(runnable(st, NULL), 2); /* in place of the other one's */
    catalog_close(st);
}

TEST(changed_content)
{
    struct store *st = catalog_new();
    struct request_reply r;
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/x.wav", "", 1);
    job_end(st, job, "/a");
    shard_put(st, 1, 0, (const char *[]){"the old words"}, 1);
    job = job_begin(st, &stage_nano);
    r = job_add1(st, job, "/a/x.wav", "", 2);
    assert_int_equal(r.counts.changed, 1);
    assert_int_equal(r.counts.added, 0); /* it is counted once */
    assert_int_equal(r.counts.tasks, 1);
    assert_int_equal(job_end(st, job, "/a").counts.vanished, 0);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE state = 'replaced'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 1);
    /* The old content has no place now: nobody finds it, nor waits for it. */
    assert_int_equal(count_of("SELECT count(*) FROM transcript"), 0);
    assert_string_equal(text_of("SELECT place_state FROM transcript_all"), "replaced");
    assert_int_equal(count_of("SELECT count(*) FROM segment_fts('old')"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM recordings"), 1);
    assert_int_equal(count_of("SELECT recordings FROM archive"), 1);
    assert_int_equal(runnable(st, NULL), 1);
    assert_int_equal(count_of("SELECT count(*) FROM failures"), 0);
    /* It comes back: to a third row of the same path. */
    job = job_begin(st, &stage_nano);
    r = job_add1(st, job, "/a/x.wav", "", 1);
    assert_int_equal(r.counts.changed, 1);
    assert_int_equal(r.counts.added, 0);
    assert_int_equal(runnable(st, NULL), 1);
    catalog_close(st);
}

TEST(vanished_and_back)
{
    struct store *st = catalog_new();
    struct store_known k;
    struct request_reply r;
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano), first;

    job_add1(st, job, "/a/x.wav", "", 1);
    job_add1(st, job, "/a/y.wav", "", 1);
    job_add1(st, job, "/a/z.wav", "", 2);
    job_add1(st, job, "/a.txt", "", 3);
    job_add1(st, job, "/b/w.wav", "", 4);
    job_end(st, job, "/a");
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/y.wav", "", 1);
    r = job_end(st, job, "/a/");
    assert_int_equal(r.counts.vanished, 2);
    assert_int_equal(r.counts.gone, 1);
    assert_int_equal(runnable(st, NULL), 3);
    assert_string_equal(text_of("SELECT path FROM recordings WHERE media_id = 1"), "/a/y.wav");
    assert_string_equal(text_of("SELECT path FROM failures WHERE kind = 'absent'"), "/a/z.wav");
    assert_int_equal(count_of("SELECT vanished FROM job WHERE job_id = 2"), 2);
    job = job_begin(st, &stage_nano);
    assert_ok(store_known_path(st, "/a/z.wav", 8, &stage_nano, &k, &e), e);
    assert_int_equal(k.count, 1);
    assert_true(k.has_task_all);
    apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_SAME,
                                   .job_id = job,
                                   .place_ids = k.place_ids,
                                   .count = k.count});
    store_known_free(&k);
    assert_int_equal(runnable(st, &first), 4);
    /* The root itself, when it is a file, and the root of everything. */
    job = job_begin(st, &stage_nano);
    assert_int_equal(job_end(st, job, "/a.txt").counts.vanished, 1);
    job = job_begin(st, &stage_nano);
    assert_int_equal(job_end(st, job, "/").counts.vanished, 3);
    assert_int_equal(runnable(st, NULL), 0);
    catalog_close(st);
}

static const char sql_main[] = "SELECT path || ' ' || place_state FROM recordings "
                               "WHERE media_id = 1";

/* All copies are gone, and one's name has other content by now: that is no place to show. */
TEST(replaced_and_a_copy_vanished)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/x.wav", "", 1);
    job_add1(st, job, "/a/y.wav", "", 1);
    job_end(st, job, "/a");
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/y.wav", "", 1);
    job_end(st, job, "/a");
    job_end(st, job_begin(st, &stage_nano), "/a");
    assert_string_equal(text_of(sql_main), "/a/y.wav vanished");
    job_add1(st, job_begin(st, &stage_nano), "/a/y.wav", "", 2);
    assert_string_equal(text_of(sql_main), "/a/x.wav vanished");
    /* The other one, too: it is where it was last. */
    job_add1(st, job_begin(st, &stage_nano), "/a/x.wav", "", 3);
    assert_int_equal(count_of("SELECT replaced AND place_id = 1 FROM media WHERE media_id = 1"), 1);
    catalog_close(st);
}

TEST(unread_is_not_vanished)
{
    struct store *st = catalog_new();
    const char *roots[] = {"/a", "/a/deep"}, *unread[] = {"/a/locked/", "/a/broken.zip"};
    struct request_reply r;
    struct store_known k;
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/locked/1.wav", "", 1);
    job_add1(st, job, "/a/lockedness.wav", "", 2);
    job_add1(st, job, "/a/broken.zip", "in/3.wav", 3);
    job_add1(st, job, "/a/deep/4.wav", "", 4);
    job_end(st, job, "/a");
    job = job_begin(st, &stage_nano);
    r = apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_END,
                                       .job_id = job,
                                       .roots = roots,
                                       .root_count = 2,
                                       .unread = unread,
                                       .unread_count = 2});
    assert_int_equal(r.counts.vanished, 2);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE state = 'present'"), 2);
    /* The archive was not read to its end: it must not look unchanged. */
    assert_ok(store_known_path(st, "/a/broken.zip", 13, &stage_nano, &k, &e), e);
    assert_int_equal(k.mtime_ns, -1);
    store_known_free(&k);
    catalog_close(st);
}

TEST(two_walks_at_once)
{
    struct store *st = catalog_new();
    int64_t one, two;

    one = job_begin(st, &stage_nano);
    job_add1(st, one, "/a/x.wav", "", 1);
    job_end(st, one, "/a");
    one = job_begin(st, &stage_nano);
    two = job_begin(st, &stage_nano);
    job_add1(st, two, "/a/x.wav", "", 1);
    job_add1(st, one, "/a/x.wav", "", 1);
    assert_int_equal(job_end(st, two, "/a").counts.vanished, 0);
    assert_int_equal(job_end(st, one, "/a").counts.vanished, 0);
    catalog_close(st);
}

TEST(archives_and_known)
{
    struct store *st = catalog_new();
    struct store_found f[] = {found_at("/a.zip", "1.wav", 1), found_at("/a.zip", "2.wav", 2)};
    struct store_known k = {0};
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);

    f[1].mtime_ns = f[0].mtime_ns;
    f[1].file_size_bytes = f[0].file_size_bytes;
    job_add(st, job, f, 1);
    /* Killed half-way through the listing: the archive is not known. */
    assert_int_equal(store_known_path(st, "/a.zip", 6, &stage_nano, &k, &e), ERR_EMPTY);
    job = job_begin(st, &stage_nano);
    assert_int_equal(store_known_path(st, "/a.zip", 6, &stage_nano, &k, &e), ERR_EMPTY);
    job_add(st, job, f, 2);
    job_end(st, job, "/a.zip");
    assert_ok(store_known_path(st, "/a.zip", 6, &stage_nano, &k, &e), e);
    assert_int_equal(k.count, 2);
    assert_int_equal(k.mtime_ns, f[0].mtime_ns);
    assert_true(k.has_task_all);
    store_known_free(&k);
    assert_ok(store_known_path(st, "/a.zip", 6, &stage_tiny, &k, &e), e);
    assert_false(k.has_task_all);
    /* SAME only sees them; KNOWN gives each the new stage without reading the archive again. */
    job = job_begin(st, &stage_tiny);
    for (int known = 0; known < 2; known++)
        assert_int_equal(apply_ok(st, &(struct request){.type = known ? REQUEST_ENQUEUE_KNOWN
                                                                      : REQUEST_ENQUEUE_SAME,
                                                        .job_id = job,
                                                        .place_ids = k.place_ids,
                                                        .count = k.count})
                             .counts.tasks,
                         known ? 2 : 0);
    store_known_free(&k);
    assert_int_equal(store_known_path(st, "/other", 6, &stage_nano, &k, &e), ERR_EMPTY);
    /* One member fewer. */
    job = job_begin(st, &stage_nano);
    f[0].mtime_ns += 5;
    job_add(st, job, f, 1);
    assert_int_equal(job_end(st, job, "/").counts.vanished, 1);
    assert_ok(store_known_path(st, "/a.zip", 6, &stage_nano, &k, &e), e);
    assert_int_equal(k.count, 1);
    store_known_free(&k);
    catalog_close(st);
}

TEST(odd_names)
{
    struct store *st = catalog_new();
    const char raw[] = "/a/\xff\xfe new\nline.wav";
    int64_t job = job_begin(st, &stage_nano);
    struct store_task t[2];
    struct err e = {0};
    size_t n;

    job_add1(st, job, raw, "m\xc3\x28", 1);
    assert_ok(store_runnable(st, 1, 0, 0, t, 2, &n, &e), e);
    assert_int_equal(n, 1);
    assert_string_equal(t[0].path, raw);
    assert_string_equal(t[0].member, "m\xc3\x28");
    assert_string_equal(t[0].language, "en");
    store_task_free(&t[0]);
    assert_string_equal(text_of("SELECT path FROM recordings"), "/a/\\xFF\\xFE new\\nline.wav");
    catalog_close(st);
}

TEST(troubles)
{
    struct store *st = catalog_new();
    struct request_trouble t[] = {{"/a/x.zip", 8, "", 0, 0, ERR_INPUT, "not a zip"},
                                  {"/a/y.zip", 8, "m", 1, 0, ERR_INPUT, "encrypted"},
                                  {"/a/dir", 6, "", 0, 0, ERR_DENIED, "permission denied"}};
    struct store_totals totals;
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano), id = 1;
    const char *root = "/a", *unread = "/a/dir";
    bool known;

    job_add1(st, job, "/a/y.zip", "n", 1);
    for (int again = 0; again < 2; again++)
        apply_ok(st,
                 &(struct request){
                     .type = REQUEST_ENQUEUE_TROUBLE, .job_id = job, .troubles = t, .count = 3});
    job_end(st, job, "/a");
    assert_int_equal(count_of("SELECT count(*) FROM failures WHERE kind = 'unreadable'"), 3);
    /* What is as it was is not new. */
    run_sql("UPDATE trouble SET at = '2001'");
    assert_ok(store_trouble_known(st, &t[1], &known, &e), e);
    assert_true(known);
    t[1].nth = 1;
    assert_ok(store_trouble_known(st, &t[1], &known, &e), e);
    assert_false(known);
    t[1].nth = 0;
    t[2].message = "no such device";
    assert_ok(store_trouble_known(st, &t[2], &known, &e), e);
    assert_false(known);
    apply_ok(st, &(struct request){
                     .type = REQUEST_ENQUEUE_TROUBLE, .job_id = job, .troubles = t, .count = 3});
    assert_string_equal(text_of("SELECT group_concat(path) FROM trouble WHERE at > '2001'"),
                        "/a/dir");
    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.troubles, 3);
    /* x.zip is a recording now; y.zip unchanged keeps its member's trouble; dir is unread again. */
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/x.zip", "", 9);
    apply_ok(st, &(struct request){
                     .type = REQUEST_ENQUEUE_SAME, .job_id = job, .place_ids = &id, .count = 1});
    apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_END,
                                   .job_id = job,
                                   .roots = &root,
                                   .root_count = 1,
                                   .unread = &unread,
                                   .unread_count = 1});
    assert_int_equal(count_of("SELECT count(*) FROM trouble"), 2);
    job = job_begin(st, &stage_nano);
    job_end(st, job, "/a");
    assert_int_equal(count_of("SELECT count(*) FROM trouble"), 0);
    catalog_close(st);
}

static int64_t turn_at(struct store *st, size_t at)
{
    struct store_task t[8];
    struct err e = {0};
    int64_t id = 0;
    size_t n;

    assert_ok(store_runnable(st, 1, INT64_MIN, 0, t, 8, &n, &e), e);
    for (size_t i = 0; i < n; i++) {
        if (i == at)
            id = t[i].task_id;
        assert_true(i == 0 || t[i - 1].position < t[i].position);
        assert_int_equal(t[i].position, store_position(t[i].task_id, t[i].priority));
    }
    for (size_t i = 0; i < n; i++)
        store_task_free(&t[i]);
    return id;
}

TEST(priorities)
{
    struct request first = {.type = REQUEST_ENQUEUE_BEGIN,
                            .stage = stage_nano,
                            .has_priority = true,
                            .priority = STORE_HIGH};
    struct store *st = catalog_new();
    struct store_task t[8];
    struct err e = {0};
    struct request_reply r;
    uint64_t high;
    int64_t job = job_begin(st, &stage_nano);
    int priority;
    size_t n;

    for (uint64_t i = 1; i <= 4; i++)
        job_add1(st, job, (const char *[]){"/a/1", "/a/2", "/a/b/3", "/a/b/4"}[i - 1], "", i);
    r = apply_ok(st, &(struct request){
                         .type = REQUEST_PRIORITY, .select_path = "/a/b", .priority = STORE_HIGH});
    assert_int_equal(r.affected, 2);
    r = apply_ok(st, &(struct request){
                         .type = REQUEST_PRIORITY, .select_path = "/a/1", .priority = STORE_LOW});
    assert_int_equal(turn_at(st, 0), 3);
    assert_int_equal(turn_at(st, 1), 4);
    assert_int_equal(turn_at(st, 2), 2);
    assert_int_equal(turn_at(st, 3), 1);
    assert_ok(store_high(st, &high, &e), e);
    assert_int_equal(high, 2);
    assert_ok(store_first_priority(st, 1, 0, &priority, &e), e);
    assert_int_equal(priority, STORE_HIGH);
    assert_ok(store_first_priority(st, 9, 0, &priority, &e), e);
    assert_true(priority < STORE_LOW);
    /* On from where a page has ended. */
    assert_ok(store_runnable(st, 1, store_position(4, STORE_HIGH), 0, t, 8, &n, &e), e);
    assert_int_equal(n, 2);
    assert_int_equal(t[0].task_id, 2);
    store_task_free(&t[0]);
    store_task_free(&t[1]);
    /* A job of its own: what is new, and what was waiting. */
    job = apply_ok(st, &first).job_id;
    job_add1(st, job, "/a/1", "", 1);
    job_add1(st, job, "/a/5", "", 5);
    assert_int_equal(turn_at(st, 0), 1);
    assert_int_equal(turn_at(st, 3), 5);
    assert_int_equal(turn_at(st, 4), 2);
    r = apply_ok(st, &(struct request){
                         .type = REQUEST_PRIORITY, .select_job = job, .priority = STORE_NORMAL});
    assert_int_equal(r.affected, 1); /* which it brought */
    assert_int_equal(count_of("SELECT priority FROM job WHERE job_id = 2"), 0);
    assert_int_equal(
        request_apply(st, &(struct request){.type = REQUEST_PRIORITY, .priority = 2}, &r, &e),
        ERR_INPUT);
    catalog_close(st);
}

TEST(selections)
{
    struct store *st = catalog_new();
    struct store_totals totals;
    struct request_reply r = {0};
    struct err e = {0};
    int64_t one = job_begin(st, &stage_nano), two;

    job_add1(st, one, "/a/1.wav", "", 1);
    job_add1(st, one, "/a/b/2.wav", "", 2);
    two = job_begin(st, &stage_nano);
    job_add1(st, two, "/a/b/3.wav", "", 3);
    job_add1(st, two, "/ab/4.wav", "", 4);
    r = apply_ok(st, &(struct request){.type = REQUEST_PAUSE, .select_path = "/a/b"});
    assert_int_equal(r.affected, 2);
    assert_int_equal(runnable(st, NULL), 2);
    r = apply_ok(st, &(struct request){.type = REQUEST_RESUME, .select_path = "/a/b/2.wav"});
    assert_int_equal(r.affected, 1);
    r = apply_ok(st, &(struct request){.type = REQUEST_PAUSE});
    assert_int_equal(r.affected, 3);
    assert_int_equal(runnable(st, NULL), 0);
    assert_ok(store_totals(st, &totals, &e), e);
    assert_true(totals.paused);
    assert_int_equal(totals.tasks_paused, 1);
    apply_ok(st, &(struct request){.type = REQUEST_RESUME});
    assert_int_equal(runnable(st, NULL), 4);
    r = apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_job = two});
    assert_int_equal(r.affected, 2);
    assert_int_equal(runnable(st, NULL), 2);
    assert_int_equal(
        request_apply(st,
                      &(struct request){
                          .type = REQUEST_ENQUEUE_ADD, .job_id = two, .found = NULL, .count = 0},
                      &r, &e),
        ERR_CANCELLED);
    r = apply_ok(st, &(struct request){.type = REQUEST_RETRY, .select_path = "/"});
    assert_int_equal(r.affected, 2);
    assert_int_equal(runnable(st, NULL), 4);
    assert_int_equal(
        request_apply(st, &(struct request){.type = REQUEST_CANCEL, .select_job = 99}, &r, &e),
        ERR_MISSING);
    /* In an archive: a member, by its bytes or as it is shown, and a folder; not its like. */
    job_add1(st, one, "/a/z.zip", "in/1.wav", 5);
    job_add1(st, one, "/a/z.zip", "in/\xE9.wav", 6);
    job_add1(st, one, "/a/z.zip", "inner.wav", 7);
    static const struct {
        const char *path;
        uint64_t n;
    } members[] = {{"/a/z.zip//in/1.wav", 1}, {"/a/z.zip//in", 2},          {"/a/z.zip//in/", 2},
                   {"/a/z.zip//inn", 0},      {"/a/z.zip//in/\xE9.wav", 1}, {"/a/z.zip", 3},
                   {"/a/z.zip//1.wav", 0},    {"/a/z.zip//in/\\xE9.wav", 1}};
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        for (enum request_type k = REQUEST_PAUSE; k <= REQUEST_RESUME; k++) {
            struct request rq = {.type = k, .select_path = members[i].path};

            print_message("%s\n", rq.select_path);
            assert_int_equal(request_apply(st, &rq, &r, &e), members[i].n ? 0 : ERR_MISSING);
            assert_int_equal(members[i].n ? r.affected : 0, members[i].n);
        }
    for (enum request_type k = REQUEST_RETRY; k <= REQUEST_RESUME; k++) {
        struct request rq = {.type = k, .select_path = "/a/b/2.wa"};

        assert_int_equal(request_apply(st, &rq, &r, &e), ERR_MISSING);
        rq = (struct request){.type = k, .select_job = 99};
        assert_int_equal(request_apply(st, &rq, &r, &e), ERR_MISSING);
        rq = (struct request){.type = k, .select_path = "/a/b", .select_job = one};
        assert_int_equal(request_apply(st, &rq, &r, &e), 0);
    }
    catalog_close(st);
}

TEST(failed_for_the_place_comes_back)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);
    struct err e = {0};

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    assert_ok(store_task_failed(st, 1, ERR_MISSING, "gone", -1, &e), e);
    assert_ok(store_task_failed(st, 2, ERR_INPUT, "no audio", -1, &e), e);
    job = job_begin(st, &stage_nano);
    assert_int_equal(job_add1(st, job, "/a/1.wav", "", 1).affected, 1);
    assert_int_equal(job_add1(st, job, "/a/2.wav", "", 2).affected, 0);
    assert_int_equal(runnable(st, NULL), 1);
    catalog_close(st);
}

TEST(bad_requests)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);
    struct store_found f = found_at("relative", "", 1), g = found_at("/x", "", 1);
    struct request_reply r = {0};
    struct err e = {0};
    const char *root = "a";

    g.size_bytes = UINT64_MAX;
    const struct request bad[] = {
        {.type = (enum request_type)0},
        {.type = (enum request_type)77},
        {.type = REQUEST_ENQUEUE_BEGIN},
        {.type = REQUEST_ENQUEUE_ADD, .job_id = job, .found = &f, .count = 1},
        {.type = REQUEST_ENQUEUE_ADD, .job_id = job, .found = &g, .count = 1},
        {.type = REQUEST_ENQUEUE_ADD, .job_id = job, .found = &f, .count = UINT32_MAX},
        {.type = REQUEST_ENQUEUE_ADD, .job_id = 99},
        {.type = REQUEST_ENQUEUE_SAME, .job_id = 99},
        {.type = REQUEST_ENQUEUE_END, .job_id = job, .roots = &root, .root_count = 1},
        {.type = REQUEST_ENQUEUE_END, .job_id = 99},
        {.type = REQUEST_RETRY, .select_path = "a"},
        {.type = REQUEST_RETRY, .select_job = -1},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(request_apply(st, &bad[i], &r, &e), ERR_INPUT);
    assert_int_equal(count_of("SELECT count(*) FROM media"), 0);
    catalog_close(st);
}

/* take.wav of an archive, nth of that name. */
static struct store_found take(uint32_t nth, uint64_t content)
{
    struct store_found f = found_at("/a/t.tar", "take.wav", content);

    f.nth = nth;
    f.file_size_bytes = 5000;
    f.mtime_ns = 1700000000000000000;
    f.inode = 12;
    return f;
}

/* Of those at the path. */
static void select_members(struct store *st, const char *path, const char *members)
{
    apply_ok(st, &(struct request){.type = REQUEST_PAUSE, .select_path = path});
    assert_string_equal(
        text_of("SELECT group_concat(member, ', ') FROM tasks WHERE state = 'paused'"), members);
    apply_ok(st, &(struct request){.type = REQUEST_RESUME, .select_path = path});
}

TEST(members_of_one_name)
{
    struct store *st = catalog_new();
    struct store_found f[] = {take(0, 1), take(1, 2), take(2, 1), take(3, 3)};
    struct store_task t[4];
    struct store_known k;
    struct request_reply r;
    struct err e = {0};
    size_t n;
    int64_t job = job_begin(st, &stage_nano);

    r = job_add(st, job, f, 4);
    assert_int_equal(r.counts.added, 3);
    assert_int_equal(r.counts.places, 1);
    assert_int_equal(r.counts.changed, 0);
    assert_int_equal(r.counts.tasks, 3);
    job_end(st, job, "/a");
    assert_ok(store_runnable(st, 1, 0, 0, t, 4, &n, &e), e);
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < n; i++) {
        static const uint32_t nth[] = {0, 1, 3};

        assert_string_equal(t[i].member, "take.wav");
        assert_int_equal(t[i].nth, nth[i]);
    }
    assert_ok(store_task_place(st, &t[0], 1, &e), e);
    assert_int_equal(t[0].nth, 2);
    for (size_t i = 0; i < n; i++)
        store_task_free(&t[i]);
    assert_string_equal(text_of("SELECT group_concat(member, ', ') FROM tasks"),
                        "take.wav, take.wav (2), take.wav (4)");
    /* By the names that they are shown with. */
    select_members(st, "/a/t.tar//take.wav", "take.wav");
    select_members(st, "/a/t.tar//take.wav (4)", "take.wav (4)");
    select_members(st, "/a/t.tar", "take.wav, take.wav (2), take.wav (4)");
    /* Again: nothing new, and the archive is known as it is. */
    job = job_begin(st, &stage_nano);
    r = job_add(st, job, f, 4);
    assert_int_equal(r.counts.unchanged, 4);
    assert_int_equal(r.counts.tasks, 0);
    assert_int_equal(job_end(st, job, "/a").counts.vanished, 0);
    assert_ok(store_known_path(st, "/a/t.tar", 8, &stage_nano, &k, &e), e);
    assert_int_equal(k.count, 4);
    assert_true(k.has_task_all);
    store_known_free(&k);
    /* Only the first two are left, in the other order: nothing is new, nothing of them is gone. */
    job = job_begin(st, &stage_nano);
    r = job_add(st, job, (struct store_found[]){take(0, 2), take(1, 1)}, 2);
    assert_int_equal(r.counts.changed, 2);
    assert_int_equal(r.counts.tasks, 0);
    assert_int_equal(job_end(st, job, "/a").counts.vanished, 2);
    assert_int_equal(count_of("SELECT count(*) FROM tasks WHERE state = 'absent'"), 1);
    assert_int_equal(runnable(st, NULL), 2);
    catalog_close(st);
}

/* What is wrong with one of them is not forgotten for another's sake. */
TEST(troubles_of_one_name)
{
    struct store *st = catalog_new();
    struct request_trouble t[] = {{"/a/t.tar", 8, "take.wav", 8, 0, ERR_INPUT, "encrypted"},
                                  {"/a/t.tar", 8, "take.wav", 8, 2, ERR_INPUT, "damaged"}};
    const struct store_found second = take(1, 2), third = take(2, 3);
    int64_t job = job_begin(st, &stage_nano);

    apply_ok(st, &(struct request){
                     .type = REQUEST_ENQUEUE_TROUBLE, .job_id = job, .troubles = t, .count = 2});
    job_add(st, job, &second, 1);
    assert_string_equal(text_of("SELECT group_concat(member, ', ') FROM failures"),
                        "take.wav, take.wav (3)");
    job_add(st, job, &third, 1);
    assert_string_equal(text_of("SELECT group_concat(member, ', ') FROM failures"), "take.wav");
    job_end(st, job, "/a");
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
