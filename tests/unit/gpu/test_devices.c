/* The inventory: what people may type, what a hostile answer may hold, what the system says. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpu.h"
#include "gpu/backend.h"
#include "gpu/devices/cuda_load.h"
#include "gpu/devices/devices.h"
#include "gpu/devices/nvidia.h"
#include "gpu/precision.h"
#include "gpu/devices/probe.h"
#include "tests/common/files.h"
#include "tests/common/test.h"

static struct devices all, picked;

static void put_file(const char *path, const char *text, mode_t mode)
{
    char folder[300];

    snprintf(folder, sizeof(folder), "%s", path);
    for (char *s = strchr(folder + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(folder, 0755);
        *s = '/';
    }
    file_text(path, text);
    chmod(path, mode);
}

static int clean(void **state)
{
    (void)state;
    unsetenv("NIGHTSHIFT_DEVICES");
    unsetenv("NIGHTSHIFT_CUDA_MODULE");
    unsetenv("NIGHTSHIFT_SYSTEM_ROOT");
    unsetenv("NIGHTSHIFT_PROBE_SECONDS");
    unsetenv("CUDA_VISIBLE_DEVICES");
    memset(&all, 0, sizeof(all));
    return system("rm -rf root probe.sh module.so") == 0 ? 0 : -1;
}

/* ---------------------------------------------------------------------------------- picking */

static void add(enum device_kind kind, const char *name, const char *label, const char *model)
{
    struct device *d = &all.list[all.count++];

    *d = (struct device){.kind = kind, .speed = 1};
    snprintf(d->name, sizeof(d->name), "%s", name);
    snprintf(d->label, sizeof(d->label), "%s", label);
    snprintf(d->model, sizeof(d->model), "%s", model);
}

static void fill(int gpus)
{
    memset(&all, 0, sizeof(all));
    all.expects_gpu = gpus > 0;
    if (gpus > 0)
        add(DEVICE_CUDA, "cuda:GPU-8f3c0000", "cuda:0", "Imaginary 96");
    if (gpus > 1)
        add(DEVICE_CUDA, "cuda:GPU-8f3d0000", "cuda:1", "Imaginary 24");
    if (gpus == 0)
        err_set(&all.no_gpu, ERR_MISSING, "this machine has no NVIDIA GPU");
    add(DEVICE_CPU, "cpu", "cpu", "Some processor");
}

/* "cuda:0 cpu": the labels that were picked; "" after an error. */
static const char *pick(const char *list, enum allow_cpu allow, struct err *err)
{
    static char ret[400];
    size_t n = 0;

    *err = (struct err){0};
    memset(&picked, 0, sizeof(picked));
    ret[0] = 0;
    if (devices_pick(&all, list, allow, &picked, err) == 0)
        for (uint32_t i = 0; i < picked.count; i++)
            n += (size_t)snprintf(ret + n, sizeof(ret) - n, "%s%s", i > 0 ? " " : "",
                                  picked.list[i].label);
    return ret;
}

TEST_SETUP(test_what_can_be_picked, clean)
{
    static const struct {
        const char *list, *labels;
    } cases[] = {{"auto", "cuda:0 cuda:1"},       {"", "cuda:0 cuda:1"},
                 {NULL, "cuda:0 cuda:1"},         {"cpu", "cpu"},
                 {"cpu,cpu", "cpu cpu"},          {"cuda:1,cuda:0", "cuda:1 cuda:0"},
                 {"cuda:1 , cpu", "cuda:1 cpu"},  {"cuda:GPU-8f3d", "cuda:1"},
                 {"cuda:GPU-8f3c0000", "cuda:0"}, {"cpu,", "cpu"}};
    struct err err;

    fill(2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(pick(cases[i].list, ALLOW_CPU_WITHOUT_HARDWARE, &err), cases[i].labels);
        assert_int_equal(err.code, 0);
    }
}

