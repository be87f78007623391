/* Decoding in this very process, so that the sanitizers see every leak and every stray read: whole
 * recordings, recordings cut at many places, recordings with bytes gone bad. */
#include "tests/unit/media/media_util.h"
#include "workers/media/decode.h"

struct heard {
    int64_t samples, next;
    bool info;
    int64_t stop_at; /* the sink fails here; 0: never */
};

static int on_info(void *arg, const struct decoder_info *info, struct err *err)
{
    struct heard *h = arg;

    (void)err;
    assert_false(h->info);
    assert_true(strlen(info->container) < sizeof(info->container));
    h->info = true;
    return 0;
}

static int on_pcm(void *arg, const int16_t *pcm, size_t n, int64_t at, struct err *err)
{
    struct heard *h = arg;
    volatile int16_t sum = 0;

    assert_true(h->info && n > 0 && at == h->next);
    for (size_t i = 0; i < n; i++)
        sum = (int16_t)(sum ^ pcm[i]);
    h->next += (int64_t)n;
    h->samples += (int64_t)n;
    if (h->stop_at && h->next > h->stop_at)
        return err_set(err, ERR_IO, "nobody listens any more");
    return 0;
}

static int decode_bytes(const uint8_t *data, size_t len, struct heard *h,
                        struct decode_remarks *remarks, int64_t *total, struct err *err)
{
    const struct decode_task task = {on_info, on_pcm, {NULL, NULL}, h, 0, {0}};
    struct stream *s;
    int rc;

    assert_ok(stream_of_memory(data, len, (struct stream_pulse){0}, &s, err), *err);
    rc = decode_stream(s, &task, total, remarks, err);
    stream_close(s);
    return rc;
}

static void check(const uint8_t *data, size_t len)
{
    struct decode_remarks remarks = {0};
    struct heard h = {0};
    struct err err = {0};
    int64_t total = -1;
    int rc = decode_bytes(data, len, &h, &remarks, &total, &err);

    if (rc == 0) {
        assert_int_equal(total, h.samples);
        assert_true(total > 0 || remarks.damage[0] != '\0');
    } else {
        assert_true(rc == ERR_INPUT || rc == ERR_LIMIT);
        assert_true(err.msg[0] != '\0');
    }
}

TEST(cut_and_bent)
{
    static const char *const outputs[][2] = {
        {"i.mp3", ""},
        {"i.m4a", ""},
        {"frag.m4a", "-movflags empty_moov -frag_duration 200000"},
        {"i.ogg", "-c:a libvorbis"},
        {"i.flac", ""},
        {"i.wav", ""},
        {"i.mka", "-c:a libopus"},
        {"i.ts", "-c:a mp2"},
        {"i.wma", ""},
        {"i.avi", "-c:a ac3"},
        {"i.aiff", ""},
    };

    need_tools("ffmpeg");
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        uint32_t seed = (uint32_t)i + 1;
        uint8_t *data;
        size_t len;

        sh("ffmpeg -v error -nostdin -y -f lavfi -i anoisesrc=d=1:r=22050:seed=3 %s %s",
           outputs[i][1], outputs[i][0]);
        data = slurp(outputs[i][0], &len);
        check(data, len);
        for (int cut = 1; cut < 16; cut++) {
            /* A copy of exactly that length: a read past the end is one past the memory. */
            size_t keep = len * (size_t)cut / 16;
            uint8_t *part = malloc(keep + 1);

            assert_non_null(part);
            memcpy(part, data, keep);
            check(part, keep);
            free(part);
        }
        for (int round = 0; round < 16; round++) {
            uint8_t kept[8];
            size_t at[8];

            for (int k = 0; k < 8; k++) {
                seed = seed * 1664525u + 1013904223u;
                at[k] = round % 2 ? seed % len : seed % (len < 512 ? len : 512);
                kept[k] = data[at[k]];
                data[at[k]] = (uint8_t)(seed >> 24);
            }
            check(data, len);
            for (int k = 7; k >= 0; k--)
                data[at[k]] = kept[k];
        }
        free(data);
    }
}

TEST(a_sink_may_refuse)
{
    struct decode_remarks remarks = {0};
    struct heard h = {.stop_at = 20000};
    struct err err = {0};
    int64_t total;
    uint8_t *data;
    size_t len;

    write_tone("sink.wav", 44100, 5);
    data = slurp("sink.wav", &len);
    assert_int_equal(decode_bytes(data, len, &h, &remarks, &total, &err), ERR_IO);
    assert_string_equal(err.msg, "nobody listens any more");
    assert_in_range(h.samples, 20001, 40000);
    free(data);
}

static void count_pulse(void *arg) { ++*(unsigned *)arg; }

/* A decoder that is told to skip to the tenth hour says nothing for long: signs of life must come.
 */
TEST(life_is_shown_while_skipping)
{
    unsigned pulses = 0;
    struct heard h = {0};
    const struct decode_task task = {on_info, on_pcm,        {count_pulse, &pulses},
                                     &h,      INT64_MAX / 2, {0}};
    struct decode_remarks remarks = {0};
    struct err err = {0};
    int64_t total = 0;
    struct stream *s;
    uint8_t *data;
    size_t len;

    write_tone("skip.wav", 16000, 5);
    data = slurp("skip.wav", &len);
    assert_ok(stream_of_memory(data, len, (struct stream_pulse){0}, &s, &err), err);
    assert_ok(decode_stream(s, &task, &total, &remarks, &err), err);
    assert_int_equal(total, 80000);
    assert_int_equal(h.samples, 0);
    assert_true(h.info);
    assert_true(pulses > 10);
    stream_close(s);
    free(data);
}

/* More channels than any order of loudspeakers names are averaged. */
TEST(nameless_channels)
{
    struct decode_remarks remarks = {0};
    struct heard h = {0};
    struct err err = {0};
    int64_t total = 0;
    uint8_t *data;
    size_t len;

    write_tone("many.wav", 16000, 2.25);
    data = slurp("many.wav", &len);
    data[22] = 9; /* channels, in frames of 18 bytes */
    data[32] = 18;
    assert_ok(decode_bytes(data, len, &h, &remarks, &total, &err), err);
    assert_int_equal(total, 4000);
    free(data);
}

TEST_MAIN(NULL, NULL)
