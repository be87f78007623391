#include "tools/cli/command.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "tools/cli/text.h"

#define COLUMNS 80
#define TEXT_COLUMN_MOST 26 /* where what is said of an option begins */
#define FIRST_LONG 256      /* getopt's value of the first option that has no letter */

void command_add(struct command_rows *rows, const struct command_option *o)
{
    assert(rows->count < COMMAND_OPTIONS_MAX);
    rows->list[rows->count++] = *o;
}

void command_add_field(struct command_rows *rows, const struct param_field *f,
                       const struct command_option *row)
{
    struct command_option o = *row;

    if (!f->help)
        return;
    assert(rows->name_count < COMMAND_OPTIONS_MAX);
    param_option_name(f, rows->names[rows->name_count]);
    o.name = rows->names[rows->name_count++];
    o.letter = f->letter;
    o.field = f;
    o.value = f->value;
    o.choices = f->kind == PARAM_CHOICE ? f->choices : NULL;
    o.title = f->title;
    o.help = f->help;
    o.manual = f->manual;
    command_add(rows, &o);
}

static bool has(const struct command_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->list[i].name, name) == 0)
            return true;
    return false;
}

/* The rows from `first` on are those of a table. */
static void include(const struct command_option *table, size_t first, struct command_rows *rows)
{
    const size_t end = rows->count;

    rows->count = first;
    for (size_t i = first; i < end; i++) {
        struct command_option o = rows->list[i];

        if (table->unlisted && has(rows, o.name))
            continue;
        o.offset += table->offset;
        o.unlisted |= table->unlisted;
        if (table->help) {
            o.help = i + 1 < end ? "" : table->help;
            o.manual = NULL;
        }
        rows->list[rows->count++] = o;
    }
}

static void put_rows(const struct command_option *o, bool all, struct command_rows *ret)
{
    for (; o && o->kind; o++) {
        const size_t first = ret->count;

        if (o->unlisted && !all)
            continue;
        if (o->kind == COMMAND_TABLE) {
            put_rows(o->table, all, ret);
            include(o, first, ret);
        } else if (o->kind == COMMAND_MADE) {
            o->make(ret, o);
        } else {
            command_add(ret, o);
        }
    }
}

void command_rows_of(const struct command *c, bool all, struct command_rows *ret)
{
    ret->count = ret->name_count = 0;
    put_rows(c->options, all, ret);
}

/* -------------------------------------------------------------------------------------- --help */

static const struct command_option help_option = {
    .name = "help", .letter = 'h', .help = "this text"};

/* The common options of a command, listed behind its own. */
#define COMMON_MAX 5
static size_t common_options(const struct command *c, struct command_option ret[COMMON_MAX])
{
    size_t n = 0;

    if (c->json)
        ret[n++] = (struct command_option){.name = "json", .help = c->json};
    if (!c->catalog || c->catalog[0])
        ret[n++] = (struct command_option){.name = "catalog",
                                           .letter = 'c',
                                           .value = "FILE",
                                           .help = c->catalog ? c->catalog : "the catalog"};
    if (c->quiet)
        ret[n++] = (struct command_option){.name = "quiet", .letter = 'q', .help = c->quiet};
    if (c->verbose)
        ret[n++] = (struct command_option){.name = "verbose", .letter = 'v', .help = c->verbose};
    ret[n++] = help_option;
    return n;
}

/* "  -a, --at=TIME": its columns. */
#define SPELLED_LEN 120
static size_t format_option_names(const struct command_option *o, char ret[SPELLED_LEN])
{
    const char letter[] = {'-', o->letter, ',', 0};
    int n = snprintf(ret, SPELLED_LEN, "  %-3s %s%s%s--%s%s%s", o->letter ? letter : "",
                     o->also ? "--" : "", o->also ? o->also : "", o->also ? ", " : "", o->name,
                     o->value && o->value[0] != '[' ? "=" : "", o->value ? o->value : "");

    return n < SPELLED_LEN ? (size_t)n : SPELLED_LEN - 1;
}

static void put_text(struct buf *out, const char *s, size_t column, size_t indent)
{
    text_wrap(text_to_buf, out, s, column, indent, COLUMNS);
    buf_printf(out, "\n");
}