TEST_SETUP(test_what_cannot_be_picked, clean)
{
    static const struct {
        int gpus;
        const char *list;
        int code;
        const char *part; /* of the sentence */
    } cases[] = {
        {2, "cuda:2", ERR_USAGE, "cuda:0 (Imaginary 96), cuda:1 (Imaginary 24), cpu"},
        {2, "cuda", ERR_USAGE, "there is no device 'cuda'"},
        {2, "cuda:GPU-8f3", ERR_USAGE, "could be cuda:0 or cuda:1"},
        {2, "cuda:GPU-9", ERR_USAGE, "there is no device"},
        {2, "cuda:0,cuda:0", ERR_USAGE, "cuda:0 is named twice"},
        {2, "cuda:0,cuda:GPU-8f3c", ERR_USAGE, "cuda:0 is named twice"},
        {2, "CPU", ERR_USAGE, "there is no device 'CPU'"},
        {2, ",", ERR_USAGE, "no device is named"},
        {2, "cuda:0\033[2J", ERR_USAGE, "\\x1B[2J"},
        {0, "cuda:0", ERR_USAGE, "'cuda:0' cannot be used: this machine has no NVIDIA GPU"},
        {0, "sim:0", ERR_USAGE, "there is no device 'sim:0'; there is: cpu"},
    };
    struct err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fill(cases[i].gpus);
        assert_string_equal(pick(cases[i].list, ALLOW_CPU_WITHOUT_HARDWARE, &err), "");
        assert_int_equal(err.code, cases[i].code);
        if (!strstr(err.msg, cases[i].part))
            fail_msg("'%s' lacks '%s'", err.msg, cases[i].part);
    }
}

TEST_SETUP(test_every_processor_of_a_long_list, clean)
{
    char list[DEVICES_MAX * 4 + 8] = "cpu";
    struct err err;

    fill(0);
    for (uint32_t i = 1; i < DEVICES_MAX; i++)
        memcpy(list + i * 4 - 1, ",cpu", 5);
    pick(list, ALLOW_CPU_NEVER, &err); /* named, so allowed */
    assert_int_equal(picked.count, DEVICES_MAX);
    memcpy(list + DEVICES_MAX * 4 - 1, ",cpu", 5);
    pick(list, ALLOW_CPU_NEVER, &err);
    assert_int_equal(err.code, ERR_USAGE);
}

TEST_SETUP(test_whether_the_processor_may, clean)
{
    static const struct {
        bool hardware;
        enum allow_cpu allow;
        const char *labels;
        int code;
    } cases[] = {
        {false, ALLOW_CPU_WITHOUT_HARDWARE, "cpu", 0},
        {false, ALLOW_CPU_ALWAYS, "cpu", 0},
        {false, ALLOW_CPU_NEVER, "", ERR_DEVICE},
        {true, ALLOW_CPU_WITHOUT_HARDWARE, "", ERR_DEVICE},
        {true, ALLOW_CPU_ALWAYS, "cpu", 0},
        {true, ALLOW_CPU_NEVER, "", ERR_DEVICE},
    };
    struct err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fill(0);
        all.expects_gpu = cases[i].hardware;
        err_set(&all.no_gpu, ERR_DEVICE, "cuDNN is torn");
        assert_string_equal(pick("auto", cases[i].allow, &err), cases[i].labels);
        assert_int_equal(err.code, cases[i].code);
        if (err.code != 0)
            assert_non_null(strstr(err.msg, "cuDNN is torn"));
    }
    /* The same where the GPUs are there, and must not be used. */
    fill(2);
    all.list[0].unusable = all.list[1].unusable = true;
    err_set(&all.no_gpu, ERR_DEVICE, "cuDNN is torn");
    pick("auto", ALLOW_CPU_WITHOUT_HARDWARE, &err);
    assert_int_equal(err.code, ERR_DEVICE);
    assert_string_equal(pick("auto", ALLOW_CPU_ALWAYS, &err), "cpu");
    pick("cuda:1", ALLOW_CPU_ALWAYS, &err);
    assert_int_equal(err.code, ERR_DEVICE);
    assert_non_null(strstr(err.msg, "cuda:1 (Imaginary 24) cannot be used: cuDNN is torn"));
}

TEST_SETUP(test_which_lists_want_gpus, clean)
{
    assert_true(devices_list_wants_gpus(NULL));
    assert_true(devices_list_wants_gpus("auto"));
    assert_true(devices_list_wants_gpus("cpu,cuda:0"));
    assert_true(devices_list_wants_gpus("nonsense"));
    assert_false(devices_list_wants_gpus("cpu"));
    assert_false(devices_list_wants_gpus("cpu, cpu"));
}

/* ---------------------------------------------------------------------------------- answers */

#define GOOD_DEVICE                                                                            \
    "{\"device\":{\"ordinal\":0,\"name\":\"H\",\"uuid\":\"GPU-1234\",\"major\":9,\"minor\":0," \
    "\"total\":1000,\"free\":900,\"precisions\":6}}\n"
