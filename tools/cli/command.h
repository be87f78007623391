/* tools/cli/command.h - a command declared once: how its options are read, --help, completion and
 * the manual page are made of one table.
 *
 * A command's file has one struct command, whose options are fields of a struct of its own. Texts
 * are one line, broken where they are printed; '\n' ends a paragraph. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_COMMAND_H
#define NIGHTSHIFT_TOOLS_CLI_COMMAND_H

#include <stddef.h>

#include "base/buf.h"
#include "tools/cli/cli.h"
#include "tools/cli/param_option.h"

enum command_kind {
    COMMAND_END,
    COMMAND_FLAG,     /* bool: true */
    COMMAND_TEXT,     /* const char *, borrowed from argv; not empty */
    COMMAND_NUMBER,   /* uint32_t from low to high */
    COMMAND_LENGTH,   /* int64_t, milliseconds from low to high, as cli_length reads them */
    COMMAND_CHOICE,   /* int: the number of one of the choices */
    COMMAND_SET,      /* int: low */
    COMMAND_LANGUAGE, /* const char *: as cli_language has it; not empty, UTF-8 */
    COMMAND_OWN,      /* `take` or `give` reads it */
    COMMAND_TABLE,    /* no option itself: the options of `table`, of the struct at `offset` */
    COMMAND_MADE,     /* no option itself: the options that `make` adds, of the same struct */
};

#define COMMAND_OPTIONS_MAX 256 /* of a command */

struct command_option;
/* All options of a command, in the order in which people read them. */
struct command_rows;

/* An option as it stands on the command line. */
struct command_given {
    const struct command_option *option;
    const char *value; /* NULL: it takes none, or came without */
    const char *next;  /* the argument behind it; NULL: none */
};

struct command_option {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    enum command_kind kind;
    size_t offset;              /* in the command's struct */
    int64_t low, high;          /* of COMMAND_NUMBER and COMMAND_LENGTH */
    const char *const *choices; /* of COMMAND_CHOICE, and what completion offers; NULL-terminated */
    const char *value;          /* as --help calls it: "FILE"; NULL: the option takes none */
    const char *title;          /* of the group of options that begins here; NULL: the same group */
    const char *help;           /* "": it stands with the next, which says what both are */
    const char *also;           /* another long name of it; NULL: none */
    const char *manual;         /* sentences of the manual page; NULL: help as a sentence */
    /* Ends with {0}. If the row has a help text, its options stand together, and the text describes
     * all of them. */
    const struct command_option *table;
    /* In a COMMAND_TABLE: --help and the manual leave its options out; completion has them. An
     * option that the command itself has goes before one of the same name here. */
    bool unlisted;
    void (*make)(struct command_rows *rows, const struct command_option *maker);
    const struct param_field *field; /* the parameter of a stage that it sets; NULL: none */
    size_t stage;                    /* for `give`: a number in stage_kinds */
    void (*list)(struct buf *out);   /* lines of --help behind what is said of it; NULL: none */
    /* Used by COMMAND_OWN. Returns 0, or ERR_USAGE with a sentence. at: the command's struct, or
     * what is at `offset` in it; value NULL: it takes none. */
    int (*take)(void *at, const char *value, struct err *err);
    int (*give)(void *at, const struct command_given *given, struct err *err);
    /* Puts values; NULL: `choices`. */
    void (*complete)(const struct complete *c, const struct command_option *o);
};

struct command_rows {
    struct command_option list[COMMAND_OPTIONS_MAX];
    size_t count;
    char names[COMMAND_OPTIONS_MAX][PARAM_OPTION_LEN]; /* of those that set a parameter */
    size_t name_count;
};

/* A row of a field: an option without a value, and one with a value that is called `called`; what
 * else it needs stands behind it. letter 0: none. */
#define COMMAND_SWITCH(spelled, short_one, type, field, text)       \
    .name = (spelled), .letter = (short_one), .kind = COMMAND_FLAG, \
    .offset = offsetof(struct type, field), .help = (text)
#define COMMAND_VALUE(kind_of, spelled, short_one, type, field, called, text) \
    .name = (spelled), .letter = (short_one), .kind = (kind_of),              \
    .offset = offsetof(struct type, field), .value = (called), .help = (text)
#define COMMAND_CONSTANT(spelled, short_one, type, field, value_set, text)             \
    .name = (spelled), .letter = (short_one), .kind = COMMAND_SET, .low = (value_set), \
    .offset = offsetof(struct type, field), .help = (text)
/* One that `reads` reads. */
#define COMMAND_READ(spelled, short_one, reads, called, text)                       \
    .name = (spelled), .letter = (short_one), .kind = COMMAND_OWN, .take = (reads), \
    .value = (called), .help = (text)

struct command {
    const char *name;
    const char *usage; /* behind "nightshift NAME ", a line for each form */
    const char *about;
    const struct command_option *options; /* ends with {0}; NULL: none */
    /* Names between blanks of options that --help shows before all groups; NULL: none. */
    const char *usual;
    /* Help texts of the common options; NULL: the command does not have that option. */
    const char *json, *quiet, *verbose;
    const char *catalog;  /* NULL: "the catalog"; "": there is none */
    const char *notes;    /* behind the options; NULL: none */
    const char *examples; /* a line each, without "nightshift " */
    const char *statuses; /* behind "Exit status: "; NULL: nothing is said of them */
    /* Called with each option before it is read; NULL: need not know. */
    void (*on_option)(void *wanted, const struct command_given *given);
};

/* The options one after the other, those of tables in their place, and those of unlisted tables
 * when `all`. */
void command_rows_of(const struct command *c, bool all, struct command_rows *ret);
/* Adds a row, for `make`. */
void command_add(struct command_rows *rows, const struct command_option *o);
/* Adds the option of a parameter, for `make`. Texts and choices are the parameter's, the rest is
 * row's. A parameter without a help text is no option. */
void command_add_field(struct command_rows *rows, const struct param_field *f,
                       const struct command_option *row);
/* Reads the command line into `wanted`, the command's struct with its defaults. -1: go on, operands
 * are argv[optind] on; else the exit status to leave with: before anything is looked into or done.
 * Long options may have '_' for '-', which is mended in argv. */
int command_parse(struct cli *cli, const struct command *c, void *wanted, int argc, char **argv);
/* Appends what --help prints. out->failed: out of memory. */
void command_help(const struct command *c, struct buf *out);

#endif
