#include "workers/audio/noise_gate.h"

#include <math.h>
#include <stdlib.h>

#include "workers/audio/steady.h"

#define KEPT 4 /* blocks whose judgement is kept: the next one, and those beside it */
#define RAMP_SAMPLES 80u

struct noise_gate {
    uint32_t channels, noises;
    bool ended;
    uint64_t looked, mixed; /* frames */
    uint64_t judged;        /* blocks */
    uint8_t other[KEPT];    /* of a block, bit i: channel i, a noise, was something else */
    struct bands bands[HEARING_SOURCES_MAX];
    uint8_t level[HEARING_SOURCES_MAX][STEADY_BLOCK][BANDS]; /* of the last frames, in a ring */
    float weight[HEARING_SOURCES_MAX];                       /* in the last sample */
};

static void fill_mix_weights(const struct noise_gate *g, uint32_t heard, float *ret)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->channels; i++)
        n += heard >> i & 1;
    for (uint32_t i = 0; i < g->channels; i++)
        ret[i] = heard >> i & 1 ? 1.0f / (float)n : 0;
}

static uint32_t all_of(const struct noise_gate *g) { return (UINT32_C(1) << g->channels) - 1; }

int noise_gate_new(uint32_t channels, uint32_t noises, struct noise_gate **ret, struct err *err)
{
    struct noise_gate *g = calloc(1, sizeof(*g));

    if (!g)
        return err_set(err, ERR_NOMEM, "out of memory");
    g->channels = channels;
    g->noises = noises;
    *ret = g;
    return 0;
}

void noise_gate_free(struct noise_gate *g) { free(g); }

static void judge_noise_channels(struct noise_gate *g)
{
    const size_t n = g->looked < STEADY_BLOCK ? (size_t)g->looked : STEADY_BLOCK;
    uint8_t *other = &g->other[g->judged++ % KEPT];

    *other = 0;
    for (uint32_t i = 0; i < g->channels; i++)
        if ((g->noises >> i & 1) &&
            steady_judge((const uint8_t(*)[BANDS])g->level[i], n) != STEADY_NOISE)
            *other |= (uint8_t)(1u << i);
}

void noise_gate_look(struct noise_gate *g, const int16_t *const *pcm)
{
    for (uint32_t i = 0; i < g->channels; i++)
        if (g->noises >> i & 1)
            bands_feed(&g->bands[i], pcm[i], g->level[i][g->looked % STEADY_BLOCK]);
    if (++g->looked % STEADY_BLOCK == 0)
        judge_noise_channels(g);
}

/* The rest is judged with what was before it. */
void noise_gate_end(struct noise_gate *g)
{
    if (g->looked % STEADY_BLOCK != 0)
        judge_noise_channels(g);
    g->ended = true;
}

bool noise_gate_ready(const struct noise_gate *g)
{
    return g->ended || g->mixed / STEADY_BLOCK + 1 < g->judged;
}

/* Bit i: channel i is in the mix of the next frame. */
static uint32_t heard_now(const struct noise_gate *g)
{
    const uint64_t block = g->mixed / STEADY_BLOCK;
    uint32_t heard = all_of(g) & ~g->noises;

    for (uint64_t b = block ? block - 1 : 0; b <= block + 1 && b < g->judged; b++)
        heard |= g->other[b % KEPT];
    return heard;
}

void noise_gate_mix(struct noise_gate *g, const int16_t *const *pcm, size_t n, int16_t *ret)
{
    float to[HEARING_SOURCES_MAX], from[HEARING_SOURCES_MAX];

    fill_mix_weights(g, heard_now(g), to);
    for (uint32_t c = 0; c < g->channels; c++)
        from[c] = g->mixed ? g->weight[c] : to[c];
    for (size_t i = 0; i < n; i++) {
        const float by = i < RAMP_SAMPLES ? (float)i / RAMP_SAMPLES : 1;
        float sum = 0;

        for (uint32_t c = 0; c < g->channels; c++)
            sum += (from[c] + by * (to[c] - from[c])) * pcm[c][i];
        ret[i] = (int16_t)lrintf(sum);
    }
    for (uint32_t c = 0; c < g->channels; c++)
        g->weight[c] = to[c];
    g->mixed++;
}
