/* nightshift retry, cancel, pause, resume, priority: one request each, for all tasks or some. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/writer.h"

struct kind {
    enum request_type type;
    const char *purpose, *help;
    const char *one, *many, *none; /* sentences about what happened */
    const struct option *options;
    const struct kind *failed; /* with --failed */
    bool whole;                /* without PATH and --job it is about the catalog, not tasks */
};

struct wanted {
    bool all, failed;
    uint32_t job;
    int64_t priority;
};

#define OPTIONS \
    {"all", no_argument, NULL, 'a'}, { "job", required_argument, NULL, 'j' }
enum { OPT_FAILED = 256 };

static const struct option longs[] = {OPTIONS, {0}};
static const struct option cancel_longs[] = {
    OPTIONS, {"failed", no_argument, NULL, OPT_FAILED}, {0}};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;

    if (option == 'j')
        return cli_u32("--job", value, 1, INT32_MAX, &w->job, err);
    if (option == OPT_FAILED)
        w->failed = true;
    else
        w->all = true;
    return 0;
}

static void print_result(const struct cli *cli, const struct kind *k, bool whole, bool through_run,
                         uint64_t affected)
{
    char n[TEXT_LEN];
    json_t *o;

    if (cli->json) {
        o = json_pack("{s:I, s:b}", "affected", (json_int_t)affected, "through_run",
                      (int)through_run);
        json_dumpf(o, stdout, 0);
        putchar('\n');
        json_decref(o);
    } else if (cli->quiet)
        return;
    else if (affected == 0 && !whole)
        puts(k->none);
    else if (whole)
        printf("%s%s\n",
               k->type == REQUEST_PAUSE ? "The catalog is paused: nothing new is begun."
                                        : "The catalog goes on.",
               k->type == REQUEST_PAUSE ? " Next: nightshift resume"
               : through_run            ? ""
                                        : " Next: nightshift run");
    else
        printf("%s %s%s\n", text_count(affected, n), affected == 1 ? k->one : k->many,
               k->type != REQUEST_RETRY && k->type != REQUEST_RESUME ? ""
               : through_run ? " The run that is on takes this up."
                             : " Next: nightshift run");
}

static const char *unknown_hint(const struct wanted *w)
{
    return w->job != 0 ? "`nightshift status --jobs` lists the jobs."
                       : "Look at its name, or at those of `nightshift status`.";
}

static int request_all(struct cli *cli, const struct kind *k, const struct wanted *w, char **paths,
                       uint32_t n)
{
    struct request rq = {.type = k->type, .select_job = w->job, .priority = w->priority};
    struct request_reply reply = {0};
    struct writer *writer = NULL;
    struct store *there = NULL;
    struct err err = {0};
    uint64_t affected = 0;
    uint32_t unknown = 0;
    bool through_run;
    int rc;

    /* A writer would make a catalog where there is none. */
    rc = store_open(cli->catalog, STORE_READ, &there, &err);
    store_close(there);
    if (rc != 0 && rc != ERR_VERSION)
        return cli_fail("open the catalog", &err, NULL);
    rc = writer_open(cli->catalog, k->purpose, 10000, cli->quiet, &writer, &err);
    if (rc != 0)
        return cli_fail("change the catalog", &err, NULL);
    if (n == 0)
        rc = writer_request(writer, &rq, &reply, &err);
    affected = reply.affected;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rq.select_path = paths[i];
        rc = writer_request(writer, &rq, &reply, &err);
        if (rc == ERR_MISSING) {
            if (!w->all) { /* as enqueue: said, and the others are done */
                cli_fail(k->purpose, &err, unknown_hint(w));
                unknown++;
            }
            err = (struct err){0};
            rc = 0;
        } else if (rc == 0)
            affected += reply.affected;
    }
    through_run = writer_through_run(writer);
    writer_close(writer);
    if (rc != 0)
        return cli_fail(rc == ERR_MISSING ? k->purpose : "change the catalog", &err,
                        rc == ERR_MISSING ? unknown_hint(w) : NULL);
    if (n == 0 || unknown < n)
        print_result(cli, k, k->whole && n == 0 && w->job == 0, through_run, affected);
    return cli_flush(unknown > 0 ? EX_NOINPUT : EX_OK);
}

static int command(struct cli *cli, const struct kind *k, int argc, char **argv)
{
    const struct cli_spec spec = {k->help, "aj:", k->options, take, true, NULL};
    struct wanted w = {0};
    struct err err = {0};
    char **paths;
    uint32_t n = 0;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (k->type == REQUEST_PRIORITY &&
        (optind >= argc || !store_priority_of(argv[optind++], &w.priority)))
        return cli_usage(cli, "which priority: high, normal or low?");
    if (w.all && (w.job != 0 || optind < argc))
        return cli_usage(cli, "--all does not go with a PATH or --job");
    if (w.failed)
        k = k->failed;
    paths = calloc((size_t)(argc - optind) + 1, sizeof(*paths));
    if (!paths) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("change the catalog", &err, NULL);
    }
    /* Everything by its place, which is more than without any. */
    if (w.all && k->type == REQUEST_RETRY && cli_place("/", &paths[n], &err) == 0)
        n++;
    for (; err.code == 0 && optind < argc; optind++)
        if (cli_place(argv[optind], &paths[n], &err) == 0)
            n++;
    if (err.code != 0)
        status = cli_fail(k->purpose, &err, NULL);
    else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = request_all(cli, k, &w, paths, n);
    for (uint32_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
    return status;
}

