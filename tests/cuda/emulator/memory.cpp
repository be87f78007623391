/* tests/cuda/emulator/memory.cpp - devices, their memory, pinned memory, errors. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <sys/mman.h>

#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"

namespace emulated
{
namespace
{
constexpr uint64_t MIB = 1u << 20, GRAIN = 512, CONTEXT = 256 * MIB, FILLED = 4 * MIB,
                   HUGE = 2 * MIB;
enum { FRESH = 0xff, FREED = 0xfe, RED_BYTE = 0xa7 };

thread_local int thread_device;
thread_local cudaError_t thread_error;

std::vector<std::string> split(const std::string &s)
{
    std::vector<std::string> r;
    std::stringstream in(s);

    for (std::string part; std::getline(in, part, ',');)
        r.push_back(part);
    return r;
}

std::string setting(const char *name, const char *otherwise)
{
    const char *s = getenv(name);

    return s && *s ? s : otherwise;
}

uint64_t parse_bytes(const std::string &s)
{
    char *end;
    double n = strtod(s.c_str(), &end);
    uint64_t unit = strcmp(end, "GiB") == 0 ? 1024 * MIB : strcmp(end, "MiB") == 0 ? MIB : 0;

    if (unit == 0 || !(n > 0))
        fail("NIGHTSHIFT_EMULATED_GPUS: '%s' is not like 24GiB or 512MiB", s.c_str());
    return (uint64_t)(n * (double)unit);
}

cudaUUID_t uuid_of(int physical)
{
    cudaUUID_t u;

    for (int i = 0; i < 16; i++)
        u.bytes[i] = (char)(0x10 * physical + i);
    return u;
}

std::string uuid_text(int physical)
{
    cudaUUID_t u = uuid_of(physical);
    std::string s = "GPU-";

    for (int i = 0; i < 16; i++) {
        char hex[4];

        snprintf(hex, sizeof(hex), "%02x", (unsigned char)u.bytes[i]);
        s += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(hex);
    }
    return s;
}

/* The devices that CUDA_VISIBLE_DEVICES lets through: up to the first entry that names none. */
std::vector<int> visible(int count)
{
    const char *s = getenv("CUDA_VISIBLE_DEVICES");
    std::vector<int> r;

    if (s == nullptr) {
        for (int i = 0; i < count; i++)
            r.push_back(i);
        return r;
    }
    for (const std::string &part : split(s)) {
        int found = -1;

        for (int i = 0; i < count; i++)
            if (part == std::to_string(i) ||
                (part.size() > 4 && uuid_text(i).compare(0, part.size(), part) == 0))
                found = i;
        if (found < 0)
            break;
        r.push_back(found);
    }
    return r;
}

std::vector<int> &physical(void)
{
    static std::vector<int> p;
    return p;
}

void set_failures(machine &m, const std::string &spec)
{
    m.fail_malloc = m.fail_hostalloc = m.fail_launch = m.mute = 0;
    for (const std::string &part : split(spec)) {
        size_t colon = part.find(':');
        int64_t n = colon == std::string::npos ? 0 : atoll(part.c_str() + colon + 1);

        if (part == "nodriver") {
            m.absent = cudaErrorInsufficientDriver;
            m.driver = 0;
        } else if (part == "olddriver") {
            m.absent = cudaErrorInsufficientDriver;
            m.driver = 11040;
        } else if (part == "nodevice") {
            m.absent = cudaErrorNoDevice;
        } else if (part.compare(0, 5, "mute:") == 0 && n > 0) {
            m.mute = n;
        } else if (part.compare(0, 7, "malloc:") == 0 && n > 0) {
            m.fail_malloc = m.mallocs + n;
        } else if (part.compare(0, 10, "hostalloc:") == 0 && n > 0) {
            m.fail_hostalloc = m.hostallocs + n;
        } else if (part.compare(0, 7, "launch:") == 0 && n > 0) {
            m.fail_launch = m.launches + n;
        } else {
            fail("NIGHTSHIFT_EMULATED_FAIL: unknown '%s'", part.c_str());
        }
    }
}

