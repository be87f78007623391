/* ask_cudnn CARD.json [build] - which engines the real cuDNN 9 proposes for the attentions and
 * convolutions of a file of questions (standard input: emulator/machine.h), on a card that need not
 * be here.
 *
 * cuDNN takes a card's description instead of a device (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION),
 * for which a stub of libcuda is enough. A line for each: the question, then the engines' numbers,
 * best first, or why there are none; with `build` also how long the first plan took that could be
 * compiled. Of a convolution it says which engine gpu/cuda/cudnn/convolve.c would take, with its
 * workspace: of one of float32 in that and in TF32. What is then still missing is loading it into a
 * driver, which fails without one, after it was compiled. Exit status: 0 all have an engine, 1 some
 * have none. */
#include <cudnn.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 8    /* proposals, as gpu/cuda/cudnn/sdpa.c asks for */
#define PLENTY 64 /* and convolve.c */
#define WORKSPACE ((int64_t)320 << 20)

typedef cudnnBackendDescriptor_t desc;

static char why[400]; /* of the first call that failed */

static bool ok(cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return true;
    if (!why[0]) {
        int n = snprintf(why, sizeof(why), "status %d ", (int)status);

        cudnnGetLastErrorString(why + n, sizeof(why) - (size_t)n);
    }
    return false;
}

static bool set(desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t n, const void *value)
{
    return ok(cudnnBackendSetAttribute(d, name, type, n, value));
}

static desc make(cudnnBackendDescriptorType_t type)
{
    desc d = NULL;

    return ok(cudnnBackendCreateDescriptor(type, &d)) ? d : NULL;
}

static desc card(const char *file)
{
    static char json[20000];
    FILE *f = fopen(file, "re");
    size_t n = f ? fread(json, 1, sizeof(json), f) : 0;
    desc d = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);

    if (f)
        fclose(f);
    if (n == 0 || !d ||
        !set(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)n, json) ||
        !ok(cudnnBackendFinalize(d)))
        return NULL;
    return d;
}

static desc tensor(int64_t id, cudnnDataType_t type, const int64_t *dims, const int64_t *strides,
                   bool by_value)
{
    desc d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = 16;

    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (by_value)
        set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    ok(cudnnBackendFinalize(d));
    return d;
}

/* The same graph as gpu/cuda/cudnn/sdpa.c makes. strides: of q, k, v, out. */
static desc graph_of(cudnnDataType_t type, const int64_t *dims, const int64_t (*strides)[4])
{
    static const cudnnBackendAttributeName_t parts[] = {
        CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
        CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
        CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC};
    const int64_t one[4] = {1, 1, 1, 1};
    desc op = make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    desc graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

    for (int i = 0; i < 5; i++) {
        desc t = i < 4 ? tensor(i + 1, type, dims, strides[i], false)
                       : tensor(5, CUDNN_DATA_FLOAT, one, one, true);

        set(op, parts[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t);
    }
    ok(cudnnBackendFinalize(op));
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op);
    ok(cudnnBackendFinalize(graph));
    return graph;
}

static int64_t propose(desc graph, desc properties, int64_t most, desc *configs)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    desc heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;

    set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
    if (why[0] || !ok(cudnnBackendFinalize(heuristic)))
        return 0;
    for (int i = 0; i < most; i++)
        configs[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    ok(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &n, configs));
    return n < most ? n : most;
}

/* Its number; *notes: the bits of what it says about its numbers. */
static int64_t number_of(desc config, unsigned *notes)
{
    cudnnBackendNumericalNote_t said[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    desc engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t n = 0, number = -1;

    ok(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                1, &n, &engine));
    ok(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n,
                                &number));
    ok(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, said));
    *notes = 0;
    for (int64_t i = 0; i < n; i++)
        *notes |= 1u << said[i];
    return number;
}

