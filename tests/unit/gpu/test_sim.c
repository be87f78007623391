/* Simulated devices: how they are named, what they hold, how slow they are, what they obey. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu/backend.h"
#include "gpu/devices/sim.h"
#include "tests/common/files.h"
#include "tests/common/test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

TEST(lists_are_read)
{
    struct device d[8];
    struct err e = {0};
    uint32_t n = 0;

    assert_ok(sim_devices_parse("sim:24GiB,sim:8GiB*0.5,sim:1024,sim:3KiB*1,sim:512MiB*.25", d, 8,
                                &n, &e),
              e);
    assert_int_equal(n, 5);
    assert_int_equal(d[0].kind, DEVICE_SIM);
    assert_int_equal(d[0].memory_total, 24 * GIB);
    assert_int_equal(d[0].memory_free, 24 * GIB);
    assert_true(d[0].speed == 1);
    assert_string_equal(d[0].name, "sim:0");
    assert_string_equal(d[0].label, "sim:0");
    assert_string_equal(d[0].id, "sim:24GiB");
    assert_string_equal(d[0].model, "simulated, 24GiB");
    assert_true(d[0].precisions != 0);
    assert_int_equal(d[1].memory_total, 8 * GIB);
    assert_true(d[1].speed == 0.5);
    assert_string_equal(d[1].name, "sim:1");
    assert_string_equal(d[1].id, "sim:8GiB*0.5");
    assert_int_equal(d[2].memory_total, 1024);
    assert_int_equal(d[3].memory_total, 3072);
    assert_true(d[4].speed == 0.25);
}

TEST(nonsense_is_refused_with_a_sentence)
{
    static const char *const bad[] = {
        "",
        ",",
        "sim:",
        "sim:0",
        "sim:0GiB",
        "sim:-1GiB",
        "sim:+1GiB",
        "sim: 1GiB",
        "sim:1 GiB",
        "sim:1GiB ",
        "sim:1gib",
        "sim:1GB",
        "sim:1.5GiB",
        "sim:0x10",
        "sim:1GiB*",
        "sim:1GiB*0",
        "sim:1GiB*0.0001",
        "sim:1GiB*1.01",
        "sim:1GiB*-1",
        "sim:1GiB*nan",
        "sim:1GiB*inf",
        "sim:1GiB*1e-1",
        "sim:1GiB*0.5*0.5",
        "sim:1GiB*0.5x",
        "sim:1GiB,",
        ",sim:1GiB",
        "sim:1GiB,,sim:1GiB",
        "sim:1GiB;sim:1GiB",
        "cuda:0",
        "SIM:1GiB",
        "sim:18446744073709551616",
        "sim:99999999999999999999999GiB",
        "sim:17592186044416MiB",
        "sim:1\xff",
        "%s%s%n",
        "sim:1111111111111111111111111111111111111111111111111111111111111111111111111",
    };
    struct device d[8];
    uint32_t n = 77;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err e = {0};

        if (sim_devices_parse(bad[i], d, 8, &n, &e) != ERR_USAGE)
            fail_msg("'%s' is taken", bad[i]);
        if (!strstr(e.msg, "NIGHTSHIFT_DEVICES") || n != 77)
            fail_msg("'%s': %s", bad[i], e.msg);
    }
}

TEST(more_than_there_is_room_for_is_refused)
{
    struct device d[2];
    struct err e = {0};
    uint32_t n;

    assert_int_equal(sim_devices_parse("sim:1,sim:2,sim:3", d, 2, &n, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "more than 2"));
    assert_ok(sim_devices_parse("sim:1,sim:2", d, 2, &n, &e), e);
}

static struct backend *open_sim(const char *list, const char *name, uint64_t budget)
{
    struct device_options o = {.threads = 1, .cap = budget};
    struct backend *be = NULL;
    struct err e = {0};

    setenv("NIGHTSHIFT_DEVICES", list, 1);
    assert_ok(backend_open_sim(name, &o, &be, &e), e);
    return be;
}

TEST(memory_is_bounded)
{
    struct backend *be = open_sim("sim:1GiB,sim:10MiB", "sim:1", 0);
    struct err e = {0};
    void *a, *b;

    assert_int_equal(be->budget, 9 * MIB);
    backend_close(be);
    be = open_sim("sim:1GiB,sim:10MiB", "sim:1", 10 * MIB); /* more than may be taken */
    assert_int_equal(be->budget, 9 * MIB);
    assert_int_equal(be->info.memory_total, 10 * MIB);
    assert_string_equal(be->info.id, "sim:10MiB");
    assert_ok(be->ops->alloc(be, 6 * MIB, &a, &e), e);
    assert_int_equal(be->ops->alloc(be, 4 * MIB, &b, &e), ERR_VRAM);
    assert_ok(be->ops->alloc(be, 3 * MIB, &b, &e), e);
    assert_int_equal(be->ops->alloc(be, 1, &(void *){NULL}, &e), ERR_VRAM);
    assert_int_equal(be->ops->alloc(be, SIZE_MAX, &(void *){NULL}, &e), ERR_VRAM);
    be->ops->release(be, a);
    assert_int_equal(be->allocated, 3 * MIB);
    assert_int_equal(be->peak, 9 * MIB);
    be->ops->release(be, b);
    assert_int_equal(be->allocated, 0);
    backend_close(be);

    be = open_sim("sim:1GiB", "sim:0", MIB);
    assert_int_equal(be->ops->alloc(be, 2 * MIB, &a, &e), ERR_VRAM);
    backend_close(be);
}

