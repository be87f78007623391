/* tools/commands/cmd_enqueue.h - an `enqueue` as it was asked for, which `run PATH` does, too: its
 * options, its paths, and what is done with them. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_COMMANDS_CMD_ENQUEUE_H
#define NIGHTSHIFT_TOOLS_COMMANDS_CMD_ENQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/stages/enqueue_wish.h"

struct enqueue_command {             /* strings are argv's, but for the roots */
    const char **include, **exclude; /* NULL-terminated arrays */
    size_t include_n, exclude_n;
    bool follow, one_file_system, hidden, all, dry_run, unsandboxed, again, has_priority, watch;
    int64_t stable_ms; /* -1: as usual */
    int64_t poll_ms;
    int64_t as_of_ms; /* 0: whenever it is looked at */
    int64_t priority;
    struct enqueue_wish wish;
    char **roots; /* absolute; owned */
    uint32_t root_count;
    const char *line; /* the command as the user gave it, which its jobs show */
};

void enqueue_command_init(struct enqueue_command *c);
void enqueue_command_free(struct enqueue_command *c);

/* The options that `run` has for its paths, too: all but --dry-run. */
extern const struct command_option enqueue_command_table[];
/* 0: the paths are c's roots, of which at least one is there. Else the status to leave with. */
int enqueue_command_paths(struct enqueue_command *c, const struct cli *cli, int n, char **paths);
/* Does it all, once. Speaks as cli says, and finds the catalog. Returns the exit status. */
int enqueue_command_do(struct enqueue_command *c, struct cli *cli);

/* A process that watches the roots for a run that has enqueued them just now and is about to have
 * the catalog. It ends when *file, which the caller closes, does. */
int enqueue_watcher_start(const struct enqueue_command *c, const char *catalog, pid_t *pid,
                          int *file, struct err *err);

#endif
