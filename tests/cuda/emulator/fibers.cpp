/* tests/cuda/emulator/fibers.cpp - the threads of a block, as fibers.
 *
 * A fiber takes a thread, runs it, and when it ends takes the next one: a kernel without barriers
 * is a plain loop. A thread that waits leaves its fiber behind, and another goes on. Ready threads
 * go before new ones, so that a warp runs through its collectives before the next one begins.
 *
 *   new --taken--> running --barrier, collective--> waiting --the last one came--> ready -->
 * running
 *                     |
 *                     +--> exited */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#include <sanitizer/common_interface_defs.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif
#endif

#ifdef FIBER_ASAN
enum : size_t { STACK = 512 << 10 };
#else
enum : size_t { STACK = 128 << 10 };
#endif

namespace emulated
{
uint3 thread_idx, block_idx;
dim3 block_dim, grid_dim;

namespace
{
enum state { NEW, RUNNING, AT_BARRIER, AT_COLLECTIVE, READY, EXITED };

struct fiber {
    char *stack; /* NULL: the caller's own */
    size_t size; /* of it; they differ, so that not all tops fall into the same sets of the cache */
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
    void *fake; /* the sanitizer's */
};

struct thread {
    enum state state;
    fiber *on;
    uint3 idx;
    const char *file; /* where it waits */
    int line;
    unsigned mask;
    collective what;
    uint64_t value, result;
    unsigned source;
    int predicate;
};

struct warp {
    unsigned exited, meeting; /* lanes; those beyond the block have exited */
};

struct block {
    const char *name;
    const std::function<void()> *body;
    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<unsigned> ready; /* a ring */
    size_t ready_head, ready_count;
    unsigned total, started, exited;
    unsigned at_barrier;
    int barrier_kind;
    bool backwards;
    unsigned current;
    char *dynamic;
};

block b;
fiber outside;
fiber *now = &outside;
auto &spare = *new std::vector<fiber *>(); /* never destroyed */

#if defined(__x86_64__)
extern "C" void nightshift_emulated_switch(void **save, void *to);
asm(".text\n"
    ".globl nightshift_emulated_switch\n"
    ".hidden nightshift_emulated_switch\n"
    ".type nightshift_emulated_switch,@function\n"
    "nightshift_emulated_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size nightshift_emulated_switch,.-nightshift_emulated_switch\n");
#endif

#ifdef FIBER_ASAN
const void *outside_bottom;
size_t outside_size;
#endif

/* leaving: this fiber is not gone back to. */
void switch_to(fiber *to, bool leaving)
{
    fiber *from = now;

#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(leaving ? nullptr : &from->fake,
                                   to->stack ? to->stack : outside_bottom,
                                   to->stack ? to->size : outside_size);
#endif
    (void)leaving;
    now = to;
#if defined(__x86_64__)
    nightshift_emulated_switch(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(now->fake, nullptr, nullptr);
#endif
}

void run_threads(void);

void fiber_main(void)
{
#ifdef FIBER_ASAN
    const void *bottom;
    size_t size;

    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
    if (outside_bottom == nullptr) {
        outside_bottom = bottom;
        outside_size = size;
    }
#endif
    run_threads();
}

fiber *fiber_new(void)
{
    static size_t made;
    fiber *f;

    if (!spare.empty()) {
        f = spare.back();
        spare.pop_back();
    } else {
        char *p = (char *)mmap(nullptr, STACK + 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED)
            fail("no memory for the stack of a thread");
        mprotect(p, 4096, PROT_NONE);
        f = new fiber();
        f->stack = p + 4096;
        f->size = STACK - made++ * 320 % 8192;
    }
    f->fake = nullptr;
#if defined(__x86_64__)
    void **sp = (void **)(f->stack + f->size);

    *--sp = nullptr; /* where fiber_main would return to: keeps the stack aligned */
    *--sp = (void *)fiber_main;
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
    f->sp = sp;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = f->size;
    makecontext(&f->context, fiber_main, 0);
#endif
    return f;
}

void make_ready(unsigned t)
{
    b.threads[t].state = READY;
    size_t at = b.ready_head + b.ready_count++;

    b.ready[at < b.total ? at : at - b.total] = t;
}

unsigned take_ready(void)
{
    unsigned t = b.ready[b.ready_head];

    b.ready_head = b.ready_head + 1 < b.total ? b.ready_head + 1 : 0;
    b.ready_count--;
    return t;
}

void enter(unsigned t)
{
    b.current = t;
    b.threads[t].state = RUNNING;
    thread_idx = b.threads[t].idx;
}

/* The block can go no further. Says what its threads wait for. */
[[noreturn]] void stuck(void)
{
    for (unsigned t = 0, told = 0; t < b.total && told < 6; t++) {
        const thread &th = b.threads[t];
        const thread *before = t > 0 ? &b.threads[t - 1] : nullptr;

        if (before && before->state == th.state && before->line == th.line)
            continue;
        told++;
        if (th.state == AT_BARRIER || th.state == AT_COLLECTIVE)
            fprintf(stderr, "  from thread %u on: waits at %s:%d (%s, mask %08x)\n", t, th.file,
                    th.line, th.state == AT_BARRIER ? "barrier" : "collective", th.mask);
        else
            fprintf(stderr, "  from thread %u on: %s\n", t,
                    th.state == EXITED ? "has exited" : "runs");
    }
    if (b.at_barrier > 0)
        fail("a barrier is not reached by all threads of the block");
    fail("a collective is not reached by all lanes of its mask");
}

void exit_thread(unsigned t)
{
    unsigned first = t & ~31u;
    warp &w = b.warps[t / 32];

    b.threads[t].state = EXITED;
    b.exited++;
    w.exited |= 1u << (t - first);
    for (unsigned m = w.meeting; m; m &= m - 1) {
        const thread &other = b.threads[first + (unsigned)__builtin_ctz(m)];

        if (other.mask >> (t - first) & 1) {
            fprintf(stderr, "  %s:%d\n", other.file, other.line);
            fail("a collective's mask names lane %u, which has exited", t - first);
        }
    }
}

/* A fiber's life: new threads one after the other, until none is left; then it is not needed. */
void run_threads(void)
{
    for (;;) {
        if (b.ready_count > 0 || b.started == b.total)
            break;
        unsigned i = b.started++, t = b.backwards ? b.total - 1 - i : i;

        enter(t);
        b.threads[t].on = now;
        (*b.body)();
        t = b.current;
        exit_thread(t);
    }
    fiber *self = now;

    spare.push_back(self); /* nobody takes it before the switch */
    if (b.ready_count > 0) {
        unsigned t = take_ready();

        enter(t);
        switch_to(b.threads[t].on, true);
    }
    if (b.exited != b.total)
        stuck();
    switch_to(&outside, true);
    abort();
}

/* Leaves the current thread where it is, and goes on with another. */
void wait(void)
{
    unsigned self = b.current;

    if (b.ready_count > 0) {
        unsigned t = take_ready();

        enter(t);
        if (t != self)
            switch_to(b.threads[t].on, false);
    } else if (b.started < b.total) {
        switch_to(fiber_new(), false);
    } else {
        stuck();
    }
    /* Whoever came back here has called enter(self). */
}

/* All lanes of the mask are there. */
void check_alike(const thread *w, unsigned mask)
{
    unsigned leader = (unsigned)__builtin_ctz(mask);

    for (unsigned m = mask & (mask - 1); m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);

        if (w[l].mask != mask || w[l].what != w[leader].what) {
            fprintf(stderr, "  lane %u at %s:%d, mask %08x; lane %u at %s:%d, mask %08x\n", leader,
                    w[leader].file, w[leader].line, w[leader].mask, l, w[l].file, w[l].line,
                    w[l].mask);
            fail("lanes of one warp meet at different collectives");
        }
    }
}

void finish_shuffle(thread *w, unsigned mask)
{
    for (unsigned m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);

        if (!(mask >> w[l].source & 1)) {
            fprintf(stderr, "  %s:%d\n", w[l].file, w[l].line);
            fail("lane %u shuffles from lane %u, which takes no part", l, w[l].source);
        }
        w[l].result = w[w[l].source].value;
    }
}

