#include "tools/demo_model.h"

#include <stddef.h>
#include <string.h>

#include "workers/models/files/model_dir.h"

/* Also of the weights before, whose results lie in catalogs (store/register/likeness.c). */
static const struct {
    unsigned which;
    const char *name, *hash;
} models[] = {
    {DEMO_WHISPER, MODEL_DEMO, "fe96183a09d5690d39deeb8efb0425df"},
    {DEMO_DIARIZATION, "diarization-nano", "4cbe1c743515dea213b75e5745a9ad46"},
    {DEMO_DIARIZATION, "diarization-nano", "90185ddfb5f2738234c175335467a5c1"},
};

unsigned demo_model(const char *name, const char *hash)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        if (strcmp(name, models[i].name) == 0 || strcmp(hash, models[i].hash) == 0)
            return models[i].which;
    return 0;
}

const char *demo_model_made(unsigned which)
{
    static const char *const words[] = {
        [0] = "",
        [DEMO_WHISPER] = "Made with whisper-nano, the model of the demo: not to be trusted",
        [DEMO_DIARIZATION] =
            "Speakers found with diarization-nano, the model of the demo: not to be trusted",
        [DEMO_WHISPER | DEMO_DIARIZATION] = "Made with whisper-nano and diarization-nano, the "
                                            "models of the demo: not to be trusted",
    };

    return words[which & (DEMO_WHISPER | DEMO_DIARIZATION)];
}
