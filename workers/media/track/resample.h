/* workers/media/track/resample.h - decoded frames of any shape to 16 kHz signed 16 bit, mono or the
 * channels side by side; and how long each of their channels has sound.
 *
 * All channels are mixed, or one is taken, or each. The mix of one or two channels equals, sample
 * for sample, the output of `ffmpeg -ac 1 -ar 16000 -f s16le`: the same library with the same
 * defaults, begun anew where rate, channels or format change (and there, unlike the tool, without
 * losing the few samples inside). Two channels that cancel out are the louder one, as long as they
 * do, and it stays the louder one until the other has twice its power. More channels are averaged,
 * for their names may be wrong and a voice may be in any; where one is named the centre, which has
 * a film's dialogue, it counts about three times as much as any other. Inside the
 * decoder process; one thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_RESAMPLE_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_RESAMPLE_H

#include <stdint.h>

#include "base/err.h"
#include "workers/audio/hearing.h"
#include "workers/media/ffmpeg.h"

struct resampler {
    struct SwrContext *swr;
    uint32_t channel; /* from 1 on; 0, and where a frame has no such one: all, mixed */
    int louder;       /* of two channels that cancelled out, from 1 on; 0: none did yet */
    uint32_t apart;   /* so many channels side by side, as they are; 0: one, by `channel` */
    int rate_hz, format;
    AVChannelLayout layout;
    int16_t *out; /* owned */
    int out_cap;  /* samples */
    float *mono;  /* owned; of a frame whose channels were averaged here */
};

/* n: for each channel; they are interleaved, and valid until the next call. */
typedef int (*resampler_sink)(void *arg, const int16_t *pcm, size_t n, struct err *err);

/* Changes the frame where two channels cancel out. ERR_INPUT: a shape that makes no sense. */
int resampler_feed(struct resampler *r, AVFrame *frame, resampler_sink sink, void *arg,
                   struct err *err);
/* Leaves out n of the next samples, one of every fifty: nobody hears the difference. n at 16 kHz,
 * at most 48000. Has no effect before the first frame, and ends where the resampler begins anew. */
void resampler_shorten(struct resampler *r, int n);
/* Passes on the buffered samples; the next frame begins anew. */
int resampler_flush(struct resampler *r, resampler_sink sink, void *arg, struct err *err);
void resampler_free(struct resampler *r);

/* ---- how long each channel of a track has sound.
 *
 * A channel is looked at in blocks of 50 ms, as it is decoded, before anything is mixed. A block
 * that is louder than CHANNEL_QUIET_DB is sound. Silence that stands for holes is not fed, and does
 * not count. */

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
