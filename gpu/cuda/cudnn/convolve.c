/* Convolutions of float32 and float16 by cuDNN, channels last: the image goes in as it lies, and
 * nothing is copied out for it. The same kernel does the epilogue:
 *
 *   NONE, RELU     y = r + bias, max(r + bias, 0)  one graph of the convolution and up to two more
 *   ADD, ADD_RELU  y = y + r                       the convolution's own beta, in place; a graph
 *                                                  that adds another tensor may use y for itself
 *                                                  before it has read it
 *
 * Bias and ReLU behind a sum are one kernel of ours; GELU is another.
 *
 * cuDNN's engines are told apart by what they say about their numbers: in float32 none is taken
 * that goes through tensor cores (they round to 10 bits of fraction), in another type, or by
 * Winograd's or Fourier's way round; in TF32 the first two become welcome, but not another type.
 * In float16 all that is in memory is of that type, and sums, with bias and ReLU, are float32 until
 * they are written. A graph's bias, too: with one of float32 cuDNN has but kernels that it compiles
 * for each shape. The bias behind a sum is float32, but is added to what was rounded. An engine
 * that sums in 16 bits is not taken, nor one that goes a way round: what that makes of an image
 * need not fit into 16 bits.
 *
 * The first proposal among the remaining engines is taken, or, for a shape that is met first in a
 * rehearsal, the fastest of the first TIMED; only the largest piece is timed. The first may be far
 * off: for SincNet's layers on an H100 it was one that reaches a quarter of the card's float32.
 *
 * Images go in pieces of a power of two, so that few sizes are ever prepared: all of them up to the
 * largest when a shape is met for the first time, which a model does when it is loaded. A piece's
 * images and results together are at most PIECE_BYTES, and so is about what an engine copies of
 * them into its workspace: on an A100 and an L4 most of TF32's do. */
#include "gpu/cuda/cudnn/graph.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"

#if NIGHTSHIFT_CUDNN

#define PLANS_MAX 512 /* then all are made again */
#define PIECE_BYTES ((int64_t)256 << 20)
#define WORKSPACE_BYTES ((size_t)320 << 20) /* of an engine, at most */
#define TIMED 8                             /* engines, as many as a product's algorithms */

enum { UID_X = 1, UID_W, UID_BIAS, UID_Y, UID_SUM, UID_BIASED };

/* A plan depends on these values. Zeroed as a whole, and compared as bytes. */
struct convolve_key {
    int64_t images, height, width, out_height, out_width, in, out;
    uint32_t kernel_h, kernel_w, stride_h, stride_w, top, bottom, left, right;
    int32_t tf32, half, add, biased, relu, x_align, y_align;
};

struct convolve_plan {
    struct convolve_key key;
    struct graph_plan run;
};

bool cuda_convolves(const struct cuda *c, const struct conv2d_spec *spec, enum precision precision)
{
    return c->dnn && !c->deterministic && !spec->depthwise &&
           (precision == PRECISION_F32 || precision == PRECISION_TF32 ||
            precision == PRECISION_F16);
}

static void free_plans(struct cuda *c)
{
    for (size_t i = 0; i < c->convolve_count; i++) {
        graph_plan_free(c, &c->convolve[i]->run);
        free(c->convolve[i]);
    }
    c->convolve_count = 0;
}

void cuda_convolve_free(struct cuda *c)
{
    free_plans(c);
    free(c->convolve);
    c->convolve = NULL;
}

static int64_t number_bytes(const struct convolve_key *k) { return k->half ? 2 : 4; }

/* --- the graph ----------------------------------------------------------------------------- */

/* Values between operations are float32. */
static cudnnDataType_t type_of(const struct convolve_key *k, int64_t uid)
{
    return k->half && uid < UID_SUM ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* [n][channels][h][w] that lies channels last. */
static cudnnStatus_t make_tensor(struct cuda *c, struct graph *g, const struct convolve_key *k,
                                 int64_t uid, int64_t n, int64_t channels, int64_t h, int64_t w,
                                 int64_t alignment, cudnnBackendDescriptor_t *ret)
{
    const struct graph_tensor t = {.uid = uid,
                                   .type = type_of(k, uid),
                                   .kind = uid >= UID_SUM ? GRAPH_INNER : GRAPH_DATA,
                                   .dims = {n, channels, h, w},
                                   .strides = {channels * h * w, 1, w * channels, channels},
                                   .alignment = alignment};

    return graph_tensor(c, g, &t, ret);
}

static cudnnStatus_t make_geometry(struct cuda *c, struct graph *g, const struct convolve_key *k,
                                   cudnnBackendDescriptor_t *ret)
{
    const int64_t dimensions = 2, ones[2] = {1, 1}, strides[2] = {k->stride_h, k->stride_w};
    const int64_t before[2] = {k->top, k->left}, after[2] = {k->bottom, k->right};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        int64_t count;
        const void *values;
    } all[] = {
        {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after},
    };
    cudnnStatus_t s = graph_make(c, g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, ret);

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && s == CUDNN_STATUS_SUCCESS; i++)
        s = graph_set(c, *ret, all[i].name, all[i].type, all[i].count, all[i].values);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(*ret) : s;
}

