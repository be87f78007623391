/* tools/aside.h - the stages that the last run could not do, and put aside (scheduler/backlog.c):
 * why, and how to leave them out. Read from the event journal and from the jobs. */
#ifndef NIGHTSHIFT_TOOLS_ASIDE_H
#define NIGHTSHIFT_TOOLS_ASIDE_H

#include "base/buf.h"
#include "store/read/read.h"

struct aside; /* owned: aside_free */

/* What the last run said of it. */
int aside_read(struct store *st, struct aside **ret, struct err *err);
void aside_free(struct aside *a); /* NULL is fine */

/* Why the stage was put aside; NULL: it was not, or nothing of it is left to do. Valid as long as a
 * is. */
const char *aside_why(const struct aside *a, const struct read_progress *stage);
/* For people: "`nightshift cancel --job 2` leaves embed-text out", for each stage that was put
 * aside and waits still; nothing where there is none. Two stages of one name and model are both
 * named. */
int aside_ways_out(struct store *st, const struct aside *a, struct buf *out, struct err *err);

#endif
