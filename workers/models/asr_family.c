#include "workers/models/asr_family.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "workers/models/files/adapter.h"
#include "workers/models/whisper/whisper.h"
#include "workers/text/json_file.h"

/* A new family is a row: its model_type and its functions. Whisper is the first: a model whose
 * files name no family is a Whisper. */
#define FAMILY_ROWS(row) row("whisper", &whisper_family)

#define FAMILY_TYPE(type, family) type,
#define FAMILY_FUNCTIONS(type, family) family,
const char *const asr_model_types[] = {FAMILY_ROWS(FAMILY_TYPE) NULL};
static const struct asr_family *const families[] = {FAMILY_ROWS(FAMILY_FUNCTIONS)};
#undef FAMILY_TYPE
#undef FAMILY_FUNCTIONS

static const struct asr_family *family_in(const char *dir)
{
    const struct asr_family *f = families[0];
    json_t *config = NULL;
    struct err ignored = {0};
    const char *type;

    if (json_file_read(dir, "config.json", &config, &ignored) != 0)
        return f;
    type = json_string_value(json_object_get(config, "model_type"));
    for (size_t i = 0; type && asr_model_types[i]; i++)
        if (strcmp(type, asr_model_types[i]) == 0)
            f = families[i];
    json_decref(config);
    return f;
}

const struct asr_family *asr_family_of(const char *dir)
{
    const struct asr_family *f = families[0];
    struct err ignored = {0};
    char *base = NULL;

    if (adapter_base(dir, &base, &ignored) == 0)
        f = family_in(base);
    free(base);
    return f;
}
