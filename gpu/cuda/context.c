/* Opening a GPU as a backend, closing it, and what its errors mean. */
#include "gpu/cuda/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuda_status(struct err *err, int rc, const char *doing)
{
    cudaError_t status = (cudaError_t)rc;

    if (status == cudaSuccess)
        return 0;
    if (status == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); /* not sticky: what was there before is still valid */
        return err_set(err, ERR_VRAM, "out of GPU memory while %s", doing);
    }
    return err_set(err, ERR_DEVICE, "the GPU failed while %s: %s (%s)", doing,
                   cudaGetErrorString(status), cudaGetErrorName(status));
}

int cuda_shape(struct err *err, const char *operation)
{
    return err_set(err, ERR_DEVICE, "%s was given shapes or types that do not fit", operation);
}

int cuda_not_recording(struct cuda *c, const char *operation, struct err *err)
{
    if (c->recording)
        return err_set(err, ERR_DEVICE, "%s cannot be part of a recording", operation);
    return 0;
}

static void close_stages(struct cuda *c)
{
    for (int i = 0; i < CUDA_STAGES; i++) {
        if (c->up[i].done)
            (void)cudaEventDestroy(c->up[i].done);
        if (c->up[i].data)
            (void)cudaFreeHost(c->up[i].data);
    }
    if (c->down.data)
        (void)cudaFreeHost(c->down.data);
    for (int i = 0; i < BACKEND_BOXES; i++) {
        if (c->box[i].done)
            (void)cudaEventDestroy(c->box[i].done);
        if (c->box[i].data)
            (void)cudaFreeHost(c->box[i].data);
    }
}

static void close_streams(struct cuda *c)
{
    if (c->work)
        (void)cudaStreamDestroy(c->work);
    if (c->copies)
        (void)cudaStreamDestroy(c->copies);
    if (c->mark)
        (void)cudaEventDestroy(c->mark);
}

/* A fork's own memory: what it has for its operations alone. */
static void close_fork(struct cuda *c)
{
    cuda_free_retired(c);
    cuda_release(&c->base, c->workspace);
    cuda_release(&c->base, c->scratch);
}

/* Who records may close a fork: `capturing` can be taken again by the thread that has it. */
static void init_locks(struct cuda *c)
{
    pthread_mutexattr_t again;

    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->capturing, &again);
    pthread_mutexattr_destroy(&again);
    pthread_mutex_init(&c->shared, NULL);
}

/* Errors are ignored: they occurred before, and were reported then. */
static void cuda_close(struct backend *be)
{
    struct cuda *c = cuda_enter(be);
    cudaGraph_t graph = NULL;

    if (c->recording) {
        if (cudaStreamEndCapture(c->work, &graph) == cudaSuccess && graph)
            (void)cudaGraphDestroy(graph);
        pthread_mutex_unlock(&c->home->capturing);
    }
    if (c->work)
        (void)cudaStreamSynchronize(c->work);
    if (c->copies)
        (void)cudaStreamSynchronize(c->copies);
    cuda_plans_free(c);
    /* cuDNN waits for the whole device then, which spoils what another thread records. */
    pthread_mutex_lock(&c->home->capturing);
    cuda_dnn_close(c);
    pthread_mutex_unlock(&c->home->capturing);
    if (c->lt && c->home == c)
        (void)c->libs.lt.cublasLtDestroy(c->lt);
    close_stages(c);
    algorithms_free(c);
    if (c->home != c)
        close_fork(c);
    for (size_t i = 0; i < c->block_count; i++)
        (void)cudaFree(c->blocks[i].data);
    close_streams(c);
    free(c->old);
    free(c->blocks);
    pthread_mutex_destroy(&c->capturing);
    pthread_mutex_destroy(&c->shared);
    free(c);
}

/* If several want multiprocessors, the thread blocks of a fork that leads begin first: the
 * encoder's work is wide, and loses more by idle multiprocessors than a decoder's step by a wait.
 * Measured with the opposite order, windows/s of large-v3-turbo beside steps, 256 slots, H100: 174
 * to 184 for 188. Other forks' come last: they are other stages', which have work for the whole
 * night, where a step is short and waited for. A smaller number is a higher priority. */
