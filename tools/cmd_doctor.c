/* nightshift doctor: is this machine ready? One line for each thing: found, wanted, what to do. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <jansson.h>

#include "base/utf8.h"
#include "gpu/backend.h"
#include "store/store.h"
#include "tools/cli.h"
#include "tools/text.h"
#include "workers/media/sandbox.h"
#include "workers/models/model_dir.h"

static const char help[] =
    "Usage: nightshift doctor [OPTION]...\n"
    "Is this machine ready for a night's work? Looks at libraries, processor, memory,\n"
    "disk, models, the decoders' sandbox and the catalog. Changes nothing.\n"
    "\n"
    "      --json           as JSON\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift doctor\n"
    "  nightshift doctor --json | jq '.checks[] | select(.state != \"ok\")'\n"
    "\n"
    "Exit status: 0 when nothing is broken (there may be warnings), 69 else.\n";

static const struct option longs[] = {{0}};

static int take(void *arg, int option, const char *value, struct err *err)
{
    (void)arg;
    (void)option;
    (void)value;
    return err_set(err, ERR_USAGE, "an option that does not exist");
}

enum state { OK, WARN, BAD };

struct doctor {
    const char *catalog;
    json_t *rows; /* with --json */
    unsigned bad, warnings;
};

/* ------------------------------------------------------------------------------- findings */

static void to_stdout(void *arg, const char *bytes, size_t n)
{
    (void)arg;
    fwrite(bytes, 1, n, stdout);
}

static void print_part(const char *label, const char *s)
{
    printf("%19s%-7s", "", label);
    text_wrap(to_stdout, NULL, s, 26, 26, cli_columns(stdout));
    putchar('\n');
}

/* wanted and todo may be NULL when all is well. */
static void finding(struct doctor *d, enum state state, const char *name, const char *wanted,
                    const char *todo, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

static void finding(struct doctor *d, enum state state, const char *name, const char *wanted,
                    const char *todo, const char *fmt, ...)
{
    static const char *const states[] = {"ok", "warning", "broken"};
    static const char *const colours[] = {"32", "33", "31"};
    char text[700], *found;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    found = utf8_display(text, strlen(text)); /* it may hold names of files */
    d->bad += state == BAD;
    d->warnings += state == WARN;
    if (d->rows != NULL) {
        json_array_append_new(d->rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", name, "state",
                                                 states[state], "found", found != NULL ? found : "",
                                                 "wanted", wanted != NULL ? wanted : "", "do",
                                                 todo != NULL ? todo : ""));
        free(found);
        return;
    }
    cli_paint(stdout, colours[state], states[state]);
    printf("%*s%-11s", 8 - (int)strlen(states[state]), "", name);
    text_wrap(to_stdout, NULL, found != NULL ? found : "", 19, 19, cli_columns(stdout));
    putchar('\n');
    free(found);
    if (state != OK && wanted != NULL)
        print_part("wanted", wanted);
    if (state != OK && todo != NULL)
        print_part("do", todo);
}

/* ------------------------------------------------------------------------------- libraries */

/* Versions are asked of the libraries that this process has really loaded, by the name of the
 * function: their headers belong to other folders, and the file's name is found beside it. */
