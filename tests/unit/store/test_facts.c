/* A shard's texts as they are kept: read as they were written, and nothing else is read. */
#include <math.h>

#include "store/fact_result.h"
#include "tests/common/nomem.h"
#include "tests/common/random.h"
#include "tests/common/test.h"

static const struct result_word words[] = {{100, 400, " Good", 0.5f}, {400, 900, " day", 1}};
static struct result_segment segments[] = {
    {100, 900, "Good day", "en", -0.25f, 0.01f, 1.2f, 0.2f, 2, 0.9f, false, "doubtful", words, 2,
     1},
    {36000000, 36000500, "ñandú", "es", -1.5f, 0.75f, 0, 1, 0, -1, false, "", NULL, 0, 0},
    {36001000, 36002000, "", "", 0, 0, 0, 0, 0, 0.95f, true, RESULT_MISSING, NULL, 0, 2}};

static void packed(struct buf *out)
{
    fact_result_put(out, &(struct fact_result){.segments = segments, .count = 3});
    assert_false(out->failed);
}

TEST(it_is_read_as_it_was_written)
{
    struct fact_result r;
    struct buf b = BUF_INIT;
    struct err e = {0};

    packed(&b);
    /* A version, a count, and no byte for what is not there. */
    assert_int_equal(b.len, 170);
    assert_ok(fact_result_get(b.data, b.len, &r, &e), e);
    assert_int_equal(r.count, 3);
    for (uint32_t i = 0; i < r.count; i++) {
        const struct result_segment *was = &segments[i], *is = &r.segments[i];

        assert_true(is->start_ms == was->start_ms && is->end_ms == was->end_ms);
        assert_string_equal(is->text, was->text);
        assert_string_equal(is->language, was->language);
        assert_string_equal(is->reason, was->reason);
        assert_memory_equal(&is->avg_logprob, &was->avg_logprob, 4 * sizeof(float));
        assert_true(is->attempts == was->attempts && is->speech_prob == was->speech_prob &&
                    is->dropped == was->dropped && is->source == was->source);
        assert_int_equal(is->word_count, was->word_count);
        for (uint32_t k = 0; k < is->word_count; k++) {
            assert_true(is->words[k].start_ms == words[k].start_ms &&
                        is->words[k].end_ms == words[k].end_ms &&
                        is->words[k].probability == words[k].probability);
            assert_string_equal(is->words[k].text, words[k].text);
        }
    }
    fact_result_free(&r);
    buf_free(&b);
}

TEST(nothing_is_a_result_without_texts)
{
    struct fact_result r;
    struct err e = {0};

    assert_ok(fact_result_get(NULL, 0, &r, &e), e);
    assert_int_equal(r.count, 0);
    fact_result_free(&r);
}

TEST(what_is_cut_or_longer_is_refused)
{
    struct fact_result r;
    struct buf b = BUF_INIT;
    struct err e = {0};

    packed(&b);
    for (size_t n = 1; n < b.len; n++) {
        assert_int_equal(fact_result_get(b.data, n, &r, &e), ERR_INPUT);
        assert_null(r.segments);
    }
    buf_put_u8(&b, 0);
    assert_int_equal(fact_result_get(b.data, b.len, &r, &e), ERR_INPUT);
    b.data[0] = 3;
    assert_int_equal(fact_result_get(b.data, b.len - 1, &r, &e), ERR_INPUT);
    assert_says(e.msg, "of version 3");
    buf_free(&b);
}

/* A shard of some minutes: its texts are deflated. */
static void many(struct buf *out, uint32_t n)
{
    static struct result_segment list[3000];

    assert_true(n <= 3000);
    for (uint32_t i = 0; i < n; i++)
        list[i] = segments[i % 3];
    fact_result_put(out, &(struct fact_result){.segments = list, .count = n});
    assert_false(out->failed);
}

TEST(long_ones_are_deflated)
{
    struct fact_result r;
    struct buf b = BUF_INIT;
    struct err e = {0};

    many(&b, 3000);
    assert_int_equal(b.data[0], 2);
    assert_true(b.len < 10000);
    assert_ok(fact_result_get(b.data, b.len, &r, &e), e);
    assert_int_equal(r.count, 3000);
    assert_string_equal(r.segments[2998].text, "ñandú");
    fact_result_free(&r);
    for (size_t n = 1; n < b.len; n += n < 20 ? 1 : 97) {
        assert_int_equal(fact_result_get(b.data, n, &r, &e), ERR_INPUT);
        assert_null(r.segments);
    }
    /* A length that no such bytes can have is refused before memory is taken for it. */
    assert_int_equal(fact_result_get("\x02\xFF\xFF\xFF\xFF\x0F", 6, &r, &e), ERR_INPUT);
    assert_int_equal(fact_result_get("\x02\xFF\xFF\xFF\x0F", 5, &r, &e), ERR_INPUT);
    buf_free(&b);
}

static void survive(struct buf b)
{
    uint64_t random = 1;

    for (int i = 0; i < 10000; i++) {
        size_t at = random_below(&random, (uint32_t)b.len);
        uint8_t was = b.data[at];
        struct fact_result r;
        struct err e = {0};

        b.data[at] = (uint8_t)random_below(&random, 256);
        if (fact_result_get(b.data, b.len, &r, &e) == 0)
            assert_true(fact_result_holds(&r));
        else
            assert_int_equal(e.code, ERR_INPUT);
        fact_result_free(&r);
        b.data[at] = was;
    }
    buf_free(&b);
}

TEST(any_bytes_are_survived)
{
    struct buf b = BUF_INIT, deflated = BUF_INIT;

    packed(&b);
    survive(b);
    many(&deflated, 60);
    assert_int_equal(deflated.data[0], 2);
    survive(deflated);
}

TEST(what_could_not_be_read_again_does_not_hold)
{
    struct result_segment s = segments[0];
    const struct fact_result r = {.segments = &s, .count = 1};

    assert_true(fact_result_holds(&r));
    s.text = "a\xff";
    assert_false(fact_result_holds(&r));
    s = segments[0];
    s.avg_logprob = NAN;
    assert_false(fact_result_holds(&r));
    s = segments[0];
    s.end_ms = s.start_ms - 1;
    assert_false(fact_result_holds(&r));
}

static int read_packed(void *arg, struct err *err)
{
    const struct buf *b = arg;
    struct fact_result r;
    int rc = fact_result_get(b->data, b->len, &r, err);

    if (rc != 0)
        assert_null(r.segments);
    fact_result_free(&r);
    return rc;
}

TEST(memory_may_run_out)
{
    struct buf b = BUF_INIT;

    packed(&b);
    assert_true(nomem_each(read_packed, &b) > 5);
    buf_clear(&b);
    many(&b, 60);
    assert_true(nomem_each(read_packed, &b) > 5);
    buf_free(&b);
}

TEST_MAIN(NULL, NULL)
