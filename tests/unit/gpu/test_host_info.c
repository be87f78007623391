/* What is known of the processor before anything is computed on it. */
#include "tests/common/test.h"

#include "gpu/host/host.h"

TEST(this_machine_has_some_of_each)
{
    struct backend_info info;

    backend_host_info(&info);
    assert_true(info.memory_free > 0);
    assert_true(info.memory_free <= info.memory_total);
    assert_true(info.threads >= 1);
    assert_true(info.name[0] != 0);
}

TEST(threads_are_as_many_as_said)
{
    struct backend *be = NULL;
    struct backend_info info;
    struct err e = {0};

    setenv("OMP_NUM_THREADS", "1", 1);
    backend_host_info(&info);
    assert_int_equal(info.threads, 1);
    assert_ok(backend_open_host(0, &be, &e), e);
    assert_int_equal(be->info.threads, 1);
    backend_close(be);
    unsetenv("OMP_NUM_THREADS");
}

TEST_MAIN(NULL, NULL)
