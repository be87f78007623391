/* What a shard's sources have yielded, put together. */
#include <stdlib.h>
#include <string.h>

#include "tests/common/test.h"
#include "workers/pass/shard_report.h"

static struct result_segment left[] = {
    {.start_ms = 0, .end_ms = 900, .text = "one", .language = "en", .attempts = 1},
    {.start_ms = 2000, .end_ms = 3000, .text = "three", .language = "en", .attempts = 1},
    {.start_ms = 2000, .end_ms = 2500, .text = "a", .language = "en", .attempts = 1},
};
static struct result_segment right[] = {
    {.start_ms = 500, .end_ms = 1500, .text = "two", .language = "es", .attempts = 1},
    {.start_ms = 2000, .end_ms = 6000, .text = "four", .language = "es", .attempts = 1},
};
static const uint8_t left_active[] = {0, 1, 2, 0, 0, 0}, right_active[] = {0, 0, 4, 4, 0, 0};
static const uint32_t left_of[] = {0, 1, 3}, right_of[] = {5};
static const float left_vectors[] = {1, 0, 0, 1, 0, 1}, right_vectors[] = {0, -1};

static struct msg_shard_done part_of(struct result_segment *list, uint32_t n, const char *language)
{
    return (struct msg_shard_done){.lease_id = 1,
                                   .seq = 3,
                                   .language = (char *)language,
                                   .language_prob = 0.5f,
                                   .windows = 2,
                                   .segments = list,
                                   .segment_count = n};
}

TEST(segments_are_by_time_and_say_whose)
{
    static const char *const texts[] = {"one", "two", "three", "a", "four"};
    static const uint32_t sources[] = {1, 2, 1, 1, 2};
    const struct msg_shard_done a = part_of(left, 3, "en"), b = part_of(right, 2, "es");
    const struct msg_shard_done *const of[] = {&a, &b};
    struct msg_shard_done m;
    struct err e = {0};

    assert_ok(shard_sources_merge(of, 2, &m, &e), e);
    assert_int_equal(m.segment_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(m.segments[i].text, texts[i]);
        assert_int_equal(m.segments[i].source, sources[i]);
    }
    assert_string_equal(m.language, "es"); /* 5 s of it, and 2.4 of the other */
    assert_int_equal(m.windows, 4);
    assert_int_equal(m.seq, 3);
    assert_int_equal(m.voices.windows, 0);
    shard_sources_free(&m);
}

TEST(speech_is_summed_where_all_were_listened_to)
{
    struct msg_shard_done a = part_of(left, 3, "en"), b = part_of(right, 2, "es");
    const struct msg_shard_done *const of[] = {&a, &b};
    struct msg_shard_done m;
    struct err e = {0};

    a.account = (struct result_account){3000, 200, 30};
    b.account = (struct result_account){5000, 0, 7};
    assert_ok(shard_sources_merge(of, 2, &m, &e), e);
    assert_int_equal(m.account.speech_ms, 8000);
    assert_int_equal(m.account.dropped_ms, 200);
    assert_int_equal(m.account.missing_ms, 37);
    shard_sources_free(&m);
    b.account = (struct result_account){.speech_ms = -1};
    assert_ok(shard_sources_merge(of, 2, &m, &e), e);
    assert_int_equal(m.account.speech_ms, -1);
    assert_int_equal(m.account.dropped_ms, 0);
    assert_int_equal(m.account.missing_ms, 0);
    shard_sources_free(&m);
}

static struct msg_shard_done voice_of(const uint8_t *active, const uint32_t *of, uint32_t n,
                                      const float *vectors)
{
    struct msg_shard_done m = part_of(NULL, 0, "");

    m.voices = (struct result_voices){.first = 7,
                                      .windows = 2,
                                      .frames = 3,
                                      .speakers = 3,
                                      .size = 2,
                                      .vector_count = n,
                                      .active = active,
                                      .of = of,
                                      .vectors = vectors};
    return m;
}

TEST(each_source_is_a_voice)
{
    static const uint8_t active[] = {0, 1, 3, 2, 0, 0};
    static const uint32_t whose[] = {0, 2, 3}; /* windows 0 and 1 of the first, 1 of the second */
    static const float vectors[] = {0.70710678f, 0.70710678f, 0, 1, 0, -1};
    const struct msg_shard_done a = voice_of(left_active, left_of, 3, left_vectors),
                                b = voice_of(right_active, right_of, 1, right_vectors);
    const struct msg_shard_done *const of[] = {&a, &b};
    struct msg_shard_done m;
    struct err e = {0};

    assert_ok(shard_sources_merge(of, 2, &m, &e), e);
    assert_int_equal(m.voices.speakers, 2);
    assert_int_equal(m.voices.first, 7);
    assert_memory_equal(m.voices.active, active, sizeof(active));
    assert_int_equal(m.voices.vector_count, 3);
    assert_memory_equal(m.voices.of, whose, sizeof(whose));
    for (uint32_t i = 0; i < 6; i++)
        assert_true(m.voices.vectors[i] == vectors[i]);
    assert_true(fields_hold(msg_fields(MSG_SHARD_DONE), &m));
    shard_sources_free(&m);
}

TEST(what_does_not_fit_is_refused)
{
    struct msg_shard_done a = voice_of(left_active, left_of, 3, left_vectors), b = a;
    const struct msg_shard_done *const of[] = {&a, &b};
    struct msg_shard_done m;
    struct err e = {0};

    b.voices.first = 8;
    assert_int_equal(shard_sources_merge(of, 2, &m, &e), ERR_INPUT);
    shard_sources_free(&m);
}

TEST_MAIN(NULL, NULL)
