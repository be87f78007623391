/* base/spawn.h - the one way in which the program starts a process, nearly always itself; and how
 * such a process ends.
 *
 * It has a process group of its own, so that Ctrl-C at the terminal reaches us alone; the
 * descriptors that it is given, and no others; no signal blocked, and none ignored but SIGHUP where
 * we ignore it (nohup). By posix_spawn: fork copies page tables, once for each recording that a
 * worker decodes (4 GiB in pages of 4 KiB: 330 ms against 1 ms). Any thread. */
#ifndef NIGHTSHIFT_BASE_SPAWN_H
#define NIGHTSHIFT_BASE_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SPAWN_FILES 8
#define SPAWN_NULL (-2) /* /dev/null */

/* files[i] (borrowed) is its descriptor i. program NULL: the running program, even if another file
 * is at its path by now. argv ends with NULL. 0, or an errno value: nothing was started. */
int spawn_start(const char *program, const char *const argv[], const int files[], size_t count,
                pid_t *ret);
/* The first thing in a process that was started so: it dies with the thread that started it, which
 * has the other end of `file`, a socket or a pipe. False: that is gone already. */
bool spawn_begun(int file);
void spawn_kill(pid_t pid); /* SIGKILL to it and all of its group */
/* Has it ended? It stays a zombie until spawn_end, so that its number is nobody else's. True, too,
 * where children are not kept (SIGCHLD is ignored). */
bool spawn_ended(pid_t pid);
/* Kills the process and the rest of its group, and waits up to limit_ms for it (-1: as long as it
 * takes): a process inside a broken driver cannot be killed. Returns waitpid's status; -1:
 * unknown. */
int spawn_end(pid_t pid, int64_t limit_ms);

#endif
