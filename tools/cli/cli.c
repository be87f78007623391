#include "tools/cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tools/cli/did_you_mean.h"
#include "tools/cli/other_programs.h"
#include "tools/cli/text.h"
#include "workers/text/languages.h"

void cli_free(struct cli *cli)
{
    free(cli->catalog);
    cli->catalog = NULL;
}

/* ------------------------------------------------------------------------------- options */

/* A hint: of the command whose options were read. */
static char in_command[80] = "`nightshift help` lists the commands.";

void cli_hint_of(const char *command)
{
    snprintf(in_command, sizeof(in_command), "`nightshift %.30s --help` lists its options.",
             command);
}

char *cli_no_long_option(const char *word, const struct option *longs, char out[CLI_OPTION_LEN])
{
    const char *names[CLI_OPTIONS_MAX], *typed = word + strspn(word, "-");
    const size_t len = strcspn(typed, "=");
    char plain[200], sentence[DID_YOU_MEAN_LEN], other[OTHER_PROGRAMS_LEN];
    size_t n = 0, fit = 0, used;

    snprintf(plain, sizeof(plain), "%.*s", (int)(len < sizeof(plain) ? len : sizeof(plain) - 1),
             typed);
    for (; longs->name && n < CLI_OPTIONS_MAX; longs++) {
        names[n++] = longs->name;
        fit += strncmp(longs->name, plain, strlen(plain)) == 0;
    }
    if (other_programs_say(plain, other)) {
        snprintf(out, CLI_OPTION_LEN, "there is no option '--%s' here. %s", plain, other);
        return out;
    }
    if (fit < 2 || len == 0) {
        snprintf(out, CLI_OPTION_LEN, "%s",
                 did_you_mean_sentence("option", "--", plain, names, n, sentence));
        return out;
    }
    used = (size_t)snprintf(out, CLI_OPTION_LEN, "'--%s' is short for several:", plain);
    for (size_t i = 0; i < n && used < CLI_OPTION_LEN; i++)
        if (strncmp(names[i], plain, strlen(plain)) == 0)
            used += (size_t)snprintf(out + used, CLI_OPTION_LEN - used, "%s --%s",
                                     out[used - 1] == ':' ? "" : ",", names[i]);
    return out;
}

char *cli_command_line(int argc, char **argv)
{
    struct buf b = BUF_INIT;
    char *ret;

    buf_printf(&b, "nightshift");
    for (int i = 0; i < argc && b.len < 4000; i++)
        buf_printf(&b, " %s", argv[i]);
    ret = b.failed ? NULL : utf8_display(b.data, b.len);
    buf_free(&b);
    return ret;
}

const char *cli_language(const char *value)
{
    const char *code = utf8_valid(value, strlen(value)) ? language_code(value) : NULL;

    return code ? code : value;
}

int cli_u32(const char *option, const char *value, uint32_t min, uint32_t max, uint32_t *ret,
            struct err *err)
{
    char *end;
    unsigned long v;

    errno = 0;
    v = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != 0 || errno != 0 || v < min || v > max)
        return err_set(err, ERR_USAGE, "%s wants a whole number from %u to %u, not '%s'", option,
                       min, max, value);
    *ret = (uint32_t)v;
    return 0;
}

int cli_length(const char *option, const char *value, int64_t min_ms, int64_t max_ms, int64_t *ret,
               struct err *err)
{
    int64_t v = text_parse_length(value, max_ms);
    const bool bare = value[strspn(value, "0.")] && !value[strspn(value, "0123456789.")];
    char low[TEXT_LEN], high[TEXT_LEN];

    if (v < min_ms)
        return err_set(err, ERR_USAGE,
                       "%s wants a length of time such as 90s, 5m or 1h30m (%s%s%s), not '%s'%s",
                       option, min_ms == 1 ? "more than 0" : text_length(min_ms, low),
                       min_ms == 1 ? ", at most " : " to ", text_length(max_ms, high), value,
                       bare ? ", which without a unit is seconds" : "");
    *ret = v;
    return 0;
}

