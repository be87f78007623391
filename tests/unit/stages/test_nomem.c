/* Every allocation of the stages' code fails once, in turn: the call says ERR_NOMEM, and
 * nothing is leaked (AddressSanitizer's build sees to that). */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/err.h"
#include "tests/common/nano.h"
#include "tests/common/nomem.h"
#include "tests/unit/stages/fake_whisper.h"
#include "workers/stages/transcribe/transcribe.h"

static int params_whole(void *arg, struct err *err)
{
    struct transcribe_params p;
    char *json = NULL;
    int rc;

    (void)arg;
    transcribe_params_default(&p);
    rc = transcribe_params_to_json(&p, &json, err);
    free(json);
    return rc;
}

static int64_t read_audio(void *arg, int64_t at, size_t n, float *out)
{
    int64_t left = 40 * 16000 - at;

    (void)arg;
    if (left > (int64_t)n)
        left = (int64_t)n;
    for (int64_t i = 0; i < left; i++)
        out[i] = fake_audio(0);
    return left;
}

static void release_audio(void *arg, int64_t at)
{
    (void)arg;
    (void)at;
}

static void take(void *arg, const struct lane_result *r, const struct err *err)
{
    assert_null(err);
    assert_int_equal(r->segment_count, 2);
    *(bool *)arg = true;
}

static int transcribe_whole(void *arg, struct err *err)
{
    static const int32_t tokens[] = {650, 261, 275, 396, 700};
    struct transcribe_params p;
    struct transcriber *t = NULL;
    bool progress = true, told = false;
    struct lane_source source = {.read = read_audio, .release = release_audio, .arg = NULL};
    int rc;

    (void)arg;
    fake = (struct fake_state){.device_fails_at = -1};
    fake.scripts[0] = (struct fake_script){.language = 642, .no_speech = 0.01, .attempts = 1};
    fake.scripts[0].attempt[0] = (struct fake_attempt){tokens, 5, false, false};
    transcribe_params_default(&p);
    rc = transcriber_new(fake_whisper(nano), NULL, &p, 2, 0, &t, err);
    if (!rc)
        rc = transcriber_add(t, 0, NULL, 1, source, take, &told, NULL, err);
    while (!rc && progress)
        rc = transcriber_step(t, &progress, err);
    transcriber_free(t);
    if (!rc)
        assert_true(told);
    return rc;
}

TEST(test_params) { assert_true(nomem_each(params_whole, NULL) >= 1); }

TEST(test_transcribe) { assert_true(nomem_each(transcribe_whole, NULL) >= 20); }

TEST_MAIN(nano_open, nano_close)
