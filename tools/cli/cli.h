/* tools/cli/cli.h - what every subcommand shares: its catalog, values of options, how it speaks of
 * errors. tools/cli/command.h reads the options.
 *
 * Main thread only (getopt_long keeps its place in globals of the C library). A subcommand returns
 * its exit status, one of sysexits.h. */
#ifndef NIGHTSHIFT_TOOLS_CLI_CLI_H
#define NIGHTSHIFT_TOOLS_CLI_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sysexits.h>

#include "base/err.h"
#include "tools/cli/complete.h"

struct cli {
    const char *command; /* "status"; borrowed */
    char *catalog; /* owned; absolute once cli_catalog returned 0, before as the user gave it */
    bool json, quiet, verbose;
    struct complete *complete; /* borrowed; not NULL: the command is not meant, what it knows is */
};
void cli_free(struct cli *cli);

/* Errors from here on name the --help of this command. */
void cli_hint_of(const char *command);

/* Says why getopt_long did not know `word`: it is another program's option (and what does that
 * here), it is none of the options (and which one is near), or several begin with it. No full
 * stop. */
#define CLI_OPTION_LEN 500
#define CLI_OPTIONS_MAX 300
char *cli_no_long_option(const char *word, const struct option *longs, char out[CLI_OPTION_LEN]);

/* The command as it was given, behind "nightshift" and cut at some 4,000 bytes, for people to read;
 * argv from its name on. Newly allocated; NULL: out of memory. */
char *cli_command_line(int argc, char **argv);

/* Resolves cli->catalog: --catalog, else $NIGHTSHIFT_CATALOG, else nightshift.db in
 * $XDG_DATA_HOME/nightshift (made when `create`). */
int cli_catalog(struct cli *cli, bool create, struct err *err);

/* "nightshift: cannot DOING: MESSAGE. HINT" on standard error; hint NULL: what the code suggests.
 * Returns the code's exit status. */
int cli_fail(const char *doing, const struct err *err, const char *hint);
int cli_no_memory(const char *doing); /* the same of ERR_NOMEM */
/* "nightshift: COMMAND: SENTENCE. Try `nightshift COMMAND --help`." Returns EX_USAGE. */
int cli_usage(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Reports that the command needs a yes and nobody can be asked. it: "it erases". EX_USAGE. */
int cli_unasked(const struct cli *cli, const char *it);
/* One line on standard error behind "nightshift: ". */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From here on the log's lines (base/log.h) fit a terminal, broken at blanks, where standard error
 * is one; a file gets them whole, one line for each, as before. Before threads start. */
void cli_log_for_people(void);

/* Value of an option: a whole number in [min, max]. ERR_USAGE naming the option. */
int cli_u32(const char *option, const char *value, uint32_t min, uint32_t max, uint32_t *ret,
            struct err *err);
/* Value of an option: the code of a language that is said by name or code ("Spanish", "ES": "es");
 * what is neither stays as it is, for the catalog to know. Static, or value itself. */
const char *cli_language(const char *value);
/* A length of time ("90", "5m", "1h30m") of at most max_ms. */
int cli_length(const char *option, const char *value, int64_t min_ms, int64_t max_ms, int64_t *ret,
               struct err *err);

/* Is somebody there who reads what is printed, and answers? Not with --json. */
bool cli_can_ask(const struct cli *cli);
/* "QUESTION [y/N] " on standard output; true: yes. */
bool cli_confirmed(const char *question);
enum cli_consent { CLI_NO, CLI_YES, CLI_UNASKED };
/* Gets consent to remove something: from --dry-run or --yes, else by the question. CLI_UNASKED:
 * nobody is there to answer it. */
enum cli_consent cli_consent(const struct cli *cli, bool dry_run, bool yes, const char *question);

/* A stream without a descriptor is in memory and printed later: these three treat it as standard
 * output. Colour needs a terminal and no NO_COLOR. */
bool cli_color(FILE *f);
/* sgr ("1", "31" ...) around text when f has colour, nothing else otherwise. */
void cli_paint(FILE *f, const char *sgr, const char *text);
/* Columns to write in: the terminal's, at least 40 and at most 120; 80 when f is none. */
unsigned cli_columns(FILE *f);
/* Rows of the terminal that standard output is; 0: it is none, or nobody knows. */
unsigned cli_rows(void);
/* Ends a line that holds `column` columns with s, broken at blanks as text_wrap does to fit f. */
void cli_wrap(FILE *f, const char *s, size_t column, size_t indent);
/* A line on standard output, broken at blanks to fit it; the lines after the first are indented. s
 * NULL: nothing, of a buffer that ran out of memory. */
void cli_print(const char *s, size_t indent);
/* Flushes standard output; EX_IOERR with a sentence when it could not be written. */
int cli_flush(int status);

/* An absolute path without symbolic links, also of a thing that does not exist (any more): then
 * its part that does is resolved and the rest is taken as it is. Newly allocated. ERR_MISSING: path
 * is empty. */
int cli_absolute(const char *path, char **ret, struct err *err);
/* 0, or `code` with what to do: a path that is kept as text must be UTF-8. whose: "its folder". */
int cli_path_text(const char *path, const char *whose, int code, struct err *err);
/* The same for places of the catalog: in ARCHIVE//MEMBER it makes only the archive absolute and
 * keeps the member, which may be a folder in it. A "//" behind a folder counts as one slash. */
int cli_place(const char *path, char **ret, struct err *err);
/* mkdir -p, mode 0777 as the umask has it. */
int cli_make_directories(const char *path, struct err *err);

#endif
