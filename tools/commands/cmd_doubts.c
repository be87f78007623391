/* nightshift doubts: what may be wrong in the transcripts, with the commands that play and correct
 * it. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "store/read/doubts.h"
#include "store/store.h"
#include "tools/cli/account.h"
#include "tools/cli/cli.h"
#include "tools/export/escape.h"
#include "tools/play_command.h"
#include "tools/search/search_absence.h"
#include "tools/cli/shell.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/transcribe/outcome/doubt.h"

#define INDENT 14   /* columns of the time, and before all that follows */
#define PATHS 1000u /* at most: SQLite has room for so many, and more */

struct wanted {
    uint32_t limit;
    enum read_doubts_of of;
    bool both; /* of two things at once */
    const char *speaker, *language;
};

/* Options that exclude each other. */
static int take_of(struct wanted *w, enum read_doubts_of of)
{
    w->both |= w->of != READ_DOUBTS_ALL && w->of != of;
    w->of = of;
    return 0;
}

static int take_missing(void *wanted, const char *value, struct err *err)
{
    (void)value;
    (void)err;
    return take_of(wanted, READ_DOUBTS_MISSING);
}

static int take_with_text(void *wanted, const char *value, struct err *err)
{
    (void)value;
    (void)err;
    return take_of(wanted, READ_DOUBTS_TEXT);
}

struct page {
    const struct cli *cli;
    const char *catalog; /* as --catalog says it; NULL: the one that is found without */
    uint32_t limit, shown;
    uint32_t with_text; /* of those shown */
    bool more;          /* than the limit */
    struct buf last;    /* the recording whose name was printed last */
    struct err err;
};

/* A passage without text has nothing to correct. */
static bool has_text(const struct read_doubt *d) { return d->segment->text[0] != 0; }

/* ------------------------------------------------------------------------------------- commands */

static bool play_of(const struct read_doubt *d, struct buf *out)
{
    return d->present && play_command(&(struct play){.path = d->path_raw,
                                                     .path_len = d->path_raw_len,
                                                     .member = d->member_raw,
                                                     .member_len = d->member_raw_len,
                                                     .nth = d->nth,
                                                     .start_ms = d->segment->start_ms,
                                                     .end_ms = d->segment->end_ms},
                                      out);
}

static void correct_of(const struct page *p, const struct read_doubt *d, struct buf *out)
{
    char at[CLOCK_HMS_LEN];

    clock_hms(d->segment->start_ms, at);
    buf_printf(out, "nightshift correct %lld --at %s ", (long long)d->segment->media_id, at);
    if (p->catalog) {
        buf_printf(out, "--catalog ");
        shell_quote(out, p->catalog, strlen(p->catalog));
        buf_put(out, " ", 1);
    }
    if (d->segment->text[0] == '-')
        buf_printf(out, "-- ");
    shell_quote(out, d->segment->text, strlen(d->segment->text));
}

static const char *no_play(const struct read_doubt *d)
{
    return d->present ? "No command plays it: its archive has several members of this name."
                      : "The file is missing: there is nothing to play.";
}

/* --------------------------------------------------------------------------------- for people */

static void put_indent(void) { printf("%*s", INDENT, ""); }

/* Behind the indent, broken at blanks. */
static void print_wrapped(const char *s, size_t len)
{
    char *safe = utf8_display(s, len);

    cli_wrap(stdout, safe ? safe : "", INDENT, INDENT);
    free(safe);
}

static void print_sentence(void *arg, const char *text)
{
    (void)arg;
    put_indent();
    print_wrapped(text, strlen(text));
}

/* The recording's name, unless it is the one that was printed last. */
static void print_name(struct page *p, const struct read_segment *s)
{
    struct buf name = BUF_INIT;
    const char *text;

    buf_printf(&name, "%s%s%s", s->path, s->member[0] ? "//" : "", s->member);
    text = buf_cstr(&name);
    if (name.len != p->last.len || memcmp(name.data, p->last.data, name.len) != 0) {
        cli_paint(stdout, "1", text ? text : s->path);
        putchar('\n');
        buf_clear(&p->last);
        buf_put(&p->last, name.data, name.len);
    }
    buf_free(&name);
}

