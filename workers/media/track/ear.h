/* workers/media/track/ear.h - one track that is heard: resamples its frames to 16 kHz, and places
 * them by the container's clock. Inside the decoder process; one thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_EAR_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_EAR_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/media/open_media.h"
#include "workers/media/track/resample.h"

/* ---- clock: where the frames of a track belong in its recording.
 *
 * A container says when each frame is heard. A track may begin later than the picture, the sound
 * may have holes (a network that failed, a muted microphone, packets that cannot be decoded), and
 * the clock of a capture may drift against its sound card. This is the arithmetic alone: the caller
 * tells it each frame's time and length, and it answers how much silence belongs before the frame.
 *
 * Times and positions are samples at 16 kHz from the beginning of the recording as players show it.
 * Pure. */

#define TRACK_CLOCK_UNKNOWN INT64_MIN

struct track_clock {
    int64_t longest_hole; /* samples; a longer one is a jump of the clock. The caller sets it. */
    int64_t base, fed;    /* the next frame is expected at base + fed samples at rate_hz */
    int rate_hz;
    int64_t shift; /* added to the container's times since the last jump */
    bool begun;
    int64_t first; /* position of the first frame */
    /* Frames in a row that come too early or too late by a little. */
    int off_sign;
    int64_t off_least, off_samples; /* by how much at least; how long they are */
    int64_t lost;                   /* silence in place of sound that could not be decoded */
    /* Jumps: how many, and where the first one is and by how much. */
    uint32_t jumps;
    int64_t jump_at, jump_by;
};

/* Before each frame. time: when the container says that it begins, or TRACK_CLOCK_UNKNOWN.
 * samples at rate_hz (> 0): its length. lost: packets before it could not be decoded.
 *
 * Returns n > 0: n samples of silence come first. n < 0: sound came faster than the clock says, and
 * -n samples too many are heard by now: shorten the following sound by -n. Else 0.
 *
 * A time that lies back by a second or more, or ahead by more than longest_hole, is a jump: the
 * frame is where the last one ended, and so are those behind it. A difference of less than 80 ms
 * may be jitter, and is made up for when it lasts 0.25 s. One frame's time may be wrong: the caller
 * asks track_clock_doubts first, and believes a time that the next frame's confirms. */
int64_t track_clock_frame(struct track_clock *c, int64_t time, int64_t samples, int rate_hz,
                          bool lost);

/* Is the time so far from where the frame is expected that it may be wrong? By a second or more. */
bool track_clock_doubts(const struct track_clock *c, int64_t time);

/* The time at which the next frame is expected: the end of the last one. */
int64_t track_clock_next(const struct track_clock *c);

/* At the end, where packets behind the last frame could not be decoded. time: when the last of them
 * ends. Returns the silence that stands for them, at most a minute. */
int64_t track_clock_end(struct track_clock *c, int64_t time);

/* ---- relay: a track that goes on as another stream.
 *
 * A broadcast's sound may change its PID in the middle of a recording: one stream ends, another one
 * begins. Here the packets of a stream that is not heard are held back, a few seconds of them. When
 * no packet of the stream that is heard came among them, the track goes on with these. */

#define RELAY_PACKETS 1024

struct relay { /* zeroed */
    AVPacket *held[RELAY_PACKETS];
    uint32_t count;
    int64_t since_us; /* of held[0]'s stream, since the last packet of the one that is heard */
    uint64_t
        beside; /* bit i: stream i runs beside the one that is heard, and never goes on as it */
};

/* A packet of the stream that is heard; ear: its track. Only held packets that are later than it
 * stay. */
void relay_heard(struct relay *r, const struct media *m, const AVPacket *packet);
/* A packet of any other stream. true: the track goes on as the stream of held[0]. */
bool relay_hold(struct relay *r, const struct media *m, const AVPacket *packet);
/* At the end of the file: alike. */
bool relay_at_end(const struct relay *r);
/* The track has gone on as `stream`: what is held up to that one's last packet was heard, or beside
 * it. */
void relay_done(struct relay *r, const struct media *m, int stream);
void relay_clear(struct relay *r);

/* ---- the ear */

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