/* y = x * w, or y + x * w. */
static cudnnStatus_t make_convolution(struct cuda *c, struct graph *g, const struct convolve_key *k,
                                      cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                      cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t *ret)
{
    const float alpha = 1.0f, beta = k->add ? 1.0f : 0.0f;
    cudnnBackendDescriptor_t geometry = NULL;
    cudnnStatus_t s = make_geometry(c, g, k, &geometry);
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        const void *value;
    } all[] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
         &geometry},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, &x},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, &w},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, &y},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, &alpha},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, &beta},
    };

    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_make(c, g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, ret);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && s == CUDNN_STATUS_SUCCESS; i++)
        s = graph_set(c, *ret, all[i].name, all[i].type, 1, all[i].value);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(*ret) : s;
}

/* y = x + b, or max(x, 0) where b is NULL; a NaN stays one. */
static cudnnStatus_t make_pointwise(struct cuda *c, struct graph *g, cudnnBackendDescriptor_t x,
                                    cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y,
                                    cudnnBackendDescriptor_t *ret)
{
    const cudnnPointwiseMode_t mode = b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    cudnnBackendDescriptor_t what = NULL;
    cudnnStatus_t s = graph_make(c, g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &what);

    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (s == CUDNN_STATUS_SUCCESS && !b)
        s = graph_set(c, what, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1,
                      &nan);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(what);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_make(c, g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, ret);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      1, &x);
    if (s == CUDNN_STATUS_SUCCESS && b)
        s = graph_set(c, *ret, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      1, &b);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      1, &y);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(*ret) : s;
}

/* A tensor of the results' shape. */
static cudnnStatus_t make_result(struct cuda *c, struct graph *g, const struct convolve_key *k,
                                 int64_t uid, cudnnBackendDescriptor_t *ret)
{
    return make_tensor(c, g, k, uid, k->images, k->out, k->out_height, k->out_width, k->y_align,
                       ret);
}

/* The convolution, the bias, ReLU: each hands over to the next, the last writes y. */
static cudnnStatus_t make_operations(struct cuda *c, struct graph *g, const struct convolve_key *k,
                                     cudnnBackendDescriptor_t operations[3], int *count)
{
    cudnnBackendDescriptor_t x = NULL, w = NULL, bias = NULL, from = NULL, to = NULL;
    cudnnStatus_t s;

    s = make_tensor(c, g, k, UID_X, k->images, k->in, k->height, k->width, k->x_align, &x);
    if (s == CUDNN_STATUS_SUCCESS)
        s = make_tensor(c, g, k, UID_W, k->out, k->in, k->kernel_h, k->kernel_w, GRAPH_ALIGNMENT,
                        &w);
    if (s == CUDNN_STATUS_SUCCESS)
        s = make_result(c, g, k, k->biased || k->relu ? UID_SUM : UID_Y, &to);
    if (s == CUDNN_STATUS_SUCCESS)
        s = make_convolution(c, g, k, x, w, to, &operations[(*count)++]);
    if (s == CUDNN_STATUS_SUCCESS && k->biased) {
        from = to;
        s = make_tensor(c, g, k, UID_BIAS, 1, k->out, 1, 1, GRAPH_ALIGNMENT, &bias);
        if (s == CUDNN_STATUS_SUCCESS)
            s = make_result(c, g, k, k->relu ? UID_BIASED : UID_Y, &to);
        if (s == CUDNN_STATUS_SUCCESS)
            s = make_pointwise(c, g, from, bias, to, &operations[(*count)++]);
    }
    if (s == CUDNN_STATUS_SUCCESS && k->relu) {
        from = to;
        s = make_result(c, g, k, UID_Y, &to);
        if (s == CUDNN_STATUS_SUCCESS)
            s = make_pointwise(c, g, from, NULL, to, &operations[(*count)++]);
    }
    return s;
}

/* --- plans --------------------------------------------------------------------------------- */

/* One run of a plan: the first images of a convolution. */
struct piece {
    struct cuda *c;
    const struct convolution *v;
    const struct convolve_key *key;
    const struct graph_plan *plan;
    int64_t first; /* image */
};

