#include "workers/stages/speech_mask.h"

#include <stdlib.h>
#include <string.h>

#include "workers/audio/speech.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/silero/silero.h"

#define FRAME_FIRST 495 /* samples: the centre of a window's first frame, */
#define FRAME_STEP 270  /* and from one to the next */
#define MOST_SAMPLES (PYANNET_SAMPLES + (SPEECH_MASK_WINDOWS - 1) * PYANNET_STEP)
#define MOST_STEPS ((size_t)((MOST_SAMPLES + SPEECH_STEP - 1) / SPEECH_STEP))

/* docs/measurements.md has what was tried: with a transcription's (0.5, 30 ms) a quarter of what
 * real people say in noise as loud as they are is lost. */
static const struct speech_params rules = {
    .threshold = 0.3f,
    .neg_threshold = 0.05f,
    .min_silence_ms = 500,
    .pad_ms = 400,
};

struct speech_mask {
    struct silero *silero;
    uint32_t most;                 /* tiles that it hears at once */
    struct silero_stream *streams; /* [most] */
    struct silero_block *blocks;   /* [most] */
    float *prob;                   /* [most][MOST_STEPS] */
};

int speech_mask_new(const char *file, struct backend *be, struct speech_mask **ret, struct err *err)
{
    struct speech_mask *m = calloc(1, sizeof(*m));
    int rc;

    if (!m)
        return err_set(err, ERR_NOMEM, "no memory for voice activity");
    rc = silero_load(file, be, 0, &m->silero, err);
    if (rc == 0) {
        m->most = silero_blocks(m->silero);
        m->streams = calloc(m->most, sizeof(*m->streams));
        m->blocks = calloc(m->most, sizeof(*m->blocks));
        m->prob = calloc(m->most * MOST_STEPS, sizeof(*m->prob));
        if (!m->streams || !m->blocks || !m->prob)
            rc = err_set(err, ERR_NOMEM, "no memory for voice activity");
    }
    if (rc != 0)
        speech_mask_free(m);
    else
        *ret = m;
    return rc;
}

void speech_mask_free(struct speech_mask *m)
{
    if (!m)
        return;
    silero_free(m->silero);
    free(m->streams);
    free(m->blocks);
    free(m->prob);
    free(m);
}

uint64_t speech_mask_predict_bytes(bool gpu) { return silero_predict_bytes(gpu ? 0 : 1); }

static uint32_t count_samples(const struct speech_tile *t)
{
    return PYANNET_SAMPLES + (t->windows - 1) * PYANNET_STEP;
}

static uint32_t count_steps(const struct speech_tile *t)
{
    return (count_samples(t) + SPEECH_STEP - 1) / SPEECH_STEP;
}

/* Tile i of the batch from step `at` on. Its last step may end in silence. */
static struct silero_block block_of(const struct speech_mask *m, const struct speech_tile *t,
                                    uint32_t i, uint32_t at)
{
    uint32_t left = count_steps(t) - at, samples = count_samples(t) - at * SPEECH_STEP;
    uint32_t steps = left < SILERO_BLOCK ? left : SILERO_BLOCK;

    return (struct silero_block){
        .stream = &m->streams[i],
        .pcm = t->pcm + (size_t)at * SPEECH_STEP,
        .samples = samples < steps * SPEECH_STEP ? samples : steps * SPEECH_STEP,
        .steps = steps,
        .prob = m->prob + i * MOST_STEPS + at,
    };
}

/* The probabilities of voice of n tiles, at most `most`. */
static int compute_voice_probs(struct speech_mask *m, const struct speech_tile *tiles, uint32_t n,
                               struct err *err)
{
    uint32_t blocks = 1;
    int rc = 0;

    memset(m->streams, 0, n * sizeof(*m->streams));
    for (uint32_t at = 0; rc == 0 && blocks > 0; at += SILERO_BLOCK) {
        blocks = 0;
        for (uint32_t i = 0; i < n; i++)
            if (at < count_steps(&tiles[i]))
                m->blocks[blocks++] = block_of(m, &tiles[i], i, at);
        if (blocks > 0)
            rc = silero_run(m->silero, m->blocks, blocks, err);
    }
    return rc;
}

/* The first frame whose centre is not before the sample. */
static uint32_t frame_at(int64_t sample)
{
    int64_t frame = (sample - FRAME_FIRST + FRAME_STEP - 1) / FRAME_STEP;

    return sample <= FRAME_FIRST ? 0 : frame < PYANNET_FRAMES ? (uint32_t)frame : PYANNET_FRAMES;
}

/* Nobody speaks in [from, to), which are samples of the tile. */
static void clear_frames(const struct speech_tile *t, int64_t from, int64_t to)
{
    for (uint32_t i = 0; i < t->windows; i++) {
        int64_t begin = (int64_t)i * PYANNET_STEP;
        uint32_t first = frame_at(from - begin), end = frame_at(to - begin);

        if (end > first)
            memset(t->sets + (size_t)i * PYANNET_FRAMES + first, 0, end - first);
    }
}

static int clear_nonspeech_frames(const float *prob, const struct speech_tile *t, struct err *err)
{
    struct speech *speech = NULL;
    struct speech_span span;
    int64_t silent = 0; /* from this sample on */
    int rc = speech_new(&rules, &speech, err);

    if (rc == 0)
        rc = speech_feed(speech, prob, count_steps(t), err);
    if (rc == 0)
        rc = speech_end(speech, count_samples(t), err);
    while (rc == 0 && speech_next(speech, &span)) {
        clear_frames(t, silent, span.start);
        silent = span.end;
    }
    if (rc == 0)
        clear_frames(t, silent, INT64_MAX / 2);
    speech_free(speech);
    return rc;
}

int speech_mask_run(struct speech_mask *m, const struct speech_tile *tiles, uint32_t n,
                    struct err *err)
{
    int rc = 0;

    for (uint32_t first = 0; rc == 0 && first < n; first += m->most) {
        uint32_t some = n - first < m->most ? n - first : m->most;

        rc = compute_voice_probs(m, tiles + first, some, err);
        for (uint32_t i = 0; rc == 0 && i < some; i++)
            rc = clear_nonspeech_frames(m->prob + i * MOST_STEPS, &tiles[first + i], err);
    }
    return rc;
}