static void print_text(const struct read_segment *s)
{
    struct buf line = BUF_INIT;
    char at[CLOCK_HMS_LEN], length[TEXT_LEN];

    clock_hms(s->start_ms, at);
    printf("%12s  ", at);
    buf_printf(&line, "%s%s%s", s->speaker, s->speaker[0] ? ": " : "",
               s->text[0] ? s->text : "(no text)");
    if (!s->text[0])
        buf_printf(&line, ", %s", text_length(s->end_ms - s->start_ms, length));
    print_wrapped(line.data ? (const char *)line.data : "", line.len);
    buf_free(&line);
}

/* A command stands whole in its line, so that it can be copied. */
static void print_command(struct buf *command)
{
    const char *text = buf_cstr(command);

    put_indent();
    puts(text ? text : "");
    buf_clear(command);
}

static void print_doubt(struct page *p, const struct read_doubt *d)
{
    struct buf command = BUF_INIT;

    print_name(p, d->segment);
    print_text(d->segment);
    doubt_say(d->segment->reason, print_sentence, NULL);
    if (play_of(d, &command))
        print_command(&command);
    else
        print_sentence(NULL, no_play(d));
    if (has_text(d)) {
        correct_of(p, d, &command);
        print_command(&command);
    }
    buf_free(&command);
}

/* ---------------------------------------------------------------------------------------- JSON */

struct sentences {
    struct buf *out;
    bool any;
};

static void put_sentence(void *arg, const char *text)
{
    struct sentences *s = arg;

    buf_printf(s->out, "%s", s->any ? ", " : "");
    escape_json(s->out, text);
    s->any = true;
}

static void put_why(struct buf *b, const char *reason)
{
    struct sentences s = {b, false};

    buf_printf(b, ", \"why\": [");
    doubt_say(reason, put_sentence, &s);
    buf_printf(b, "]");
}

static void put_commands(const struct page *p, const struct read_doubt *d, struct buf *b)
{
    struct buf command = BUF_INIT;
    bool plays = play_of(d, &command);

    if (plays && buf_cstr(&command))
        escape_json_text(b, "play", buf_cstr(&command));
    else
        buf_printf(b, ", \"play\": null");
    buf_clear(&command);
    if (has_text(d)) {
        correct_of(p, d, &command);
        escape_json_text(b, "correct", buf_cstr(&command) ? buf_cstr(&command) : "");
    } else
        buf_printf(b, ", \"correct\": null");
    buf_free(&command);
}

