/* tools/cli/param_option.h - a parameter of a stage (workers/stages/param_table.h) as an option of
 * the command line: its name, its value as people type it, its line of --help. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_PARAM_OPTION_H
#define NIGHTSHIFT_TOOLS_CLI_PARAM_OPTION_H

#include "base/buf.h"
#include "workers/stages/param_table.h"

#define PARAM_OPTION_LEN 48

void param_option_name(const struct param_field *f, char ret[PARAM_OPTION_LEN]);
/* Into the structure of the field's table; value NULL: the option takes none. ERR_USAGE with a
 * sentence. */
int param_option_take(const struct param_field *f, const char *value, void *params,
                      struct err *err);
/* "--beam-size=N" */
int param_option_spell(const struct param_field *f, char *ret, size_t len);
/* Appends what --help says of it, behind `column` columns of the line, with `indent` before each
 * further one, and ends the line. */
void param_option_help(const char *help, size_t column, size_t indent, struct buf *out);

#endif
