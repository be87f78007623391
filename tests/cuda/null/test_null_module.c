/* The module that computes nothing, as the program sees it: its devices, its memory, its tokens. */
#include "tests/cuda/null/null.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/cuda_module.h"
#include "gpu/devices/cuda_load.h"
#include "tests/common/test.h"

static const struct cuda_module *module;

static int open_module(void **state)
{
    struct err e;

    (void)state;
    assert_ok(cuda_module_load(getenv("NIGHTSHIFT_CUDA_MODULE"), &module, &e), e);
    setenv("NIGHTSHIFT_NULL_GPUS", "24GiB,1GiB", 1);
    return 0;
}

static struct backend *open_device(const char *name)
{
    struct cuda_options options = {0};
    struct backend *be = NULL;
    struct err e;

    assert_ok(module->open(name, &options, &be, &e), e);
    return be;
}

static void test_devices(void **state)
{
    struct cuda_device d[4];
    struct cuda_options options = {0};
    struct backend *be;
    struct err e;
    uint32_t n;

    (void)state;
    assert_ok(module->devices(d, 4, &n, &e), e);
    assert_int_equal(n, 2);
    assert_true(d[0].memory_total == (uint64_t)24 << 30);
    assert_string_not_equal(d[0].uuid, d[1].uuid);
    be = open_device(d[1].uuid);
    assert_string_equal(be->info.id, d[1].uuid);
    backend_close(be);
    assert_int_equal(module->open("2", &options, &be, &e), ERR_MISSING);
    for (size_t i = 0; i < 4; i++) {
        setenv("NIGHTSHIFT_NULL_GPUS", (const char *[]){"24", "24GiB,", "0GiB", "x"}[i], 1);
        assert_int_equal(module->devices(d, 4, &n, &e), ERR_MISSING);
    }
    setenv("NIGHTSHIFT_NULL_GPUS", "24GiB,1GiB", 1);
}

/* A new operation needs an entry here, too: only these may be absent on a GPU, where tails of
 * keys are not counted yet. */
static void test_every_operation_is_there(void **state)
{
    struct backend *be = open_device("0");
    void (*all[sizeof(*be->ops) / sizeof(void (*)(void))])(void);
    size_t missing = 0;

    (void)state;
    memcpy(all, be->ops, sizeof(all));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        missing += all[i] == NULL;
    missing -= !be->ops->rehearse + !be->ops->recall + !be->ops->learn + !be->ops->attention_tail;
    assert_int_equal(missing, 0);
    backend_close(be);
}

static void test_memory(void **state)
{
    struct backend *be = open_device("1"), *fork = NULL;
    void *p = NULL, *q = NULL;
    struct err e;
    char in[8] = "written", out[8];

    (void)state;
    assert_ok(be->ops->fork(be, true, &fork, &e), e);
    assert_ok(fork->ops->alloc(fork, (size_t)500 << 20, &p, &e), e);
    assert_true(be->allocated == (uint64_t)500 << 20 && fork->allocated == 0);
    assert_int_equal(be->ops->alloc(be, (size_t)500 << 20, &q, &e), ERR_VRAM);
    assert_ok(be->ops->read(be, out, p, sizeof(out), &e), e);
    assert_memory_equal(out, (char[8]){0}, sizeof(out));
    assert_ok(be->ops->write(be, p, in, sizeof(in), &e), e);
    assert_ok(fork->ops->post(fork, 3, p, sizeof(in), &e), e);
    assert_ok(fork->ops->collect(fork, 3, out, sizeof(out), &e), e);
    assert_memory_equal(in, out, sizeof(in));
    be->ops->release(be, p);
    assert_true(be->allocated == 0 && be->peak == (uint64_t)500 << 20);
    backend_close(fork);
    backend_close(be);
}

/* An operation's result is made up, until something is written over it. */
static void test_answers(void **state)
{
    struct backend *be = open_device("0");
    const struct align_window window = {4, 100, 1, 2};
    uint32_t frames[4];
    float v[2 * 589 * 7];
    struct tensor y;
    struct err e;
    void *p;

    (void)state;
    assert_ok(be->ops->alloc(be, sizeof(v), &p, &e), e);
    y = tensor_of(DTYPE_F32, p, 2L * 589, 7);
    assert_ok(be->ops->layer_norm(be, y, y, y, 1e-5f, y, &e), e);
    assert_ok(be->ops->read(be, v, p, sizeof(v), &e), e);
    assert_true(v[1] > 0.0f && v[0] == 0.0f); /* the first speaker */
    assert_true(v[589 * 7 - 7 + 2] > 0.0f);   /* after 10 s the second */
    assert_true(v[589 * 7 + 470 * 7] > 0.0f); /* after 1 + 8 s nobody */
    assert_ok(be->ops->write(be, p, (float[1]){5.0f}, sizeof(float), &e), e);
    assert_ok(be->ops->read(be, v, p, sizeof(float), &e), e);
    assert_true(v[0] == 5.0f);
    y = tensor_of(DTYPE_F32, p, 4, 100);
    assert_ok(be->ops->align(be, y, 1, &window, 1, y, &e), e);
    assert_ok(be->ops->get(be, v, y, &e), e);
    assert_true(v[0] == 1.0f && v[99] == 0.0f && v[399] == 1.0f);
    assert_ok(be->ops->warp(be, y, &window, 1, NULL, y, p, &e), e);
    assert_ok(be->ops->read(be, frames, p, sizeof(frames), &e), e);
    assert_true(frames[1] == 0 && frames[2] == 50); /* evenly over rows 1 and 2 */
    be->ops->release(be, p);
    backend_close(be);
}

