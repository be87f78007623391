/* tests/cuda/emulator/streams.cpp - streams, copies, events, graphs, launches.
 *
 * A stream is a list of operations. At once: each runs when it is put there. Lazily: only when
 * somebody waits (for the stream, an event, the device, or by a call that the real run time makes
 * wait), with what they depend on before them, and nothing else. So what was forgotten to be waited
 * for has not happened yet, and what was reused too early is copied with the wrong contents. */
#include <cstdio>
#include <cstring>
#include <set>

#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"

namespace emulated
{
namespace
{
/* Events may still point there. Never destroyed, like all that outlives the tests. */
auto &graveyard = *new std::vector<CUstream_st *>();

void join(clock_of &a, const clock_of &b)
{
    for (size_t i = 0; i < a.size(); i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
}

/* Streams by number, and how many operations each had. A number is given again when its stream is
 * gone, whose operations have all run. */
clock_of counted;
bool taken[RACE_STREAMS];

int number_of_new(void)
{
    for (int i = 0; i < RACE_STREAMS; i++)
        if (!taken[i]) {
            taken[i] = true;
            return i;
        }
    if (the_machine().races)
        fail("more streams than races can be looked for in");
    return 0;
}

CUstream_st *legacy(int device)
{
    static auto &made = *new std::map<int, CUstream_st *>();
    CUstream_st *&s = made[device];

    if (s == nullptr) {
        s = new CUstream_st();
        s->device = device;
        s->legacy = s->blocking = true;
        s->number = number_of_new();
    }
    return s;
}

CUstream_st *stream_of(cudaStream_t s)
{
    bool is_default = s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread;

    return is_default ? legacy(current_device()) : s;
}

uint64_t tail(const CUstream_st *s) { return s->first + s->ops.size(); }

device &device_of(const CUstream_st *s) { return the_machine().devices[(size_t)s->device]; }

cudaError_t spoil(CUstream_st *s, cudaError_t e)
{
    for (CUstream_st *o : the_machine().streams)
        if (o->capture == s->capture)
            o->spoilt = true;
    return remember(e);
}

/* What the caller of an operation must respect before anything else. */
cudaError_t ready(CUstream_st *s)
{
    machine &m = the_machine();

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (device_of(s).sticky != cudaSuccess)
        return remember(device_of(s).sticky);
    if (s->spoilt)
        return remember(cudaErrorStreamCaptureInvalidated);
    if (s->legacy)
        for (CUstream_st *o : m.streams)
            if (o->capture && o->blocking)
                return spoil(o, cudaErrorStreamCaptureImplicit);
    return cudaSuccess;
}

void compact(CUstream_st *s)
{
    if (s->done == tail(s)) {
        s->first = s->done;
        s->ops.clear();
    }
}
} // namespace

bool capturing(cudaStream_t s) { return stream_of(s)->capture != nullptr; }

cudaError_t unless_capturing(const char *call)
{
    for (CUstream_st *s : the_machine().streams)
        if (s->capture && s->origin && s->mode != cudaStreamCaptureModeRelaxed) {
            fprintf(stderr, "emulated CUDA: %s while a stream is captured\n", call);
            return spoil(s, cudaErrorStreamCaptureUnsupported);
        }
    return cudaSuccess;
}

void run_until(queue_point p)
{
    CUstream_st *s = p.stream;
    touching t;

    while (s->done < p.n) {
        operation op = std::move(s->ops[s->done - s->first]);

        s->done++;
        for (const queue_point &before : op.after)
            run_until(before);
        if (device_of(s).sticky == cudaSuccess && op.run) {
            if (the_machine().races)
                races_begin(s->number, op.clock, "");
            op.run();
            races_end();
        }
    }
    compact(s);
}

void drain(int device)
{
    machine &m = the_machine();

    for (size_t i = m.streams.size(); i-- > 0;)
        if (m.streams[i]->device == device) {
            run_until({m.streams[i], tail(m.streams[i])});
            join(m.host, m.streams[i]->clock);
        }
    run_until({legacy(device), tail(legacy(device))});
    join(m.host, legacy(device)->clock);
    check_red_zones(m.devices[(size_t)device]);
}

void drain_all(void)
{
    for (size_t i = 0; i < the_machine().devices.size(); i++)
        drain((int)i);
}

cudaError_t enqueue(cudaStream_t stream, const char *name, std::function<void()> run)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUstream_st *s = stream_of(stream);
    cudaError_t e = ready(s);
    operation op;

