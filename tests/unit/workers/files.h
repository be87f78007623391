/* tests/unit/workers/files.h - files that a test makes for a worker, in the test's own folder.
 * Returned paths are absolute and newly allocated. */
#ifndef NIGHTSHIFT_TESTS_UNIT_WORKERS_FILES_H
#define NIGHTSHIFT_TESTS_UNIT_WORKERS_FILES_H

#include <stddef.h>
#include <stdint.h>

/* Absolute; nothing is made. */
char *files_path(const char *name);
/* Of the sources' tests/samples. */
char *files_sample(const char *name);
/* A folder with the files of any stage's model: hashed, and read by nobody. */
char *files_model(void);
/* A wav at 16 kHz, mono; of so many channels, interleaved. */
char *files_wav(const char *name, const int16_t *pcm, uint32_t n);
char *files_wav_of(const char *name, const int16_t *pcm, uint32_t frames, uint16_t channels);

#endif
