/* workers/stages/param_table.h - parameters as a table of fields, read and written as JSON: for
 * stage_params.c. Canonical as transcribe's are (params_json.c): sorted keys, no blanks, each
 * number as its shortest decimal, and no key whose value is the default's. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_PARAM_TABLE_H
#define NIGHTSHIFT_WORKERS_STAGES_PARAM_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;

enum table_kind {
    TABLE_BOOL,
    TABLE_U32,
    TABLE_FLOAT,
    TABLE_TEXT,   /* char[size], valid UTF-8 */
    TABLE_CHOICE, /* an enum, one of `choices` by its number */
};

#define TABLE_NEVER SIZE_MAX

struct table_field {
    const char *name;
    enum table_kind kind;
    size_t offset, size;
    double low, high;           /* of TABLE_U32 and TABLE_FLOAT */
    const char *const *choices; /* NULL-terminated */
    size_t said; /* offset of a bool: written when it is true, whatever the value; TABLE_NEVER:
                    there is none */
};

struct table {
    const char *what;                 /* "diarization": for people */
    const struct table_field *fields; /* ascending by name */
    size_t count;
};

/* ERR_USAGE naming the first value that is out of its range. */
int table_check(const struct table *t, const void *params, struct err *err);
/* defaults: as params. *ret newly allocated. ERR_USAGE as above; ERR_NOMEM. */
int table_to_json(const struct table *t, const void *params, const void *defaults, char **ret,
                  struct err *err);
/* params hold the defaults, and are half read after an error. ERR_USAGE: no JSON, unknown keys,
 * values of another kind or out of range. */
int table_from_json(const struct table *t, const char *json, void *params, struct err *err);

/* The shortest decimal that reads back as the same float, without an exponent where people write
 * none. (params_json.c) */
void params_put_float(struct buf *b, float value);
/* As a JSON string. (params_json.c) */
void params_put_text(struct buf *b, const char *text);

#endif
