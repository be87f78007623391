/* The messages between decoder and parent: what is put comes back, what is cut or bent is refused.
 */
#include "tests/common/golden.h"
#include "workers/media/wire.h"

static struct decoder_limits limits = {1u << 30, 60000, 3600, 1000, 1u << 31, 0};

static const struct result_source sources[] = {{"channel 1"}, {"channel 2"}};
static const struct result_tag tags[] = {{"container", "title", "Grüße", 0, 0},
                                         {"chapter", "title", "", 1000, 2500}};

static struct wire_request a_request(void)
{
    struct wire_request m = {.task = WIRE_TASK_DECODE,
                             .parent_pid = 4711,
                             .member = "inner.zip//\xff\n.mp3",
                             .nth = UINT32_MAX,
                             .skip_samples = 123456789012,
                             .want_hash = true,
                             .has_fingerprint = true,
                             .headerless = 9,
                             .fingerprint = "0123456789abcde",
                             .hearing = {HEARING_AUTO, 63, 5},
                             .limits = limits};
    return m;
}

/* One of each, as its name's line has it. */
static void its_bytes(enum wire_type type, const char *name, struct buf *b)
{
    golden_holds(type, name, b);
    buf_clear(b);
}

TEST(the_bytes_stay)
{
    const struct wire_request request = a_request();
    const struct decoder_info info = {1234,      44100, 2,       3, "mp4", "aac",
                                      "track 2", "",    sources, 2, tags,  2};
    const struct decoder_entry entry = {.member = "a\xff//b\n",
                                        .nth = 7,
                                        .size_bytes = 1u << 31,
                                        .mtime_ms = -1,
                                        .head = "RIFF",
                                        .head_len = 64,
                                        .code = ERR_INPUT,
                                        .message = "why"};
    static const struct result_channel channels[] = {{1, 2, 900, 1000, true},
                                                     {2, 0, -1, -1, false}};
    const struct decoder_end end = {INT64_MAX, true,     true, "fedcba987654321", "a bit", 480,
                                    "a jump",  channels, 2};
    const struct err error = {ERR_LIMIT, "too much"};
    const struct sandbox_report report = {true,     false, 4,    true,  "none", "",
                                          1u << 30, 3600,  true, false, true};
    const int16_t pcm[] = {0, 1, -1, INT16_MAX, INT16_MIN};
    struct buf b = BUF_INIT;

    wire_put_request(&b, &request);
    its_bytes(WIRE_REQUEST, "decoder_request", &b);
    wire_put_info(&b, &info);
    its_bytes(WIRE_INFO, "decoder_info", &b);
    wire_put_entry(&b, &entry);
    its_bytes(WIRE_ENTRY, "decoder_entry", &b);
    wire_put_end(&b, &end);
    its_bytes(WIRE_END, "decoder_end", &b);
    wire_put_error(&b, &error);
    its_bytes(WIRE_ERROR, "decoder_error", &b);
    wire_put_sandbox(&b, &report);
    its_bytes(WIRE_SANDBOX, "decoder_sandbox", &b);
    wire_put_pcm(&b, pcm, 5, 99);
    its_bytes(WIRE_PCM, "decoder_pcm", &b);
    buf_free(&b);
}

TEST(requests_come_back)
{
    struct wire_request m = a_request(), got;
    struct buf b = BUF_INIT;
    struct err err;

    wire_put_request(&b, &m);
    assert_false(b.failed);
    assert_ok(wire_get_request(b.data, b.len, &got, &err), err);
    assert_string_equal(got.member, m.member);
    assert_int_equal(got.nth, UINT32_MAX);
    assert_int_equal(got.skip_samples, m.skip_samples);
    assert_true(got.want_hash && got.has_fingerprint);
    assert_memory_equal(got.fingerprint, m.fingerprint, 16);
    assert_int_equal(got.limits.max_unpacked_bytes, limits.max_unpacked_bytes);
    assert_int_equal(got.limits.silence_ms, limits.silence_ms);
    assert_int_equal(got.parent_pid, 4711);
    wire_request_free(&got);
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(wire_get_request(b.data, n, &got, &err), ERR_PROTOCOL);
    b.data[0] = 77; /* no such task */
    assert_int_equal(wire_get_request(b.data, b.len, &got, &err), ERR_PROTOCOL);
    buf_free(&b);
}

TEST(info_must_be_text)
{
    struct decoder_info m = {1234, 44100, 2, 3, "mp4", "aac", "track 2", "", sources, 2, tags, 2},
                        got;
    struct buf b = BUF_INIT;
    struct err err;

    wire_put_info(&b, &m);
    assert_ok(wire_get_info(b.data, b.len, &got, &err), err);
    assert_string_equal(got.codec, m.codec);
    assert_int_equal(got.tag_count, 2);
    assert_string_equal(got.tags[0].value, "Grüße");
    assert_int_equal(got.tags[1].end_ms, 2500);
    wire_info_free(&got);
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(wire_get_info(b.data, n, &got, &err), ERR_PROTOCOL);
    ((uint8_t *)memmem(b.data, b.len, "Grü", 3))[1] = 0xff;
    assert_int_equal(wire_get_info(b.data, b.len, &got, &err), ERR_PROTOCOL);
    m.duration_ms = -2;
    buf_clear(&b);
    wire_put_info(&b, &m);
    assert_int_equal(wire_get_info(b.data, b.len, &got, &err), ERR_PROTOCOL);
    buf_free(&b);
}

