/* scheduler/run/process.h - one supervised process of the run, a worker or a finalizer: started,
 * greeted, killed when it is silent for too long, reaped, started again after a pause that grows,
 * quarantined. Part of its owner, which says what it is for and is told by callbacks.
 *
 *   OFF --process_start--> STARTING --HELLO--> UP --process_leave--> LEAVING --> OFF
 *    ^                         |                |
 *    `--- due --- WAITING <----+---- death -----+---- too many, or of another build ----> ASIDE
 *
 * One that was killed and does not end (a driver or a disk holds it in the kernel) has gone all the
 * same after ten seconds, and stays in stuck_pid until it ends.
 *
 * Who finds it OFF and wants it starts it; who finds it ASIDE may. It is this very program (or the
 * one that a test names) with its socket as file descriptor 3, and dies with the run: spawn_begun,
 * and the socket's end. Loop thread only; times are monotonic. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_PROCESS_H
#define NIGHTSHIFT_SCHEDULER_RUN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "scheduler/plan/retry.h"
#include "workers/wire/frame.h"

struct run;

struct process_loss { /* of one that died; what the owner does not set is as for one that idled */
    enum restart_cause cause;
    int64_t task;
    const char *hopeless; /* why starting it again cannot help, as the beginning of a sentence */
};

struct process_kind { /* the callbacks come from the loop, with the owner */
    const char *died; /* the event of a death */
    const char *a;    /* before its label, in a sentence */
    /* It has said HELLO, and is of our build. May be NULL. */
    void (*ready)(void *owner);
    /* Any other message but LOG; borrowed. False: it must not say this, and *err says why. Comes
     * while it is LEAVING or condemned, too. */
    bool (*frame)(void *owner, const struct frame *f, struct err *err);
    void (*written)(void *owner);   /* frames that were queued are on their way; may be NULL */
    void (*condemned)(void *owner); /* it is being killed: it gets nothing more; may be NULL */
    /* It has ended, and all that it wrote was read. ret NULL: as it was asked to (it is OFF); else
     * p->last says why, and what becomes of it is decided then. */
    void (*gone)(void *owner, struct process_loss *ret);
    /* It is ASIDE. The sentence was told: who, and why. */
    void (*quarantined)(void *owner, const char *why, const char *sentence);
    /* With every tick, in every state. Nobody listened for lost_ms before it. */
    void (*tick)(void *owner, int64_t now_ms, int64_t lost_ms);
};

enum process_state {
    PROCESS_OFF,
    PROCESS_WAITING,
    PROCESS_STARTING,
    PROCESS_UP,
    PROCESS_LEAVING,
    PROCESS_QUARANTINED,
};

struct link;

struct process {
    struct run *run;
    const struct process_kind *kind;
    void *owner;
    const char *label;    /* for people; the owner's, as is */
    const char *device;   /*   that of its events */
    struct process *next; /* of the run's */
    enum process_state state;
    struct link *link; /* NULL: there is no process */
    int64_t due_ms;    /* the pause, or patience, ends; UP: what the owner makes of it */
    int64_t heard_ms;  /* last frame */
    bool condemned;    /* it is being killed */
    bool broken;       /*   because it sent what cannot be: nothing more of it is believed */
    bool on_trial;     /* it was quarantined before, and one more death puts it there again */
    pid_t stuck_pid;   /* of the last that was killed and did not end; 0: none, or it did */
    int64_t stuck_ms;  /* when it was left behind */
    struct restart restart;
    struct err last; /* why it died last; code 0: nobody knows */
};

struct processes { /* all zero at first, but for the timer */
    struct process *first;
    uv_timer_t group;  /* until the sockets of a group are read again */
    int64_t ticked_ms; /* the last tick */
    uint32_t frames;   /* from all of them since then */
    bool many;         /* there were between the two before */
};

/* Zeroed memory becomes one that is OFF. It stays where it is while the run lasts. */
void process_init(struct process *p, struct run *run, const struct process_kind *kind,
                  const char *label, const char *device, void *owner);
/* One that has no process. argv ends with NULL. That it cannot be started is a death. */
void process_start(struct process *p, const char *const argv[]);
/* Queues a frame, which goes with processes_write. payload may be NULL (empty). ERR_NOMEM has
 * failed the run; ERR_IO: it has gone, and `gone` is on its way. */
int process_send(struct process *p, uint8_t type, const struct buf *payload);
uint32_t process_pid(const struct process *p);    /* 0: there is none */
uint64_t process_queued(const struct process *p); /* bytes that it has not taken yet */
void process_leave(struct process *p); /* QUIT, and after a while SIGKILL; or not started again */
void process_kill(struct process *p);  /* it leaves at once */
/* It broke a rule, or is silent: killed. code 0: its own end says why. */
void process_condemn(struct process *p, int code, const char *why);

/* All of the run's. */
void processes_begin(struct processes *all, uv_loop_t *loop); /* which is about to run */
void processes_tick(struct processes *all, int64_t now_ms);
void processes_write(struct processes *all); /* what is queued: once a tick of the loop */
void processes_reap(struct processes *all);  /* look whether any has ended: on every SIGCHLD */
void processes_kill(struct processes *all);
bool processes_all_off(const struct processes *all); /* none is left */
void processes_free(struct processes *all);          /* nobody is told; before the loop ends */

#endif