#define END "{\"end\":true}\n"

static void read_answer(const char *answer, const char *fate)
{
    memset(&all, 0, sizeof(all));
    probe_read(answer, strlen(answer), fate, "", &all);
}

TEST_SETUP(test_a_good_answer, clean)
{
    read_answer("{\"module\":\"/m.so\",\"built_for\":\"CUDA 13\"}\n" GOOD_DEVICE
                "{\"finding\":{\"state\":1,\"name\":\"cuDNN\",\"found\":\"9.1\",\"wanted\":\"9.2\","
                "\"do\":\"update\"}}\n" END,
                "");
    assert_int_equal(all.count, 1);
    assert_string_equal(all.list[0].name, "cuda:GPU-1234");
    assert_string_equal(all.list[0].label, "cuda:0");
    assert_int_equal(all.list[0].memory_free, 900);
    assert_int_equal(all.list[0].precisions, 6);
    assert_false(all.list[0].unusable);
    assert_int_equal(all.no_gpu.code, 0);
    assert_int_equal(all.finding_count, 2);
    assert_int_equal(all.findings[1].state, FINDING_WARNING);
    assert_string_equal(all.findings[1].todo, "update");
}

TEST_SETUP(test_answers_that_are_not_believed, clean)
{
    static const char *const answers[] = {
        "",
        "\n",
        "hello\n" END,
        GOOD_DEVICE, /* without its end */
        GOOD_DEVICE END "{\"end\":true",
        GOOD_DEVICE END END,
        GOOD_DEVICE GOOD_DEVICE END, /* the same UUID twice */
        "[]\n" END,
        "{}\n" END,
        "null\n" END,
        "{\"end\":1}\n",
        "{\"device\":[]}\n" END,
        "{\"device\":{\"ordinal\":0}}\n" END,
        "{\"finding\":{\"state\":9,\"name\":\"\",\"found\":\"\",\"wanted\":\"\",\"do\":\"\"}}"
        "\n" END,
        "{\"finding\":{\"state\":0,\"name\":5,\"found\":\"\",\"wanted\":\"\",\"do\":\"\"}}\n" END,
        "{\"error\":{\"code\":\"missing\"}}\n" END,
        "{\"error\":\"x\"}\n" END,
        "{\"doing\":{}}\n" END,
        "{\"module\":\"/m\"}\n" END,
        "{\"device\":{\"ordinal\":0,\"name\":\"H\",\"uuid\":\"../../etc\",\"major\":9,\"minor\":0,"
        "\"total\":1000,\"free\":900,\"precisions\":6}}\n" END,
        "{\"device\":{\"ordinal\":-1,\"name\":\"H\",\"uuid\":\"GPU-12\",\"major\":9,\"minor\":0,"
        "\"total\":1000,\"free\":900,\"precisions\":6}}\n" END,
        "{\"device\":{\"ordinal\":0,\"name\":\"H\",\"uuid\":\"GPU-12\",\"major\":9,\"minor\":0,"
        "\"total\":1000,\"free\":9000,\"precisions\":6}}\n" END,
        "{\"device\":{\"ordinal\":0,\"name\":\"H\",\"uuid\":\"GPU-12\",\"major\":9,\"minor\":0,"
        "\"total\":99999999999999999999,\"free\":0,\"precisions\":6}}\n" END,
        "{\"device\":{\"ordinal\":0,\"name\":\"H\",\"uuid\":\"GPU-12\",\"major\":9.5,\"minor\":0,"
        "\"total\":1000,\"free\":900,\"precisions\":6}}\n" END,
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        read_answer(answers[i], "");
        if (all.no_gpu.code == 0)
            fail_msg("believed: %s", answers[i]);
        for (uint32_t j = 0; j < all.count; j++)
            assert_true(all.list[j].unusable);
        assert_true(all.finding_count > 0);
        assert_int_equal(all.findings[all.finding_count - 1].state, FINDING_BROKEN);
    }
}

TEST_SETUP(test_an_answer_deep_and_one_long, clean)
{
    size_t n = 900000;
    char *s = malloc(n + 1);

    assert_non_null(s);
    memset(s, '[', n);
    s[n] = 0;
    s[n - 1] = '\n';
    read_answer(s, "");
    assert_int_equal(all.no_gpu.code, ERR_DEVICE);
    memset(s, 'x', n - 1);
    memcpy(s, "{\"doing\":\"", 10);
    memcpy(s + n - 3, "\"}", 2);
    read_answer(s, "crashed");
    assert_int_equal(all.no_gpu.code, ERR_DEVICE);
    free(s);
}

