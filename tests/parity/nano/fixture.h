/* tests/parity/nano/fixture.h - arrays (.npy), sound (.wav) and tokens (.json) of the references.
 */
#ifndef NIGHTSHIFT_TESTS_PARITY_NANO_FIXTURE_H
#define NIGHTSHIFT_TESTS_PARITY_NANO_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

struct array {
    size_t rows, cols; /* rows 1 for a vector; of three dimensions the first two are the rows */
    float *data;       /* free it */
};

/* Each returns 0, or -1 with a line on standard error. */
int fixture_npy(const char *path, struct array *ret);
int fixture_wav(const char *path, float **pcm, size_t *n); /* 16 kHz, mono, 16 bits; free *pcm */
/* The same through the ffmpeg program. -1 also when there is none. */
int fixture_ffmpeg(const char *path, float **pcm, size_t *n);
/* An array of integers of a JSON file; returns how many, -1 on error. */
int fixture_ints(const char *path, const char *key, int32_t *out, size_t max);

#endif