static int run_piece(void *arg, struct err *err)
{
    static const int64_t uids[] = {UID_X, UID_W, UID_Y, UID_BIAS};
    const struct piece *p = arg;
    const struct convolve_key *k = p->key;
    int64_t x_at = p->first * k->height * k->width * k->in;
    int64_t y_at = p->first * k->out_height * k->out_width * k->out;
    int64_t size = number_bytes(k);
    void *const data[] = {(char *)p->v->x + x_at * size, p->v->w, (char *)p->v->y + y_at * size,
                          p->v->dense_bias};

    return graph_run(p->c, p->plan, uids, data, k->biased ? 4 : 3, "convolving", err);
}

/* *best, which will do, gives way to the fastest of those that are timed, the first proposal among
 * them unless it goes a way round in TF32. A plan that does not run is no candidate. */
static void take_fastest(struct cuda *c, struct graph *g,
                         const cudnnBackendDescriptor_t *operations, int count,
                         struct graph_wish wish, const struct convolve_key *key,
                         const struct convolution *v, struct graph_plan *best)
{
    struct piece piece = {.c = c, .v = v, .key = key};
    struct graph_plan plans[TIMED];
    int n, fastest = -1;
    float ms = 0.0f, least = 0.0f, first = 0.0f;
    struct err ignored;

    /* TF32 is what was asked for, and not what another way round makes of it. */
    wish.without |= 1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD;
    n = graph_plans(c, g, operations, count, wish, plans, TIMED);
    for (int i = 0; i < n; i++) {
        piece.plan = &plans[i];
        if (cuda_time(c, run_piece, &piece, &ms, &ignored) != 0) {
            (void)cudaGetLastError(); /* not the next one's */
            continue;
        }
        if (fastest < 0)
            first = ms;
        if (fastest < 0 || (ms < least && ms < first * CUDA_CLEARLY)) {
            least = ms;
            fastest = i;
        }
    }
    for (int i = 0; i < n; i++) {
        if (i == fastest) {
            graph_plan_free(c, best);
            *best = plans[i];
        } else {
            graph_plan_free(c, &plans[i]);
        }
    }
}

/* timed: what its engines are timed on; NULL: they are not. */
static int prepare_convolve_plan(struct cuda *c, struct convolve_plan *p,
                                 const struct convolution *timed, struct err *err)
{
    const unsigned other = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                           1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    const unsigned around = 1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD;
    const unsigned rounded = 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    const struct graph_wish wish = {.without = p->key.tf32   ? other
                                               : p->key.half ? other | around
                                                             : other | around | rounded,
                                    .most_bytes = WORKSPACE_BYTES,
                                    .engines = GRAPH_ENGINES};
    struct graph g = {.count = 0};
    cudnnBackendDescriptor_t operations[3] = {NULL};
    int count = 0, rc;
    cudnnStatus_t s = make_operations(c, &g, &p->key, operations, &count);

    rc = graph_plan(c, &g, s, operations, count, wish, &p->run, c->convolve_reason,
                    sizeof(c->convolve_reason), "preparing a convolution", err);
    if (rc == 0 && p->run.plan && timed)
        take_fastest(c, &g, operations, count, wish, &p->key, timed, &p->run);
    graph_free(c, &g);
    return rc;
}

static struct convolve_plan *find_convolve_plan(const struct cuda *c,
                                                const struct convolve_key *key)
{
    for (size_t i = 0; i < c->convolve_count; i++)
        if (memcmp(&c->convolve[i]->key, key, sizeof(*key)) == 0)
            return c->convolve[i];
    return NULL;
}

/* *ret stays until the next one is made. timed: as of prepare. */
static int make_convolve_plan(struct cuda *c, const struct convolve_key *key,
                              const struct convolution *timed, struct convolve_plan **ret,
                              struct err *err)
{
    struct convolve_plan *p;
    int rc;

    if (!c->convolve)
        c->convolve = calloc(PLANS_MAX, sizeof(*c->convolve));
    p = c->convolve ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return err_set(err, ERR_NOMEM, "out of memory for a convolution");
    if (c->convolve_count == PLANS_MAX)
        free_plans(c);
    p->key = *key;
    rc = prepare_convolve_plan(c, p, timed, err);
    if (rc != 0) {
        free(p);
        return rc;
    }
    c->convolve[c->convolve_count++] = p;
    *ret = p;
    return 0;
}

/* A shape that is new is prepared for every smaller piece too. */
static int find_or_make_plan(struct cuda *c, const struct convolve_key *key,
                             const struct convolution *v, struct convolve_plan **ret,
                             struct err *err)
{
    struct convolve_key k = *key;
    int rc = 0;

    *ret = find_convolve_plan(c, key);
    if (*ret)
        return 0;
    for (k.images = 1; k.images <= key->images && rc == 0; k.images *= 2) {
        *ret = find_convolve_plan(c, &k);
        if (!*ret)
            rc =
                make_convolve_plan(c, &k, v->timed && k.images == key->images ? v : NULL, ret, err);
    }
    return rc;
}

