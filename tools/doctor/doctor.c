#include "tools/doctor/doctor.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "gpu/backend.h"
#include "gpu/precision.h"
#include "store/store.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/hub/hub.h"
#include "workers/media/decoder.h"
#include "workers/media/sandbox.h"

#define NAME_COLUMN 8
#define TEXT_COLUMN 23 /* what was found begins here */
#define PART_COLUMN 30 /* what is wanted, behind its label */

static const char *const states[] = {"ok", "warning", "broken"};

/* ---- how a finding looks: for people, and as JSON */

static void print_part(const char *label, const char *s)
{
    printf("%*s%-*s", TEXT_COLUMN, "", PART_COLUMN - TEXT_COLUMN, label);
    cli_wrap(stdout, s, PART_COLUMN, PART_COLUMN);
}

static void print_finding(enum finding_state state, const char *name, const char *found,
                          const char *wanted, const char *todo)
{
    static const char *const colours[] = {"32", "33", "31"};

    cli_paint(stdout, colours[state], states[state]);
    printf("%*s%-*s", NAME_COLUMN - (int)strlen(states[state]), "", TEXT_COLUMN - NAME_COLUMN,
           name);
    cli_wrap(stdout, found, TEXT_COLUMN, TEXT_COLUMN);
    if (state != FINDING_WELL && wanted && wanted[0] != 0)
        print_part("wanted", wanted);
    if (state != FINDING_WELL && todo && todo[0] != 0)
        print_part("do", todo);
    fflush(stdout); /* the next one may take a while */
}

void doctor_finding(struct doctor *d, enum finding_state state, const char *name,
                    const char *wanted, const char *todo, const char *fmt, ...)
{
    char text[700], *found;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    found = utf8_display(text, strlen(text)); /* it may hold names of files */
    d->bad += state == FINDING_BROKEN;
    d->warnings += state == FINDING_WARNING;
    if (d->rows)
        json_array_append_new(d->rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", name, "state",
                                                 states[state], "found", found ? found : "",
                                                 "wanted", wanted ? wanted : "", "do",
                                                 state != FINDING_WELL && todo ? todo : ""));
    else
        print_finding(state, name, found ? found : "", wanted, todo);
    free(found);
}

/* ---- Processor, memory, and what the kernel lets a decoder be locked in with */

static void check_processor(struct doctor *d, const struct device *cpu)
{
    struct backend_info info = {0};

    backend_host_info(&info);
    if (cpu->precisions & 1u << PRECISION_BF16)
        doctor_finding(d, FINDING_WELL, "processor", NULL, NULL, "%s, %u threads; %s", info.name,
                       info.threads, info.features);
    else
        doctor_finding(
            d, FINDING_WELL, "processor", NULL, NULL,
            "%s, %u threads; %s; no bfloat16 instructions, so %s used%s", info.name, info.threads,
            info.features[0] ? info.features : "no vector extensions known",
            cpu->precisions & 1u << PRECISION_INT16 ? "integers of 16 bits are" : "float32 is",
            cpu->precisions & 1u << PRECISION_INT8_F32
                ? " (--precision int8 is faster, and changes words here and there)"
                : "");
}

static void check_memory(struct doctor *d)
{
    char a[TEXT_LEN], b[TEXT_LEN];
    struct memory m;

    memory_look(&m);
    if (m.available == 0) {
        doctor_finding(d, FINDING_WARNING, "memory", "1 GB free", "mount /proc",
                       "/proc/meminfo does not say");
        return;
    }
    doctor_finding(d, m.available < 1000000000 ? FINDING_WARNING : FINDING_WELL, "memory",
                   "1 GB free, more for larger models",
                   "end other programs, or use `nightshift run --slots 1 --decoders 1`",
                   m.limit > 0 ? "%s free, of the %s that this container or service may have"
                               : "%s free",
                   text_bytes(m.available, a), text_bytes(m.limit, b));
}

static void check_sandbox(struct doctor *d)
{
    static const char wanted[] = "decoders that can open no file, no socket and start no program";
    char words[SANDBOX_WORDS], lacking[SANDBOX_WORDS];
    struct sandbox_report r = {0};
    struct err err = {0};
    enum finding_state state = FINDING_WELL;

    if (sandbox_check(&r, &err) != 0) {
        doctor_finding(d, FINDING_BROKEN, "sandbox", wanted,
                       "look at `dmesg`; is /proc mounted, fork allowed?", "%s", err.msg);
        return;
    }
    if (sandbox_judge(&r, false, lacking, &err) != 0)
        state = FINDING_BROKEN;
    else if (lacking[0] != 0 || !r.files_refused || !r.network_refused || !r.processes_refused)
        state = FINDING_WARNING;
    sandbox_words(&r, words);
    doctor_finding(
        d, state, "sandbox", wanted,
        "use a kernel with Landlock (5.13 or later) and seccomp; in a container, allow them", "%s",
        words);
}

