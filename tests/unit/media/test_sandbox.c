/* What holds a decoder. Where the kernel lacks a layer the test says so and checks the others. */
#include "tests/unit/media/media_util.h"
#include "workers/media/sandbox.h"

static void nothing_gets_out(void **state)
{
    struct sandbox_report r = {0};
    struct err err;

    (void)state;
    assert_ok(sandbox_check(&r, &err), err);
    print_message("in force: %s\n", r.text);
    assert_true(r.no_new_privs);
    assert_true(r.cpu_seconds > 0);
    if (!r.relaxed) {
        assert_true(r.memory_bytes > 0);
    }
    if (r.seccomp || r.landlock_abi > 0) {
        assert_true(r.files_refused);
    }
    if (r.seccomp) {
        assert_true(r.network_refused);
        assert_true(r.processes_refused);
    } else {
        print_message("skipped: no seccomp in this kernel\n");
        skip();
    }
}

static void the_report_speaks(void **state)
{
    struct sandbox_report r = {0};
    struct err err;

    (void)state;
    assert_ok(sandbox_check(&r, &err), err);
    assert_non_null(strstr(r.text, "seccomp"));
    assert_non_null(strstr(r.text, "Landlock"));
    assert_non_null(strstr(r.text, "processor time"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_gets_out),
    cmocka_unit_test(the_report_speaks),
};

MEDIA_TEST_MAIN(tests)
