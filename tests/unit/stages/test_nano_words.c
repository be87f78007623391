/* Times of words with the real nano model, with windows that follow each other and with speech that
 * is found first: by Silero's model where it is at hand, and by a made-up one that hears what is
 * loud. Recordings are decoded by the ffmpeg program. */
#include "tests/common/test.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/err.h"
#include "gpu/backend.h"
#include "tests/unit/models/silero_model.h"
#include "workers/models/silero/silero.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/transcribe/transcribe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ROOM (16000 * 120)
#define LOUD "loud.safetensors"
#define SLACK_MS 600 /* that a word may lie beside the utterance it belongs to */

static struct backend *backend;
static struct asr_model *model;
static const char *const names[] = {"01_en_short.wav", "09_long_silences.flac"};

struct sound {
    const char *name;
    int64_t n;
    float pcm[ROOM];
    struct {
        double start, end;
    } said[64]; /* seconds, as the recording's list has it */
    uint32_t count;
};

static struct sound sound;

/* What came out of a lane. */
struct said {
    char text[4096];
    uint32_t segments, words;
    uint32_t astray; /* words where nobody speaks */
};

/* ---- audio */

static bool decode(const char *name)
{
    char command[4400];
    int16_t chunk[4096];
    size_t n;
    FILE *f;

    snprintf(command, sizeof(command),
             "ffmpeg -nostdin -v error -i '%s/%s' -f s16le -ac 1 -ar 16000 - 2>/dev/null",
             test_source_path("tests/samples"), name);
    sound.name = name;
    sound.n = 0;
    f = popen(command, "r");
    if (!f)
        return false;
    while ((n = fread(chunk, sizeof(chunk[0]), COUNT(chunk), f)) > 0)
        for (size_t i = 0; i < n && sound.n < ROOM; i++)
            sound.pcm[sound.n++] = (float)chunk[i] / 32768.0f;
    pclose(f);
    return sound.n > 0;
}

static void read_list(const char *name)
{
    char rel[128], line[512];
    FILE *f;

    snprintf(rel, sizeof(rel), "tests/samples/%.*s.tsv", (int)strcspn(name, "."), name);
    f = fopen(test_source_path(rel), "r");
    assert_non_null(f);
    sound.count = 0;
    while (fgets(line, sizeof(line), f) && sound.count < COUNT(sound.said))
        if (sscanf(line, "%lf\t%lf", &sound.said[sound.count].start,
                   &sound.said[sound.count].end) == 2)
            sound.count++;
    fclose(f);
    assert_true(sound.count > 0);
}

static int64_t read_audio(void *arg, int64_t at, size_t n, float *out)
{
    int64_t left = sound.n - at;

    (void)arg;
    if (left > (int64_t)n)
        left = (int64_t)n;
    memcpy(out, sound.pcm + at, (size_t)left * sizeof(*out));
    return left;
}

static void release_audio(void *arg, int64_t at)
{
    (void)arg;
    (void)at;
}

/* ---- what comes out */

static bool is_astray(const struct result_word *w)
{
    int64_t middle = (w->start_ms + w->end_ms) / 2;

    for (uint32_t i = 0; i < sound.count; i++)
        if (middle >= (int64_t)(sound.said[i].start * 1000) - SLACK_MS &&
            middle <= (int64_t)(sound.said[i].end * 1000) + SLACK_MS)
            return false;
    return true;
}

static void take_segment(struct said *said, const struct result_segment *s, bool words)
{
    char joined[1024] = "";
    int64_t last = s->start_ms;

    strcat(strcat(said->text, s->text), "\n");
    assert_int_equal(s->word_count > 0, words);
    for (uint32_t i = 0; i < s->word_count; i++) {
        const struct result_word *w = &s->words[i];

        assert_true(w->start_ms >= last && w->end_ms >= w->start_ms && w->end_ms <= s->end_ms);
        assert_true(w->probability > 0 && w->probability <= 1);
        strcat(joined, w->text);
        last = w->start_ms;
        said->astray += is_astray(w);
        said->words++;
    }
    if (words)
        assert_string_equal(joined + strspn(joined, " "), s->text);
}

static bool with_words;

static void take(void *arg, const struct lane_result *r, const struct err *err)
{
    struct said *said = arg;
    int64_t last = 0;

    if (err)
        fail_msg("%s", err->msg);
    for (uint32_t i = 0; i < r->segment_count; i++) {
        const struct result_segment *s = &r->segments[i];

        assert_true(s->start_ms >= last && s->end_ms >= s->start_ms && s->end_ms <= sound.n / 16);
        last = s->start_ms;
        take_segment(said, s, with_words);
    }
    said->segments = r->segment_count;
}

