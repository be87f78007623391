/* tests/common/test.h - cmocka with the headers that it wants, and a few helpers. */
#ifndef NIGHTSHIFT_TESTS_COMMON_TEST_H
#define NIGHTSHIFT_TESTS_COMMON_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST_SKIPPED 77 /* exit status that ctest shows as skipped */

/* A call that must return 0; prints the error's sentence otherwise. `e` is a struct err. */
#define assert_ok(call, e)                                                                \
    do {                                                                                  \
        int assert_ok_rc = (call);                                                        \
        if (assert_ok_rc != 0)                                                            \
            print_error("%s:%d: %s -> %d: %s\n", __FILE__, __LINE__, #call, assert_ok_rc, \
                        (e).msg);                                                         \
        assert_int_equal(assert_ok_rc, 0);                                                \
    } while (0)

/* $NIGHTSHIFT_SOURCE_DIR/rel or $NIGHTSHIFT_SHARED/rel, in a static buffer each. */
static inline const char *test_source_path(const char *rel)
{
    static char path[4096];
    const char *root = getenv("NIGHTSHIFT_SOURCE_DIR");

    snprintf(path, sizeof(path), "%s/%s", root ? root : ".", rel);
    return path;
}

static inline const char *test_shared_path(const char *rel)
{
    static char path[4096];
    const char *root = getenv("NIGHTSHIFT_SHARED");

    snprintf(path, sizeof(path), "%s/%s", root ? root : "../shared", rel);
    return path;
}

#endif
