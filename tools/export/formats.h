/* tools/export/formats.h - the table of formats of export. Any thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMATS_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMATS_H

#include "tools/cli/command.h"
#include "tools/cli/complete.h"
#include "tools/export/format.h"

#define FORMATS_MAX 32 /* a table has no more rows; bits of a set */
extern const struct format formats[];
extern const unsigned formats_count;

/* By name; NULL: none. */
const struct format *formats_find(const char *name);
/* The same of what --format says. ERR_USAGE, with all names. One for each recording alone when
 * `single`: not a folder. */
int formats_take(const char *name, bool single, const struct format **ret, struct err *err);
/* The set of those that take the option: bits of rows. */
uint32_t formats_taking(unsigned option);
/* The document's parts (FORMAT_TEXT ...) that the format needs with these options. */
unsigned formats_needs(const struct format *f, const struct format_options *o);
/* "a, b or c": names of those that take the option (FORMAT_OPTION_...; 0: all), cut to n bytes. */
char *formats_names(unsigned option, bool single, char *to, size_t n);
/* A line of help for each. */
void formats_help(struct buf *out, bool single);
struct command_option; /* tools/cli/command.h */
/* Puts the values that --format may have; o: not looked at. */
void formats_values(const struct complete *c, const struct command_option *o);

/* ---- the options of formats, for `export` and `show` */

/* The options of formats, of a struct format_options. */
extern const struct command_option format_args[];

/* Whether there is for each of those given a format among `chosen` (bits of rows) that takes it. A
 * sentence for cli_usage in `why` where there is none. */
#define FORMAT_ARGS_WHY 300
bool format_args_fit(const struct format_options *o, uint32_t chosen, char why[FORMAT_ARGS_WHY]);

#endif
