#include "tools/commands/commands.h"

#include <string.h>

static const struct command command_version = {
    .name = "version",
    .usage = "[OPTION]...",
    .about = "Print the version, as `nightshift --version` does.",
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
        return cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    puts(cli->json ? "{\"version\": \"" NIGHTSHIFT_VERSION "\"}"
                   : "nightshift " NIGHTSHIFT_VERSION);
    return cli_flush(EX_OK);
}

const struct commands_entry commands[] = {
    {&command_setup, cmd_setup, "", "fetch the models that this machine needs", "Set up"},
    {&command_doctor, cmd_doctor, "", "check whether this machine is ready", NULL},
    {&command_model, cmd_model, "", "list, pull and check models", NULL},
    {&command_bench, cmd_bench, "", "measure how fast this machine is", NULL},
    {&command_enqueue, cmd_enqueue, "PATH...",
     "find recordings and add them to the catalog as work", "Transcribe"},
    {&command_recipe, cmd_recipe, "",
     "show or change the options that a folder is transcribed with", NULL},
    {&command_plan, cmd_plan, "", "estimate what a run would do here, and how long it takes", NULL},
    {&command_run, cmd_run, "", "transcribe everything enqueued; resumes where it stopped", NULL},
    {&command_status, cmd_status, "", "show progress and failures", NULL},
    {&command_pause, cmd_pause, "", "start nothing new until resume", NULL},
    {&command_resume, cmd_resume, "", "continue after a pause", NULL},
    {&command_priority, cmd_priority, "", "choose what is done first, or last", NULL},
    {&command_cancel, cmd_cancel, "", "remove waiting recordings from the queue: all, or some",
     NULL},
    {&command_retry, cmd_retry, "", "try failed recordings again", NULL},
    {&command_report, cmd_report, "", "show what the last run did, and what failed", "Read"},
    {&command_doubts, cmd_doubts, "", "list passages that may be wrong, and how to hear them",
     NULL},
    {&command_show, cmd_show, "WHAT", "print the transcript of one recording", NULL},
    {&command_search, cmd_search, "TEXT...", "find where something was said", NULL},
    {&command_play, cmd_play, "", "play a search hit or a recording, with mpv or ffplay", NULL},
    {&command_speakers, cmd_speakers, "", "list speakers, find a voice elsewhere, name voices",
     NULL},
    {&command_export, cmd_export, "", "write transcripts as files: txt, srt, vtt, json, docx ...",
     NULL},
    {&command_describe, cmd_describe, "CSV", "add dates, people and numbers from a list",
     "Correct and delete"},
    {&command_correct, cmd_correct, "", "correct transcripts: edited subtitles, words, a passage",
     NULL},
    {&command_score, cmd_score, "", "count wrong words against reference texts", NULL},
    {&command_pin, cmd_pin, "", "choose which results of a recording are current", NULL},
    {&command_verify, cmd_verify, "", "check that the files have not changed", NULL},
    {&command_forget, cmd_forget, "", "delete outdated results, or those of one stage", NULL},
    {&command_erase, cmd_erase, "", "delete a recording or a person for good", NULL},
    {&command_split, cmd_split, "", "divide a catalog into parts for several machines",
     "Several machines"},
    {&command_merge, cmd_merge, "", "merge the results of parts into their catalog", NULL},
    {&command_slurm, cmd_slurm, "", "run the parts of a catalog on a Slurm cluster", NULL},
    {&command_version, cmd_version, "", "print the version", ""},
    {0},
};
_Static_assert(sizeof(commands) / sizeof(commands[0]) <= COMMANDS_MAX, "room for all");

const struct commands_entry *commands_find(const char *name)
{
    for (const struct commands_entry *c = commands; c->command; c++)
        if (strcmp(c->command->name, name) == 0)
            return c;
    return NULL;
}
