/* Convolution over time, kernel 3, padding 1: oneDNN's, time by channel in and out, one window
 * after the other. Weights are packed once, in the layout that oneDNN asks for at a window's own
 * length; other lengths are computed from the same. */
#include "gpu/host/host.h"

#include <omp.h>
#include <stdlib.h>

#define WINDOW 3000 /* frames of a log-mel spectrogram */

struct conv1d {
    enum dtype type;
    int64_t out, in, stride;
    const float *source; /* [out][in][3]; only during conv1d_new */
    float *bias;
    void *w; /* packed */
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
    omp_set_num_threads(h->threads);
    if (!c->primitive || c->length != length || c->epilogue != epilogue)
        rc = prepare(h, c, length, epilogue, err);
    for (uint32_t i = 0; rc == 0 && i < windows; i++)
        rc = run(h, c, (char *)x.data + (size_t)(i * length * c->in) * size,
                 (char *)y.data + (size_t)(i * out * c->out) * size, err);
    return rc;
}
