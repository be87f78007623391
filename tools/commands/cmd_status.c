/* nightshift status: how far the work is, what went wrong, and what a run is doing now. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/status/status.h"

#define WATCH_US 2000000
#define SCREEN_BYTES 65536

/* Everything, once, to out. *on: a run is. */
static int print_status_once(const struct cli *cli, const struct status_wanted *w, FILE *out,
                             bool *on, struct err *err)
{
    struct status s;
    int rc = status_open(cli->catalog, &s, err);

    *on = s.on;
    if (rc == 0 && cli->json)
        rc = status_json(&s, w, out, err);
    else if (rc == 0 && w->watch && !isatty(STDOUT_FILENO))
        status_line(&s, out);
    else if (rc == 0)
        rc = status_text(&s, w, out, err);
    status_close(&s);
    return rc;
}

/* Prints as many lines as fit the screen's rows (0: any number) with the cursor below them. */
static void put_screen(const char *text, unsigned rows)
{
    const char *end = text;
    size_t lines = 0, shown;

    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    shown = rows > 0 && lines >= rows ? (rows > 2 ? rows - 2 : 0) : lines;
    for (size_t i = 0; i < shown; i++)
        end = strchr(end, '\n') + 1;
    fputs("\033[H\033[J", stdout);
    fwrite(text, 1, (size_t)(end - text), stdout);
    if (shown < lines)
        printf("... %zu more lines", lines - shown);
}

/* One look over the last one, in one write. */
static int look_in_place(const struct cli *cli, const struct status_wanted *w, bool *on,
                         struct err *err)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int rc;

    if (!out)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = print_status_once(cli, w, out, on, err);
    if (fclose(out) != 0 && rc == 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        put_screen(text, *on ? cli_rows() : 0);
    free(text);
    return rc;
}

/* Until the run ends, whose end is shown as a whole. */
static int watch(const struct cli *cli, const struct status_wanted *w, struct err *err)
{
    const bool in_place = isatty(STDOUT_FILENO) && !cli->json;
    bool on;
    int rc;

    if (in_place)
        setvbuf(stdout, NULL, _IOFBF, SCREEN_BYTES);
    for (;;) {
        rc = in_place ? look_in_place(cli, w, &on, err)
                      : print_status_once(cli, w, stdout, &on, err);
        if (rc != 0 || !on || fflush(stdout) != 0)
            return rc;
        usleep(WATCH_US);
    }
}

static const struct command_option options[] = {
    {COMMAND_SWITCH("watch", 'w', status_wanted, watch,
                    "refresh every two seconds until the run ends: in place on a terminal, "
                    "otherwise a line each time"),
     .manual = "Refresh every two seconds until the run ends. On a terminal it refreshes in place, "
               "without jobs and failures unless they were asked for. Elsewhere it prints a line "
               "each time, or a line of JSON."},
    {COMMAND_SWITCH("failures", 'f', status_wanted, failures, "list every failure with its reason"),
     .manual = "List every failure with its reason, not only their number."},
    {COMMAND_SWITCH("jobs", 'j', status_wanted, jobs,
                    "list every job, not just the last five with tasks")},
    {COMMAND_SWITCH("events", 'e', status_wanted, events, "also list events of the last runs")},
    {0},
};

const struct command command_status = {
    .name = "status",
    .usage = "[OPTION]...",
    .about = "Show how far the work is, and what a run is doing now.",
    .options = options,
    .json = "all of it as one JSON object",
    .examples = "status\n"
                "status --failures\n"
                "status --json | jq .archive.failed",
};

int cmd_status(struct cli *cli, int argc, char **argv)
{
    struct status_wanted w = {0};
    struct err err = {0};
    bool on;
    int status = command_parse(cli, &command_status, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "unexpected argument '%s'; `nightshift show` is about one recording",
                         argv[optind]);
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if ((w.watch ? watch(cli, &w, &err) : print_status_once(cli, &w, stdout, &on, &err)) != 0)
        status = cli_fail("read the catalog", &err, NULL);
    else
        status = EX_OK;
    return cli_flush(status);
}
