/* Device memory that is the host's, and copies as the real module makes them. */
#include "tests/cuda/null/null.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* A device moves large copies itself, at no cost to the host. Nobody reads here what they bring:
 * audio, weights. */
#define SMALL_BYTES ((size_t)128 << 10)

/* ---- what lies where */

static void set_answer(struct null_device *d, const void *at, struct made_up what)
{
    pthread_mutex_lock(&d->home->lock);
    made_up_table_put(d->home->table, at, what);
    pthread_mutex_unlock(&d->home->lock);
}

void null_stored(struct null_device *d, const void *at)
{
    set_answer(d, at, (struct made_up){MADE_UP_NONE, 0});
}

static struct made_up get_answer(struct null_device *d, const void *at)
{
    struct made_up what;

    pthread_mutex_lock(&d->home->lock);
    what = made_up_table_get(d->home->table, at);
    pthread_mutex_unlock(&d->home->lock);
    return what;
}

void null_computed(struct backend *be, enum null_call call, struct tensor y, enum made_up_kind kind)
{
    null_operate(be, call);
    if (kind == MADE_UP_VECTORS && y.cols == 7)
        kind = MADE_UP_SPEAKERS;
    if (y.cols == 1 && y.type == DTYPE_F32)
        kind = MADE_UP_SPEECH;
    set_answer(null_of(be), y.data, (struct made_up){kind, y.cols});
}

/* ---- memory */

int null_take_bytes(struct backend *be, uint64_t bytes, struct err *err)
{
    struct null_device *d = null_of(be)->owner;
    int rc = 0;

    pthread_mutex_lock(&d->home->lock);
    if (d->base.budget && (bytes > d->base.budget || d->base.allocated > d->base.budget - bytes))
        rc = err_set(err, ERR_VRAM, "out of memory of a device that is pretended");
    else
        __atomic_store_n(&d->base.allocated, d->base.allocated + bytes, __ATOMIC_RELAXED);
    if (d->base.allocated > d->base.peak)
        __atomic_store_n(&d->base.peak, d->base.allocated, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&d->home->lock);
    return rc;
}

void null_give_bytes(struct backend *be, uint64_t bytes)
{
    struct null_device *d = null_of(be)->owner;

    pthread_mutex_lock(&d->home->lock);
    __atomic_store_n(&d->base.allocated, d->base.allocated - bytes, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&d->home->lock);
}

/* Lock held. */
static int keep_block(struct null_home *h, void *p, size_t bytes, struct err *err)
{
    size_t capacity = h->block_capacity ? 2 * h->block_capacity : 256;
    struct null_block *more;

    if (h->block_count == h->block_capacity) {
        more = realloc(h->blocks, capacity * sizeof(*more));
        if (!more)
            return err_set(err, ERR_NOMEM, "out of memory for the list of device memory");
        h->blocks = more;
        h->block_capacity = capacity;
    }
    h->blocks[h->block_count++] = (struct null_block){p, bytes};
    return 0;
}

/* Address space: a page is taken when it is touched. */
int null_alloc(struct backend *be, size_t bytes, void **ret, struct err *err)
{
    struct null_home *h = null_of(be)->home;
    void *p;
    int rc;

    null_count(be, NULL_CALL_alloc);
    rc = null_take_bytes(be, bytes, err);
    if (rc != 0)
        return rc;
    p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        rc = err_set(err, ERR_VRAM, "no address space for a device that is pretended");
    } else {
        pthread_mutex_lock(&h->lock);
        rc = keep_block(h, p, bytes, err);
        pthread_mutex_unlock(&h->lock);
        if (rc != 0)
            munmap(p, bytes ? bytes : 1);
    }
    if (rc != 0) {
        null_give_bytes(be, bytes);
        return rc;
    }
    null_stored(null_of(be), p); /* an earlier block may have lain there */
    *ret = p;
    return 0;
}

void null_release_block(const struct null_block *b) { munmap(b->data, b->bytes ? b->bytes : 1); }

void null_release(struct backend *be, void *p)
{
    struct null_home *h = null_of(be)->home;
    struct null_block found = {NULL, 0};

    pthread_mutex_lock(&h->lock);
    for (size_t i = h->block_count; p && !found.data && i-- > 0;)
        if (h->blocks[i].data == p) {
            found = h->blocks[i];
            h->blocks[i] = h->blocks[--h->block_count];
        }
    pthread_mutex_unlock(&h->lock);
    if (!found.data)
        return;
    null_release_block(&found);
    null_give_bytes(be, found.bytes);
}

/* ---- time */

