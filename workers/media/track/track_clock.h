/* workers/media/track/track_clock.h - where the frames of a track belong in its recording.
 *
 * A container says when each frame is heard. A track may begin later than the picture, the sound
 * may have holes (a network that failed, a muted microphone, packets that cannot be decoded), and
 * the clock of a capture may drift against its sound card. This is the arithmetic alone: the caller
 * tells it each frame's time and length, and it answers how much silence belongs before the frame.
 *
 * Times and positions are samples at 16 kHz from the beginning of the recording as players show it.
 * Pure; one thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_TRACK_CLOCK_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_TRACK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