void set_up(machine &m)
{
    std::vector<std::string> sizes = split(setting("NIGHTSHIFT_EMULATED_GPUS", "24GiB"));
    std::vector<std::string> cc = split(setting("NIGHTSHIFT_EMULATED_CC", "9.0"));

    m.driver = CUDART_VERSION;
    m.async = setting("NIGHTSHIFT_EMULATED_ASYNC", "0") == "1";
    m.dry = setting("NIGHTSHIFT_EMULATED_DRY", "0") == "1";
    m.guard = setting("NIGHTSHIFT_EMULATED_GUARD", "0") == "1";
    m.races = setting("NIGHTSHIFT_EMULATED_RACES", "0") == "1";
    physical() = visible((int)sizes.size());
    for (int p : physical()) {
        device d = {};

        d.total = parse_bytes(sizes[(size_t)p]);
        if (sscanf(cc[std::min((size_t)p, cc.size() - 1)].c_str(), "%d.%d", &d.major, &d.minor) !=
            2)
            fail("NIGHTSHIFT_EMULATED_CC: a compute capability is like 9.0");
        d.reserved = (d.total + d.total / 8 + HUGE - 1) / HUGE * HUGE;
        d.base = (char *)mmap(nullptr, d.reserved + HUGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (d.base == MAP_FAILED)
            fail("no addresses for the memory of a device");
        d.base = (char *)(((uintptr_t)d.base + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
        if (m.guard) { /* few large pages: opening and closing costs by the page */
            madvise(d.base, d.reserved, MADV_HUGEPAGE);
            mprotect(d.base, d.reserved, PROT_NONE);
        }
        if (m.races)
            races_device(d.base, d.reserved);
        m.devices.push_back(d);
    }
    m.absent = m.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
    set_failures(m, setting("NIGHTSHIFT_EMULATED_FAIL", ""));
}

void protect(machine &m, int how)
{
    for (device &d : m.devices)
        mprotect(d.base, d.reserved, how);
}

/* The lowest gap that takes `bytes` and both red zones; NULL: none. */
char *find_gap(device &d, size_t bytes)
{
    char *at = d.base;

    for (const auto &b : d.blocks) {
        if ((size_t)(b.first - RED - at) >= bytes + 2 * RED)
            return at + RED;
        at = b.first + (b.second + GRAIN - 1) / GRAIN * GRAIN + RED;
    }
    return (size_t)(d.base + d.reserved - at) >= bytes + 2 * RED ? at + RED : nullptr;
}

/* Where nothing is computed it stays zero: what nobody wrote must not look like a fault. */
void fill(char *p, size_t bytes, int byte)
{
    if (the_machine().dry)
        return;
    memset(p, byte, std::min(bytes, (size_t)FILLED));
    if (bytes > FILLED)
        memset(p + bytes - std::min(bytes - FILLED, (size_t)MIB), byte,
               std::min(bytes - FILLED, (size_t)MIB));
}

/* The rest of the last grain belongs to the zone behind. */
void check_block(char *p, size_t bytes)
{
    size_t rounded = (bytes + GRAIN - 1) / GRAIN * GRAIN;

    for (char *q = p - RED; q < p; q++)
        if ((unsigned char)*q != RED_BYTE)
            fail("device memory was written %zd bytes before a piece of %zu", p - q, bytes);
    for (char *q = p + bytes; q < p + rounded + RED; q++)
        if ((unsigned char)*q != RED_BYTE)
            fail("device memory was written %zd bytes behind a piece of %zu",
                 q - p - (ssize_t)bytes, bytes);
}

device *device_at(const void *p)
{
    for (device &d : the_machine().devices)
        if ((const char *)p >= d.base && (const char *)p < d.base + d.reserved)
            return &d;
    return nullptr;
}
} // namespace

machine &the_machine(void)
{
    static machine *m = [] {
        machine *made = new machine();

        set_up(*made);
        return made;
    }();
    return *m;
}

int current_device(void) { return thread_device; }

cudaError_t remember(cudaError_t e)
{
    if (e != cudaSuccess)
        thread_error = e;
    return e;
}

bool is_device_address(const void *p) { return device_at(p) != nullptr; }

bool on_device(const void *p, size_t bytes)
{
    device *d = device_at(p);

    if (d == nullptr || d->blocks.empty())
        return false;
    auto b = d->blocks.upper_bound((char *)p);

    if (b == d->blocks.begin())
        return false;
    --b;
    return (const char *)p + bytes <= b->first + b->second;
}

bool is_pinned(const void *p, size_t bytes)
{
    machine &m = the_machine();
    auto b = m.pinned.upper_bound((char *)p);

    if (b == m.pinned.begin())
        return false;
    --b;
    return (const char *)p + bytes <= b->first + b->second;
}

void check_red_zones(device &d)
{
    touching t;

    for (const auto &b : d.blocks)
        check_block(b.first, b.second);
}

touching::touching()
{
    machine &m = the_machine();

    if (m.running++ == 0 && m.guard)
        protect(m, PROT_READ | PROT_WRITE);
}

touching::~touching()
{
    machine &m = the_machine();

    if (--m.running == 0 && m.guard)
        protect(m, PROT_NONE);
}

/* The device of this thread when it can be used. */
static cudaError_t usable(device **ret)
{
    machine &m = the_machine();

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    *ret = &m.devices[(size_t)thread_device];
    return remember((*ret)->sticky);
}
} // namespace emulated

using namespace emulated;

EMULATED_API void nightshift_emulated_fail(const char *spec)
{
    machine &m = the_machine();
    guard g(m.lock);

    m.absent = m.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
    m.driver = CUDART_VERSION;
    for (device &d : m.devices)
        d.sticky = cudaSuccess;
    set_failures(m, spec);
}

EMULATED_API int64_t nightshift_emulated_count(const char *what)
{
    machine &m = the_machine();
    guard g(m.lock);
    int64_t blocks = 0, bytes = 0;

    for (const device &d : m.devices) {
        blocks += (int64_t)d.blocks.size();
        bytes += (int64_t)d.held;
    }
    const std::pair<const char *, int64_t> counts[] = {
        {"mallocs", m.mallocs},
        {"hostallocs", m.hostallocs},
        {"launches", m.launches},
        {"races", races_found()},
        {"heuristics", m.heuristics},
        {"cudnn descriptors", m.dnn_descriptors},
        {"cudnn heuristics", m.dnn_heuristics},
        {"cudnn runs", m.dnn_runs},
        {"unaligned", m.unaligned},
        {"algorithm checks", m.algorithm_checks},
        {"clock us", (int64_t)(m.clock_ms * 1e3 + 0.5)},
        {"blocks", blocks},
        {"bytes", bytes},
        {"pinned", (int64_t)m.pinned.size()},
        {"events", m.events},
        {"graphs", m.graphs},
        {"streams", (int64_t)m.streams.size()},
    };
    for (const auto &c : counts)
        if (strcmp(c.first, what) == 0)
            return c.second;
    return -1;
}

EMULATED_API cudaError_t cudaGetLastError(void)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e = thread_error;

    if (m.absent == cudaSuccess && m.devices[(size_t)thread_device].sticky != cudaSuccess)
        return m.devices[(size_t)thread_device].sticky;
    thread_error = cudaSuccess;
    return e;
}

