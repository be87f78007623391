/* tools/bench_stages.h - the part of `nightshift bench` that measures stages beside transcription.
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_BENCH_STAGES_H
#define NIGHTSHIFT_TOOLS_BENCH_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "gpu/precision.h"
#include "tools/enqueue/enqueue_stages.h"

struct backend;

struct bench_stages {
    const char *model[STAGE_COUNT]; /* as of struct enqueue_wish.other; borrowed */
    enum precision precision;
    uint32_t windows, rounds; /* 0: as a run would choose; 5 */
    struct enqueue_stages found[STAGE_COUNT];
};

bool bench_stages_any(const struct bench_stages *s);
/* Looks for the models, so that none is missed after an hour; a note for people on standard error
 * where one that is for the demo is taken. *doing as of enqueue_stages_find. */
int bench_stages_find(struct bench_stages *s, bool quiet, char doing[200], struct err *err);
void bench_stages_free(struct bench_stages *s);

/* Measures each and adds a row to `rows`; where people read, prints a table. device: its label. */
int bench_stages_run(const struct bench_stages *s, const char *device, struct backend *be,
                     bool people, json_t *rows, struct err *err);

#endif
