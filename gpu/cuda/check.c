/* gpu/cuda/check.c - is there a GPU that can be used, and do NVIDIA's libraries fit?
 *
 * In this order, because each thing rests on the one before: the driver, the devices, the run time,
 * cuBLASLt, cuDNN, and real operations on each device. Words are for somebody who
 * has never installed any of this: what was found, what is wanted, what to type. */
#include "gpu/cuda/check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NVIDIA_VENDOR 0x10deu /* on the PCI bus */
#define GIB 1073741824.0
#define LEAST_FREE (1u << 30) /* bytes with which small models still run */
#define CHECK_BUDGET (640ull << 20)

void check_say(struct check *c, int state, const char *name, const char *wanted, const char *todo,
               const char *fmt, ...)
{
    char found[900];
    struct cuda_finding f = {state, name, found, wanted, todo};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(found, sizeof(found), fmt, ap);
    va_end(ap);
    if (state > c->worst)
        c->worst = state;
    c->fn(c->arg, &f);
}

/* ------------------------------------------------------------------------------- the machine */

/* Whether a display or compute card of NVIDIA's is on the PCI bus; on WSL it is behind /dev/dxg. */
static bool card_there(void)
{
    static const char root[] = "/sys/bus/pci/devices";
    DIR *d = opendir(root);
    struct dirent *entry;
    bool found = access("/dev/dxg", F_OK) == 0;

    while (d && !found && (entry = readdir(d))) {
        unsigned values[2] = {0, 0};
        static const char *const names[] = {"vendor", "class"};

        for (int i = 0; i < 2 && entry->d_name[0] != '.'; i++) {
            char path[400];
            FILE *f;

            snprintf(path, sizeof(path), "%s/%s/%s", root, entry->d_name, names[i]);
            f = fopen(path, "re");
            if (f && fscanf(f, "%x", &values[i]) != 1)
                values[i] = 0;
            if (f)
                fclose(f);
        }
        found = values[0] == NVIDIA_VENDOR && values[1] >> 16 == 3;
    }
    if (d)
        closedir(d);
    return found;
}

/* The version of the kernel's half of the driver, "580.95.05"; "" when it is not loaded. */
static void kernel_driver(char *ret, size_t cap)
{
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    char word[64];
    int major, minor;

    ret[0] = '\0';
    while (f && !ret[0] && fscanf(f, "%63s", word) == 1)
        if (sscanf(word, "%d.%d", &major, &minor) == 2 && major >= 100)
            snprintf(ret, cap, "%s", word);
    if (f)
        fclose(f);
}

/* The file of libcuda.so.1 that this process gets, links followed; else false and the loader's
 * words. */
static bool driver_file(char *file, size_t cap, char *why, size_t why_cap)
{
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL), *symbol;
    char real[PATH_MAX];
    Dl_info info = {0};

    if (!handle) {
        const char *text = dlerror();

        snprintf(why, why_cap, "%s", text ? text : "libcuda.so.1 cannot be opened");
        return false;
    }
    symbol = dlsym(handle, "cuInit");
    if (!symbol || dladdr(symbol, &info) == 0 || !info.dli_fname)
        snprintf(file, cap, "libcuda.so.1");
    else if (realpath(info.dli_fname, real))
        snprintf(file, cap, "%s", real);
    else
        snprintf(file, cap, "%s", info.dli_fname);
    dlclose(handle);
    return true;
}

/* The first driver that runs programs of this CUDA (NVIDIA's table of minor version
 * compatibility). */
static int least_driver(int cuda_major) { return cuda_major >= 13 ? 580 : 525; }

/* ------------------------------------------------------------------------------- the driver */

