/* A CUDA module that is none: what it does is $FAKE_CUDA, so that what a driver or a library can do
 * to the program is done here, without one.
 *
 *   two         two devices, all well (the default)
 *   mig         two slices of one
 *   warning     the same, and one library is older than it should be
 *   broken      two devices, and a library that does not fit
 *   none        no device, and the reason
 *   abi         another interface
 *   crash       dies when it is opened;      crash-devices, crash-check: later
 *   hang        never answers;               leave: ends the process in order, too early
 *   print       prints to standard output, as libraries do
 *   garbage     writes nonsense to every file that is open
 *   sick        the second device does not say what it is
 *   card-crash  the process dies when the second one is asked for its memory; card-hang: never
 *               answers; card-wrong: what it computes is wrong
 *   lost        no process answers that sees the second one, whatever it asks */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/cuda_module.h"

extern struct cuda_module nightshift_cuda_module;

static bool is(const char *what)
{
    const char *s = getenv("FAKE_CUDA");

    return strcmp(s ? s : "two", what) == 0;
}

static void crash(void)
{
    static const char words[] = "Invalid handle. Cannot load symbol cudnnCreate\n";

    if (write(STDERR_FILENO, words, sizeof(words) - 1) < 0)
        _exit(1);
    abort();
}

static void write_everywhere(const char *s)
{
    for (int fd = 1; fd < 32; fd++)
        if (write(fd, s, strlen(s)) < 0)
            continue; /* most are not open */
}

static const struct cuda_device two[] = {
    {0, "NVIDIA Imaginary 96", "GPU-8f3c0000-aaaa", "0000:01:00.0", 9, 0, 96ull << 30, 132, 0x7e,
     ""},
    {1, "NVIDIA Imaginary 24", "GPU-8f3d0000-bbbb", "0000:02:00.0", 8, 9, 24ull << 30, 82, 0x3e,
     ""},
};
static const struct cuda_device slices[] = {
    {0, "NVIDIA Imaginary 96 MIG 1g.12gb", "MIG-5a1e0000-cccc", "", 9, 0, 12ull << 30, 16, 0x7e,
     ""},
    {1, "NVIDIA Imaginary 96 MIG 1g.12gb", "MIG-5a1f0000-dddd", "", 9, 0, 12ull << 30, 16, 0x7e,
     ""},
};

/* As the run time has it: numbers, and beginnings of UUIDs, up to the first that names none. */
static uint32_t show(const struct cuda_device all[2], struct cuda_device *ret, uint32_t cap)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char copy[200], *next = NULL;
    uint32_t n = 0;

    snprintf(copy, sizeof(copy), "%s", list ? list : "0,1");
    for (char *s = strtok_r(copy, ",", &next); s && n < cap; s = strtok_r(NULL, ",", &next)) {
        int i = strcmp(s, "0") == 0 || strncmp(all[0].uuid, s, strlen(s)) == 0   ? 0
                : strcmp(s, "1") == 0 || strncmp(all[1].uuid, s, strlen(s)) == 0 ? 1
                                                                                 : -1;

        if (i < 0)
            break;
        ret[n] = all[i];
        ret[n].ordinal = n;
        n++;
    }
    return n;
}

static bool is_second(const struct cuda_device *d) { return strcmp(d->uuid, two[1].uuid) == 0; }

static int devices(struct cuda_device *ret, uint32_t cap, uint32_t *n, struct err *err)
{
    if (is("crash-devices"))
        crash();
    if (is("leave"))
        exit(0);
    while (is("hang"))
        pause();
    if (is("garbage"))
        write_everywhere("\033[2Jno json {\"end\":true}\n");
    if (is("print"))
        puts("hello from a library");
    if (is("none"))
        return err_set(err, ERR_MISSING, "the NVIDIA driver is too old for CUDA 13.0");
    *n = show(is("mig") ? slices : two, ret, cap);
    for (uint32_t i = 0; i < *n; i++) {
        while (is("lost") && is_second(&ret[i]))
            pause();
        if (is("sick") && is_second(&ret[i])) {
            ret[i] = (struct cuda_device){.ordinal = i};
            snprintf(ret[i].trouble, sizeof(ret[i].trouble), "unknown error (cudaErrorUnknown)");
        }
    }
    return 0;
}

static uint64_t free_memory(uint32_t ordinal)
{
    struct cuda_device seen[2];
    uint32_t n = show(is("mig") ? slices : two, seen, 2);

    if (n > 1) /* one is asked where it is alone, and all of the machine's are two */
        abort();
    if (ordinal >= n)
        return 0;
    if (is("card-crash") && is_second(&seen[ordinal]))
        crash();
    while (is("card-hang") && is_second(&seen[ordinal]))
        pause();
    return seen[ordinal].memory_total / 24 * 23;
}

static int open_device(const char *device, const struct cuda_options *options, struct backend **ret,
                       struct err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    cpu_set_t own;

    (void)options;
    (void)ret;
    /* It has no memory, which is not tried again: its worker is quarantined at once. */
    if (!visible)
        return err_set(err, ERR_VRAM, "device %s is imaginary", device);
    sched_getaffinity(0, sizeof(own), &own);
    return err_set(err, ERR_VRAM, "device %s is imaginary, seen as %s, from %d processors", device,
                   visible, CPU_COUNT(&own));
}

static int check(unsigned parts, cuda_finding_fn fn, void *arg)
{
    struct cuda_device seen[2];
    const bool second = show(two, seen, 2) == 1 && is_second(&seen[0]);
    const struct cuda_finding well = {0, "driver", "580.95 for CUDA 13.0", "", ""};
    const struct cuda_finding old = {1, "cuBLASLt", "12.0 (/usr/lib/libcublasLt.so.12)",
                                     "13.0 or later", "update it: some products are slower"};
    const struct cuda_finding wrong = {2, "cuDNN ops", "9.1.0 (/opt/\033[31mlibcudnn_ops.so.9)",
                                       "9.19, as the other parts of cuDNN",
                                       "remove the second copy of cuDNN from LD_LIBRARY_PATH"};
    const struct cuda_finding tried = {0, "operations", "cuda:0: all are right", "", ""};
    const struct cuda_finding bad = {2, "operations", "cuda:0: products are wrong", "", ""};

    if (is("crash-check"))
        crash();
    if (parts & CUDA_CHECK_LIBRARIES)
        fn(arg, &well);
    if ((parts & CUDA_CHECK_LIBRARIES) && is("warning"))
        fn(arg, &old);
    if ((parts & CUDA_CHECK_LIBRARIES) && is("broken"))
        fn(arg, &wrong);
    if (parts & CUDA_CHECK_OPERATIONS)
        fn(arg, is("card-wrong") && second ? &bad : &tried);
    return is("broken") ? 2 : is("warning");
}

struct cuda_module nightshift_cuda_module = {
    CUDA_MODULE_ABI, "CUDA 13.0, imaginary", devices, free_memory, open_device, check};

__attribute__((constructor)) static void begin(void)
{
    if (is("crash"))
        crash();
    if (is("abi"))
        nightshift_cuda_module.abi = CUDA_MODULE_ABI + 1;
}
