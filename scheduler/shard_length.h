/* scheduler/shard_length.h - shards whose results would be more than a message can hold: known
 * before anything is decoded. Loop thread only. */
#ifndef NIGHTSHIFT_SCHEDULER_SHARD_LENGTH_H
#define NIGHTSHIFT_SCHEDULER_SHARD_LENGTH_H

#include "base/err.h"

struct run;

/* Whether the length that was asked for, if any, suits every stage with work. ERR_USAGE names the
 * stage that it is too long for, and what would do. Before the catalog keeps the length. */
int shard_length_asked(const struct run *run, struct err *err);
/* Puts aside the stages that the catalog's own length is too long for, which is nobody's mistake:
 * the others go on. When the run has begun. */
void shard_length_put_aside(struct run *run);

#endif
