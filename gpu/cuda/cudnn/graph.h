/* gpu/cuda/cudnn/graph.h - graphs of cuDNN's, made and run: what attention (sdpa.c) and
 * convolutions (convolve.c) share.
 *
 * A graph is a few operations over tensors that have numbers (uid). cuDNN proposes engines for it,
 * best first; a plan is the first that it can prepare and that the caller takes. */
#ifndef NIGHTSHIFT_GPU_CUDA_CUDNN_GRAPH_H
#define NIGHTSHIFT_GPU_CUDA_CUDNN_GRAPH_H

#include "gpu/cuda/cuda.h"

#if NIGHTSHIFT_CUDNN

#define GRAPH_ALIGNMENT 16 /* bytes: what its kernels load at once */
#define GRAPH_OPERATIONS 4
#define GRAPH_TENSORS 8

enum graph_kind {
    GRAPH_DATA,  /* in memory */
    GRAPH_VALUE, /* one number in host memory, read before a run's call returns */
    GRAPH_INNER, /* what one operation hands to the next */
};

/* Any of four dimensions. */
struct graph_tensor {
    int64_t uid;
    cudnnDataType_t type;
    enum graph_kind kind;
    int64_t dims[4], strides[4]; /* in elements */
    int64_t alignment;           /* bytes */
};

struct graph_plan {
    cudnnBackendDescriptor_t plan; /* NULL: cuDNN has none */
    size_t workspace_bytes;
};

/* Descriptors of a graph under way, freed with it; zeroed at first. */
struct graph {
    cudnnBackendDescriptor_t kept[32];
    int count;
};

/* g keeps what they make. All of them return the status of the first failure. */
cudnnStatus_t graph_make(struct cuda *c, struct graph *g, cudnnBackendDescriptorType_t type,
                         cudnnBackendDescriptor_t *ret);
cudnnStatus_t graph_set(struct cuda *c, cudnnBackendDescriptor_t d,
                        cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t count, const void *values);
cudnnStatus_t graph_tensor(struct cuda *c, struct graph *g, const struct graph_tensor *t,
                           cudnnBackendDescriptor_t *ret);
void graph_free(struct cuda *c, struct graph *g);

/* Which of cuDNN's proposals will do. */
struct graph_wish {
    unsigned without;  /* bits 1 << CUDNN_NUMERICAL_NOTE_...: engines that have one are not taken */
    size_t most_bytes; /* of workspace; 0: any */
    int engines;       /* proposals that are looked at, best first; at most GRAPH_ENGINES */
};

#define GRAPH_ENGINES 64

/* A plan for these finished operations. status: of the calls that made them; anything but SUCCESS
 * is a refusal too. If cuDNN refuses, or proposes nothing that will do, ret->plan is NULL and `why`
 * says why. Want of memory is no refusal: ERR_VRAM. */
int graph_plan(struct cuda *c, struct graph *g, cudnnStatus_t status,
               const cudnnBackendDescriptor_t *operations, int count, struct graph_wish wish,
               struct graph_plan *ret, char *why, size_t capacity, const char *doing,
               struct err *err);
void graph_plan_free(struct cuda *c, struct graph_plan *p);
/* Writes all proposals that will do to ret[most], best first, after graph_plan found one; returns
 * how many. It leaves out plans that fail, also for want of memory. */
int graph_plans(struct cuda *c, struct graph *g, const cudnnBackendDescriptor_t *operations,
                int count, struct graph_wish wish, struct graph_plan *ret, int most);
/* data[i]: what tensor uids[i] is. */
int graph_run(struct cuda *c, const struct graph_plan *p, const int64_t *uids, void *const *data,
              int count, const char *doing, struct err *err);

#endif

#endif