#define EOT 700
#define BEGIN 800

/* A recorded step, as long as something follows: four segments with their times, then the end. */
static void test_tokens(void **state)
{
    const struct rules_spec spec = {.vocab = 2400,
                                    .eot = EOT,
                                    .no_speech = -1,
                                    .timestamp_begin = BEGIN,
                                    .timestamp_end = BEGIN + 1500};
    struct backend *be = open_device("0");
    struct token_row row = {.slot = 0, .token = EOT + 1};
    struct choice_ask ask = {.what = CHOOSE_TOKEN, .last = -1, .before = -1, .last_time = -1};
    struct token_tail tail = {0};
    struct choice choice = {0};
    struct tensor logits = tensor_of(DTYPE_F32, NULL, 1, 2400);
    struct recording *step;
    struct rules *rules;
    struct err e;
    int count = 0, times = 0, latest = 0;

    (void)state;
    assert_ok(be->ops->rules_new(be, &spec, &rules, &e), e);
    assert_ok(be->ops->record_begin(be, &e), e);
    assert_ok(be->ops->follow(be, &tail, &row, &ask, 1, &e), e);
    assert_ok(be->ops->choose(be, rules, logits, &ask, &choice, &e), e);
    assert_ok(be->ops->note(be, rules, &row, &ask, &choice, 1, &tail, &e), e);
    assert_ok(be->ops->record_end(be, &step, &e), e);
    assert_int_equal(choice.token, 0); /* only recorded */
    do {
        assert_ok(be->ops->record_run(be, step, &e), e);
        row.token = TOKEN_FOLLOWS;
        if (choice.token >= BEGIN) {
            assert_true(choice.token >= BEGIN + latest);
            latest = choice.token - BEGIN;
            times++;
        }
        count++;
    } while (tail.open && count < 1000);
    assert_int_equal(choice.token, EOT);
    assert_int_equal(times, 8);
    assert_int_equal(latest, 28 * 50);
    assert_int_equal(count, 4 * 27 + 1);
    assert_ok(be->ops->record_run(be, step, &e), e);
    assert_int_equal(row.slot, -1); /* nothing follows the end */
    be->ops->record_free(be, step);
    be->ops->rules_free(be, rules);
    backend_close(be);
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Operations follow each other on a backend, and beside those of its fork; who reads waits. */
static void test_pretended_time(void **state)
{
    struct backend *be, *fork = NULL;
    int64_t begun, asked;
    struct tensor y;
    bool there = true;
    struct err e;
    float v[4];
    void *p;

    (void)state;
    setenv("NIGHTSHIFT_NULL_TAKES_US", "200000", 1);
    be = open_device("0");
    assert_ok(be->ops->fork(be, false, &fork, &e), e);
    unsetenv("NIGHTSHIFT_NULL_TAKES_US");
    assert_ok(be->ops->alloc(be, sizeof(v), &p, &e), e);
    y = tensor_of(DTYPE_F32, p, 1, 4);
    begun = now_us();
    for (int i = 0; i < 2; i++) {
        assert_ok(be->ops->layer_norm(be, y, y, y, 1e-5f, y, &e), e);
        assert_ok(be->ops->post(be, (uint32_t)i, p, sizeof(v), &e), e);
    }
    assert_ok(fork->ops->layer_norm(fork, y, y, y, 1e-5f, y, &e), e);
    asked = now_us() - begun;
    assert_ok(be->ops->posted(be, 1, &there, &e), e);
    assert_true(asked > 100000 || !there); /* not when this thread was kept from running */
    assert_ok(be->ops->collect(be, 0, v, sizeof(v), &e), e);
    assert_true(now_us() - begun >= 200000);
    assert_ok(fork->ops->sync(fork, &e), e);
    assert_true(now_us() - begun >= 200000);
    assert_ok(be->ops->read(be, v, p, sizeof(v), &e), e);
    assert_true(now_us() - begun >= 400000);
    assert_ok(be->ops->posted(be, 1, &there, &e), e);
    assert_true(there);
    be->ops->release(be, p);
    backend_close(fork);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices), cmocka_unit_test(test_every_operation_is_there),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_answers),
        cmocka_unit_test(test_tokens),  cmocka_unit_test(test_pretended_time),
    };
    return cmocka_run_group_tests(tests, open_module, NULL);
}