static int64_t read_clock_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* What is recorded runs later, as one operation. */
void null_operate(struct backend *be, enum null_call call)
{
    struct null_device *d = null_of(be);
    int64_t now;

    null_count(be, call);
    if (d->takes_us == 0 || d->recorded)
        return;
    now = read_clock_us();
    d->idle_us = (d->idle_us > now ? d->idle_us : now) + d->takes_us;
    d->counts.busy_us += (uint64_t)d->takes_us;
}

void null_wait_until(struct null_device *d, int64_t us)
{
    int64_t begun = us ? read_clock_us() : 0;
    struct timespec until = {us / 1000000, us % 1000000 * 1000};

    if (begun >= us)
        return;
    d->counts.waited_us += (uint64_t)(us - begun);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* ---- copies */

static size_t get_smaller(size_t a, size_t b) { return a < b ? a : b; }

void null_upload(struct null_device *d, void *dst, const void *src, size_t bytes)
{
    d->counts.bytes_up += bytes;
    for (size_t at = 0, n; at < bytes; at += n) {
        char *stage = d->stage[d->next_stage];

        n = get_smaller(bytes - at, NULL_STAGE_BYTES);
        d->next_stage = (d->next_stage + 1) % NULL_STAGES;
        memcpy(stage, (const char *)src + at, n);
        __asm__ volatile("" : : "r"(stage) : "memory"); /* it is not read, and must be made */
    }
    if (dst && bytes <= SMALL_BYTES) {
        memcpy(dst, src, bytes);
        null_stored(d, dst);
    }
}

static void download(struct null_device *d, void *dst, const void *src, struct made_up what,
                     size_t bytes)
{
    d->counts.bytes_down += bytes;
    if (what.kind == MADE_UP_NONE)
        memcpy(dst, src, bytes);
    else
        made_up_fill(&d->clock, what, dst, bytes);
}

int null_put(struct backend *be, struct tensor dst, const float *src, struct err *err)
{
    (void)err;
    null_count(be, NULL_CALL_put);
    null_upload(null_of(be), NULL, src, (size_t)(dst.rows * dst.cols) * sizeof(float));
    return 0;
}

int null_get(struct backend *be, float *dst, struct tensor src, struct err *err)
{
    struct made_up what = get_answer(null_of(be), src.data);
    size_t bytes = (size_t)(src.rows * src.cols) * sizeof(float);

    (void)err;
    null_count(be, NULL_CALL_get);
    null_wait_until(null_of(be), null_of(be)->idle_us);
    if (what.kind == MADE_UP_NONE)
        what.kind = MADE_UP_VECTORS; /* `put` does not keep what it brought */
    what.cols = src.cols;
    download(null_of(be), dst, src.data, what, bytes);
    return 0;
}

int null_write(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err)
{
    (void)err;
    null_count(be, NULL_CALL_write);
    null_upload(null_of(be), dst, src, bytes);
    return 0;
}

int null_read(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err)
{
    (void)err;
    null_count(be, NULL_CALL_read);
    null_wait_until(null_of(be), null_of(be)->idle_us);
    download(null_of(be), dst, src, get_answer(null_of(be), src), bytes);
    return 0;
}

int null_post(struct backend *be, uint32_t box, const void *src, size_t bytes, struct err *err)
{
    struct null_device *d = null_of(be);
    char *more;

    null_count(be, NULL_CALL_post);
    if (box >= BACKEND_BOXES || bytes > BACKEND_BOX_BYTES)
        return err_set(err, ERR_DEVICE, "a device that is pretended has no such box");
    if (bytes > d->box[box].bytes) {
        more = realloc(d->box[box].data, bytes);
        if (!more)
            return err_set(err, ERR_NOMEM, "out of memory for a box");
        d->box[box] = (struct null_box){more, bytes, 0};
    }
    d->box[box].ready_us = d->idle_us;
    if (bytes)
        download(d, d->box[box].data, src, get_answer(d, src), bytes);
    return 0;
}

int null_collect(struct backend *be, uint32_t box, void *dst, size_t bytes, struct err *err)
{
    struct null_device *d = null_of(be);

    null_count(be, NULL_CALL_collect);
    if (box >= BACKEND_BOXES || bytes > d->box[box].bytes)
        return err_set(err, ERR_DEVICE, "a box holds less than is collected");
    null_wait_until(d, d->box[box].ready_us);
    if (bytes)
        memcpy(dst, d->box[box].data, bytes);
    return 0;
}

int null_posted(struct backend *be, uint32_t box, bool *ret, struct err *err)
{
    int64_t ready = box < BACKEND_BOXES ? null_of(be)->box[box].ready_us : 0;

    (void)err;
    null_count(be, NULL_CALL_posted);
    *ret = ready == 0 || read_clock_us() >= ready;
    return 0;
}
