/* Every allocation fails once, in turn, in a run of lanes with voice activity, words, beams,
 * prompts and languages to be heard: the call says ERR_NOMEM, and nothing is leaked
 * (AddressSanitizer's build sees to that). Linked with --wrap. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/err.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"
#include "workers/text/tokenizer/vocabulary.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);

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
char *__wrap_strdup(const char *s) { return fails() ? NULL : __real_strdup(s); }

static struct vocabulary *vocab;
static struct transcribe_params params;
static struct recording first[2], again[2];

static int run(struct recording *r, struct err *err)
{
    struct transcriber *t = NULL;
    bool progress = true;
    int rc;

    rc = transcriber_new(fake_whisper(), params.vad_model[0] ? fake_silero() : NULL, vocab, &params,
                         2, 1, &t, err);
    for (int i = 0; !rc && i < 2; i++) {
        recording_rewind(&r[i]);
        rc = transcriber_add(t, r[i].from, NULL, 7, recording_source(&r[i]), recording_take, &r[i],
                             NULL, err);
    }
    while (!rc && progress)
        rc = transcriber_step(t, &progress, err);
    transcriber_free(t);
    return rc;
}

static void each_allocation(int at_least)
{
    int rounds = 0;
    struct err e = {0};

    assert_ok(run(first, &e), e);
    assert_true(first[0].segments > 2 && first[0].segment[0].words > 0);
    memcpy(again, first, sizeof(again));
    do {
        int rc;

        hit = false;
        countdown = rounds++;
        rc = run(again, &e);
        countdown = -1;
        if (hit && rc != ERR_NOMEM)
            fail_msg("allocation %d: %d %s", rounds, rc, e.msg);
        if (!hit && rc)
            fail_msg("%s", e.msg);
    } while (hit && rounds < 100000);
    print_message("%d allocations\n", rounds);
    assert_true(rounds > at_least);
    for (int i = 0; i < 2; i++)
        recording_equal(&first[i], &again[i]);
}

static int setup(void **state)
{
    (void)state;
    recording_reset();
    recording_packed(&params);
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5), T(4.5), FARMER);
    SAY(1, T(0), FARMER, TUESDAY, FARMER, T(4));
    fake.scripts[1].attempt[0].unsure = true;
    fake.scripts[0].rival = ES; /* is parked until all was heard */
    fake.scripts[0].rival_prob = 0.3;
    params.language_detection_threshold = 0.9f;
    params.word_timestamps = true;
    params.beam_size = 2;
    params.best_of = 2;
    params.temperature_count = 2;
    strcpy(params.initial_prompt, "farmer");
    strcpy(params.hotwords, "tuesday");
    for (int i = 0; i < 2; i++)
        first[i] = (struct recording){
            .parts = {{SECONDS(20), i}, {SECONDS(3), SILENCE}, {SECONDS(15), 0}}};
    return 0;
}

TEST_SETUP(test_packed, setup) { each_allocation(100); }

TEST_SETUP(test_sequential, setup)
{
    params.vad_model[0] = params.vad_hash[0] = 0;
    params.condition_on_previous_text = true;
    params.hallucination_silence_threshold = 1;
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5));
    for (int i = 0; i < 2; i++)
        first[i] = (struct recording){.parts = {{SECONDS(5), i}, {SECONDS(30), 0}}};
    each_allocation(100);
}

int main(void)
{
    struct err e;
    int rc;

    if (vocabulary_load(test_source_path("workers/models/whisper-nano"), &vocab, &e)) {
        print_error("%s\n", e.msg);
        return 1;
    }
    rc = suite_run(NULL, NULL);
    vocabulary_free(vocab);
    return rc;
}