struct library {
    const char *name, *symbol;
    int (*version)(void *symbol, int v[3]); /* how it answers */
    int want[2];
    const char *package;
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

static int version_ints(void *symbol, int v[3]) /* a struct that begins with three of them */
{
    const int *n = ((const int *(*)(void))symbol)();

    if (n == NULL)
        return -1;
    memcpy(v, n, 3 * sizeof(*n));
    return 0;
}

static const struct library libraries[] = {
    {"avformat", "avformat_version", version_packed16, {59, 0}, "libavformat59"},
    {"avcodec", "avcodec_version", version_packed16, {59, 0}, "libavcodec59"},
    {"swresample", "swresample_version", version_packed16, {4, 0}, "libswresample4"},
    {"libarchive", "archive_version_number", version_millions, {3, 6}, "libarchive13"},
    {"libuv", "uv_version", version_packed16, {1, 44}, "libuv1"},
    {"libseccomp", "seccomp_version", version_ints, {2, 5}, "libseccomp2"},
    {"oneDNN", "dnnl_version", version_ints, {2, 6}, "libdnnl2"},
};

static void check_library(struct doctor *d, const struct library *l)
{
    void *symbol = dlsym(RTLD_DEFAULT, l->symbol);
    char wanted[80], todo[100];
    int v[3] = {0};
    Dl_info where = {0};
    bool good;

    snprintf(wanted, sizeof(wanted), "version %d.%d or later", l->want[0], l->want[1]);
    snprintf(todo, sizeof(todo), "sudo apt install --reinstall %s", l->package);
    if (symbol == NULL || l->version(symbol, v) != 0) {
        finding(d, BAD, l->name, wanted, todo, "%s is not to be found", l->package);
        return;
    }
    dladdr(symbol, &where);
    good = v[0] > l->want[0] || (v[0] == l->want[0] && v[1] >= l->want[1]);
    finding(d, good ? OK : BAD, l->name, wanted, todo, "%d.%d.%d (%s)", v[0], v[1], v[2],
            where.dli_fname != NULL ? where.dli_fname : "built in");
}

static void check_sqlite(struct doctor *d)
{
    const char *version = store_sqlite_version();
    int v[3] = {0};
    char *s = NULL;

    v[0] = (int)strtol(version, &s, 10);
    v[1] = s != NULL && *s == '.' ? (int)strtol(s + 1, &s, 10) : 0;
    v[2] = s != NULL && *s == '.' ? (int)strtol(s + 1, &s, 10) : 0;
    if (v[0] < 3 || (v[0] == 3 && v[1] < 40))
        finding(d, BAD, "SQLite", "version 3.40 or later", "sudo apt install libsqlite3-0", "%s",
                version);
    else if (v[0] == 3 && (v[1] < 51 || (v[1] == 51 && v[2] < 3)))
        finding(d, OK, "SQLite", NULL, NULL,
                "%s; its WAL-reset fault (before 3.51.3) needs several writers, and nightshift "
                "keeps to one: do not write to the catalog from other programs during a run",
                version);
    else
        finding(d, OK, "SQLite", NULL, NULL, "%s", version);
}

/* ------------------------------------------------------------------------------- machine */

static void check_processor(struct doctor *d)
{
    struct backend_info info = {0};

    backend_host_info(&info);
    if (info.have & 1u << PRECISION_BF16)
        finding(d, OK, "processor", NULL, NULL, "%s, %u threads; %s", info.name, info.threads,
                info.features);
    else
        finding(d, OK, "processor", NULL, NULL,
                "%s, %u threads; %s; no bfloat16 instructions, so float32 is used", info.name,
                info.threads, info.features[0] ? info.features : "no vector extensions known");
}

/* MemAvailable of /proc/meminfo, in bytes; 0 unknown. */
static uint64_t memory_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[200];
    uint64_t ret = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "MemAvailable:", 13) == 0)
            ret = strtoull(line + 13, NULL, 10) * 1024;
    if (f != NULL)
        fclose(f);
    return ret;
}

/* What this container may use; 0: no limit. */
static uint64_t memory_limit(void)
{
    FILE *f = fopen("/sys/fs/cgroup/memory.max", "re");
    char line[64] = "";
    uint64_t ret = 0;

    if (f == NULL)
        return 0;
    if (fgets(line, sizeof(line), f) != NULL && line[0] >= '0' && line[0] <= '9')
        ret = strtoull(line, NULL, 10);
    fclose(f);
    return ret;
}

static void check_memory(struct doctor *d)
{
    uint64_t available = memory_available(), limit = memory_limit(),
             least = limit > 0 && limit < available ? limit : available;
    char a[TEXT_LEN], b[TEXT_LEN];

    if (available == 0) {
        finding(d, WARN, "memory", "1 GB free", "mount /proc", "/proc/meminfo does not say");
        return;
    }
    finding(d, least < 1000000000 ? WARN : OK, "memory", "1 GB free, more for larger models",
            "end other programs, or use `nightshift run --slots 1 --decoders 1`",
            limit > 0 ? "%s free, limited to %s by this container" : "%s free",
            text_bytes(available, a), text_bytes(limit, b));
}

static void check_gpu(struct doctor *d)
{
    if (access("/proc/driver/nvidia/version", F_OK) == 0)
        finding(d, WARN, "GPU", "a build with a GPU backend",
                "nothing: the processor does the work",
                "an NVIDIA driver is here, but there is no GPU backend in this build");
    else
        finding(d, OK, "GPU", NULL, NULL, "no GPU backend in this build; the processor is used");
}

static void check_sandbox(struct doctor *d)
{
    static const char wanted[] = "decoders that can open no file, no socket and start no program";
    struct sandbox_report r = {0};
    struct err err = {0};

    if (sandbox_check(&r, &err) != 0) {
        finding(d, BAD, "sandbox", wanted, "look at `dmesg`; is /proc mounted, fork allowed?", "%s",
                err.msg);
        return;
    }
    finding(d, r.files_refused && r.network_refused && r.processes_refused ? OK : WARN, "sandbox",
            wanted,
            "use a kernel with Landlock (5.13 or later) and seccomp; in a container, allow them",
            "%s", r.text);
}

/* ------------------------------------------------------------------------------- catalog */

/* The first folder on the way up that exists. */
static char *existing_folder(const char *path)
{
    char *dir = strdup(path), *slash;

    while (dir != NULL && (slash = strrchr(dir, '/')) != NULL) {
        slash[slash == dir] = 0;
        if (access(dir, F_OK) == 0 || slash == dir)
            break;
    }
    return dir;
}

