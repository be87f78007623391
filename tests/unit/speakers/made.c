#include "tests/unit/speakers/made.h"

#include <math.h>
#include <stdlib.h>

double made_noise(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed << 32) + i;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 40) / 16777216.0 - 0.5;
}

void made_voice(uint32_t speaker, uint32_t size, double spread, uint64_t seed, uint64_t index,
                float *ret)
{
    for (uint32_t k = 0; k < size; k++) {
        double off = spread * made_noise(seed, index * size + k);

        ret[k] = (float)(made_noise(1000 + speaker, k) + off);
    }
}

static void fill(struct made *m, uint32_t w, uint32_t s, uint32_t speakers, double spread,
                 uint64_t seed)
{
    uint32_t frames = m->in.frames, at = w * 12 + s * 4, size = m->in.size;
    double choose[4];
    float *vector = m->vectors + ((size_t)w * 3 + s) * size;
    uint32_t start = s * frames / 3, length, speaker;

    for (uint32_t i = 0; i < 4; i++)
        choose[i] = made_noise(seed + 1, at + i) + 0.5;
    length = (uint32_t)(choose[1] * frames * 0.45);
    for (uint32_t t = start; t < start + length && t < frames; t++)
        m->active[(size_t)w * frames + t] |= (uint8_t)(1u << s);
    speaker = choose[3] > 0.03 ? ((uint32_t)(choose[0] * speakers) + s) % speakers : 50 + w % 2;
    if (choose[2] > 0.05)
        made_voice(speaker, size, spread, seed, w * 3 + s, vector);
    else
        for (uint32_t k = 0; k < size; k++)
            vector[k] = NAN;
}

struct made made_recording(uint32_t windows, uint32_t frames, uint32_t size, uint32_t speakers,
                           double spread, uint64_t seed)
{
    struct made m = {.active = calloc(windows, frames),
                     .vectors = calloc((size_t)windows * 3, size * sizeof(float))};

    m.in = (struct diarize_input){.windows = windows,
                                  .frames = frames,
                                  .speakers = 3,
                                  .window_s = 10,
                                  .step_s = 1,
                                  .frame_s = 10.0 / frames,
                                  .frame_length_s = 20.0 / frames,
                                  .duration_s = windows + 9.0,
                                  .active = m.active,
                                  .size = size,
                                  .vectors = m.vectors};
    for (uint32_t w = 0; w < windows; w++)
        for (uint32_t s = 0; s < 3; s++)
            fill(&m, w, s, speakers, spread, seed);
    return m;
}

void made_free(struct made *m)
{
    free(m->active);
    free(m->vectors);
}