static int print_json(const struct page *p, const struct read_doubt *d, struct err *err)
{
    const struct read_segment *s = d->segment;
    struct buf b = BUF_INIT;
    int rc = 0;

    buf_printf(&b, "{\"recording\": %lld", (long long)s->media_id);
    escape_json_text(&b, "path", s->path);
    escape_json_text(&b, "member", s->member);
    buf_printf(&b, ", \"start_ms\": %lld, \"end_ms\": %lld", (long long)s->start_ms,
               (long long)s->end_ms);
    escape_json_text(&b, "language", s->language);
    escape_json_text(&b, "speaker", s->speaker);
    escape_json_text(&b, "outcome", has_text(d) ? "kept" : "missing");
    escape_json_text(&b, "text", s->text);
    escape_json_text(&b, "reason", s->reason);
    put_why(&b, s->reason);
    escape_json_number(&b, "avg_logprob", s->avg_logprob);
    escape_json_number(&b, "no_speech_prob", s->no_speech_prob);
    escape_json_number(&b, "compression_ratio", s->compression_ratio);
    escape_json_number(&b, "temperature", s->temperature);
    escape_json_number(&b, "speech_prob", s->speech_prob);
    put_commands(p, d, &b);
    buf_printf(&b, "}\n");
    if (b.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    else
        fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    return rc;
}

/* ------------------------------------------------------------------------------------ the whole */

static int on_doubt(void *arg, const struct read_doubt *d)
{
    struct page *p = arg;

    if (p->limit > 0 && p->shown == p->limit) {
        p->more = true;
        return 1;
    }
    p->shown++;
    p->with_text += has_text(d);
    if (p->cli->json)
        return print_json(p, d, &p->err);
    print_doubt(p, d);
    return 0;
}

/* Recordings that have nothing but texts which were dropped: these are too many to be listed with
 * what may be wrong in a text. */
struct unbelieved {
    char **paths;
    size_t path_count; /* 0: all */
    uint64_t counts[TEXTLESS_KINDS];
    uint32_t limit;
    struct buf lines[TEXTLESS_KINDS]; /* of the first ones of each kind, up to the limit */
};

/* At or below it? */
static bool lies_in(const char *name, const char *path)
{
    const size_t n = strlen(path);

    return strncmp(name, path, n) == 0 &&
           (name[n] == 0 || name[n] == '/' || (n > 0 && path[n - 1] == '/'));
}

static int on_unbelieved(void *arg, const struct store_textless_row *row)
{
    struct unbelieved *u = arg;
    struct buf name = BUF_INIT;
    bool wanted = u->path_count == 0;
    const char *text;

    buf_printf(&name, "%s%s%s", row->path, row->member[0] ? "//" : "", row->member);
    text = buf_cstr(&name);
    for (size_t i = 0; text && i < u->path_count; i++)
        wanted |= lies_in(text, u->paths[i]);
    if (wanted && (u->limit == 0 || u->counts[row->kind] < u->limit))
        buf_printf(&u->lines[row->kind], "%12lld  %s\n", (long long)row->media_id,
                   text ? text : "");
    u->lines[row->kind].failed |= !text;
    u->counts[row->kind] += wanted;
    buf_free(&name);
    return 0;
}

/* after: something stands above. */
static int print_unbelieved(struct store *st, struct unbelieved u, bool after, struct err *err)
{
    int rc = store_textless_each(st, on_unbelieved, &u, err);

    for (int i = TEXTLESS_UNBELIEVED; i <= TEXTLESS_DOUBTFUL; i++) {
        const struct buf *lines = &u.lines[i];
        struct buf b = BUF_INIT;

        if (rc == 0 && lines->failed)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        if (rc == 0 && textless_say(u.counts, (enum store_textless)i, &b) && buf_cstr(&b)) {
            fputs(after ? "\n" : "", stdout);
            cli_wrap(stdout, buf_cstr(&b), 0, 0);
            fwrite(lines->data, 1, lines->len, stdout);
        }
        buf_free(&b);
        buf_free(&u.lines[i]);
    }
    return rc;
}

static int print_nothing(struct store *st, bool chosen, struct err *err)
{
    struct buf b = BUF_INIT;
    int rc;

    buf_printf(&b, chosen ? "None of that is doubtful." : "Nothing is doubtful.");
    rc = search_left(st, stage_transcribe.name, "transcribed", &b, err);
    if (rc == 0 && buf_cstr(&b))
        cli_wrap(stdout, buf_cstr(&b), 0, 0);
    buf_free(&b);
    return rc;
}

static void print_end(const struct page *p)
{
    static const char how[] =
        "If a text is right as it is, give --as-heard instead of the text; it is not listed again.";
    char n[TEXT_LEN];

    if (p->with_text > 0 || p->more)
        putchar('\n');
    if (p->with_text > 0)
        cli_wrap(stdout, how, 0, 0);
    if (p->more)
        printf("... the first %s%s; --limit 0 shows all of them.\n",
               p->shown == 1 ? "" : text_count(p->shown, n),
               p->shown == 1 ? "passage" : " passages");
}

/* Makes paths absolute and printable, as the catalog has them. The caller owns *ret and its
 * strings. */
static int paths_of(char **argv, size_t n, char ***ret, struct err *err)
{
    char **list = calloc(n + 1, sizeof(*list));
    int rc = list ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t i = 0; i < n && rc == 0; i++) {
        char *path = NULL;

        rc = cli_place(argv[i], &path, err);
        if (rc == 0 && !(list[i] = utf8_display(path, strlen(path))))
            rc = err_set(err, ERR_NOMEM, "out of memory");
        free(path);
    }
    *ret = list;
    return rc;
}

/* A path, speaker or language that the catalog lacks is an error, not an empty result. */
static int check_doubt_filters(struct store *st, const struct wanted *w, char **paths, size_t n,
                               struct err *err)
{
    int rc = search_check(st, &(struct search_wish){.speaker = w->speaker, .language = w->language},
                          err);

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = search_check(st, &(struct search_wish){.path = paths[i]}, err);
    return rc;
}

