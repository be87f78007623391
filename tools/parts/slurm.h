/* tools/parts/slurm.h - the scripts that Slurm is given, as people would write them, and asking
 * Slurm by its own commands. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_SLURM_H
#define NIGHTSHIFT_TOOLS_PARTS_SLURM_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct sbatch { /* all borrowed, and absolute where they are paths */
    const char *program, *dir, *catalog;
    uint32_t parts;
    uint32_t gpus_per_task;  /* 0: none are asked for */
    uint32_t array_throttle; /* so many at once; 0: as many as Slurm likes */
    uint32_t cpus_per_task;  /* 0: as Slurm has it; likewise, NULL, of the others */
    const char *partition, *account, *time, *memory;
    const char *merge_node; /* where the catalog's disk is; NULL: any node sees it */
};

/* A task of the array does the part of its number: it drains on the early signal, and is requeued
 * when work is left. */
void sbatch_parts(const struct sbatch *s, struct buf *out);
/* Brings back what the parts have done. */
void sbatch_merge(const struct sbatch *s, struct buf *out);

/* ---- asking Slurm, by its own commands */

/* Runs argv[0] of $PATH, argv ending with NULL, and appends what it prints. ERR_MISSING: there is
 * no such program; ERR_IO: it ended otherwise than with 0, and the error has its words. */
int slurm_call(const char *const argv[], struct buf *out, struct err *err);

#endif
