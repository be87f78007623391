/* tools/disabled_stages.h - the stages that the last run could not do, and disabled
 * (scheduler/disabled_stages.c): why, and how to leave them out. Read from the event journal and
 * from the jobs. */
#ifndef NIGHTSHIFT_TOOLS_DISABLED_STAGES_H
#define NIGHTSHIFT_TOOLS_DISABLED_STAGES_H

#include "base/buf.h"
#include "store/read/read.h"

struct disabled_stages; /* owned: disabled_stages_free */

/* Reads which stages the last run disabled. */
int disabled_stages_read(struct store *st, struct disabled_stages **ret, struct err *err);
void disabled_stages_free(struct disabled_stages *a); /* NULL is fine */

/* Why the stage was disabled; NULL: it was not, or nothing of it is left to do. Valid as long as
 * a is. */
const char *disabled_stages_why(const struct disabled_stages *a, const struct read_progress *stage);
/* Appends a remedy for each disabled stage that still has work: "`nightshift cancel --job 2`
 * leaves embed-text out". Two stages of one name and model are both named. */
int disabled_stages_remedies(struct store *st, const struct disabled_stages *a, struct buf *out,
                             struct err *err);

#endif