static int doubts_in(struct page *p, struct store *st, const struct wanted *w, char **paths,
                     size_t n)
{
    const struct read_doubts which = {.of = w->of,
                                      .paths = (const char *const *)paths,
                                      .path_count = n,
                                      .speaker = w->speaker,
                                      .language = w->language,
                                      .limit = w->limit ? (uint64_t)w->limit + 1 : 0};
    int rc = check_doubt_filters(st, w, paths, n, &p->err);

    if (rc != 0)
        return cli_fail("look for doubts", &p->err, rc == ERR_MISSING ? "" : NULL);
    rc = read_doubts(st, &which, on_doubt, p, &p->err);
    if (rc >= 0 && !p->cli->json) {
        const bool chosen = n > 0 || w->of || w->speaker || w->language;

        if (p->shown > 0)
            print_end(p);
        else
            rc = print_nothing(st, chosen, &p->err);
        if (rc >= 0 && !w->of && !w->speaker && !w->language)
            rc = print_unbelieved(
                st, (struct unbelieved){.paths = paths, .path_count = n, .limit = w->limit},
                p->shown > 0, &p->err);
    }
    buf_free(&p->last);
    return rc < 0 ? cli_fail("look for doubts", &p->err, NULL) : EX_OK;
}

static int print_doubts(struct cli *cli, struct page *p, const struct wanted *w, char **paths,
                        size_t n)
{
    struct store *st = NULL;
    int status;

    if (cli_catalog(cli, false, &p->err) != 0)
        return cli_fail("find the catalog", &p->err, NULL);
    if (store_open(cli->catalog, STORE_READ, &st, &p->err) != 0)
        return cli_fail("open the catalog", &p->err, NULL);
    p->catalog = p->catalog ? cli->catalog : NULL;
    status = doubts_in(p, st, w, paths, n);
    store_close(st);
    return cli_flush(status);
}

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_NUMBER, "limit", 'n', wanted, limit, "N",
                   "passages to show (default: 20; 0: all)"),
     .high = 1000000},
    {COMMAND_READ("missing", 0, take_missing, NULL, "only speech without text")},
    {COMMAND_READ("with-text", 0, take_with_text, NULL, "only passages with a text")},
    {COMMAND_VALUE(COMMAND_LANGUAGE, "language", 'l', wanted, language, "NAME",
                   "only speech in this language: Spanish or es"),
     .manual = "Only speech in this language, by its name or code, such as Spanish or es."},
    {COMMAND_VALUE(COMMAND_TEXT, "speaker", 0, wanted, speaker, "WHO",
                   "only speech of WHO: a name, or a label ('channel 1')")},
    {0},
};

const struct command command_doubts = {
    .name = "doubts",
    .usage = "[OPTION]... [PATH]...",
    .about = "List passages that may be wrong, in all recordings or those at or below PATH, the "
             "least certain first. Each has its place, its text, the reason, and two commands: one "
             "plays it, one corrects it. Corrected and confirmed passages are not listed "
             "again.\nSpeech without text comes first, the longest first: voice activity detected "
             "speech, but no text came. Recordings whose texts were all rejected come last. "
             "Playing needs ffplay (of FFmpeg); in archives, also bsdtar.",
    .options = options,
    .json = "as JSON, one object a line",
    .examples = "doubts\n"
                "doubts /archive/1990 --limit 5\n"
                "doubts --missing --limit 0\n"
                "doubts --json --limit 0 | jq -r .play",
};

int cmd_doubts(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.limit = 20};
    struct page p = {.cli = cli};
    char **paths = NULL;
    size_t n;
    int status = command_parse(cli, &command_doubts, &w, argc, argv);

    if (status >= 0)
        return status;
    if (w.both)
        return cli_usage(cli, "--missing and --with-text do not go together");
    n = (size_t)(argc - optind);
    if (n > PATHS)
        return cli_usage(cli, "%zu paths are too many; %u may be, or a folder above them", n,
                         PATHS);
    p.catalog = cli->catalog;
    p.limit = w.limit;
    if (paths_of(argv + optind, n, &paths, &p.err) != 0)
        status = cli_fail("look for doubts", &p.err, NULL);
    else
        status = print_doubts(cli, &p, &w, paths, n);
    for (size_t i = 0; paths && i < n; i++)
        free(paths[i]);
    free(paths);
    return status;
}
