/* A command that is declared as a table: what is read into its struct, what is refused, and what
 * --help says. */
#include "tests/common/test.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/command.h"

struct inner {
    bool deep;
    uint32_t depth, seen;
};

struct outer {
    bool all;
    uint32_t depth;
};

struct wanted {
    bool all;
    const char *name;
    uint32_t count;
    int64_t length_ms;
    int way;
    uint32_t seen; /* by take_seen */
    struct inner inner;
    struct outer outer;
    struct made { /* of options that are made of parameters */
        bool bare;
        uint32_t beam_size;
    } made;
    char next[20];
    uint32_t noted;
};

static int take_seen(void *wanted, const char *value, struct err *err)
{
    if (value && strcmp(value, "bad") == 0)
        return err_set(err, ERR_USAGE, "--seen is never bad");
    ((struct wanted *)wanted)->seen += value ? 10 : 1;
    return 0;
}

static int take_inner(void *at, const char *value, struct err *err)
{
    (void)value;
    (void)err;
    ((struct inner *)at)->seen++;
    return 0;
}

static const struct command_option inner_options[] = {
    {COMMAND_SWITCH("deep", 0, inner, deep, "in there")}, {0}};
static const struct command_option others[] = {
    {COMMAND_VALUE(COMMAND_NUMBER, "depth", 0, inner, depth, "N", "how far"), .high = 9},
    {COMMAND_READ("inner", 0, take_inner, NULL, "too")},
    {0}};

/* Options of another command, which this one has as well, but for "all" and "depth". */
static const struct command_option outer_options[] = {
    {COMMAND_SWITCH("all", 0, outer, all, "another all")},
    {COMMAND_SWITCH("outside", 0, outer, all, "out there")},
    {COMMAND_VALUE(COMMAND_NUMBER, "depth", 0, outer, depth, "N", "another depth"), .high = 9},
    {0}};

static const char *const kinds[] = {"one", "two", NULL};
static const struct param_field fields[] = {
    {.name = "beam_size",
     .kind = PARAM_U32,
     PARAM_AT(made, beam_size),
     .low = 1,
     .high = 16,
     .letter = 'b',
     .value = "N",
     .title = "Made",
     .help = "hypotheses"},
    {.name = "hidden_one", .kind = PARAM_BOOL, PARAM_AT(made, bare)},
    {.name = "bare",
     .kind = PARAM_CHOICE,
     PARAM_AT(made, bare),
     .option = "plain_kind",
     .choices = kinds,
     .help = "of one kind"}};

static int give_field(void *at, const struct command_given *given, struct err *err)
{
    struct wanted *w = at;

    snprintf(w->next, sizeof(w->next), "%s", given->next ? given->next : "");
    return given->option->stage == 7
               ? param_option_take(given->option->field, given->value, &w->made, err)
               : err_set(err, ERR_USAGE, "another stage");
}

static void add_made(struct command_rows *rows, const struct command_option *maker)
{
    const struct command_option row = {.kind = COMMAND_OWN, .give = give_field, .stage = 7};

    (void)maker;
    for (size_t i = 0; i < 3; i++)
        command_add_field(rows, &fields[i], &row);
}

static void note(void *wanted, const struct command_given *given)
{
    ((struct wanted *)wanted)->noted += given->option->unlisted;
}

static const char *const ways[] = {"up", "down", "along", NULL};

static const struct command_option options[] = {
    {COMMAND_SWITCH(
        "all", 'a', wanted, all,
        "everything, and what else there may be of it, in a text that needs a second line")},
    {COMMAND_VALUE(COMMAND_TEXT, "name", 'n', wanted, name, "NAME", "who")},
    {COMMAND_VALUE(COMMAND_NUMBER, "count", 0, wanted, count, "N", "how many"), .low = 2,
     .high = 9},
    {COMMAND_VALUE(COMMAND_LENGTH, "length-of-each-of-them", 0, wanted, length_ms, "LENGTH",
                   "how long"),
     .low = 1000, .high = 60000, .title = "Of each"},
    {COMMAND_VALUE(COMMAND_CHOICE, "way", 'w', wanted, way, "WAY", "where to"), .choices = ways},
    {COMMAND_READ("seen", 's', take_seen, "[=WHAT]", "counted")},
    {.kind = COMMAND_TABLE, .table = inner_options, .offset = offsetof(struct wanted, inner)},
    {.kind = COMMAND_TABLE,
     .table = others,
     .offset = offsetof(struct wanted, inner),
     .help = "as of others"},
    {.kind = COMMAND_MADE, .make = add_made},
    {.kind = COMMAND_TABLE,
     .table = outer_options,
     .offset = offsetof(struct wanted, outer),
     .unlisted = true},
    {0},
};

static const struct command command = {
    .name = "try",
    .usage = "[OPTION]... THING...\n--all",
    .about =
        "What it is about, in one sentence that is so long that it has to be broken somewhere.\n"
        "A second paragraph.",
    .options = options,
    .json = "as JSON",
    .examples = "try this\ntry --all",
    .statuses = "0; 64 when it is refused.",
    .on_option = note,
};

