#include "workers/process/worker_companions.h"

#include <string.h>

#include "workers/process/worker_feed.h"
#include "workers/process/worker_lease.h"

static bool same_recording(const struct msg_lease *a, const struct msg_lease *b)
{
    return a->media_id == b->media_id && strcmp(a->path, b->path) == 0 &&
           strcmp(a->member, b->member) == 0 && a->nth == b->nth && a->shard_ms == b->shard_ms &&
           a->first == b->first && a->last == b->last &&
           memcmp(a->fingerprint, b->fingerprint, sizeof(a->fingerprint)) == 0;
}

void companion_arrived(struct worker *w, const struct msg_lease *msg)
{
    struct lease *l = lease_find(w, msg->with);

    if (l && l->awaited && --l->awaited == 0)
        worker_changed(w);
}

/* A lease that has ended, or decodes already, is no fault of the scheduler's: it could not know. */
int companion_host(const struct worker *w, const struct msg_lease *msg, struct lease **ret,
                   struct err *err)
{
    struct lease *l = lease_find(w, msg->with);

    if (msg->companion >= w->stage_count)
        return err_set(err, ERR_PROTOCOL, "no such companion was set up");
    if (!w->stages[msg->companion].loaded)
        return err_set(err, ERR_CANCELLED, "its stage is not loaded");
    if (!l)
        return err_set(err, ERR_CANCELLED, "the pass that it would take part in is over");
    if (l->msg.companion)
        return err_set(err, ERR_PROTOCOL, "it would take part in the pass of a companion");
    if (!same_recording(&l->msg, msg))
        return err_set(err, ERR_PROTOCOL, "it would take part in a pass over something else");
    if (l->parts[msg->companion])
        return err_set(err, ERR_PROTOCOL, "its stage takes part in this pass already");
    if (l->opened || l->input_over || l->cancelled)
        return err_set(err, ERR_CANCELLED, "the pass that it would take part in has gone on");
    *ret = l;
    return 0;
}

void companion_join(struct lease *host, struct lease *l)
{
    host->parts[l->msg.companion] = l;
    l->host = host;
    if (host->last < l->last)
        l->last = host->last; /* a CAP came between the two */
}

void companion_leave(struct worker *w, struct lease *l, const char *why)
{
    if (!l->host)
        return;
    l->host->parts[l->msg.companion] = NULL;
    l->host = NULL;
    if (why && l->result.code == 0)
        err_set(&l->result, ERR_CANCELLED, "%s", why);
    feed_stop(w, l);
    l->input_over = true;
    worker_changed(w);
    lease_settle(w, l);
}

void companions_end(struct worker *w, struct lease *host)
{
    const char *why = host->cancelled     ? "the pass that it took part in was cancelled"
                      : host->result.code ? host->result.msg
                                          : NULL;

    for (uint32_t k = 1; k < w->stage_count; k++) {
        struct lease *l = host->parts[k];

        if (!l)
            continue;
        l->reached_end = host->reached_end;
        l->total_samples = host->total_samples;
        l->given_up |= host->given_up;
        companion_leave(w, l, why);
    }
}

void companions_give_up(struct worker *w, uint32_t stage, const char *why)
{
    struct lease *next;

    w->stages[stage].loaded = false;
    for (struct lease *l = w->leases; l; l = next) {
        next = l->next;
        if (l->msg.companion != stage)
            continue;
        if (l->result.code == 0)
            err_set(&l->result, ERR_CANCELLED, "%s", why);
        lease_drop_shards(w, l, -1, true);
        companion_leave(w, l, NULL);
    }
}
