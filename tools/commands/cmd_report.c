/* nightshift report: what the last run did, what failed, what is left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/replace.h"
#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/report/report.h"

static const char help[] =
    "Usage: nightshift report [OPTION]...\n"
    "What the last run did, and why it ended; what is left; what is new since the\n"
    "run before (what failed, is damaged, gone, or has no sound), and what helps;\n"
    "what is most doubtful of what it heard; at what speed, on which device.\n"
    "\n"
    "  -n, --last=N         of the last N runs (default: 1)\n"
    "      --html=FILE      as a page for browsers, which needs nothing beside it; -:\n"
    "                       to standard output\n"
    "      --json           as one JSON object\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift report\n"
    "  nightshift report --last 7 --html week.html\n"
    "  nightshift report | mail -s 'The night' archivist@example.org\n";

struct wanted {
    uint32_t last;
    const char *html;
};

enum { OPT_HTML = 256 };

static const struct option longs[] = {
    {"last", required_argument, NULL, 'n'},
    {"html", required_argument, NULL, OPT_HTML},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;

    if (option == 'n')
        return cli_u32("--last", value, 1, 1000, &w->last, err);
    w->html = value;
    return 0;
}

static int put(const struct cli *cli, const struct wanted *w, const struct report *r,
               struct err *err)
{
    struct buf b = BUF_INIT;
    int rc = 0;

    if (w->html)
        report_html(r, &b);
    else if (cli->json)
        report_json(r, &b);
    else
        report_text(r, cli_columns(stdout), &b);
    if (b.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    else if (w->html && strcmp(w->html, "-") != 0)
        rc = replace_file(w->html, b.data, b.len, REPLACE_THEIRS, err);
    else
        fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    return rc;
}

int cmd_report(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "n:", longs, take, true, NULL};
    struct wanted w = {.last = 1};
    struct report r;
    struct err err = {0};
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no arguments, and '%s' is one", argv[optind]);
    if (w.html && cli->json)
        return cli_usage(cli, "--html and --json do not go together");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    status = EX_OK;
    if (report_make(cli->catalog, w.last, &r, &err) != 0)
        status = cli_fail("read the catalog", &err, NULL);
    else if (put(cli, &w, &r, &err) != 0)
        status = cli_fail("write the report", &err, NULL);
    report_free(&r);
    return cli_flush(status);
}