uint64_t lanes_with(const thread *w, unsigned mask, uint64_t value)
{
    uint64_t lanes = 0;

    for (unsigned m = mask; m; m &= m - 1)
        if (w[__builtin_ctz(m)].value == value)
            lanes |= (uint64_t)1 << __builtin_ctz(m);
    return lanes;
}

uint64_t reduce(const thread *w, unsigned mask, collective what)
{
    uint64_t r = w[__builtin_ctz(mask)].value;

    for (unsigned m = mask & (mask - 1); m; m &= m - 1) {
        uint64_t x = w[__builtin_ctz(m)].value;

        r = what == REDUCE_ADD   ? r + x
            : what == REDUCE_OR  ? r | x
            : what == REDUCE_MIN ? (uint64_t)std::min((int64_t)r, (int64_t)x)
                                 : (uint64_t)std::max((int64_t)r, (int64_t)x);
    }
    return r;
}

void finish_collective(thread *w, unsigned mask)
{
    collective what = w[__builtin_ctz(mask)].what;
    uint64_t all;

    check_alike(w, mask);
    if (what == SYNC_WARP)
        return;
    if (what == SHUFFLE) {
        finish_shuffle(w, mask);
        return;
    }
    all = what == BALLOT ? lanes_with(w, mask, 1) : what == MATCH ? 0 : reduce(w, mask, what);
    for (unsigned m = mask; m; m &= m - 1) {
        thread &l = w[__builtin_ctz(m)];

        l.result = what == MATCH ? lanes_with(w, mask, l.value) : all;
    }
}

} // namespace