static int open_streams(struct cuda *c, bool leads, struct err *err)
{
    const unsigned asleep = cudaEventDisableTiming | cudaEventBlockingSync;
    int low = 0, high = 0, priority;
    cudaError_t status;

    status = cudaDeviceGetStreamPriorityRange(&low, &high);
    priority = leads ? high : c->home == c && low - high > 1 ? low - 1 : low;
    if (status == cudaSuccess)
        status = cudaStreamCreateWithPriority(&c->work, cudaStreamNonBlocking, priority);
    if (status == cudaSuccess)
        status = cudaStreamCreateWithPriority(&c->copies, cudaStreamNonBlocking, high);
    if (status == cudaSuccess)
        status = cudaEventCreateWithFlags(&c->mark, asleep);
    for (int i = 0; i < CUDA_STAGES && status == cudaSuccess; i++) {
        status = cudaHostAlloc(&c->up[i].data, CUDA_STAGE_BYTES, cudaHostAllocDefault);
        if (status == cudaSuccess)
            status = cudaEventCreateWithFlags(&c->up[i].done, asleep);
    }
    if (status == cudaSuccess)
        status = cudaHostAlloc(&c->down.data, CUDA_STAGE_BYTES, cudaHostAllocDefault);
    return cuda_status(err, status, "making streams and pinned memory");
}

/* cuBLASLt's recommendation: 32 MiB, and more where its kernels are Hopper's or later. */
static int open_workspace(struct cuda *c, struct err *err)
{
    c->workspace_bytes = (c->sm >= 90 ? 64u : 32u) << 20;
    return cuda_alloc(&c->base, c->workspace_bytes, &c->workspace, err);
}

static int open_memory(struct cuda *c, uint64_t cap, struct err *err)
{
    size_t free_bytes = 0, total = 0;
    int rc;

    rc = cuda_status(err, cudaMemGetInfo(&free_bytes, &total), "asking for free memory");
    if (rc != 0)
        return rc;
    c->base.info.memory_total = total;
    c->base.info.memory_free = free_bytes;
    c->base.budget = device_budget(free_bytes, cap);
    return open_workspace(c, err);
}

static int open_libraries(struct cuda *c, struct err *err)
{
    cublasStatus_t status;
    int rc;

    libs_open(&c->libs);
    rc = libs_usable(&c->libs, err);
    if (rc != 0)
        return rc;
    status = c->libs.lt.cublasLtCreate(&c->lt);
    if (status != CUBLAS_STATUS_SUCCESS)
        return err_set(err, status == CUBLAS_STATUS_ALLOC_FAILED ? ERR_VRAM : ERR_DEVICE,
                       "%s does not start: %s", c->libs.cublaslt.file, libs_cublas_name(status));
    return cuda_dnn_open(c, err);
}

static void fill_backend_info(struct cuda *c, const struct cuda_device *d)
{
    struct backend_info *info = &c->base.info;

    snprintf(info->name, sizeof(info->name), "%s", d->name);
    snprintf(info->id, sizeof(info->id), "%s", d->uuid);
    info->processors = d->processors;
    info->have = d->have;
    info->deterministic = c->deterministic;
    /* Window after window is what makes results independent of the others. */
    info->wide_batches = !c->deterministic;
    snprintf(info->features, sizeof(info->features), "sm_%d%s%s", c->sm,
             c->dnn ? "" : ", attention not fused: ", c->dnn ? "" : c->dnn_reason);
}

int cuda_open(const char *device, const struct cuda_options *options, struct backend **ret,
              struct err *err)
{
    const char *gelu = getenv("NIGHTSHIFT_CUDA_GELU");
    struct cuda_device d;
    struct cuda *c;
    int ordinal, rc;

    rc = cuda_device_find(device, &ordinal, err);
    if (rc == 0)
        rc = cuda_device_describe(ordinal, &d, err);
    if (rc != 0)
        return rc;
    if (d.major * 10 + d.minor < CUDA_MIN_SM)
        return err_set(err, ERR_MISSING, "%s has compute capability %d.%d, and 7.5 is wanted",
                       d.name, d.major, d.minor);
    c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory for the CUDA backend");
    c->base.ops = &cuda_ops;
    init_locks(c);
    c->home = c;
    c->device = ordinal;
    c->sm = d.major * 10 + d.minor;
    c->deterministic = options && options->deterministic;
    c->exact_gelu = gelu && strcmp(gelu, "exact") == 0;
    rc = cuda_status(err, cudaSetDevice(ordinal), "opening the GPU");
    if (rc == 0)
        rc = open_libraries(c, err);
    if (rc == 0)
        rc = open_streams(c, false, err);
    if (rc == 0)
        rc = open_memory(c, options ? options->cap : 0, err);
    if (rc == 0)
        rc = cuda_sync(&c->base, err);
    if (rc != 0) {
        cuda_close(&c->base);
        return err_prefix(err, "%s", d.name);
    }
    fill_backend_info(c, &d);
    *ret = &c->base;
    return 0;
}