TEST_SETUP(test_more_devices_and_findings_than_fit, clean)
{
    size_t cap = 100000, n = 0;
    char *s = malloc(cap);

    assert_non_null(s);
    for (int i = 0; i < 64; i++)
        n += (size_t)snprintf(s + n, cap - n,
                              "{\"device\":{\"ordinal\":%d,\"name\":\"H\",\"uuid\":\"GPU-%04d\","
                              "\"major\":9,\"minor\":0,\"total\":1,\"free\":1,\"precisions\":6}}\n",
                              i, i);
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(s + n, cap - n,
                              "{\"finding\":{\"state\":0,\"name\":\"a name that is far too long\","
                              "\"found\":\"\\u001b[2J\",\"wanted\":\"\",\"do\":\"\"}}\n");
    snprintf(s + n, cap - n, END);
    read_answer(s, "");
    assert_int_equal(all.no_gpu.code, 0);
    assert_int_equal(all.count, DEVICES_MAX - 1);
    assert_int_equal(all.finding_count, DEVICES_FINDINGS);
    assert_string_equal(all.findings[0].found, "\\x1B[2J");
    free(s);
}

TEST_SETUP(test_the_fate_of_the_process, clean)
{
    memset(&all, 0, sizeof(all));
    probe_read("{\"doing\":\"devices were asked for\"}\n", 35, "crashed (signal 11, x)", "bad\033",
               &all);
    assert_int_equal(all.no_gpu.code, ERR_DEVICE);
    assert_string_equal(all.no_gpu.msg,
                        "the CUDA libraries crashed (signal 11, x) while devices were asked for; "
                        "last words: bad\\x1B");
}

/* ---------------------------------------------------------------------------------- memory */

/* "45 0 16": what each picked device may use, in GB. "" after an error. */
static const char *caps(const char *devices, const char *list, struct err *err)
{
    static char ret[200];
    size_t n = 0;

    *err = (struct err){0};
    fill(2);
    for (uint32_t i = 0; i < all.count; i++)
        all.list[i].memory_total = UINT64_C(100000000000);
    assert_ok(devices_pick(&all, devices, ALLOW_CPU_ALWAYS, &picked, err), *err);
    ret[0] = 0;
    if (devices_cap(&picked, list, err) == 0)
        for (uint32_t i = 0; i < picked.count; i++)
            n += (size_t)snprintf(ret + n, sizeof(ret) - n, "%s%llu", i > 0 ? " " : "",
                                  (unsigned long long)picked.list[i].memory_limit / 1000000);
    return ret;
}

TEST_SETUP(test_how_much_memory, clean)
{
    struct err e;

    assert_string_equal(caps("auto", NULL, &e), "0 0");
    assert_string_equal(caps("auto", "", &e), "0 0");
    assert_string_equal(caps("auto", "80%", &e), "80000 80000");
    assert_string_equal(caps("auto", "20GB", &e), "20000 20000");
    assert_string_equal(caps("auto", "20G", &e), "21474 21474");
    assert_string_equal(caps("auto", "20GiB,cuda:1=500MB", &e), "21474 500");
    assert_string_equal(caps("cuda:1,cuda:0", "cuda:1=512MiB,100%", &e), "536 100000");
    assert_string_equal(caps("auto", "cuda:GPU-8f3d=1M", &e), "0 1");
    assert_string_equal(caps("cuda:0,cpu,cpu", "cpu=10GB", &e), "0 5000 5000");
    assert_string_equal(caps("cpu,cpu", "50%", &e), "25000 25000");
}

