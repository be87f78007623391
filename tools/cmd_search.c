/* nightshift search: where something was said. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "store/read.h"
#include "store/store.h"
#include "tools/cli.h"
#include "tools/formats.h"
#include "tools/text.h"

/* Marks that cannot stand in a text: control characters, replaced when printed. */
#define MARK_BEGIN "\001"
#define MARK_END "\002"

static const char help[] =
    "Usage: nightshift search [OPTION]... TEXT...\n"
    "Where something was said: recording, time, and the words around it. Every word\n"
    "must occur in a segment; \"a phrase\" must stand so; mark* finds market too.\n"
    "Accents and case do not matter.\n"
    "\n"
    "  -n, --limit=N          hits to show (default: 20; 0: all)\n"
    "  -p, --path=PATH        only in this file, or below this folder\n"
    "  -t, --by-time          in the order of recordings and times, not best first\n"
    "      --json             as a JSON array\n"
    "  -c, --catalog=FILE     the catalog\n"
    "  -h, --help             this text\n"
    "\n"
    "Examples:\n"
    "  nightshift search market square\n"
    "  nightshift search '\"market square\"' --path /archive/1990\n"
    "  nightshift search 'mark*' --json | jq -r '.[].text'\n";

struct wanted {
    uint32_t limit;
    const char *path;
    bool by_time;
};

static const struct option longs[] = {
    {"limit", required_argument, NULL, 'n'},
    {"path", required_argument, NULL, 'p'},
    {"by-time", no_argument, NULL, 't'},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;

    if (option == 'n')
        return cli_u32("--limit", value, 0, UINT32_MAX - 1, &w->limit, err);
    if (option == 'p')
        w->path = value;
    else
        w->by_time = true;
    return 0;
}

struct hits {
    bool json;
    uint64_t shown, limit;
    bool more;
    struct buf last; /* the recording whose name was printed last */
};

static void to_buf(void *arg, const char *bytes, size_t n) { buf_put(arg, bytes, n); }

/* The snippet, safe to print, with marks as the output has them: "[" and "]", or colour. */
static void print_snippet(const char *snippet, size_t column, bool color)
{
    struct buf line = BUF_INIT, out = BUF_INIT;
    const char *open = color ? "\033[1;33m" : "[", *close = color ? "\033[0m" : "]";
    unsigned columns = cli_columns(stdout);
    char *text;

    for (const char *s = snippet;;) {
        size_t n = strcspn(s, MARK_BEGIN MARK_END);
        char *safe = utf8_display(s, n);

        if (safe != NULL)
            buf_put(&line, safe, strlen(safe));
        free(safe);
        if (s[n] == 0)
            break;
        buf_put(&line, s + n, 1);
        s += n + 1;
    }
    text = buf_cstr(&line);
    text_wrap(to_buf, &out, text != NULL ? text : "", column, column, columns);
    for (size_t i = 0; i < out.len; i++)
        if (out.data[i] == MARK_BEGIN[0])
            fputs(open, stdout);
        else if (out.data[i] == MARK_END[0])
            fputs(close, stdout);
        else
            putchar(out.data[i]);
    putchar('\n');
    buf_free(&line);
    buf_free(&out);
}

static void print_json(const struct read_segment *row, bool first)
{
    struct buf b = BUF_INIT;
    char *marked = strdup(row->snippet != NULL ? row->snippet : "");

    for (char *s = marked; s != NULL && *s; s++)
        *s = *s == MARK_BEGIN[0] ? '[' : *s == MARK_END[0] ? ']' : *s;
    buf_printf(&b, "%s\n  {\"recording\": %lld, \"path\": ", first ? "[" : ",",
               (long long)row->media_id);
    format_json_string(&b, row->path);
    buf_printf(&b, ", \"member\": ");
    format_json_string(&b, row->member);
    buf_printf(&b,
               ", \"start_ms\": %lld, \"end_ms\": %lld, \"language\": ", (long long)row->start_ms,
               (long long)row->end_ms);
    format_json_string(&b, row->language);
    buf_printf(&b, ", \"text\": ");
    format_json_string(&b, row->text);
    buf_printf(&b, ", \"hit\": ");
    format_json_string(&b, marked != NULL ? marked : "");
    buf_printf(&b, "}");
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    free(marked);
}