/* before: columns that options which it explains as well have taken of the line. */
static size_t put_option(const struct command_option *o, size_t before, size_t at, struct buf *out)
{
    char spelled[SPELLED_LEN];
    size_t columns = format_option_names(o, spelled);

    if (o->title)
        buf_printf(out, "%s:\n", o->title);
    if (before > 0) {
        const char *name = spelled + strspn(spelled, " ");

        if (before + 2 + strlen(name) > COLUMNS) {
            buf_printf(out, ",\n      ");
            before = 6;
        } else {
            buf_printf(out, ", ");
            before += 2;
        }
        columns = before + strlen(name);
        memmove(spelled, name, strlen(name) + 1);
    }
    if (!o->help[0]) {
        buf_printf(out, "%s", spelled);
        return columns;
    }
    if (columns + 2 > at)
        buf_printf(out, "%s\n%*s", spelled, (int)at, "");
    else
        buf_printf(out, "%-*s", (int)at, spelled);
    put_text(out, o->help, at, at);
    if (o->list)
        o->list(out);
    return 0;
}

/* The column of all help texts: behind the longest option that is not too long. */
static size_t text_column(const struct command_option *own, size_t owns,
                          const struct command_option *common, size_t n)
{
    char spelled[SPELLED_LEN];
    size_t at = 0;

    for (size_t i = 0; i < owns; i++) {
        const size_t columns = own[i].help[0] ? format_option_names(&own[i], spelled) + 2 : 0;

        at = columns > at && columns <= TEXT_COLUMN_MOST ? columns : at;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t columns = format_option_names(&common[i], spelled) + 2;

        at = columns > at ? columns : at;
    }
    return at;
}

/* Each line of s, broken to fit. */
static void put_paragraphs(struct buf *out, const char *s)
{
    for (size_t n; *s; s += n + (s[n] == '\n')) {
        struct buf line = BUF_INIT;

        n = strcspn(s, "\n");
        buf_put(&line, s, n);
        put_text(out, buf_cstr(&line) ? buf_cstr(&line) : "", 0, 0);
        out->failed |= line.failed;
        buf_free(&line);
    }
}

static void put_lines(struct buf *out, const char *before, const char *s, const char *name)
{
    for (size_t n; *s; s += n + (s[n] == '\n')) {
        n = strcspn(s, "\n");
        buf_printf(out, "%snightshift %s%s%.*s\n", before, name, name[0] && n > 0 ? " " : "",
                   (int)n, s);
        before = before[0] == 'U' ? "   or: " : before;
    }
}

static bool has_titles(const struct command_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->list[i].title)
            return true;
    return false;
}

/* Prints the usual options in a group of their own, in the order in which `usual` has them, and
 * takes them out of theirs. A group whose first option goes keeps its title. */
static void put_usual(const struct command *c, size_t at, struct command_rows *own, struct buf *out)
{
    const char *title = "Most used";

    for (const char *name = c->usual; name && *name; name += strcspn(name, " ")) {
        size_t len, i = 0;

        name += strspn(name, " ");
        len = strcspn(name, " ");
        while (i < own->count &&
               (strncmp(own->list[i].name, name, len) != 0 || own->list[i].name[len]))
            i++;
        assert(i < own->count && own->list[i].help[0]);
        if (i + 1 < own->count && !own->list[i + 1].title)
            own->list[i + 1].title = own->list[i].title;
        own->list[i].title = title;
        put_option(&own->list[i], 0, at, out);
        memmove(&own->list[i], &own->list[i + 1], (--own->count - i) * sizeof(own->list[0]));
        title = NULL;
    }
}

void command_help(const struct command *c, struct buf *out)
{
    struct command_option common[COMMON_MAX];
    struct command_rows own;
    const size_t n = common_options(c, common);
    size_t before = 0, at;

    command_rows_of(c, false, &own);
    at = text_column(own.list, own.count, common, n);

    put_lines(out, "Usage: ", c->usage, c->name);
    put_paragraphs(out, c->about);
    buf_printf(out, "\n");
    put_usual(c, at, &own, out);
    for (size_t i = 0; i < own.count; i++)
        before = put_option(&own.list[i], before, at, out);
    if (has_titles(&own))
        buf_printf(out, "Common options:\n");
    for (size_t i = 0; i < n; i++)
        put_option(&common[i], 0, at, out);
    if (c->notes) {
        buf_printf(out, "\n");
        put_paragraphs(out, c->notes);
    }
    buf_printf(out, "\nExamples:\n");
    put_lines(out, "  ", c->examples, "");
    if (c->statuses) {
        struct buf s = BUF_INIT;

        buf_printf(&s, "Exit status: %s", c->statuses);
        buf_printf(out, "\n");
        put_paragraphs(out, buf_cstr(&s) ? buf_cstr(&s) : "");
        out->failed |= s.failed;
        buf_free(&s);
    }
}

