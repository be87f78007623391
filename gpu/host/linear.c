/* y = x W^T + b.
 *
 * Wide ones (the encoder's) are oneDNN's inner product, prepared for one number of rows, weights in
 * the layout that it asks for. Those of few rows (a decoder step) are bound by reading the weights;
 * oneDNN picks other kernels, with other orders of summation, as the rows change, which would let a
 * window's text depend on its neighbours: so they are kernels of our own (rows.c). Those of 8 bits
 * and wide ones of 16 are all of our own (linear_int.c). */
#include "gpu/host/host.h"

#include <omp.h>
#include <stdlib.h>

/* One prepared inner product. A linear has one for each (epilogue, type of y) it is used with. */
struct wide {
    enum epilogue epilogue;
    enum dtype y_type;
    int64_t rows;
    dnnl_primitive_t primitive;
    dnnl_memory_t x, y, scratch;
};

#define WIDE_MAX 4

struct linear {
    enum dtype type;
    enum linear_use use;
    int64_t out, in;
    struct int_weights ints; /* of 8 and 16 bits */
    struct row_weights rows; /* else, of LINEAR_ROWS; what follows is of the others */
    void *w;                 /* packed */
    float *bias;             /* [out], zeros when there is none */
    struct wide wide[WIDE_MAX];
    int wides;
    dnnl_memory_t w_memory, bias_memory;
    const float *source; /* only during linear_new */
};

static dnnl_data_type_t dnn_type(enum dtype type)
{
    return type == DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* The inner product for these rows. Weights: in the layout that the first one of this linear
 * chose; the first chooses freely. */
static int wide_desc(struct host *h, struct linear *l, const struct wide *d,
                     dnnl_primitive_desc_t *ret, struct err *err)
{
    dnnl_dims_t xd = {d->rows, l->in}, wd = {l->out, l->in}, bd = {l->out}, yd = {d->rows, l->out};
    struct onednn_layout_own x = {0}, w = {0}, b = {0}, y = {0};
    struct onednn_operands o;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status;
    int rc = host_attribute(d->epilogue, &attr, err);

    if (rc != 0)
        return rc;
    status = onednn_layout_make(&x, 2, xd, dnn_type(l->type), dnnl_ab);
    if (status == dnnl_success)
        status = onednn_layout_make(&y, 2, yd, dnn_type(d->y_type), dnnl_ab);
    if (status == dnnl_success)
        status = onednn_layout_make(&b, 1, bd, dnnl_f32, dnnl_a);
    if (status == dnnl_success)
        status = onednn_layout_make(&w, 2, wd, dnn_type(l->type), dnnl_format_tag_any);
    if (status == dnnl_success) {
        o = (struct onednn_operands){onednn_layout_of(&x), onednn_layout_of(&w),
                                     onednn_layout_of(&b), onednn_layout_of(&y)};
        if (l->w_memory)
            dnnl_memory_get_memory_desc(l->w_memory, &o.w);
        status = onednn_inner_product(h->engine, &o, attr, ret);
    }
    onednn_layout_free(&x);
    onednn_layout_free(&y);
    onednn_layout_free(&b);
    onednn_layout_free(&w);
    dnnl_primitive_attr_destroy(attr);
    return status == dnnl_success ? 0 : host_dnn(err, status, "preparing a matrix product");
}

static void wide_free(struct wide *d)
{
    if (d->primitive)
        dnnl_primitive_destroy(d->primitive);
    if (d->x)
        dnnl_memory_destroy(d->x);
    if (d->y)
        dnnl_memory_destroy(d->y);
    if (d->scratch)
        dnnl_memory_destroy(d->scratch);
    *d = (struct wide){0};
}

static int wide_new(struct host *h, struct linear *l, struct wide *d, struct err *err)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status;
    size_t end;
    int rc;

    rc = wide_desc(h, l, d, &pd, err);
    if (rc != 0)
        return rc;
    if (!l->w_memory) {
        dnnl_dims_t wd = {l->out, l->in};
        struct onednn_layout_own plain = {0};

        status = onednn_layout_make(&plain, 2, wd, dnnl_f32, dnnl_ab);
        rc = status != dnnl_success
                 ? host_dnn(err, status, "describing weights")
                 : host_pack(h, pd, onednn_layout_of(&plain), l->source, &l->w_memory, &l->w, err);
        onednn_layout_free(&plain);
    }
    if (rc == 0)
        rc = host_scratch(h, pd, 0, &end, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_src_md, DNNL_MEMORY_NONE, &d->x, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_dst_md, DNNL_MEMORY_NONE, &d->y, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_scratchpad_md, DNNL_MEMORY_NONE, &d->scratch, err);
    if (rc == 0 && !l->bias_memory)
        rc = host_memory(h, pd, dnnl_query_weights_md, l->bias, &l->bias_memory, err);
    if (rc == 0) {
        status = dnnl_primitive_create(&d->primitive, pd);
        if (status != dnnl_success)
            rc = host_dnn(err, status, "compiling a matrix product");
    }
    dnnl_primitive_desc_destroy(pd);
    if (rc != 0)
        wide_free(d);
    return rc;
}

static int linear_new_wide(struct host *h, struct linear *l, int64_t rows, const float *w,
                           const float *bias, struct err *err)
{
    void *p = NULL;
    int rc = host_alloc(&h->base, (size_t)l->out * sizeof(float), &p, err);

    if (rc != 0)
        return rc;
    l->bias = p;
    if (bias)
        memcpy(l->bias, bias, (size_t)l->out * sizeof(float));
    omp_set_num_threads(h->threads);
    l->source = w;
    l->wide[0] = (struct wide){.epilogue = EPILOGUE_NONE, .y_type = l->type, .rows = rows};
    rc = wide_new(h, l, &l->wide[0], err);
    l->wides = rc == 0;
    l->source = NULL;
    return rc;
}

