/* Images by oneDNN's convolution, one after the other, so that an image's result does not depend on
 * the others. Primitives are prepared at an image's own size, or a piece's, and kept; so are the
 * weights, packed in the layout that oneDNN asks for; from then on they are had back out of that.
 */
#include "gpu/host/images.h"

#define PIECE 256 /* rows that are gathered at once, so that they stay in a core's cache */

static dnnl_data_type_t dnn_type(enum dtype type)
{
    return type == DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

static void free_prepared_image(struct backend *be, const struct conv2d *c,
                                struct prepared_image *p)
{
    dnnl_memory_t memories[] = {p->x, p->y, p->bias, p->scratch,
                                p->w_memory == c->w_memory ? NULL : p->w_memory};

    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    host_release(be, p->w);
    *p = (struct prepared_image){0};
}

void images_forget(struct backend *be, struct conv2d *c)
{
    while (c->count > 0)
        free_prepared_image(be, c, &c->prepared[--c->count]);
    if (c->w_memory)
        dnnl_memory_destroy(c->w_memory);
    c->w_memory = NULL;
    host_release(be, c->w);
    c->w = NULL;
}

/* A gathered one has a kernel of one, over rows of all that an output sees. */
static struct conv2d_spec spec_of(const struct conv2d *c)
{
    struct conv2d_spec s = c->spec;

    if (images_gathered(&c->spec))
        s = (struct conv2d_spec){.in = s.in * s.kernel_w,
                                 .out = s.out,
                                 .kernel_h = 1,
                                 .kernel_w = 1,
                                 .stride_h = 1,
                                 .stride_w = 1};
    return s;
}

/* *ret NULL: oneDNN has nothing for it. */
static int describe_convolution(struct host *h, const struct images *j, dnnl_primitive_desc_t *ret,
                                struct err *err)
{
    const struct conv2d_spec own = spec_of(j->c), *s = &own;
    dnnl_dims_t xd = {1, s->in, j->height, j->width};
    dnnl_dims_t wd = {s->out, s->in, s->kernel_h, s->kernel_w}, bd = {s->out};
    dnnl_dims_t yd = {1, s->out, j->out_height, j->out_width};
    dnnl_dims_t stride = {s->stride_h, s->stride_w}, before = {s->top, s->left};
    dnnl_dims_t after = {s->bottom, s->right};
    struct onednn_layout_own x = {0}, w = {0}, b = {0}, y = {0};
    struct onednn_operands o;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status;
    int rc = host_attribute(j->epilogue, &attr, err);

    if (rc != 0)
        return rc;
    status = onednn_layout_make(&x, 4, xd, dnn_type(j->c->type), dnnl_nhwc);
    if (status == dnnl_success)
        status = onednn_layout_make(&y, 4, yd, dnn_type(j->y.type), dnnl_nhwc);
    if (status == dnnl_success)
        status = onednn_layout_make(&w, 4, wd, dnn_type(j->c->type), dnnl_format_tag_any);
    if (status == dnnl_success)
        status = onednn_layout_make(&b, 1, bd, dnnl_f32, dnnl_a);
    if (status == dnnl_success) {
        o = (struct onednn_operands){onednn_layout_of(&x), onednn_layout_of(&w),
                                     onednn_layout_of(&b), onednn_layout_of(&y)};
        status = onednn_convolution(h->engine, &o, stride, before, after, attr, ret);
    }
    onednn_layout_free(&x);
    onednn_layout_free(&y);
    onednn_layout_free(&w);
    onednn_layout_free(&b);
    dnnl_primitive_attr_destroy(attr);
    if (status == dnnl_unimplemented) {
        *ret = NULL;
        return 0;
    }
    return status == dnnl_success ? 0 : host_dnn(err, status, "preparing a convolution");
}

static int plain_weights(const struct conv2d *c, struct onednn_layout_own *ret, struct err *err)
{
    const struct conv2d_spec s = spec_of(c);
    dnnl_dims_t wd = {s.out, s.in, s.kernel_h, s.kernel_w};
    dnnl_status_t status = onednn_layout_make(ret, 4, wd, dnnl_f32, dnnl_ohwi);

    return status == dnnl_success ? 0 : host_dnn(err, status, "describing weights");
}

int images_unpack(struct host *h, const struct conv2d *c, float *to, struct err *err)
{
    struct onednn_layout_own plain = {0};
    onednn_layout packed = NULL;
    int rc = plain_weights(c, &plain, err);

    if (rc == 0) {
        dnnl_memory_get_memory_desc(c->w_memory, &packed);
        rc = host_reorder(h, packed, c->w, onednn_layout_of(&plain), to, NULL, err);
    }
    onednn_layout_free(&plain);
    return rc;
}

/* Packs the weights for the first time, as pd wants them. */
static int pack_first(struct host *h, struct conv2d *c, const_dnnl_primitive_desc_t pd,
                      struct err *err)
{
    struct onednn_layout_own plain = {0};
    int rc = plain_weights(c, &plain, err);

    if (rc == 0)
        rc = host_pack(h, pd, onednn_layout_of(&plain), c->source, &c->w_memory, &c->w, err);
    onednn_layout_free(&plain);
    if (rc != 0)
        return rc;
    host_release(&h->base, c->source);
    c->source = NULL;
    return 0;
}

/* The weights in the layout of pd: those that are packed already, when they are the same. */
static int pack_conv_weights(struct host *h, struct conv2d *c, const_dnnl_primitive_desc_t pd,
                             struct prepared_image *p, struct err *err)
{
    const onednn_layout wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    onednn_layout packed = NULL;
    int rc = c->w_memory ? 0 : pack_first(h, c, pd, err);

    if (rc != 0)
        return rc;
    dnnl_memory_get_memory_desc(c->w_memory, &packed);
    if (!dnnl_memory_desc_equal(packed, wanted))
        return host_pack(h, pd, packed, c->w, &p->w_memory, &p->w, err);
    p->w_memory = c->w_memory;
    return 0;
}

static size_t gathered_bytes(const struct images *j)
{
    const struct conv2d_spec *s = &j->c->spec;

    return images_gathered(s) ? (size_t)(j->width * s->in * s->kernel_w) * dtype_size(j->c->type)
                              : 0;
}

static bool is_slow(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";

    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "ref", 3) == 0;
}

