#include "gpu/filter_bank.h"

#include <math.h>

#define PI 3.14159265358979323846

bool filter_bank_fits(const struct filter_bank_spec *s)
{
    return s->frame > 1 && s->frame <= s->mel.fft && s->step > 0 && s->mel.bins > 0 &&
           s->mel.bins <= FILTER_BANK_MAX_BINS && s->floor >= 0.0 && s->offset >= 0.0 &&
           (!s->logarithm || s->floor + s->offset > 0.0);
}

size_t filter_bank_frames(const struct filter_bank_spec *s, size_t n)
{
    if (s->place == FRAME_WITHIN)
        return n < s->frame ? 0 : 1 + (n - s->frame) / s->step;
    return s->place == FRAME_MIRRORED && n <= s->frame / 2 ? 0 : 1 + n / s->step;
}

bool filter_bank_shapes(const struct filter_bank_spec *s, struct tensor pcm, const uint32_t *at,
                        uint32_t windows, size_t samples, struct tensor out)
{
    const size_t frames = filter_bank_frames(s, samples);

    if (pcm.type != DTYPE_F32 || pcm.rows != 1 || out.type != DTYPE_F32 || windows < 1 ||
        frames < 1 || samples > (size_t)1 << 30 || out.rows != (int64_t)(windows * frames) ||
        out.cols != s->mel.bins || out.stride != out.cols)
        return false;
    for (uint32_t i = 0; i < windows; i++)
        if ((int64_t)at[i] + (int64_t)samples > pcm.cols)
            return false;
    return true;
}

uint32_t filter_bank_before(const struct filter_bank_spec *s)
{
    return s->place == FRAME_WITHIN ? 0 : s->frame / 2;
}

void filter_bank_window(const struct filter_bank_spec *s, double *ret)
{
    for (uint32_t i = 0; i < s->frame; i++)
        ret[i] = s->window == FRAME_HAMMING ? 0.54 - 0.46 * cos(2.0 * PI * i / (s->frame - 1))
                                            : 0.5 - 0.5 * cos(2.0 * PI * i / s->frame);
}
