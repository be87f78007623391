#define FFMPEG_ITSELF
#include "workers/media/ffmpeg.h"

struct ffmpeg ffmpeg_functions;

#define FUNCTION(name) LIBRARY_FUNCTION(struct ffmpeg, name)
#define FILE_OF(library, major) library ".so." AV_STRINGIFY(major)

static const struct library_function util[] = {FFMPEG_UTIL(FUNCTION)};
static const struct library_function resample[] = {FFMPEG_RESAMPLE(FUNCTION)};
static const struct library_function codec[] = {FFMPEG_CODEC(FUNCTION)};
static const struct library_function format[] = {FFMPEG_FORMAT(FUNCTION)};

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
