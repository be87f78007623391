/* scheduler/companions.h - stages that listen to the decoding passes of another. Internal to
 * scheduler/; see companions.c. */
#ifndef NIGHTSHIFT_SCHEDULER_COMPANIONS_H
#define NIGHTSHIFT_SCHEDULER_COMPANIONS_H

#include "scheduler/run.h"

int companions_open(struct run *run, struct err *err);
void companions_free(struct run *run); /* NULL is fine */

/* The run's stage has just begun: those of `rows` that hear, and are not put aside, may listen to
 * its passes. What is taken of a row is zeroed there; rows with stage_id 0 are none. */
void companions_choose(struct run *run, struct store_stage_row *rows, size_t n);
/* Names them in SETUP, with strings of the run's and an array of the caller's. */
void companions_setup(struct run_worker *w, struct msg_setup *m,
                      struct msg_companion room[SETUP_MAX_COMPANIONS]);
/* Which of them the worker has loaded. False: it broke the protocol. */
bool companions_ready(struct run_worker *w, const struct msg_ready *m, struct err *err);

/* Sends a worker a lease, which is encoded already, and theirs after it; alone: none of theirs.
 * Where it has any, with->companions is set, and it is encoded anew. */
void companions_lease(struct run_worker *w, struct msg_lease *with, struct buf *encoded,
                      bool alone);
/* It ends earlier now, and theirs with it (the worker knows). */
void companions_cap(struct run *run, uint64_t with, uint32_t last);
/* CANCEL to all of a stage; after a request: to those whose task is not wanted any more. */
void companions_stop_stage(struct run *run, int64_t stage);
void companions_recheck(struct run *run);
/* The worker has gone: its leases are forgotten. Returns how many they were. */
uint32_t companions_lost(struct run_worker *w);

/* It died, maybe by their doing: until the next stage begins it is started without them. */
void companions_leave_out(struct run_worker *w);

bool companions_own(uint64_t lease); /* is it one of theirs, and not the planner's? */
/* As dispatch_shard_done and so on, of such a lease. */
bool companions_shard_done(struct run_worker *w, struct msg_shard_done *m, struct err *err);
bool companions_shard_failed(struct run_worker *w, const struct msg_shard_failed *m,
                             struct err *err);
bool companions_lease_end(struct run_worker *w, const struct msg_lease_end *m, struct err *err);

size_t companions_leased(const struct run *run);     /* at all workers */
uint64_t companions_heard_ms(const struct run *run); /* audio of their shards, in this run */
void companions_written(struct run *run);            /* the ledger is empty */

#endif
