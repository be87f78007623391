/* Device memory, and copies between it and the caller's.
 *
 * The caller's memory is pageable, so every copy goes through pinned buffers of a fixed size, used
 * in turn: while one is on its way, the next is being filled. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Room for one more block of a home, before the device is asked. Its lock is held. */
static int reserve_block(struct cuda *c, struct err *err)
{
    size_t capacity = c->block_cap ? c->block_cap * 2 : 256;
    struct cuda_block *p;

    if (c->block_count < c->block_cap)
        return 0;
    p = realloc(c->blocks, capacity * sizeof(*p));
    if (!p)
        return err_set(err, ERR_NOMEM, "out of memory for the list of device memory");
    c->blocks = p;
    c->block_cap = capacity;
    return 0;
}

static void count_memory(struct backend *be, uint64_t allocated)
{
    __atomic_store_n(&be->allocated, allocated, __ATOMIC_RELAXED);
    if (allocated > be->peak)
        __atomic_store_n(&be->peak, allocated, __ATOMIC_RELAXED);
}

/* The home's lock is held. */
static int allocate_block(struct cuda *c, size_t bytes, void **ret, struct err *err)
{
    struct cuda *home = c->home;
    struct backend *be = &home->base;
    cudaStream_t stream = c->recording ? c->copies : c->work;
    cudaError_t status;
    void *p = NULL;
    int rc;

    rc = reserve_block(home, err);
    if (rc != 0)
        return rc;
    if (be->budget && (bytes > be->budget || be->allocated > be->budget - bytes))
        return err_set(err, ERR_VRAM,
                       "out of GPU memory: %zu more bytes were needed, and %llu of the budget of "
                       "%llu are in use",
                       bytes, (unsigned long long)be->allocated, (unsigned long long)be->budget);
    rc = cuda_status(err, cudaMalloc(&p, bytes ? bytes : 1), "allocating");
    if (rc != 0)
        return rc;
    status = cudaMemsetAsync(p, 0, bytes ? bytes : 1, stream);
    if (status == cudaSuccess && c->recording)
        status = cudaStreamSynchronize(stream);
    rc = cuda_status(err, status, "clearing memory");
    if (rc != 0) {
        (void)cudaFree(p);
        return rc;
    }
    home->blocks[home->block_count++] = (struct cuda_block){p, bytes};
    count_memory(be, be->allocated + bytes);
    *ret = p;
    return 0;
}

/* Zeroed. While recording the clearing must not become part of what is recorded. */
static int allocate_zeroed(struct cuda *c, size_t bytes, void **ret, struct err *err)
{
    int rc;

    pthread_mutex_lock(&c->home->shared);
    rc = allocate_block(c, bytes, ret, err);
    pthread_mutex_unlock(&c->home->shared);
    return rc;
}

int cuda_alloc(struct backend *be, size_t bytes, void **ret, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = cuda_not_recording(c, "allocating", err);

    return rc == 0 ? allocate_zeroed(c, bytes, ret, err) : rc;
}

/* cudaFree waits for the device, so nothing under way still uses the memory, on no stream. */
void cuda_release(struct backend *be, void *p)
{
    struct cuda *c = cuda_enter(be)->home;

    pthread_mutex_lock(&c->shared);
    for (size_t i = c->block_count; p && i-- > 0;) {
        if (c->blocks[i].data != p)
            continue;
        (void)cudaFree(p);
        count_memory(&c->base, c->base.allocated - c->blocks[i].bytes);
        c->blocks[i] = c->blocks[--c->block_count];
        break;
    }
    pthread_mutex_unlock(&c->shared);
}

/* The list has room: cuda_scratch made it. */
static void release_or_defer(struct cuda *c, void *p, size_t bytes)
{
    if (c->recordings == 0 && !c->recording)
        cuda_release(&c->base, p);
    else if (p)
        c->old[c->old_count++] = (struct cuda_block){p, bytes};
}

void cuda_free_retired(struct cuda *c)
{
    while (c->old_count > 0)
        cuda_release(&c->base, c->old[--c->old_count].data);
}

