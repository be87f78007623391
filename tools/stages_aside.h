/* tools/stages_aside.h - the stages that the last run could not do, and put aside
 * (scheduler/backlog.c): why, and how to leave them out. Read from the event journal and from the
 * jobs. */
#ifndef NIGHTSHIFT_TOOLS_STAGES_ASIDE_H
#define NIGHTSHIFT_TOOLS_STAGES_ASIDE_H

#include "base/buf.h"
#include "store/read/read.h"

struct stages_aside; /* owned: stages_aside_free */

/* What the last run said of it. */
int stages_aside_read(struct store *st, struct stages_aside **ret, struct err *err);
void stages_aside_free(struct stages_aside *a); /* NULL is fine */

/* Why the stage was put aside; NULL: it was not, or nothing of it is left to do. Valid as long as a
 * is. */
const char *stages_aside_why(const struct stages_aside *a, const struct read_progress *stage);
/* For people: "`nightshift cancel --job 2` leaves embed-text out", for each stage that was put
 * aside and waits still; nothing where there is none. Two stages of one name and model are both
 * named. */
int stages_aside_ways_out(struct store *st, const struct stages_aside *a, struct buf *out,
                          struct err *err);

#endif
