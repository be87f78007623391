#define FFMPEG_ITSELF
#include "workers/media/ffmpeg.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct ffmpeg ffmpeg_functions;

struct function {
    const char *name;
    size_t place; /* in struct ffmpeg */
};

#define FUNCTION(name) {#name, offsetof(struct ffmpeg, name)},
#define FILE_OF(library, major) library ".so." AV_STRINGIFY(major)

static const struct function util[] = {FFMPEG_UTIL(FUNCTION)};
static const struct function resample[] = {FFMPEG_RESAMPLE(FUNCTION)};
static const struct function codec[] = {FFMPEG_CODEC(FUNCTION)};
static const struct function format[] = {FFMPEG_FORMAT(FUNCTION)};

static const struct library {
    const char *file;
    const struct function *functions;
    size_t count;
} libraries[] = {
    {FILE_OF("libavutil", LIBAVUTIL_VERSION_MAJOR), util, sizeof(util) / sizeof(util[0])},
    {FILE_OF("libswresample", LIBSWRESAMPLE_VERSION_MAJOR), resample,
     sizeof(resample) / sizeof(resample[0])},
    {FILE_OF("libavcodec", LIBAVCODEC_VERSION_MAJOR), codec, sizeof(codec) / sizeof(codec[0])},
    {FILE_OF("libavformat", LIBAVFORMAT_VERSION_MAJOR), format, sizeof(format) / sizeof(format[0])},
};

static int open_library(const struct library *l, struct ffmpeg *ret, struct err *err)
{
    /* As if linked: who looks at what is loaded (doctor) finds it. */
    void *handle = dlopen(l->file, RTLD_LAZY | RTLD_GLOBAL);

    if (!handle)
        return err_set(
            err, ERR_IO,
            "FFmpeg cannot be opened (%.300s): install it; `nightshift doctor` names what "
            "is missing",
            dlerror());
    for (size_t i = 0; i < l->count; i++) {
        void *f = dlsym(handle, l->functions[i].name);

        if (!f)
            return err_set(err, ERR_IO,
                           "%s has no %s: install FFmpeg anew, then look with `nightshift doctor`",
                           l->file, l->functions[i].name);
        memcpy((char *)ret + l->functions[i].place, &f, sizeof(f));
    }
    return 0;
}

static int open_all(struct err *err)
{
    struct ffmpeg all;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(libraries) / sizeof(libraries[0]); i++)
        rc = open_library(&libraries[i], &all, err);
    if (rc == 0)
        ffmpeg_functions = all;
    return rc;
}

int ffmpeg_open(struct err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool done;
    int rc = 0;

    pthread_mutex_lock(&lock);
    if (!done)
        rc = open_all(err);
    done = rc == 0;
    pthread_mutex_unlock(&lock);
    return rc;
}