static void say_no_driver(struct check *c, const char *wanted, const char *why)
{
    bool missing = strstr(why, "No such file") != NULL;
    char kernel[64];

    kernel_driver(kernel, sizeof(kernel));
    if (!missing)
        check_say(
            c, CHECK_BROKEN, "driver", wanted,
            "reinstall the NVIDIA driver (sudo apt install --reinstall libcuda1), or put right "
            "what LD_LIBRARY_PATH points to",
            "the driver's library cannot be opened: %s", why);
    else if (kernel[0])
        check_say(c, CHECK_BROKEN, "driver", wanted,
                  "sudo apt install libcuda1 of the same version; in a container: start it with "
                  "--gpus all (NVIDIA Container Toolkit), which brings the library in",
                  "the kernel has NVIDIA's driver %s, but its library libcuda.so.1 is not to be "
                  "found",
                  kernel);
    else if (card_there())
        check_say(c, CHECK_BROKEN, "driver", wanted,
                  "sudo apt install nvidia-driver, then restart the machine; nvidia-smi should "
                  "then list the card",
                  "an NVIDIA card is there, but no driver: libcuda.so.1 is not to be found");
    else
        check_say(c, CHECK_WARNING, "driver", wanted,
                  "nothing, when this machine has no NVIDIA card: work runs on the processor; else "
                  "sudo apt install nvidia-driver",
                  "no NVIDIA driver (libcuda.so.1 is not to be found), and no NVIDIA card is seen");
}

static void check_driver(struct check *c)
{
    char file[PATH_MAX] = "", why[300] = "", kernel[64], wanted[120];
    int rc = (int)cudaDriverGetVersion(&c->driver), major = c->runtime / 1000;
    bool found;

    cudaGetLastError();
    snprintf(wanted, sizeof(wanted), "an NVIDIA driver for CUDA %d: version %d or later", major,
             least_driver(major));
    found = driver_file(file, sizeof(file), why, sizeof(why));
    kernel_driver(kernel, sizeof(kernel));
    if (!found && (rc != 0 || c->driver == 0)) {
        c->driver = 0;
        say_no_driver(c, wanted, why);
        return;
    }
    if (strstr(file, "/stubs/") || rc == cudaErrorStubLibrary) {
        check_say(c, CHECK_BROKEN, "driver", wanted,
                  "take that directory out of LD_LIBRARY_PATH and /etc/ld.so.conf.d; the driver's "
                  "own library comes with the package libcuda1",
                  "%s is the stub that programs are linked with, not the driver", file);
        c->driver = 0;
    } else if (rc != 0 || c->driver == 0) {
        check_say(c, CHECK_BROKEN, "driver", wanted,
                  "restart the machine, so that the driver's parts are of one version; when that "
                  "does not help, sudo apt install --reinstall nvidia-driver libcuda1",
                  "%s does not answer: %s", file,
                  rc != 0 ? cudaGetErrorString((cudaError_t)rc) : "it names no version");
        c->driver = 0;
    } else if (c->driver / 1000 < major) {
        check_say(c, CHECK_BROKEN, "driver", wanted,
                  major >= 13 ? "install a newer driver from NVIDIA's repository (sudo apt install "
                                "cuda-drivers): Debian 12 has 535 and Debian 13 has 550, which are "
                                "too old; or build Nightshift with CUDA 12, which wants 525"
                              : "install a newer driver (sudo apt install nvidia-driver)",
                  "%s%sfor CUDA %d.%d at most (%s)", kernel, kernel[0] ? ", " : "",
                  c->driver / 1000, c->driver % 1000 / 10, found ? file : "built in");
    } else {
        check_say(c, CHECK_WELL, "driver", "", "", "%s%sfor CUDA up to %d.%d (%s)", kernel,
                  kernel[0] ? ", " : "", c->driver / 1000, c->driver % 1000 / 10,
                  found ? file : "built in");
    }
}

/* ------------------------------------------------------------------------------- the devices */

/* Advice for a run time that cannot name its devices. */
static const char *devices_todo(int rc)
{
    switch (rc) {
    case cudaErrorInsufficientDriver:
        return "what the line about the driver says";
    case cudaErrorStubLibrary:
        return "take directories called stubs out of LD_LIBRARY_PATH and /etc/ld.so.conf.d";
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
        return "restart the machine: the driver was renewed, and the kernel still has the old one; "
               "and take cuda-compat out of LD_LIBRARY_PATH";
    case cudaErrorSystemNotReady:
        return "start NVIDIA's fabric manager: sudo systemctl start nvidia-fabricmanager";
    case cudaErrorOperatingSystem:
        return "see that this user may open /dev/nvidia* (group video or render; in a container: "
               "--gpus all)";
    default:
        return "see whether nvidia-smi lists the card; sudo modprobe nvidia nvidia_uvm, or restart "
               "the machine";
    }
}