/* ------------------------------------------------------------------------------- messages */

static const char *hint_of(int code)
{
    switch (code) {
    case ERR_NOMEM:
        return "Try again after closing other programs, or with fewer --slots and --decoders.";
    case ERR_IO:
        return "Check the disk (dmesg) and try again; nothing that was finished is lost.";
    case ERR_FULL:
        return "Free space on that disk and try again; nothing that was finished is lost.";
    case ERR_USAGE:
        return in_command;
    case ERR_MISSING:
        return "Check its name (ls).";
    case ERR_DENIED:
        return "Check its permissions (ls -ld), or try --catalog FILE in a folder of yours.";
    case ERR_LOCKED:
        return "Wait until it ends, or stop it, and try again.";
    case ERR_VERSION:
        return "Install the nightshift that wrote it, or try --catalog FILE with another one.";
    case ERR_CORRUPT:
        return "Keep a copy of it, and try `sqlite3 FILE .recover` to save what it holds.";
    case ERR_MODEL:
        return "`nightshift model list` shows the models that are here.";
    case ERR_INPUT:
        return "If it is not a catalog of nightshift, try --catalog FILE with another one.";
    case ERR_TIMEOUT:
    case ERR_PROTOCOL:
        return "Try again; `nightshift status` says what the run is doing.";
    default:
        return "`nightshift doctor` looks for what is wrong.";
    }
}

static bool has_way_out(const char *msg)
{
    static const char *const signs[] = {"Try ",   "try ",      "`",    "--catalog",
                                        ": use ", ", or use ", "Use ", "wait for "};

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (strstr(msg, signs[i]))
            return true;
    return false;
}

/* Ends the line on standard error that "nightshift:" begins: wrapped for people, whole for a log.
 * Names of files reach it by many ways, a shell's `*` among them, so it is made safe to print here,
 * once. */
static void put_line(const char *msg)
{
    char *shown = utf8_display(msg, strlen(msg));

    if (shown && isatty(STDERR_FILENO))
        text_wrap(text_to_file, stderr, shown, strlen("nightshift:"), 4, cli_columns(stderr));
    else
        fprintf(stderr, " %s", shown ? shown : "out of memory");
    fputc('\n', stderr);
    free(shown);
}

/* The line goes through the log if the log is written for programs. */
static void print_prefixed_line(enum log_level level, const char *sgr, const char *msg)
{
    if (log_format() != LOG_TEXT) {
        log_at(level, "%s", msg);
        return;
    }
    if (sgr[0])
        cli_paint(stderr, sgr, "nightshift:");
    else
        fputs("nightshift:", stderr);
    put_line(msg);
}

int cli_fail(const char *doing, const struct err *err, const char *hint)
{
    char line[sizeof(err->msg) + 1200];
    size_t len = strlen(err->msg);
    bool ended = len > 0 && strchr(".!?", err->msg[len - 1]);

    fflush(stdout);
    if (!hint)
        hint = has_way_out(err->msg) ? "" : hint_of(err->code);
    snprintf(line, sizeof(line), "cannot %s: %s%s%s%s", doing, err->msg, ended ? "" : ".",
             hint[0] ? " " : "", hint);
    print_prefixed_line(LOG_ERROR, "31", line);
    return err_exit_status(err->code);
}

int cli_no_memory(const char *doing)
{
    struct err err = {0};

    err_set(&err, ERR_NOMEM, "out of memory");
    return cli_fail(doing, &err, NULL);
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    char msg[600], line[900];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    snprintf(line, sizeof(line), "%s: %s%s Try `nightshift %s --help`.", cli->command, msg,
             msg[0] && strchr(".?!", msg[strlen(msg) - 1]) ? "" : ".", cli->command);
    print_prefixed_line(LOG_ERROR, "31", line);
    return EX_USAGE;
}

int cli_unasked(const struct cli *cli, const char *it)
{
    char line[300];

    snprintf(line, sizeof(line),
             "%s: %s nothing without --yes if nobody can be asked. Try it again with --yes.",
             cli->command, it);
    print_prefixed_line(LOG_ERROR, "31", line);
    return EX_USAGE;
}

