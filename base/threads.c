#include "base/threads.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/cpu.h"

#define STACK_BYTES (512u << 10) /* the default is 8 MiB of a finalizer's address space, each */

struct task {
    void (*work)(void *arg, uint32_t part);
    void *arg;
    uint32_t parts;
    atomic_uint next;
};

uint32_t threads_available(void)
{
    uint32_t n = cpu_threads(1);

    return n < THREADS_MOST ? n : THREADS_MOST;
}

static void *take_parts(void *arg)
{
    struct task *t = arg;

    for (uint32_t part; (part = atomic_fetch_add(&t->next, 1)) < t->parts;)
        t->work(t->arg, part);
    return NULL;
}

/* Without a name of its own it would have that of the thread it helps. */
static void *help_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "helper");
    return take_parts(arg);
}

void threads_run(uint32_t threads, uint32_t parts, void (*work)(void *arg, uint32_t part),
                 void *arg)
{
    struct task t = {work, arg, parts, 0};
    pthread_t others[THREADS_MOST];
    pthread_attr_t attr;
    uint32_t made = 0;

    if (threads > 1 && parts > 1 && pthread_attr_init(&attr) == 0) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        while (made + 1 < threads && made + 1 < parts && made + 1 < THREADS_MOST &&
               pthread_create(&others[made], &attr, help_thread, &t) == 0)
            made++;
        pthread_attr_destroy(&attr);
    }
    take_parts(&t);
    for (uint32_t i = 0; i < made; i++)
        pthread_join(others[i], NULL);
}
