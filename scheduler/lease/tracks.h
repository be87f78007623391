/* scheduler/lease/tracks.h - what hears a lease's decoding pass beside the stage that it is made
 * for. Internal to scheduler/; see tracks.c. */
#ifndef NIGHTSHIFT_SCHEDULER_LEASE_TRACKS_H
#define NIGHTSHIFT_SCHEDULER_LEASE_TRACKS_H

#include "scheduler/run/run.h"

/* The run's stage has just begun: those of `rows` that hear, and are not disabled, may listen to
 * its passes. Chosen rows are taken over and zeroed; rows with stage_id 0 are ignored. */
void tracks_choose(struct run *run, struct store_stage_row *rows, size_t n);
void tracks_free(struct beside *b);

/* Names them in SETUP, behind the first of m->stages: of SETUP_MAX_STAGES, and the caller's. */
void tracks_setup(struct run_worker *w, struct msg_setup *m);
/* Which of them the worker has loaded. False: it broke the protocol. */
bool tracks_ready(struct run_worker *w, const struct msg_ready *m, struct err *err);
/* It died, maybe by their doing: until the next stage begins it is started without them. */
void tracks_leave_out(struct run_worker *w);

/* Adds them to a new lease and to its message, behind the first of m->tracks: of SETUP_MAX_STAGES,
 * and the caller's. The message borrows their contents from the lease. */
void tracks_add(struct run_worker *w, struct run_lease *l, struct msg_lease *m);
void tracks_drop(struct run *run, struct run_lease *l); /* they are none of the lease's any more */
/* CANCEL to all of a stage; after a request: to those whose task is not wanted any more. */
void tracks_stop_stage(struct run *run, int64_t stage);
void tracks_recheck(struct run *run);

/* Like intake_shard_done and so on, for a lease's tracks other than the first. */
bool tracks_shard_done(struct run_worker *w, struct run_lease *l, struct msg_shard_done *m,
                       struct err *err);
bool tracks_shard_failed(struct run_worker *w, struct run_lease *l,
                         const struct msg_shard_failed *m, struct err *err);
/* The recording has so many shards. */
void tracks_total(struct run *run, const struct run_lease *l, uint32_t shards);

#endif
