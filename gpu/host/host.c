/* Opening the processor as a backend, and its memory. */
#include "gpu/host/host.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "gpu/pages.h"

/* Before each block: what release gives back, and to whom. */
union block {
    struct {
        size_t bytes;
        size_t total; /* of `whole`, which is pages; 0: malloc's */
        void *whole;
    };
    char pad[64];
};

/* 64-byte aligned zeros, which the system gives as they are touched: most of a session's caches are
 * never touched in a short run, and clearing them all took longer than it. Large pages where they
 * fit: weights are read once a step, in order, and with small ones every 4 KiB waits for a page's
 * address. NULL: there is no memory. */
static void *block_new(size_t bytes)
{
    bool large = bytes >= 2 * PAGES_HUGE;
    union block *b;
    size_t total;
    char *whole;

    if (__builtin_add_overflow(bytes, sizeof(*b) + 63, &total))
        return NULL;
    whole = large ? pages_new(total) : calloc(1, total);
    if (!whole)
        return NULL;
    b = (union block *)(whole + (64 - (uintptr_t)whole % 64) % 64);
    b->bytes = bytes;
    b->total = large ? total : 0;
    b->whole = whole;
    return b + 1;
}

static void block_free(void *p)
{
    union block *b;

    if (!p)
        return;
    b = (union block *)p - 1;
    if (b->total)
        pages_free(b->whole, b->total);
    else
        free(b->whole);
}

/* Counts bytes as allocated, if the budget allows them. */
static int charge_budget(struct backend *be, size_t bytes, struct err *err)
{
    if (be->budget != 0 && (bytes > be->budget || be->allocated > be->budget - bytes))
        return err_set(err, ERR_VRAM,
                       "out of memory: %zu more bytes would pass the limit of %llu (%llu are held)",
                       bytes, (unsigned long long)be->budget, (unsigned long long)be->allocated);
    be->allocated += bytes;
    if (be->allocated > be->peak)
        be->peak = be->allocated;
    return 0;
}

int host_alloc(struct backend *be, size_t bytes, void **ret, struct err *err)
{
    int rc = charge_budget(be, bytes, err);
    void *p;

    if (rc != 0)
        return rc;
    p = block_new(bytes);
    if (!p) {
        be->allocated -= bytes;
        return err_set(err, ERR_VRAM, "out of memory: %zu more bytes were needed", bytes);
    }
    *ret = p;
    return 0;
}

void host_release(struct backend *be, void *p)
{
    if (!p)
        return;
    be->allocated -= ((union block *)p - 1)->bytes;
    block_free(p);
}

int host_grow(struct host *h, void **scratch, size_t *have, size_t bytes, struct err *err)
{
    void *p;
    int rc;

    if (bytes <= *have)
        return 0;
    bytes = (bytes + 63) / 64 * 64;
    rc = charge_budget(&h->base, bytes - *have, err);
    if (rc != 0)
        return rc;
    p = block_new(bytes);
    if (!p) {
        h->base.allocated -= bytes - *have;
        return err_set(err, ERR_VRAM, "out of memory: %zu bytes of scratch were needed", bytes);
    }
    block_free(*scratch);
    *scratch = p;
    *have = bytes;
    return 0;
}

int host_shape(struct err *err, const char *operation)
{
    return err_set(err, ERR_DEVICE, "%s was given shapes or types that do not fit", operation);
}

int host_dnn(struct err *err, dnnl_status_t status, const char *what)
{
    if (status == dnnl_out_of_memory)
        return err_set(err, ERR_VRAM, "out of memory while %s", what);
    return err_set(err, ERR_DEVICE, "oneDNN failed while %s (status %d)", what, (int)status);
}

static const struct kernels *pick_kernels(void)
{
#if defined(__x86_64__)
    static const struct kernels *const sets[] = {&kernels_plain, &kernels_avx2, &kernels_avx512,
                                                 &kernels_avx512bf16};

    return sets[cpu_isa()];
#else
    return &kernels_plain;
#endif
}

/* The first "model name" of /proc/cpuinfo; left alone when there is none. */
static void processor_name(char *name, size_t capacity)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256], *colon;

    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "model name", 10) == 0 && (colon = strchr(line, ':'))) {
            colon += strspn(colon, ": \t");
            colon[strcspn(colon, "\n")] = '\0';
            snprintf(name, capacity, "%s", colon);
            break;
        }
    }
    if (f)
        fclose(f);
}

