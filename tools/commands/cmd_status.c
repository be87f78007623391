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

static const char help[] =
    "Usage: nightshift status [OPTION]...\n"
    "How far the work is, and what a run is doing now.\n"
    "\n"
    "  -w, --watch          again every two seconds until the run ends: in place on\n"
    "                       a terminal, else a line each time\n"
    "  -f, --failures       list every failure with its reason\n"
    "  -j, --jobs           list every job, not just the last five with tasks\n"
    "  -e, --events         also what happened in the last runs\n"
    "      --json           all of it as one JSON object\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift status\n"
    "  nightshift status --failures\n"
    "  nightshift status --json | jq .archive.failed\n";

static const struct option longs[] = {
    {"watch", no_argument, NULL, 'w'},
    {"failures", no_argument, NULL, 'f'},
    {"jobs", no_argument, NULL, 'j'},
    {"events", no_argument, NULL, 'e'},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct status_wanted *w = arg;

    (void)value;
    (void)err;
    if (option == 'w')
        w->watch = true;
    else if (option == 'f')
        w->failures = true;
    else if (option == 'j')
        w->jobs = true;
    else
        w->events = true;
    return 0;
}

/* Everything, once, to out. *on: a run is. */
static int look(const struct cli *cli, const struct status_wanted *w, FILE *out, bool *on,
                struct err *err)
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

/* What fits a screen of so many rows (0: any number), where the cursor comes to stand behind it. */
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
    rc = look(cli, w, out, on, err);
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
        rc = in_place ? look_in_place(cli, w, &on, err) : look(cli, w, stdout, &on, err);
        if (rc != 0 || !on || fflush(stdout) != 0)
            return rc;
        usleep(WATCH_US);
    }
}

int cmd_status(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "wfje", longs, take, true, NULL};
    struct status_wanted w = {0};
    struct err err = {0};
    bool on;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no '%s'; `nightshift show` is about one recording",
                         argv[optind]);
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if ((w.watch ? watch(cli, &w, &err) : look(cli, &w, stdout, &on, &err)) != 0)
        status = cli_fail("read the catalog", &err, NULL);
    else
        status = EX_OK;
    return cli_flush(status);
}
