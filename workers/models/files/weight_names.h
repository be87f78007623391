/* workers/models/files/weight_names.h - what a tensor of Whisper is called in each layout.
 *
 * Everything above the files asks by Hugging Face's names. Pure. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_NAMES_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIGHT_NAME_MAX 200 /* with the NUL: room for any of these */

/* Another layout's tensor, of which ours is one of `parts` equal parts of the rows. */
struct weight_alias {
    char name[WEIGHT_NAME_MAX];
    uint32_t part, parts;
};

/* False: Hugging Face's `name` is none of Whisper's. */
bool weight_name_openai(const char *name, struct weight_alias *ret);
bool weight_name_ct2(const char *name, struct weight_alias *ret);

#endif