void cli_note(const char *fmt, ...)
{
    char msg[1200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    fflush(stdout);
    print_prefixed_line(LOG_WARN, "", msg);
}

static void log_to_terminal(enum log_level level, const char *line, void *arg)
{
    struct buf whole = BUF_INIT, b = BUF_INIT;
    ssize_t n = 0;

    (void)arg;
    buf_printf(&whole, "%s%s", log_level_label(level), line);
    if (buf_cstr(&whole))
        text_wrap(text_to_buf, &b, buf_cstr(&whole), 0, 4, cli_columns(stderr));
    buf_put_u8(&b, '\n');
    /* One write, so that lines of several processes on one terminal do not mix. */
    if (!b.failed)
        n = write(STDERR_FILENO, b.data, b.len);
    (void)n; /* nobody is there who could be told */
    buf_free(&whole);
    buf_free(&b);
}

void cli_log_for_people(void)
{
    if (isatty(STDERR_FILENO) && log_format() == LOG_TEXT)
        log_set_sink(log_to_terminal, NULL);
}

bool cli_can_ask(const struct cli *cli)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !cli->json;
}

bool cli_confirmed(const char *question)
{
    char line[16];

    printf("%s [y/N] ", question);
    fflush(stdout);
    return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

enum cli_consent cli_consent(const struct cli *cli, bool dry_run, bool yes, const char *question)
{
    if (dry_run || yes)
        return yes && !dry_run ? CLI_YES : CLI_NO;
    if (!cli_can_ask(cli))
        return CLI_UNASKED;
    return cli_confirmed(question) ? CLI_YES : CLI_NO;
}

static int get_descriptor(FILE *f)
{
    int fd = fileno(f);

    return fd >= 0 ? fd : STDOUT_FILENO;
}

bool cli_color(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return (!no || no[0] == 0) && (!term || strcmp(term, "dumb") != 0) && isatty(get_descriptor(f));
}

void cli_paint(FILE *f, const char *sgr, const char *text)
{
    if (text[0] != 0 && cli_color(f))
        fprintf(f, "\033[%sm%s\033[0m", sgr, text);
    else
        fputs(text, f);
}

unsigned cli_columns(FILE *f)
{
    struct winsize ws = {0};

    if (ioctl(get_descriptor(f), TIOCGWINSZ, &ws) != 0 || ws.ws_col == 0)
        return 80;
    return ws.ws_col < 40 ? 40 : ws.ws_col > 120 ? 120 : ws.ws_col;
}

unsigned cli_rows(void)
{
    struct winsize ws = {0};

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 ? ws.ws_row : 0;
}

void cli_wrap(FILE *f, const char *s, size_t column, size_t indent)
{
    text_wrap(text_to_file, f, s, column, indent, cli_columns(f));
    putc('\n', f);
}

void cli_print(const char *s, size_t indent)
{
    if (!s)
        return;
    cli_wrap(stdout, s, 0, indent);
}

int cli_flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno != EPIPE) /* a reader that has seen enough, such as `head`, is no fault */
        cli_note("cannot write the output: %s. Check the disk or pipe that it goes to.",
                 strerror(errno));
    return EX_IOERR;
}

/* ------------------------------------------------------------------------------- paths */

