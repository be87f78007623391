/* Finding and opening cuBLASLt, cuDNN, and the compiler that cuDNN uses. */
#include "gpu/cuda/libs.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define CUBLASLT_FILE "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

/* The loader may keep a library that failed once; none of them can be unloaded safely. */
#define OPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

#define SAY(lib, what, ...) \
    ((lib)->code = (what), snprintf((lib)->reason, sizeof((lib)->reason), __VA_ARGS__))

/* Calls try(arg, directory) for each directory in turn until it returns true. NULL stands for the
 * loader's own search. */
typedef bool (*try_fn)(void *arg, const char *directory);

static bool try_list(const char *list, try_fn try, void *arg)
{
    char one[PATH_MAX];

    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, ":");

        if (n > 0 && n < sizeof(one)) {
            memcpy(one, p, n);
            one[n] = '\0';
            if (try(arg, one))
                return true;
        }
        p += n + (p[n] == ':');
    }
    return false;
}

static bool try_pattern(const char *pattern, try_fn try, void *arg)
{
    glob_t found = {0};
    bool done = false;

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i-- > 0 && !done;) /* the newest version first */
            done = try(arg, found.gl_pathv[i]);
    globfree(&found);
    return done;
}

static bool own_directory(char *ret, size_t capacity)
{
    static const char anchor;
    Dl_info info;
    char *slash;

    if (dladdr(&anchor, &info) == 0 || !info.dli_fname ||
        snprintf(ret, capacity, "%s", info.dli_fname) >= (int)capacity)
        return false;
    slash = strrchr(ret, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

static void each_directory(try_fn try, void *arg)
{
    static const char *const patterns[] = {
        "/usr/local/cuda/lib64",
        "/usr/local/cuda/lib",
        "/usr/local/cuda-*/lib64",
        "/usr/local/cuda-*/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
    };
    char own[PATH_MAX];

    if (try_list(getenv(LIBS_DIRECTORY), try, arg))
        return;
    if (own_directory(own, sizeof(own)) && try(arg, own))
        return;
    if (try(arg, NULL))
        return;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (try_pattern(patterns[i], try, arg))
            return;
}

struct opening {
    struct lib *lib;
    const char *name; /* "libcudnn.so.9" */
};

/* Why a file could not be opened. */
static const char *open_failure(const char *path)
{
    const char *text = libs_file_whole(path) ? dlerror() : NULL;

    return text ? text : "it is not a whole library (cut short while it was copied?)";
}

/* True when the search is over: opened, or there and broken. */
static bool open_in(void *arg, const char *directory)
{
    struct opening *o = arg;
    struct lib *lib = o->lib;
    char path[PATH_MAX];

    if (!directory) {
        lib->handle = dlopen(o->name, OPEN_FLAGS);
        (void)dlerror();
        return lib->handle != NULL;
    }
    if (snprintf(path, sizeof(path), "%s/%s", directory, o->name) >= (int)sizeof(path) ||
        access(path, F_OK) != 0)
        return false;
    if (libs_file_whole(path))
        lib->handle = dlopen(path, OPEN_FLAGS);
    if (lib->handle)
        return true;
    snprintf(lib->file, sizeof(lib->file), "%s", path);
    SAY(lib, ERR_MISSING, "%s is there, but cannot be opened: %s", path, open_failure(path));
    return true;
}

struct other {
    const char *pattern; /* "libcudnn.so.*" */
    char path[256];
};

static bool find_other(void *arg, const char *directory)
{
    struct other *o = arg;
    char pattern[PATH_MAX];
    glob_t found = {0};
    bool any = false;

    if (!directory ||
        snprintf(pattern, sizeof(pattern), "%s/%s", directory, o->pattern) >= (int)sizeof(pattern))
        return false;
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0) {
        snprintf(o->path, sizeof(o->path), "%s", found.gl_pathv[0]);
        any = true;
    }
    globfree(&found);
    return any;
}

static void open_named(struct lib *lib, const char *name, const char *pattern)
{
    struct opening o = {lib, name};
    struct other other = {.pattern = pattern};

    each_directory(open_in, &o);
    if (lib->handle || lib->code != 0)
        return;
    each_directory(find_other, &other);
    if (other.path[0])
        SAY(lib, ERR_VERSION, "%s was not found, only %s, which is another version", name,
            other.path);
    else
        SAY(lib, ERR_MISSING, "%s was not found", name);
}

/* Takes a library as unusable without forgetting which file it was. */
static void refuse(struct lib *lib) { lib->handle = NULL; }

static void *function_of(struct lib *lib, const char *name)
{
    void *p = lib->handle ? dlsym(lib->handle, name) : NULL;

    if (lib->handle && !p) {
        SAY(lib, ERR_VERSION, "%s has no %s: it is a stub, or of another version", lib->file, name);
        refuse(lib);
    }
    return p;
}

/* The absolute path of the file in which `symbol` lies. */
static void remember_file(struct lib *lib, const char *symbol)
{
    void *p = lib->handle ? dlsym(lib->handle, symbol) : NULL;
    char path[PATH_MAX];
    Dl_info info;

    if (p && dladdr(p, &info) != 0 && info.dli_fname)
        snprintf(lib->file, sizeof(lib->file), "%s",
                 realpath(info.dli_fname, path) ? path : info.dli_fname);
    else if (lib->handle && !lib->file[0])
        snprintf(lib->file, sizeof(lib->file), "a library without %s", symbol);
}

/* A function pointer out of an object pointer, which POSIX promises and ISO C does not know. */
#define LIBS_LOAD(type, symbol, args)               \
    {                                               \
        void *p = function_of(lib, #symbol);        \
        memcpy(&table->symbol, &p, sizeof(void *)); \
    }

static void open_cublaslt(struct cuda_libs *libs)
{
    struct lib *lib = &libs->cublaslt;
    __typeof__(libs->lt) *table = &libs->lt;

    open_named(lib, CUBLASLT_FILE, "libcublasLt.so.[0-9]*");
    remember_file(lib, "cublasLtGetVersion");
    LIBS_CUBLASLT(LIBS_LOAD)
    if (!lib->handle)
        return;
    lib->version = (int)table->cublasLtGetVersion();
    if (lib->version / 10000 != CUBLAS_VER_MAJOR) {
        SAY(lib, ERR_VERSION, "%s is cuBLAS %d.%d, but %d.x is wanted", lib->file,
            lib->version / 10000, lib->version / 100 % 100, CUBLAS_VER_MAJOR);
        refuse(lib);
    }
}

const struct lib_part libs_cudnn_parts[] = {
    {"graph", true},
    {"ops", true},
    {"heuristic", true},
    {"engines_precompiled", true},
    {"engines_runtime_compiled", true},
    {"cnn", false},
    {"adv", false},
};
const unsigned libs_cudnn_part_count = sizeof(libs_cudnn_parts) / sizeof(libs_cudnn_parts[0]);

#if NIGHTSHIFT_CUDNN
#define CUDNN_FILE "libcudnn.so." TEXT(CUDNN_MAJOR)

int libs_cudnn_part(const struct cuda_libs *libs, const struct lib_part *part, char *file,
                    size_t capacity, struct err *err)
{
    const char *main_file = libs->cudnn.file, *slash = strrchr(main_file, '/');
    int n = slash ? (int)(slash - main_file) : 0;

    if (!slash)
        return err_set(err, ERR_MISSING, "cuDNN was not found");
    snprintf(file, capacity, "%.*s/libcudnn_%s.so." TEXT(CUDNN_MAJOR), n, main_file, part->name);
    if (access(file, F_OK) != 0)
        return err_set(err, ERR_MISSING, "a part of cuDNN is missing: %s", file);
    if (!libs_file_whole(file) || !dlopen(file, OPEN_FLAGS))
        return err_set(err, ERR_MISSING, "a part of cuDNN cannot be opened: %s: %s", file,
                       open_failure(file));
    return 0;
}

/* Before any function of cuDNN runs, which would look for its parts on the loader's path. */
static void open_parts(struct cuda_libs *libs)
{
    struct err e;

    for (unsigned i = 0; i < libs_cudnn_part_count && libs->cudnn.handle; i++) {
        char file[sizeof(libs->cudnn.file)];

        if (!libs_cudnn_parts[i].wanted ||
            libs_cudnn_part(libs, &libs_cudnn_parts[i], file, sizeof(file), &e) == 0)
            continue;
        SAY(&libs->cudnn, e.code, "%s", e.msg);
        refuse(&libs->cudnn);
    }
}

static void check_cudnn(struct cuda_libs *libs)
{
    struct lib *lib = &libs->cudnn;
    bool old = lib->version < 90000; /* 8907 was cuDNN 8.9.7 */
    int major = old ? lib->version / 1000 : lib->version / 10000;
    int minor = old ? lib->version / 100 % 10 : lib->version / 100 % 100;

    if (major != CUDNN_MAJOR || lib->version < CUDNN_LEAST) {
        SAY(lib, ERR_VERSION, "%s is cuDNN %d.%d.%d, but " CUDNN_WANTED " is wanted", lib->file,
            major, minor, lib->version % 100);
        refuse(lib);
    }
}

/* cuDNN's own comparison of the versions of its parts. */
static void check_parts(struct cuda_libs *libs)
{
    struct lib *lib = &libs->cudnn;

    if (lib->handle && (libs->dnn.cudnnGraphVersionCheck() != CUDNN_STATUS_SUCCESS ||
                        libs->dnn.cudnnOpsVersionCheck() != CUDNN_STATUS_SUCCESS)) {
        SAY(lib, ERR_VERSION, "the parts of cuDNN beside %s are of different versions", lib->file);
        refuse(lib);
    }
}

/* cuDNN opens it by name when it compiles a kernel: what is in the process by then is found,
 * wherever it lies. `libnvrtc.so` is a toolkit's link to it. */
static void open_nvrtc(struct cuda_libs *libs)
{
    struct lib *lib = &libs->nvrtc;
    char name[32];

    snprintf(name, sizeof(name), "libnvrtc.so.%d", CUDART_VERSION / 1000);
    open_named(lib, name, "libnvrtc.so.[0-9]*");
    if (!lib->handle && !lib->file[0]) { /* a broken one is reported, not passed over */
        struct lib link = {.handle = NULL};

        open_named(&link, "libnvrtc.so", "libnvrtc.so.[0-9]*");
        if (link.handle)
            *lib = link;
    }
    remember_file(lib, "nvrtcVersion");
}

static void open_cudnn(struct cuda_libs *libs)
{
    struct lib *lib = &libs->cudnn;
    __typeof__(libs->dnn) *table = &libs->dnn;

    open_named(lib, CUDNN_FILE, "libcudnn.so.[0-9]*");
    remember_file(lib, "cudnnGetVersion");
    LIBS_CUDNN(LIBS_LOAD)
    if (!lib->handle)
        return;
    open_nvrtc(libs);
    /* The version lies in a part: without it, asking ends the process. */
    open_parts(libs);
    if (!lib->handle)
        return;
    lib->version = (int)table->cudnnGetVersion();
    check_cudnn(libs);
    check_parts(libs);
}
#else
int libs_cudnn_part(const struct cuda_libs *libs, const struct lib_part *part, char *file,
                    size_t capacity, struct err *err)
{
    (void)libs;
    (void)part;
    (void)file;
    (void)capacity;
    return err_set(err, ERR_MISSING, "this program was built without cuDNN");
}

static void open_cudnn(struct cuda_libs *libs)
{
    SAY(&libs->cudnn, ERR_MISSING, "this program was built without cuDNN");
}
#endif

void libs_open(struct cuda_libs *ret)
{
    memset(ret, 0, sizeof(*ret));
    open_cublaslt(ret);
    open_cudnn(ret);
}

int libs_usable(const struct cuda_libs *libs, struct err *err)
{
    if (!libs->cublaslt.handle)
        return err_set(err, libs->cublaslt.code, "%s", libs->cublaslt.reason);
    /* Not there at all is well: there, and broken or old, is an installation to be mended. */
    if (!libs->cudnn.handle && libs->cudnn.file[0])
        return err_set(err, libs->cudnn.code, "%s", libs->cudnn.reason);
    return 0;
}

/* The preprocessor cannot divide into text. */
#define DIGIT(n) ((char)('0' + (n) % 10))

const char libs_built_for[] = {
    'C',
    'U',
    'D',
    'A',
    ' ',
    DIGIT(CUDART_VERSION / 10000),
    DIGIT(CUDART_VERSION / 1000),
    '.',
    DIGIT(CUDART_VERSION / 10),
#if NIGHTSHIFT_CUDNN
    ',',
    ' ',
    'c',
    'u',
    'D',
    'N',
    'N',
    ' ',
    DIGIT(CUDNN_MAJOR),
    '.',
    DIGIT(CUDNN_MINOR / 10),
    DIGIT(CUDNN_MINOR),
#endif
    '\0',
};
_Static_assert(CUDART_VERSION >= 12000, "CUDA 12 or later");

const char *libs_cublas_name(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "an unknown status";
    }
}