TEST_SETUP(test_memory_that_makes_no_sense, clean)
{
    static const struct {
        const char *list, *says;
    } cases[] = {
        {"0%", "'0%' is no share or size"},
        {"101%", "'101%' is no share"},
        {"0G", "'0G' is no share"},
        {"20", "'20' is no share or size such as 80% or 20G, or cuda:0=20G"},
        {"-5G", "'-5G' is no share"},
        {"1.5G", "is no share"},
        {"20 G", "is no share"},
        {"99999999999999999999G", "is no share"},
        {"1000000T", "is more than cuda:0 has (93.1 GiB)"},
        {"20G,", "'' is no share"},
        {",20G", "'' is no share"},
        {"20G,30%", "'30%' is the second one for all devices"},
        {"101GB", "'101GB' is more than cuda:0 has (93.1 GiB)"},
        {"cuda:7=20G", "--device-memory: there is no device 'cuda:7'"},
        {"cpu=20G", "--device-memory: there is no device 'cpu'"}, /* not of this run */
        {"auto=20G", "'auto=20G' names no device"},
        {"=20G", "'=20G' names no device"},
        {"cuda:0=", "'cuda:0=' is no share"},
        {"cuda:0=1G,cuda:GPU-8f3c=2G", "is about a device that another entry names, too"},
        {"cuda:0=1\033[2JG", "'cuda:0=1\\x1B[2JG' is no share"},
    };
    char longest[1000];
    struct err e;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(caps("auto", cases[i].list, &e), "");
        assert_int_equal(e.code, ERR_USAGE);
        if (!strstr(e.msg, cases[i].says))
            fail_msg("'%s': %s", cases[i].list, e.msg);
    }
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    caps("auto", longest, &e);
    assert_int_equal(e.code, ERR_USAGE);
}

TEST_SETUP(test_what_is_free_bounds_it, clean)
{
    assert_int_equal(device_budget(1000, 0), 900);
    assert_int_equal(device_budget(1000, 100), 100);
    assert_int_equal(device_budget(1000, 950), 900);
    assert_int_equal(device_budget(0, 100), 0);
}

/* ---------------------------------------------------------------------------------- system */

TEST_SETUP(test_nvidia_hardware, clean)
{
    struct nvidia hw;

    nvidia_look("./root", &hw);
    assert_false(hw.present);
    put_file("root/sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n", 0644);
    put_file("root/sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n", 0644);
    put_file("root/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n", 0644);
    put_file("root/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n", 0644); /* its sound */
    nvidia_look("./root", &hw);
    assert_false(hw.present);
    put_file("root/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n", 0644);
    put_file("root/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n", 0644);
    nvidia_look("./root", &hw);
    assert_true(hw.present);
    assert_false(hw.driver);
    assert_int_equal(hw.gpus, 1);
    put_file("root/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
             0644);
    put_file("root/proc/driver/nvidia/gpus/0000:02:00.0/information",
             "Model: \t\t NVIDIA \033[31mH200\nIRQ:   \t 24\nGPU UUID: \t GPU-8f3c-a\n", 0644);
    put_file("root/proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: \t GPU-?\?\?-?\n",
             0644);
    nvidia_look("./root", &hw);
    assert_true(hw.driver);
    assert_int_equal(hw.gpus, 2);
    assert_int_equal(hw.cards, 2);
    assert_string_equal(hw.card[0].place, "0000:01:00.0");
    assert_string_equal(hw.card[0].uuid, "");
    assert_string_equal(hw.card[1].uuid, "GPU-8f3c-a");
    assert_string_equal(hw.card[1].model, "NVIDIA \\x1B[31mH200");
    assert_string_equal(hw.version, "580.95.05");
    put_file("root/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2\n", 0644);
    nvidia_look("./root", &hw);
    assert_string_equal(hw.version, "470.256.02");
    put_file("root/proc/driver/nvidia/version", "no version here 12.\033[2J\n", 0644);
    nvidia_look("./root", &hw);
    assert_string_equal(hw.version, "");
}

/* A machine with a GPU whose `nightshift probe` is a script. */
static void pretend(const char *script)
{
    char text[4000];

    put_file("root/proc/driver/nvidia/version", "NVRM version: Module 580.95.05 x\n", 0644);
    put_file("module.so", "", 0644);
    snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", script);
    put_file("probe.sh", text, 0755);
    setenv("NIGHTSHIFT_SYSTEM_ROOT", "./root", 1);
    setenv("NIGHTSHIFT_CUDA_MODULE", "./module.so", 1);
}

static void find(const char *script)
{
    struct err err = {0};

    pretend(script);
    assert_ok(devices_find("./probe.sh", &all, &err), err);
    assert_true(all.count > 0);
    assert_int_equal(all.list[all.count - 1].kind, DEVICE_CPU);
}

