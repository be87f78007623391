/* workers/text/json_file.h - a model's small JSON files, bounded and checked. Any thread.
 *
 * Messages name the file; quotes from it are made printable. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_JSON_FILE_H
#define NIGHTSHIFT_WORKERS_TEXT_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define JSON_FILE_MAX_BYTES (32u << 20) /* the largest tokenizer.json in use has 17 MB */

/* The bytes of DIR/NAME, appended to ret. ERR_MISSING when it is not there. */
int json_file_slurp(const char *dir, const char *name, struct buf *ret, struct err *err);
/* Parses a JSON object; `name` is for messages. The caller decrefs *ret. */
int json_file_parse(const char *name, const char *text, size_t len, json_t **ret, struct err *err);
/* Reads and parses DIR/NAME. ERR_MISSING when it is not there, ERR_MODEL when it is not an object,
 * or, with _list, not an array. */
int json_file_read(const char *dir, const char *name, json_t **ret, struct err *err);
int json_file_read_list(const char *dir, const char *name, json_t **ret, struct err *err);
/* Like json_file_read, for a file that every model needs: ERR_MODEL if it is missing or must not be
 * read. */
int json_file_need(const char *dir, const char *name, json_t **ret, struct err *err);

#endif
