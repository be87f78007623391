/* Memory that runs out while speech is looked for, at every allocation in turn. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "workers/audio/pack.h"
#include "workers/audio/speech.h"

static long fail_at; /* the Nth allocation from now on fails; 0: none */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool fails(void) { return fail_at && --fail_at == 0; }

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

/* Forty stretches and a window of them. */
static int work(struct err *err)
{
    static const struct speech_params p = {.threshold = 0.5f, .neg_threshold = -1.0f};
    struct pack pack = {0};
    struct speech_span span;
    struct speech *s = NULL;
    float prob[400];
    int rc;

    for (size_t i = 0; i < 400; i++)
        prob[i] = i % 10 < 5 ? 1.0f : 0.0f;
    rc = speech_new(&p, &s, err);
    if (rc == 0)
        rc = speech_feed(s, prob, 400, err);
    if (rc == 0)
        rc = speech_end(s, (int64_t)400 * SPEECH_STEP, err);
    while (rc == 0 && speech_next(s, &span))
        rc = pack_add(&pack, &span, err);
    if (rc == 0 && pack.count != 40)
        rc = ERR_EMPTY;
    pack_free(&pack);
    speech_free(s);
    return rc;
}

TEST(every_allocation)
{
    int failed = 0;

    for (long n = 1;; n++) {
        struct err e = {0};
        int rc;

        fail_at = n;
        rc = work(&e);
        if (fail_at != 0) { /* nothing was left to fail */
            fail_at = 0;
            assert_int_equal(rc, 0);
            break;
        }
        assert_int_equal(rc, ERR_NOMEM);
        assert_int_equal(e.code, ERR_NOMEM);
        failed++;
    }
    assert_true(failed >= 5);
}

TEST_MAIN(NULL, NULL)
