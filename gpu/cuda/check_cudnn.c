/* gpu/cuda/check_cudnn.c - which cuDNN was found, and are its parts complete and of one version?
 *
 * cuDNN 9 is a small library that opens seven others when they are needed, and ends the process
 * when one of them is missing. So the files are looked at first. A part's version is read from its
 * data if it is there, else from the file's full name. The part's own functions are called only if
 * nothing speaks against it. */
#include "gpu/cuda/check.h"

#include <dlfcn.h>
#include <elf.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_COPIES 8

/* "cuDNN graph", at most 14 characters. */
static const char *const labels[][2] = {
    {"graph", "cuDNN graph"},
    {"ops", "cuDNN ops"},
    {"cnn", "cuDNN cnn"},
    {"adv", "cuDNN adv"},
    {"heuristic", "cuDNN choice"},
    {"engines_precompiled", "cuDNN engines"},
    {"engines_runtime_compiled", "cuDNN compiler"},
};

static const char *label_of(const char *part)
{
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
        if (strcmp(labels[i][0], part) == 0)
            return labels[i][1];
    return "cuDNN part";
}

#if NIGHTSHIFT_CUDNN
static void version_text(int version, char *ret, size_t cap)
{
    int major = version >= 90000 ? version / 10000 : version / 1000;
    int minor = version >= 90000 ? version / 100 % 100 : version / 100 % 10;

    snprintf(ret, cap, "%d.%d.%d", major, minor, version % 100);
}

/* How to get a whole cuDNN. */
static void todo_install(const struct check *c, char *ret, size_t cap)
{
    int major = c->runtime / 1000;

    snprintf(ret, cap,
             "sudo apt install --reinstall libcudnn9-cuda-%d (from NVIDIA's repository), or pip "
             "install --force-reinstall nvidia-cudnn-cu%d and set %s to the directory that then "
             "holds it",
             major, major, LIBS_DIRECTORY);
}

/* ------------------------------------------------------------------------------- versions */

/* 0x91300, which NVIDIA leaves in the data of some parts -> 91900; 0: not there. */
static int version_in_data(void *handle, const char *part)
{
    static const char *const endings[] = {"version", "infer_version"};

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        const ElfW(Sym) * symbol;
        void *p, *extra = NULL;
        unsigned packed;
        char name[80];
        Dl_info info;

        snprintf(name, sizeof(name), "cudnn_%s_%s", part, endings[i]);
        p = dlsym(handle, name);
        if (!p || dladdr1(p, &info, &extra, RTLD_DL_SYMENT) == 0 || !extra)
            continue;
        symbol = extra;
        if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_size != sizeof(packed))
            continue;
        memcpy(&packed, p, sizeof(packed));
        if (packed >> 16 >= 8 && packed >> 16 < 100)
            return (int)((packed >> 16) * 10000 + (packed >> 8 & 255) * 100 + (packed & 255));
    }
    return 0;
}

/* "…/libcudnn_ops.so.9.19.0", links followed -> 91900; 0: the name does not say. */
static int version_in_name(const char *file)
{
    char real[PATH_MAX];
    const char *so;
    int v[3];

    if (!realpath(file, real) || !(so = strstr(real, ".so.")) ||
        sscanf(so + 4, "%d.%d.%d", &v[0], &v[1], &v[2]) != 3)
        return 0;
    return v[0] * 10000 + v[1] * 100 + v[2];
}

/* The part's own comparison with the graph part: 1 alike, 0 not, -1 it has none. */
static int compare_part_version(void *handle, const char *part)
{
    static const char *const checks[][2] = {{"graph", "cudnnGraphVersionCheck"},
                                            {"ops", "cudnnOpsVersionCheck"},
                                            {"cnn", "cudnnCnnVersionCheck"},
                                            {"adv", "cudnnAdvVersionCheck"}};

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        cudnnStatus_t (*fn)(void);
        void *p;

        if (strcmp(checks[i][0], part) != 0)
            continue;
        p = dlsym(handle, checks[i][1]);
        if (!p)
            return 0; /* of another version 9, or not cuDNN's */
        memcpy(&fn, &p, sizeof(fn));
        return fn() == CUDNN_STATUS_SUCCESS;
    }
    return -1;
}