/* Seconds, and whether it came as far as the driver. */
static void build(desc config, desc properties)
{
    desc plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    struct timespec a, b;

    why[0] = '\0';
    clock_gettime(CLOCK_MONOTONIC, &a);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
    ok(cudnnBackendFinalize(plan));
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf(", compiled in %.1f s%s%.200s",
           (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9,
           why[0] ? ": " : "", why);
    why[0] = '\0';
}

/* Whether there is an engine. */
static bool answer(const char *line, desc properties, bool builds)
{
    int64_t dims[4], strides[4][4], n;
    desc configs[MOST];
    unsigned notes;
    char type[8];
    int at = 0;

    if (sscanf(line, "attention %7s %ld %ld %ld %ld%n", type, &dims[0], &dims[1], &dims[2],
               &dims[3], &at) != 5)
        return false;
    for (int i = 0; i < 16; i++) {
        char *end;

        strides[i / 4][i % 4] = strtoll(line + at, &end, 10);
        at = (int)(end - line);
    }
    why[0] = '\0';
    n = propose(graph_of(strcmp(type, "bf16") == 0 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, dims,
                         (const int64_t(*)[4])strides),
                properties, MOST, configs);
    printf("%s %ld windows, %ld heads of %ld, %ld positions: ", type, (long)dims[0], (long)dims[1],
           (long)dims[3], (long)dims[2]);
    if (n == 0)
        printf("no engine: %s", why[0] ? why : "none is proposed");
    for (int64_t i = 0; i < n; i++)
        printf("%s%ld", i ? ", " : "engines ", (long)number_of(configs[i], &notes));
    if (n > 0 && builds)
        build(configs[0], properties);
    printf("\n");
    return n > 0;
}

/* ---- convolutions: the same graph as gpu/cuda/cudnn/convolve.c makes */

struct question {
    int64_t images, in, height, width, out, kernel[2], stride[2], before[2], after[2], outputs[2];
    int64_t add, biased, relu, x_align, y_align;
    bool half;
};

/* id: 1 x, 2 w, 3 y, 4 bias, more: between two operations. */
static desc image(const struct question *q, int64_t id, int64_t n, int64_t c, int64_t h, int64_t w,
                  int64_t alignment)
{
    const int64_t dims[4] = {n, c, h, w}, strides[4] = {c * h * w, 1, w * c, c};
    const cudnnDataType_t type = q->half && id < 5 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    const bool inner = id > 4;
    desc d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (inner)
        set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inner);
    ok(cudnnBackendFinalize(d));
    return d;
}

static desc convolution(const struct question *q, desc y)
{
    const int64_t two = 2, ones[2] = {1, 1};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const float alpha = 1.0f, beta = (float)q->add;
    desc x = image(q, 1, q->images, q->in, q->height, q->width, q->x_align);
    desc w = image(q, 2, q->out, q->in, q->kernel[0], q->kernel[1], 16);
    desc how = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    desc op = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);

    set(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two);
    set(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    set(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, q->stride);
    set(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, q->before);
    set(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, q->after);
    ok(cudnnBackendFinalize(how));
    set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &how);
    set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
    set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta);
    ok(cudnnBackendFinalize(op));
    return op;
}

