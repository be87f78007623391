#include "tests/unit/stages/recording.h"

#include <math.h>

#include "base/err.h"
#include "tests/common/test.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"

#define PLACE 4e-9f /* between two samples */

int64_t recording_length(const struct recording *r)
{
    int64_t n = 0;

    for (size_t i = 0; i < RECORDING_PARTS; i++)
        n += r->parts[i].samples;
    return n;
}

void recording_rewind(struct recording *r)
{
    struct recording fresh = {.from = r->from, .fails_at = r->fails_at};

    memcpy(fresh.parts, r->parts, sizeof(fresh.parts));
    fresh.decoded = recording_length(r);
    *r = fresh;
}

uint32_t random_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % n);
}

void recording_random(struct recording *r, uint64_t *seed, uint32_t scripts)
{
    uint32_t parts = random_below(seed, 14);

    *r = (struct recording){.from = SECONDS(1000) * random_below(seed, 3)};
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t longest = random_below(seed, 4) ? 100000 : 900000;

        r->parts[i] = (struct part){1 + random_below(seed, longest),
                                    (int)random_below(seed, 2 * scripts) - (int)scripts};
        if (r->parts[i].script < 0)
            r->parts[i].script = SILENCE;
    }
    recording_rewind(r);
}

/* ---- audio */

static void fill(const struct recording *r, int64_t at, int64_t n, float *out)
{
    int64_t begin = 0;

    for (size_t i = 0; i < RECORDING_PARTS; begin += r->parts[i++].samples) {
        int64_t first = at > begin ? at : begin, past = begin + r->parts[i].samples;
        float sound = r->parts[i].script < 0 ? 0 : fake_audio((uint32_t)r->parts[i].script);

        if (past > at + n)
            past = at + n;
        for (int64_t k = first; k < past; k++)
            out[k - at] = sound != 0 ? sound + PLACE * (float)(k % PLACES) : 0;
    }
}

static int64_t read_audio(void *arg, int64_t at, size_t n, float *out)
{
    struct recording *r = arg;
    int64_t rel = at - r->from, length = recording_length(r), left = length - rel;

    assert_true(rel >= r->released);
    assert_true(rel <= length);
    if (r->fails_at && rel + (int64_t)n > r->fails_at)
        return -7;
    if (left > (int64_t)n)
        left = (int64_t)n;
    if (rel + left > r->decoded || (left < (int64_t)n && r->decoded < length))
        return -1;
    fill(r, rel, left, out);
    if (rel + left - r->released > r->most_held)
        r->most_held = rel + left - r->released;
    return left;
}

static void release_audio(void *arg, int64_t at)
{
    struct recording *r = arg;

    assert_true(at - r->from >= r->released);
    assert_true(at - r->from <= recording_length(r));
    r->released = at - r->from;
}

struct lane_source recording_source(struct recording *r)
{
    return (struct lane_source){.read = read_audio, .release = release_audio, .arg = r};
}

/* ---- what comes out */

static void check_words(const struct result_segment *s)
{
    char joined[1024] = "";
    int64_t last = s->start_ms;

    for (uint32_t i = 0; i < s->word_count; i++) {
        const struct result_word *w = &s->words[i];

        assert_true(w->start_ms >= last && w->end_ms >= w->start_ms && w->end_ms <= s->end_ms);
        assert_true(w->probability >= 0 && w->probability <= 1);
        last = w->start_ms;
        assert_true(strlen(joined) + strlen(w->text) < sizeof(joined));
        strcat(joined, w->text);
    }
    if (s->word_count)
        assert_string_equal(joined + strspn(joined, " "), s->text);
}

/* Speech without text is told as such, and adds up to what the account says, but for steps at its
 * ends that are cut. */
static void check_account(const struct lane_result *result)
{
    const struct result_account *a = &result->account;
    int64_t missing_ms = 0;

    assert_true(result_account_holds(a));
    for (uint32_t i = 0; i < result->segment_count; i++) {
        const struct result_segment *s = &result->segments[i];

        assert_int_equal(!s->text[0], !strcmp(s->reason, RESULT_MISSING));
        if (s->text[0])
            continue;
        assert_true(s->dropped && !s->word_count && s->end_ms > s->start_ms);
        missing_ms += s->end_ms - s->start_ms;
    }
    assert_int_equal(missing_ms > 0, a->missing_ms > 0);
    assert_true(missing_ms >= a->missing_ms - 33 * (int64_t)result->windows);
}

