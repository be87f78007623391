/* Requests over the socket: round trips, and every truncation and every flipped byte. */
#include "scheduler/control/control.h"
#include "tests/common/golden.h"
#include "tests/unit/store/fixture.h"

static void same_bytes_back(const char *name, const struct request *rq)
{
    struct request d = {0};
    struct buf one = BUF_INIT, two = BUF_INIT;
    struct err e = {0};

    request_put(&one, rq);
    assert_false(one.failed);
    golden_holds(CONTROL_REQUEST, name, &one);
    assert_ok(request_get(one.data, one.len, &d, &e), e);
    request_put(&two, &d);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    request_free(&d);
    for (size_t n = 0; n < one.len; n++) {
        /* In memory of exactly that size, so that a sanitizer sees one byte too far. */
        uint8_t *cut = malloc(n ? n : 1);

        memcpy(cut, one.data, n);
        assert_int_equal(request_get(cut, n, &d, &e), ERR_PROTOCOL);
        free(cut);
    }
    buf_put_u8(&one, 0);
    assert_int_equal(request_get(one.data, one.len, &d, &e), ERR_PROTOCOL);
    for (size_t n = 0; n + 1 < one.len; n++)
        for (int bit = 0; bit < 8; bit += 7) {
            one.data[n] ^= (uint8_t)(1 << bit);
            if (request_get(one.data, one.len - 1, &d, &e) == 0)
                request_free(&d);
            one.data[n] ^= (uint8_t)(1 << bit);
        }
    buf_free(&one);
    buf_free(&two);
}