void fail(const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "emulated CUDA: ");
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    if (b.name)
        fprintf(stderr, ": kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", b.name, block_idx.x,
                block_idx.y, block_idx.z, thread_idx.x, thread_idx.y, thread_idx.z);
    fprintf(stderr, "\n");
    fflush(stderr);
    abort();
}

unsigned lane(void) { return b.current & 31; }

void *dynamic_shared(void) { return b.dynamic; }

int barrier(int kind, int predicate, const char *file, int line)
{
    thread &self = b.threads[b.current];

    self.file = file;
    self.line = line;
    self.predicate = predicate;
    self.state = AT_BARRIER;
    self.mask = 0;
    if (b.at_barrier == 0)
        b.barrier_kind = kind;
    if (b.barrier_kind != kind)
        fail("threads of one block meet at different barriers");
    if (++b.at_barrier < b.total) {
        wait();
        return b.threads[b.current].predicate;
    }
    int all = 0;

    for (thread &t : b.threads) {
        if (t.line != line || (t.file != file && std::strcmp(t.file, file) != 0)) {
            fprintf(stderr, "  %s:%d and %s:%d\n", t.file, t.line, file, line);
            fail("threads of one block meet at different barriers");
        }
        all += t.predicate != 0;
    }
    b.at_barrier = 0;
    int result = kind == BARRIER_AND ? all == (int)b.total : kind == BARRIER_OR ? all > 0 : all;

    for (unsigned i = 0; i < b.total; i++) {
        unsigned t = b.backwards ? b.total - 1 - i : i;

        b.threads[t].predicate = result;
        make_ready(t);
    }
    wait();
    return result;
}

uint64_t meet(unsigned mask, collective what, uint64_t value, unsigned source, const char *file,
              int line)
{
    unsigned t = b.current, first = t & ~31u, l = t & 31;
    warp &w = b.warps[t / 32];
    thread &self = b.threads[t];

    self.file = file;
    self.line = line;
    self.mask = mask;
    self.what = what;
    self.value = value;
    self.source = source;
    if (!(mask >> l & 1)) {
        fprintf(stderr, "  %s:%d\n", file, line);
        fail("lane %u is not in the mask %08x of its collective", l, mask);
    }
    if (mask & w.exited) {
        fprintf(stderr, "  %s:%d\n", file, line);
        fail("a collective's mask names lane %u, which has exited",
             (unsigned)__builtin_ctz(mask & w.exited));
    }
    w.meeting |= 1u << l;
    if ((w.meeting & mask) != mask) {
        self.state = AT_COLLECTIVE;
        wait();
        return self.result;
    }
    finish_collective(&b.threads[first], mask);
    w.meeting &= ~mask;
    for (unsigned m = mask & ~(1u << l); m; m &= m - 1)
        make_ready(first + (unsigned)__builtin_ctz(m));
    return self.result;
}

void run_grid(const char *name, dim3 grid, dim3 block, size_t shared, char *shared_begin,
              char *shared_end, bool backwards, const std::function<void()> &body)
{
    static std::vector<char> dynamic;

    b.name = name;
    b.body = &body;
    b.total = block.x * block.y * block.z;
    b.backwards = backwards;
    b.threads.assign(b.total, thread());
    b.ready.assign(b.total, 0);
    b.warps.assign((b.total + 31) / 32, warp());
#ifdef FIBER_ASAN
    outside_bottom = nullptr;
#endif
    dynamic.resize(shared + 1024 + RED);
    b.dynamic = (char *)(((uintptr_t)dynamic.data() + 1023) & ~(uintptr_t)1023);
    grid_dim = grid;
    block_dim = block;
    shared_open(shared_begin, shared_end);
    for (uint64_t n = 0; n < (uint64_t)grid.x * grid.y * grid.z; n++) {
        block_idx.x = (unsigned)(n % grid.x);
        block_idx.y = (unsigned)(n / grid.x % grid.y);
        block_idx.z = (unsigned)(n / grid.x / grid.y);
        for (unsigned t = 0; t < b.total; t++) {
            b.threads[t].state = NEW;
            b.threads[t].idx = {t % block.x, t / block.x % block.y, t / block.x / block.y};
        }
        for (unsigned i = 0; i < b.warps.size(); i++)
            b.warps[i] = {b.total - i * 32 < 32 ? ~0u << (b.total - i * 32) : 0u, 0};
        b.started = b.exited = b.at_barrier = 0;
        b.ready_head = b.ready_count = 0;
        shared_fresh();
        poison_memory(b.dynamic, b.dynamic + shared + RED / 2);
        switch_to(fiber_new(), false);
        for (char *p = b.dynamic + shared; p < b.dynamic + shared + RED / 2; p++)
            if (*p != (char)0xff)
                fail("the block writes behind its %zu bytes of dynamic shared memory", shared);
    }
    shared_close();
    b.name = nullptr;
}
} // namespace emulated