static void say_no_device(struct check *c)
{
    static const char wanted[] = "a GPU of compute capability 7.5 or later (Turing, 2018)";
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (visible)
        check_say(c, CHECK_BROKEN, "devices", wanted,
                  "unset CUDA_VISIBLE_DEVICES, or name cards that nvidia-smi -L lists (what comes "
                  "after a name that does not exist is hidden too)",
                  "none: CUDA_VISIBLE_DEVICES is '%s', which hides every GPU", visible);
    else
        check_say(c, CHECK_BROKEN, "devices", wanted,
                  "see whether nvidia-smi lists the card; in a container: start it with --gpus all",
                  "none: the driver knows no GPU");
}

/* Whether it can be used. Trouble of one is a warning, so that it does not keep the others idle. */
static bool check_device(struct check *c, int ordinal)
{
    size_t free_bytes = 0, total = 0;
    char label[16], memory[96];
    struct cuda_device d;
    struct err err;
    int rc;

    snprintf(label, sizeof(label), "cuda:%d", ordinal);
    if (cuda_device_describe(ordinal, &d, &err) != 0) {
        check_say(c, CHECK_WARNING, label, "a device that answers", devices_todo(0), "%s", err.msg);
        return false;
    }
    if (d.major * 10 + d.minor < 75) {
        check_say(c, CHECK_WARNING, label, "compute capability 7.5 or later (Turing, 2018)",
                  "leave this card out (--devices); it cannot be used",
                  "%s, compute capability %d.%d", d.name, d.major, d.minor);
        return false;
    }
    rc = (int)cudaSetDevice(ordinal);
    if (rc == 0)
        rc = (int)cudaMemGetInfo(&free_bytes, &total);
    if (rc != 0) {
        cudaGetLastError();
        check_say(c, CHECK_WARNING, label, "a device that answers",
                  rc == cudaErrorMemoryAllocation || rc == cudaErrorDevicesUnavailable
                      ? "end the programs that hold it (nvidia-smi lists them), or set its compute "
                        "mode back: sudo nvidia-smi -c 0"
                      : devices_todo(rc),
                  "%s does not answer: %s", d.name, cudaGetErrorString((cudaError_t)rc));
        return false;
    }
    snprintf(memory, sizeof(memory), "%.1f of %.1f GiB free", (double)free_bytes / GIB,
             (double)total / GIB);
    if (free_bytes < LEAST_FREE)
        check_say(c, CHECK_WARNING, label, "at least 1 GiB free",
                  "end the programs that use its memory (nvidia-smi lists them)",
                  "%s, sm_%d%d, %s; %s", d.name, d.major, d.minor, memory, d.uuid);
    else
        check_say(c, CHECK_WELL, label, "", "", "%s, sm_%d%d, %u multiprocessors, %s; %s", d.name,
                  d.major, d.minor, d.processors, memory, d.uuid);
    return true;
}

static void check_devices(struct check *c)
{
    int rc, usable = 0;

    if (c->driver == 0) /* said already; the run time would say the same in fewer words */
        return;
    rc = (int)cudaGetDeviceCount(&c->devices);
    cudaGetLastError();
    if (rc == cudaErrorNoDevice || (rc == 0 && c->devices == 0)) {
        c->devices = 0;
        say_no_device(c);
    } else if (rc != 0) {
        c->devices = 0;
        check_say(c, CHECK_BROKEN, "devices", "a list of the GPUs", devices_todo(rc),
                  "they cannot be asked: %s (%s)", cudaGetErrorString((cudaError_t)rc),
                  cudaGetErrorName((cudaError_t)rc));
    }
    if (!(c->parts & CUDA_CHECK_DEVICES))
        return;
    for (int i = 0; i < c->devices; i++)
        usable += check_device(c, i);
    if (c->devices > 0 && usable == 0)
        check_say(c, CHECK_BROKEN, "devices", "one device that can be used",
                  "what the lines about them say", "none of them can be used");
}

