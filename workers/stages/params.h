/* workers/stages/params.h - the one table of the transcribe stage's parameters: their names, ranges
 * and kinds, for whoever reads or writes them by name (the catalog's JSON, the command line).
 * Constant; any thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_PARAMS_H
#define NIGHTSHIFT_WORKERS_STAGES_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "workers/stages/transcribe.h"

enum param_kind {
    PARAM_BOOL,
    PARAM_U32,
    PARAM_FLOAT,
    PARAM_TEXT,         /* char[size], valid UTF-8 */
    PARAM_TEMPERATURES, /* temperatures and temperature_count */
    PARAM_TOKENS,       /* suppress_tokens, suppress_count and suppress_model (written as -1) */
};

struct param_field {
    const char *name; /* as in struct transcribe_params, in the JSON, and with '-' as an option */
    enum param_kind kind;
    size_t offset, size; /* in struct transcribe_params */
    double low, high;    /* of PARAM_FLOAT (as floats) and PARAM_U32 */
    bool unset;          /* PARAM_FLOAT: every value below 0 means "not given" and is kept as -1 */
    bool always;         /* written even when it is the default's: the first catalogs had it so */
};

#define PARAM_TOKEN_MAX 1000000 /* above the ids of every vocabulary */

/* All of them, ascending by name. */
extern const struct param_field param_fields[];
extern const size_t param_field_count;
/* NULL when there is no such one. */
const struct param_field *param_field_find(const char *name);

#endif
