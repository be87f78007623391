/* gpu/cuda/check.h - what the files of the module's check share: the findings so far.
 *
 * One thread, in a process of its own: a thorough check leaves contexts on every device, and a
 * library may still surprise. Nothing is called in a library before its file, its version and those
 * of its parts have been found to fit. */
#ifndef NIGHTSHIFT_GPU_CUDA_CHECK_H
#define NIGHTSHIFT_GPU_CUDA_CHECK_H

#include <stdbool.h>

#include "gpu/cuda/cuda.h"
#include "gpu/cuda/libs.h"
#include "gpu/cuda_module.h"

enum { CHECK_WELL, CHECK_WARNING, CHECK_BROKEN };

struct check {
    unsigned parts; /* of cuda_check_part */
    cuda_finding_fn fn;
    void *arg;
    int worst;

    int driver, runtime; /* CUDA versions, 13000; driver 0: there is none */
    int devices;         /* that the run time gives */
    struct cuda_libs libs;
    bool usable; /* a device could be opened with these libraries */
};

/* One finding. wanted and todo are "" when all is well. */
void check_say(struct check *c, int state, const char *name, const char *wanted, const char *todo,
               const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* cuDNN's files: which, of which version, complete, and of one version (check_cudnn.c). */
void check_cudnn(struct check *c);
/* Real operations on an open device (check_run.c): products in every precision that it has, kernels
 * of our own, the attention. label: "cuda:0". A device that is lost is a finding, and the end. */
void check_run(struct check *c, struct cuda *device, const char *label);

#endif