/* The library of products serves both: it keeps nothing between two calls but what lies in the
 * plans. cuDNN's handle knows its stream. */
int cuda_fork(struct backend *be, bool leads, struct backend **ret, struct err *err)
{
    struct cuda *home = cuda_enter(be)->home, *c;
    int rc = cuda_not_recording(cuda_of(be), "fork", err);

    if (rc != 0)
        return rc;
    c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory for the CUDA backend");
    c->base = (struct backend){.ops = &cuda_ops, .info = be->info, .forked = &home->base};
    init_locks(c);
    c->home = home;
    c->device = home->device;
    c->sm = home->sm;
    c->deterministic = home->deterministic;
    c->exact_gelu = home->exact_gelu;
    c->libs = home->libs;
    c->lt = home->lt;
    rc = cuda_dnn_open(c, err);
    /* Without it the encoder would round otherwise than a run that got one, and none would say so.
     */
    if (rc == 0 && home->dnn && !c->dnn)
        rc = err_set(err, ERR_VRAM, "attention: %s", c->dnn_reason);
    if (rc == 0)
        rc = open_streams(c, leads, err);
    if (rc == 0)
        rc = open_workspace(c, err);
    if (rc != 0) {
        cuda_close(&c->base);
        return err_prefix(err, "a second order of operations");
    }
    *ret = &c->base;
    return 0;
}

int cuda_after(struct backend *be, struct backend *other, struct err *err)
{
    struct cuda *c = cuda_enter(be), *o = cuda_of(other);
    int rc = cuda_not_recording(c, "after", err);

    if (rc == 0)
        rc = cuda_not_recording(o, "after", err);
    if (rc == 0 && c->home != o->home)
        rc = cuda_shape(err, "after");
    if (rc == 0)
        rc = cuda_status(err, cudaEventRecord(o->mark, o->work), "ordering operations");
    return rc == 0
               ? cuda_status(err, cudaStreamWaitEvent(c->work, o->mark, 0), "ordering operations")
               : rc;
}

const struct backend_ops cuda_ops = {
    .close = cuda_close,
    .sync = cuda_sync,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .put = cuda_put,
    .get = cuda_get,
    .write = cuda_write,
    .read = cuda_read,
    .copy = cuda_copy,
    .linear_new = cuda_linear_new,
    .linear_free = cuda_linear_free,
    .linear = cuda_linear,
    .layer_norm = cuda_layer_norm,
    .add = cuda_add,
    .embed = cuda_embed,
    .kv_bytes = cuda_kv_bytes,
    .kv_fill = cuda_kv_fill,
    .kv_append = cuda_kv_append,
    .attention = cuda_attention,
    .attention_rows = cuda_attention_rows,
    .attention_scores = cuda_attention_scores,
    .align = cuda_align,
    .warp = cuda_warp,
    .mel_new = cuda_mel_new,
    .mel_free = cuda_mel_free,
    .mel = cuda_mel,
    .filter_bank_new = cuda_filter_bank_new,
    .filter_bank_free = cuda_filter_bank_free,
    .filter_bank = cuda_filter_bank,
    .rules_new = cuda_rules_new,
    .rules_free = cuda_rules_free,
    .choose = cuda_choose,
    .top = cuda_top,
    .follow = cuda_follow,
    .note = cuda_note,
    .post = cuda_post,
    .collect = cuda_collect,
    .posted = cuda_posted,
    .lstm_new = cuda_lstm_new,
    .lstm_free = cuda_lstm_free,
    .lstm = cuda_lstm,
    .magnitude = cuda_magnitude,
    .conv2d_new = cuda_conv2d_new,
    .conv2d_free = cuda_conv2d_free,
    .conv2d = cuda_conv2d,
    .activate = cuda_activate,
    .instance_norm = cuda_instance_norm,
    .max_pool = cuda_max_pool,
    .resample_new = cuda_resample_new,
    .resample_free = cuda_resample_free,
    .resample = cuda_resample,
    .pool = cuda_pool,
    .weighted_stats = cuda_weighted_stats,
    .gather = cuda_gather,
    .attention_spans = cuda_attention_spans,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .record_run = cuda_record_run,
    .record_free = cuda_record_free,
    .fork = cuda_fork,
    .after = cuda_after,
    .rehearse = cuda_rehearse,
    .recall = cuda_recall,
    .learn = cuda_learn,
};
