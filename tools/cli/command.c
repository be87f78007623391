#include "tools/cli/command.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/cli/text.h"

#define COLUMNS 80
#define TEXT_COLUMN_MOST 26 /* where what is said of an option begins */
#define FIRST_LONG 256      /* getopt's value of the first option that has no letter */

static size_t put_table(const struct command_option *including, struct command_option *ret)
{
    const struct command_option *o = including->table;
    size_t n = 0;

    for (; o[n].kind; n++) {
        ret[n] = o[n];
        ret[n].offset += including->offset;
        if (!including->help)
            continue;
        ret[n].help = o[n + 1].kind ? "" : including->help;
        ret[n].manual = NULL;
    }
    return n;
}

size_t command_rows(const struct command *c, struct command_option ret[CLI_OPTIONS_MAX])
{
    size_t n = 0;

    for (const struct command_option *o = c->options; o && o->kind; o++)
        if (o->kind == COMMAND_TABLE)
            n += put_table(o, ret + n);
        else
            ret[n++] = *o;
    assert(n <= CLI_OPTIONS_MAX);
    return n;
}

/* -------------------------------------------------------------------------------------- --help */

static const struct command_option help_option = {
    .name = "help", .letter = 'h', .help = "this text"};

/* What every command may have, behind its own options. n: of at most 5. */
static size_t common_options(const struct command *c, struct command_option ret[5])
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
static size_t spell(const struct command_option *o, char ret[SPELLED_LEN])
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
    size_t columns = spell(o, spelled);

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

/* Where the texts of all options begin: behind the longest of those that are not too long. */
static size_t text_column(const struct command_option *own, size_t owns,
                          const struct command_option *common, size_t n)
{
    char spelled[SPELLED_LEN];
    size_t at = 0;

    for (size_t i = 0; i < owns; i++) {
        const size_t columns = own[i].help[0] ? spell(&own[i], spelled) + 2 : 0;

        at = columns > at && columns <= TEXT_COLUMN_MOST ? columns : at;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t columns = spell(&common[i], spelled) + 2;

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

void command_help(const struct command *c, struct buf *out)
{
    struct command_option own[CLI_OPTIONS_MAX], common[5];
    const size_t owns = command_rows(c, own), n = common_options(c, common);
    const size_t at = text_column(own, owns, common, n);
    size_t before = 0;

    put_lines(out, "Usage: ", c->usage, c->name);
    put_paragraphs(out, c->about);
    buf_printf(out, "\n");
    for (size_t i = 0; i < owns; i++)
        before = put_option(&own[i], before, at, out);
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
    struct command_option rows[CLI_OPTIONS_MAX];
    size_t count;
    void *wanted;
};

static int value_of(const struct command_option *o, size_t i)
{
    return o->letter ? o->letter : FIRST_LONG + (int)i;
}

static const struct command_option *find(const struct parsing *p, int value)
{
    for (size_t i = 0; i < p->count; i++)
        if (value_of(&p->rows[i], i) == value)
            return &p->rows[i];
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

static int take_value(const struct command_option *o, const char *value, void *at, struct err *err)
{
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
        return o->take(at, value, err);
    case COMMAND_END:
    case COMMAND_TABLE:
        break;
    }
    return err_set(err, ERR_USAGE, "%s sets nothing", name);
}

static int take(void *arg, int value, const char *text, struct err *err)
{
    const struct parsing *p = arg;
    const struct command_option *o = find(p, value);

    if (!o)
        return err_set(err, ERR_USAGE, "an option that does not exist");
    return take_value(o, text, (char *)p->wanted + o->offset, err);
}

static void complete(const struct complete *c, int value, void *arg)
{
    const struct parsing *p = arg;
    const struct command_option *o = find(p, value);

    if (o && o->complete)
        o->complete(c, p->wanted);
    for (const char *const *s = o && !o->complete ? o->choices : NULL; s && *s; s++)
        complete_put(c, *s);
}

/* "--diarize[=MODEL]" may go without its value. */
static int argument_of(const struct command_option *o)
{
    return !o->value ? no_argument : o->value[0] == '[' ? optional_argument : required_argument;
}

static void list_options(const struct parsing *p, struct option *longs, char *shorts)
{
    size_t n = 0;

    for (size_t i = 0; i < p->count; i++) {
        const struct command_option *o = &p->rows[i];

        assert(n + 2 < CLI_OPTIONS_MAX);
        longs[n++] = (struct option){o->name, argument_of(o), NULL, value_of(o, i)};
        if (o->also)
            longs[n++] = (struct option){o->also, argument_of(o), NULL, value_of(o, i)};
        if (!o->letter)
            continue;
        *shorts++ = o->letter;
        for (int k = 0; k < argument_of(o); k++) /* "a:", and "a::" where it may go */
            *shorts++ = ':';
    }
    *shorts = 0;
    longs[n] = (struct option){0};
}

int command_parse(struct cli *cli, const struct command *c, void *wanted, int argc, char **argv)
{
    struct option longs[CLI_OPTIONS_MAX];
    char shorts[3 * CLI_OPTIONS_MAX];
    struct parsing p = {.wanted = wanted};
    struct buf help = BUF_INIT;
    struct cli_spec spec = {.shorts = shorts,
                            .longs = longs,
                            .take = take,
                            .json = c->json != NULL,
                            .values = complete};
    int status;

    p.count = command_rows(c, p.rows);
    list_options(&p, longs, shorts);
    command_help(c, &help);
    spec.help = buf_cstr(&help);
    status = spec.help ? cli_parse(cli, &spec, &p, argc, argv) : cli_no_memory("begin");
    buf_free(&help);
    return status;
}