/* ------------------------------------------------------------------------------- the parts */

static void say_mismatch(struct check *c, const struct lib_part *part, const char *file,
                         int version)
{
    char mine[32], its[32] = "another version", wanted[120], todo[500];

    version_text(c->libs.cudnn.version, mine, sizeof(mine));
    if (version != 0)
        version_text(version, its, sizeof(its));
    snprintf(wanted, sizeof(wanted), "%s, as the rest of cuDNN", mine);
    snprintf(todo, sizeof(todo),
             "remove that file and the others of its version, then sudo apt install --reinstall "
             "libcudnn9-cuda-%d (all eight libraries come from one package)",
             c->runtime / 1000);
    check_say(c, part->wanted ? CHECK_BROKEN : CHECK_WARNING, label_of(part->name), wanted, todo,
              "%s (%s), beside a libcudnn.so.%d of %s", its, file, CUDNN_MAJOR, mine);
}

static void check_part(struct check *c, const struct lib_part *part)
{
    const char *label = label_of(part->name);
    char file[sizeof(c->libs.cudnn.file)], todo[500], text[32];
    struct err err;
    int version, alike;
    void *handle;

    todo_install(c, todo, sizeof(todo));
    if (libs_cudnn_part(&c->libs, part, file, sizeof(file), &err) != 0) {
        check_say(c, part->wanted ? CHECK_BROKEN : CHECK_WARNING, label,
                  "all eight libraries of cuDNN, in one directory", todo, "%s", err.msg);
        return;
    }
    handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    version = handle ? version_in_data(handle, part->name) : 0;
    if (version == 0)
        version = version_in_name(file);
    if (c->libs.cudnn.version != 0 && version != 0 && version != c->libs.cudnn.version) {
        say_mismatch(c, part, file, version);
        return;
    }
    alike = c->libs.cudnn.handle && handle ? compare_part_version(handle, part->name) : -1;
    if (alike == 0) {
        say_mismatch(c, part, file, version == c->libs.cudnn.version ? 0 : version);
        return;
    }
    if (version != 0)
        version_text(version, text, sizeof(text));
    else
        snprintf(text, sizeof(text), alike == 1 ? "of the same version" : "it can be opened");
    check_say(c, CHECK_WELL, label, "", "", "%s (%s)", text, file);
}

/* ------------------------------------------------------------------------------- copies */

struct copies {
    char files[MAX_COPIES][256];
    struct stat stats[MAX_COPIES];
    unsigned n;
};

static void add_copy(struct copies *s, const char *file)
{
    struct stat st;

    if (s->n == MAX_COPIES || stat(file, &st) != 0)
        return;
    for (unsigned i = 0; i < s->n; i++)
        if (s->stats[i].st_dev == st.st_dev && s->stats[i].st_ino == st.st_ino)
            return;
    s->stats[s->n] = st;
    snprintf(s->files[s->n++], sizeof(s->files[0]), "%s", file);
}

static void add_path(struct copies *s, const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, ":");
        char file[PATH_MAX];

        if (n > 0 && n < sizeof(file) - 32) {
            snprintf(file, sizeof(file), "%.*s/libcudnn.so.%d", (int)n, list, CUDNN_MAJOR);
            add_copy(s, file);
        }
        list += n + (list[n] == ':');
    }
}

static void add_pattern(struct copies *s, const char *pattern)
{
    glob_t found = {0};

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            add_copy(s, found.gl_pathv[i]);
    globfree(&found);
}

/* Whether somebody has chosen this cuDNN: by LIBS_DIRECTORY, or by putting it beside the module. */
static bool is_cudnn_user_chosen(const char *file)
{
    static const char anchor;
    const char *slash = strrchr(file, '/'), *own;
    char path[PATH_MAX];
    Dl_info info;

    if (getenv(LIBS_DIRECTORY))
        return true;
    if (!slash || dladdr(&anchor, &info) == 0 || !info.dli_fname ||
        !realpath(info.dli_fname, path) || !(own = strrchr(path, '/')))
        return false;
    return own - path == slash - file && memcmp(path, file, (size_t)(own - path)) == 0;
}

/* Other programs, and cuDNN itself, look for its parts by name: with two copies in reach they may
 * come from both. */
