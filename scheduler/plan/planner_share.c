/* Who gets what next: the rules at the head of planner.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/plan/planner_state.h"

#define AHEAD_S 30.0

static uint32_t worker_wants(const struct worker *w, bool plenty)
{
    uint32_t half = (w->capacity + 1) / 2, most = w->capacity + (plenty ? half : 0);
    double ahead = 1 + w->rate * AHEAD_S;

    return w->rate > 0 && ahead < most - half ? half + (uint32_t)ahead : most;
}

void plan_worker_pace(struct planner *p, uint32_t worker, double mean)
{
    struct worker *w = &p->workers[worker];

    w->pace = w->rate > 0 ? w->rate : mean;
    if (!w->ready)
        return;
    w->wants[0] = worker_wants(w, false);
    w->wants[1] = worker_wants(w, true);
    plan_worker_room(p, worker);
}

/* Sets the pace that each worker is planned with. A worker without a known rate gets the
 * average. */
static void refresh_paces(struct planner *p)
{
    double sum = 0;
    uint32_t n = 0, i;

    if (!p->paces_stale)
        return;
    for (i = 0; i < p->worker_end; i++)
        if (p->workers[i].ready && p->workers[i].rate > 0) {
            sum += p->workers[i].rate;
            n++;
        }
    p->pace = 0;
    p->capacity = 0;
    p->unrated = p->touched = 0;
    for (i = 0; i < p->worker_end; i++) {
        struct worker *w = &p->workers[i];

        plan_worker_pace(p, i, n ? sum / n : 1);
        if (!w->ready)
            continue;
        p->unrated += !(w->rate > 0);
        p->pace += w->pace;
        p->capacity += w->capacity;
    }
    p->paces_stale = false;
    p->level_pool = -1;
}

static void refresh_plenty(struct planner *p)
{
    bool plenty = (double)p->backlog + p->more >= 4 * (double)p->capacity;
    uint32_t i;

    if (plenty == p->plenty)
        return;
    p->plenty = plenty;
    for (i = 0; i < p->worker_end; i++)
        plan_worker_room(p, i);
}

/* ------------------------------------------------------------------------------- the level */

/* Work that nobody has begun, in shards of full length: what can still go to this one or that. */
static double pool_of(const struct planner *p)
{
    return p->backlog_work + p->more + (double)p->spare;
}

/* How many pieces of `unit` the workers can have done `at` seconds from now beside what they cannot
 * give away; no more than `enough` are counted. */
static double pieces_by(const struct planner *p, double at, double unit, double enough)
{
    double n = 0;
    uint32_t i;

    for (i = 0; i < p->worker_end && n < enough; i++) {
        const struct worker *w = &p->workers[i];
        double room = w->pace * at - (w->work - (double)w->spare);

        if (w->ready && !w->alone && room >= unit)
            n += floor(room / unit);
    }
    return n;
}

/* The level: in so many seconds all that is known can be done when every worker gets what it can do
 * until then, whole shards alone; water poured over the work that is fixed to each. Found by
 * halving, to a thousandth; and again only when the work has changed by more than that, so that a
 * long queue costs little. */
static double compute_work_level(struct planner *p)
{
    double pool = pool_of(p), pieces = (double)p->backlog + p->more + (double)p->spare, unit, low,
           high = 0;
    uint32_t i;

    if (p->level_pool >= 0 && fabs(pool - p->level_pool) * 1000 <= pool &&
        fabs(p->work - p->level_work) * 1000 <= p->work)
        return p->level;
    if (pieces < 1)
        return 0;
    unit = pool / pieces;
    low = pool / p->pace;
    for (i = 0; i < p->worker_end; i++) { /* one alone could do it */
        const struct worker *w = &p->workers[i];
        double at = (pool + unit + w->work) / w->pace;

        if (w->ready && !w->alone && (high == 0 || at < high))
            high = at;
    }
    while (high - low > high / 1000) {
        double mid = (low + high) / 2;

        if (pieces_by(p, mid * (1 + 1e-9), unit, pieces) >= pieces)
            high = mid;
        else
            low = mid;
    }
    p->level = high;
    p->level_pool = pool;
    p->level_work = p->work;
    return high;
}

/* When the worker would have done this beside what it holds. */
static double done_at(const struct worker *w, double work) { return (w->work + work) / w->pace; }

static void refresh_spare(struct planner *p)
{
    for (uint32_t i = 0; i < p->worker_end; i++)
        if (p->workers[i].spare_stale)
            plan_worker_spare(p, i);
}

/* May the worker take so much? Not when all could be over before it had done it: then it is left to
 * a faster one, even if that is busy now and this one idle. */
