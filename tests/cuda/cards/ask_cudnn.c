/* ask_cudnn CARD.json [build] - which engines the real cuDNN 9 proposes for the attentions of a
 * file of questions (standard input: emulator/machine.h), on a card that need not be here.
 *
 * cuDNN takes a card's description instead of a device (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION),
 * for which a stub of libcuda is enough. A line for each: the question, then the engines' numbers,
 * best first, or why there are none; with `build` also how long the first plan took that could be
 * compiled. What is then still missing is loading it into a driver, which fails without one, after
 * it was compiled. Exit status: 0 all have an engine, 1 some have none. */
#include <cudnn.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 8 /* proposals, as gpu/cuda/sdpa.c asks for */

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

/* The same graph as gpu/cuda/sdpa.c makes. strides: of q, k, v, out. */
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

static int64_t propose(desc graph, desc properties, desc configs[MOST])
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    desc heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;

    set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
    if (why[0] || !ok(cudnnBackendFinalize(heuristic)))
        return 0;
    for (int i = 0; i < MOST; i++)
        configs[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    ok(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &n, configs));
    return n < MOST ? n : MOST;
}

static int64_t number_of(desc config)
{
    desc engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t n = 0, number = -1;

    ok(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                1, &n, &engine));
    ok(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n,
                                &number));
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
                properties, configs);
    printf("%s %ld windows, %ld heads of %ld, %ld positions: ", type, (long)dims[0], (long)dims[1],
           (long)dims[3], (long)dims[2]);
    if (n == 0)
        printf("no engine: %s", why[0] ? why : "none is proposed");
    for (int64_t i = 0; i < n; i++)
        printf("%s%ld", i ? ", " : "engines ", (long)number_of(configs[i]));
    if (n > 0 && builds)
        build(configs[0], properties);
    printf("\n");
    return n > 0;
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
    return good ? 0 : 1;
}
