/* What the emulator's watch over streams sees and what it lets pass. Compiled like the kernels of
 * the module that is watched, so that a function's own static variables are shared memory: no TEST
 * here, which has one. With NIGHTSHIFT_EMULATED_RACES=1. */
#include "tests/cuda/emulator/emulated.h"

extern "C" {
#include "tests/common/test.h"
}

extern "C" int64_t nightshift_emulated_count(const char *what);

#define OK(call) assert_int_equal((call), cudaSuccess)

namespace
{
enum { N = 64 };

struct bench {
    cudaStream_t a, b;
    cudaEvent_t e;
    float *x;
};

__global__ void put(float *x) { x[threadIdx.x] = (float)threadIdx.x; }
__global__ void move(float *to, const float *from) { to[threadIdx.x] = from[threadIdx.x]; }

bench open_bench(void)
{
    bench t;

    OK(cudaStreamCreateWithFlags(&t.a, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&t.b, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&t.e, cudaEventDisableTiming));
    OK(cudaMalloc((void **)&t.x, 4 * N * sizeof(float)));
    return t;
}

/* Races since `before`. */
int64_t close_bench(bench &t, int64_t before)
{
    OK(cudaDeviceSynchronize());
    OK(cudaFree(t.x));
    OK(cudaEventDestroy(t.e));
    OK(cudaStreamDestroy(t.a));
    OK(cudaStreamDestroy(t.b));
    return nightshift_emulated_count("races") - before;
}

void order(bench &t, cudaStream_t first, cudaStream_t then)
{
    OK(cudaEventRecord(t.e, first));
    OK(cudaStreamWaitEvent(then, t.e, 0));
}

/* Each way of touching what another stream wrote, or read, with its order and without. */
template <class F, class G> void either(F first, G then)
{
    for (int ordered = 0; ordered < 3; ordered++) {
        int64_t before = nightshift_emulated_count("races");
        bench t = open_bench();

        first(t, t.a);
        if (ordered == 1)
            order(t, t.a, t.b);
        if (ordered == 2)
            OK(cudaStreamSynchronize(t.a)); /* the host's waiting is an order, too */
        then(t, t.b);
        if (ordered)
            assert_int_equal(close_bench(t, before), 0);
        else
            assert_true(close_bench(t, before) > 0);
    }
}

void write_x(bench &t, cudaStream_t s) { LAUNCH(put, dim3(1), dim3(N), 0, s)(t.x); }
void read_x(bench &t, cudaStream_t s) { LAUNCH(move, dim3(1), dim3(N), 0, s)(t.x + 2 * N, t.x); }
void clear_x(bench &t, cudaStream_t s) { OK(cudaMemsetAsync(t.x, 0, N * sizeof(float), s)); }
void copy_x(bench &t, cudaStream_t s)
{
    OK(cudaMemcpyAsync(t.x + N, t.x, N * sizeof(float), cudaMemcpyDeviceToDevice, s));
}

void record(bench &t, cudaStream_t s, cudaGraphExec_t *run)
{
    cudaGraph_t graph;

    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    read_x(t, s);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(run, graph, 0));
    OK(cudaGraphDestroy(graph));
}
} // namespace

static void write_then_read(void **) { either(write_x, read_x); }
static void write_then_copy(void **) { either(write_x, copy_x); }
static void read_then_write(void **) { either(read_x, write_x); }
static void read_then_clear(void **) { either(read_x, clear_x); }
static void clear_then_write(void **) { either(clear_x, write_x); }
static void copy_then_clear(void **) { either(copy_x, clear_x); }

static void both_read(void **)
{
    int64_t before = nightshift_emulated_count("races");
    bench t = open_bench();

    write_x(t, t.a);
    order(t, t.a, t.b);
    read_x(t, t.a);
    LAUNCH(move, dim3(1), dim3(N), 0, t.b)(t.x + 3 * N, t.x);
    assert_int_equal(close_bench(t, before), 0);
}

/* A stream's order with itself needs nothing, and what lies side by side is not the same. */
static void nothing_to_order(void **)
{
    int64_t before = nightshift_emulated_count("races");
    bench t = open_bench();

    write_x(t, t.a);
    read_x(t, t.a);
    LAUNCH(put, dim3(1), dim3(N), 0, t.b)(t.x + N);
    assert_int_equal(close_bench(t, before), 0);
}

/* An event orders what was before it, not what comes after. */
static void too_early_an_event(void **)
{
    int64_t before = nightshift_emulated_count("races");
    bench t = open_bench();

    OK(cudaEventRecord(t.e, t.a));
    write_x(t, t.a);
    OK(cudaStreamWaitEvent(t.b, t.e, 0));
    read_x(t, t.b);
    assert_true(close_bench(t, before) > 0);
}

static void in_a_graph(void **)
{
    either(
        write_x,
        [](bench &t, cudaStream_t s) {
            cudaGraphExec_t run;

            record(t, s, &run);
            OK(cudaGraphLaunch(run, s));
            OK(cudaGraphExecDestroy(run));
        });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_then_read),    cmocka_unit_test(write_then_copy),
        cmocka_unit_test(read_then_write),    cmocka_unit_test(read_then_clear),
        cmocka_unit_test(clear_then_write),   cmocka_unit_test(copy_then_clear),
        cmocka_unit_test(both_read),          cmocka_unit_test(nothing_to_order),
        cmocka_unit_test(too_early_an_event), cmocka_unit_test(in_a_graph)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