TEST(round_trips)
{
    struct store_found f[] = {found_at("/a/x\xff\n", "", 1), found_at("/a.zip", "in//b", 2)};
    struct request_trouble t[] = {{"/t", 2, "m", 1, 4, ERR_DENIED, "no"}};
    const char *roots[] = {"/a", "/b"}, *unread[] = {"/a/c"};
    int64_t places[] = {1, -5, INT64_MAX};
    const struct request_verified verified[] = {{"/a\xff", 3, 9, -1, false, "0123456789abcde"},
                                                {"/b", 2, 0, 7, true, "fedcba987654321"}};
    const struct store_said said[] = {{"date", "1990-05"}, {"archivo", ""}};
    const struct request_description described[] = {{7, said, 2}, {8, NULL, 0}};
    const struct request_correction corrections[] = {{4, "Sanches", "S\u00e1nchez", false, NULL},
                                                     {5, "um", "", true, ""}};
    const struct {
        const char *name;
        struct request rq;
    } all[] = {
        {"request_begin",
         {.type = REQUEST_ENQUEUE_BEGIN,
          .command_line = "c",
          .stage = stage_nano,
          .language = "es"}},
        {"request_begin_asked",
         {.type = REQUEST_ENQUEUE_BEGIN,
          .command_line = "c",
          .stage = stage_nano,
          .language = "",
          .roots = roots,
          .root_count = 2,
          .options = "[\"--beam-size=5\"]",
          .replaces = true}},
        {"request_recipe",
         {.type = REQUEST_RECIPE,
          .stage = {.name = "sounds", .model_hash = "aa11"},
          .roots = roots,
          .root_count = 2,
          .options = "[\"--sounds=yamnet\"]",
          .replaces = true}},
        {"request_recipe_gone",
         {.type = REQUEST_RECIPE,
          .stage = {.name = "sounds", .model_hash = ""},
          .roots = roots,
          .root_count = 2}},
        {"request_begin_source",
         {.type = REQUEST_ENQUEUE_BEGIN,
          .command_line = "c",
          .stage = {"embed-text", "e5", "/e5", "cc", "{}", &stage_nano},
          .language = ""}},
        {"request_name_speaker",
         {.type = REQUEST_NAME_SPEAKER, .speaker_id = 7, .speaker_name = "Ana Mar\u00eda"}},
        {"request_name_everywhere",
         {.type = REQUEST_NAME_SPEAKER,
          .speaker_id = 7,
          .speaker_name = "Ana",
          .everywhere = true}},
        {"request_name_denied",
         {.type = REQUEST_NAME_SPEAKER, .speaker_id = 7, .speaker_name = "Ana", .denied = true}},
        {"request_describe", {.type = REQUEST_DESCRIBE, .descriptions = described, .count = 2}},
        {"request_verified", {.type = REQUEST_VERIFIED, .verified = verified, .count = 2}},
        {"request_add", {.type = REQUEST_ENQUEUE_ADD, .job_id = 3, .found = f, .count = 2}},
        {"request_known",
         {.type = REQUEST_ENQUEUE_KNOWN,
          .job_id = 3,
          .keep_source = true,
          .keep_other = true,
          .place_ids = places,
          .count = 3}},
        {"request_same",
         {.type = REQUEST_ENQUEUE_SAME, .job_id = 3, .place_ids = places, .count = 3}},
        {"request_trouble",
         {.type = REQUEST_ENQUEUE_TROUBLE, .job_id = 3, .troubles = t, .count = 1}},
        {"request_end",
         {.type = REQUEST_ENQUEUE_END,
          .job_id = 3,
          .roots = roots,
          .root_count = 2,
          .unread = unread,
          .unread_count = 1}},
        {"request_retry", {.type = REQUEST_RETRY, .select_job = 4}},
        {"request_retry_path", {.type = REQUEST_RETRY, .select_path = "/x"}},
        {"request_cancel", {.type = REQUEST_CANCEL, .select_job = 4}},
        {"request_cancel_path", {.type = REQUEST_CANCEL, .select_path = "/x"}},
        {"request_dismiss", {.type = REQUEST_DISMISS, .select_job = 4}},
        {"request_pause", {.type = REQUEST_PAUSE, .select_job = 4}},
        {"request_pause_path", {.type = REQUEST_PAUSE, .select_path = "/x"}},
        {"request_priority", {.type = REQUEST_PRIORITY, .select_job = 4, .priority = -1}},
        {"request_resume", {.type = REQUEST_RESUME, .select_job = 4}},
        {"request_forget", {.type = REQUEST_FORGET, .stage_id = 3, .select_path = "/x"}},
        {"request_pin", {.type = REQUEST_PIN, .stage_id = 0}},
        {"request_correct",
         {.type = REQUEST_CORRECT,
          .corrections = corrections,
          .count = 2,
          .made_by = "ana",
          .source = "file a.srt"}},
        {"request_correct_keep",
         {.type = REQUEST_CORRECT_DECIDE, .correction_id = 9, .made_by = "eva"}},
        {"request_correct_undo",
         {.type = REQUEST_CORRECT_DECIDE, .correction_id = 9, .undo = true, .made_by = "eva"}},
        {"request_erase",
         {.type = REQUEST_ERASE,
          .ids = places,
          .count = 3,
          .speaker_name = "",
          .made_by = "eva",
          .undo = true}},
        {"request_erase_person", {.type = REQUEST_ERASE, .speaker_name = "Ana", .made_by = ""}},
        {"request_resume_path", {.type = REQUEST_RESUME, .select_path = "/x"}},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        same_bytes_back(all[i].name, &all[i].rq);
}

TEST(fields_survive)
{
    struct store_found f = found_at("/a/x\xff", "mem", 77);
    struct request_trouble t = {"/t", 2, "m", 1, 4, ERR_DENIED, "no"};
    struct request d;
    struct buf b = BUF_INIT;
    struct err e = {0};

    f.inode = UINT64_MAX;
    f.mtime_ns = -3;
    f.nth = UINT32_MAX;
    f.has_hash = f.moved = true;
    f.met_media = 12;
    memset(f.hash, 3, sizeof(f.hash));
    memset(f.met_hash, 4, sizeof(f.met_hash));
    request_put(
        &b, &(struct request){.type = REQUEST_ENQUEUE_ADD, .job_id = 9, .found = &f, .count = 1});
    assert_ok(request_get(b.data, b.len, &d, &e), e);
    assert_int_equal(d.job_id, 9);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.found[0].path_len, 5);
    assert_memory_equal(d.found[0].path, "/a/x\xff", 5);
    assert_memory_equal(d.found[0].member, "mem", 3);
    assert_int_equal(d.found[0].nth, UINT32_MAX);
    assert_int_equal(d.found[0].size_bytes, 1077);
    assert_true(d.found[0].inode == UINT64_MAX);
    assert_int_equal(d.found[0].mtime_ns, -3);
    assert_memory_equal(d.found[0].fingerprint, f.fingerprint, 16);
    assert_true(d.found[0].has_hash && d.found[0].moved);
    assert_int_equal(d.found[0].met_media, 12);
    assert_memory_equal(d.found[0].hash, f.hash, 16);
    assert_memory_equal(d.found[0].met_hash, f.met_hash, 16);
    request_free(&d);
    buf_clear(&b);
    request_put(&b, &(struct request){.type = REQUEST_ENQUEUE_TROUBLE, .troubles = &t, .count = 1});
    assert_ok(request_get(b.data, b.len, &d, &e), e);
    assert_int_equal(d.troubles[0].nth, 4);
    assert_int_equal(d.troubles[0].code, ERR_DENIED);
    request_free(&d);
    buf_free(&b);
}