void doctor_machine(struct doctor *d, const struct device *cpu)
{
    check_processor(d, cpu);
    check_memory(d);
    check_sandbox(d);
}

/* ---- the libraries that this process has loaded, and their versions */

/* Versions are asked of the libraries that this process has really loaded, by the name of the
 * function: their headers belong to other folders, and the file's name is found beside it. */
struct known {
    const char *name, *symbol;
    int (*version)(void *symbol, int v[3]); /* how it answers */
    int want[2];
    const char *package;
    bool pull; /* for `nightshift model pull` alone: nothing else lacks it */
};

static int version_packed16(void *symbol, int v[3]) /* FFmpeg: major << 16 | minor << 8 | micro */
{
    unsigned n = ((unsigned (*)(void))symbol)();

    v[0] = (int)(n >> 16);
    v[1] = (int)(n >> 8 & 255);
    v[2] = (int)(n & 255);
    return 0;
}

static int version_millions(void *symbol, int v[3]) /* libarchive: 3006002 */
{
    int n = ((int (*)(void))symbol)();

    v[0] = n / 1000000;
    v[1] = n / 1000 % 1000;
    v[2] = n % 1000;
    return 0;
}

static int version_openssl(void *symbol, int v[3]) /* 0xMNN00PP0 */
{
    unsigned long n = ((unsigned long (*)(void))symbol)();

    v[0] = (int)(n >> 28);
    v[1] = (int)(n >> 20 & 255);
    v[2] = (int)(n >> 4 & 255);
    return 0;
}

static int version_said(void *symbol, int v[3]) /* "libcurl/7.88.1 OpenSSL/3.0.15 ..." */
{
    const char *words = ((const char *(*)(void))symbol)();

    return sscanf(words, "%*[^/]/%d.%d.%d", &v[0], &v[1], &v[2]) == 3 ? 0 : -1;
}

static int version_ints(void *symbol, int v[3]) /* a struct that begins with three of them */
{
    const int *n = ((const int *(*)(void))symbol)();

    if (!n)
        return -1;
    memcpy(v, n, 3 * sizeof(*n));
    return 0;
}

static const struct known libraries[] = {
    {"avformat", "avformat_version", version_packed16, {59, 0}, "libavformat59", false},
    {"avcodec", "avcodec_version", version_packed16, {59, 0}, "libavcodec59", false},
    {"swresample", "swresample_version", version_packed16, {4, 0}, "libswresample4", false},
    {"libarchive", "archive_version_number", version_millions, {3, 6}, "libarchive13", false},
    {"libcurl", "curl_version", version_said, {7, 85}, "libcurl4", true},
    {"OpenSSL", "OpenSSL_version_num", version_openssl, {3, 0}, "libssl3", true},
    {"libuv", "uv_version", version_packed16, {1, 44}, "libuv1", false},
    {"libseccomp", "seccomp_version", version_ints, {2, 5}, "libseccomp2", false},
    {"oneDNN", "dnnl_version", version_ints, {2, 6}, "libdnnl2", false},
};

static void check_library(struct doctor *d, const struct known *l)
{
    enum finding_state otherwise = l->pull ? FINDING_WARNING : FINDING_BROKEN;
    void *symbol = dlsym(RTLD_DEFAULT, l->symbol);
    char wanted[80], todo[100];
    int v[3] = {0};
    Dl_info where = {0};
    bool good;

    snprintf(wanted, sizeof(wanted), "version %d.%d or later%s", l->want[0], l->want[1],
             l->pull ? ", for `nightshift model pull` alone" : "");
    snprintf(todo, sizeof(todo), "sudo apt install --reinstall %s", l->package);
    if (!symbol || l->version(symbol, v) != 0) {
        doctor_finding(d, otherwise, l->name, wanted, todo, "%s is not to be found", l->package);
        return;
    }
    dladdr(symbol, &where);
    good = v[0] > l->want[0] || (v[0] == l->want[0] && v[1] >= l->want[1]);
    doctor_finding(d, good ? FINDING_WELL : otherwise, l->name, wanted, todo, "%d.%d.%d (%s)", v[0],
                   v[1], v[2], where.dli_fname ? where.dli_fname : "built in");
}

static void check_sqlite(struct doctor *d)
{
    const char *version = store_sqlite_version();
    int v[3] = {0};
    char *s = NULL;

    v[0] = (int)strtol(version, &s, 10);
    v[1] = s && *s == '.' ? (int)strtol(s + 1, &s, 10) : 0;
    v[2] = s && *s == '.' ? (int)strtol(s + 1, &s, 10) : 0;
    if (v[0] < 3 || (v[0] == 3 && v[1] < 40))
        doctor_finding(d, FINDING_BROKEN, "SQLite", "version 3.40 or later",
                       "sudo apt install libsqlite3-0", "%s", version);
    else if (v[0] == 3 && (v[1] < 51 || (v[1] == 51 && v[2] < 3)))
        doctor_finding(
            d, FINDING_WELL, "SQLite", NULL, NULL,
            "%s; its WAL-reset fault (before 3.51.3) needs several writers, and nightshift "
            "keeps to one: do not write to the catalog from other programs during a run",
            version);
    else
        doctor_finding(d, FINDING_WELL, "SQLite", NULL, NULL, "%s", version);
}

