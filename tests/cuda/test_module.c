/* The CUDA module as the program sees it, on emulated devices: what it lists, opens, checks and
 * reports, and what it leaves behind. Its operations: tests/ops; models on it: test_whisper_cuda.c.
 */
#include "tests/cuda/module.h"

static struct emulated cuda;
static int found_refusals;

static void print_finding(void *arg, const struct cuda_finding *f)
{
    int *counts = arg;

    counts[f->state]++;
    if (f->state != 0)
        print_error("%d %s: %s; wanted: %s; to do: %s\n", f->state, f->name, f->found, f->wanted,
                    f->todo);
}

static void test_devices(void **state)
{
    struct cuda_device d[4];
    struct err e;
    uint32_t n;

    (void)state;
    assert_ok(cuda.module->devices(d, 4, &n, &e), e);
    assert_int_equal(n, 3);
    assert_string_equal(d[0].name, "Emulated GPU 0");
    assert_true(d[0].memory_total == (uint64_t)24 << 30);
    assert_true(cuda.module->free_memory(0) > (uint64_t)23 << 30);
    assert_true(cuda.module->free_memory(0) < d[0].memory_total);
    assert_int_equal(cuda.module->free_memory(7), 0);
    assert_string_equal(d[0].trouble, "");
    assert_int_equal(d[0].major, 9);
    assert_int_equal(d[1].major, 7);
    assert_int_equal(d[1].minor, 5);
    assert_true(d[0].have & (1u << PRECISION_FP8));
    assert_false(d[1].have & (1u << PRECISION_FP8));
    assert_false(d[1].have & (1u << PRECISION_BF16));
    assert_true(d[1].have & (1u << PRECISION_INT8));
    assert_int_equal(strncmp(d[1].uuid, "GPU-", 4), 0);
    assert_string_not_equal(d[0].uuid, d[1].uuid);
    /* Fewer places than devices: all are counted. */
    assert_ok(cuda.module->devices(d, 1, &n, &e), e);
    assert_int_equal(n, 3);
}

/* One that does not answer is listed with what was said, and hides no other. */
static void test_one_mute_device(void **state)
{
    struct cuda_options o = {0};
    struct backend *be;
    struct cuda_device d[4], all[4];
    struct err e;
    uint32_t n;

    (void)state;
    assert_ok(cuda.module->devices(all, 4, &n, &e), e);
    cuda.inject("mute:1");
    assert_ok(cuda.module->devices(d, 4, &n, &e), e);
    assert_int_equal(n, 3);
    assert_non_null(strstr(d[0].trouble, "asking for a GPU's properties"));
    assert_int_equal(d[0].ordinal, 0);
    assert_string_equal(d[0].uuid, "");
    assert_string_equal(d[1].trouble, "");
    assert_string_equal(d[1].uuid, all[1].uuid);
    assert_ok(cuda.module->open(d[2].uuid, &o, &be, &e), e);
    backend_close(be);
    assert_int_equal(cuda.module->open(all[0].uuid, &o, &be, &e), ERR_MISSING);
    cuda.inject("");
}

static void test_open(void **state)
{
    struct cuda_options o = {0};
    struct backend *be;
    struct cuda_device d[4];
    struct err e;
    uint32_t n;

    (void)state;
    assert_ok(cuda.module->devices(d, 4, &n, &e), e);
    assert_ok(cuda.module->open(d[1].uuid, &o, &be, &e), e);
    assert_string_equal(be->info.id, d[1].uuid);
    backend_close(be);
    assert_int_equal(cuda.module->open("7", &o, &be, &e), ERR_MISSING);
    assert_int_equal(cuda.module->open("GPU-none", &o, &be, &e), ERR_MISSING);
}

/* What was opened is given back, also when opening fails half-way: at every allocation. */
static void test_open_without_memory(void **state)
{
    struct cuda_options o = {0};
    int64_t before = emulated_held(&cuda);
    struct backend *be = NULL;
    char spec[32];
    struct err e;
    int n, rc;

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        for (n = 1, rc = ERR_VRAM; rc != 0 && n < 100; n++) {
            snprintf(spec, sizeof(spec), "%s:%d", kind ? "hostalloc" : "malloc", n);
            cuda.inject(spec);
            rc = cuda.module->open("0", &o, &be, &e);
            if (rc != 0)
                assert_true(rc == ERR_VRAM || rc == ERR_NOMEM);
            else
                backend_close(be);
            assert_int_equal(emulated_held(&cuda), before);
        }
        assert_int_equal(rc, 0);
        assert_true(n > 2); /* some allocation did fail */
    }
    cuda.inject("");
}