TEST(what_is_not_in_the_list_cannot_be_opened)
{
    static const char *const names[] = {"sim:2", "sim:", "sim:x", "sim:00", "sim:-1"};
    struct device_options o = {.threads = 1};
    struct backend *be = NULL;

    setenv("NIGHTSHIFT_DEVICES", "sim:1GiB,sim:2GiB", 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct err e = {0};

        assert_int_equal(backend_open_sim(names[i], &o, &be, &e), ERR_USAGE);
    }
    unsetenv("NIGHTSHIFT_DEVICES");
    assert_int_equal(backend_open_sim("sim:0", &o, &be, &(struct err){0}), ERR_USAGE);
    assert_null(be);
}

/* A product that keeps the device busy for some milliseconds. */
struct work {
    struct linear *l;
    struct tensor x, y;
    void *memory;
};

#define ROWS 256
#define SIDE 256

static void work_new(struct backend *be, struct work *k)
{
    float *w = calloc(SIDE * SIDE, sizeof(*w));
    struct err e = {0};

    assert_non_null(w);
    assert_ok(
        be->ops->linear_new(be, PRECISION_F32, LINEAR_WIDE, ROWS, SIDE, SIDE, w, NULL, &k->l, &e),
        e);
    free(w);
    assert_ok(be->ops->alloc(be, 2 * ROWS * SIDE * sizeof(float), &k->memory, &e), e);
    k->x = tensor_of(DTYPE_F32, k->memory, ROWS, SIDE);
    k->y = tensor_of(DTYPE_F32, (float *)k->memory + ROWS * SIDE, ROWS, SIDE);
}

static void work_free(struct backend *be, struct work *k)
{
    be->ops->linear_free(be, k->l);
    be->ops->release(be, k->memory);
}

static double seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The processor's time in the operations is a twentieth of what they take; a machine that is busy
 * with other things only makes them take longer. */
TEST(a_slow_device_is_slow)
{
    struct backend *be = open_sim("sim:1GiB*0.05", "sim:0", 0);
    double wall, cpu;
    struct work k;
    struct err e = {0};

    work_new(be, &k);
    assert_ok(be->ops->linear(be, k.l, k.x, EPILOGUE_NONE, k.y, &e), e);
    wall = seconds(CLOCK_MONOTONIC);
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < 40; i++)
        assert_ok(be->ops->linear(be, k.l, k.x, EPILOGUE_NONE, k.y, &e), e);
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (wall < 5 * cpu)
        fail_msg("%.3f s for %.3f s of work", wall, cpu);
    work_free(be, &k);
    backend_close(be);
}

static void command(const char *text)
{
    file_text("control/sim-0.new", text);
    assert_int_equal(rename("control/sim-0.new", "control/sim-0"), 0);
    usleep(30000); /* it looks every hundredth of a second */
}

static int control_begin(void **state)
{
    (void)state;
    mkdir("control", 0700);
    unlink("control/sim-0");
    return setenv("NIGHTSHIFT_SIM_CONTROL", "control", 1);
}

