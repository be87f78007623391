/* What is known of the processor before anything is computed on it. */
#include "tests/common/test.h"

#include "gpu/host/host.h"

static void memory_that_files_fill_is_available(void **state)
{
    (void)state;
    assert_int_equal(host_available_bytes("MemTotal:       65849876 kB\n"
                                          "MemFree:          204800 kB\n"
                                          "MemAvailable:   60000000 kB\n"
                                          "Buffers:          100000 kB\n"),
                     UINT64_C(60000000) * 1024);
    assert_int_equal(host_available_bytes("MemTotal: 1 kB\nMemFree: 1 kB\n"), 0);
    assert_int_equal(host_available_bytes("MemAvailable:"), 0);
    assert_int_equal(host_available_bytes(""), 0);
}

static void this_machine_has_some_of_each(void **state)
{
    struct backend_info info;

    (void)state;
    backend_host_info(&info);
    assert_true(info.memory_free > 0);
    assert_true(info.memory_free <= info.memory_total);
    assert_true(info.threads >= 1);
    assert_true(info.name[0] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_files_fill_is_available),
        cmocka_unit_test(this_machine_has_some_of_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
