#define LIBCURL_ITSELF
#include "tools/hub/libcurl.h"

struct libcurl libcurl_functions;

#define FUNCTION(name) LIBRARY_FUNCTION(struct libcurl, name)
/* The interface since 2006. */
static const struct library_function functions[] = {LIBCURL(FUNCTION)};

int libcurl_open(struct err *err)
{
    static struct libraries state = LIBRARIES_INIT;
    static const struct library one = {"libcurl.so.4", functions,
                                       sizeof(functions) / sizeof(functions[0])};

    return libraries_open(&state, "libcurl", &one, 1, &libcurl_functions, err);
}