/* Whole MiB: sizes that differ a little do not make it grow again and again. */
int cuda_scratch(struct cuda *c, size_t bytes, void **ret, struct err *err)
{
    size_t whole = (bytes + ((size_t)1 << 20) - 1) >> 20 << 20;
    struct cuda_block *old;
    int rc;

    if (whole > c->base.scratch) {
        old = realloc(c->old, (c->old_count + 1) * sizeof(*old));
        if (!old)
            return err_set(err, ERR_NOMEM, "out of memory for the list of device memory");
        c->old = old;
        /* The old first, where it can go: both at once may be more than there is. */
        release_or_defer(c, c->scratch, c->base.scratch);
        c->scratch = NULL;
        c->base.scratch = 0;
        rc = allocate_zeroed(c, whole, &c->scratch, err);
        if (rc != 0)
            return rc;
        c->base.scratch = whole;
    }
    *ret = c->scratch;
    return 0;
}

/* Until all that is on the stream by now has run; asleep. */
static cudaError_t wait_for_stream(struct cuda *c, cudaStream_t stream)
{
    cudaError_t status = cudaEventRecord(c->mark, stream);

    return status == cudaSuccess ? cudaEventSynchronize(c->mark) : status;
}

int cuda_sync(struct backend *be, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc;

    rc = cuda_not_recording(c, "waiting", err);
    if (rc == 0)
        rc = cuda_status(err, wait_for_stream(c, c->copies), "copying");
    if (rc == 0)
        rc = cuda_status(err, wait_for_stream(c, c->work), "waiting for the GPU");
    return rc;
}

int cuda_upload(struct cuda *c, cudaStream_t stream, void *dst, const void *src, size_t bytes,
                struct err *err)
{
    cudaError_t status = cudaSuccess;

    for (size_t at = 0; at < bytes && status == cudaSuccess;) {
        struct cuda_stage *s = &c->up[c->next_up];
        size_t n = least(bytes - at, CUDA_STAGE_BYTES);

        c->next_up = (c->next_up + 1) % CUDA_STAGES;
        status = cudaEventSynchronize(s->done);
        if (status != cudaSuccess)
            break;
        memcpy(s->data, (const char *)src + at, n);
        status = cudaMemcpyAsync((char *)dst + at, s->data, n, cudaMemcpyHostToDevice, stream);
        if (status == cudaSuccess)
            status = cudaEventRecord(s->done, stream);
        at += n;
    }
    return cuda_status(err, status, "copying to the GPU");
}

int cuda_write(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = cuda_not_recording(c, "write", err);

    return rc == 0 ? cuda_upload(c, c->work, dst, src, bytes, err) : rc;
}

int cuda_read(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    cudaError_t status = cudaSuccess;
    int rc = cuda_not_recording(c, "read", err);

    for (size_t at = 0; at < bytes && rc == 0;) {
        size_t n = least(bytes - at, CUDA_STAGE_BYTES);

        status = cudaMemcpyAsync(c->down.data, (const char *)src + at, n, cudaMemcpyDeviceToHost,
                                 c->work);
        if (status == cudaSuccess)
            status = wait_for_stream(c, c->work);
        rc = cuda_status(err, status, "copying from the GPU");
        if (rc == 0)
            memcpy((char *)dst + at, c->down.data, n);
        at += n;
    }
    return rc;
}

/* Pinned memory for a box, at its first use and where it was less: nothing of it is under way then,
 * or it was collected. */
static int make_box(struct cuda_box *b, size_t bytes, struct err *err)
{
    size_t whole = (bytes + 65535) / 65536 * 65536;
    cudaError_t status = cudaSuccess;
    void *more = NULL;

    if (!b->done)
        status = cudaEventCreateWithFlags(&b->done, cudaEventDisableTiming | cudaEventBlockingSync);
    if (status == cudaSuccess && whole > b->bytes)
        status = cudaHostAlloc(&more, whole, cudaHostAllocDefault);
    if (status == cudaSuccess && more) {
        if (b->data)
            (void)cudaFreeHost(b->data);
        b->data = more;
        b->bytes = whole;
    }
    return cuda_status(err, status, "making pinned memory");
}