/* Of stages, one may stand on another, and no further. */
TEST(sources)
{
    const struct store_stage text = {"embed-text", "e5", "/e5", "cc", "{}", &stage_nano};
    const struct store_stage none = {0};
    const struct store_stage deep = {"more", "m", "/m", "dd", "{}", &text};
    const struct store_stage twin = {"transcribe", "m", "/m", "dd", "{}", &stage_nano};
    const struct store_stage bare = {"embed-text", "e5", "/e5", "cc", "{}", &none};
    const struct store_stage *bad[] = {&deep, &twin};
    struct store *st = catalog_new();
    struct request rq = {.type = REQUEST_ENQUEUE_BEGIN, .stage = text};
    struct request d;
    struct request_reply reply;
    struct buf b = BUF_INIT;
    struct err e = {0};

    request_put(&b, &rq);
    assert_ok(request_get(b.data, b.len, &d, &e), e);
    assert_string_equal(d.stage.source->params_json, stage_nano.params_json);
    assert_null(d.stage.source->source);
    request_free(&d);
    buf_clear(&b);
    rq.stage = bare;
    request_put(&b, &rq);
    assert_ok(request_get(b.data, b.len, &d, &e), e);
    assert_null(d.stage.source);
    request_free(&d);
    buf_free(&b);
    for (int i = 0; i < 2; i++) {
        rq.stage = *bad[i];
        assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    }
    assert_int_equal(count_of("SELECT count(*) FROM stage"), 0);
    catalog_close(st);
}

/* A count that the bytes cannot hold is refused before memory is taken for it. */
TEST(lying_counts)
{
    static const enum request_type types[] = {REQUEST_ENQUEUE_ADD, REQUEST_ENQUEUE_SAME,
                                              REQUEST_ENQUEUE_TROUBLE, REQUEST_ENQUEUE_END};
    struct request d;
    struct err e = {0};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct buf b = BUF_INIT;

        buf_put_u8(&b, 4); /* the version */
        buf_put_u8(&b, (uint8_t)types[i]);
        buf_put_i64(&b, 1);
        buf_put_u32(&b, UINT32_MAX);
        buf_put_u64(&b, 0);
        assert_int_equal(request_get(b.data, b.len, &d, &e), ERR_PROTOCOL);
        buf_free(&b);
    }
}

TEST(replies)
{
    struct request_reply r = {.job_id = 5,
                              .counts = {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16},
                              .log_kept = true,
                              .affected = 9},
                         back;
    struct buf b = BUF_INIT;
    struct err e = {0};

    request_reply_put(&b, &r);
    golden_holds(CONTROL_REPLY, "request_reply", &b);
    assert_ok(request_reply_get(b.data, b.len, &back, &e), e);
    assert_memory_equal(&r, &back, sizeof(r));
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(request_reply_get(b.data, n, &back, &e), ERR_PROTOCOL);
    buf_free(&b);
}

TEST_MAIN(NULL, NULL)
