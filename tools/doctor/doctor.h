/* tools/doctor/doctor.h - the parts of `nightshift doctor`: each looks at some things, and says a
 * line about each. Main thread only. */
#ifndef NIGHTSHIFT_TOOLS_DOCTOR_DOCTOR_H
#define NIGHTSHIFT_TOOLS_DOCTOR_DOCTOR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "gpu/devices/devices.h"

struct doctor {
    const char *catalog;
    json_t *rows; /* with --json; owned by the command */
    unsigned bad, warnings;
    bool transcribes, demo; /* there is a model that does, beside those of the demo; there is one of
                               these */
    bool quick;             /* nothing that takes more than a moment */
    int64_t limit_ms;       /* of one trial transcription */
    const volatile sig_atomic_t *stop; /* set: end soon */
};

/* One line, or one object. wanted and todo may be NULL when all is well. */
void doctor_finding(struct doctor *d, enum finding_state state, const char *name,
                    const char *wanted, const char *todo, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

void doctor_libraries(struct doctor *d);
void doctor_machine(struct doctor *d, const struct device *cpu);
void doctor_models(struct doctor *d);
/* Disk and catalog; and whether there is a model to transcribe with, after doctor_models. */
void doctor_storage(struct doctor *d);
/* Drivers, CUDA libraries and GPUs: what devices_find or devices_examine has found. */
void doctor_devices(struct doctor *d, const struct devices *all);
/* The devices as an array of objects, for --json. */
json_t *doctor_inventory(const struct devices *all);
/* A recording of six seconds goes all the way, on each device that can be used: enqueued into a
 * catalog of its own, decoded, transcribed by a worker, read back and compared. */
void doctor_trials(struct doctor *d, const struct devices *all);

#endif
