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

enum command_kind {
    COMMAND_END,
    COMMAND_FLAG,     /* bool: true */
    COMMAND_TEXT,     /* const char *, borrowed from argv; not empty */
    COMMAND_NUMBER,   /* uint32_t from low to high */
    COMMAND_LENGTH,   /* int64_t, milliseconds from low to high, as cli_length reads them */
    COMMAND_CHOICE,   /* int: the number of one of the choices */
    COMMAND_SET,      /* int: low */
    COMMAND_LANGUAGE, /* const char *: as cli_language has it; not empty, UTF-8 */
    COMMAND_OWN,      /* `take` reads it */
    COMMAND_TABLE,    /* no option itself: the options of `table`, of the struct at `offset` */
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
    /* Ends as a command's. Where the row has a help text, its options stand together, and it says
     * what all of them are. */
    const struct command_option *table;
    void (*list)(struct buf *out); /* lines of --help behind what is said of it; NULL: none */
    /* Of COMMAND_OWN: 0, or ERR_USAGE with a sentence. at: the command's struct, or what is at
     * `offset` in it; value NULL: it takes none. */
    int (*take)(void *at, const char *value, struct err *err);
    void (*complete)(const struct complete *c, void *wanted); /* puts values; NULL: `choices` */
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
    /* What --help says of the common options; NULL: the command has none of the name. */
    const char *json, *quiet, *verbose;
    const char *catalog;  /* NULL: "the catalog"; "": there is none */
    const char *notes;    /* behind the options; NULL: none */
    const char *examples; /* a line each, without "nightshift " */
    const char *statuses; /* behind "Exit status: "; NULL: nothing is said of them */
};

/* The options one after the other, those of tables in their place. Returns how many; at most
 * CLI_OPTIONS_MAX. */
size_t command_rows(const struct command *c, struct command_option ret[CLI_OPTIONS_MAX]);
/* As cli_parse, into `wanted`, the command's struct with its defaults. */
int command_parse(struct cli *cli, const struct command *c, void *wanted, int argc, char **argv);
/* Appends what --help prints. out->failed: out of memory. */
void command_help(const struct command *c, struct buf *out);

#endif