bool backend_host_halves(void) { return pick_kernels()->rows_f16 != NULL; }

void backend_host_info(struct backend_info *ret)
{
    const struct kernels *k = pick_kernels();
    struct memory memory;

    *ret = (struct backend_info){.name = "processor", .id = "cpu", .threads = cpu_threads(1)};
    processor_name(ret->name, sizeof(ret->name));
    memory_look(&memory);
    ret->memory_total = memory.total;
    ret->memory_free = memory.available;
    ret->deterministic = true;
    ret->have = 1u << PRECISION_F32;
    if (k->rows_bf16)
        ret->have |= 1u << PRECISION_BF16;
    if (k->rows_i8 && cpu_has_vnni())
        ret->have |= 1u << (k->rows_bf16 ? PRECISION_INT8_BF16 : PRECISION_INT8_F32);
    if (k->rows_i16)
        ret->have |= 1u << PRECISION_INT16;
    snprintf(ret->features, sizeof(ret->features), "%s", k->name);
}

static int host_sync(struct backend *be, struct err *err)
{
    (void)be;
    (void)err;
    return 0;
}

static int host_write(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err)
{
    (void)be;
    (void)err;
    memcpy(dst, src, bytes);
    return 0;
}

static void host_close(struct backend *be)
{
    struct host *h = host_of(be);

    block_free(h->scratch);
    block_free(h->packed);
    if (h->stream)
        dnnl_stream_destroy(h->stream);
    if (h->engine)
        dnnl_engine_destroy(h->engine);
    free(h);
}

static const struct backend_ops host_ops = {
    .close = host_close,
    .sync = host_sync,
    .alloc = host_alloc,
    .release = host_release,
    .put = host_put,
    .get = host_get,
    .write = host_write,
    .read = host_write,
    .copy = host_copy,
    .linear_new = host_linear_new,
    .linear_free = host_linear_free,
    .linear = host_linear,
    .layer_norm = host_layer_norm,
    .add = host_add,
    .embed = host_embed,
    .kv_bytes = host_kv_bytes,
    .kv_fill = host_kv_fill,
    .kv_append = host_kv_append,
    .attention = host_attention,
    .attention_tail = host_attention_tail,
    .attention_rows = host_attention_rows,
    .attention_scores = host_attention_scores,
    .align = host_align,
    .warp = host_warp,
    .mel_new = host_mel_new,
    .mel_free = host_mel_free,
    .mel = host_mel,
    .filter_bank_new = host_filter_bank_new,
    .filter_bank_free = host_filter_bank_free,
    .filter_bank = host_filter_bank,
    .rules_new = host_rules_new,
    .rules_free = host_rules_free,
    .choose = host_choose,
    .top = host_top,
    .lstm_new = host_lstm_new,
    .lstm_free = host_lstm_free,
    .lstm = host_lstm,
    .magnitude = host_magnitude,
    .conv2d_new = host_conv2d_new,
    .conv2d_free = host_conv2d_free,
    .conv2d = host_conv2d,
    .activate = host_activate,
    .instance_norm = host_instance_norm,
    .max_pool = host_max_pool,
    .resample_new = host_resample_new,
    .resample_free = host_resample_free,
    .resample = host_resample,
    .pool = host_pool,
    .weighted_stats = host_weighted_stats,
    .gather = host_gather,
    .attention_spans = host_attention_spans,
};

int backend_open_host(uint32_t threads, struct backend **ret, struct err *err)
{
    struct host *h = calloc(1, sizeof(*h));
    dnnl_status_t status;

    if (!h)
        return err_set(err, ERR_NOMEM, "out of memory for the host backend");
    h->base.ops = &host_ops;
    backend_host_info(&h->base.info);
    if (threads > 0 && threads <= CPU_THREADS_MOST)
        h->base.info.threads = threads;
    if (CPU_ONE_THREAD)
        h->base.info.threads = 1;
    h->threads = (int)h->base.info.threads;
    h->kernels = pick_kernels();
    h->rows_i16 = cpu_has_vnni() ? h->kernels->rows_i16_vnni : h->kernels->rows_i16;
    status = dnnl_engine_create(&h->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&h->stream, h->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        host_close(&h->base);
        return host_dnn(err, status, "opening the processor");
    }
    *ret = &h->base;
    return 0;
}