/* ------------------------------------------------------------------------------- libraries */

static void check_runtime(struct check *c)
{
    check_say(c, CHECK_WELL, "CUDA run time", "", "",
              "%d.%d, inside the module, which was built for %s", c->runtime / 1000,
              c->runtime % 1000 / 10, libs_built_for);
}

static void check_cublaslt(struct check *c)
{
    const struct lib *lib = &c->libs.cublaslt;
    int major = c->runtime / 1000;
    char wanted[80], todo[500];

    if (lib->handle) {
        check_say(c, CHECK_WELL, "cuBLASLt", "", "", "%d.%d.%d (%s)", lib->version / 10000,
                  lib->version / 100 % 100, lib->version % 100, lib->file);
        return;
    }
    snprintf(wanted, sizeof(wanted), "libcublasLt.so.%d of CUDA %d", major, major);
    if (lib->file[0])
        snprintf(todo, sizeof(todo),
                 "remove that file, or take its directory out of LD_LIBRARY_PATH; then sudo apt "
                 "install libcublas-%d-0, or set %s to the directory of the right one",
                 major, LIBS_DIRECTORY);
    else
        snprintf(todo, sizeof(todo),
                 "sudo apt install libcublas-%d-0 (from NVIDIA's repository), or pip install "
                 "nvidia-cublas%s and set %s to the directory that then holds it",
                 major, major >= 13 ? "" : "-cu12", LIBS_DIRECTORY);
    check_say(c, CHECK_BROKEN, "cuBLASLt", wanted, todo, "%s",
              lib->reason[0] ? lib->reason : "it is not to be found");
}

/* ------------------------------------------------------------------------------- everything */

static void run_device(struct check *c, int ordinal)
{
    struct cuda_options options = {.cap = CHECK_BUDGET};
    struct backend *be = NULL;
    char name[16], label[24];
    struct err err;
    int rc;

    snprintf(name, sizeof(name), "%d", ordinal);
    snprintf(label, sizeof(label), "cuda:%d", ordinal);
    rc = cuda_open(name, &options, &be, &err);
    if (rc == ERR_MISSING) /* a card too old for us: said above */
        return;
    if (rc != 0) {
        check_say(c, rc == ERR_VRAM ? CHECK_WARNING : CHECK_BROKEN, label,
                  "a device on which something can be computed",
                  rc == ERR_VRAM ? "end the programs that use its memory (nvidia-smi lists them)"
                                 : devices_todo(0),
                  "it cannot be opened: %s", err.msg);
        return;
    }
    check_run(c, cuda_of(be), label);
    be->ops->close(be); /* backend_close is the program's */
}

static void ignore_finding(void *arg, const struct cuda_finding *f)
{
    (void)arg;
    (void)f;
}

/* What a part rests on is looked at in any case, but what is found there is told only where it is
 * asked for. */
int cuda_check(unsigned parts, cuda_finding_fn fn, void *arg)
{
    const bool told = (parts & CUDA_CHECK_LIBRARIES) != 0;
    struct check c = {.parts = parts, .fn = told ? fn : ignore_finding, .arg = arg};
    struct err err;

    if (cudaRuntimeGetVersion(&c.runtime) != cudaSuccess || c.runtime <= 0)
        c.runtime = CUDART_VERSION;
    check_driver(&c);
    c.fn = fn;
    check_devices(&c);
    if (parts == CUDA_CHECK_DEVICES)
        return c.worst;
    c.fn = told ? fn : ignore_finding;
    check_runtime(&c);
    libs_open(&c.libs);
    c.usable = libs_usable(&c.libs, &err) == 0;
    check_cublaslt(&c);
    check_cudnn(&c);
    c.fn = fn;
    for (int i = 0; (parts & CUDA_CHECK_OPERATIONS) && c.usable && i < c.devices; i++)
        run_device(&c, i);
    return c.worst;
}
