/* tools/status/status.h - how far a catalog's work is, and what a run is doing now; as text or
 * JSON. The figures are read once; rows (stages, devices, jobs, failures, events) are read as they
 * are written, and never held: failures may be many. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_STATUS_STATUS_H
#define NIGHTSHIFT_TOOLS_STATUS_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "scheduler/control/control_socket.h"
#include "store/read/corrections.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/disabled_stages.h"

struct status_wanted {
    bool watch; /* again and again: jobs and failures where asked for, JSON in a line */
    bool failures, jobs, events;
};

struct status {
    struct store *store; /* of which the rows are read */
    struct disabled_stages *disabled;
    struct store_totals totals;
    uint64_t textless[TEXTLESS_KINDS]; /* recordings that are done, have sound, and no text */
    uint64_t no_sound;                 /* those without a sound track */
    uint64_t gone;                     /* those that are nowhere any more */
    struct read_correction_counts corrections;
    bool on; /* a run, and live is good */
    struct control_live live;
    char holder[200]; /* who holds the catalog when it is no run; "" nobody */
};

/* *ret is to be closed, whatever comes of it; its `on` is good even so. */
int status_open(const char *catalog, struct status *ret, struct err *err);
void status_close(struct status *s);

/* Counts a stage's superseded results that nothing uses any more: they are neither pinned, nor
 * current until their replacement is done. */
uint64_t status_unused(const struct status *s, const struct read_progress *p);

/* Each writes to out. On error a part may be written already. */
int status_text(const struct status *s, const struct status_wanted *w, FILE *out, struct err *err);
int status_json(const struct status *s, const struct status_wanted *w, FILE *out, struct err *err);
/* One line, as the run's own. */
void status_line(const struct status *s, FILE *out);

#endif