    if (e != cudaSuccess)
        return e;
    if (m.dry)
        run = [] {};
    auto named = [name, run = std::move(run)] {
        races_name(name);
        run();
    };
    if (s->capture) {
        s->capture->nodes.push_back(std::move(named));
        return cudaSuccess;
    }
    op.run = std::move(named);
    if (s->legacy) {
        for (CUstream_st *o : m.streams)
            if (o->blocking && o->device == s->device) {
                op.after.push_back({o, tail(o)});
                join(s->clock, o->clock);
            }
    } else if (s->blocking) {
        op.after.push_back({legacy(s->device), tail(legacy(s->device))});
        join(s->clock, legacy(s->device)->clock);
    }
    join(s->clock, m.host);
    s->clock[(size_t)s->number] = ++counted[(size_t)s->number];
    op.clock = s->clock;
    s->ops.push_back(std::move(op));
    if (!m.async)
        run_until({s, tail(s)});
    return remember(device_of(s).sticky);
}

void question(const std::string &line)
{
    static std::set<std::string> *asked = new std::set<std::string>;
    const char *file = getenv("NIGHTSHIFT_EMULATED_QUESTIONS");
    FILE *f = file && asked->insert(line).second ? fopen(file, "ae") : nullptr;

    if (!f)
        return;
    fprintf(f, "%s\n", line.c_str());
    fclose(f);
}

static void check_launch(const launch_spec &l)
{
    machine &m = the_machine();
    uint64_t threads = (uint64_t)l.block.x * l.block.y * l.block.z;
    auto limit = m.shared_limit.find(l.kernel);
    size_t shared = limit == m.shared_limit.end() ? 48u << 10 : limit->second;

    if (threads == 0 || threads > 1024 || l.block.z > 64)
        fail("kernel %s: a block of %llu threads", l.name, (unsigned long long)threads);
    if (l.grid.x == 0 || l.grid.y == 0 || l.grid.z == 0 || l.grid.x > 2147483647u ||
        l.grid.y > 65535 || l.grid.z > 65535)
        fail("kernel %s: a grid of %u x %u x %u blocks", l.name, l.grid.x, l.grid.y, l.grid.z);
    if (l.shared > shared)
        fail("kernel %s: %zu bytes of dynamic shared memory, where %zu are allowed", l.name,
             l.shared, shared);
}

void launch(const launch_spec &l, std::function<void()> thread)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess) {
        remember(m.absent);
        return;
    }
    check_launch(l);
    CUstream_st *s = stream_of(l.stream);

    if (s->device != current_device()) {
        remember(cudaErrorInvalidResourceHandle);
        return;
    }
    enqueue(l.stream, l.name, [l, s, thread = std::move(thread)] {
        machine &mm = the_machine();

        mm.launches++;
        if (mm.fail_launch > 0 && mm.launches >= mm.fail_launch) {
            device_of(s).sticky = cudaErrorIllegalAddress;
            return;
        }
        run_grid(l.name, l.grid, l.block, l.shared, l.shared_begin, l.shared_end, mm.async, thread);
    });
}
} // namespace emulated

using namespace emulated;

/* --- copies --------------------------------------------------------------------------------- */

/* Which sides are device memory, as `kind` says and the addresses confirm. */
static cudaError_t sides(const void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                         bool *to_device, bool *from_device)
{
    bool to = is_device_address(dst), from = is_device_address(src);
    bool wants_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool wants_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;

    if (kind != cudaMemcpyDefault && (to != wants_to || from != wants_from)) {
        fprintf(stderr, "emulated CUDA: a copy's direction is not that of its addresses\n");
        return remember(cudaErrorInvalidValue);
    }
    if ((to && !on_device(dst, bytes)) || (from && !on_device(src, bytes))) {
        fprintf(stderr, "emulated CUDA: a copy of %zu bytes leaves its piece of memory\n", bytes);
        return remember(cudaErrorInvalidValue);
    }
    *to_device = to;
    *from_device = from;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                                         cudaMemcpyKind kind, cudaStream_t stream)
{
    machine &m = the_machine();
    guard g(m.lock);
    bool to = false, from = false;
    cudaError_t e;

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (bytes == 0)
        return cudaSuccess;
    if ((e = sides(dst, src, bytes, kind, &to, &from)) != cudaSuccess)
        return e;
    bool pageable = (!to && !is_pinned(dst, bytes)) || (!from && !is_pinned(src, bytes));

    if (pageable && capturing(stream))
        return spoil(stream_of(stream), cudaErrorStreamCaptureUnsupported);
    if (!from && pageable && to) { /* taken to a staging buffer before the call returns */
        auto staged =
            std::make_shared<std::vector<char>>((const char *)src, (const char *)src + bytes);

        return enqueue(stream, "a copy", [=] {
            touch(dst, bytes, true);
            memcpy(dst, staged->data(), bytes);
        });
    }
    e = enqueue(stream, "a copy", [=] {
        touch(src, bytes, false);
        touch(dst, bytes, true);
        memmove(dst, src, bytes);
    });
    if (e == cudaSuccess && pageable) {
        run_until({stream_of(stream), tail(stream_of(stream))});
        join(m.host, stream_of(stream)->clock);
    }
    return e;
}