EMULATED_API cudaError_t cudaPeekAtLastError(void)
{
    cudaError_t e = cudaGetLastError();

    thread_error = e;
    return e;
}

EMULATED_API cudaError_t cudaDriverGetVersion(int *ret)
{
    guard g(the_machine().lock);

    *ret = the_machine().driver;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaRuntimeGetVersion(int *ret)
{
    *ret = CUDART_VERSION;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaGetDeviceCount(int *ret)
{
    machine &m = the_machine();
    guard g(m.lock);

    *ret = m.absent == cudaSuccess ? (int)m.devices.size() : 0;
    return remember(m.absent);
}

EMULATED_API cudaError_t cudaSetDevice(int device)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (device < 0 || device >= (int)m.devices.size())
        return remember(cudaErrorInvalidDevice);
    thread_device = device;
    return remember(m.devices[(size_t)device].sticky);
}

EMULATED_API cudaError_t cudaGetDevice(int *ret)
{
    guard g(the_machine().lock);

    *ret = thread_device;
    return remember(the_machine().absent);
}

EMULATED_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp *ret, int n)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (n < 0 || n >= (int)m.devices.size())
        return remember(cudaErrorInvalidDevice);
    if (m.mute == n + 1)
        return remember(cudaErrorUnknown);
    const device &d = m.devices[(size_t)n];

    memset(ret, 0, sizeof(*ret));
    snprintf(ret->name, sizeof(ret->name), "Emulated GPU %d", physical()[(size_t)n]);
    ret->uuid = uuid_of(physical()[(size_t)n]);
    ret->totalGlobalMem = d.total;
    ret->sharedMemPerBlock = 48 << 10;
    ret->sharedMemPerBlockOptin = (size_t)(d.major == 7 ? 64 : d.major == 8 ? 99 : 227) << 10;
    ret->regsPerBlock = 65536;
    ret->warpSize = 32;
    ret->maxThreadsPerBlock = 1024;
    ret->maxThreadsDim[0] = ret->maxThreadsDim[1] = 1024;
    ret->maxThreadsDim[2] = 64;
    ret->maxGridSize[0] = 2147483647;
    ret->maxGridSize[1] = ret->maxGridSize[2] = 65535;
    ret->totalConstMem = 64 << 10;
    ret->major = d.major;
    ret->minor = d.minor;
    ret->multiProcessorCount = 16;
    ret->concurrentKernels = 1;
    ret->asyncEngineCount = 2;
    ret->unifiedAddressing = 1;
    ret->canMapHostMemory = 1;
    ret->pciBusID = physical()[(size_t)n] + 1;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaDeviceGetAttribute(int *ret, cudaDeviceAttr what, int n)
{
    cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, n);

    if (e != cudaSuccess)
        return e;
    switch (what) {
    case cudaDevAttrComputeCapabilityMajor:
        *ret = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *ret = p.minor;
        break;
    case cudaDevAttrMultiProcessorCount:
        *ret = p.multiProcessorCount;
        break;
    case cudaDevAttrMaxThreadsPerBlock:
        *ret = p.maxThreadsPerBlock;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *ret = (int)p.sharedMemPerBlockOptin;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *ret = (int)p.sharedMemPerBlock;
        break;
    case cudaDevAttrWarpSize:
        *ret = 32;
        break;
    case cudaDevAttrComputeMode:
        *ret = cudaComputeModeDefault;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *ret = (int)p.sharedMemPerBlockOptin + 1024;
        break;
    case cudaDevAttrL2CacheSize:
        *ret = 4 << 20;
        break;
    default:
        fail("cudaDeviceGetAttribute: attribute %d is not emulated", (int)what);
    }
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    guard g(the_machine().lock);
    device *d = nullptr;
    cudaError_t e = usable(&d);
    uint64_t used;

    if (e != cudaSuccess)
        return e;
    used = d->held + (d->total > 4 * CONTEXT ? CONTEXT : 0);
    *ret_total = d->total;
    *ret_free = used < d->total ? d->total - used : 0;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaMalloc(void **ret, size_t bytes)
{
    machine &m = the_machine();
    guard g(m.lock);
    size_t rounded = (bytes + GRAIN - 1) / GRAIN * GRAIN, available, total;
    device *d = nullptr;
    cudaError_t e = usable(&d);
    char *p;

    if (e != cudaSuccess || (e = unless_capturing("cudaMalloc")) != cudaSuccess)
        return e;
    if (bytes == 0) {
        *ret = nullptr;
        return cudaSuccess;
    }
    if (++m.mallocs == m.fail_malloc)
        return remember(cudaErrorMemoryAllocation);
    cudaMemGetInfo(&available, &total);
    if (rounded > available || rounded < bytes || (p = find_gap(*d, rounded)) == nullptr)
        return remember(cudaErrorMemoryAllocation);
    touching t;

    memset(p - RED, RED_BYTE, RED);
    fill(p, bytes, FRESH);
    memset(p + bytes, RED_BYTE, rounded - bytes + RED);
    d->blocks[p] = bytes;
    races_forget(p, bytes);
    d->held += rounded;
    *ret = p;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaFree(void *p)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e;
    device *d = nullptr;

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (p == nullptr)
        return cudaSuccess;
    if ((e = unless_capturing("cudaFree")) != cudaSuccess)
        return e;
    d = device_at(p);
    if (d == nullptr || d->blocks.count((char *)p) == 0)
        fail("cudaFree of something that cudaMalloc did not give");
    drain((int)(d - m.devices.data()));
    size_t bytes = d->blocks[(char *)p];
    touching t;

    check_block((char *)p, bytes);
    fill((char *)p, bytes, FREED);
    if (bytes > FILLED)
        madvise((void *)(((uintptr_t)p + 4095) & ~(uintptr_t)4095), (bytes - 4096) & ~(size_t)4095,
                MADV_DONTNEED);
    d->held -= (bytes + GRAIN - 1) / GRAIN * GRAIN;
    d->blocks.erase((char *)p);
    return remember(d->sticky);
}

