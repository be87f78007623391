/* A stand-in for workers/models/silero/silero.h that hears a voice wherever a sample is not zero.
 * It is linked in place of the real one, and fails when told to. */
#ifndef NIGHTSHIFT_TESTS_FAKE_SILERO_H
#define NIGHTSHIFT_TESTS_FAKE_SILERO_H

#include <stdint.h>

#define FAKE_VOICE 0.9f /* its probability where there is one */
#define FAKE_QUIET 0.02f

struct fake_ear {
    uint32_t blocks;  /* that a call takes; 0: one */
    uint32_t calls;   /* so far */
    uint32_t largest; /* blocks of one call */
    uint32_t lacks;   /* calls to come that return ERR_VRAM */
    int64_t fails_at; /* the call that returns ERR_DEVICE; -1: none */
    int64_t steps;    /* heard so far */
};
extern struct fake_ear fake_ear;

struct silero;
struct silero *fake_silero(void);

#endif