/* y = x + b, or ReLU of x. */
static desc pointwise(desc x, desc b, desc y)
{
    const cudnnPointwiseMode_t mode = b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    desc what = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    desc op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    set(what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (!b)
        set(what, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    ok(cudnnBackendFinalize(what));
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    if (b)
        set(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b);
    set(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    ok(cudnnBackendFinalize(op));
    return op;
}

static desc result(const struct question *q, bool last, int64_t inner)
{
    return image(q, last ? 3 : inner, q->images, q->out, q->outputs[0], q->outputs[1], q->y_align);
}

static desc convolution_graph(const struct question *q)
{
    desc graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), ops[3];
    desc from, to = result(q, !q->biased && !q->relu, 5);
    int64_t n = 0;

    ops[n++] = convolution(q, to);
    if (q->biased) {
        from = to;
        to = result(q, !q->relu, 6);
        ops[n++] = pointwise(from, image(q, 4, 1, q->out, 1, 1, 16), to);
    }
    if (q->relu) {
        from = to;
        to = result(q, true, 0);
        ops[n++] = pointwise(from, NULL, to);
    }
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    ok(cudnnBackendFinalize(graph));
    return graph;
}

/* Bytes of workspace of its plan; -1: none can be made. */
static int64_t workspace_of(desc config, desc properties)
{
    desc plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t n = 0, bytes = -1;

    why[0] = '\0';
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
    if (!ok(cudnnBackendFinalize(plan)) ||
        !ok(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &n, &bytes)))
        bytes = -1;
    cudnnBackendDestroyDescriptor(plan);
    return bytes;
}

/* The first that has none of the notes `without`. */
static bool chosen(const desc *configs, int64_t n, desc properties, unsigned without,
                   const char *name)
{
    for (int64_t i = 0; i < n; i++) {
        unsigned notes;
        int64_t number = number_of(configs[i], &notes), bytes;

        if (notes & without)
            continue;
        bytes = workspace_of(configs[i], properties);
        if (bytes < 0 || bytes > WORKSPACE)
            continue;
        printf(" %s: engine %ld, the %ld. of %ld, %ld MiB;", name, (long)number, (long)i + 1,
               (long)n, (long)(bytes >> 20));
        return true;
    }
    printf(" %s: no engine of %ld %s;", name, (long)n, why);
    return false;
}

static bool answer_convolution(const char *line, desc properties)
{
    const unsigned other = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                           1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    const unsigned around = 1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD;
    const unsigned rounded = 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    struct question q;
    char type[8];
    desc configs[PLENTY] = {NULL};
    bool good;
    int64_t n;

    if (sscanf(
            line,
            "convolution %7s %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld "
            "%ld %ld %ld",
            type, &q.images, &q.in, &q.height, &q.width, &q.out, &q.kernel[0], &q.kernel[1],
            &q.stride[0], &q.stride[1], &q.before[0], &q.before[1], &q.after[0], &q.after[1],
            &q.outputs[0], &q.outputs[1], &q.add, &q.biased, &q.relu, &q.x_align, &q.y_align) != 21)
        return false;
    q.half = strcmp(type, "f16") == 0;
    why[0] = '\0';
    n = propose(convolution_graph(&q), properties, PLENTY, configs);
    printf("%ld images %ldx%ldx%ld -> %ld, kernel %ldx%ld, stride %ld%s%s%s:", (long)q.images,
           (long)q.height, (long)q.width, (long)q.in, (long)q.out, (long)q.kernel[0],
           (long)q.kernel[1], (long)q.stride[1], q.add ? ", added" : "", q.biased ? ", bias" : "",
           q.relu ? ", ReLU" : "");
    if (q.half) {
        good = chosen(configs, n, properties, other | around, "fp16");
    } else {
        good = chosen(configs, n, properties, other | around | rounded, "fp32");
        good = chosen(configs, n, properties, other, "tf32") && good;
    }
    for (int i = 0; i < PLENTY; i++)
        if (configs[i])
            cudnnBackendDestroyDescriptor(configs[i]);
    printf("\n");
    return good;
}

int main(int argc, char **argv)
{
    desc properties = argc > 1 ? card(argv[1]) : NULL;
    bool builds = argc > 2 && strcmp(argv[2], "build") == 0, good = true;
    char line[1000];

    if (!properties) {
        fprintf(stderr, "ask_cudnn: no card: %s\n", why[0] ? why : "name its description");
        return 64;
    }
    while (fgets(line, sizeof(line), stdin))
        if (strncmp(line, "attention ", 10) == 0)
            good = answer(line, properties, builds) && good;
        else if (strncmp(line, "convolution ", 12) == 0)
            good = answer_convolution(line, properties) && good;
    return good ? 0 : 1;
}
