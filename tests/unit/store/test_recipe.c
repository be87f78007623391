/* Recipes of files and folders, and what another way of doing them would cost. */
#include "store/read/recipes.h"
#include "tests/unit/store/fixture.h"
#include "tests/unit/store/stages.h"

#define RECIPES                                                                                 \
    "SELECT group_concat(path || ' ' || kind || ' ' || options || ' ' || model_hash || ' ' || " \
    "ifnull(job_id, '-')) FROM (SELECT * FROM recipe ORDER BY path_raw, kind)"

static int64_t ask(struct store *st, const struct store_stage *stage, const char *root,
                   const char *options, bool replaces)
{
    return apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_BEGIN,
                                          .command_line = "c",
                                          .stage = *stage,
                                          .language = "",
                                          .roots = &root,
                                          .root_count = 1,
                                          .options = options,
                                          .replaces = replaces})
        .job_id;
}

static uint64_t set(struct store *st, const char *kind, const char *root, const char *options)
{
    return apply_ok(st, &(struct request){.type = REQUEST_RECIPE,
                                          .stage = {.name = kind, .model_hash = "ff"},
                                          .roots = &root,
                                          .root_count = 1,
                                          .options = options})
        .affected;
}

TEST(recipes_are_kept_for_each_folder_and_kind)
{
    struct store *st = catalog_new();

    ask(st, &stage_nano, "/a", "[]", true);
    ask(st, &stage_tiny, "/a/b", "[2]", true);
    ask(st, &stage_tiny, "/a-b", "[3]", true);
    ask(st, &stage_voices, "/a/b", "[4]", true);
    assert_string_equal(text_of(RECIPES), "/a transcribe [] aa11 1,/a-b transcribe [3] bb22 3,"
                                          "/a/b diarize [4] dd44 4,/a/b transcribe [2] bb22 2");
    /* Set again for one path it is replaced; what lies below stays, unless that is replaced, too;
     * another kind is another thing, and without options nothing is said of it. */
    ask(st, &stage_tiny, "/a", "[5]", false);
    ask(st, &stage_nano, "/a", NULL, true);
    assert_string_equal(text_of(RECIPES), "/a transcribe [5] bb22 5,/a-b transcribe [3] bb22 3,"
                                          "/a/b diarize [4] dd44 4,/a/b transcribe [2] bb22 2");
    ask(st, &stage_nano, "/a", "[]", true);
    assert_string_equal(
        text_of(RECIPES),
        "/a transcribe [] aa11 7,/a-b transcribe [3] bb22 3,/a/b diarize [4] dd44 4");
    ask(st, &stage_nano, "/", "[6]", true);
    assert_string_equal(text_of(RECIPES), "/ transcribe [6] aa11 8,/a/b diarize [4] dd44 4");
    catalog_close(st);
}

TEST(a_recipe_is_set_and_removed_without_an_enqueue)
{
    struct store *st = catalog_new();

    ask(st, &stage_nano, "/a", "[]", true);
    assert_int_equal(set(st, "transcribe", "/a", "[7]"), 0);
    set(st, "sounds", "/a\xff", "[8]");
    assert_string_equal(text_of(RECIPES), "/a transcribe [7] ff 1,/a\\xFF sounds [8] ff -");
    assert_int_equal(count_of("SELECT count(*) FROM job"), 1);
    assert_int_equal(set(st, "sounds", "/a", NULL), 0);
    assert_int_equal(set(st, "transcribe", "/a", NULL), 1);
    assert_int_equal(set(st, "sounds", "/a\xff", NULL), 1);
    assert_int_equal(count_of("SELECT count(*) FROM recipe"), 0);
    catalog_close(st);
}

static void refused(struct store *st, const struct request *rq)
{
    struct request_reply r = {0};
    struct err e = {0};

    assert_int_equal(request_apply(st, rq, &r, &e), ERR_INPUT);
}

