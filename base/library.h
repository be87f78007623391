/* base/library.h - shared libraries of others that are opened when they are wanted.
 *
 * Each process loads all linked libraries before its main: libcurl and its libraries took 5 ms of
 * each process, FFmpeg 45. A header lists the functions that it calls of such a library, once, as a
 * macro LIST(of); LIBRARY_PLACE makes a struct of it, LIBRARY_FUNCTION the names for
 * libraries_open. */
#ifndef NIGHTSHIFT_BASE_LIBRARY_H
#define NIGHTSHIFT_BASE_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define LIBRARY_PLACE(name) __typeof__(name) *name;
#define LIBRARY_FUNCTION(table, name) {#name, offsetof(table, name)},

struct library_function {
    const char *name;
    size_t place; /* in the table */
};

struct library {
    const char *file; /* with the number of the interface that the program was compiled for */
    const struct library_function *functions;
    size_t count;
};

/* Some of one owner: each begins as LIBRARIES_INIT, static. */
struct libraries {
    pthread_mutex_t lock;
    bool done;
};

#define LIBRARIES_INIT                   \
    {                                    \
        PTHREAD_MUTEX_INITIALIZER, false \
    }

/* Opens all and fills the table. They stay loaded as if linked, so that doctor finds them. Any
 * thread, but before a sandbox is entered; done again it does nothing. ERR_LIBRARY names the one
 * that is not here, or not whole, and leaves the table as it was. */
int libraries_open(struct libraries *state, const char *whose, const struct library *libraries,
                   size_t count, void *table, struct err *err);

#endif
