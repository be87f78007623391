/* nightshift report: what the last run did, what failed, what is left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/replace.h"
#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/report/report.h"

struct wanted {
    uint32_t last;
    const char *html;
};

static int write_report_output(const struct cli *cli, const struct wanted *w,
                               const struct report *r, struct err *err)
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

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_NUMBER, "last", 'n', wanted, last, "N",
                   "report the last N runs (default: 1)"),
     .low = 1, .high = 1000},
    {COMMAND_VALUE(COMMAND_TEXT, "html", 0, wanted, html, "FILE",
                   "write one HTML page that needs no other files; -: to standard output"),
     .manual = "Write one HTML page with charts of each device over time. It needs neither scripts "
               "nor a network."},
    {0},
};

const struct command command_report = {
    .name = "report",
    .usage = "[OPTION]...",
    .about = "Show what the last run did and why it ended, at which speed on which device, and "
             "what is left. It lists new problems since the run before (failed, damaged, missing "
             "or silent files), what helps, and the most doubtful passages.",
    .options = options,
    .json = "as one JSON object",
    .examples = "report\n"
                "report --last 7 --html week.html\n"
                "report | mail -s 'The night' archivist@example.org",
};

int cmd_report(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.last = 1};
    struct report r;
    struct err err = {0};
    int status = command_parse(cli, &command_report, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no arguments, but got '%s'", argv[optind]);
    if (w.html && cli->json)
        return cli_usage(cli, "--html and --json do not go together");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    status = EX_OK;
    if (report_make(cli->catalog, w.last, &r, &err) != 0)
        status = cli_fail("read the catalog", &err, NULL);
    else if (write_report_output(cli, &w, &r, &err) != 0)
        status = cli_fail("write the report", &err, NULL);
    report_free(&r);
    return cli_flush(status);
}
