/* Every allocation of the text and stage code fails once, in turn: the call says ERR_NOMEM, and
 * nothing is leaked (AddressSanitizer's build sees to that). Linked with --wrap. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/err.h"
#include "tests/unit/stages/fake_whisper.h"
#include "workers/stages/transcribe/transcribe.h"
#include "workers/text/tokenizer/vocabulary.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static int countdown = -1; /* -1: off; 0: the next one fails */
static bool hit;

static bool fails(void)
{
    if (countdown < 0)
        return false;
    hit = countdown-- == 0;
    return hit;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

/* Runs fn with the 1st, 2nd, ... allocation failing, until none was left to fail. */
static void each_allocation(int (*fn)(struct err *err), int at_least)
{
    int rounds = 0;

    do {
        struct err e = {0};
        int rc;

        hit = false;
        countdown = rounds++;
        rc = fn(&e);
        countdown = -1;
        if (hit && rc != ERR_NOMEM)
            fail_msg("allocation %d: %d %s", rounds, rc, e.msg);
        if (!hit && rc)
            fail_msg("%s", e.msg);
    } while (hit && rounds < 100000);
    assert_true(rounds > at_least);
}

#define ADDED(content, id) "{\"id\":" #id ",\"content\":\"" content "\"}"

static int vocabulary_whole(struct err *err)
{
    /* clang-format off */
    static const char tokenizer[] =
        "{\"added_tokens\":[" ADDED("<|endoftext|>", 3) "," ADDED("<|startoftranscript|>", 4) ","
        ADDED("<|en|>", 5) "," ADDED("<|transcribe|>", 6) "," ADDED("<|notimestamps|>", 7) "],"
        "\"pre_tokenizer\":{\"add_prefix_space\":true},"
        "\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    /* clang-format on */
    static const char generation[] = "{\"suppress_tokens\":[1],\"alignment_heads\":[[0,0]]}";
    struct vocabulary_source s = {
        tokenizer, generation, NULL, sizeof(tokenizer) - 1, sizeof(generation) - 1, 0};
    struct vocabulary *v = NULL;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n;
    int rc = vocabulary_parse(&s, &v, err);

    if (!rc)
        rc = vocabulary_encode(v, "abba", &ids, &n, err);
    if (!rc)
        rc = vocabulary_decode(v, ids, n, &text, err);
    free(text);
    free(ids);
    vocabulary_free(v);
    return rc;
}

static int params_whole(struct err *err)
{
    struct transcribe_params p;
    char *json = NULL;
    int rc;

    transcribe_params_default(&p);
    rc = transcribe_params_to_json(&p, &json, err);
    free(json);
    return rc;
}

static struct vocabulary *nano;

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

static int transcribe_whole(struct err *err)
{
    static const int32_t tokens[] = {650, 261, 275, 396, 700};
    struct transcribe_params p;
    struct transcriber *t = NULL;
    bool progress = true, told = false;
    struct lane_source source = {read_audio, release_audio, NULL};
    int rc;

    fake = (struct fake_state){.device_fails_at = -1};
    fake.scripts[0] = (struct fake_script){.language = 642, .no_speech = 0.01, .attempts = 1};
    fake.scripts[0].attempt[0] = (struct fake_attempt){tokens, 5, false, false};
    transcribe_params_default(&p);
    rc = transcriber_new(fake_whisper(), NULL, nano, &p, 2, 0, &t, err);
    if (!rc)
        rc = transcriber_add(t, 0, NULL, 1, source, take, &told, NULL, err);
    while (!rc && progress)
        rc = transcriber_step(t, &progress, err);
    transcriber_free(t);
    if (!rc)
        assert_true(told);
    return rc;
}

TEST(test_vocabulary) { each_allocation(vocabulary_whole, 30); }

TEST(test_params) { each_allocation(params_whole, 1); }

TEST(test_transcribe) { each_allocation(transcribe_whole, 20); }

int main(void)
{
    struct err e;
    int rc;

    if (vocabulary_load(test_source_path("workers/models/whisper-nano"), &nano, &e)) {
        print_error("%s\n", e.msg);
        return 1;
    }
    rc = suite_run(NULL, NULL);
    vocabulary_free(nano);
    return rc;
}