static void transcribe(struct silero *vad, bool words, uint32_t slots, struct said *ret)
{
    struct lane_source source = {.read = read_audio, .release = release_audio, .arg = NULL};
    struct transcribe_params p;
    struct transcriber *t;
    bool progress = true;
    struct err e;

    *ret = (struct said){.segments = 0};
    transcribe_params_default(&p);
    p.word_timestamps = with_words = words;
    if (vad) {
        strcpy(p.vad_model, "silero-vad");
        memset(p.vad_hash, '0', sizeof(p.vad_hash) - 1);
    }
    assert_ok(transcriber_new(model, vad, &p, slots, 0, &t, &e), e);
    assert_ok(transcriber_add(t, 0, "en", 1, source, take, ret, NULL, &e), e);
    while (progress)
        assert_ok(transcriber_step(t, &progress, &e), e);
    transcriber_free(t);
    print_message("%s, %s: %u segments, %u words, %u astray\n", sound.name,
                  vad ? "with voice activity" : "without", ret->segments, ret->words, ret->astray);
    assert_true(ret->segments > 0);
}

static void run_all(struct silero *vad)
{
    static struct said plain, words, again;

    for (size_t i = 0; i < COUNT(names); i++) {
        assert_true(decode(names[i]));
        read_list(names[i]);
        transcribe(vad, false, 2, &plain);
        assert_int_equal(plain.words, 0);
        transcribe(vad, true, 1, &words);
        assert_true(words.words > sound.count);
        /* Attention wanders in the silence that windows hold where speech is not found first. */
        assert_true(words.astray * (vad ? 10 : 3) <= words.words);
        if (vad) { /* the windows are the same */
            assert_string_equal(plain.text, words.text);
            transcribe(vad, true, 4, &again);
            assert_memory_equal(&words, &again, sizeof(words));
        }
    }
}

/* ---- voice activity */

/* Hears what is loud: all weights are 0 but those that carry the spectrum's sum through the first
 * channels, a cell without memory, and the last product. */
static void write_loud(void)
{
    struct silero_model *m = silero_model_new(5);
    float *w_ih = m->tensor[9].value, *bias = m->tensor[11].value;

    for (size_t i = 1; i < SILERO_TENSORS; i++)
        memset(m->tensor[i].value, 0, m->tensor[i].count * sizeof(float));
    for (size_t i = 0; i < 129 * 3; i++)
        m->tensor[1].value[i] = 0.02f;
    for (size_t i = 3; i <= 7; i += 2)
        for (size_t k = 0; k < 3; k++)
            m->tensor[i].value[k] = 1;
    bias[0] = bias[384] = 10; /* input and output gates; forget: */
    bias[128] = -10;
    w_ih[256 * 128] = 1;
    m->tensor[13].value[0] = 20;
    m->tensor[14].value[0] = -5;
    silero_model_write(m, LOUD, 0);
    silero_model_free(m);
}

TEST(test_sequential) { run_all(NULL); }

TEST(test_loud)
{
    struct silero *vad;
    struct err e;

    write_loud();
    assert_ok(silero_load(LOUD, backend, 0, &vad, &e), e);
    run_all(vad);
    silero_free(vad);
}

TEST(test_voice)
{
    const char *file = test_shared_path("models/silero-vad/" SILERO_FILE);
    struct silero *vad;
    struct err e;

    if (access(file, R_OK) != 0) {
        print_message("SKIPPED: %s is not here\n", file);
        skip();
    }
    assert_ok(silero_load(file, backend, 0, &vad, &e), e);
    run_all(vad);
    silero_free(vad);
}

int main(void)
{
    struct asr_setup setup = {.precision = PRECISION_F32, .text = true};
    struct err e;
    int rc;

    if (!decode(names[0])) {
        printf("SKIPPED: the ffmpeg program is needed to decode the samples\n");
        return TEST_SKIPPED;
    }
    setup.dir = test_source_path("workers/models/whisper-nano");
    if (backend_open_host(1, &backend, &e) || whisper_family.open(&setup, backend, &model, &e)) {
        print_error("%s\n", e.msg);
        return 1;
    }
    rc = suite_run(NULL, NULL);
    whisper_free(model);
    backend_close(backend);
    return rc;
}