/* ------------------------------------------------------------------------------------- parsing */

struct parsing {
    const struct command *command;
    struct command_rows rows;
    void *wanted;
    int argc;
    char **argv;
    struct option longs[COMMAND_OPTIONS_MAX]; /* as getopt wants them */
    char shorts[3 * COMMAND_OPTIONS_MAX];
};

static int value_of(const struct command_option *o, size_t i)
{
    return o->letter ? o->letter : FIRST_LONG + (int)i;
}

static const struct command_option *find_command_option(const struct parsing *p, int value)
{
    for (size_t i = 0; i < p->rows.count; i++)
        if (value_of(&p->rows.list[i], i) == value)
            return &p->rows.list[i];
    return NULL;
}

static int take_choice(const struct command_option *o, const char *value, int *ret, struct err *err)
{
    struct buf choices = BUF_INIT;
    int rc;

    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], value) == 0) {
            *ret = i;
            buf_free(&choices);
            return 0;
        }
        buf_printf(&choices, "%s%s", i > 0 ? o->choices[i + 1] ? ", " : " or " : "", o->choices[i]);
    }
    rc = choices.failed ? err_set(err, ERR_NOMEM, "out of memory")
                        : err_set(err, ERR_USAGE, "--%s is %s, not '%.80s'", o->name,
                                  buf_cstr(&choices), value);
    buf_free(&choices);
    return rc;
}

static int take_value(const struct command_given *given, void *at, struct err *err)
{
    const struct command_option *o = given->option;
    const char *value = given->value;
    char name[80];

    snprintf(name, sizeof(name), "--%s", o->name);
    switch (o->kind) {
    case COMMAND_FLAG:
        *(bool *)at = true;
        return 0;
    case COMMAND_TEXT:
        *(const char **)at = value;
        return value[0] ? 0 : err_set(err, ERR_USAGE, "%s wants a %s, not ''", name, o->value);
    case COMMAND_NUMBER:
        return cli_u32(name, value, (uint32_t)o->low, (uint32_t)o->high, at, err);
    case COMMAND_LENGTH:
        return cli_length(name, value, o->low, o->high, at, err);
    case COMMAND_CHOICE:
        return take_choice(o, value, at, err);
    case COMMAND_SET:
        *(int *)at = (int)o->low;
        return 0;
    case COMMAND_LANGUAGE:
        *(const char **)at = cli_language(value);
        return value[0] && utf8_valid(value, strlen(value))
                   ? 0
                   : err_set(err, ERR_USAGE, "%s wants a name or code such as Spanish or es", name);
    case COMMAND_OWN:
        return o->give ? o->give(at, given, err) : o->take(at, value, err);
    case COMMAND_END:
    case COMMAND_TABLE:
    case COMMAND_MADE:
        break;
    }
    return err_set(err, ERR_USAGE, "%s sets nothing", name);
}

static int parse_command_option(struct parsing *p, int found, struct err *err)
{
    const struct command_option *o = find_command_option(p, found);
    const struct command_given given = {o, optarg, optind < p->argc ? p->argv[optind] : NULL};

    if (p->command->on_option)
        p->command->on_option(p->wanted, &given);
    return take_value(&given, (char *)p->wanted + o->offset, err);
}

static void complete_command_option(const struct complete *c, int value, void *arg)
{
    const struct parsing *p = arg;
    const struct command_option *o = find_command_option(p, value);

    if (o && o->complete)
        o->complete(c, o);
    for (const char *const *s = o && !o->complete ? o->choices : NULL; s && *s; s++)
        complete_put(c, *s);
}

/* "--diarize[=MODEL]" may go without its value. */
static int argument_of(const struct command_option *o)
{
    return !o->value ? no_argument : o->value[0] == '[' ? optional_argument : required_argument;
}

