/* workers/media/fork_server.h - processes that begin where loading has ended.
 *
 * Most of the cost of a short-lived process is dynamic linking (some 25 ms with FFmpeg's
 * libraries). A fork server is a process that has loaded its libraries, opens nothing, parses
 * nothing, and forks itself on request: like the fork servers of fuzzers, or Android's zygote. All
 * of its children have the same address layout, so an address that one leaks holds for the next:
 * only the sandbox that each enters after the fork separates them.
 *
 * They are children of the server's parent, not of the server (CLONE_PARENT): the parent waits for
 * them as for any other, and they outlive the server. They die, if they ask for that
 * (PR_SET_PDEATHSIG), with the thread that opened it. Linux only. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_FORK_SERVER_H
#define NIGHTSHIFT_WORKERS_MEDIA_FORK_SERVER_H

#include <stddef.h>
#include <sys/types.h>

struct fork_server;

#define FORK_SERVER_FILES 8

/* Starts program (NULL: this very one) with argv, which must come to fork_server_main. It ends with
 * the calling thread. 0, or an errno value. */
int fork_server_open(const char *program, const char *const argv[], struct fork_server **ret);
/* A process of it: files[i] (borrowed) is its descriptor i + 2, and it has no others but /dev/null
 * as 0 and 1; it leads a process group. It is to be ended by spawn_end. Any thread, one at a time.
 * 0, or an errno value: nothing was started; after EPIPE the server is of no more use. */
int fork_server_start(struct fork_server *s, const int files[], size_t count, pid_t *ret);
/* NULL is fine. Its status as of waitpid, which tells how one ended that was of no more use; -1: it
 * could not be learnt. */
int fork_server_close(struct fork_server *s);

/* The server's main(): calls child in each process that is asked for, whose exit status it returns.
 * Returns the server's own when its starter goes, or -1 at once: it was not started as one. */
int fork_server_main(int (*child)(void));

#endif
