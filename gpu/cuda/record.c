/* A decoder step as a CUDA graph: captured from the calls themselves, launched as one. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>

struct recording {
    cudaGraphExec_t graph;
};

/* No step will be recorded: nothing of it may show in what runs next, nor keep memory. */
static int give_up(struct cuda *c, int rc)
{
    (void)cudaGetLastError();
    if (c->recordings == 0)
        cuda_free_retired(c);
    return rc;
}

/* The mode is relaxed: libraries may load their kernels at first use, and other threads may
 * allocate for forks, which the other modes forbid. What is recorded is what this thread puts on
 * `work`. */
int cuda_record_begin(struct backend *be, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = cuda_not_recording(c, "record_begin", err);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&c->home->capturing);
    rc = cuda_status(err, cudaStreamBeginCapture(c->work, cudaStreamCaptureModeRelaxed),
                     "beginning a recording");
    if (rc != 0) {
        pthread_mutex_unlock(&c->home->capturing);
        return give_up(c, rc);
    }
    c->recording = true;
    return 0;
}

/* The recording is over, also when this fails. */
int cuda_record_end(struct backend *be, struct recording **ret, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    cudaGraph_t graph = NULL;
    cudaError_t status;
    struct recording *r;

    if (!c->recording)
        return cuda_shape(err, "record_end");
    status = cudaStreamEndCapture(c->work, &graph);
    c->recording = false;
    pthread_mutex_unlock(&c->home->capturing);
    if (status != cudaSuccess)
        return give_up(c, cuda_status(err, status, "ending a recording"));
    r = calloc(1, sizeof(*r));
    if (!r) {
        (void)cudaGraphDestroy(graph);
        return give_up(c, err_set(err, ERR_NOMEM, "out of memory for a recording"));
    }
    status = cudaGraphInstantiate(&r->graph, graph, 0);
    (void)cudaGraphDestroy(graph);
    if (status != cudaSuccess) {
        free(r);
        return give_up(c, cuda_status(err, status, "preparing a recording"));
    }
    c->recordings++;
    *ret = r;
    return 0;
}

int cuda_record_run(struct backend *be, struct recording *r, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = cuda_not_recording(c, "record_run", err);

    return rc == 0 ? cuda_status(err, cudaGraphLaunch(r->graph, c->work), "running a recording")
                   : rc;
}

void cuda_record_free(struct backend *be, struct recording *r)
{
    struct cuda *c = cuda_enter(be);

    if (!r)
        return;
    /* A graph that is under way may be destroyed; the scratch that it uses may not be freed, which
     * cudaFree waits for. */
    (void)cudaGraphExecDestroy(r->graph);
    free(r);
    if (--c->recordings == 0)
        cuda_free_retired(c);
}
