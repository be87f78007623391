/* What was asked for last, folder by folder, and what another way would cost. */
#include "store/read/asked.h"
#include "tests/unit/store/fixture.h"
#include "tests/unit/store/stages.h"

#define ASKINGS                                                                                   \
    "SELECT group_concat(path || ' ' || kind || ' ' || stage_id || ' ' || ifnull(options, '?')) " \
    "FROM (SELECT * FROM asking ORDER BY path_raw, kind)"

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

TEST(what_was_asked_for_is_kept_for_each_folder_and_kind)
{
    struct store *st = catalog_new();

    ask(st, &stage_nano, "/a", "[]", true);
    ask(st, &stage_tiny, "/a/b", "[2]", true);
    ask(st, &stage_tiny, "/a-b", "[3]", true);
    ask(st, &stage_voices, "/a/b", "[4]", true);
    assert_string_equal(text_of(ASKINGS), "/a transcribe 1 [],/a-b transcribe 2 [3],"
                                          "/a/b diarize 3 [4],/a/b transcribe 2 [2]");
    /* Asked again for one path it is replaced; what lies below stays, unless that is replaced, too;
     * another kind is another thing. */
    ask(st, &stage_tiny, "/a", "[5]", false);
    assert_string_equal(text_of(ASKINGS), "/a transcribe 2 [5],/a-b transcribe 2 [3],"
                                          "/a/b diarize 3 [4],/a/b transcribe 2 [2]");
    ask(st, &stage_nano, "/a", NULL, true);
    assert_string_equal(text_of(ASKINGS),
                        "/a transcribe 1 ?,/a-b transcribe 2 [3],/a/b diarize 3 [4]");
    ask(st, &stage_nano, "/", "[6]", true);
    assert_string_equal(text_of(ASKINGS), "/ transcribe 1 [6],/a/b diarize 3 [4]");
    catalog_close(st);
}

TEST(a_root_that_is_no_path_is_refused_and_nothing_is_asked)
{
    struct store *st = catalog_new();
    const char *root = "a";
    struct request_reply r = {0};
    struct err e = {0};

    assert_int_equal(request_apply(st,
                                   &(struct request){.type = REQUEST_ENQUEUE_BEGIN,
                                                     .stage = stage_nano,
                                                     .language = "",
                                                     .roots = &root,
                                                     .root_count = 1},
                                   &r, &e),
                     ERR_INPUT);
    assert_int_equal(count_of("SELECT count(*) FROM job"), 0);
    catalog_close(st);
}

static int keep(void *arg, const struct asked *a)
{
    const struct store_stage *source = store_stage_source(&a->stage);
    char *out = arg;

    snprintf(out + strlen(out), 400, "%s %s %s %s%s%s;", a->path, a->stage.name, a->stage.model,
             a->options ? a->options : "?", source ? " on " : "", source ? source->model : "");
    return 0;
}

static const char *read_askings(struct store *st, const char *usual_of)
{
    static char out[2000];
    struct err e = {0};

    out[0] = 0;
    if (usual_of)
        assert_ok(asked_usual(st, usual_of, keep, out, &e), e);
    else
        assert_ok(asked_each(st, keep, out, &e), e);
    return out;
}

TEST(askings_are_read_with_their_sources)
{
    struct store *st = catalog_new();

    ask(st, &stage_nano, "/b", "[]", true);
    ask(st, &stage_text, "/a\xff", "[1]", true);
    assert_string_equal(read_askings(st, NULL),
                        "/a\xff embed-text e5 [1] on nano;/b transcribe nano [];");
    catalog_close(st);
}

TEST(an_older_catalog_has_what_most_recordings_have)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    job_add1(st, job, "/b/3.wav", "", 3);
    job = job_begin(st, &stage_tiny);
    job_add1(st, job, "/a/2.wav", "", 2);
    job_add1(st, job, "/a/4.wav", "", 4);
    job_add1(st, job, "/a/c/5.wav", "", 5);
    job = job_begin(st, &stage_voices);
    job_add1(st, job, "/a/1.wav", "", 1);
    assert_string_equal(read_askings(st, "/a"), "/a diarize pyannote ?;/a transcribe tiny ?;");
    assert_string_equal(read_askings(st, "/a/1.wav"),
                        "/a/1.wav diarize pyannote ?;/a/1.wav transcribe nano ?;");
    assert_string_equal(read_askings(st, "/b"), "/b transcribe nano ?;");
    assert_string_equal(read_askings(st, "/c"), "");
    /* Not of folders of which it is known. */
    ask(st, &stage_nano, "/a/c", "[]", true);
    ask(st, &stage_nano, "/a/4.wav", "[]", true);
    job_add1(st, job_begin(st, &stage_nano), "/a/6.wav", "", 6);
    assert_string_equal(read_askings(st, "/a"), "/a diarize pyannote ?;/a transcribe nano ?;");
    /* What only begins like one of these is no such folder; what lies above has all. */
    job_add1(st, job_begin(st, &stage_tiny), "/a/c-2.wav", "", 7);
    assert_string_equal(read_askings(st, "/a/c-2.wav"), "/a/c-2.wav transcribe tiny ?;");
    ask(st, &stage_nano, "/b", "[]", true);
    assert_string_equal(read_askings(st, "/b/3.wav"), "");
    ask(st, &stage_nano, "/", "[]", true);
    assert_string_equal(read_askings(st, "/a"), "");
    catalog_close(st);
}

static int keep_other(void *arg, const struct asked_other *o)
{
    char *out = arg;

    snprintf(out + strlen(out), 400, "%s: %d (%d ms, %d unknown), %d have it;", o->was.stage.model,
             (int)o->recordings, (int)o->known_ms, (int)o->unknown, (int)o->have);
    return 0;
}

static const char *others(struct store *st, const char *path, const struct store_stage *stage)
{
    static char out[2000];
    struct err e = {0};

    out[0] = 0;
    assert_ok(asked_others(st, path, stage, keep_other, out, &e), e);
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

TEST_MAIN(NULL, NULL)
