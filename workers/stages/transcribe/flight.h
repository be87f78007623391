/* workers/stages/transcribe/flight.h - the windows in work: a session's slots, filled and stepped
 * together. Part of transcribe.c; engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_FLIGHT_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/outcome/outcome.h"

struct rules_spec;
struct timing;

struct slot {
    struct lane_window *window; /* NULL: free */
    uint64_t wave; /* its window, or one that was dropped since, is on its way through the encoder
                      in the wave of this number, from 1: it takes no part in steps; 0: it is not */
    struct decoding *decoding;
    bool ends; /* its text is whole, and it waits for its words to be asked for, with others: */
    uint64_t ended_at;      /*   since so many steps were done */
    struct outcome outcome; /* owned; of known text: none yet */
    bool asked;          /* a step that is under way has rows of it, whose answers it waits for */
    uint32_t generation; /* rows of an earlier one are nobody's by now */
};

/* Rows that are computed together, and the answers. */
struct flight_step {
    struct asr_row *rows; /* [row_max] */
    struct choice_ask *asks;
    uint32_t *generation; /* of their slots when it was begun */
    uint32_t n;
};

struct flight {
    struct asr_model *model;        /* borrowed, as all up to here: */
    const struct rules_spec *rules; /* token_rules.h */
    struct timing *timing;          /* NULL: no words */
    struct decoding_policy policy;
    struct asr_shape shape; /* branches, alignment heads, and whether texts are short */
    struct asr_session *session;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t encode_max; /* windows per call that there is memory for */
    uint32_t batch;      /* windows that wait for each other, the encoder's own number; 1: none */
    uint32_t fill_from;  /* free slots that are worth a call of the encoder */
    uint32_t word_batch; /* ended windows whose words are worth being asked for */
    uint32_t row_max;    /* rows of a step */
    float *pcm;          /* encode_max windows' audio */
    struct asr_window *windows;
    struct flight_step step[ASR_AHEAD]; /* the oldest under way is `steps_done`, modulo that */
    uint64_t steps_begun, steps_done;
    struct choice *choices; /* of the step that has its answers */
    struct candidate *top;
    struct asr_move *moves;
    uint64_t waves_begun,
        waves_there;               /* calls of the encoder: between the two they are under way */
    int64_t wave_start[ASR_WAVES]; /* of wave i in place i % ASR_WAVES, clock_mono_ns */
    int64_t there_at;              /* when one was found to be there last */
    int64_t window_ns;             /* what a window of that one took to encode; 0: not known yet */
    void (*beat)(void *arg);
    void *beat_arg;
};

/* The session, with as many of the wanted slots and windows at once as the device has memory for,
 * and what belongs to it. model, rules, timing, policy and shape are set. */
int flight_open(struct flight *f, uint32_t slots, uint32_t windows, struct err *err);
void flight_close(struct flight *f); /* what was open; slots are empty then */
/* After ERR_VRAM: half as many windows at once in the encoder, and when that is one already, half
 * as many slots. Windows in flight begin again: their audio is still held, and a window yields the
 * same however often it is begun. ERR_VRAM when it cannot be less. */
int flight_shrink(struct flight *f, struct err *err);
/* A session with room for texts that are not short (asr_shape), with fewer slots if they do not
 * fit. Windows in flight begin again, as above. */
int flight_lengthen(struct flight *f, struct err *err);

/* Forgets a lane's windows. */
void flight_drop(struct flight *f, const struct lane *l);
uint32_t flight_count(const struct flight *f); /* slots in use */
/* Slots in use whose windows go on: they do not wait for a language. */
uint32_t flight_busy(const struct flight *f);
uint32_t flight_vacant(const struct flight *f); /* slots that another window may have */

/* Puts windows that are ready into free slots and encodes them, lanes in order: as whole batches of
 * the encoder, as long as the lanes may have windows for one. If the device encodes beside its
 * steps (asr_ops.encode_begin), a later call finds the windows encoded and adds them to the steps.
 * Before that it begins the next ones for free slots, so that the encoder need not wait. */
int flight_fill(struct flight *f, struct lane *lanes, bool *progress, struct err *err);
/* Begins one step of the decoder for all slots, and takes the answers of the oldest that is under
 * way: where the device goes ahead (asr_session.ahead) that is the one before, so that it computes
 * while the host looks at what it chose; else the same. Finishes what ended. When there is nothing
 * to step, it waits for the windows on their way.
 *
 * The words of windows that ended are asked for together: when enough of them wait, when one has
 * waited for some steps, or when there is nothing else to do. A window waits in its slot.
 *
 * Ahead of its answer a window's next row feeds the token that is being chosen. If the window, or
 * an attempt at it, turns out to have ended with that, the row's answer is dropped: a window goes
 * through the same choices either way. */
int flight_step(struct flight *f, bool *progress, struct err *err);

void flight_beat(const struct flight *f);

#endif