static void test_check(void **state)
{
    int64_t before = emulated_held(&cuda);
    int quick[3] = {0}, counts[3] = {0};

    (void)state;
    (void)cuda.module->check(CUDA_CHECK_QUICK, print_finding, quick);
    assert_int_equal(quick[2], 0);
    assert_int_equal(cuda.module->check(CUDA_CHECK_ALL, print_finding, counts), 1);
    assert_int_equal(counts[2], 0);
    /* One device of the three is too old for the fused attention, which is told. */
    assert_int_equal(counts[1], 1);
    assert_true(counts[0] > quick[0]);
    assert_int_equal(emulated_held(&cuda), before);
}

static void find_refusal(void *arg, const struct cuda_finding *f)
{
    const char *const *words = arg;

    if (strcmp(f->name, "attention") == 0 && strstr(f->found, words[0])) {
        assert_int_equal(f->state, 1);
        if (words[1])
            assert_non_null(strstr(f->found, words[1]));
        found_refusals++;
    }
}

/* What cuDNN says when it refuses reaches the doctor, as a warning; want of memory is told as that.
 */
static void test_refused_attention(void **state)
{
    const char *all[] = {"not fused", NULL}, *told[] = {"told to refuse", "status 3000"},
               *memory[] = {"no memory for it", NULL};

    (void)state;
    setenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES", "all", 1);
    found_refusals = 0;
    assert_int_equal(cuda.module->check(CUDA_CHECK_ALL, find_refusal, all), 1);
    assert_int_equal(found_refusals, 3);
    found_refusals = 0;
    assert_int_equal(cuda.module->check(CUDA_CHECK_ALL, find_refusal, told), 1);
    assert_int_equal(found_refusals, 2); /* the third is too old to ask */
    setenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES", "memory", 1);
    found_refusals = 0;
    assert_int_equal(cuda.module->check(CUDA_CHECK_ALL, find_refusal, memory), 1);
    assert_int_equal(found_refusals, 2);
    unsetenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES");
}

static void test_no_devices(void **state)
{
    static const char *const specs[][2] = {
        {"nodriver", "driver"}, {"nodevice", "no GPU"}, {"olddriver", "11.4"}};
    struct cuda_options o = {0};
    struct cuda_device d[4];
    struct backend *be;
    struct err e;
    uint32_t n;

    (void)state;
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        int counts[3] = {0}, rc;

        cuda.inject(specs[i][0]);
        rc = cuda.module->devices(d, 4, &n, &e);
        print_message("%s: %d: %s\n", specs[i][0], rc, e.msg);
        assert_int_equal(rc, ERR_MISSING);
        if (!strstr(e.msg, specs[i][1]))
            fail_msg("'%s' is not in '%s'", specs[i][1], e.msg);
        assert_int_not_equal(cuda.module->open("0", &o, &be, &e), 0);
        assert_true(cuda.module->check(CUDA_CHECK_ALL, print_finding, counts) > 0);
        assert_true(counts[1] + counts[2] > 0);
    }
    cuda.inject("");
}

/* The budget is the bound, and what was there before stays. */
static void test_budget(void **state)
{
    struct cuda_options o = {.cap = (uint64_t)512 << 20};
    const float one = 1.0f;
    struct cuda_options none = {0}, all = {.cap = UINT64_MAX};
    struct backend *be;
    uint64_t most;
    struct err e;
    void *p, *q;
    float got;

    (void)state;
    /* Nine tenths of what is free, whatever is asked for beyond. */
    assert_ok(cuda.module->open("0", &none, &be, &e), e);
    most = be->info.memory_free / 10 * 9;
    assert_int_equal(be->budget, most);
    backend_close(be);
    assert_ok(cuda.module->open("0", &all, &be, &e), e);
    assert_int_equal(be->budget, most);
    backend_close(be);
    assert_ok(cuda.module->open("0", &o, &be, &e), e);
    assert_int_equal(be->budget, o.cap);
    assert_ok(be->ops->alloc(be, 1 << 20, &p, &e), e);
    assert_ok(be->ops->read(be, &got, p, sizeof(got), &e), e);
    assert_true(got == 0.0f); /* zeroed */
    assert_ok(be->ops->write(be, p, &one, sizeof(one), &e), e);
    assert_int_equal(be->ops->alloc(be, (size_t)600 << 20, &q, &e), ERR_VRAM);
    assert_ok(be->ops->read(be, &got, p, sizeof(got), &e), e);
    assert_true(got == 1.0f);
    be->ops->release(be, p);
    backend_close(be);
}