/* words: parted by blanks; "try" goes before them. */
static int parse(struct wanted *w, const char *words)
{
    struct cli cli = {.command = "try"};
    static char line[300]; /* what is read is borrowed from it */
    char *argv[20], *rest = line;
    int argc = 0, rc;

    snprintf(line, sizeof(line), "try %s", words);
    while ((argv[argc] = strtok_r(rest, " ", &rest)))
        argc++;
    rc = command_parse(&cli, &command, w, argc, argv);
    cli_free(&cli);
    return argc > 0 && rc == -1 ? -(argc - optind) - 1 : rc; /* -1: no operands */
}

TEST(values_are_read)
{
    struct wanted w = {.count = 5};

    assert_int_equal(parse(&w, "-a --name=Ana --count 9 --length_of_each_of_them=1s -wdown --seen "
                               "--seen=x -s --deep --depth=7 --inner thing other"),
                     -3);
    assert_true(w.all);
    assert_string_equal(w.name, "Ana");

    assert_int_equal(w.count, 9);
    assert_int_equal(w.length_ms, 1000);
    assert_int_equal(w.way, 1);
    assert_true(w.inner.deep);
    assert_int_equal(w.inner.depth, 7);
    assert_int_equal(w.inner.seen, 1);
    assert_int_equal(w.seen, 12); /* without a value twice, and once with one */
}

TEST(options_of_parameters_are_made)
{
    struct wanted w = {0};

    assert_int_equal(parse(&w, "--beam_size=3 thing"), -2);
    assert_int_equal(w.made.beam_size, 3);
    assert_string_equal(w.next, "thing");
    assert_int_equal(parse(&w, "thing -b 4"), -2);
    assert_int_equal(w.made.beam_size, 4);
    assert_int_equal(parse(&w, "--beam-size=17"), EX_USAGE);
    assert_int_equal(parse(&w, "--hidden-one"), EX_USAGE);
    assert_int_equal(w.noted, 0);
}

/* They are read and noted; where the command has the name itself, it is the command's. */
TEST(unlisted_options)
{
    struct wanted w = {0};

    assert_int_equal(parse(&w, "--outside"), -1);
    assert_true(w.outer.all);
    assert_int_equal(w.noted, 1);
    w.outer.all = false;
    assert_int_equal(parse(&w, "--all --depth=5"), -1);
    assert_true(w.all);
    assert_false(w.outer.all);
    assert_int_equal(w.inner.depth, 5);
    assert_int_equal(w.outer.depth, 0);
    assert_int_equal(w.noted, 1);
}

/* What is said stays as it is. */
TEST(defaults_stay)
{
    struct wanted w = {.count = 5, .way = 2};

    assert_int_equal(parse(&w, "thing"), -2);
    assert_int_equal(w.count, 5);
    assert_int_equal(w.way, 2);
    assert_false(w.all);
}

TEST(other_values_are_refused)
{
    static const char *const wrong[] = {
        "--name=",   "--count=1", "--count=10", "--count=x",
        "--way=upp", "--all=1",   "--seen=bad", "--length-of-each-of-them=61s",
        "--quack",   "--name"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wanted w = {0};

        print_message("  %s\n", wrong[i]);
        assert_int_equal(parse(&w, wrong[i]), EX_USAGE);
    }
}

TEST(help_is_made_of_it)
{
    struct buf out = BUF_INIT;

    command_help(&command, &out);
    assert_string_equal(
        buf_cstr(&out),
        "Usage: nightshift try [OPTION]... THING...\n"
        "   or: nightshift try --all\n"
        "What it is about, in one sentence that is so long that it has to be broken\n"
        "somewhere.\n"
        "A second paragraph.\n"
        "\n"
        "  -a, --all           everything, and what else there may be of it, in a text\n"
        "                      that needs a second line\n"
        "  -n, --name=NAME     who\n"
        "      --count=N       how many\n"
        "Of each:\n"
        "      --length-of-each-of-them=LENGTH\n"
        "                      how long\n"
        "  -w, --way=WAY       where to\n"
        "  -s, --seen[=WHAT]   counted\n"
        "      --deep          in there\n"
        "      --depth=N, --inner\n"
        "                      as of others\n"
        "Made:\n"
        "  -b, --beam-size=N   hypotheses\n"
        "      --plain-kind    of one kind\n"
        "Common options:\n"
        "      --json          as JSON\n"
        "  -c, --catalog=FILE  the catalog\n"
        "  -h, --help          this text\n"
        "\n"
        "Examples:\n"
        "  nightshift try this\n"
        "  nightshift try --all\n"
        "\n"
        "Exit status: 0; 64 when it is refused.\n");
    buf_free(&out);
}

TEST_MAIN(NULL, NULL)
