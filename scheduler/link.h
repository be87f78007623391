/* scheduler/link.h - one process of ours, a worker or a settler: started, spoken with, killed,
 * reaped. No policy.
 *
 * It is this very program (or the one that a test names) with its socket as file
 * descriptor 3, in a process group of its own, so that Ctrl-C on the terminal reaches the run
 * alone, and so that killing it takes its decoders along. It dies with the run: PDEATHSIG, and the
 * socket's end. Loop thread only. */
#ifndef NIGHTSHIFT_SCHEDULER_LINK_H
#define NIGHTSHIFT_SCHEDULER_LINK_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "workers/wire/frame.h"

struct link;

struct link_handler { /* copied; called from the loop only, never from within a link_ call */
    /* A whole frame; borrowed during the call, which may call link_kill but not link_free. */
    void (*frame)(void *arg, const struct frame *f);
    /* The peer does not speak the protocol, or cannot be written to: nothing is read any more. */
    void (*broken)(void *arg, const struct err *err);
    /* A frame that was queued is on its way. May be NULL. */
    void (*written)(void *arg);
    /* The process has ended (status: as waitpid) and all that it wrote was read. Comes once, last.
     * The call may link_free. */
    void (*gone)(void *arg, int status);
    void *arg;
};

/* program NULL: /proc/self/exe. argv: its arguments, argv[0] among them, ending with NULL; copied
 * by being started. The caller owns *ret. */
int link_start(uv_loop_t *loop, const char *program, const char *const argv[],
               const struct link_handler *h, struct link **ret, struct err *err);
/* Queues one frame. payload may be NULL (empty). ERR_NOMEM; ERR_IO when it is broken or gone. */
int link_send(struct link *l, uint8_t type, const struct buf *payload, struct err *err);
size_t link_queued(const struct link *l); /* bytes that the peer has not taken yet */
void link_kill(struct link *l);           /* SIGKILL to the whole group; `gone` follows */
void link_reap(struct link *l);           /* look whether it has ended: on every SIGCHLD */
pid_t link_pid(const struct link *l);
/* Closes everything; kills it if it lives, and then nobody is told. NULL is fine. The memory goes
 * when the loop has run once more. */
void link_free(struct link *l);

#endif
