/* The emulator itself: that right kernels give right results, and that wrong ones are caught. What
 * is wrong ends the process, so those run in a child, whose last words are looked at. */
#include "emulated.h"

#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

extern "C" void nightshift_emulated_fail(const char *spec);
extern "C" int64_t nightshift_emulated_count(const char *what);

static bool async_mode(void)
{
    const char *s = getenv("NIGHTSHIFT_EMULATED_ASYNC");

    return s && *s == '1';
}

#define OK(call) assert_int_equal(call, cudaSuccess)

template <class T> static T *device(const std::vector<T> &values)
{
    void *p;

    OK(cudaMalloc(&p, values.size() * sizeof(T)));
    OK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return (T *)p;
}

template <class T> static std::vector<T> host(const T *p, size_t n)
{
    std::vector<T> r(n);

    OK(cudaMemcpy(r.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return r;
}

/* Runs f in a child; its standard error must hold `words`, and it must have been ended. */
static void assert_caught(void (*f)(void), const char *words)
{
    int ends[2], status;
    std::string said;
    char chunk[512];

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        signal(SIGABRT, SIG_DFL);
        f();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], chunk, sizeof(chunk))) > 0;)
        said.append(chunk, (size_t)n);
    close(ends[0]);
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        fail_msg("not caught: %s", words);
    if (said.find(words) == std::string::npos)
        fail_msg("'%s' is not in: %s", words, said.c_str());
}

/* --- kernels that are right ----------------------------------------------------------------- */

__global__ static void add_one(float *x, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i < n)
        x[i] += 1.0f;
}

template <int THREADS> __global__ static void block_sum(const float *x, int n, float *ret)
{
    __shared__ float part[THREADS / 32];
    float sum = 0.0f;

    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        sum += x[blockIdx.x * (unsigned)n + (unsigned)i];
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < THREADS / 32; i++)
            sum += part[i];
        ret[blockIdx.x] = sum;
    }
}

