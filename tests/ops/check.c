#include "tests/ops/check.h"

#include "tests/common/distance.h"

struct backend *be;
const enum dtype types[3] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

bool computes(enum precision p) { return be->info.have & 1u << p; }

bool have(enum dtype type)
{
    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++)
        if (computes((enum precision)p) && precision_type((enum precision)p) == type)
            return true;
    return false;
}

static const char *type_name(enum dtype type)
{
    return type == DTYPE_F32 ? "float32" : type == DTYPE_BF16 ? "bf16" : "float16";
}

/* float32 results: 5e-6. Chains of up to 1536 products round 2^-24 each, at random: about 3e-6.
 * 16-bit results: 2^-8 and 2^-10, once and twice what rounding the result itself may cost;
 * attention twice that, since it rounds its weights too, and what they weigh partly cancels; GELU
 * on a GPU as well, where it is a kernel after the product, which has been rounded once by then
 * (cuBLASLt's own is less than 4.8e-4 off besides, an eighth of bf16's bound and half of fp16's). A
 * sum with what stood there four times on a GPU: cuBLASLt may round the product before it adds, and
 * its bias before that, and where the values are at most 1 and the results' largest is more, the
 * bias is at most that and the product twice that: 1 + 2 + 1 roundings of it. Products: tf32 and
 * 8-bit ones round their inputs, to 11 bits, to 1/254 of a row's largest value, and to 4 bits; in a
 * sum of many that is a random walk. */
static double tolerance(const char *what, enum precision p, enum dtype result)
{
    double bound = result == DTYPE_F32 ? 5e-6 : result == DTYPE_BF16 ? 0x1p-8 : 0x1p-10;
    bool conv = strcmp(what, "conv2d") == 0, gelu = conv || strcmp(what, "linear with GELU") == 0;
    bool sum = strcmp(what, "linear with a sum") == 0, gpu = be->info.processors > 0;

    if (result != DTYPE_F32 && sum && gpu)
        bound *= 4;
    else if (result != DTYPE_F32 && (strncmp(what, "attention", 9) == 0 || (gelu && gpu)))
        bound *= 2;
    if (!gelu && !sum && strcmp(what, "linear") != 0)
        return bound;
    return bound + (p == PRECISION_TF32              ? 0x1p-10
                    : p == PRECISION_FP8             ? 0.08
                    : p == PRECISION_INT16           ? 0x1p-12
                    : precision_weight_bytes(p) == 1 ? 0.03
                                                     : 0);
}

static float rounded(float x, enum dtype type)
{
    if (type == DTYPE_BF16)
        return bf16_to_f32(f32_to_bf16(x));
    return type == DTYPE_F16 ? roundf(x * 1024.0f) / 1024.0f : x; /* |x| <= 1: held exactly */
}

float *values(size_t n, enum dtype type, float scale, uint32_t seed)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * scale;
        x[i] = rounded(x[i], type);
    }
    return x;
}

struct tensor tensor_new(enum dtype type, size_t rows, size_t cols, const float *x)
{
    struct err e;
    void *p;

    assert_ok(be->ops->alloc(be, rows * cols * dtype_size(type), &p, &e), e);
    struct tensor t = tensor_of(type, p, (int64_t)rows, (int64_t)cols);
    if (x)
        assert_ok(be->ops->put(be, t, x, &e), e);
    return t;
}

void tensor_free(struct tensor t) { be->ops->release(be, t.data); }

void compare(const char *what, enum precision p, struct tensor have_t, const double *want,
             const char *shape, uint32_t seed)
{
    size_t n = (size_t)(have_t.rows * have_t.cols);
    float *got = malloc(n * sizeof(*got));
    double high = 1e-30, worst = 0.0, bound = tolerance(what, p, have_t.type);
    struct err e;

    assert_non_null(got);
    assert_ok(be->ops->get(be, got, have_t, &e), e);
    for (size_t i = 0; i < n; i++)
        high = fmax(high, fabs(want[i]));
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]) / high;

        worst = distance_larger(worst, d);
    }
    if (!(worst <= bound))
        print_error("%s %s -> %s %s seed %u: %.2e, allowed %.2e\n", what, precision_name(p),
                    type_name(have_t.type), shape, seed, worst, bound);
    assert_true(worst <= bound);
    free(got);
}

struct token_row *rows_new(const struct token_row *rows, size_t n)
{
    struct err e;
    void *p;

    assert_ok(be->ops->alloc(be, n * sizeof(*rows), &p, &e), e);
    assert_ok(be->ops->write(be, p, rows, n * sizeof(*rows), &e), e);
    return p;
}

struct kv kv_new(enum dtype type, uint32_t heads, uint32_t capacity, uint32_t slots)
{
    struct kv kv = {.type = type, .heads = heads, .capacity = capacity, .slots = slots};
    struct err e;

    /* Something lies between the slots, as other layers do. */
    kv.slot_stride = be->ops->kv_bytes(type, heads, capacity) + 128;
    assert_int_equal(kv.slot_stride % 64, 0);
    assert_ok(be->ops->alloc(be, slots * kv.slot_stride, &kv.data, &e), e);
    return kv;
}

static uint64_t at_open; /* bytes: a GPU's backend has its workspace from the begin */

int open_backend(void **state)
{
    struct err e = {0};
    int rc = test_backend_open(&be, &e);

    (void)state;
    if (rc == 0)
        at_open = be->allocated;
    else
        print_error("%s\n", e.msg);
    return rc;
}

int close_backend(void **state)
{
    uint64_t left = be->allocated - at_open;

    (void)state;
    backend_close(be);
    if (left > 64u << 20) /* scratch memory stays until the end */
        print_error("%llu bytes were not released\n", (unsigned long long)left);
    return left > 64u << 20;
}
