#include "tools/commands/commands.h"

#include <string.h>

static const struct command command_version = {
    .name = "version",
    .usage = "[OPTION]...",
    .about = "Which version this is, as `nightshift --version`.",
    .json = "as JSON",
    .catalog = "",
    .examples = "version --json",
};

static int cmd_version(struct cli *cli, int argc, char **argv)
{
    int status = command_parse(cli, &command_version, NULL, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no '%s'", argv[optind]);
    puts(cli->json ? "{\"version\": \"" NIGHTSHIFT_VERSION "\"}"
                   : "nightshift " NIGHTSHIFT_VERSION);
    return cli_flush(EX_OK);
}

const struct commands_entry commands[] = {
    {"enqueue", NULL, cmd_enqueue},
    {"run", NULL, cmd_run},
    {"status", NULL, cmd_status},
    {"show", NULL, cmd_show},
    {"search", NULL, cmd_search},
    {"export", NULL, cmd_export},
    {"retry", NULL, cmd_retry},
    {"cancel", NULL, cmd_cancel},
    {"pause", NULL, cmd_pause},
    {"resume", NULL, cmd_resume},
    {"doctor", NULL, cmd_doctor},
    {"model", NULL, cmd_model},
    {"plan", NULL, cmd_plan},
    {"bench", NULL, cmd_bench},
    {"score", NULL, cmd_score},
    {"speakers", NULL, cmd_speakers},
    {"describe", NULL, cmd_describe},
    {"verify", &command_verify, cmd_verify},
    {"version", &command_version, cmd_version},
    {"pin", &command_pin, cmd_pin},
    {"forget", &command_forget, cmd_forget},
    {"correct", NULL, cmd_correct},
    {"doubts", NULL, cmd_doubts},
    {"report", NULL, cmd_report},
    {"split", NULL, cmd_split},
    {"merge", NULL, cmd_merge},
    {"slurm", NULL, cmd_slurm},
    {"play", &command_play, cmd_play},
    {"priority", NULL, cmd_priority},
    {"recipe", NULL, cmd_recipe},
    {"erase", &command_erase, cmd_erase},
    {0},
};
_Static_assert(sizeof(commands) / sizeof(commands[0]) <= COMMANDS_MAX, "room for all");

const struct commands_entry *commands_find(const char *name)
{
    for (const struct commands_entry *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}
