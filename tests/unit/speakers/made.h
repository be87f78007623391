/* tests/unit/speakers/made.h - recordings and voices by formula, the same as make_fixtures.py's. */
#ifndef NIGHTSHIFT_TESTS_UNIT_SPEAKERS_MADE_H
#define NIGHTSHIFT_TESTS_UNIT_SPEAKERS_MADE_H

#include "workers/speakers/diarize.h"

double made_noise(uint64_t seed, uint64_t i); /* uniform in [-0.5, 0.5) */
void made_voice(uint32_t speaker, uint32_t size, double spread, uint64_t seed, uint64_t index,
                float *ret);

struct made { /* made_free */
    struct diarize_input in;
    uint8_t *active;
    float *vectors;
};

struct made made_recording(uint32_t windows, uint32_t frames, uint32_t size, uint32_t speakers,
                           double spread, uint64_t seed);
void made_free(struct made *m);

#endif