static bool is_network(const char *dir)
{
    static const unsigned long types[] = {0x6969 /* NFS */, 0x517B /* SMB */, 0xFF534D42 /* CIFS */,
                                          0xFE534D42 /* SMB2 */, 0x65735546 /* FUSE, sshfs */};
    struct statfs fs;

    if (statfs(dir, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if ((unsigned long)fs.f_type == types[i] || (uint32_t)fs.f_type == types[i])
            return true;
    return false;
}

static void check_disk(struct doctor *d)
{
    char *dir = existing_folder(d->catalog), n[TEXT_LEN];
    struct statvfs vfs;
    uint64_t room;

    if (dir == NULL || statvfs(dir, &vfs) != 0) {
        finding(d, BAD, "disk", "a folder for the catalog", "try --catalog FILE in another place",
                "%s: %s", dir != NULL ? dir : d->catalog, strerror(errno));
        free(dir);
        return;
    }
    room = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    if (access(dir, W_OK | X_OK) != 0)
        finding(d, BAD, "disk", "a folder that you may write",
                "change its permissions, or try --catalog FILE in another place", "%s: %s", dir,
                strerror(errno));
    else if (room < 1000000000)
        finding(d, room < 50000000 ? BAD : WARN, "disk", "1 GB free",
                "make room; a catalog takes about 1 MB for every ten hours of speech",
                "%s free at %s", text_bytes(room, n), dir);
    else if (is_network(dir))
        finding(d, WARN, "disk", "a disk of this machine: SQLite's log needs shared memory",
                "try --catalog FILE on a local disk; recordings may lie anywhere",
                "%s is on a network or user-space file system", dir);
    else
        finding(d, OK, "disk", NULL, NULL, "%s free at %s", text_bytes(room, n), dir);
    free(dir);
}

static void check_catalog(struct doctor *d)
{
    struct store *st = NULL;
    struct err err = {0};
    int rc;

    rc = store_open(d->catalog, STORE_READ, &st, &err);
    if (rc == ERR_MISSING)
        finding(d, OK, "catalog", NULL, NULL, "none yet; `nightshift enqueue` will make %s",
                d->catalog);
    else if (rc == ERR_VERSION)
        finding(d, WARN, "catalog", "a catalog of this version",
                "an older one is changed over by the next enqueue or run; a newer one wants the "
                "nightshift that wrote it",
                "%s", err.msg);
    else if (rc != 0)
        finding(d, BAD, "catalog", "a readable catalog of nightshift's",
                rc == ERR_CORRUPT ? "keep a copy of it and its -wal; `sqlite3 FILE .recover` saves "
                                    "what it holds"
                : rc == ERR_DENIED ? "look at its permissions (ls -ld)"
                                   : "try --catalog FILE with another one; keep this file",
                "%s", err.msg);
    else
        finding(d, OK, "catalog", NULL, NULL, "%s (schema %d)", d->catalog,
                store_schema_version(st));
    store_close(st);
}

/* ------------------------------------------------------------------------------- models */

static void check_model(void *arg, const char *name, const char *dir)
{
    struct doctor *d = arg;
    struct err err = {0};
    char hash[MODEL_HASH_LEN];

    if (model_dir_hash(dir, hash, &err) != 0)
        finding(d, WARN, "model", "config.json, model.safetensors, tokenizer.json",
                "download it again, or remove the folder", "%s: %s", name, err.msg);
    else
        finding(d, OK, "model", NULL, NULL, "%s (%s)", name, dir);
}

static void check_models(struct doctor *d)
{
    struct err err = {0};
    char *dir = NULL;

    if (model_dir_find(MODEL_DEFAULT, &dir, &err) != 0)
        finding(d, WARN, "model", "the model that is used when none is named",
                "name one with `nightshift enqueue --model`, or set NIGHTSHIFT_MODELS", "%s",
                err.msg);
    free(dir);
    err.code = 0;
    if (model_dir_list(check_model, d, &err) != 0)
        finding(d, WARN, "model", "readable model folders", "look at their permissions", "%s",
                err.msg);
}

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "", longs, take, true};
    struct doctor d = {0};
    struct err err = {0};
    int status = cli_parse(cli, &spec, NULL, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no '%s'", argv[optind]);
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    d.catalog = cli->catalog;
    d.rows = cli->json ? json_array() : NULL;
    finding(&d, OK, "nightshift", NULL, NULL, "%s", NIGHTSHIFT_VERSION);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        check_library(&d, &libraries[i]);
    check_sqlite(&d);
    check_processor(&d);
    check_memory(&d);
    check_gpu(&d);
    check_sandbox(&d);
    check_models(&d);
    check_disk(&d);
    check_catalog(&d);
    if (d.rows != NULL) {
        json_t *o = json_pack("{s:b, s:o}", "ok", d.bad == 0, "checks", d.rows);

        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
    } else
        printf("\n%s\n", d.bad > 0        ? "Something is broken: see above what to do."
                         : d.warnings > 0 ? "Ready, with warnings."
                                          : "Ready.");
    return cli_flush(d.bad > 0 ? EX_UNAVAILABLE : EX_OK);
}