TEST(what_is_no_path_or_of_no_stage_is_refused)
{
    struct store *st = catalog_new();
    const char *root = "a", *path = "/a";

    refused(st, &(struct request){.type = REQUEST_ENQUEUE_BEGIN,
                                  .stage = stage_nano,
                                  .language = "",
                                  .roots = &root,
                                  .root_count = 1});
    refused(st, &(struct request){.type = REQUEST_RECIPE,
                                  .stage = stage_nano,
                                  .roots = &root,
                                  .root_count = 1,
                                  .options = "[]"});
    refused(st, &(struct request){.type = REQUEST_RECIPE,
                                  .stage = {.name = "", .model_hash = ""},
                                  .roots = &path,
                                  .root_count = 1,
                                  .options = "[]"});
    assert_int_equal(count_of("SELECT count(*) FROM job"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM recipe"), 0);
    catalog_close(st);
}

static int store_recipe_row(void *arg, const struct recipe *row)
{
    char *out = arg;

    snprintf(out + strlen(out), 400, "%s %s %s %s %d;", row->path, row->kind, row->options,
             row->model_hash, (int)row->job_id);
    return 0;
}

TEST(recipes_are_read_in_the_order_of_paths)
{
    struct store *st = catalog_new();
    char out[2000] = "";
    struct err e = {0};

    ask(st, &stage_nano, "/b", "[]", true);
    set(st, "embed-text", "/a\xff", "[1]");
    assert_ok(recipes_each(st, store_recipe_row, out, &e), e);
    assert_string_equal(out, "/a\xff embed-text [1] ff 0;/b transcribe [] aa11 1;");
    catalog_close(st);
}

static int keep_other(void *arg, const struct recipe_other *o)
{
    char *out = arg;

    snprintf(out + strlen(out), 400, "%s: %d (%d ms, %d unknown), %d have it;", o->was.model,
             (int)o->recordings, (int)o->known_ms, (int)o->unknown, (int)o->have);
    return 0;
}

static const char *others(struct store *st, const char *path, const struct store_stage *stage)
{
    static char out[2000];
    struct err e = {0};

    out[0] = 0;
    assert_ok(recipes_others(st, path, stage, NULL, keep_other, out, &e), e);
    return out;
}

TEST(what_another_way_would_do_again)
{
    struct store *st = catalog_new();
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);
    static const struct store_stage other = {"transcribe", "other", "/o", "oo", "{}", NULL};

    for (int i = 1; i <= 4; i++) {
        char path[32];

        snprintf(path, sizeof(path), i < 4 ? "/a/%d.wav" : "/b/%d.wav", i);
        job_add1(st, job, path, "", (uint64_t)i);
    }
    /* What is only noted is not done a second time. */
    assert_string_equal(others(st, "/", &stage_tiny), "");
    transcribe(st, 1);
    transcribe(st, 4);
    shard_put(st, 2, 0, (const char *[]){"half"}, 1);
    assert_ok(store_media(
                  st, 1, NULL,
                  &(struct store_media_end){61000, (const uint8_t[16]){1}, "", NULL, NULL, 0}, &e),
              e);
    assert_string_equal(others(st, "/a", &stage_tiny), "nano: 2 (61000 ms, 1 unknown), 0 have it;");
    assert_string_equal(others(st, "/", &stage_tiny), "nano: 3 (61000 ms, 2 unknown), 0 have it;");
    assert_string_equal(others(st, "/a/1.wav", &stage_tiny),
                        "nano: 1 (61000 ms, 0 unknown), 0 have it;");
    assert_string_equal(others(st, "/a", &stage_nano), "");
    assert_string_equal(others(st, "/a", &stage_voices), "");
    /* Done in another way, and wanted so: back again costs nothing for that one. */
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/a/1.wav", "", 1);
    transcribe(st, 5);
    assert_string_equal(others(st, "/a", &stage_nano), "tiny: 0 (0 ms, 0 unknown), 1 have it;");
    assert_string_equal(others(st, "/a", &other), "nano: 1 (0 ms, 1 unknown), 0 have it;"
                                                  "tiny: 1 (61000 ms, 0 unknown), 0 have it;");
    /* What has vanished is not met by a walk. */
    job_end(st, job_begin(st, &stage_nano), "/a");
    assert_string_equal(others(st, "/a", &stage_tiny), "");
    catalog_close(st);
}

TEST(what_has_another_one_may_keep_it)
{
    const struct store_found f[] = {found_at("/a/1.wav", "", 1), found_at("/a/2.wav", "", 2)};
    struct store *st = catalog_new();
    struct request rq = {.type = REQUEST_ENQUEUE_ADD, .found = f, .count = 2, .keep_other = true};

    job_add1(st, job_begin(st, &stage_tiny), "/a/1.wav", "", 1);
    run_sql("UPDATE task SET state = 'done'");
    rq.job_id = job_begin(st, &stage_nano);
    assert_int_equal(apply_ok(st, &rq).counts.tasks, 1);
    rq = (struct request){.type = REQUEST_ENQUEUE_KNOWN,
                          .job_id = rq.job_id,
                          .place_ids = (const int64_t[]){1, 2},
                          .count = 2,
                          .keep_other = true};
    assert_int_equal(apply_ok(st, &rq).counts.tasks, 0);
    rq.keep_other = false;
    assert_int_equal(apply_ok(st, &rq).counts.tasks, 1);
    catalog_close(st);
}

/* Of the recording that was asked for another stage's task, which is in that state. */
static uint64_t tasks_beside(const char *was)
{
    const struct store_found f = found_at("/a/1.wav", "", 1);
    struct store *st = catalog_new();
    struct request rq = {.type = REQUEST_ENQUEUE_ADD, .found = &f, .count = 1, .keep_other = true};
    uint64_t tasks;

    job_add1(st, job_begin(st, &stage_tiny), "/a/1.wav", "", 1);
    run_sql(was);
    rq.job_id = job_begin(st, &stage_nano);
    tasks = apply_ok(st, &rq).counts.tasks;
    store_close(st); /* no shard and no place stands behind what was written by hand */
    return tasks;
}

TEST(what_was_never_begun_goes_by_the_recipe)
{
    assert_int_equal(tasks_beside("UPDATE task SET state = 'pending'"), 1);
    assert_int_equal(tasks_beside("UPDATE task SET state = 'failed', error_code = 'missing'"), 1);
    assert_int_equal(tasks_beside("UPDATE task SET shards_done = 1"), 0);
    assert_int_equal(tasks_beside("UPDATE task SET state = 'cancelled'"), 0);
    /* Another copy's folder may have asked for it. */
    assert_int_equal(tasks_beside("UPDATE media SET places = 2"), 0);
}

TEST_MAIN(NULL, NULL)