EMULATED_API cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e = cudaMemcpyAsync(dst, src, bytes, kind, nullptr);

    if (e != cudaSuccess)
        return e;
    CUstream_st *s = legacy(current_device());

    run_until({s, tail(s)});
    join(m.host, s->clock);
    return remember(device_of(s).sticky);
}

EMULATED_API cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                                           size_t src_pitch, size_t width, size_t height,
                                           cudaMemcpyKind kind, cudaStream_t stream)
{
    for (size_t i = 0; i < height; i++) {
        cudaError_t e = cudaMemcpyAsync((char *)dst + i * dst_pitch,
                                        (const char *)src + i * src_pitch, width, kind, stream);

        if (e != cudaSuccess)
            return e;
    }
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (bytes == 0)
        return cudaSuccess;
    if (!on_device(dst, bytes)) {
        fprintf(stderr, "emulated CUDA: a memset of %zu bytes leaves its piece of memory\n", bytes);
        return remember(cudaErrorInvalidValue);
    }
    return enqueue(stream, "a memset", [=] {
        touch(dst, bytes, true);
        memset(dst, value, bytes);
    });
}

EMULATED_API cudaError_t cudaMemset(void *dst, int value, size_t bytes)
{
    return cudaMemsetAsync(dst, value, bytes, nullptr);
}

/* --- streams -------------------------------------------------------------------------------- */

EMULATED_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUstream_st *s = new CUstream_st();

    s->device = current_device();
    s->number = number_of_new();
    s->blocking = (flags & cudaStreamNonBlocking) == 0;
    m.streams.push_back(s);
    *ret = s;
    return remember(device_of(s).sticky);
}

EMULATED_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    guard g(the_machine().lock);

    *least = 0;
    *greatest = -5;
    return remember(the_machine().absent);
}

/* Nothing here runs at once with anything: a priority has no effect. */
EMULATED_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(ret, flags);
}

EMULATED_API cudaError_t cudaStreamCreate(cudaStream_t *ret)
{
    return cudaStreamCreateWithFlags(ret, cudaStreamDefault);
}

EMULATED_API cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    machine &m = the_machine();
    guard g(m.lock);

    for (size_t i = 0; i < m.streams.size(); i++)
        if (m.streams[i] == s) {
            run_until({s, tail(s)});
            taken[s->number] = false;
            m.streams.erase(m.streams.begin() + (ptrdiff_t)i);
            graveyard.push_back(s);
            return cudaSuccess;
        }
    return remember(cudaErrorInvalidResourceHandle);
}

EMULATED_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUstream_st *s = stream_of(stream);
    cudaError_t e;

    if (s->capture)
        return spoil(s, cudaErrorStreamCaptureUnsupported);
    if ((e = unless_capturing("cudaStreamSynchronize")) != cudaSuccess)
        return e;
    run_until({s, tail(s)});
    join(m.host, s->clock);
    if (!m.async || s->done == tail(s))
        check_red_zones(device_of(s));
    return remember(device_of(s).sticky);
}

EMULATED_API cudaError_t cudaDeviceSynchronize(void)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e;

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if ((e = unless_capturing("cudaDeviceSynchronize")) != cudaSuccess)
        return e;
    drain(current_device());
    return remember(m.devices[(size_t)current_device()].sticky);
}

EMULATED_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUstream_st *s = stream_of(stream);
    cudaError_t e = ready(s);
    operation op;

    if (e != cudaSuccess)
        return e;
    if (event->capture) { /* joins the capture */
        if (s->capture && s->capture != event->capture)
            return spoil(s, cudaErrorStreamCaptureIsolation);
        if (!s->capture)
            event->capture->streams.push_back(s);
        s->capture = event->capture;
        return cudaSuccess;
    }
    if (s->capture)
        return event->at.stream ? spoil(s, cudaErrorStreamCaptureIsolation) : cudaSuccess;
    if (event->at.stream == nullptr)
        return cudaSuccess;
    op.after.push_back(event->at);
    join(s->clock, event->clock);
    s->ops.push_back(std::move(op));
    if (!m.async)
        run_until({s, tail(s)});
    return cudaSuccess;
}

/* --- events --------------------------------------------------------------------------------- */

EMULATED_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUevent_st *e = new CUevent_st();

    e->device = current_device();
    e->timing = (flags & cudaEventDisableTiming) == 0;
    m.events++;
    *ret = e;
    return remember(m.devices[(size_t)current_device()].sticky);
}

EMULATED_API cudaError_t cudaEventCreate(cudaEvent_t *ret)
{
    return cudaEventCreateWithFlags(ret, cudaEventDefault);
}

