/* tools/enqueue/enqueue_file.h - what a file is: a recording, an archive of them, or nothing to
 * take; and whether the catalog knows it unchanged. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_FILE_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_FILE_H

#include "tools/enqueue/enqueue_work.h"

/* WALK_FILE, of the group that q is at. */
int enqueue_file(struct enqueue_work *q, const struct walk_entry *e, struct err *err);
/* May something be noted of a path that was named? Not of what is not there, nor of a file that is
 * left alone as no recording. */
bool enqueue_may_hold(const struct enqueue_work *q, const char *path);

#endif
