#include "tests/cuda/operations.h"

#include <math.h>

struct emulated cuda;
uint32_t operations_seed = 1;

int open_module(void **unused)
{
    (void)unused;
    cuda = emulated_open();
    return 0;
}

void nothing_held(void **unused)
{
    (void)unused;
    assert_int_equal(emulated_held(&cuda), 0);
}

struct backend *open_device(bool deterministic)
{
    struct cuda_options o = {.deterministic = deterministic};
    struct backend *be;
    struct err e;

    assert_ok(cuda.module->open("0", &o, &be, &e), e);
    return be;
}

static float next(void)
{
    operations_seed = operations_seed * 1664525u + 1013904223u;
    return (float)(operations_seed >> 8) / 8388608.0f - 1.0f;
}

float *values(size_t n)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = next();
    return x;
}

void *device_new(struct backend *be, size_t bytes, const void *from)
{
    struct err e;
    void *p;

    assert_ok(be->ops->alloc(be, bytes, &p, &e), e);
    if (from)
        assert_ok(be->ops->write(be, p, from, bytes, &e), e);
    return p;
}

struct tensor tensor_new(struct backend *be, size_t rows, size_t cols, const float *x)
{
    return tensor_of(DTYPE_F32, device_new(be, rows * cols * sizeof(float), x), (int64_t)rows,
                     (int64_t)cols);
}

double finished(double sum, enum epilogue epilogue, double old)
{
    if (epilogue_adds(epilogue))
        sum += old;
    if (epilogue == EPILOGUE_RELU || epilogue == EPILOGUE_ADD_RELU)
        return fmax(sum, 0);
    return epilogue == EPILOGUE_GELU ? sum * 0.5 * (1 + erf(sum * sqrt(0.5))) : sum;
}