void doctor_libraries(struct doctor *d)
{
    struct err ignored; /* what is not there is told of below, each by itself */

    decoder_load(&ignored);
    hub_load(&ignored);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        check_library(d, &libraries[i]);
    check_sqlite(d);
}

/* ---- what is known of GPUs, and whether they can be used */

#define LITTLE_MEMORY 1000000000u
#define GIB 1073741824.0 /* as cards are sold */

/* "fp32, fp16, bf16" */
static void name_precisions(uint32_t set, char *ret, size_t capacity)
{
    size_t n = 0;

    ret[0] = 0;
    for (int p = PRECISION_F32; p < PRECISION_COUNT && n < capacity; p++)
        if (set & 1u << p)
            n += (size_t)snprintf(ret + n, capacity - n, "%s%s", n > 0 ? ", " : "",
                                  precision_name((enum precision)p));
}

static void describe_gpu(const struct device *g, char *ret, size_t capacity)
{
    char left[32] = "", have[80], version[24] = "", driver[48] = "";

    name_precisions(g->precisions, have, sizeof(have));
    if (g->major > 0)
        snprintf(version, sizeof(version), ", capability %d.%d", g->major, g->minor);
    if (g->driver[0] != 0)
        snprintf(driver, sizeof(driver), ", driver %s", g->driver);
    if (g->memory_free > 0)
        snprintf(left, sizeof(left), ", %.1f GiB free", (double)g->memory_free / GIB);
    snprintf(ret, capacity, "%s%s, %.1f GiB%s%s, %s; %s", g->model, version,
             (double)g->memory_total / GIB, left, driver, g->id, have);
}

static void check_gpu(struct doctor *d, const struct device *g)
{
    char text[400];

    describe_gpu(g, text, sizeof(text));
    if (g->unusable)
        doctor_finding(d, FINDING_BROKEN, g->label, "a GPU that can be used",
                       "put right what is broken above", "%s", text);
    else if (g->memory_free > 0 && g->memory_free < LITTLE_MEMORY)
        doctor_finding(d, FINDING_WARNING, g->label, "1 GB free, more for larger models",
                       "end the programs that `nvidia-smi` shows on it", "%s", text);
    else
        doctor_finding(d, FINDING_WELL, g->label, NULL, NULL, "%s", text);
}

static void check_none(struct doctor *d, const struct devices *all, bool said)
{
    if (!all->expects_gpu && !said)
        doctor_finding(d, FINDING_WELL, "GPU", NULL, NULL, "none: %s; the processor does the work",
                       all->no_gpu.msg);
    else if (!said)
        doctor_finding(d, FINDING_BROKEN, "GPU", "a GPU that can be used",
                       "`nvidia-smi` should list it: if it does not, install the NVIDIA driver, or "
                       "give it to this container; without it: nightshift run --allow-cpu",
                       "%s", all->no_gpu.msg);
}

void doctor_devices(struct doctor *d, const struct devices *all)
{
    bool broken = false;
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < all->finding_count; i++) {
        const struct device_finding *f = &all->findings[i];

        doctor_finding(d, f->state, f->name, f->wanted, f->todo, "%s", f->found);
        broken |= f->state == FINDING_BROKEN;
    }
    for (uint32_t i = 0; i < all->count; i++)
        if (all->list[i].kind != DEVICE_CPU) {
            /* One that is left out while others work was named among the findings. */
            if (all->list[i].trouble[0] == 0 || all->no_gpu.code != 0)
                check_gpu(d, &all->list[i]);
            gpus++;
        }
    if (gpus == 0)
        check_none(d, all, broken);
}

static json_t *precision_array(uint32_t set)
{
    json_t *ret = json_array();

    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++)
        if (set & 1u << p)
            json_array_append_new(ret, json_string(precision_name((enum precision)p)));
    return ret;
}

json_t *doctor_inventory(const struct devices *all)
{
    json_t *ret = json_array();

    for (uint32_t i = 0; i < all->count; i++) {
        const struct device *v = &all->list[i];
        char capability[16] = "";

        if (v->major > 0)
            snprintf(capability, sizeof(capability), "%d.%d", v->major, v->minor);
        json_array_append_new(
            ret,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:b}", "device", v->label,
                      "name", v->name, "model", v->model, "id", v->id, "capability", capability,
                      "driver", v->driver, "memory_total_bytes", (json_int_t)v->memory_total,
                      "memory_free_bytes", (json_int_t)v->memory_free, "precisions",
                      precision_array(v->precisions), "usable", !v->unusable));
    }
    return ret;
}