TEST_SETUP(test_processes_that_go_wrong, clean)
{
    static const struct {
        const char *script, *part;
    } cases[] = {
        {"kill -SEGV $$", "crashed (signal 11"},
        {"echo 'last breath' >&2; kill -ABRT $$", "last words: last breath"},
        {"exit 3", "left with status 3"},
        {"exit 0", "talk nonsense"},
        {"sleep 100", "did not answer within 1 s"},
        {"trap '' TERM; sleep 100 & wait", "did not answer within 1 s"},
        {"yes", "did not stop talking"},
        {"cat /dev/zero", "did not stop talking"},
        {"yes >&2", "did not answer within 1 s"},
        {"sleep 100 & echo '{\"end\":true}'", "finds no device"}, /* left behind, with the pipe */
        {"head -c 500000 /dev/urandom", "talk nonsense"},
    };

    setenv("NIGHTSHIFT_PROBE_SECONDS", "1", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        find(cases[i].script);
        if (!strstr(all.no_gpu.msg, cases[i].part))
            fail_msg("%s: '%s' lacks '%s'", cases[i].script, all.no_gpu.msg, cases[i].part);
        assert_int_equal(all.count, 1);
        assert_true(all.expects_gpu);
    }
}

#define ECHO_DEVICES                                                                      \
    "for i in 0 1; do echo \"{\\\"device\\\":{\\\"ordinal\\\":$i,\\\"name\\\":\\\"H\\\"," \
    "\\\"uuid\\\":\\\"GPU-000$i\\\",\\\"major\\\":9,\\\"minor\\\":0,\\\"total\\\":10,"    \
    "\\\"free\\\":5,\\\"precisions\\\":2}}\"; done; echo '{\"end\":true}'"

TEST_SETUP(test_what_is_found, clean)
{
    find(ECHO_DEVICES);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.no_gpu.code, 0);
    assert_string_equal(all.list[1].driver, "580.95.05");
    assert_true(all.list[2].precisions & 1u << PRECISION_F32);
    assert_true(all.list[2].memory_total > 0);
    assert_string_equal(all.list[2].driver, "");
}

/* A card of two that goes wrong when it is asked for alone. */
static void find_with_one_sick(const char *does)
{
    char script[1000];

    snprintf(script, sizeof(script), "[ \"$2 $3\" = '--card GPU-0001' ] && { %s; }; " ECHO_DEVICES,
             does);
    find(script);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.no_gpu.code, 0);
    assert_false(all.list[0].unusable);
    assert_true(all.list[1].unusable);
}

TEST_SETUP(test_one_sick_card, clean)
{
    static const struct {
        const char *script, *part;
    } cases[] = {
        {"kill -SEGV $$", "the CUDA libraries crashed (signal 11"},
        {"exec sleep 100", "did not answer within 1 s"},
        {"yes", "did not stop talking"},
        {"echo '{\"end\":true}'; exit 0", "finds no device"},
        {"echo '{\"error\":{\"code\":\"device\",\"message\":\"off the bus\"}}'; "
         "echo '{\"end\":true}'; exit 0",
         "off the bus"},
        {"echo '{\"finding\":{\"state\":1,\"name\":\"cuda:0\",\"found\":\"it is in use\","
         "\"wanted\":\"\",\"do\":\"\"}}'; "
         "echo '{\"finding\":{\"state\":2,\"name\":\"devices\",\"found\":\"none\","
         "\"wanted\":\"\",\"do\":\"\"}}'; echo '{\"end\":true}'; exit 0",
         "it is in use"},
        {"echo '{\"device\":{\"ordinal\":0,\"name\":\"\",\"uuid\":\"GPU-0001\",\"major\":0,"
         "\"minor\":0,\"total\":0,\"free\":0,\"precisions\":0,\"trouble\":\"it is lost\"}}'; "
         "echo '{\"end\":true}'; exit 0",
         "it is lost"},
    };
    struct err err = {0};

    setenv("NIGHTSHIFT_PROBE_SECONDS", "1", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct device_finding *f;

        find_with_one_sick(cases[i].script);
        if (!strstr(all.list[1].trouble, cases[i].part))
            fail_msg("%s: '%s' lacks '%s'", cases[i].script, all.list[1].trouble, cases[i].part);
        assert_int_equal(all.finding_count, 1);
        f = &all.findings[0];
        assert_int_equal(f->state, FINDING_WARNING);
        assert_string_equal(f->name, "cuda:1");
        assert_non_null(strstr(f->found, "H, it is left out: "));
        assert_string_equal(pick("auto", ALLOW_CPU_NEVER, &err), "cuda:0");
        pick("cuda:1", ALLOW_CPU_ALWAYS, &err);
        assert_int_equal(err.code, ERR_DEVICE);
        assert_non_null(strstr(err.msg, cases[i].part));
    }
}

