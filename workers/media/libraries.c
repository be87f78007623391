/* FFmpeg and libarchive, opened when they are wanted: the tables that ffmpeg.h and libarchive.h
 * make of their functions. */
#define FFMPEG_ITSELF
#define LIBARCHIVE_ITSELF

#include "workers/media/ffmpeg.h"
#include "workers/media/libarchive.h"

/* ---- FFmpeg */

struct ffmpeg ffmpeg_functions;

#define FFMPEG_FUNCTION(name) LIBRARY_FUNCTION(struct ffmpeg, name)
#define FILE_OF(library, major) library ".so." AV_STRINGIFY(major)

static const struct library_function util[] = {FFMPEG_UTIL(FFMPEG_FUNCTION)};
static const struct library_function resample[] = {FFMPEG_RESAMPLE(FFMPEG_FUNCTION)};
static const struct library_function codec[] = {FFMPEG_CODEC(FFMPEG_FUNCTION)};
static const struct library_function format[] = {FFMPEG_FORMAT(FFMPEG_FUNCTION)};

static const struct library libraries[] = {
    {FILE_OF("libavutil", LIBAVUTIL_VERSION_MAJOR), util, sizeof(util) / sizeof(util[0])},
    {FILE_OF("libswresample", LIBSWRESAMPLE_VERSION_MAJOR), resample,
     sizeof(resample) / sizeof(resample[0])},
    {FILE_OF("libavcodec", LIBAVCODEC_VERSION_MAJOR), codec, sizeof(codec) / sizeof(codec[0])},
    {FILE_OF("libavformat", LIBAVFORMAT_VERSION_MAJOR), format, sizeof(format) / sizeof(format[0])},
};

int ffmpeg_open(struct err *err)
{
    static struct libraries state = LIBRARIES_INIT;

    return libraries_open(&state, "FFmpeg", libraries, sizeof(libraries) / sizeof(libraries[0]),
                          &ffmpeg_functions, err);
}

/* ---- libarchive */

struct libarchive libarchive_functions;

#define LIBARCHIVE_FUNCTION(name) LIBRARY_FUNCTION(struct libarchive, name)
/* The interface of all of libarchive 3. */
static const struct library_function functions[] = {LIBARCHIVE(LIBARCHIVE_FUNCTION)};

int libarchive_open(struct err *err)
{
    static struct libraries state = LIBRARIES_INIT;
    static const struct library one = {"libarchive.so.13", functions,
                                       sizeof(functions) / sizeof(functions[0])};

    return libraries_open(&state, "libarchive", &one, 1, &libarchive_functions, err);
}
