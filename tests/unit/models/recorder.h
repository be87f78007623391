/* tests/unit/models/recorder.h - the host backend with recordings, as a graphics processor has
 * them: operations of a step are kept with their arguments and called again. One backend at a time.
 */
#ifndef NIGHTSHIFT_TESTS_RECORDER_H
#define NIGHTSHIFT_TESTS_RECORDER_H

#include "gpu/backend.h"

struct asr_model;

/* From now on be records. Never taken back. */
void recorder_install(struct backend *be);
/* From now on record_end fails with this. */
void recorder_fail(int code);

struct recorder_counts {
    int begun, ended, run, freed;
};
void recorder_counts(struct recorder_counts *ret);

/* The backend that a model was loaded on. */
struct backend *recorder_backend(const struct asr_model *w);

#endif
