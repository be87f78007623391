/* Who gets what next: the rules at the head of planner.h. */
#include <stdlib.h>

#include "scheduler/planner_state.h"

/* A worker whose rate nobody has seen is taken for an average one. */
static double worker_rate(const struct planner *p, uint32_t worker)
{
    double sum = 0;
    uint32_t n = 0, i;

    if (p->workers[worker].rate > 0)
        return p->workers[worker].rate;
    for (i = 0; i < p->worker_end; i++)
        if (p->workers[i].ready && p->workers[i].rate > 0) {
            sum += p->workers[i].rate;
            n++;
        }
    return n ? sum / n : 1.0;
}

static uint64_t worker_wants(const struct planner *p, const struct worker *w, bool plenty)
{
    (void)p;
    return plenty ? w->capacity + (w->capacity + 1) / 2 : w->capacity;
}

static bool is_plenty(const struct planner *p)
{
    uint64_t capacity = 0;
    uint32_t i;

    for (i = 0; i < p->worker_end; i++)
        if (p->workers[i].ready)
            capacity += p->workers[i].capacity;
    return p->backlog >= 4 * capacity;
}

/* --------------------------------------------------------------------------------- leasing */

/* A lease over [first, last] of the task, registered everywhere. */
static int lease_add(struct planner *p, uint32_t worker, struct task *t, uint32_t first,
                     uint32_t last, bool alone, struct lease **ret, struct err *err)
{
    struct worker *w = &p->workers[worker];
    struct lease *l;

    if (plan_room((void **)&w->leases, &w->lease_cap, w->lease_count + 1, sizeof(struct lease *)) ||
        plan_room((void **)&p->skip, &p->skip_cap, (size_t)t->done_end + 1, sizeof(*p->skip)))
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    l->id = p->next_lease;
    if (idmap_put(&p->leases, l->id, l)) {
        plan_lease_free(l);
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    }
    p->next_lease++;
    l->task = t;
    l->worker = worker;
    l->first = l->lowest = first;
    l->last = l->granted_last = last;
    l->alone = alone;
    w->leases[w->lease_count++] = l;
    w->alone = alone;
    plan_queue_out(p, t);
    t->leases++;
    plan_lease_update(p, l);
    *ret = l;
    return 0;
}

static void say_lease(struct planner *p, const struct lease *l, struct planner_step *ret)
{
    const struct task *t = l->task;
    uint32_t i, n = 0;

    for (i = l->first; i < t->done_end && i <= l->last; i++)
        if (bit_get(t->done, t->words, i))
            p->skip[n++] = i;
    *ret = (struct planner_step){
        .kind = PLANNER_LEASE,
        .worker = l->worker,
        .lease = l->id,
        .task = t->id,
        .first = l->first,
        .last = l->last,
        .skip = n ? p->skip : NULL,
        .skip_count = n,
        .alone = l->alone,
    };
}

/* All that is left of a task, in one lease. */
static int lease_whole(struct planner *p, uint32_t worker, struct task *t, struct planner_step *ret,
                       struct err *err)
{
    uint32_t first = 0, last = UINT32_MAX;
    struct lease *l = NULL;
    int rc;

    while (bit_get(t->done, t->words, first))
        first++;
    if (t->total) {
        last = t->total - 1;
        while (last > first && bit_get(t->done, t->words, last))
            last--;
        /* The one that has the last shard also confirms the end (and may hash the whole). */
        if (last == t->total - 1)
            last = UINT32_MAX;
    }
    rc = lease_add(p, worker, t, first, last, t->suspect, &l, err);
    if (l)
        say_lease(p, l, ret);
    return rc;
}

static struct task *first_queued(struct planner *p)
{
    while (p->heap_len) {
        struct task *t = plan_task_get(p, p->heap[0]);

        if (t && t->queued && !t->suspect)
            return t;
        plan_heap_pop(p);
    }
    return NULL;
}

static struct task *first_suspect(struct planner *p, uint32_t worker, bool even_again)
{
    struct task *best = NULL;
    size_t i;

    for (i = 0; i < p->suspect_len; i++) {
        struct task *t = plan_task_get(p, p->suspects[i]);

        if (t && t->queued && (even_again || !t->died_once || t->died_on != worker) &&
            (!best || t->id < best->id))
            best = t;
    }
    return best;
}

/* The first shard that the owner cannot have begun: it works on `capacity` shards at once, and
 * takes them in order. */
static uint32_t lease_untouched(const struct planner *p, const struct lease *l)
{
    uint32_t begun = l->lowest + p->workers[l->worker].capacity;

    return begun > l->highest ? begun : l->highest;
}

/* How many shards of the lease may be taken from its end. */
static uint32_t lease_spare(const struct planner *p, const struct lease *l)
{
    uint32_t reach, from;

    if (l->alone || l->task->suspect || !plan_length_known(l->task))
        return 0;
    reach = plan_lease_reach(p, l);
    from = lease_untouched(p, l);
    return from > l->first && reach >= from ? reach - from + 1 : 0;
}