/* Even the list cannot be had: the driver's own names of the cards are asked one by one. */
TEST_SETUP(test_a_list_that_one_card_spoils, clean)
{
    struct err err = {0};

    setenv("NIGHTSHIFT_PROBE_SECONDS", "1", 1);
    put_file("root/proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: GPU-0000\n", 0644);
    put_file("root/proc/driver/nvidia/gpus/0000:02:00.0/information",
             "Model: Lost\nGPU UUID: GPU-0009\n", 0644);
    put_file("root/proc/driver/nvidia/gpus/0000:03:00.0/information", "GPU UUID: GPU-0001\n", 0644);
    put_file("root/proc/driver/nvidia/gpus/0000:04:00.0/information",
             "Model: Nameless\nGPU UUID: GPU-?\?\?-?\n", 0644);
    find("[ \"$3\" = GPU-0000 ] || [ \"$3\" = GPU-0001 ] || exec sleep 100; " ECHO_DEVICES);
    assert_int_equal(all.count, 5);
    assert_int_equal(all.no_gpu.code, 0);
    assert_string_equal(all.list[0].name, "cuda:GPU-0000");
    assert_string_equal(all.list[0].label, "cuda:0");
    assert_int_equal(all.list[0].memory_free, 5);
    assert_string_equal(all.list[1].name, "cuda:GPU-0009");
    assert_true(all.list[1].unusable);
    assert_string_equal(all.list[2].label, "cuda:2");
    assert_string_equal(all.list[2].visible, "GPU-0001");
    assert_string_equal(pick("auto", ALLOW_CPU_NEVER, &err), "cuda:0 cuda:2");
    assert_string_equal(all.findings[all.finding_count - 2].name, "cuda:1");
    assert_non_null(strstr(all.findings[all.finding_count - 2].found, "Lost, it is left out"));
    assert_string_equal(all.list[3].label, "cuda:3");
    assert_string_equal(all.list[3].visible, "");
    assert_true(all.list[3].unusable);
    assert_string_equal(all.findings[all.finding_count - 1].name, "cuda:3");
    assert_non_null(strstr(all.findings[all.finding_count - 1].found,
                           "Nameless, it is left out: the kernel's driver does not say its UUID"));
    pick("cuda:3", ALLOW_CPU_NEVER, &err);
    assert_int_equal(err.code, ERR_DEVICE);
    /* None of them answers: what was said first stays. */
    find("exec sleep 100");
    assert_int_equal(all.count, 1);
    assert_non_null(strstr(all.no_gpu.msg, "did not answer within 1 s"));
    assert_int_equal(all.findings[0].state, FINDING_BROKEN);
    /* Whoever chose the cards gets no others. */
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    find("[ \"$3\" = GPU-0000 ] || [ \"$3\" = GPU-0001 ] || exec sleep 100; " ECHO_DEVICES);
    assert_int_equal(all.count, 1);
}

TEST_SETUP(test_what_shows_a_card_alone, clean)
{
    find(ECHO_DEVICES);
    assert_string_equal(all.list[1].visible, "GPU-0001");
    assert_string_equal(all.list[2].visible, "");
    setenv("CUDA_VISIBLE_DEVICES", "7,MIG-12", 1);
    find(ECHO_DEVICES);
    assert_string_equal(all.list[0].visible, "7");
    assert_string_equal(all.list[1].visible, "MIG-12");
    unsetenv("CUDA_VISIBLE_DEVICES");
    read_answer(
        "{\"device\":{\"ordinal\":3,\"name\":\"NVIDIA H200 MIG 1g.18gb\",\"uuid\":"
        "\"GPU-12\",\"major\":9,\"minor\":0,\"total\":9,\"free\":9,\"precisions\":6}}\n" END,
        "");
    assert_string_equal(all.list[0].visible, "3");
}

static void visible(const char *list, enum finding_state state, const char *part)
{
    const struct device_finding *f;

    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    find(ECHO_DEVICES);
    assert_true(all.finding_count > 0);
    f = &all.findings[all.finding_count - 1];
    assert_string_equal(f->name, "CUDA_VISIBLE");
    assert_int_equal(f->state, state);
    if (!strstr(f->found, part) && !strstr(f->wanted, part))
        fail_msg("'%s', '%s' lack '%s'", f->found, f->wanted, part);
}