static bool worth_it(struct planner *p, const struct worker *w, double work)
{
    double at = done_at(w, work);
    uint32_t i;

    if (at * p->pace <= p->backlog_work + p->more)
        return true;
    refresh_spare(p);
    if (at * p->pace <= pool_of(p) || at <= compute_work_level(p) * 1.001)
        return true;
    for (i = 0; i < p->worker_end; i++) {
        const struct worker *o = &p->workers[i];

        if (o->ready && !o->alone && done_at(o, work) < at)
            return false;
    }
    return true; /* nobody would be sooner */
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
    l = plan_lease_new(p);
    if (!l)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    l->id = p->next_lease;
    if (idmap_put(&p->leases, l->id, l)) {
        plan_lease_free(p, l);
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
    l->sibling = t->first;
    t->first = l;
    plan_lease_update(p, l);
    *ret = l;
    return 0;
}

static void say_lease(struct planner *p, const struct lease *l, struct planner_step *ret)
{
    const struct task *t = l->task;
    uint32_t i, n = 0;

    for (i = l->first; i < t->done_end && i <= l->last; i++)
        if (bit_get(&t->done, i))
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

    while (bit_get(&t->done, first))
        first++;
    if (t->total) {
        last = t->total - 1;
        while (last > first && bit_get(&t->done, last))
            last--;
        /* The one that has the last shard also confirms the end (and may hash the whole). */
        if (last == t->total - 1 && last + 1 < t->end)
            last = UINT32_MAX;
    }
    rc = lease_add(p, worker, t, first, last, t->suspect, &l, err);
    if (l)
        say_lease(p, l, ret);
    return rc;
}

/* Is `a` to be tried before `b` there? */
static bool suspect_sooner(const struct task *a, const struct task *b, uint32_t worker)
{
    bool again = a->died_once && a->died_on == worker;

    if (again != (b->died_once && b->died_on == worker))
        return !again;
    if (a->suspect != b->suspect)
        return a->suspect < b->suspect;
    return a->id < b->id;
}

static struct task *first_suspect(struct planner *p, uint32_t worker)
{
    struct task *best = NULL;
    size_t i;

    for (i = 0; i < p->suspect_len; i++) {
        struct task *t = plan_task_get(p, p->suspects[i]);

        if (t && t->queued && (!best || suspect_sooner(t, best, worker)))
            best = t;
    }
    return best;
}

/* The lease to split for a hungry worker: of those with shards to spare, the one whose owner has
 * most time to go; none when the thief would not have done its part sooner than the owner. It takes
 * what it can do until the level, so that all end together. */
static struct lease *split_victim(struct planner *p, uint32_t thief, uint32_t *take)
{
    const struct worker *w = &p->workers[thief];
    struct lease *victim = NULL;
    double longest = done_at(w, 1), room;
    uint32_t i;
    size_t k;

    refresh_spare(p);
    if (p->spare == 0 || !worth_it(p, w, 1))
        return NULL;
    for (i = 0; i < p->worker_end; i++) {
        const struct worker *o = &p->workers[i];

        if (i == thief || !o->ready || o->spare == 0 || done_at(o, 0) <= longest)
            continue;
        longest = done_at(o, 0);
        victim = NULL;
        for (k = 0; k < o->lease_count; k++)
            if (o->leases[k]->spare && (!victim || o->leases[k]->spare > victim->spare))
                victim = o->leases[k];
    }
    if (!victim)
        return NULL;
    room = compute_work_level(p) * 1.001 * w->pace - w->work;
    *take = room < 1 ? 1 : room > victim->spare ? victim->spare : (uint32_t)room;
    return victim;
}

static int split_lease(struct planner *p, uint32_t thief, struct planner_step *ret, struct err *err)
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

static int assign_work(struct planner *p, uint32_t worker, struct planner_step *ret,
                       struct err *err)
{
    struct task *t = plan_first_due(p);

    if (!t && p->workers[worker].lease_count == 0)
        t = first_suspect(p, worker);
    /* Only the first shard of a long task counts. The rest can be given to others as soon as the
     * length is known, and most containers tell it when they are opened. */
    if (t && !t->suspect && !worth_it(p, &p->workers[worker], t->work > 1 ? 1 : t->work)) {
        *ret = (struct planner_step){.kind = PLANNER_NOTHING};
        return 0;
    }
    if (t) {
        int rc = lease_whole(p, worker, t, ret, err);

        if (rc == 0 && t->suspect)
            plan_suspect_drop(p, t->id);
        return rc;
    }
    return split_lease(p, worker, ret, err);
}

/* Finds the worker with the least to do among those that may be given more and were not tried
 * yet. */
static uint32_t find_least_loaded(const struct planner *p, const bool *tried)
{
    uint32_t best = UINT32_MAX, i;
    double fill = 0;

    for (i = 0; i < p->worker_end; i++) {
        double f;

        if (p->room[i] == 0 || tried[i])
            continue;
        f = (double)p->workers[i].load / p->workers[i].capacity;
        if (best == UINT32_MAX || f < fill) {
            best = i;
            fill = f;
        }
    }
    return best;
}

int planner_next(struct planner *p, struct planner_step *ret, struct err *err)
{
    bool tried[PLANNER_MAX_WORKERS];
    uint32_t worker;

    if (p->follow) {
        if (plan_room((void **)&p->skip, &p->skip_cap, (size_t)p->follow->task->done_end + 1,
                      sizeof(*p->skip)))
            return err_set(err, ERR_NOMEM, "no memory for the plan");
        say_lease(p, p->follow, ret);
        p->follow = NULL;
        return 0;
    }
    refresh_paces(p);
    refresh_plenty(p);
    *ret = (struct planner_step){.kind = PLANNER_NOTHING};
    if (p->hungry == 0)
        return 0;
    if (p->queued == 0)
        refresh_spare(p);
    if (p->queued == 0 && p->spare == 0)
        return 0;
    memset(tried, 0, p->worker_end);
    while ((worker = find_least_loaded(p, tried)) != UINT32_MAX) {
        int rc = assign_work(p, worker, ret, err);

        if (rc || ret->kind != PLANNER_NOTHING)
            return rc;
        tried[worker] = true;
    }
    return 0;
}

bool planner_cap_now(struct planner *p, uint64_t lease, struct planner_step *ret)
{
    struct lease *l = idmap_get(&p->leases, lease);
    uint32_t cut;

    if (!l || p->follow == l)
        return false;
    cut = plan_lease_untouched(p, l) - 1;
    if (cut < l->first || cut >= l->last)
        return false;
    l->last = cut;
    plan_lease_update(p, l);
    *ret = (struct planner_step){
        .kind = PLANNER_CAP, .worker = l->worker, .lease = l->id, .task = l->task->id, .last = cut};
    return true;
}
