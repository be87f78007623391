/* Convolution over time, kernel 3, padding 1, time by channel in and out: oneDNN's, one window
 * after the other. Weights are packed once, in the layout that oneDNN asks for at a window's own
 * length; other lengths are computed from the same.
 *
 * Thousands of windows of a few steps (voice activity) are one product of rows instead: a call of
 * oneDNN costs more than such a window. Which way a window goes depends on its own shape alone, so
 * its result does not depend on the others. */
#include "gpu/host/host.h"

#include <omp.h>
#include <stdlib.h>

#define WINDOW 3000       /* frames of a log-mel spectrogram */
#define SHORT 64          /* steps of a window that is computed as rows, */
#define SMALL (64 * 1024) /* for so many weights at most, which are held twice */
#define CHUNK 32          /* rows that a thread gathers at once */

struct conv1d {
    enum dtype type;
    int64_t out, in, stride;
    const float *source; /* [out][in][3]; only during conv1d_new */
    float *bias;
    struct row_weights rows; /* [out][3 in]; of SMALL ones */
    void *w;                 /* packed */
    dnnl_memory_t w_memory, bias_memory, x, y, scratch;
    dnnl_primitive_t primitive; /* for the length and epilogue below */
    int64_t length;
    enum epilogue epilogue;
};

/* Drops what was prepared for one length. */
static void unprepare(struct conv1d *c)
{
    dnnl_memory_t *memories[] = {&c->bias_memory, &c->x, &c->y, &c->scratch};

    if (c->primitive)
        dnnl_primitive_destroy(c->primitive);
    c->primitive = NULL;
    for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++) {
        if (*memories[i])
            dnnl_memory_destroy(*memories[i]);
        *memories[i] = NULL;
    }
}

void host_conv1d_free(struct backend *be, struct conv1d *c)
{
    if (!c)
        return;
    unprepare(c);
    if (c->w_memory)
        dnnl_memory_destroy(c->w_memory);
    host_rows_free(be, &c->rows);
    host_release(be, c->w);
    host_release(be, c->bias);
    free(c);
}

static int make_desc(struct host *h, const struct conv1d *c, int64_t length, enum epilogue epilogue,
                     dnnl_primitive_desc_t *ret, struct err *err)
{
    dnnl_data_type_t type = c->type == DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
    dnnl_dims_t xd = {1, c->in, length}, wd = {c->out, c->in, 3}, bd = {c->out};
    dnnl_dims_t yd = {1, c->out, (length - 1) / c->stride + 1};
    dnnl_dims_t stride = {c->stride}, pad = {1};
    dnnl_memory_desc_t x, w, b, y;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status;
    int rc;

    dnnl_memory_desc_init_by_tag(&x, 3, xd, type, dnnl_nwc);
    dnnl_memory_desc_init_by_tag(&y, 3, yd, type, dnnl_nwc);
    dnnl_memory_desc_init_by_tag(&w, 3, wd, type, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&b, 1, bd, dnnl_f32, dnnl_a);
    if (c->w_memory) {
        const dnnl_memory_desc_t *packed;

        dnnl_memory_get_memory_desc(c->w_memory, &packed);
        w = *packed;
    }
    rc = host_attribute(epilogue, &attr, err);
    if (rc != 0)
        return rc;
    status = dnnl_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, &x, &w, &b, &y, stride, pad, pad);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(ret, &desc, attr, h->engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    return status == dnnl_success ? 0 : host_dnn(err, status, "preparing a convolution");
}

static int prepare(struct host *h, struct conv1d *c, int64_t length, enum epilogue epilogue,
                   struct err *err)
{
    dnnl_dims_t wd = {c->out, c->in, 3};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t plain;
    dnnl_status_t status;
    int rc;

    unprepare(c);
    rc = make_desc(h, c, length, epilogue, &pd, err);
    if (rc != 0)
        return rc;
    dnnl_memory_desc_init_by_tag(&plain, 3, wd, dnnl_f32, dnnl_oiw);
    if (!c->w_memory)
        rc = host_pack(h, pd, &plain, c->source, &c->w_memory, &c->w, err);
    if (rc == 0)
        rc = host_scratch(h, pd, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_src_md, DNNL_MEMORY_NONE, &c->x, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_dst_md, DNNL_MEMORY_NONE, &c->y, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_scratchpad_md, DNNL_MEMORY_NONE, &c->scratch, err);
    if (rc == 0) {
        const dnnl_memory_desc_t *bias = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1);

        status = dnnl_memory_create(&c->bias_memory, bias, h->engine, c->bias);
        if (status == dnnl_success)
            status = dnnl_primitive_create(&c->primitive, pd);
        if (status != dnnl_success)
            rc = host_dnn(err, status, "compiling a convolution");
    }
    dnnl_primitive_desc_destroy(pd);
    c->length = length;
    c->epilogue = epilogue;
    if (rc != 0)
        unprepare(c);
    return rc;
}

/* As rows want them: [out][3][in]. */
static int pack_short(struct backend *be, struct conv1d *c, struct err *err)
{
    float *w = malloc((size_t)(c->out * c->in * 3) * sizeof(*w));
    int rc;

    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    for (int64_t o = 0; o < c->out; o++) {
        for (int64_t i = 0; i < c->in; i++) {
            for (int64_t k = 0; k < 3; k++)
                w[(o * 3 + k) * c->in + i] = c->source[(o * c->in + i) * 3 + k];
        }
    }
    rc = host_rows_new(be, c->type, c->out, 3 * c->in, w, c->bias, &c->rows, err);
    free(w);
    return rc;
}

