/* nightshift: finds the subcommand and hands it the rest of the command line. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "gpu/backend.h"
#include "tools/cli/cli.h"
#include "tools/cli/did_you_mean.h"
#include "tools/commands/commands.h"
#include "workers/media/decoder.h"
#include "workers/process/finalize_main.h"
#include "workers/process/worker.h"

static void print_help(FILE *f)
{
    char name[40];

    fputs("Usage: nightshift COMMAND [OPTION]... [ARGUMENT]...\n"
          "Transcribes archives of audio and video overnight into one SQLite catalog.\n",
          f);
    for (const struct commands_entry *c = commands; c->command; c++) {
        if (c->title)
            fprintf(f, "\n%s%s", c->title, c->title[0] ? ":\n" : "");
        snprintf(name, sizeof(name), "%s %s", c->command->name, c->operands);
        fprintf(f, "  %-16s %s\n", name, c->summary);
    }
    fputs("  help COMMAND     show the help of a command, as COMMAND --help does\n"
          "\n"
          "The catalog is the first of these: --catalog FILE, $NIGHTSHIFT_CATALOG, "
          "and\nnightshift.db in $XDG_DATA_HOME/nightshift "
          "(~/.local/share/nightshift).\n\nExamples:\n  nightshift setup\n  nightshift enqueue "
          "/archive && nightshift run\n  nightshift status --failures\n  nightshift search "
          "'\"market square\"'\n  nightshift export --format srt --output subtitles\n",
          f);
}

/* Not listed: what `enqueue --watch` starts; its messages are those of enqueue. */
static const struct helper {
    const char *name;
    int (*run)(struct cli *cli, int argc, char **argv);
} helpers[] = {{"watcher", cmd_watcher}, {"watched", cmd_watched}};

/* In front of the command. */
static const struct option longs[] = {{"catalog", required_argument, NULL, 'c'},
                                      {"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, 'V'},
                                      {0}};
#define SHORTS "+:c:hV"

static int report_unknown_command(const char *name)
{
    const char *names[COMMANDS_MAX];
    char sentence[DID_YOU_MEAN_LEN];
    size_t n = 0;

    for (const struct commands_entry *c = commands; c->command; c++)
        names[n++] = c->command->name;
    cli_note("%s. Try `nightshift --help`.",
             did_you_mean_sentence("command", "", name, names, n, sentence));
    return EX_USAGE;
}

static int unknown_option(int found, const char *word)
{
    char sentence[CLI_OPTION_LEN];

    if (found == ':')
        cli_note("option '%s' wants a value. Try `nightshift --help`.", word);
    else if (strncmp(word, "--", 2) == 0)
        cli_note("%s. Try `nightshift --help`.", cli_no_long_option(word, longs, sentence));
    else
        cli_note("there is no option '%s' here. Try `nightshift --help`.", word);
    return EX_USAGE;
}

static const struct command about_help = {
    .name = "help",
    .usage = "[COMMAND]",
    .about = "List the commands, or explain COMMAND, as `nightshift COMMAND --help` does.",
    .catalog = "",
    .examples = "help\n"
                "help enqueue",
};

static int start_command(struct cli *cli, const struct commands_entry *c, int argc, char **argv)
{
    cli->command = c->command->name;
    return c->run(cli, argc, argv);
}

static int run_help(struct cli *cli, int argc, char **argv)
{
    char *ask[] = {NULL, (char *)"--help", NULL};
    const struct commands_entry *c;
    int status = command_parse(cli, &about_help, NULL, argc, argv);

    if (status >= 0)
        return status;
    if (optind == argc) {
        print_help(stdout);
        return cli_flush(EX_OK);
    }
    ask[0] = argv[optind];
    if (strcmp(ask[0], "help") == 0)
        return command_parse(cli, &about_help, NULL, 2, ask);
    c = commands_find(ask[0]);
    return c ? start_command(cli, c, 2, ask) : report_unknown_command(ask[0]);
}

static int run_command(struct cli *cli, int argc, char **argv)
{
    const struct commands_entry *c = commands_find(argv[0]);

    if (c)
        return start_command(cli, c, argc, argv);
    for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++)
        if (strcmp(helpers[i].name, argv[0]) == 0) {
            cli->command = "enqueue";
            return helpers[i].run(cli, argc, argv);
        }
    if (strcmp(argv[0], "help") == 0)
        return run_help(cli, argc, argv);
    return report_unknown_command(argv[0]);
}

