/* tools/commands/commands.h - all commands, for whoever finds one by its name. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_COMMANDS_COMMANDS_H
#define NIGHTSHIFT_TOOLS_COMMANDS_COMMANDS_H

#include "tools/cli/command.h"

struct commands_entry {
    const struct command *command;
    int (*run)(struct cli *cli, int argc, char **argv);
    const char *operands, *summary; /* as `nightshift --help` has them; "": none */
    const char *title;              /* of the group that begins here; NULL: the same group */
};
#define COMMANDS_MAX 64
/* In the order of the help text; ends with an entry without a command. */
extern const struct commands_entry commands[];
/* NULL: none is called that. */
const struct commands_entry *commands_find(const char *name);

extern const struct command command_bench, command_cancel, command_correct, command_describe,
    command_doctor, command_doubts, command_enqueue, command_erase, command_export, command_forget,
    command_merge, command_model, command_pause, command_pin, command_plan, command_play,
    command_priority, command_recipe, command_report, command_resume, command_retry, command_run,
    command_score, command_search, command_setup, command_show, command_slurm, command_speakers,
    command_split, command_status, command_verify;

int cmd_erase(struct cli *cli, int argc, char **argv);
int cmd_forget(struct cli *cli, int argc, char **argv);
int cmd_pin(struct cli *cli, int argc, char **argv);
int cmd_play(struct cli *cli, int argc, char **argv);
int cmd_verify(struct cli *cli, int argc, char **argv);
int cmd_enqueue(struct cli *cli, int argc, char **argv);
/* Hidden: `nightshift watched LINE MS WORD...`, the `enqueue WORD...` of a watch that something has
 * come to, as of that time; and `nightshift watcher LINE 0 WORD...`, the watch of a run that has
 * enqueued just now, with which it ends. LINE is the command that the user gave, which their jobs
 * show. */
int cmd_watcher(struct cli *cli, int argc, char **argv);
int cmd_watched(struct cli *cli, int argc, char **argv);
int cmd_recipe(struct cli *cli, int argc, char **argv);
int cmd_run(struct cli *cli, int argc, char **argv);
int cmd_status(struct cli *cli, int argc, char **argv);
int cmd_show(struct cli *cli, int argc, char **argv);
int cmd_search(struct cli *cli, int argc, char **argv);
int cmd_speakers(struct cli *cli, int argc, char **argv);
int cmd_describe(struct cli *cli, int argc, char **argv);
int cmd_correct(struct cli *cli, int argc, char **argv);
int cmd_export(struct cli *cli, int argc, char **argv);
int cmd_retry(struct cli *cli, int argc, char **argv);
int cmd_cancel(struct cli *cli, int argc, char **argv);
int cmd_pause(struct cli *cli, int argc, char **argv);
int cmd_resume(struct cli *cli, int argc, char **argv);
int cmd_priority(struct cli *cli, int argc, char **argv);
int cmd_doubts(struct cli *cli, int argc, char **argv);
int cmd_doctor(struct cli *cli, int argc, char **argv);
int cmd_setup(struct cli *cli, int argc, char **argv);
int cmd_model(struct cli *cli, int argc, char **argv);
int cmd_plan(struct cli *cli, int argc, char **argv);
int cmd_report(struct cli *cli, int argc, char **argv);
int cmd_score(struct cli *cli, int argc, char **argv);
int cmd_split(struct cli *cli, int argc, char **argv);
int cmd_merge(struct cli *cli, int argc, char **argv);
int cmd_slurm(struct cli *cli, int argc, char **argv);
int cmd_bench(struct cli *cli, int argc, char **argv);
/* `nightshift probe [--thorough]`, hidden: started by whoever wants to know the GPUs. Sees its
 * arguments as they are; returns the exit status. */
int probe_main(int argc, char **argv);

#endif
