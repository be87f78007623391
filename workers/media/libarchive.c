#define LIBARCHIVE_ITSELF
#include "workers/media/libarchive.h"

struct libarchive libarchive_functions;

#define FUNCTION(name) LIBRARY_FUNCTION(struct libarchive, name)
/* The interface of all of libarchive 3. */
static const struct library_function functions[] = {LIBARCHIVE(FUNCTION)};

int libarchive_open(struct err *err)
{
    static struct libraries state = LIBRARIES_INIT;
    static const struct library one = {"libarchive.so.13", functions,
                                       sizeof(functions) / sizeof(functions[0])};

    return libraries_open(&state, "libarchive", &one, 1, &libarchive_functions, err);
}