TEST_SETUP(test_cuda_visible_devices, clean)
{
    put_file("root/proc/driver/nvidia/gpus/a/x", "", 0644);
    put_file("root/proc/driver/nvidia/gpus/b/x", "", 0644);
    put_file("root/proc/driver/nvidia/gpus/c/x", "", 0644);
    visible("2,0", FINDING_WELL, "CUDA_VISIBLE_DEVICES=2,0 shows 2 of this machine's 3 GPUs");
    visible("2,0,7,1", FINDING_WARNING, "the list ends before '7'");
    visible("", FINDING_WARNING, "this one is empty");
}

#define ECHO_NO_DEVICE \
    "echo '{\"error\":{\"code\":\"missing\",\"message\":\"no device\"}}'; echo '{\"end\":true}'"

TEST_SETUP(test_a_list_that_hides_every_gpu, clean)
{
    setenv("CUDA_VISIBLE_DEVICES", "9,0", 1);
    find(ECHO_NO_DEVICE);
    assert_string_equal(all.no_gpu.msg, "no device");
    assert_int_equal(all.finding_count, 1);
    assert_non_null(strstr(all.findings[0].wanted, "the list ends before '9'"));
    /* Where something is broken the list is not to blame. */
    find("exit 3");
    assert_int_equal(all.finding_count, 1);
    assert_string_equal(all.findings[0].name, "CUDA");
}

TEST_SETUP(test_without_hardware_nothing_is_started, clean)
{
    struct err err = {0};

    setenv("NIGHTSHIFT_SYSTEM_ROOT", "./root", 1);
    assert_ok(devices_find("./this-does-not-exist", &all, &err), err);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.no_gpu.code, ERR_MISSING);
    assert_false(all.expects_gpu);
    assert_int_equal(all.finding_count, 0);
    /* With hardware and no module: a fault, and what to do. */
    put_file("root/proc/driver/nvidia/version", "x\n", 0644);
    setenv("NIGHTSHIFT_CUDA_MODULE", "./gone.so", 1);
    assert_ok(devices_find("./this-does-not-exist", &all, &err), err);
    assert_true(all.expects_gpu);
    assert_int_equal(all.finding_count, 1);
    assert_int_equal(all.findings[0].state, FINDING_BROKEN);
    assert_non_null(strstr(all.no_gpu.msg, "./gone.so"));
}

TEST_SETUP(test_gpus_may_be_left_out, clean)
{
    struct err err = {0};

    pretend("exit 9");
    setenv("NIGHTSHIFT_DEVICES", "cpu", 1);
    assert_ok(devices_find("./probe.sh", &all, &err), err);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.finding_count, 0);
    assert_false(all.expects_gpu);
}

TEST_SETUP(test_it_can_be_stopped, clean)
{
    static const volatile sig_atomic_t stop = 1;
    struct err err = {0};

    pretend("sleep 100");
    assert_int_equal(devices_examine("./probe.sh", &stop, &all, &err), ERR_CANCELLED);
}

TEST_SETUP(test_a_parent_that_keeps_no_children, clean)
{
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);

    find(ECHO_DEVICES);
    signal(SIGCHLD, before);
    assert_int_equal(all.count, 3);
}

/* ---------------------------------------------------------------------------------- opening */

TEST_SETUP(test_opening_what_cannot_be_opened, clean)
{
    const struct cuda_module *m = NULL;
    struct device_options o = {0};
    struct backend *be = NULL;
    struct err err = {0};

    assert_int_equal(device_open("nonsense", &o, &be, &err), ERR_USAGE);
    assert_int_equal(device_open("cuda:", &o, &be, &err), ERR_USAGE);
    setenv("NIGHTSHIFT_CUDA_MODULE", "./gone.so", 1);
    assert_int_equal(device_open("cuda:0", &o, &be, &err), ERR_MISSING);
    put_file("module.so", "no library", 0644);
    assert_int_equal(cuda_module_load("module.so", &m, &err), ERR_MISSING);
    assert_non_null(strstr(err.msg, "cannot be opened"));
    assert_null(be);
}

TEST_SETUP(test_the_module_is_asked, clean)
{
    struct device_options o = {0};
    struct backend *be = NULL;
    struct err err = {0};

    setenv("NIGHTSHIFT_CUDA_MODULE", FAKE_CUDA, 1);
    assert_int_equal(device_open("cuda:GPU-12", &o, &be, &err), ERR_VRAM);
    assert_string_equal(err.msg, "device GPU-12 is imaginary");
}

TEST_MAIN(NULL, NULL)
