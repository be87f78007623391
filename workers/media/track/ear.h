/* workers/media/track/ear.h - one track that is heard: resamples its frames to 16 kHz, and places
 * them by the container's clock. One thread; inside the decoder process. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_EAR_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_EAR_H

#include "workers/media/open_media.h"
#include "workers/media/track/resample.h"
#include "workers/media/track/sound_meter.h"
#include "workers/media/track/track_clock.h"

struct ear {
    struct resampler mix, apart;
    bool begun;               /* its first frame came */
    struct media_heard heard; /* which channels, noises among them */
    struct sound_meter meter;
    struct track_clock clock;
    AVRational time_base;
    bool clocked;  /* the container has a clock */
    int rate_hz;   /* of the first frame */
    int64_t zero;  /* its time when the file begins, in samples at 16 kHz */
    int64_t given; /* samples handed on, silence too */
    int64_t lost;  /* > 0: a hole in so many samples to come is sound that was lost */
    int64_t first; /* when the first packet begins, from zero on; TRACK_CLOCK_UNKNOWN */
    int64_t delay; /* of its decoder, which gives frames the times of later packets */
    AVFrame *held; /* owned: a frame whose time the next one must confirm; or NULL */
    int64_t end;   /* when the last packet ends, from zero on; TRACK_CLOCK_UNKNOWN */
};

/* e is zeroed by the caller. n: which of the media's. */
void ear_prepare(struct ear *e, const struct media *m, uint32_t n);
void ear_free(struct ear *e);

/* The track goes on as another stream. */
void ear_replace(struct ear *e, const struct media *m, uint32_t n);

/* Before a packet is decoded: its times count, whatever comes of it. */
void ear_packet(struct ear *e, const AVPacket *packet);
/* A packet that could not be decoded; the container complained of data behind the packets that were
 * read before. */
void ear_lost_packet(struct ear *e);
void ear_lost_bytes(struct ear *e);

/* May the frame's time be wrong? Then it is moved to e->held, until the next one comes. */
int ear_hold(struct ear *e, AVFrame *frame, bool *held, struct err *err);
/* Takes e->held back, owned by the caller. Its time is forgotten where the one behind it, next
 * (NULL: none), does not confirm it. */
AVFrame *ear_release(struct ear *e, const AVFrame *next);

/* Before a frame is fed to the resamplers. true: silence comes first, up to the position that
 * e->clock.base is. */
bool ear_follow(struct ear *e, const AVFrame *frame);
/* Behind the last frame, alike. */
bool ear_end(struct ear *e);

/* The position where the track ends, by its last packet where the container says that this one
 * lasts longer than its sound. */
int64_t ear_ends_at(const struct ear *e);

#endif
