/* tools/parts/sbatch.h - the scripts that Slurm is given, as people would write them. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_SBATCH_H
#define NIGHTSHIFT_TOOLS_PARTS_SBATCH_H

#include <stdint.h>

#include "base/buf.h"

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

#endif
