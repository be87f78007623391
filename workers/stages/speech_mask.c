#include "workers/stages/speech_mask.h"

#include <stdlib.h>
#include <string.h>

#include "workers/audio/speech.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/silero/silero.h"

#define FRAME_FIRST 495 /* samples: the centre of a window's first frame, */
#define FRAME_STEP 270  /* and from one to the next */
#define STEPS ((size_t)(PYANNET_SAMPLES / SPEECH_STEP + 1)) /* of a window's stream */

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
    uint32_t most;                 /* windows that it hears at once */
    struct silero_stream *streams; /* [most] */
    struct silero_block *blocks;   /* [most] */
    float *prob;                   /* [most][STEPS] */
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
        m->prob = calloc(m->most * STEPS, sizeof(*m->prob));
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

/* Window i of the batch from step `at` on. Its last step is half silence. */
static struct silero_block block_of(const struct speech_mask *m, const float *window, uint32_t i,
                                    uint32_t at)
{
    uint32_t steps = STEPS - at < SILERO_BLOCK ? (uint32_t)STEPS - at : SILERO_BLOCK;
    uint32_t left = (uint32_t)PYANNET_SAMPLES - at * SPEECH_STEP;

    return (struct silero_block){
        .stream = &m->streams[i],
        .pcm = window + (size_t)at * SPEECH_STEP,
        .samples = left < steps * SPEECH_STEP ? left : steps * SPEECH_STEP,
        .steps = steps,
        .prob = m->prob + i * STEPS + at,
    };
}

/* The probabilities of voice of n windows from `first` on, at most `most`. */
static int compute_voice_probs(struct speech_mask *m, const float *pcm, const size_t *where,
                               uint32_t first, uint32_t n, struct err *err)
{
    int rc = 0;

    memset(m->streams, 0, n * sizeof(*m->streams));
    for (uint32_t at = 0; rc == 0 && at < STEPS; at += SILERO_BLOCK) {
        for (uint32_t i = 0; i < n; i++)
            m->blocks[i] = block_of(m, pcm + pyannet_begin(where, first + i), i, at);
        rc = silero_run(m->silero, m->blocks, n, err);
    }
    return rc;
}

/* The first frame whose centre is not before the sample. */
static uint32_t frame_at(int64_t sample)
{
    int64_t frame = (sample - FRAME_FIRST + FRAME_STEP - 1) / FRAME_STEP;

    return sample <= FRAME_FIRST ? 0 : frame < PYANNET_FRAMES ? (uint32_t)frame : PYANNET_FRAMES;
}

static int clear_nonspeech_frames(const float *prob, uint8_t *sets, struct err *err)
{
    struct speech *speech = NULL;
    struct speech_span span;
    uint32_t silent = 0; /* from this frame on */
    int rc = speech_new(&rules, &speech, err);

    if (rc == 0)
        rc = speech_feed(speech, prob, STEPS, err);
    if (rc == 0)
        rc = speech_end(speech, PYANNET_SAMPLES, err);
    while (rc == 0 && speech_next(speech, &span)) {
        uint32_t begin = frame_at(span.start);

        if (begin > silent)
            memset(sets + silent, 0, begin - silent);
        silent = frame_at(span.end);
    }
    if (rc == 0)
        memset(sets + silent, 0, PYANNET_FRAMES - silent);
    speech_free(speech);
    return rc;
}

int speech_mask_run(struct speech_mask *m, const float *pcm, const size_t *at, uint32_t n,
                    uint8_t *sets, struct err *err)
{
    int rc = 0;

    for (uint32_t first = 0; rc == 0 && first < n; first += m->most) {
        uint32_t some = n - first < m->most ? n - first : m->most;

        rc = compute_voice_probs(m, pcm, at, first, some, err);
        for (uint32_t i = 0; rc == 0 && i < some; i++)
            rc = clear_nonspeech_frames(m->prob + i * STEPS,
                                        sets + (size_t)(first + i) * PYANNET_FRAMES, err);
    }
    return rc;
}
