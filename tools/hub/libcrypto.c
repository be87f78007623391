#define LIBCRYPTO_ITSELF
#include "tools/hub/libcrypto.h"

struct libcrypto libcrypto_functions;

#define FUNCTION(name) LIBRARY_FUNCTION(struct libcrypto, name)
#define TEXT(x) #x
#define NUMBER(x) TEXT(x)

static const struct library_function functions[] = {LIBCRYPTO(FUNCTION)};

int libcrypto_open(struct err *err)
{
    static struct libraries state = LIBRARIES_INIT;
    static const struct library one = {"libcrypto.so." NUMBER(OPENSSL_SHLIB_VERSION), functions,
                                       sizeof(functions) / sizeof(functions[0])};

    return libraries_open(&state, "OpenSSL", &one, 1, &libcrypto_functions, err);
}