static int prepare_convolution(struct host *h, const struct images *j, struct prepared_image *p,
                               struct err *err)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status;
    int rc = describe_convolution(h, j, &pd, err);

    if (rc != 0)
        return rc;
    p->slow = !pd || is_slow(pd);
    if (p->slow)
        goto out;
    rc = pack_conv_weights(h, j->c, pd, p, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_src_md, DNNL_MEMORY_NONE, &p->x, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_dst_md, DNNL_MEMORY_NONE, &p->y, err);
    if (rc == 0)
        rc = host_memory(h, pd, dnnl_query_scratchpad_md, DNNL_MEMORY_NONE, &p->scratch, err);
    if (rc == 0)
        rc = host_scratch(h, pd, gathered_bytes(j), &p->gathered, err);
    if (rc == 0) {
        const onednn_layout bias = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1);

        status = dnnl_memory_create(&p->bias, bias, h->engine, j->c->bias);
        if (status == dnnl_success)
            status = dnnl_primitive_create(&p->primitive, pd);
        if (status != dnnl_success)
            rc = host_dnn(err, status, "compiling a convolution");
    }
out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (rc != 0)
        free_prepared_image(&h->base, j->c, p);
    return rc;
}

/* Finds or prepares the shape of this call. A new one replaces the oldest if there are too many. */
static int find_or_prepare_image(struct host *h, const struct images *j,
                                 struct prepared_image **ret, struct err *err)
{
    struct prepared_image p = {
        .height = j->height, .width = j->width, .epilogue = j->epilogue, .y_type = j->y.type};
    struct conv2d *c = j->c;
    int rc;

    for (int i = 0; i < c->count; i++) {
        *ret = &c->prepared[i];
        if ((*ret)->height == j->height && (*ret)->width == j->width &&
            (*ret)->epilogue == j->epilogue && (*ret)->y_type == j->y.type)
            return 0;
    }
    rc = prepare_convolution(h, j, &p, err);
    if (rc != 0)
        return rc;
    if (c->count == IMAGES_PREPARED) {
        free_prepared_image(&h->base, c, &c->prepared[0]);
        memmove(&c->prepared[0], &c->prepared[1], (IMAGES_PREPARED - 1) * sizeof(p));
        c->count--;
    }
    c->prepared[c->count] = p;
    *ret = &c->prepared[c->count++];
    return 0;
}

