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

#include "base/log.h"

#define TEST_SKIPPED 77 /* exit status that ctest shows as skipped */

/* TEST(name) { ... } is a test that needs no other mention: it adds itself, in the order in which
 * tests stand in their file. With what is run before it, after it, or both (as cmocka's). A test
 * has `state`. At the end TEST_MAIN(setup, teardown), of the whole file, or a main of the file's
 * own that calls suite_run. */
#define TEST(name) TEST_BOTH(name, NULL, NULL)
#define TEST_SETUP(name, setup) TEST_BOTH(name, setup, NULL)
#define TEST_TEARDOWN(name, teardown) TEST_BOTH(name, NULL, teardown)
#define TEST_BOTH(name, setup, teardown)                                    \
    static void name(void **state);                                         \
    __attribute__((constructor)) static void add_##name(void)               \
    {                                                                       \
        suite_add((struct CMUnitTest){#name, name, setup, teardown, NULL}); \
    }                                                                       \
    static void name(__attribute__((unused)) void **state)
#define TEST_MAIN(setup, teardown) \
    int main(void) { return suite_run(setup, teardown); }

struct suite {
    struct CMUnitTest test[256];
    size_t count;
};

static inline struct suite *suite_tests(void)
{
    static struct suite list;

    return &list;
}

static inline void suite_add(struct CMUnitTest test)
{
    struct suite *list = suite_tests();

    if (list->count == sizeof(list->test) / sizeof(list->test[0]))
        abort();
    list->test[list->count++] = test;
}

/* The number of tests that failed, as an exit status. */
static inline int suite_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    return _cmocka_run_group_tests("tests", suite_tests()->test, suite_tests()->count, setup,
                                   teardown);
}

/* A call that must return 0; prints the error's sentence otherwise. `e` is a struct err. */
#define assert_ok(call, e)                                                                \
    do {                                                                                  \
        int assert_ok_rc = (call);                                                        \
        if (assert_ok_rc != 0)                                                            \
            print_error("%s:%d: %s -> %d: %s\n", __FILE__, __LINE__, #call, assert_ok_rc, \
                        (e).msg);                                                         \
        assert_int_equal(assert_ok_rc, 0);                                                \
    } while (0)

/* A sink for tests that make the code complain. */
static inline void test_no_log(enum log_level level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

/* A message says this. */
#define assert_says(msg, what)                             \
    do {                                                   \
        if (!strstr(msg, what))                            \
            fail_msg("'%s' does not say '%s'", msg, what); \
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
