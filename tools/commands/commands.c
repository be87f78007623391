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
    {&command_setup, cmd_setup, "", "make this machine ready: fetch the models that it wants",
     "Before the first night"},
    {&command_doctor, cmd_doctor, "", "is this machine ready?", NULL},
    {&command_model, cmd_model, "", "models: which are here (list), pull, check, path", NULL},
    {&command_bench, cmd_bench, "", "how fast is this machine?", NULL},
    {&command_enqueue, cmd_enqueue, "PATH...",
     "find recordings and note what is to be done with them", "The night"},
    {&command_recipe, cmd_recipe, "", "what enqueue does with a folder: shown, set, removed", NULL},
    {&command_plan, cmd_plan, "", "what a run would do here, and how long it would take", NULL},
    {&command_run, cmd_run, "", "transcribe what is noted; goes on where an earlier run ended",
     NULL},
    {&command_status, cmd_status, "", "how far it is, and how much went wrong", NULL},
    {&command_pause, cmd_pause, "", "begin nothing new until resume", NULL},
    {&command_resume, cmd_resume, "", "go on after a pause", NULL},
    {&command_priority, cmd_priority, "", "what comes first, or last", NULL},
    {&command_cancel, cmd_cancel, "", "do not do what is waiting", NULL},
    {&command_retry, cmd_retry, "", "try failed recordings again", NULL},
    {&command_report, cmd_report, "", "what the night did, what failed, what is left",
     "The morning"},
    {&command_doubts, cmd_doubts, "", "what may be wrong in the transcripts, and how to hear it",
     NULL},
    {&command_show, cmd_show, "WHAT", "the transcript of one recording", NULL},
    {&command_search, cmd_search, "TEXT...", "where something was said", NULL},
    {&command_play, cmd_play, "", "a hit of the last search, or a recording, by mpv or ffplay",
     NULL},
    {&command_speakers, cmd_speakers, "", "who speaks; the same voice elsewhere; names for voices",
     NULL},
    {&command_export, cmd_export, "", "transcripts as files: txt, srt, vtt, json, docx and others",
     NULL},
    {&command_describe, cmd_describe, "CSV",
     "what a list says of the recordings: dates, people, numbers",
     "What people know, and what goes"},
    {&command_correct, cmd_correct, "",
     "what was really said: edited subtitles, words, one passage", NULL},
    {&command_score, cmd_score, "", "how many words are wrong, against references", NULL},
    {&command_pin, cmd_pin, "", "which of several results of a recording are current", NULL},
    {&command_verify, cmd_verify, "", "are the bytes of the files what they were?", NULL},
    {&command_forget, cmd_forget, "", "remove results that are superseded, or a stage's", NULL},
    {&command_erase, cmd_erase, "", "remove a recording, or a person, for good", NULL},
    {&command_split, cmd_split, "", "a catalog in parts, for machines to work on", "Many machines"},
    {&command_merge, cmd_merge, "", "the results of parts, back into their catalog", NULL},
    {&command_slurm, cmd_slurm, "", "the parts of a catalog as an array of a Slurm cluster", NULL},
    {&command_version, cmd_version, "", "which version this is", ""},
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
