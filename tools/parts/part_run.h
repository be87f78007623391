/* tools/parts/part_run.h - a run of a part, on a disk of this machine. Main thread.
 *
 * A thread of its own writes finished work back to the part's file now and then, and at the end; it
 * reads the catalog like any other reader. Meanwhile SIGUSR1, SIGTERM, SIGINT and SIGHUP end the
 * run at a checkpoint, whenever they come. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_PART_RUN_H
#define NIGHTSHIFT_TOOLS_PARTS_PART_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct part_run;

/* Copies `file`, a part, and notes in it that a run begins: ERR_INPUT when it is none. `tries`, if
 * not 0: ERR_LIMIT when so many have failed already. */
int part_run_open(const char *file, int64_t write_back_ms, uint32_t tries, struct part_run **ret,
                  struct err *err);
/* The copy, which is to be run; borrowed. */
const char *part_run_catalog(const struct part_run *p);
/* Before the run: signals wait until its loop takes them, and again from its end until
 * part_run_end; none is lost, none kills. The run unblocks them. */
void part_run_hand_over(struct part_run *p);
/* A signal came before the run could take it: do not begin. */
bool part_run_stopped(const struct part_run *p);
/* After the run, or instead of it. in_order: it ended as it should, also when it was stopped; then
 * `text` goes into the journal. Writes back what is done; when that fails, it is tried again
 * for half a minute (but no longer than an interval), then the copy stays and the error says where.
 * ERR_CANCELLED: another run of the part has begun since, and nothing was written. Once; behind it
 * there is no thread any more, and the copy may be read until part_run_close. */
int part_run_end(struct part_run *p, bool in_order, const char *text, struct err *err);
/* Behind part_run_end: how many tries of the part have failed, this one included. 0 where that
 * cannot be read. */
uint32_t part_run_failed_tries(const struct part_run *p);
/* Behind part_run_end. Removes the copy, unless that could not be written back, and frees it. */
void part_run_close(struct part_run *p);

#endif