/* The lease to split for a hungry worker: of those with shards to spare, the one whose owner has
 * most time to go; none when the thief would not have done its part sooner than the owner. */
static struct lease *split_victim(const struct planner *p, uint32_t thief, uint32_t *take)
{
    const struct worker *w = &p->workers[thief];
    double rate = worker_rate(p, thief), hungry = 0, longest = 0;
    struct lease *victim = NULL;
    uint32_t i, spare = 0;
    size_t k;

    for (i = 0; i < p->worker_end; i++) {
        const struct worker *o = &p->workers[i];

        if (o->ready && !o->alone && o->load < o->capacity)
            hungry += worker_rate(p, i);
        if (i == thief || !o->ready || o->load / worker_rate(p, i) <= longest)
            continue;
        for (k = 0; k < o->lease_count; k++) {
            uint32_t s = lease_spare(p, o->leases[k]);

            if (s == 0 || (victim && victim->worker == i && s <= spare))
                continue;
            victim = o->leases[k];
            spare = s;
            longest = o->load / worker_rate(p, i);
        }
    }
    if (!victim)
        return NULL;
    *take = (uint32_t)(p->workers[victim->worker].load * rate /
                       (hungry + worker_rate(p, victim->worker)));
    if (*take > spare)
        *take = spare;
    if (*take == 0)
        *take = 1;
    while (*take && (w->load + *take) / rate > longest)
        --*take;
    return *take ? victim : NULL;
}

static int split(struct planner *p, uint32_t thief, struct planner_step *ret, struct err *err)
{
    uint32_t take, cut;
    struct lease *victim = split_victim(p, thief, &take), *l = NULL;
    int rc;

    if (!victim) {
        *ret = (struct planner_step){.kind = PLANNER_NOTHING};
        return 0;
    }
    cut = plan_lease_reach(p, victim) - take;
    rc = lease_add(p, thief, victim->task, cut + 1, victim->last, false, &l, err);
    if (!l)
        return rc;
    victim->last = cut;
    plan_lease_update(p, victim);
    p->follow = l;
    *ret = (struct planner_step){.kind = PLANNER_CAP,
                                 .worker = victim->worker,
                                 .lease = victim->id,
                                 .task = victim->task->id,
                                 .last = cut};
    return 0;
}

static int feed(struct planner *p, uint32_t worker, struct planner_step *ret, struct err *err)
{
    bool empty = p->workers[worker].lease_count == 0;
    struct task *t = empty ? first_suspect(p, worker, false) : NULL;

    if (!t)
        t = first_queued(p);
    if (!t && empty)
        t = first_suspect(p, worker, true);
    if (t) {
        int rc = lease_whole(p, worker, t, ret, err);

        if (rc == 0 && t->suspect)
            plan_suspect_drop(p, t->id);
        return rc;
    }
    return split(p, worker, ret, err);
}

int planner_next(struct planner *p, struct planner_step *ret, struct err *err)
{
    bool tried[PLANNER_MAX_WORKERS] = {false};
    bool plenty = is_plenty(p);

    if (p->follow) {
        if (plan_room((void **)&p->skip, &p->skip_cap, (size_t)p->follow->task->done_end + 1,
                      sizeof(*p->skip)))
            return err_set(err, ERR_NOMEM, "no memory for the plan");
        say_lease(p, p->follow, ret);
        p->follow = NULL;
        return 0;
    }
    for (;;) {
        uint32_t best = UINT32_MAX, i;
        double fill = 0;
        int rc;

        for (i = 0; i < p->worker_end; i++) {
            const struct worker *w = &p->workers[i];
            double f = (double)w->load / w->capacity;

            if (!w->ready || w->alone || tried[i] || w->load >= worker_wants(p, w, plenty))
                continue;
            if (best == UINT32_MAX || f < fill) {
                best = i;
                fill = f;
            }
        }
        *ret = (struct planner_step){.kind = PLANNER_NOTHING};
        if (best == UINT32_MAX)
            return 0;
        rc = feed(p, best, ret, err);
        if (rc || ret->kind != PLANNER_NOTHING)
            return rc;
        tried[best] = true;
    }
}

bool planner_cap_now(struct planner *p, uint64_t lease, struct planner_step *ret)
{
    struct lease *l = idmap_get(&p->leases, lease);
    uint32_t cut;

    if (!l || p->follow == l)
        return false;
    cut = lease_untouched(p, l) - 1;
    if (cut < l->first || cut >= l->last)
        return false;
    l->last = cut;
    plan_lease_update(p, l);
    *ret = (struct planner_step){
        .kind = PLANNER_CAP, .worker = l->worker, .lease = l->id, .task = l->task->id, .last = cut};
    return true;
}
