/* tests/gpu/watch.h - between a model and its backend: what is asked of the device, and how long
 * that takes.
 *
 * Counted are multiplications with their additions (two each), and the bytes that every operation
 * must read and write once, were it alone. One backend at a time. */
#ifndef NIGHTSHIFT_TESTS_GPU_WATCH_H
#define NIGHTSHIFT_TESTS_GPU_WATCH_H

#include <stdint.h>

#include "gpu/backend.h"

struct watch {
    double flop, bytes;
    int64_t ns;          /* within operations: handing them over and waiting for them */
    precision_set asked; /* what weights were prepared for */
};

/* From now on be is watched, until watch_remove. instead: what is computed where a model asks for
 * float32 or TF32; PRECISION_AUTO: that. */
void watch_install(struct backend *be, enum precision instead);
void watch_remove(struct backend *be);
/* What was seen since the last call, or since it was installed. */
struct watch watch_take(void);

#endif