/* After a sticky error everything is ERR_DEVICE, nothing crashes, and it can be closed. */
static void test_lost(void **state)
{
    struct cuda_options o = {0};
    float x[64] = {0};
    struct backend *be;
    struct tensor t, u;
    struct err e;
    void *p;
    int rc;

    (void)state;
    assert_ok(cuda.module->open("0", &o, &be, &e), e);
    assert_ok(be->ops->alloc(be, sizeof(x) * 2, &p, &e), e);
    t = tensor_of(DTYPE_F32, p, 1, 64);
    u = tensor_of(DTYPE_F32, (float *)p + 64, 1, 64);
    assert_ok(be->ops->put(be, t, x, &e), e);
    assert_ok(be->ops->put(be, u, x, &e), e);
    cuda.inject("launch:1");
    rc = be->ops->add(be, t, u, &e);
    if (rc == 0)
        rc = be->ops->sync(be, &e);
    assert_int_equal(rc, ERR_DEVICE);
    assert_non_null(strstr(e.msg, "IllegalAddress"));
    assert_int_equal(be->ops->get(be, x, t, &e), ERR_DEVICE);
    assert_int_equal(be->ops->alloc(be, 64, &p, &e), ERR_DEVICE);
    backend_close(be);
    cuda.inject("");
}

/* Two devices at once, in turn: each operation finds its own. */
static void test_two(void **state)
{
    struct cuda_options o = {0};
    struct backend *be[2];
    float x[2][64], got[64];
    struct tensor t[2];
    struct err e;

    (void)state;
    for (int i = 0; i < 2; i++) {
        void *p;

        assert_ok(cuda.module->open(i ? "1" : "0", &o, &be[i], &e), e);
        assert_ok(be[i]->ops->alloc(be[i], sizeof(x[0]), &p, &e), e);
        t[i] = tensor_of(DTYPE_F32, p, 1, 64);
        for (int j = 0; j < 64; j++)
            x[i][j] = (float)(i * 100 + j);
    }
    for (int i = 0; i < 2; i++)
        assert_ok(be[i]->ops->put(be[i], t[i], x[i], &e), e);
    for (int i = 0; i < 2; i++)
        assert_ok(be[i]->ops->add(be[i], t[i], t[i], &e), e);
    for (int i = 0; i < 2; i++) {
        assert_ok(be[i]->ops->get(be[i], got, t[i], &e), e);
        for (int j = 0; j < 64; j++)
            assert_true(got[j] == 2.0f * x[i][j]);
    }
    for (int i = 0; i < 2; i++) {
        be[i]->ops->release(be[i], t[i].data);
        backend_close(be[i]);
    }
}

static int open_module(void **state)
{
    (void)state;
    cuda = emulated_open();
    return 0;
}

static int nothing_held(void **state)
{
    (void)state;
    assert_int_equal(cuda.count("blocks"), 0);
    assert_int_equal(cuda.count("pinned"), 0);
    assert_int_equal(cuda.count("events"), 0);
    assert_int_equal(cuda.count("streams"), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),    cmocka_unit_test(test_one_mute_device),
        cmocka_unit_test(test_open),       cmocka_unit_test(test_open_without_memory),
        cmocka_unit_test(test_check),      cmocka_unit_test(test_refused_attention),
        cmocka_unit_test(test_no_devices), cmocka_unit_test(test_budget),
        cmocka_unit_test(test_two),        cmocka_unit_test(test_lost),
    };
    return cmocka_run_group_tests_name("cuda module", tests, open_module, nothing_held);
}
