/* workers/media/track/sound_meter.h - how long each channel of a track has sound.
 *
 * A channel is looked at in blocks of 50 ms, as it is decoded, before anything is mixed. A block
 * that is louder than CHANNEL_QUIET_DB is sound. Silence that stands for holes is not fed, and does
 * not count. One thread; inside the decoder process. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_SOUND_METER_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_SOUND_METER_H

#include <stdint.h>

#include "workers/audio/hearing.h"
#include "workers/media/ffmpeg.h"

struct sound_meter {   /* zeroed */
    uint32_t channels; /* the most that a frame had; those behind the 64th are not measured */
    int rate_hz;       /* of the block that is under way, */
    uint32_t now;      /*   its channels, */
    int filled;        /*   its samples, */
    int looked;        /*   and those whose squares were added */
    double squares[HEARING_CHANNELS_MAX];
    int64_t sound_us[HEARING_CHANNELS_MAX];
};

void sound_meter_feed(struct sound_meter *m, const AVFrame *frame);
/* No more frames come: the last block is as short as it is. */
void sound_meter_end(struct sound_meter *m);

#endif
