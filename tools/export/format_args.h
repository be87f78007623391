/* tools/export/format_args.h - the options of formats, for `export` and `show`. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMAT_ARGS_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMAT_ARGS_H

#include "tools/cli/command.h"
#include "tools/export/format.h"

/* The options of formats, of a struct format_options. */
extern const struct command_option format_args[];

/* Whether there is for each of those given a format among `chosen` (bits of rows) that takes it. A
 * sentence for cli_usage in `why` where there is none. */
#define FORMAT_ARGS_WHY 300
bool format_args_fit(const struct format_options *o, uint32_t chosen, char why[FORMAT_ARGS_WHY]);

#endif