/* --- running ------------------------------------------------------------------------------- */

/* Bytes that every pointer into a piece is a multiple of: 16, 8, 4 or 2. */
static int32_t alignment_of(const void *p, int64_t image_bytes)
{
    uintptr_t at = (uintptr_t)p | (uintptr_t)image_bytes;

    return at % 16 == 0 ? 16 : at % 8 == 0 ? 8 : at % 4 == 0 ? 4 : 2;
}

static struct convolve_key key_of(const struct convolution *v)
{
    const struct conv2d_spec *s = v->spec;
    bool add = epilogue_adds(v->epilogue);
    struct convolve_key k;

    memset(&k, 0, sizeof(k));
    k = (struct convolve_key){
        .height = v->height,
        .width = v->width,
        .out_height = v->out_height,
        .out_width = v->out_width,
        .in = s->in,
        .out = s->out,
        .kernel_h = s->kernel_h,
        .kernel_w = s->kernel_w,
        .stride_h = s->stride_h,
        .stride_w = s->stride_w,
        .top = s->top,
        .bottom = s->bottom,
        .left = s->left,
        .right = s->right,
        .tf32 = v->precision == PRECISION_TF32,
        .half = v->precision == PRECISION_F16,
        .add = add,
        .biased = v->bias && !add,
        .relu = v->epilogue == EPILOGUE_RELU,
    };
    k.x_align = alignment_of(v->x, v->height * v->width * s->in * number_bytes(&k));
    k.y_align = alignment_of(v->y, v->out_height * v->out_width * s->out * number_bytes(&k));
    return k;
}

/* Images of the largest piece: a power of two. */
static int64_t piece_of(const struct convolve_key *k, int64_t images)
{
    int64_t each =
        (k->height * k->width * k->in + k->out_height * k->out_width * k->out) * number_bytes(k);
    int64_t piece = 1;

    while (2 * piece <= images && 2 * piece * each <= PIECE_BYTES)
        piece *= 2;
    return piece;
}

/* Applies the rest of bias and epilogue that the graph does not do. */
static int apply_remaining_epilogue(struct cuda *c, const struct convolution *v, struct err *err)
{
    struct tensor y = tensor_of(precision_type(v->precision), v->y,
                                v->images * v->out_height * v->out_width, v->spec->out);

    if (v->epilogue == EPILOGUE_GELU)
        return cuda_status(err, k_epilogue(c->work, y, NULL, EPILOGUE_GELU, y), "GELU");
    if (v->epilogue == EPILOGUE_ADD_RELU)
        return cuda_status(err, k_epilogue(c->work, y, v->bias, EPILOGUE_RELU, y),
                           "adding the bias");
    if (v->epilogue == EPILOGUE_ADD && v->bias)
        return cuda_status(err, k_epilogue(c->work, y, v->bias, EPILOGUE_NONE, y),
                           "adding the bias");
    return 0;
}

/* Whether cuDNN has a plan for each piece; ERR_EMPTY: not for all. */
static int find_all(struct cuda *c, struct convolve_key k, const struct convolution *v,
                    struct err *err)
{
    int64_t images = v->images;
    struct convolve_plan *p = NULL;
    int rc = 0;

    for (; rc == 0 && images > 0; images %= k.images) {
        while (k.images > images)
            k.images /= 2;
        rc = find_or_make_plan(c, &k, v, &p, err);
        if (rc == 0 && !p->run.plan)
            return ERR_EMPTY;
    }
    return rc;
}

int cuda_convolve(struct cuda *c, const struct convolution *v, struct err *err)
{
    struct convolve_key k = key_of(v);
    struct piece piece = {.c = c, .v = v, .key = &k};
    int rc;

    k.images = piece_of(&k, v->images);
    rc = find_all(c, k, v, err);
    for (; rc == 0 && piece.first < v->images; piece.first += k.images) {
        struct convolve_plan *p = NULL;

        while (k.images > v->images - piece.first)
            k.images /= 2;
        rc = find_or_make_plan(c, &k, v, &p, err);
        if (rc != 0)
            break;
        piece.plan = &p->run;
        rc = run_piece(&piece, err);
    }
    return rc == 0 ? apply_remaining_epilogue(c, v, err) : rc;
}

#else

bool cuda_convolves(const struct cuda *c, const struct conv2d_spec *spec, enum precision precision)
{
    (void)c;
    (void)spec;
    (void)precision;
    return false;
}

int cuda_convolve(struct cuda *c, const struct convolution *v, struct err *err)
{
    (void)c;
    (void)v;
    (void)err;
    return ERR_EMPTY;
}

#endif