static int control_end(void **state)
{
    (void)state;
    unlink("control/sim-0");
    return unsetenv("NIGHTSHIFT_SIM_CONTROL");
}

TEST_BOTH(memory_runs_out_on_command, control_begin, control_end)
{
    struct backend *be = open_sim("sim:1GiB", "sim:0", 0);
    struct err e = {0};
    void *p = NULL;

    assert_ok(be->ops->alloc(be, 64, &p, &e), e);
    be->ops->release(be, p);
    command("oom 2\n");
    assert_int_equal(be->ops->alloc(be, 64, &p, &e), ERR_VRAM);
    assert_int_equal(access("control/sim-0", F_OK), 0);
    assert_int_equal(be->ops->alloc(be, 64, &p, &e), ERR_VRAM);
    assert_int_equal(access("control/sim-0", F_OK), -1); /* it was obeyed */
    assert_ok(be->ops->alloc(be, 64, &p, &e), e);
    be->ops->release(be, p);
    command("oom 1");
    assert_int_equal(be->ops->alloc(be, 64, &p, &e), ERR_VRAM);
    assert_ok(be->ops->alloc(be, 64, &p, &e), e);
    be->ops->release(be, p);
    command("oom many");
    assert_ok(be->ops->alloc(be, 64, &p, &e), e);
    be->ops->release(be, p);
    assert_int_equal(be->allocated, 0);
    backend_close(be);
}

TEST_BOTH(a_device_goes_and_comes_back, control_begin, control_end)
{
    struct device_options o = {.threads = 1};
    struct backend *be = open_sim("sim:1GiB", "sim:0", 0), *again = NULL;
    struct err e = {0};

    assert_ok(be->ops->sync(be, &e), e);
    command("gone");
    assert_int_equal(be->ops->sync(be, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "not there any more"));
    assert_int_equal(backend_open_sim("sim:0", &o, &again, &e), ERR_DEVICE);
    command("ok");
    /* It is lost to this process, as a GPU would be; a new one finds it. */
    assert_int_equal(be->ops->sync(be, &e), ERR_DEVICE);
    backend_close(be);
    assert_ok(backend_open_sim("sim:0", &o, &again, &e), e);
    assert_ok(again->ops->sync(again, &e), e);
    backend_close(again);
}

TEST_BOTH(a_device_dies, control_begin, control_end)
{
    static const char *const how[] = {"die", "die once"};

    for (int i = 0; i < 2; i++) {
        int status;
        pid_t pid;

        command(how[i]);
        pid = fork();
        if (pid == 0) {
            struct device_options o = {.threads = 1};
            struct backend *be;

            backend_open_sim("sim:0", &o, &be, &(struct err){0});
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(access("control/sim-0", F_OK), i == 0 ? 0 : -1);
    }
}

/* A window with sound in it, or the silence with which a model warms up. */
static int hear(struct backend *be, size_t samples)
{
    static float pcm[16000];
    const struct audio audio = {pcm, samples};
    struct mel *mel = NULL;
    struct err e = {0};
    void *out;

    assert_ok(be->ops->mel_new(be, 80, 1, &mel, &e), e);
    assert_ok(be->ops->alloc(be, sizeof(float) * 3000 * 80, &out, &e), e);
    return be->ops->mel(be, mel, &audio, 1, tensor_of(DTYPE_F32, out, 3000, 80), &e);
}

TEST_BOTH(a_device_hangs_until_told_otherwise, control_begin, control_end)
{
    int status, patience = 3000;
    pid_t pid;

    command("hang");
    pid = fork();
    if (pid == 0) {
        struct backend *be = open_sim("sim:1GiB", "sim:0", 0); /* it is there all the same */
        struct err e = {0};
        struct work k;

        work_new(be, &k);
        if (be->ops->linear(be, k.l, k.x, EPILOGUE_NONE, k.y, &e) || hear(be, 1))
            _exit(1);
        close(open("control/warm", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        _exit(hear(be, 16000) ? 1 : 7);
    }
    while (access("control/warm", F_OK) != 0 && patience-- > 0)
        usleep(10000);
    assert_int_equal(access("control/warm", F_OK), 0);
    usleep(200000);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    command("ok");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    unlink("control/warm");
}

TEST_MAIN(NULL, NULL)
