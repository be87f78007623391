/* workers/media/track/frame_sample.h - the samples of a decoded frame as FFmpeg lays them out.
 * Inside the decoder process; pure. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_FRAME_SAMPLE_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_FRAME_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "workers/media/ffmpeg.h"

/* One channel of a frame. */
struct frame_channel {
    const uint8_t *first;
    size_t stride; /* bytes from one sample to the next */
    enum AVSampleFormat packed;
};

static inline struct frame_channel frame_channel(const AVFrame *f, int channel)
{
    const enum AVSampleFormat packed = av_get_packed_sample_fmt((enum AVSampleFormat)f->format);
    const size_t bytes = (size_t)av_get_bytes_per_sample(packed);

    if (av_sample_fmt_is_planar((enum AVSampleFormat)f->format))
        return (struct frame_channel){f->extended_data[channel], bytes, packed};
    return (struct frame_channel){f->extended_data[0] + (size_t)channel * bytes,
                                  (size_t)f->ch_layout.nb_channels * bytes, packed};
}

/* Full scale is 1. */
static inline double frame_sample(struct frame_channel c, size_t i)
{
    const uint8_t *at = c.first + i * c.stride;

    switch (c.packed) {
    case AV_SAMPLE_FMT_U8:
        return (*at - 128) / 128.0;
    case AV_SAMPLE_FMT_S16:
        return *(const int16_t *)(const void *)at / 32768.0;
    case AV_SAMPLE_FMT_S32:
        return *(const int32_t *)(const void *)at / 2147483648.0;
    case AV_SAMPLE_FMT_S64:
        return (double)*(const int64_t *)(const void *)at / 9223372036854775808.0;
    case AV_SAMPLE_FMT_FLT:
        return *(const float *)(const void *)at;
    case AV_SAMPLE_FMT_DBL:
        return *(const double *)(const void *)at;
    default:
        return 0;
    }
}

#endif
