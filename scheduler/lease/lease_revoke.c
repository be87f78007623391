#include "scheduler/lease/lease_revoke.h"

#include <inttypes.h>

#include "base/log.h"

void lease_revoke_cap(struct run *run, const struct planner_step *s)
{
    struct msg_cap m = {.lease_id = s->lease, .last = s->last};
    struct run_lease *l = idmap_get(&run->dispatch.leases, s->lease);
    struct buf b = BUF_INIT;

    log_debug("lease %" PRIu64 " ends with shard %u", s->lease, s->last);
    msg_cap_put(&b, &m);
    process_send(&run->devices.workers[s->worker].process, MSG_CAP, &b);
    buf_free(&b);
    if (l)
        l->last = s->last;
}

void lease_revoke_track(struct run *run, const struct run_lease *l, uint32_t track)
{
    struct msg_cancel m = {.lease_id = l->id, .track = track};
    struct buf b = BUF_INIT;

    msg_cancel_put(&b, &m);
    process_send(&run->devices.workers[l->worker].process, MSG_CANCEL, &b);
    buf_free(&b);
}

void lease_revoke_task(struct run *run, int64_t task)
{
    const struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at)))
        if (l->task->t.task_id == task)
            lease_revoke_track(run, l, 0);
}

void lease_revoke_at_checkpoint(struct run *run, int64_t task)
{
    const struct run_lease *l;
    struct planner_step s;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at)))
        if (l->task->t.task_id == task && planner_cap_now(run->planner, l->id, &s))
            lease_revoke_cap(run, &s);
}
