/* gpu/devices/probe.h - looks at the CUDA module, its libraries and its devices from a safe
 * distance.
 *
 * One child lists the devices and looks at the libraries. Where there are several devices it
 * touches none: a further child for each, which has that one visible alone (CUDA_VISIBLE_DEVICES),
 * asks for its memory and, where that is wanted, computes on it. So a card that hangs or crashes
 * what asks it is named and left out, and the others work. Where even the list cannot be had, the
 * cards are those that the kernel's driver names.
 *
 * A child (`nightshift probe`, hidden) opens the module and writes one JSON object a line:
 *   {"doing":"..."}     what it begins now: named when it dies over it
 *   {"module":"/path", "built_for":"CUDA 13.0, cuDNN 9.19"}
 *   {"device":{"ordinal":0, "name":"", "uuid":"", "major":9, "minor":0, "total":0, "free":0,
 *              "precisions":0, "place":"0000:3b:00.0", "trouble":"..."}}
 *                      place: where known; trouble: why it cannot be used, where it cannot
 *   {"finding":{"state":0, "name":"", "found":"", "wanted":"", "do":""}}
 *   {"error":{"code":"missing", "message":""}}   why there is no device
 *   {"end":true}        the last line: without it the answer is not whole
 * The parent believes none of it: libraries that it has never seen ran in that process. */
#ifndef NIGHTSHIFT_GPU_DEVICES_PROBE_H
#define NIGHTSHIFT_GPU_DEVICES_PROBE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "gpu/device.h"
#include "gpu/devices/nvidia.h"

struct probe_request {
    const char *module;
    const char *card; /* NULL, or the value of CUDA_VISIBLE_DEVICES that shows this one alone */
    bool alone;       /* nobody else looks at the libraries */
    bool thorough;    /* compute something */
};
/* The child's part. Returns 0, or -1 when `out` could not be written. */
int probe_write(const struct probe_request *q, FILE *out);

struct probe_options {
    const char *program; /* NULL: this one */
    bool thorough;
    const volatile sig_atomic_t *stop; /* NULL, or what ends it early */
};
/* Appends CUDA devices and findings to *ret and sets ret->no_gpu when none can be used. A child
 * that crashes, hangs or talks nonsense is a broken finding; one that was asked for a single card
 * of several makes that one unusable, which is a warning. hw: what the system says. Fails for lack
 * of memory, when no process can be started, and when it was stopped (ERR_CANCELLED). */
int probe_run(const struct probe_options *o, const struct nvidia *hw, struct devices *ret,
              struct err *err);
/* Reads an answer; `fate` ("crashed (signal 11, ...)") is what ended the child, "" when nothing
 * did, and `words` its last ones. Only probe_run and tests call it. */
void probe_read(const char *answer, size_t len, const char *fate, const char *words,
                struct devices *ret);

/* Appends a finding; any text is made printable and cut to its place. Left out when there are too
 * many. */
void devices_add_finding(struct devices *d, enum finding_state state, const char *name,
                         const char *found, const char *wanted, const char *todo);

#endif