TEST(pcm_is_bounded)
{
    int16_t pcm[WIRE_PCM_SAMPLES + 1], got[WIRE_PCM_SAMPLES];
    struct buf b = BUF_INIT;
    struct err err;
    size_t n;
    int64_t at;

    for (size_t i = 0; i <= WIRE_PCM_SAMPLES; i++)
        pcm[i] = (int16_t)(i * 7 - 32768);
    wire_put_pcm(&b, pcm, WIRE_PCM_SAMPLES, 99);
    assert_ok(wire_get_pcm(b.data, b.len, got, &n, &at, &err), err);
    assert_int_equal(n, WIRE_PCM_SAMPLES);
    assert_int_equal(at, 99);
    assert_memory_equal(got, pcm, sizeof(got));
    assert_int_equal(wire_get_pcm(b.data, b.len - 1, got, &n, &at, &err), ERR_PROTOCOL);
    assert_int_equal(wire_get_pcm(b.data, 8, got, &n, &at, &err), ERR_PROTOCOL);
    assert_int_equal(wire_get_pcm(b.data, 3, got, &n, &at, &err), ERR_PROTOCOL);
    buf_clear(&b);
    wire_put_pcm(&b, pcm, WIRE_PCM_SAMPLES + 1, 0);
    assert_int_equal(wire_get_pcm(b.data, b.len, got, &n, &at, &err), ERR_PROTOCOL);
    buf_clear(&b);
    wire_put_pcm(&b, pcm, 5, -1);
    assert_int_equal(wire_get_pcm(b.data, b.len, got, &n, &at, &err), ERR_PROTOCOL);
    buf_free(&b);
}

TEST(entries_and_ends_come_back)
{
    struct decoder_entry e = {.member = "a\xff//b\n",
                              .nth = 7,
                              .size_bytes = 1u << 31,
                              .mtime_ms = -1,
                              .head = "RIFF",
                              .head_len = 64,
                              .code = ERR_INPUT,
                              .message = "why"};
    static const struct result_channel impossible[] = {
        {0, 1, 0, 1, true},  {1, 1, 2, 1, true},  {1, 1, -1, 1, true},  {1, 1, -1, -1, false},
        {1, 0, 0, 1, false}, {1, 0, -1, 1, true}, {1, 0, -1, -2, false}};
    struct decoder_end end = {.total_samples = 5, .complete = true, .damage = "a bit"};
    struct buf b = BUF_INIT;
    struct err err;

    wire_put_entry(&b, &e);
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(wire_get_entry(b.data, n, &e, &err), ERR_PROTOCOL);
    assert_ok(wire_get_entry(b.data, b.len, &e, &err), err);
    assert_string_equal(e.member, "a\xff//b\n");
    assert_int_equal(e.nth, 7);
    assert_string_equal(e.message, "why");
    assert_int_equal(e.code, ERR_INPUT);
    wire_entry_free(&e);
    buf_clear(&b);
    e.member = "";
    e.message = "";
    wire_put_entry(&b, &e);
    assert_int_equal(wire_get_entry(b.data, b.len, &e, &err), ERR_PROTOCOL);
    buf_clear(&b);
    wire_put_end(&b, &end);
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(wire_get_end(b.data, n, &end, &err), ERR_PROTOCOL);
    assert_ok(wire_get_end(b.data, b.len, &end, &err), err);
    assert_string_equal(end.damage, "a bit");
    wire_end_free(&end);
    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
        end = (struct decoder_end){.damage = "", .channels = &impossible[i], .channel_count = 1};
        buf_clear(&b);
        wire_put_end(&b, &end);
        assert_int_equal(wire_get_end(b.data, b.len, &end, &err), ERR_PROTOCOL);
    }
    buf_free(&b);
}

/* A decoder may speak of its file; the catalog, the model and the device are not its business. */
TEST(foreign_errors_are_refused)
{
    struct err m, what, err;
    struct buf b = BUF_INIT;

    for (int code = 0; code >= ERR_USAGE - 5; code--) {
        int want = code == ERR_NOMEM || code == ERR_IO || code == ERR_INPUT ||
                           code == ERR_MISSING || code == ERR_CHANGED || code == ERR_LIMIT
                       ? 0
                       : ERR_PROTOCOL;

        err_set(&m, code, "so it is");
        buf_clear(&b);
        wire_put_error(&b, &m);
        assert_int_equal(wire_get_error(b.data, b.len, &what, &err), want);
        if (want == 0) {
            assert_int_equal(what.code, code);
            assert_string_equal(what.msg, "so it is");
        }
    }
    buf_free(&b);
}

TEST_MAIN(NULL, NULL)
