/* workers/stages/param_table.h - the parameters of a stage as a table of fields of its structure:
 * their names, kinds, ranges and defaults. The catalog's JSON and the command line read and write
 * them by name.
 *
 * The catalog keeps them as JSON, and equal parameters are one stage: so there is only one way to
 * write them, with sorted keys, no blanks, and each number as its shortest decimal. Default values
 * are left out, so that a new parameter does not change the JSON of existing stages. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_PARAM_TABLE_H
#define NIGHTSHIFT_WORKERS_STAGES_PARAM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum param_kind {
    PARAM_BOOL,
    PARAM_U32,
    PARAM_FLOAT,
    PARAM_TEXT,   /* char[size], valid UTF-8 */
    PARAM_CHOICE, /* an enum, one of `choices` by its number */
    PARAM_FLOATS, /* float[], ascending, one at least; `count` has how many */
    PARAM_TOKENS, /* int32_t[], ascending; `count` as above, and where `flag` is true the model's
                     own list as well (written as -1) */
};

#define PARAM_TOKEN_MAX 1000000 /* above the ids of every vocabulary */

struct param_field {
    const char *name; /* in the JSON, and with '-' as an option */
    enum param_kind kind;
    size_t offset, size;        /* in the structure */
    size_t count;               /* of PARAM_FLOATS and PARAM_TOKENS: offset of a uint32_t */
    size_t flag;                /* offset of a bool: of PARAM_TOKENS, and where `said` */
    double low, high;           /* of PARAM_U32, PARAM_FLOAT and PARAM_FLOATS (as floats) */
    const char *const *choices; /* of PARAM_CHOICE; NULL-terminated */
    bool unset;                 /* PARAM_FLOAT: values below 0 mean "not given"; kept as -1 */
    bool always;                /* written even when it is the default's */
    bool said; /* written exactly when `flag` is true, whatever the value: where it was not said,
                  something else than the default holds */

    /* The option of the command line; help NULL: the field has none. */
    const char *help;
    const char *manual; /* sentences of the manual page instead of help; NULL: help will do */
    const char *option; /* NULL: the name with '-' */
    char letter;        /* the short option that is the same; 0: none */
    const char *value;  /* as --help calls it; NULL: the option takes none */
    const char *title;  /* of the group of options that begins with this one */
    double option_low, option_high; /* narrower than low and high; both 0: as these */
};

struct param_table {
    const char *what;                 /* "transcription": for people */
    const struct param_field *fields; /* in the order in which people read them */
    size_t count;
    size_t size;          /* of the structure */
    const void *defaults; /* such a structure: what a stage is that says nothing */
    const void *asked;    /* what `enqueue` asks for unless told otherwise; NULL: the defaults */
    /* Checks fields against each other. Each value is in its range by then. NULL: nothing to
     * check. */
    int (*check)(const void *params, struct err *err);
};

/* A field's offset and size. */
#define PARAM_AT(type, field) \
    .offset = offsetof(struct type, field), .size = sizeof(((struct type *)0)->field)
/* The last members of a table. */
#define PARAM_TABLE(type, of, usual)                                                    \
    .fields = (of), .count = sizeof(of) / sizeof((of)[0]), .size = sizeof(struct type), \
    .defaults = (usual)

/* The most elements of a list's array: both kinds have elements of four bytes. */
static inline uint32_t param_field_room(const struct param_field *f)
{
    return (uint32_t)(f->size / 4);
}

/* NULL when there is no such one. */
const struct param_field *param_table_find(const struct param_table *t, const char *name);
/* The padding too: equal parameters are equal bytes. */
void param_table_default(const struct param_table *t, void *ret);
/* The same of what `enqueue` asks for. */
void param_table_asked(const struct param_table *t, void *ret);
/* ERR_USAGE naming the first value that is out of its range. */
int param_table_check(const struct param_table *t, const void *params, struct err *err);
/* *ret newly allocated. ERR_USAGE as above; ERR_NOMEM. */
int param_table_to_json(const struct param_table *t, const void *params, char **ret,
                        struct err *err);
/* Keys that are absent keep their defaults. ret is untouched after an error. ERR_USAGE: no JSON,
 * unknown keys, values of another kind or out of range; ERR_NOMEM. */
int param_table_from_json(const struct param_table *t, const char *json, void *ret,
                          struct err *err);

#endif