int cli_absolute(const char *path, char **ret, struct err *err)
{
    char *whole = NULL, *real = NULL, *rest = NULL, *cut;
    int rc = 0;

    if (path[0] == 0) /* a variable that was never set, and not the folder one is in */
        return err_set(
            err, ERR_MISSING,
            "an empty name is not a file or folder; the current folder is '.'. Try its name");
    if (path[0] == '/')
        whole = strdup(path);
    else {
        char *here = getcwd(NULL, 0);

        if (!here)
            return err_sys(err, errno, "the current directory");
        if (asprintf(&whole, "%s/%s", here, path) < 0)
            whole = NULL;
        free(here);
    }
    if (!whole)
        return err_set(err, ERR_NOMEM, "out of memory");
    /* Names that are not there are moved from the end of `whole` to the front of `rest`. */
    for (;;) {
        char *joined = NULL;

        real = realpath(whole, NULL);
        if (!real && errno == ENOMEM) { /* which says nothing of what is there */
            rc = err_set(err, ERR_NOMEM, "out of memory");
            goto out;
        }
        if (real || !(cut = strrchr(whole, '/')) || cut == whole)
            break;
        if (cut[1] != 0) {
            if (asprintf(&joined, "%s%s", cut, rest ? rest : "") < 0) {
                rc = err_set(err, ERR_NOMEM, "out of memory");
                goto out;
            }
            free(rest);
            rest = joined;
        }
        *cut = 0;
    }
    if (!real)
        real = strdup(whole[0] == '/' && whole[1] != 0 ? whole : "");
    if (real && rest && strcmp(real, "/") == 0)
        real[0] = 0;
    if (!real || asprintf(ret, "%s%s", real, rest ? rest : "") < 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
out:
    free(rest);
    free(real);
    free(whole);
    return rc;
}

/* The member's name, behind "//"; NULL: the path names no member. */
static const char *member_of(const char *path)
{
    const char *at = path;
    struct stat st;

    while ((at = strstr(at + 1, "//"))) {
        char *before = strndup(path, (size_t)(at - path));
        bool folder = !before || (stat(before, &st) == 0 && S_ISDIR(st.st_mode));

        free(before);
        if (!folder)
            return at[2] ? at + 2 : NULL;
    }
    return NULL;
}

int cli_path_text(const char *path, const char *whose, int code, struct err *err)
{
    return utf8_valid(path, strlen(path))
               ? 0
               : err_set(err, code,
                         "the path of %s, '%.300s', is not UTF-8. Try it in another folder", whose,
                         path);
}

int cli_place(const char *path, char **ret, struct err *err)
{
    const char *member = path[0] ? member_of(path) : NULL;
    char *before, *archive = NULL;
    int rc;

    if (!member)
        return cli_absolute(path, ret, err);
    before = strndup(path, (size_t)(member - 2 - path));
    rc = before ? cli_absolute(before, &archive, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && asprintf(ret, "%s//%s", archive, member) < 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    free(before);
    free(archive);
    return rc;
}

int cli_make_directories(const char *path, struct err *err)
{
    char *copy = strdup(path);
    struct stat st;
    int rc = 0;

    if (!copy)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (char *p = copy + 1; rc == 0; p++) {
        char was = *p;

        if (was != '/' && was != 0)
            continue;
        *p = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            rc = err_sys(err, errno, "make the directory '%s'", copy);
        *p = was;
        if (was == 0)
            break;
    }
    if (rc == 0 && (stat(copy, &st) != 0 || !S_ISDIR(st.st_mode)))
        rc = err_set(err, ERR_INPUT, "'%s' is there already and is not a directory", copy);
    free(copy);
    return rc;
}

static int default_catalog(bool create, char **ret, struct err *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    int rc = 0;

    if (data && data[0] == '/')
        rc = asprintf(&dir, "%s/nightshift", data);
    else if (home && home[0] == '/')
        rc = asprintf(&dir, "%s/.local/share/nightshift", home);
    else
        return err_set(err, ERR_USAGE, "neither XDG_DATA_HOME nor HOME is set. Try --catalog FILE");
    if (rc < 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = create ? cli_make_directories(dir, err) : 0;
    if (rc == 0 && asprintf(ret, "%s/nightshift.db", dir) < 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    free(dir);
    return rc;
}

int cli_catalog(struct cli *cli, bool create, struct err *err)
{
    const char *given = cli->catalog ? cli->catalog : getenv("NIGHTSHIFT_CATALOG");
    char *path = NULL;
    int rc;

    rc = given && given[0] != 0 ? cli_absolute(given, &path, err)
                                : default_catalog(create, &path, err);
    if (rc == 0) {
        free(cli->catalog);
        cli->catalog = path;
    }
    return rc;
}