#define SHARED_HELP                                                                 \
    "  -j, --job=N          only what this job brought (see `nightshift status`)\n" \
    "      --json           how many recordings, as JSON\n"                         \
    "  -c, --catalog=FILE   the catalog\n"                                          \
    "  -q, --quiet          say only what went wrong\n"                             \
    "  -h, --help           this text\n"                                            \
    "\n"
#define SHARED_STATUS                                                                 \
    "\n"                                                                              \
    "Exit status: 0; 66 when the catalog has no recording at PATH, or no such job;\n" \
    "others as sysexits.h has them.\n"

int cmd_retry(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {
        .type = REQUEST_RETRY,
        .options = longs,
        .purpose = "retry",
        .one = "recording will be tried again.",
        .many = "recordings will be tried again.",
        .none = "Nothing there has failed or was cancelled (--all: or was dismissed).",
        .help = "Usage: nightshift retry [OPTION]... [PATH]...\n"
                "Try failed and cancelled recordings again: those at or below PATH, or all but\n"
                "those that `nightshift cancel --failed` dismissed. What was transcribed of them\n"
                "is kept.\n"
                "\n"
                "  -a, --all            all of them, also what was dismissed\n" SHARED_HELP
                "Examples:\n"
                "  nightshift retry\n"
                "  nightshift retry /archive/box-7.zip//tapes/3.wav\n"
                "  nightshift retry /archive/1990 && nightshift run\n" SHARED_STATUS};

    return command(cli, &kind, argc, argv);
}

#define AGAIN "; `nightshift retry PATH` or `retry --all` takes "

int cmd_cancel(struct cli *cli, int argc, char **argv)
{
    static const struct kind dismiss = {.type = REQUEST_DISMISS,
                                        .purpose = "cancel",
                                        .one = "recording dismissed" AGAIN "it up again.",
                                        .many = "recordings dismissed" AGAIN "them up again.",
                                        .none = "Nothing there has failed."};
    static const struct kind kind = {
        .type = REQUEST_CANCEL,
        .options = cancel_longs,
        .failed = &dismiss,
        .purpose = "cancel",
        .one = "recording cancelled; `nightshift retry` takes it up again.",
        .many = "recordings cancelled; `nightshift retry` takes them up again.",
        .none = "Nothing there is waiting. For what has failed: --failed",
        .help = "Usage: nightshift cancel [OPTION]... [PATH]...\n"
                "Do not transcribe what is waiting: all of it, or what lies at or below PATH.\n"
                "Results that are there stay; `nightshift retry` takes it up again.\n"
                "\n"
                "      --failed         what has failed, in place of what is waiting: it is not\n"
                "                       counted as failed any more, nor listed, nor tried again\n"
                "                       but by `nightshift retry` with PATH, --job or --all\n"
                "  -a, --all            all of it (as without PATH and --job)\n" SHARED_HELP
                "Examples:\n"
                "  nightshift cancel /archive/duplicates\n"
                "  nightshift cancel --job 3\n"
                "  nightshift cancel --failed /archive/broken\n" SHARED_STATUS};

    return command(cli, &kind, argc, argv);
}

int cmd_pause(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {
        .type = REQUEST_PAUSE,
        .options = longs,
        .purpose = "pause",
        .one = "recording paused. Next: nightshift resume",
        .many = "recordings paused. Next: nightshift resume",
        .none = "Nothing there is waiting.",
        .whole = true,
        .help = "Usage: nightshift pause [OPTION]... [PATH]...\n"
                "Begin nothing new, or nothing at or below PATH, until `nightshift resume`.\n"
                "A run that is on stays, and ends what it has begun.\n"
                "\n"
                "  -a, --all            everything (as without PATH and --job)\n" SHARED_HELP
                "Examples:\n"
                "  nightshift pause\n"
                "  nightshift pause /archive/films\n" SHARED_STATUS};

    return command(cli, &kind, argc, argv);
}

int cmd_priority(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {
        .type = REQUEST_PRIORITY,
        .options = longs,
        .purpose = "priority",
        .one = "recording has that priority now.",
        .many = "recordings have that priority now.",
        .none = "Nothing there is waiting that was not so already.",
        .help = "Usage: nightshift priority [OPTION]... high|normal|low [PATH]...\n"
                "What is waiting comes before all others, or after them: all of it, or what lies\n"
                "at or below PATH. Among equals what was enqueued first comes first. A run that\n"
                "is on finishes what it has begun.\n"
                "\n"
                "  -a, --all            all that waits (as without PATH and --job)\n" SHARED_HELP
                "Examples:\n"
                "  nightshift priority high /archive/for-tomorrow\n"
                "  nightshift priority low --job 3\n" SHARED_STATUS};

    return command(cli, &kind, argc, argv);
}

int cmd_resume(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {
        .type = REQUEST_RESUME,
        .options = longs,
        .purpose = "resume",
        .one = "recording goes on.",
        .many = "recordings go on.",
        .none = "Nothing there is paused.",
        .whole = true,
        .help = "Usage: nightshift resume [OPTION]... [PATH]...\n"
                "Go on with what `nightshift pause` has stopped.\n"
                "\n"
                "  -a, --all            everything (as without PATH and --job)\n" SHARED_HELP
                "Examples:\n"
                "  nightshift resume\n"
                "  nightshift resume /archive/films\n" SHARED_STATUS};

    return command(cli, &kind, argc, argv);
}