/* `nightshift complete [WORD]...`, hidden: what the last WORD may become (tools/cli/complete.h). */
static int complete_command_line(int argc, char **argv)
{
    struct complete c = {.word = argc > 1 ? argv[argc - 1] : "",
                         .before = argc > 2 ? argv[argc - 2] : ""};
    struct cli cli = {.complete = &c};
    const struct commands_entry *command;

    opterr = 0;
    argc -= argc > 1;
    while (getopt_long(argc, argv, SHORTS, longs, NULL) != -1)
        continue;
    if (optind < argc && strcmp(argv[optind], "help") != 0) {
        command = commands_find(argv[optind]);
        return command ? start_command(&cli, command, 1, argv + optind) : EX_OK;
    }
    if (!complete_options(&c, longs, NULL, NULL)) {
        for (command = commands; command->command; command++)
            complete_put(&c, command->command->name);
        complete_put(&c, "help");
    }
    return cli_flush(EX_OK);
}

/* The program's other processes: they see their arguments as they are. */
static const struct process {
    const char *name;
    int (*main)(int argc, char **argv);
    bool computes;
} processes[] = {
    {"worker", worker_main, true},
    {"finalize", finalizer_main, true},
    {"decoder", decoder_main, false},
    {"probe", probe_main, false},
    {"complete", complete_command_line, false},
};

static const struct process *process_of(const char *name)
{
    for (size_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++)
        if (strcmp(processes[i].name, name) == 0)
            return &processes[i];
    return NULL;
}

/* Started with standard output closed, the next file opened would be it, and what is said would be
 * written there: into the catalog's lock, say. Reading alone, so that writing still fails. */
static void hold_standard_files(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    const struct process *process = argc > 1 ? process_of(argv[1]) : NULL;
    struct cli cli = {.command = "help"};
    int found, status;

    hold_standard_files();
    log_begin(process ? process->name : "nightshift");
    if (process) {
        if (process->computes)
            backend_host_sleep_when_idle(argv);
        return process->main(argc - 1, argv + 1);
    }
    signal(SIGPIPE,
           SIG_IGN); /* a reader that goes away is an error of writing, told by cli_flush */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file beyond `ulimit -f` */
    cli_log_for_people();
    opterr = 0;
    while ((found = getopt_long(argc, argv, SHORTS, longs, NULL)) != -1) {
        if (found == 'c') {
            free(cli.catalog);
            cli.catalog = strdup(optarg);
            if (!cli.catalog) /* not the usual one instead */
                return cli_no_memory("begin");
            continue;
        }
        if (found == '?' || found == ':') {
            status = unknown_option(found, argv[optind - 1]);
            cli_free(&cli);
            return status;
        }
        if (found == 'V')
            puts("nightshift " NIGHTSHIFT_VERSION);
        else
            print_help(stdout);
        cli_free(&cli);
        return cli_flush(EX_OK);
    }
    if (optind >= argc) {
        print_help(stderr);
        status = EX_USAGE;
    } else {
        if (strcmp(argv[optind], "bench") == 0)
            backend_host_sleep_when_idle(argv);
        else if (strcmp(argv[optind], "run") == 0)
            backend_host_sleep_when_idle(NULL);
        log_begin(argv[optind]); /* behind options, as in `-c FILE run` */
        status = run_command(&cli, argc - optind, argv + optind);
    }
    cli_free(&cli);
    return status;
}
