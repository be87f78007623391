/* workers/audio/babble.h - synthetic sound that networks take for people who talk: for measuring
 * work that is done only where somebody speaks. Pure. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_BABBLE_H
#define NIGHTSHIFT_WORKERS_AUDIO_BABBLE_H

#include <stddef.h>

/* n samples at 16 kHz, in [-1, 1]: three voices of other pitches and formants, which take turns of
 * some seconds; vowels by a cascade of three resonators each (Klatt, Software for a
 * cascade/parallel formant synthesizer, JASA 1980), with hisses between them. The same ones ever.
 */
void babble_fill(float *out, size_t n);

#endif