EMULATED_API cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned)
{
    machine &m = the_machine();
    guard g(m.lock);
    device *d = nullptr;
    cudaError_t e = usable(&d);

    if (e != cudaSuccess || (e = unless_capturing("cudaHostAlloc")) != cudaSuccess)
        return e;
    char *p = ++m.hostallocs == m.fail_hostalloc
                  ? nullptr
                  : (char *)aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (p == nullptr)
        return remember(cudaErrorMemoryAllocation);
    memset(p, m.dry ? 0 : FRESH, bytes);
    m.pinned[p] = bytes;
    *ret = p;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaMallocHost(void **ret, size_t bytes)
{
    return cudaHostAlloc(ret, bytes, 0);
}

EMULATED_API cudaError_t cudaFreeHost(void *p)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e;

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (p == nullptr)
        return cudaSuccess;
    if ((e = unless_capturing("cudaFreeHost")) != cudaSuccess)
        return e;
    if (m.pinned.erase((char *)p) == 0)
        fail("cudaFreeHost of something that cudaHostAlloc did not give");
    drain_all();
    free(p);
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute what, int value)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, thread_device);

    if (e != cudaSuccess)
        return e;
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || (size_t)value > p.sharedMemPerBlockOptin)
        return remember(cudaErrorInvalidValue);
    m.shared_limit[kernel] = (size_t)value;
    return cudaSuccess;
}

#define NAMES(X)                                                                                   \
    X(cudaSuccess, "no error")                                                                     \
    X(cudaErrorInvalidValue, "invalid argument")                                                   \
    X(cudaErrorMemoryAllocation, "out of memory")                                                  \
    X(cudaErrorInitializationError, "initialization error")                                        \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                             \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                     \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                            \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                   \
    X(cudaErrorNotReady, "device not ready")                                                       \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                         \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")       \
    X(cudaErrorStreamCaptureInvalidated,                                                           \
      "operation failed due to a previous error during capture")                                   \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                        \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")  \
    X(cudaErrorStreamCaptureImplicit,                                                              \
      "operation would make the legacy stream depend on a capturing blocking stream")              \
    X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing "  \
                              "stream")                                                            \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")

EMULATED_API const char *cudaGetErrorName(cudaError_t e)
{
#define NAME(code, text) \
    if (e == code)       \
        return #code;
    NAMES(NAME)
    return "unrecognized error code";
}

EMULATED_API const char *cudaGetErrorString(cudaError_t e)
{
#define TEXT(code, text) \
    if (e == code)       \
        return text;
    NAMES(TEXT)
    return "unrecognized error code";
}
