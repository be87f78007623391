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
    {"status", &command_status, cmd_status},
    {"show", &command_show, cmd_show},
    {"search", &command_search, cmd_search},
    {"export", &command_export, cmd_export},
    {"retry", &command_retry, cmd_retry},
    {"cancel", &command_cancel, cmd_cancel},
    {"pause", &command_pause, cmd_pause},
    {"resume", &command_resume, cmd_resume},
    {"doctor", &command_doctor, cmd_doctor},
    {"setup", &command_setup, cmd_setup},
    {"model", &command_model, cmd_model},
    {"plan", &command_plan, cmd_plan},
    {"bench", NULL, cmd_bench},
    {"score", &command_score, cmd_score},
    {"speakers", &command_speakers, cmd_speakers},
    {"describe", &command_describe, cmd_describe},
    {"verify", &command_verify, cmd_verify},
    {"version", &command_version, cmd_version},
    {"pin", &command_pin, cmd_pin},
    {"forget", &command_forget, cmd_forget},
    {"correct", &command_correct, cmd_correct},
    {"doubts", &command_doubts, cmd_doubts},
    {"report", &command_report, cmd_report},
    {"split", &command_split, cmd_split},
    {"merge", &command_merge, cmd_merge},
    {"slurm", &command_slurm, cmd_slurm},
    {"play", &command_play, cmd_play},
    {"priority", &command_priority, cmd_priority},
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
