/* tests/cuda/emulator/machine.h - what the emulator's files share: devices, memory, queues.
 *
 * Environment, read once, at the first call:
 *
 * - NIGHTSHIFT_EMULATED_GPUS="24GiB,8GiB": devices and their memory (default one of 24 GiB)
 * - NIGHTSHIFT_EMULATED_CC="9.0,7.5": compute capabilities; the last one holds for the rest
 * - NIGHTSHIFT_EMULATED_DRY=1: everything is checked and nothing is computed or moved, for models
 *   whose shapes alone are wanted
 * - NIGHTSHIFT_EMULATED_QUESTIONS=FILE: what cuBLASLt and cuDNN are asked for goes there, once each
 * - NIGHTSHIFT_EMULATED_RACES=1: accesses of streams without an order are counted (races.cpp)
 * - NIGHTSHIFT_EMULATED_ASYNC=1: queue everything, and run it as late as is legal; threads of a
 *   block then run from the last to the first
 * - NIGHTSHIFT_EMULATED_GUARD=1: device memory cannot be touched by the host's code
 * - NIGHTSHIFT_EMULATED_FAIL="malloc:17": the 17th cudaMalloc fails; "hostalloc:N" the same of
 *   pinned memory; "launch:N" an illegal address from the Nth kernel on, for good; "mute:N": the
 *   Nth device does not say what it is; "nodriver"; "nodevice"; "olddriver"
 * - NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES="mixed": which epilogues cuBLASLt refuses beyond its table
 *   (cublaslt.cpp has the names); this one is read each time
 * - NIGHTSHIFT_EMULATED_CUBLASLT_MS="2,1,3": its proposals for a product, and what they take by the
 *   emulator's clock; read each time
 * - NIGHTSHIFT_EMULATED_CUDNN_MS="0,4,2": what a run by cuDNN's engines takes, in the order in
 * which they are proposed (no time where nothing is said); read each time
 * - CUDA_VISIBLE_DEVICES: as the real run time takes it
 *
 * All state is behind one lock, which is held while kernels run: several threads may use several
 * devices, but nothing of theirs overlaps. */
#ifndef NIGHTSHIFT_TESTS_CUDA_MACHINE_H
#define NIGHTSHIFT_TESTS_CUDA_MACHINE_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#define EMULATED_API extern "C" __attribute__((visibility("default")))

/* For tests. A spec as in NIGHTSHIFT_EMULATED_FAIL, counted from now; "" for none. */
EMULATED_API void nightshift_emulated_fail(const char *spec);
/* "mallocs", "hostallocs", "launches", "races", "heuristics" (searches of cuBLASLt), "unaligned"
 * (those of them with a matrix whose columns do not all begin at multiples of 16 bytes),
 * "algorithm checks": how many there were; "clock us": the clock that these move; "blocks",
 * "pinned", "streams", "events", "graphs": how many there are; "bytes": device memory held. -1: no
 * such thing. */
EMULATED_API int64_t nightshift_emulated_count(const char *what);