static int execute_primitive(struct host *h, const struct prepared_image *p, void *x, void *y,
                             struct err *err)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, p->x},
                              {DNNL_ARG_WEIGHTS, p->w_memory},
                              {DNNL_ARG_BIAS, p->bias},
                              {DNNL_ARG_DST, p->y},
                              {DNNL_ARG_SCRATCHPAD, p->scratch}};
    dnnl_status_t status;

    dnnl_memory_set_data_handle(p->x, x);
    dnnl_memory_set_data_handle(p->y, y);
    dnnl_memory_set_data_handle(p->scratch, h->scratch);
    status = dnnl_primitive_execute(p->primitive, h->stream, 5, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(h->stream);
    return status == dnnl_success ? 0 : host_dnn(err, status, "convolving");
}

static int run_whole(struct host *h, const struct images *j, bool *done, struct err *err)
{
    int64_t pixels = j->height * j->width, outputs = j->out_height * j->out_width;
    struct prepared_image *p;
    int rc = find_or_prepare_image(h, j, &p, err);

    if (rc != 0)
        return rc;
    *done = !p->slow;
    for (int64_t i = 0; rc == 0 && *done && !h->base.rehearsing && i < j->count; i++)
        rc = execute_primitive(h, p, tensor_rows(j->x, i * pixels, pixels).data,
                               tensor_rows(j->y, i * outputs, outputs).data, err);
    return rc;
}

/* A piece of a gathered image, as find and what is below it have it. */
static struct images piece_of(const struct images *j, int64_t rows)
{
    struct images piece = *j;

    piece.height = piece.out_height = 1;
    piece.width = piece.out_width = rows;
    return piece;
}

/* *done: there is a fast way for pieces of so many rows, or there are none. */
static int look_for(struct host *h, const struct images *j, int64_t rows, bool *done,
                    struct err *err)
{
    const struct images piece = piece_of(j, rows);
    struct prepared_image *p;
    int rc = rows > 0 ? find_or_prepare_image(h, &piece, &p, err) : 0;

    *done = rc == 0 && (rows == 0 || !p->slow);
    return rc;
}

static int run_piece(struct host *h, const struct images *j, int64_t first, int64_t rows,
                     struct err *err)
{
    const struct images piece = piece_of(j, rows);
    const size_t bytes = gathered_bytes(&piece), row = bytes / (size_t)rows;
    struct prepared_image *p;
    char *to;
    int rc = find_or_prepare_image(h, &piece, &p, err);

    if (rc != 0)
        return rc;
    to = (char *)h->scratch + p->gathered;
#pragma omp parallel for schedule(static) num_threads(host_threads(h, bytes))
    for (int64_t r = 0; r < rows; r++)
        images_gather(j, first + r, to + (size_t)r * row);
    return execute_primitive(h, p, to, tensor_rows(j->y, first, rows).data, err);
}

static int run_pieces(struct host *h, const struct images *j, bool *done, struct err *err)
{
    int64_t outputs = j->out_height * j->out_width, rest = outputs % PIECE;
    int rc = look_for(h, j, outputs < PIECE ? 0 : PIECE, done, err);

    if (rc == 0 && *done)
        rc = look_for(h, j, rest, done, err);
    if (!*done || h->base.rehearsing)
        return rc;
    for (int64_t i = 0; rc == 0 && i < j->count; i++)
        for (int64_t at = 0; rc == 0 && at < outputs; at += PIECE)
            rc = run_piece(h, j, i * outputs + at, outputs - at < PIECE ? rest : PIECE, err);
    return rc;
}

int images_by_dnn(struct host *h, const struct images *j, bool *done, struct err *err)
{
    int rc =
        images_gathered(&j->c->spec) ? run_pieces(h, j, done, err) : run_whole(h, j, done, err);

    if (rc == 0 && *done && !h->base.rehearsing &&
        j->epilogue == EPILOGUE_ADD_RELU) /* oneDNN's makes 0 of a NaN */
        rc = host_activate(&h->base, ACTIVATION_RELU, j->y, j->y, err);
    return rc;
}