EMULATED_API cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    guard g(the_machine().lock);

    the_machine().events--;
    delete e;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUstream_st *s = stream_of(stream);
    cudaError_t e = ready(s);

    if (e != cudaSuccess)
        return e;
    if (event->device != s->device)
        return remember(cudaErrorInvalidResourceHandle);
    event->capture = s->capture;
    if (!s->capture && event->timing) {
        auto ms = event->ms = std::make_shared<double>(0.0);

        enqueue(stream, "an event", [ms] { *ms = the_machine().clock_ms; });
    }
    if (!s->capture) {
        event->at = {s, tail(s)};
        event->clock = s->clock;
    }
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e;

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (event->capture)
        return remember(cudaErrorCapturedEvent);
    if ((e = unless_capturing("cudaEventSynchronize")) != cudaSuccess)
        return e;
    if (event->at.stream) {
        run_until(event->at);
        join(m.host, event->clock);
    }
    return remember(m.devices[(size_t)event->device].sticky);
}

EMULATED_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e;

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    if (event->capture)
        return remember(cudaErrorCapturedEvent);
    if ((e = unless_capturing("cudaEventQuery")) != cudaSuccess)
        return e;
    if (event->at.stream && event->at.stream->done >= event->at.n)
        join(m.host, event->clock);
    if (event->at.stream == nullptr || event->at.stream->done >= event->at.n)
        return remember(m.devices[(size_t)event->device].sticky);
    run_until({event->at.stream, event->at.stream->done + 1});
    return cudaErrorNotReady;
}

/* By a clock that products move alone (cublaslt.cpp). */
EMULATED_API cudaError_t cudaEventElapsedTime(float *ret, cudaEvent_t start, cudaEvent_t end)
{
    guard g(the_machine().lock);

    if (!start->timing || !end->timing || !start->ms || !end->ms)
        return remember(cudaErrorInvalidResourceHandle);
    if (end->at.stream->done < end->at.n)
        return cudaErrorNotReady;
    *ret = (float)(*end->ms - *start->ms);
    return cudaSuccess;
}

/* --- graphs --------------------------------------------------------------------------------- */

EMULATED_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUstream_st *s = stream_of(stream);

    if (s->legacy)
        return remember(cudaErrorStreamCaptureUnsupported);
    if (s->capture)
        return remember(cudaErrorIllegalState);
    if (device_of(s).sticky != cudaSuccess)
        return remember(device_of(s).sticky);
    s->capture = new CUgraph_st();
    s->capture->streams.push_back(s);
    s->mode = mode;
    s->origin = true;
    s->spoilt = false;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret)
{
    machine &m = the_machine();
    guard g(m.lock);

    if (m.absent != cudaSuccess)
        return remember(m.absent);
    CUstream_st *s = stream_of(stream);
    CUgraph_st *graph = s->capture;
    bool spoilt = s->spoilt;

    if (graph == nullptr || !s->origin)
        return remember(cudaErrorIllegalState);
    for (CUstream_st *o : graph->streams) {
        o->capture = nullptr;
        o->origin = o->spoilt = false;
    }
    graph->streams.clear();
    if (spoilt || device_of(s).sticky != cudaSuccess) {
        delete graph;
        *ret = nullptr;
        return remember(spoilt ? cudaErrorStreamCaptureInvalidated : device_of(s).sticky);
    }
    m.graphs++;
    *ret = graph;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *ret)
{
    guard g(the_machine().lock);
    CUstream_st *s = stream_of(stream);

    *ret = !s->capture ? cudaStreamCaptureStatusNone
           : s->spoilt ? cudaStreamCaptureStatusInvalidated
                       : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret, cudaGraph_t graph,
                                              unsigned long long)
{
    machine &m = the_machine();
    guard g(m.lock);
    cudaError_t e = unless_capturing("cudaGraphInstantiate");

    if (e != cudaSuccess)
        return e;
    CUgraphExec_st *x = new CUgraphExec_st();

    x->nodes = std::make_shared<std::vector<std::function<void()>>>(graph->nodes);
    x->device = current_device();
    m.graphs++;
    *ret = x;
    return remember(m.devices[(size_t)current_device()].sticky);
}

EMULATED_API cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

EMULATED_API cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t stream)
{
    guard g(the_machine().lock);
    auto nodes = x->nodes;

    if (capturing(stream)) {
        fprintf(stderr, "emulated CUDA: a graph inside a graph is not emulated\n");
        return spoil(stream_of(stream), cudaErrorStreamCaptureUnsupported);
    }
    return enqueue(stream, "a graph", [nodes] {
        for (const auto &run : *nodes)
            run();
    });
}

EMULATED_API cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    guard g(the_machine().lock);

    the_machine().graphs -= graph != nullptr;
    delete graph;
    return cudaSuccess;
}

EMULATED_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    guard g(the_machine().lock);

    the_machine().graphs -= x != nullptr;
    delete x;
    return cudaSuccess;
}