namespace emulated
{
enum { RED = 256 }; /* bytes before and behind each piece of device memory */

/* How many operations of each stream come before something; races.cpp. */
enum { RACE_STREAMS = 12 };
typedef std::array<uint32_t, RACE_STREAMS> clock_of;

struct queue_point { /* everything in `stream` up to the n-th operation */
    struct CUstream_st *stream;
    uint64_t n;
};

struct operation {
    std::function<void()> run;
    std::vector<queue_point> after;
    clock_of clock; /* with itself */
};

struct device {
    int major, minor;
    uint64_t total, held; /* bytes, counted */
    char *base;           /* reserved addresses */
    size_t reserved;
    std::map<char *, size_t> blocks; /* user's address to bytes */
    cudaError_t sticky;
};

struct machine {
    std::recursive_mutex lock;
    cudaError_t absent; /* cudaSuccess, or why there is no device */
    int driver;
    bool async, guard, dry, races;
    clock_of host; /* what the host has waited for */
    std::vector<device> devices;
    std::map<char *, size_t> pinned;
    std::vector<struct CUstream_st *> streams;
    std::map<const void *, size_t> shared_limit; /* by kernel: cudaFuncSetAttribute */
    int64_t mallocs, hostallocs, launches, events, graphs;
    int64_t heuristics, unaligned, algorithm_checks;   /* of cuBLASLt */
    int64_t dnn_descriptors, dnn_heuristics, dnn_runs; /* of cuDNN's graphs */
    double clock_ms;                                   /* what took time so far: its products */
    int64_t fail_malloc, fail_hostalloc, fail_launch;  /* 0: never */
    int64_t mute; /* this device, from 1, does not say what it is; 0: none */
    int running;  /* depth of operations: device memory may be touched */
};

machine &the_machine(void);
typedef std::lock_guard<std::recursive_mutex> guard;
/* The calling thread's device; its last error. */
int current_device(void);
cudaError_t remember(cudaError_t e);
/* Whether `p` and `bytes` behind it lie inside one piece of a device's memory / of pinned memory.
 */
bool on_device(const void *p, size_t bytes);
bool is_device_address(const void *p);
bool is_pinned(const void *p, size_t bytes);
void check_red_zones(device &d);
/* Opens device memory while it lives. */
struct touching {
    touching();
    ~touching();
};

/* Puts an operation on a stream (or into its capture). When it cannot: the error. name: a literal.
 */
cudaError_t enqueue(cudaStream_t stream, const char *name, std::function<void()> run);

/* Races: memory that is watched, that begins anew, what runs from now on, and what it touches. */
void races_device(const char *base, size_t bytes);
void races_forget(const void *p, size_t bytes);
void races_begin(int stream, const clock_of &clock, const char *name);
void races_name(const char *name);
void races_end(void);
int64_t races_found(void);
void touch(const void *p, size_t bytes, bool write);
void run_until(queue_point p);
void drain(int device);
void drain_all(void);
/* The error of a call that may not be made while a stream of this thread's captures; it spoils the
 * capture. */
cudaError_t unless_capturing(const char *call);
bool capturing(cudaStream_t stream);

/* A line for the file of questions: once. */
void question(const std::string &line);

/* Runs a grid now. */
void run_grid(const char *name, dim3 grid, dim3 block, size_t shared, char *shared_begin,
              char *shared_end, bool backwards, const std::function<void()> &thread);

/* Static shared memory of a grid, which is NaN when it begins, and again after shared_fresh(): for
 * the next block. */
void shared_open(char *begin, char *end);
void shared_fresh(void);
void shared_close(void);
/* To NaN in every type that kernels keep in shared memory. */
void poison_memory(char *begin, char *end);
} // namespace emulated

struct CUstream_st {
    int device;
    int number;               /* for races; with more than RACE_STREAMS they cannot be looked for */
    emulated::clock_of clock; /* of its last operation */
    bool blocking;            /* with the legacy stream */
    bool legacy;
    std::vector<emulated::operation> ops; /* of which `done` have run; cleared when all have */
    uint64_t first, done;                 /* numbers: ops[0] is number first + 1 */
    struct CUgraph_st *capture;           /* NULL: none */
    cudaStreamCaptureMode mode;
    bool origin, spoilt;
};

struct CUevent_st {
    emulated::queue_point at;
    emulated::clock_of clock; /* of what it marks */
    struct CUgraph_st *capture;
    int device;
    bool timing;
    std::shared_ptr<double> ms; /* the clock when it was reached */
};

struct CUgraph_st {
    std::vector<std::function<void()>> nodes;
    std::vector<struct CUstream_st *> streams; /* that take part while it is captured */
};

struct CUgraphExec_st {
    std::shared_ptr<std::vector<std::function<void()>>> nodes;
    int device;
};

#endif
