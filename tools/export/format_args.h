/* tools/export/format_args.h - the options of formats, for `export` and `show`. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMAT_ARGS_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMAT_ARGS_H

#include <getopt.h>

#include "tools/cli/complete.h"
#include "tools/export/format.h"

enum {
    FORMAT_ARG_STYLE = 300,
    FORMAT_ARG_WIDTH,
    FORMAT_ARG_LINES,
    FORMAT_ARG_CPS,
    FORMAT_ARG_MIN,
    FORMAT_ARG_MAX,
    FORMAT_ARG_GAP,
    FORMAT_ARG_SOUNDS,
    FORMAT_ARG_URL,
};
/* Rows of a table of long options. */
#define FORMAT_ARGS                                                                          \
    {"words", no_argument, NULL, 'w'}, {"style", required_argument, NULL, FORMAT_ARG_STYLE}, \
        {"max-line-width", required_argument, NULL, FORMAT_ARG_WIDTH},                       \
        {"max-lines", required_argument, NULL, FORMAT_ARG_LINES},                            \
        {"max-cps", required_argument, NULL, FORMAT_ARG_CPS},                                \
        {"min-duration", required_argument, NULL, FORMAT_ARG_MIN},                           \
        {"max-duration", required_argument, NULL, FORMAT_ARG_MAX},                           \
        {"gap", required_argument, NULL, FORMAT_ARG_GAP},                                    \
        {"sounds", no_argument, NULL, FORMAT_ARG_SOUNDS},                                    \
    {                                                                                        \
        "url", required_argument, NULL, FORMAT_ARG_URL                                       \
    }
/* Their lines in a help text. */
extern const char format_args_help[];

/* One of them. False: it is none; else *rc is 0 or ERR_USAGE. */
bool format_args_take(int option, const char *value, struct format_options *o, int *rc,
                      struct err *err);
/* Whether there is for each of those given a format among `chosen` (bits of rows) that takes it. A
 * sentence for cli_usage in `why` where there is none. */
#define FORMAT_ARGS_WHY 300
bool format_args_fit(const struct format_options *o, uint32_t chosen, char why[FORMAT_ARGS_WHY]);
/* Values of --format and --style; a complete_values. */
void format_args_values(const struct complete *c, int option, void *arg);

#endif
