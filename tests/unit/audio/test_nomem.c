/* Memory that runs out while speech is looked for, at every allocation in turn. */
#include "tests/common/test.h"

#include "tests/common/nomem.h"
#include "workers/audio/speech.h"

/* Forty stretches, a window of them, and a part of it. */
static int work(void *arg, struct err *err)
{
    static const struct speech_params p = {.threshold = 0.5f, .neg_threshold = -1.0f};
    struct pack pack = {0}, part = {0};
    struct speech_span span;
    struct speech *s = NULL;
    float prob[400];
    int rc;

    (void)arg;
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
    if (rc == 0)
        rc = pack_slice(&pack, pack.samples / 4, pack.samples, &part, err);
    if (rc != 0 && part.count)
        rc = ERR_EMPTY; /* what failed left something */
    pack_free(&pack);
    pack_free(&part);
    speech_free(s);
    return rc;
}

TEST(every_allocation) { assert_true(nomem_each(work, NULL) >= 5); }

TEST_MAIN(NULL, NULL)