static void check_copies(struct check *c)
{
    static const char *const patterns[] = {
        "/usr/local/cuda*/lib64/libcudnn.so.9", "/usr/local/cuda*/lib/libcudnn.so.9",
        "/usr/lib/*-linux-gnu/libcudnn.so.9", "/usr/lib64/libcudnn.so.9"};
    struct copies s = {.n = 0};
    char todo[700];

    if (is_cudnn_user_chosen(c->libs.cudnn.file))
        return;
    add_copy(&s, c->libs.cudnn.file);
    add_path(&s, getenv("LD_LIBRARY_PATH"));
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        add_pattern(&s, patterns[i]);
    if (s.n < 2)
        return;
    snprintf(todo, sizeof(todo),
             "remove the copy that nothing needs, or take its directory out of LD_LIBRARY_PATH; or "
             "choose one with %s=DIRECTORY",
             LIBS_DIRECTORY);
    check_say(c, CHECK_WARNING, "cuDNN copies", "one cuDNN in reach", todo,
              "%u of them: %s is taken; there is also %s%s", s.n, s.files[0], s.files[1],
              s.n > 2 ? " and more" : "");
}

/* ------------------------------------------------------------------------------- the library */

static void say_library(struct check *c)
{
    const struct lib *lib = &c->libs.cudnn;
    char wanted[100], todo[500], text[32];

    snprintf(wanted, sizeof(wanted), "cuDNN " CUDNN_WANTED ", built for CUDA %d",
             c->runtime / 1000);
    todo_install(c, todo, sizeof(todo));
    if (lib->handle) {
        version_text(lib->version, text, sizeof(text));
        check_say(c, CHECK_WELL, "cuDNN", "", "", "%s (%s)", text, lib->file);
    } else if (!lib->file[0]) {
        check_say(c, CHECK_WARNING, "cuDNN", wanted, todo, "%s; attention then takes a slower way",
                  lib->reason);
    } else {
        if (lib->code == ERR_VERSION && lib->version != 0)
            snprintf(
                todo, sizeof(todo),
                "remove that file, or take its directory out of LD_LIBRARY_PATH; then sudo apt "
                "install libcudnn9-cuda-%d (from NVIDIA's repository)",
                c->runtime / 1000);
        check_say(c, CHECK_BROKEN, "cuDNN", wanted, todo, "%s", lib->reason);
    }
}

/* Not needed by all of cuDNN, and so never more than a warning. */
static void check_nvrtc(struct check *c)
{
    const struct lib *lib = &c->libs.nvrtc;
    int major = c->runtime / 1000, minor = c->runtime / 10 % 100;
    char wanted[100], todo[500];

    if (lib->handle) {
        check_say(c, CHECK_WELL, "NVRTC", "", "", "it can be opened (%s)", lib->file);
        return;
    }
    snprintf(wanted, sizeof(wanted), "libnvrtc.so.%d: cuDNN compiles kernels with it", major);
    snprintf(todo, sizeof(todo),
             "sudo apt install cuda-nvrtc-%d-%d (from NVIDIA's repository), or pip install "
             "nvidia-cuda-nvrtc%s and add the directory that then holds it to %s",
             major, minor, major < 13 ? "-cu12" : "", LIBS_DIRECTORY);
    check_say(c, CHECK_WARNING, "NVRTC", wanted, todo, "%s", lib->reason);
}

void check_cudnn(struct check *c)
{
    bool old; /* all of it is to be replaced: no need to name the parts */

    say_library(c);
    if (!c->libs.cudnn.file[0])
        return;
    old = c->libs.cudnn.version != 0 && c->libs.cudnn.version < CUDNN_LEAST;
    for (unsigned i = 0; !old && i < libs_cudnn_part_count; i++)
        check_part(c, &libs_cudnn_parts[i]);
    if (!old && (c->libs.nvrtc.handle || c->libs.nvrtc.reason[0]))
        check_nvrtc(c);
    check_copies(c);
}
#else
void check_cudnn(struct check *c)
{
    check_say(
        c, CHECK_WARNING, "cuDNN", "a module that was built with cuDNN's headers",
        "sudo apt install libcudnn9-dev-cuda-13 before building; or leave it: results are the "
        "same",
        "the module was built without it; attention takes a slower way");
}
#endif
