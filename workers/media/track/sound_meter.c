#include "workers/media/track/sound_meter.h"

#include <string.h>

#include "workers/audio/channels.h"
#include "workers/media/track/frame_sample.h"

#define BLOCKS_A_SECOND 20
#define STEP 3 /* every so many samples are looked at: it is done for all channels of all files */

void sound_meter_end(struct sound_meter *m)
{
    for (uint32_t c = 0; c < m->now && m->looked > 0; c++)
        if (channel_level_of(m->squares[c] / m->looked) < CHANNEL_QUIET_DB)
            m->sound_us[c] += (int64_t)m->filled * 1000000 / m->rate_hz;
    memset(m->squares, 0, sizeof(m->squares));
    m->filled = m->looked = 0;
}

static double sum_squares(struct frame_channel c, size_t from, size_t to)
{
    double sum = 0;

    for (size_t i = from; i < to; i += STEP) {
        const double v = frame_sample(c, i);

        sum += v * v;
    }
    return sum;
}

/* All of one block. */
static void add_block_energy(struct sound_meter *m, const AVFrame *f, int from, int n)
{
    for (uint32_t c = 0; c < m->now; c++)
        m->squares[c] += sum_squares(frame_channel(f, (int)c), (size_t)from, (size_t)(from + n));
    m->filled += n;
    m->looked += (n + STEP - 1) / STEP;
}

void sound_meter_feed(struct sound_meter *m, const AVFrame *f)
{
    const int all = f->ch_layout.nb_channels, block = f->sample_rate / BLOCKS_A_SECOND;
    const uint32_t n = all < 0                           ? 0
                       : all > (int)HEARING_CHANNELS_MAX ? HEARING_CHANNELS_MAX
                                                         : (uint32_t)all;

    if (block < 1) /* no audio */
        return;
    if (m->rate_hz != f->sample_rate || m->now != n) {
        sound_meter_end(m);
        m->rate_hz = f->sample_rate;
        m->now = n;
        m->channels = n > m->channels ? n : m->channels;
    }
    for (int at = 0, take; at < f->nb_samples; at += take) {
        const int left = f->nb_samples - at, capacity = block - m->filled;

        take = left < capacity ? left : capacity;
        add_block_energy(m, f, at, take);
        if (m->filled == block)
            sound_meter_end(m);
    }
}
