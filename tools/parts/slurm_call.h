/* tools/parts/slurm_call.h - asking Slurm, by its own commands. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_SLURM_CALL_H
#define NIGHTSHIFT_TOOLS_PARTS_SLURM_CALL_H

#include "base/buf.h"
#include "base/err.h"

/* Runs argv[0] of $PATH, argv ending with NULL, and appends what it prints. ERR_MISSING: there is
 * no such program; ERR_IO: it ended otherwise than with 0, and the error has its words. */
int slurm_call(const char *const argv[], struct buf *out, struct err *err);

#endif