/* The common options are known to every command, also where its --help has none of the name. */
enum { VALUE_JSON = 200 };
static const struct option common_longs[] = {
    {"catalog", required_argument, NULL, 'c'}, {"json", no_argument, NULL, VALUE_JSON},
    {"quiet", no_argument, NULL, 'q'},         {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
};
#define COMMON_LONGS (sizeof(common_longs) / sizeof(common_longs[0]))
#define COMMON_SHORTS ":c:qvh"

static void list_options(struct parsing *p)
{
    char *shorts = p->shorts + sizeof(COMMON_SHORTS) - 1;
    size_t n = COMMON_LONGS;

    memcpy(p->longs, common_longs, sizeof(common_longs));
    memcpy(p->shorts, COMMON_SHORTS, sizeof(COMMON_SHORTS));
    for (size_t i = 0; i < p->rows.count; i++) {
        const struct command_option *o = &p->rows.list[i];

        assert(n + 2 < COMMAND_OPTIONS_MAX);
        p->longs[n++] = (struct option){o->name, argument_of(o), NULL, value_of(o, i)};
        if (o->also)
            p->longs[n++] = (struct option){o->also, argument_of(o), NULL, value_of(o, i)};
        if (!o->letter)
            continue;
        *shorts++ = o->letter;
        for (int k = 0; k < argument_of(o); k++) /* "a:", and "a::" where it may go */
            *shorts++ = ':';
    }
    *shorts = 0;
    p->longs[n] = (struct option){0};
}

static int bad_option(const struct cli *cli, const struct option *known, int found, char **argv)
{
    const char *word = argv[optind - 1];
    char sentence[CLI_OPTION_LEN];

    if (found == ':')
        return cli_usage(cli, "option '%s' wants a value", word);
    if (optopt != 0 && optopt < 128 && strncmp(word, "--", 2) != 0)
        return cli_usage(cli, "there is no option '-%c'", optopt);
    if (optopt != 0)
        return cli_usage(cli, "option '%s' takes no value", word);
    return cli_usage(cli, "%s", cli_no_long_option(word, known, sentence));
}

/* Other programs have '_' where options here have '-': whether getopt_long, which did not know the
 * word before argv[optind], is to look at it once more. */
static bool respell_option(int found, char **argv)
{
    char *word = argv[optind - 1];
    bool any = false;

    if (found != '?' || optopt != 0 || strncmp(word, "--", 2) != 0)
        return false;
    for (char *c = word; *c && *c != '='; c++)
        if (*c == '_') {
            *c = '-';
            any = true;
        }
    optind -= any;
    return any;
}

static int take_catalog(struct cli *cli)
{
    free(cli->catalog);
    cli->catalog = strdup(optarg);
    if (!cli->catalog)
        return cli_no_memory("begin");
    return cli->catalog[0] ? -1 : cli_usage(cli, "--catalog wants the name of a file");
}

static int print_help(const struct command *c)
{
    struct buf help = BUF_INIT;
    const char *text;

    command_help(c, &help);
    text = buf_cstr(&help);
    if (text)
        fputs(text, stdout);
    buf_free(&help);
    if (!text)
        return cli_no_memory("print the help");
    return cli_flush(EX_OK);
}

/* -1: go on; else the exit status to leave with. */
static int take_found(struct cli *cli, struct parsing *p, int found)
{
    struct err err = {0};

    switch (found) {
    case '?':
    case ':':
        return bad_option(cli, p->longs, found, p->argv);
    case 'h':
        return print_help(p->command);
    case 'c':
        return take_catalog(cli);
    case VALUE_JSON:
        cli->json = true;
        return p->command->json ? -1 : cli_usage(cli, "there is no --json here");
    case 'q':
        cli->quiet = true;
        log_set_level(LOG_WARN);
        return -1;
    case 'v':
        cli->verbose = true;
        log_set_level(LOG_DEBUG);
        return -1;
    default:
        return parse_command_option(p, found, &err) == 0 ? -1 : cli_usage(cli, "%s", err.msg);
    }
}

int command_parse(struct cli *cli, const struct command *c, void *wanted, int argc, char **argv)
{
    struct parsing p = {.command = c, .wanted = wanted, .argc = argc, .argv = argv};
    int found, status = -1;

    cli_hint_of(cli->command);
    command_rows_of(c, true, &p.rows);
    list_options(&p);
    if (cli->complete) {
        complete_options(cli->complete, p.longs, complete_command_option, &p);
        return cli_flush(EX_OK);
    }
    opterr = 0;
    optind = 0;
    while (status < 0 && (found = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1)
        if (!respell_option(found, argv))
            status = take_found(cli, &p, found);
    return status;
}