int host_linear_new(struct backend *be, enum precision precision, enum linear_use use, int64_t rows,
                    int64_t out, int64_t in, const float *w, const float *bias, struct linear **ret,
                    struct err *err)
{
    struct host *h = host_of(be);
    enum dtype type;
    struct linear *l;
    int rc = backend_precision(be, precision, &precision, err);

    if (rc != 0)
        return rc;
    type = precision_type(precision);
    if (rows <= 0 || out <= 0 || in <= 0 || in % 2 != 0)
        return host_shape(err, "linear_new");
    l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    *l = (struct linear){.type = type, .use = use, .out = out, .in = in};
    if (precision_weight_bytes(precision) == 1)
        rc = host_int_weights_new(be, 1, out, in, w, bias, &l->ints, err);
    else if (precision == PRECISION_INT16 && use == LINEAR_WIDE)
        rc = host_int_weights_new(be, 2, out, in, w, bias, &l->ints, err);
    else if (use == LINEAR_ROWS)
        rc = host_rows_new(be, type, true, out, in, w, bias, &l->rows, err);
    else
        rc = linear_new_wide(h, l, rows, w, bias, err);
    if (rc != 0) {
        host_linear_free(be, l);
        return rc;
    }
    *ret = l;
    return 0;
}

void host_linear_free(struct backend *be, struct linear *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->wides; i++)
        wide_free(&l->wide[i]);
    if (l->w_memory)
        dnnl_memory_destroy(l->w_memory);
    if (l->bias_memory)
        dnnl_memory_destroy(l->bias_memory);
    host_int_weights_free(be, &l->ints);
    host_rows_free(be, &l->rows);
    host_release(be, l->w);
    host_release(be, l->bias);
    free(l);
}

/* The prepared product of this kind; the oldest gives way when there are too many. */
static int wide_find(struct host *h, struct linear *l, int64_t rows, enum epilogue epilogue,
                     enum dtype y_type, struct wide **ret, struct err *err)
{
    struct wide d = {.epilogue = epilogue, .y_type = y_type, .rows = rows};
    int rc;

    for (int i = 0; i < l->wides; i++) {
        if (l->wide[i].epilogue == epilogue && l->wide[i].y_type == y_type &&
            l->wide[i].rows == rows) {
            *ret = &l->wide[i];
            return 0;
        }
    }
    rc = wide_new(h, l, &d, err);
    if (rc != 0)
        return rc;
    if (l->wides == WIDE_MAX) {
        wide_free(&l->wide[0]);
        memmove(&l->wide[0], &l->wide[1], (WIDE_MAX - 1) * sizeof(d));
        l->wides--;
    }
    l->wide[l->wides] = d;
    *ret = &l->wide[l->wides++];
    return 0;
}

static int run_wide(struct host *h, struct linear *l, struct tensor x, enum epilogue epilogue,
                    struct tensor y, struct err *err)
{
    struct wide *d;
    dnnl_status_t status;
    int rc;

    if (x.stride != x.cols || y.stride != y.cols)
        return host_shape(err, "a wide linear");
    rc = wide_find(h, l, x.rows, epilogue, y.type, &d, err);
    if (rc != 0 || h->base.rehearsing)
        return rc;
    dnnl_memory_set_data_handle(d->x, x.data);
    dnnl_memory_set_data_handle(d->y, y.data);
    dnnl_memory_set_data_handle(d->scratch, h->scratch);
    {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, d->x},
                                  {DNNL_ARG_WEIGHTS, l->w_memory},
                                  {DNNL_ARG_BIAS, l->bias_memory},
                                  {DNNL_ARG_DST, d->y},
                                  {DNNL_ARG_SCRATCHPAD, d->scratch}};

        status = dnnl_primitive_execute(d->primitive, h->stream, 5, args);
    }
    if (status == dnnl_success)
        status = dnnl_stream_wait(h->stream);
    return status == dnnl_success ? 0 : host_dnn(err, status, "multiplying matrices");
}

static void run_rows(struct host *h, const struct linear *l, struct tensor x,
                     enum epilogue epilogue, struct tensor y)
{
    int64_t blocks = host_rows_blocks(&l->rows);

#pragma omp parallel for schedule(dynamic, 4) \
    num_threads(host_threads(h, (size_t)(l->out * l->in) * dtype_size(l->type)))
    for (int64_t b = 0; b < blocks; b++)
        host_rows_block(h, &l->rows, b, x, epilogue, y);
}

int host_linear(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                struct tensor y, struct err *err)
{
    struct host *h = host_of(be);

    if (x.cols != l->in || y.cols != l->out || x.rows != y.rows || x.rows < 1 ||
        x.type != l->type || (y.type != DTYPE_F32 && y.type != l->type) ||
        epilogue == EPILOGUE_ADD_RELU)
        return host_shape(err, "linear");
    omp_set_num_threads(h->threads);
    if (l->ints.w)
        return host_linear_int(h, &l->ints, x, epilogue, y, err);
    if (l->use == LINEAR_WIDE)
        return run_wide(h, l, x, epilogue, y, err);
    if (!be->rehearsing)
        run_rows(h, l, x, epilogue, y);
    return 0;
}