__global__ static void reverse(int *x)
{
    EMULATED_DYNAMIC_SHARED(int, tile);

    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ static void collectives(unsigned *ret)
{
    unsigned l = threadIdx.x, w = 0;

    ret[w++ * 32 + l] = __ballot_sync(0xffffffffu, l % 3 == 0);
    ret[w++ * 32 + l] = (unsigned)__any_sync(0xffffffffu, l == 31);
    ret[w++ * 32 + l] = (unsigned)__all_sync(0xffffffffu, l != 31);
    ret[w++ * 32 + l] = __shfl_up_sync(0xffffffffu, l, 3);
    ret[w++ * 32 + l] = __shfl_down_sync(0xffffffffu, l, 3, 8);
    ret[w++ * 32 + l] = __shfl_sync(0xffffffffu, l, 5, 16);
    ret[w++ * 32 + l] = __reduce_add_sync(0xffffffffu, l);
    ret[w++ * 32 + l] = __match_any_sync(0xffffffffu, l / 2);
    if (l < 16) /* halves that go their own ways */
        ret[w * 32 + l] = __shfl_xor_sync(0x0000ffffu, l, 1);
    else
        ret[w * 32 + l] = __shfl_xor_sync(0xffff0000u, l * 10, 2);
    w++;
    ret[w++ * 32 + l] = (unsigned)__syncthreads_count(l % 2);
    ret[w++ * 32 + l] = (unsigned)__syncthreads_or(l == 7);
}

__global__ static void shared_content(unsigned *ret)
{
    __shared__ unsigned fresh[2];

    ret[blockIdx.x] = fresh[1];
    fresh[1] = 7;
}

static void test_plain(void **)
{
    float *x = device(std::vector<float>(1000, 2.0f));

    LAUNCH(add_one, dim3(8), dim3(128), 0, nullptr)(x, 1000);
    OK(cudaGetLastError());
    for (float v : host(x, 1000))
        assert_true(v == 3.0f);
    OK(cudaFree(x));
}

static void test_sum(void **)
{
    std::vector<float> values(5 * 777);
    float *ret, want[5] = {};

    for (size_t i = 0; i < values.size(); i++)
        want[i / 777] += values[i] = (float)(i % 19);
    float *x = device(values);
    ret = device(std::vector<float>(5));
    LAUNCH(block_sum<1024>, dim3(5), dim3(1024), 0, nullptr)(x, 777, ret);
    std::vector<float> got = host(ret, 5);
    for (int i = 0; i < 5; i++)
        assert_true(got[(size_t)i] == want[i]);
    OK(cudaFree(x));
    OK(cudaFree(ret));
}

static void test_dynamic_shared(void **)
{
    std::vector<int> values(256);

    for (int i = 0; i < 256; i++)
        values[(size_t)i] = i;
    int *x = device(values);
    LAUNCH(reverse, dim3(1), dim3(256), 256 * sizeof(int), nullptr)(x);
    values = host(x, 256);
    for (int i = 0; i < 256; i++)
        assert_int_equal(values[(size_t)i], 255 - i);
    OK(cudaFree(x));
}

static void test_collectives(void **)
{
    unsigned *ret = device(std::vector<unsigned>(11 * 32)), w = 0;

    LAUNCH(collectives, dim3(1), dim3(32), 0, nullptr)(ret);
    std::vector<unsigned> got = host(ret, 11 * 32);
    for (unsigned l = 0; l < 32; l++) {
        unsigned want[] = {0x49249249u,
                           1,
                           0,
                           l < 3 ? l : l - 3,
                           l % 8 < 5 ? l + 3 : l,
                           (l & 16) + 5,
                           31 * 16,
                           3u << (l & ~1u),
                           l < 16 ? l ^ 1 : (l ^ 2) * 10,
                           16,
                           1};
        for (w = 0; w < 11; w++)
            assert_int_equal(got[w * 32 + l], want[w]);
    }
    OK(cudaFree(ret));
}

/* Neither what the block before left, nor zeros. */
static void test_shared_is_fresh(void **)
{
    unsigned *ret = device(std::vector<unsigned>(3));

    LAUNCH(shared_content, dim3(3), dim3(1), 0, nullptr)(ret);
    for (unsigned v : host(ret, 3))
        assert_int_equal(v, 0xffffffffu);
    OK(cudaFree(ret));
}

/* --- kernels that are wrong ----------------------------------------------------------------- */

__global__ static void half_a_barrier(void)
{
    if (threadIdx.x < 16)
        __syncthreads();
}

__global__ static void two_barriers(void)
{
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncthreads();
}

__global__ static void gone_lane(int *x)
{
    if (threadIdx.x == 9)
        return;
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

__global__ static void diverged(int *x)
{
    if (threadIdx.x < 16)
        x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
    else
        x[threadIdx.x] = (int)__ballot_sync(0xffffffffu, 1);
}

__global__ static void from_outside(int *x)
{
    if (threadIdx.x < 8)
        x[threadIdx.x] = __shfl_sync(0xffu, 1, 12);
}

__global__ static void barrier_against_warp(void)
{
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncwarp();
}

/* A barrier is missing: in one of the two orders of threads the result is wrong. */
__global__ static void racy(int *x)
{
    EMULATED_DYNAMIC_SHARED(int, tile);

    tile[threadIdx.x] = (int)threadIdx.x;
    x[threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}

__global__ static void beyond(float *x, int n) { x[n] = 1.0f; }

__global__ static void beyond_shared(void)
{
    EMULATED_DYNAMIC_SHARED(float, tile);

    tile[8] = 1.0f;
}

static int *scratch;

static void run_half(void) { LAUNCH(half_a_barrier, dim3(1), dim3(32), 0, nullptr)(); }
static void run_two(void) { LAUNCH(two_barriers, dim3(1), dim3(32), 0, nullptr)(); }
static void run_gone(void) { LAUNCH(gone_lane, dim3(1), dim3(32), 0, nullptr)(scratch); }
static void run_short(void) { LAUNCH(gone_lane, dim3(1), dim3(8), 0, nullptr)(scratch); }
static void run_diverged(void) { LAUNCH(diverged, dim3(1), dim3(32), 0, nullptr)(scratch); }
static void run_outside(void) { LAUNCH(from_outside, dim3(1), dim3(32), 0, nullptr)(scratch); }
static void run_mixed(void) { LAUNCH(barrier_against_warp, dim3(1), dim3(32), 0, nullptr)(); }
static void run_beyond(void)
{
    LAUNCH(beyond, dim3(1), dim3(1), 0, nullptr)((float *)scratch, 300);
}
static void run_beyond_shared(void) { LAUNCH(beyond_shared, dim3(1), dim3(1), 32, nullptr)(); }
static void run_threads(void) { LAUNCH(half_a_barrier, dim3(1), dim3(1025), 0, nullptr)(); }
static void run_no_grid(void) { LAUNCH(half_a_barrier, dim3(0), dim3(32), 0, nullptr)(); }
static void run_shared(void) { LAUNCH(beyond_shared, dim3(1), dim3(1), 49153, nullptr)(); }

template <void (*F)(void)> static void and_sync(void)
{
    F();
    cudaDeviceSynchronize();
}

static void test_caught(void **)
{
    void *p;

    OK(cudaMalloc(&p, 1200));
    scratch = (int *)p;
    assert_caught(and_sync<run_half>, "a barrier is not reached by all threads of the block");
    assert_caught(and_sync<run_two>, "meet at different barriers: kernel two_barriers");
    assert_caught(and_sync<run_gone>, "names lane 9, which has exited");
    assert_caught(and_sync<run_short>, "has exited: kernel gone_lane");
    assert_caught(and_sync<run_diverged>, "different collectives: kernel diverged");
    assert_caught(and_sync<run_outside>, "shuffles from lane 12, which takes no part");
    assert_caught(and_sync<run_mixed>, "is not reached by all");
    assert_caught(and_sync<run_beyond>, "written 0 bytes behind a piece of 1200");
    assert_caught(and_sync<run_beyond_shared>, "behind its 32 bytes of dynamic shared memory");
    assert_caught(and_sync<run_threads>, "a block of 1025 threads");
    assert_caught(and_sync<run_no_grid>, "a grid of 0 x 1 x 1 blocks");
    assert_caught(and_sync<run_shared>, "49153 bytes of dynamic shared memory");
    OK(cudaFree(p));
}

static void test_race(void **)
{
    std::vector<int> got;
    int wrong = 0;
    int *x = device(std::vector<int>(64));

    LAUNCH(racy, dim3(1), dim3(64), 64 * sizeof(int), nullptr)(x);
    got = host(x, 64);
    for (int i = 0; i < 64; i++)
        wrong += got[(size_t)i] != (i + 1) % 64;
    /* Backwards only the last thread is too early. */
    assert_true(async_mode() ? wrong == 1 : wrong == 63);
    OK(cudaFree(x));
}

/* --- memory --------------------------------------------------------------------------------- */

static void free_twice(void)
{
    void *p;

    cudaMalloc(&p, 8);
    cudaFree(p);
    cudaFree(p);
}

static void touch_from_host(void)
{
    void *p;

    cudaMalloc(&p, 8);
    fprintf(stderr, "touching\n");
    *(volatile int *)p = 1;
    cudaFree(p);
}

static void test_memory(void **)
{
    size_t before, after, total;
    int64_t blocks = nightshift_emulated_count("blocks");
    void *p, *q;

    OK(cudaMemGetInfo(&before, &total));
    assert_true(total == (size_t)24 << 30);
    OK(cudaMalloc(&p, 1000));
    for (unsigned char c : host((unsigned char *)p, 1000))
        assert_int_equal(c, 0xff);
    OK(cudaMemGetInfo(&after, &total));
    assert_true(before - after == 1024);
    assert_int_equal(cudaMalloc(&q, total), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaMemset(p, 0, 1001), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(p, &total, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    cudaGetLastError();
    OK(cudaFree(p));
    assert_int_equal(nightshift_emulated_count("blocks"), blocks);
    assert_caught(free_twice, "cudaMalloc did not give");
    if (getenv("NIGHTSHIFT_EMULATED_GUARD"))
        assert_caught(touch_from_host, "touching");
}

/* --- streams -------------------------------------------------------------------------------- */

static void test_async_reuse(void **)
{
    cudaStream_t s;
    void *p, *pinned;
    int pageable = 5;

    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaMalloc(&p, sizeof(int)));
    OK(cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocDefault));
    *(int *)pinned = 1;
    OK(cudaMemcpyAsync(p, pinned, sizeof(int), cudaMemcpyHostToDevice, s));
    *(int *)pinned = 2; /* too early */
    OK(cudaStreamSynchronize(s));
    assert_int_equal(host((int *)p, 1)[0], async_mode() ? 2 : 1);
    OK(cudaMemcpyAsync(p, &pageable, sizeof(int), cudaMemcpyHostToDevice, s));
    pageable = 6; /* allowed: it has been taken */
    OK(cudaStreamSynchronize(s));
    assert_int_equal(host((int *)p, 1)[0], 5);
    OK(cudaFree(p));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(s));
}

static void test_async_order(void **)
{
    cudaStream_t a, b;
    cudaEvent_t e;
    float *x = device(std::vector<float>(1, 0.0f));

    OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    LAUNCH(add_one, dim3(1), dim3(1), 0, a)(x, 1);
    OK(cudaEventRecord(e, a));
    LAUNCH(add_one, dim3(1), dim3(1), 0, a)(x, 1);
    OK(cudaStreamWaitEvent(b, e, 0));
    LAUNCH(add_one, dim3(1), dim3(1), 0, b)(x, 1);
    OK(cudaStreamSynchronize(b));
    /* Lazily, only what b has to wait for has happened. */
    assert_true(host(x, 1)[0] == (async_mode() ? 2.0f : 3.0f));
    OK(cudaDeviceSynchronize());
    assert_true(host(x, 1)[0] == 3.0f);
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(a));
    OK(cudaStreamDestroy(b));
    OK(cudaFree(x));
}

static void test_graph(void **)
{
    float *x = device(std::vector<float>(4, 0.0f));
    cudaGraphExec_t run;
    cudaGraph_t graph;
    cudaStream_t s;
    void *p;

    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    LAUNCH(add_one, dim3(1), dim3(32), 0, s)(x, 4);
    OK(cudaMemcpyAsync(x, x + 2, 4, cudaMemcpyDeviceToDevice, s));
    LAUNCH(add_one, dim3(1), dim3(32), 0, s)(x, 1);
    OK(cudaStreamEndCapture(s, &graph));
    assert_true(host(x, 1)[0] == 0.0f); /* recorded, not run */
    OK(cudaGraphInstantiate(&run, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(run, s));
    OK(cudaStreamSynchronize(s));
    assert_true(host(x, 1)[0] == 4.0f);
    assert_true(host(x, 2)[1] == 3.0f);
    OK(cudaGraphExecDestroy(run));

    /* What may not be captured is refused, and spoils the capture. */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaMalloc(&p, 8), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    assert_int_equal(nightshift_emulated_count("graphs"), 0);
    OK(cudaStreamDestroy(s));
    OK(cudaFree(x));
}

static void test_failures(void **)
{
    float *x = device(std::vector<float>(1, 0.0f));
    int n;
    void *p;

    nightshift_emulated_fail("malloc:2");
    OK(cudaMalloc(&p, 8));
    OK(cudaFree(p));
    assert_int_equal(cudaMalloc(&p, 8), cudaErrorMemoryAllocation);
    OK(cudaMalloc(&p, 8));
    OK(cudaFree(p));
    cudaGetLastError();
    nightshift_emulated_fail("launch:2");
    LAUNCH(add_one, dim3(1), dim3(1), 0, nullptr)(x, 1);
    OK(cudaDeviceSynchronize());
    LAUNCH(add_one, dim3(1), dim3(1), 0, nullptr)(x, 1);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_int_equal(cudaMalloc(&p, 8), cudaErrorIllegalAddress); /* it stays */
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    nightshift_emulated_fail("nodevice");
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    nightshift_emulated_fail("nodriver");
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    OK(cudaDriverGetVersion(&n));
    assert_int_equal(n, 0);
    nightshift_emulated_fail("");
    cudaGetLastError();
    assert_true(host(x, 1)[0] == 1.0f);
    OK(cudaFree(x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_dynamic_shared),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_shared_is_fresh),
        cmocka_unit_test(test_caught),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_async_reuse),
        cmocka_unit_test(test_async_order),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("emulator", tests, nullptr, nullptr);
}