int host_conv1d_new(struct backend *be, enum precision precision, int64_t out, int64_t in,
                    int64_t stride, const float *w, const float *bias, struct conv1d **ret,
                    struct err *err)
{
    struct host *h = host_of(be);
    struct conv1d *c;
    void *p = NULL;
    int rc = backend_precision(be, precision, &precision, err);

    if (rc != 0)
        return rc;
    if (out <= 0 || in <= 0 || stride < 1)
        return host_shape(err, "conv1d_new");
    c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    *c = (struct conv1d){.type = precision_type(precision), .out = out, .in = in, .stride = stride};
    rc = host_alloc(be, (size_t)out * sizeof(float), &p, err);
    if (rc == 0) {
        c->bias = p;
        if (bias)
            memcpy(c->bias, bias, (size_t)out * sizeof(float));
        c->source = w;
        omp_set_num_threads(h->threads);
        rc = prepare(h, c, WINDOW, EPILOGUE_GELU, err);
        if (rc == 0 && out * in * 3 <= SMALL)
            rc = pack_short(be, c, err);
        c->source = NULL;
    }
    if (rc != 0) {
        host_conv1d_free(be, c);
        return rc;
    }
    *ret = c;
    return 0;
}

static int run(struct host *h, struct conv1d *c, void *x, void *y, struct err *err)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, c->x},
                              {DNNL_ARG_WEIGHTS, c->w_memory},
                              {DNNL_ARG_BIAS, c->bias_memory},
                              {DNNL_ARG_DST, c->y},
                              {DNNL_ARG_SCRATCHPAD, c->scratch}};
    dnnl_status_t status;

    dnnl_memory_set_data_handle(c->x, x);
    dnnl_memory_set_data_handle(c->y, y);
    dnnl_memory_set_data_handle(c->scratch, h->scratch);
    status = dnnl_primitive_execute(c->primitive, h->stream, 5, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(h->stream);
    return status == dnnl_success ? 0 : host_dnn(err, status, "convolving");
}

/* The steps that output row `row` sees, one after the other; zeros where there are none. */
static void gather(const struct conv1d *c, struct tensor x, int64_t length, int64_t row, char *to)
{
    int64_t outputs = (length - 1) / c->stride + 1, first = row / outputs * length;
    int64_t at = row % outputs * c->stride - 1;
    size_t size = (size_t)c->in * dtype_size(c->type);

    for (int64_t k = 0; k < 3; k++, at++, to += size) {
        if (at >= 0 && at < length)
            memcpy(to, (const char *)x.data + (size_t)(first + at) * size, size);
        else
            memset(to, 0, size);
    }
    memset(to, 0, (size_t)(c->rows.in - 3 * c->in) * dtype_size(c->type));
}

static int run_short(struct host *h, const struct conv1d *c, int64_t length, struct tensor x,
                     enum epilogue epilogue, struct tensor y, struct err *err)
{
    int64_t chunks = (y.rows + CHUNK - 1) / CHUNK, blocks = host_rows_blocks(&c->rows);
    size_t row = (size_t)c->rows.in * dtype_size(c->type), part = (CHUNK * row + 63) / 64 * 64;
    int threads = host_threads(h, (size_t)y.rows * row);
    int rc = host_grow(h, &h->scratch, &h->scratch_bytes, (size_t)threads * part, err);

    if (rc != 0)
        return rc;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < chunks; i++) {
        int64_t first = i * CHUNK, n = y.rows - first < CHUNK ? y.rows - first : CHUNK;
        char *steps = (char *)h->scratch + (size_t)omp_get_thread_num() * part;
        struct tensor to = y;

        for (int64_t r = 0; r < n; r++)
            gather(c, x, length, first + r, steps + (size_t)r * row);
        to.rows = n;
        to.data = (char *)y.data + (size_t)(first * y.stride) * dtype_size(y.type);
        for (int64_t b = 0; b < blocks; b++)
            host_rows_block(h, &c->rows, b, tensor_of(c->type, steps, n, c->rows.in), epilogue, to);
    }
    return 0;
}

int host_conv1d(struct backend *be, struct conv1d *c, uint32_t windows, struct tensor x,
                enum epilogue epilogue, struct tensor y, struct err *err)
{
    struct host *h = host_of(be);
    int64_t length = windows ? x.rows / windows : 0;
    int64_t out = length > 0 ? (length - 1) / c->stride + 1 : 0;
    size_t size = dtype_size(c->type);
    int rc = 0;

    if (x.cols != c->in || y.cols != c->out || length < 1 || x.rows != length * windows ||
        y.rows != out * windows || x.stride != x.cols || y.stride != y.cols || x.type != c->type ||
        y.type != c->type)
        return host_shape(err, "conv1d");
    if (length <= SHORT && c->rows.w)
        return run_short(h, c, length, x, epilogue, y, err);
    omp_set_num_threads(h->threads);
    if (!c->primitive || c->length != length || c->epilogue != epilogue)
        rc = prepare(h, c, length, epilogue, err);
    for (uint32_t i = 0; rc == 0 && i < windows; i++)
        rc = run(h, c, (char *)x.data + (size_t)(i * length * c->in) * size,
                 (char *)y.data + (size_t)(i * out * c->out) * size, err);
    return rc;
}
