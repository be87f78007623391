/* tests/cuda/null/made_up.h - the numbers that a device gives that computes nothing.
 *
 * The shape of an answer tells which network was asked, and so what a plausible answer is:
 *
 * - 7 columns: pyannote's sets of speakers. Two people speak in turn: every 20 s the first from 0
 *   to 8 s, the second from 9 to 17 s, and both for a second.
 * - 1 column, or 8 behind a sigmoid (Silero's): speech in 100 of every 128 rows.
 * - behind a sigmoid else: scores of sounds; the first class, and now and then another one.
 * - of `align`: tokens evenly spread over the audio.
 * - anything else: vectors of two directions, row by row in turn, none of them equal. */
#ifndef NIGHTSHIFT_TESTS_CUDA_MADE_UP_H
#define NIGHTSHIFT_TESTS_CUDA_MADE_UP_H

#include <stddef.h>
#include <stdint.h>

enum made_up_kind {
    MADE_UP_NONE, /* the memory holds what was written to it */
    MADE_UP_VECTORS,
    MADE_UP_SPEAKERS,
    MADE_UP_SPEECH,
    MADE_UP_SCORES,
    MADE_UP_ALIGNED,
};

struct made_up {
    enum made_up_kind kind;
    int64_t cols;
};

/* How far the pretended recording is. */
struct made_up_clock {
    uint64_t windows; /* of speakers, a second apart */
};

/* What lies where in the device's memory, by the address of a tensor's first value. One thread at a
 * time. */
struct made_up_table;
struct made_up_table *made_up_table_new(void); /* NULL: no memory */
void made_up_table_free(struct made_up_table *t);
void made_up_table_put(struct made_up_table *t, const void *at, struct made_up what);
struct made_up made_up_table_get(const struct made_up_table *t, const void *at);

/* Fills `bytes` of dst, float32, whole rows of what.cols. About as fast as a copy. */
void made_up_fill(struct made_up_clock *clock, struct made_up what, void *dst, size_t bytes);

#endif
