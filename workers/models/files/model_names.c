#include "workers/models/files/model_names.h"

#include <stddef.h>
#include <string.h>

#define APACHE "Apache-2.0"
#define MIT "MIT"
#define MB 1000000ull

/* The turbo is nearly as good as the large one, and five times as fast. The sizes are those of the
 * weights that a pull takes: some are there in float32 alone. */
static const struct model_name names[] = {
    {"large-v3-turbo", "turbo", "openai/whisper-large-v3-turbo",
     "mobiuslabsgmbh/faster-whisper-large-v3-turbo", 1622 * MB, MIT, true},
    {"large-v3", "large", "openai/whisper-large-v3", "Systran/faster-whisper-large-v3", 3092 * MB,
     APACHE, true},
    {"large-v2", NULL, "openai/whisper-large-v2", "Systran/faster-whisper-large-v2", 6178 * MB,
     APACHE, true},
    {"medium", NULL, "openai/whisper-medium", "Systran/faster-whisper-medium", 3060 * MB, APACHE,
     true},
    {"small", NULL, "openai/whisper-small", "Systran/faster-whisper-small", 972 * MB, APACHE, true},
    {"base", NULL, "openai/whisper-base", "Systran/faster-whisper-base", 295 * MB, APACHE, true},
    {"tiny", NULL, "openai/whisper-tiny", "Systran/faster-whisper-tiny", 156 * MB, APACHE, true},
    {"large-v1", NULL, "openai/whisper-large", "Systran/faster-whisper-large-v1", 6178 * MB, APACHE,
     false},
    {"medium.en", NULL, "openai/whisper-medium.en", "Systran/faster-whisper-medium.en", 3060 * MB,
     APACHE, false},
    {"small.en", NULL, "openai/whisper-small.en", "Systran/faster-whisper-small.en", 972 * MB,
     APACHE, false},
    {"base.en", NULL, "openai/whisper-base.en", "Systran/faster-whisper-base.en", 295 * MB, APACHE,
     false},
    {"tiny.en", NULL, "openai/whisper-tiny.en", "Systran/faster-whisper-tiny.en", 156 * MB, APACHE,
     false},
    {"distil-large-v3.5", NULL, "distil-whisper/distil-large-v3.5",
     "distil-whisper/distil-large-v3.5-ct2", 1518 * MB, MIT, false},
    {"distil-large-v3", NULL, "distil-whisper/distil-large-v3",
     "Systran/faster-distil-whisper-large-v3", 1518 * MB, MIT, false},
    {"distil-large-v2", NULL, "distil-whisper/distil-large-v2",
     "Systran/faster-distil-whisper-large-v2", 1518 * MB, MIT, false},
    {"distil-medium.en", NULL, "distil-whisper/distil-medium.en",
     "Systran/faster-distil-whisper-medium.en", 794 * MB, MIT, false},
    {"distil-small.en", NULL, "distil-whisper/distil-small.en",
     "Systran/faster-distil-whisper-small.en", 338 * MB, MIT, false},
};

const struct model_name *model_name_at(uint32_t i)
{
    return i < sizeof(names) / sizeof(names[0]) ? &names[i] : NULL;
}

const struct model_name *model_name_find(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i].name, name) == 0 || (names[i].also && strcmp(names[i].also, name) == 0))
            return &names[i];
    return NULL;
}
