/* workers/models/files/formats/ct2_file.h - the variables of a CTranslate2 model: model.bin.
 *
 * Format version 6, which CTranslate2 has written since its version 3: the name of a model
 * specification and its revision, then variables one after the other (name, dimensions, type, byte
 * count, bytes), then aliases, which are further names of variables. The file is mapped and nothing
 * is copied. 8-bit and 16-bit integers are weights divided by a scale, which is a variable of its
 * own: NAME_scale, a value for each row or one for all.
 *
 * Every variable that is offered lies within the file. Failures are ERR_MODEL with a printable
 * sentence (or ERR_MISSING, ERR_DENIED, ERR_IO from the system). Immutable after opening: any
 * thread may read. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_CT2_FILE_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_CT2_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/files/weight.h"

struct ct2_file;

int ct2_file_open(const char *path, struct ct2_file **ret, struct err *err);
/* The same over memory of the caller, which must outlive *ret. */
int ct2_file_parse(const void *data, size_t len, struct ct2_file **ret, struct err *err);
void ct2_file_close(struct ct2_file *c); /* accepts NULL */

const char *ct2_file_spec(const struct ct2_file *c); /* "WhisperSpec" */

size_t ct2_file_count(const struct ct2_file *c);                    /* without aliases */
const char *ct2_file_name_at(const struct ct2_file *c, size_t i);   /* sorted */
bool ct2_file_is_alias(const struct ct2_file *c, const char *name); /* and no variable */
/* By its name or an alias, with its scales. */
bool ct2_file_find(const struct ct2_file *c, const char *name, struct weight *ret);
/* A single whole number, such as "encoder/num_heads"; false when there is none of this name. */
bool ct2_file_number(const struct ct2_file *c, const char *name, int64_t *ret);

/* Whether it computes what Whisper does here. ERR_MODEL names what it is or has that would be left
 * out: another network, an output matrix that is not the token embedding, keys with a bias, a
 * factor of its own for queries. */
int ct2_whisper_check(const struct ct2_file *c, struct err *err);

#endif