void recording_take(void *arg, const struct lane_result *result, const struct err *err)
{
    struct recording *r = arg;
    int64_t last = r->from / 16, end = (r->from + recording_length(r)) / 16;

    r->told++;
    if (err) {
        assert_null(result);
        r->code = err->code;
        return;
    }
    snprintf(r->language, sizeof(r->language), "%s", result->language);
    r->language_prob = result->language_prob;
    r->windows = result->windows;
    r->segments = result->segment_count;
    r->end = result->end_sample - r->from;
    assert_int_equal(r->end, recording_length(r));
    assert_true(r->segments <= RECORDING_SEGMENTS);
    r->account = result->account;
    check_account(result);
    for (uint32_t i = 0; i < r->segments; i++) {
        const struct result_segment *s = &result->segments[i];
        struct kept_segment *k = &r->segment[i];

        assert_true(s->start_ms >= last && s->end_ms >= s->start_ms && s->end_ms <= end);
        last = s->start_ms;
        check_words(s);
        *k = (struct kept_segment){.start_ms = s->start_ms,
                                   .end_ms = s->end_ms,
                                   .speech_prob = s->speech_prob,
                                   .avg_logprob = s->avg_logprob,
                                   .temperature = s->temperature,
                                   .attempts = s->attempts,
                                   .words = s->word_count,
                                   .dropped = s->dropped};
        snprintf(k->text, sizeof(k->text), "%s", s->text);
        snprintf(k->reason, sizeof(k->reason), "%s", s->reason);
        snprintf(k->language, sizeof(k->language), "%s", s->language);
    }
}

uint32_t recording_texts(const struct recording *r)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->segments; i++)
        n += r->segment[i].text[0] != 0;
    return n;
}

const char *recording_text(const struct recording *r)
{
    static char text[16384];
    size_t at = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < r->segments && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "[%lld-%lld %s]",
                               (long long)r->segment[i].start_ms, (long long)r->segment[i].end_ms,
                               r->segment[i].text);
    return text;
}

static void equal_segment(const struct kept_segment *a, const struct kept_segment *b)
{
    assert_int_equal(a->start_ms, b->start_ms);
    assert_int_equal(a->end_ms, b->end_ms);
    assert_string_equal(a->text, b->text);
    assert_string_equal(a->reason, b->reason);
    assert_string_equal(a->language, b->language);
    assert_memory_equal(&a->speech_prob, &b->speech_prob, sizeof(float));
    assert_memory_equal(&a->avg_logprob, &b->avg_logprob, sizeof(float));
    assert_memory_equal(&a->temperature, &b->temperature, sizeof(float));
    assert_int_equal(a->attempts, b->attempts);
    assert_int_equal(a->words, b->words);
    assert_int_equal(a->dropped, b->dropped);
}

void recording_equal(const struct recording *a, const struct recording *b)
{
    assert_int_equal(a->told, b->told);
    assert_int_equal(a->code, b->code);
    assert_string_equal(a->language, b->language);
    assert_memory_equal(&a->language_prob, &b->language_prob, sizeof(float));
    assert_int_equal(a->windows, b->windows);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->segments, b->segments);
    assert_int_equal(a->account.speech_ms, b->account.speech_ms);
    assert_int_equal(a->account.dropped_ms, b->account.dropped_ms);
    assert_int_equal(a->account.missing_ms, b->account.missing_ms);
    for (uint32_t i = 0; i < a->segments; i++)
        equal_segment(&a->segment[i], &b->segment[i]);
}

/* ---- lanes */

struct lane *recording_add(struct transcriber *t, struct recording *r, const char *language)
{
    struct lane *lane;
    struct err e;

    assert_ok(
        transcriber_add(t, r->from, language, 7, recording_source(r), recording_take, r, &lane, &e),
        e);
    return lane;
}

void recording_finish(struct transcriber *t)
{
    bool progress = true;
    struct err e;

    for (int i = 0; progress; i++) {
        assert_true(i < 100000);
        assert_ok(transcriber_step(t, &progress, &e), e);
    }
}

void recording_reset(void)
{
    memset(&fake, 0, sizeof(fake));
    fake.device_fails_at = -1;
    for (int i = 0; i < FAKE_SCRIPTS; i++)
        fake.scripts[i] = (struct fake_script){.language = EN, .no_speech = 0.01, .attempts = 1};
    fake_ear = (struct fake_ear){.fails_at = -1};
}

void recording_packed(struct transcribe_params *p)
{
    transcribe_params_default(p);
    snprintf(p->vad_model, sizeof(p->vad_model), "silero-vad");
    memset(p->vad_hash, '0', sizeof(p->vad_hash) - 1);
}
