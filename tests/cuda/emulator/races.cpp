/* tests/cuda/emulator/races.cpp - who touched which device memory, and whether two streams that
 * touched the same had an order.
 *
 * With NIGHTSHIFT_EMULATED_RACES=1. Order is what the program asked for, not what happened: each
 * stream counts its operations, an operation carries how much of every stream it comes after (from
 * its own stream, from events that the stream waited for, from what the host had waited for when it
 * was queued), and memory remembers, by GRANULE bytes, the last writer and the last reader of each
 * stream. A read after another stream's write, or a write after another's read or write, that does
 * not come after it is a race, in whatever order the emulator ran the two.
 *
 * What kernels touch is told by the compiler: a module whose kernels are compiled with
 * -fsanitize=thread calls the functions below for every access (ThreadSanitizer itself is not
 * linked). The doubles of the libraries, copies and memsets say it themselves. What the host does
 * to pinned memory is not seen; the lazy order of NIGHTSHIFT_EMULATED_ASYNC shows that. */
#include <sys/mman.h>

#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"

namespace emulated
{
namespace
{
enum { GRANULE = 16, TOLD = 10 };

struct cell {
    uint32_t write, writer;      /* the writer's count, and its stream; count 0: none */
    uint32_t read[RACE_STREAMS]; /* count, by stream; 0: none */
    const char *name;            /* the writer's */
};

struct {
    const char *base;
    size_t bytes;
    cell *cells;
} shadow[8];

/* What runs now; stream < 0: nothing, the emulator touches memory for itself. */
struct {
    int stream = -1;
    clock_of clock;
    const char *name;
} now;

int64_t found;

void tell(const char *what, const void *p, const char *other)
{
    if (++found <= TOLD)
        fprintf(stderr, "emulated CUDA: race: %s %s %p, and nothing orders it after %s\n", now.name,
                what, p, other);
}

void touch_cell(cell &c, const void *p, bool write)
{
    uint32_t me = (uint32_t)now.stream;

    if (c.write && c.writer != me && c.write > now.clock[c.writer])
        tell(write ? "writes" : "reads", p, c.name);
    for (uint32_t s = 0; write && s < RACE_STREAMS; s++)
        if (s != me && c.read[s] > now.clock[s])
            tell("writes", p, "a reader");
    if (write) {
        c.write = now.clock[me];
        c.writer = me;
        c.name = now.name;
    } else {
        c.read[me] = now.clock[me];
    }
}
} // namespace

void races_device(const char *base, size_t bytes)
{
    for (auto &s : shadow) {
        if (s.base)
            continue;
        s.base = base;
        s.bytes = bytes;
        s.cells = (cell *)mmap(nullptr, bytes / GRANULE * sizeof(cell), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (s.cells == MAP_FAILED)
            fail("no addresses to watch the memory of a device: give it less");
        return;
    }
    fail("more devices than are watched");
}

void races_forget(const void *p, size_t bytes)
{
    for (auto &s : shadow)
        if (s.base && (const char *)p >= s.base && (const char *)p < s.base + s.bytes) {
            size_t from = (size_t)((const char *)p - s.base) / GRANULE;

            memset((void *)(s.cells + from), 0, (bytes + GRANULE - 1) / GRANULE * sizeof(cell));
        }
}

void races_begin(int stream, const clock_of &clock, const char *name)
{
    now.stream = stream;
    now.clock = clock;
    now.name = name;
}

void races_name(const char *name) { now.name = name; }
void races_end(void) { now.stream = -1; }
int64_t races_found(void) { return found; }

void touch(const void *p, size_t bytes, bool write)
{
    if (now.stream < 0 || bytes == 0)
        return;
    for (auto &s : shadow) {
        if (!s.base)
            return;
        if ((const char *)p < s.base || (const char *)p >= s.base + s.bytes)
            continue;
        size_t from = (size_t)((const char *)p - s.base) / GRANULE;
        size_t to = (size_t)((const char *)p - s.base + bytes - 1) / GRANULE;

        for (size_t i = from; i <= to; i++)
            touch_cell(s.cells[i], s.base + i * GRANULE, write);
        return;
    }
}
} // namespace emulated

/* What -fsanitize=thread has compilers call. */
#define ACCESS(name, bytes, write) \
    EMULATED_API void __tsan_##name(void *p) { emulated::touch(p, bytes, write); }
ACCESS(read1, 1, false)
ACCESS(read2, 2, false)
ACCESS(read4, 4, false)
ACCESS(read8, 8, false)
ACCESS(read16, 16, false)
ACCESS(write1, 1, true)
ACCESS(write2, 2, true)
ACCESS(write4, 4, true)
ACCESS(write8, 8, true)
ACCESS(write16, 16, true)
ACCESS(unaligned_read2, 2, false)
ACCESS(unaligned_read4, 4, false)
ACCESS(unaligned_read8, 8, false)
ACCESS(unaligned_read16, 16, false)
ACCESS(unaligned_write2, 2, true)
ACCESS(unaligned_write4, 4, true)
ACCESS(unaligned_write8, 8, true)
ACCESS(unaligned_write16, 16, true)
ACCESS(vptr_read, 8, false)

EMULATED_API void __tsan_read_range(void *p, unsigned long n) { emulated::touch(p, n, false); }
EMULATED_API void __tsan_write_range(void *p, unsigned long n) { emulated::touch(p, n, true); }
EMULATED_API void __tsan_vptr_update(void **, void *) {}
EMULATED_API void __tsan_func_entry(void *) {}
EMULATED_API void __tsan_func_exit(void) {}
EMULATED_API void __tsan_init(void) {}