int cuda_post(struct backend *be, uint32_t box, const void *src, size_t bytes, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = cuda_not_recording(c, "post", err);
    cudaError_t status;

    if (rc == 0 && (box >= BACKEND_BOXES || bytes > BACKEND_BOX_BYTES))
        rc = cuda_shape(err, "post");
    if (rc == 0)
        rc = make_box(&c->box[box], bytes, err);
    if (rc != 0)
        return rc;
    status = bytes ? cudaMemcpyAsync(c->box[box].data, src, bytes, cudaMemcpyDeviceToHost, c->work)
                   : cudaSuccess;
    if (status == cudaSuccess)
        status = cudaEventRecord(c->box[box].done, c->work);
    return cuda_status(err, status, "copying from the GPU");
}

int cuda_collect(struct backend *be, uint32_t box, void *dst, size_t bytes, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = cuda_not_recording(c, "collect", err);

    if (rc == 0 && (box >= BACKEND_BOXES || bytes > c->box[box].bytes || !c->box[box].done))
        rc = cuda_shape(err, "collect");
    if (rc == 0)
        rc = cuda_status(err, cudaEventSynchronize(c->box[box].done), "waiting for the GPU");
    if (rc == 0 && bytes)
        memcpy(dst, c->box[box].data, bytes);
    return rc;
}

int cuda_posted(struct backend *be, uint32_t box, bool *ret, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = cuda_not_recording(c, "posted", err);
    cudaError_t status;

    if (rc == 0 && (box >= BACKEND_BOXES || !c->box[box].done))
        rc = cuda_shape(err, "posted");
    if (rc != 0)
        return rc;
    status = cudaEventQuery(c->box[box].done);
    if (status == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* it is no error */
        *ret = false;
        return 0;
    }
    rc = cuda_status(err, status, "asking how far the GPU is");
    if (rc == 0)
        *ret = true;
    return rc;
}

static bool is_plain(struct tensor t)
{
    return t.type == DTYPE_F32 && (t.stride == t.cols || t.rows == 1);
}

/* Rows of float32 that pass through the scratch memory at once. */
static int64_t rows_at_once(struct tensor t)
{
    int64_t rows = (int64_t)(CUDA_STAGE_BYTES / sizeof(float)) / t.cols;

    return rows > 0 ? rows : 1;
}

int cuda_put(struct backend *be, struct tensor dst, const float *src, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int64_t step;
    void *p;
    int rc;

    if (dst.rows < 1 || dst.cols < 1 || dst.stride < dst.cols)
        return cuda_shape(err, "put");
    rc = cuda_not_recording(c, "put", err);
    if (rc != 0)
        return rc;
    if (is_plain(dst))
        return cuda_upload(c, c->work, dst.data, src, (size_t)(dst.rows * dst.cols) * sizeof(float),
                           err);
    step = rows_at_once(dst);
    rc = cuda_scratch(c, (size_t)(step * dst.cols) * sizeof(float), &p, err);
    for (int64_t r = 0; r < dst.rows && rc == 0; r += step) {
        int64_t n = dst.rows - r < step ? dst.rows - r : step;

        rc = cuda_upload(c, c->work, p, src + r * dst.cols, (size_t)(n * dst.cols) * sizeof(float),
                         err);
        if (rc == 0)
            rc = cuda_status(
                err, k_copy(c->work, tensor_rows(dst, r, n), tensor_of(DTYPE_F32, p, n, dst.cols)),
                "converting numbers");
    }
    return rc;
}

int cuda_get(struct backend *be, float *dst, struct tensor src, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int64_t step;
    void *p;
    int rc;

    if (src.rows < 1 || src.cols < 1 || src.stride < src.cols)
        return cuda_shape(err, "get");
    rc = cuda_not_recording(c, "get", err);
    if (rc != 0)
        return rc;
    if (is_plain(src))
        return cuda_read(be, dst, src.data, (size_t)(src.rows * src.cols) * sizeof(float), err);
    step = rows_at_once(src);
    rc = cuda_scratch(c, (size_t)(step * src.cols) * sizeof(float), &p, err);
    for (int64_t r = 0; r < src.rows && rc == 0; r += step) {
        int64_t n = src.rows - r < step ? src.rows - r : step;

        rc = cuda_status(
            err, k_copy(c->work, tensor_of(DTYPE_F32, p, n, src.cols), tensor_rows(src, r, n)),
            "converting numbers");
        if (rc == 0)
            rc = cuda_read(be, dst + r * src.cols, p, (size_t)(n * src.cols) * sizeof(float), err);
    }
    return rc;
}