static int on_hit(void *arg, const struct read_segment *row)
{
    struct hits *h = arg;
    struct buf name = BUF_INIT;
    char at[CLOCK_HMS_LEN];

    if (h->limit > 0 && h->shown == h->limit) {
        h->more = true;
        return 1;
    }
    h->shown++;
    if (h->json) {
        print_json(row, h->shown == 1);
        return 0;
    }
    buf_printf(&name, "%s%s%s", row->path, row->member[0] ? "//" : "", row->member);
    if (name.len != h->last.len || memcmp(name.data, h->last.data, name.len) != 0) {
        char *s = buf_cstr(&name);

        cli_paint(stdout, "1", s != NULL ? s : row->path);
        putchar('\n');
        buf_clear(&h->last);
        buf_put(&h->last, name.data, name.len);
    }
    buf_free(&name);
    clock_hms(row->start_ms, at);
    printf("%12s  ", at);
    print_snippet(row->snippet != NULL ? row->snippet : row->text, 14, cli_color(stdout));
    return 0;
}

static char *joined(int argc, char **argv, int from)
{
    struct buf b = BUF_INIT;
    char *ret;

    for (int i = from; i < argc; i++)
        buf_printf(&b, "%s%s", i > from ? " " : "", argv[i]);
    ret = b.failed ? NULL : utf8_repair(b.data, b.len);
    buf_free(&b);
    return ret;
}

static int search(struct cli *cli, const struct wanted *w, const char *text, const char *path)
{
    const struct read_search s = {.text = text,
                                  .path = path,
                                  .mark_begin = MARK_BEGIN,
                                  .mark_end = MARK_END,
                                  .limit = w->limit > 0 ? (uint64_t)w->limit + 1 : 0,
                                  .by_time = w->by_time};
    struct hits h = {.json = cli->json, .limit = w->limit};
    struct store *st = NULL;
    struct err err = {0};
    int status = EX_OK, rc;
    char n[TEXT_LEN];

    if (store_open(cli->catalog, STORE_READ, &st, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    rc = read_search(st, &s, on_hit, &h, &err);
    if (cli->json && rc >= 0)
        printf("%s%s]\n", h.shown == 0 ? "[" : "", h.shown > 0 ? "\n" : "");
    if (rc == ERR_USAGE)
        status = cli_usage(cli, "%s", err.msg + (strncmp(err.msg, "search: ", 8) == 0 ? 8 : 0));
    else if (rc < 0)
        status = cli_fail("search", &err, NULL);
    else if (!cli->json && h.shown == 0)
        puts("Nobody said that. Fewer words, or the beginning of one as in 'mark*', find more.");
    else if (!cli->json && h.more)
        printf("... the first %s hits; --limit 0 shows all of them.\n", text_count(h.shown, n));
    buf_free(&h.last);
    store_close(st);
    return cli_flush(status);
}

int cmd_search(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "n:p:t", longs, take, true};
    struct wanted w = {.limit = 20};
    struct err err = {0};
    char *text = NULL, *path = NULL, *shown = NULL;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind >= argc)
        return cli_usage(cli, "what should be searched for?");
    text = joined(argc, argv, optind);
    if (w.path != NULL && cli_absolute(w.path, &path, &err) == 0)
        shown = utf8_display(path, strlen(path));
    if (text == NULL || (w.path != NULL && shown == NULL)) {
        if (err.code == 0)
            err_set(&err, ERR_NOMEM, "out of memory");
        status = cli_fail("search", &err, NULL);
    } else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = search(cli, &w, text, shown);
    free(shown);
    free(path);
    free(text);
    return status;
}
