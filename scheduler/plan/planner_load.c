/* How much is left of tasks and leases, and what each worker is loaded with. */
#include <math.h>

#include "scheduler/plan/planner_state.h"

/* A recording whose length nobody knows is taken for as long as others of its size, and before any
 * is known for one of 128 kbit/s. Only for load. */
#define GUESS_BYTES_PER_SECOND 16000u

/* ------------------------------------------------------------------------------ estimates */

static uint64_t task_ms(const struct planner *p, const struct task *t)
{
    double bytes_per_ms = GUESS_BYTES_PER_SECOND / 1000.0, ms;

    if (t->duration_ms >= 0)
        return (uint64_t)t->duration_ms;
    if (p->known_ms && p->known_bytes)
        bytes_per_ms = (double)p->known_bytes / (double)p->known_ms;
    ms = (double)t->size_bytes / bytes_per_ms;
    return ms < 1e15 ? (uint64_t)ms : (uint64_t)1e15;
}

/* How many shards the task has, as far as anybody can tell: at least one past those done. */
uint32_t plan_task_shards(const struct planner *p, const struct task *t)
{
    uint64_t n, ms;

    if (t->total)
        return t->total;
    ms = task_ms(p, t);
    n = ms / p->shard_ms + (ms % p->shard_ms != 0);
    if (n <= t->done_end)
        n = (uint64_t)t->done_end + 1;
    return n > PLANNER_MAX_SHARDS ? PLANNER_MAX_SHARDS : (uint32_t)n;
}

int planner_task_percent(const struct planner *p, int64_t task)
{
    const struct task *t = plan_task_get(p, task);
    uint32_t all = t ? plan_task_shards(p, t) : 0;

    if (all < 2)
        return -1;
    return (int)(100 * (uint64_t)(t->done_count < all ? t->done_count : all - 1) / all);
}

bool plan_length_known(const struct task *t) { return t->total || t->duration_ms >= 0; }

/* All shards are of full length but a recording's last. */
double plan_task_work(const struct planner *p, const struct task *t, uint32_t shards)
{
    uint64_t ms = task_ms(p, t), n = plan_task_shards(p, t);
    double last = 1;

    if (shards && ms && ms > (n - 1) * p->shard_ms && ms < n * p->shard_ms)
        last = (double)(ms - (n - 1) * p->shard_ms) / p->shard_ms;
    return shards ? shards - 1 + last : 0;
}

void plan_learn_length(struct planner *p, const struct task *t)
{
    if (t->duration_ms <= 0 || t->size_bytes == 0)
        return;
    p->known_ms += (uint64_t)t->duration_ms;
    p->known_bytes += t->size_bytes;
}

/* The last shard that the lease is thought to reach. */
uint32_t plan_lease_reach(const struct planner *p, const struct lease *l)
{
    uint32_t n = plan_task_shards(p, l->task) - 1;

    return l->last < n ? l->last : n;
}

/* It takes shards in order, and has at most so many in hand at once. Shards that it has begun could
 * be taken from it too, but the work done on them would be lost. */
uint32_t plan_lease_untouched(const struct planner *p, const struct lease *l)
{
    uint32_t begun = l->lowest + p->workers[l->worker].flying;

    if (begun <= l->first)
        begun = l->first + 1; /* a lease is never taken away whole */
    return begun > l->highest ? begun : l->highest;
}

void plan_worker_room(struct planner *p, uint32_t worker)
{
    const struct worker *w = &p->workers[worker];
    uint32_t wants = w->wants[p->plenty], room = 0;

    if (w->ready && !w->alone && w->load < wants)
        room = wants - (uint32_t)w->load;
    p->hungry += (room > 0) - (uint32_t)(p->room[worker] > 0);
    p->room[worker] = room;
}

static void lease_update_spare(struct planner *p, struct lease *l)
{
    struct worker *w = &p->workers[l->worker];
    uint32_t reach, from, spare = 0;

    if (!l->alone && !l->task->suspect && plan_length_known(l->task)) {
        reach = plan_lease_reach(p, l);
        from = plan_lease_untouched(p, l);
        spare = reach >= from ? reach - from + 1 : 0;
        if (spare > l->rest)
            spare = l->rest;
    }
    w->spare += spare - (uint64_t)l->spare;
    p->spare += spare - (uint64_t)l->spare;
    l->spare = spare;
}

/* The rest is an estimate for the load alone; walking the bits from `lowest` keeps it cheap. */
void plan_lease_update(struct planner *p, struct lease *l)
{
    struct worker *w = &p->workers[l->worker];
    uint32_t reach = plan_lease_reach(p, l), rest = 0, left = 0, i;
    double work;

    while (l->lowest <= l->last && l->lowest < PLANNER_MAX_SHARDS &&
           (bit_get(&l->finished, l->lowest - l->first) || bit_get(&l->task->done, l->lowest)))
        l->lowest++;
    /* A guess is enough for a recording that claims years. */
    if (reach >= l->lowest && reach - l->lowest > 4096)
        rest = reach - l->lowest;
    for (i = l->lowest; rest == 0 && i <= reach; i++)
        left += !bit_get(&l->finished, i - l->first) && !bit_get(&l->task->done, i);
    rest = rest ? rest : left ? left : !l->task->total;
    w->load += rest - (uint64_t)l->rest;
    l->rest = rest;
    work = l->last >= reach && reach + 1 == plan_task_shards(p, l->task)
               ? plan_task_work(p, l->task, rest)
               : rest;
    w->work += work - l->work;
    p->work += work - l->work;
    l->work = work;
    lease_update_spare(p, l);
    plan_worker_room(p, l->worker);
}

void plan_task_update(struct planner *p, const struct task *t)
{
    struct lease *l;

    for (l = t->first; l; l = l->sibling)
        plan_lease_update(p, l);
}

/* -------------------------------------------------------------------------------- workers */

void planner_worker_ready(struct planner *p, uint32_t worker, uint32_t capacity)
{
    struct worker *w;

    if (worker >= PLANNER_MAX_WORKERS)
        return;
    if (worker >= p->worker_end)
        p->worker_end = worker + 1;
    w = &p->workers[worker];
    w->ready = true;
    w->capacity = capacity == 0                     ? 1
                  : capacity > PLANNER_MAX_CAPACITY ? PLANNER_MAX_CAPACITY
                                                    : capacity;
    w->flying = w->capacity;
    p->paces_stale = true;
}

void planner_worker_busy(struct planner *p, uint32_t worker, uint32_t shards)
{
    struct worker *w;

    if (worker >= p->worker_end)
        return;
    w = &p->workers[worker];
    if (shards > w->capacity)
        shards = w->capacity;
    if (shards == w->flying)
        return;
    w->flying = shards;
    w->spare_stale = true;
}

void plan_worker_spare(struct planner *p, uint32_t worker)
{
    struct worker *w = &p->workers[worker];

    w->spare_stale = false;
    for (size_t i = 0; i < w->lease_count; i++)
        lease_update_spare(p, w->leases[i]);
}

void planner_more(struct planner *p, double shards) { p->more = shards > 0 ? shards : 0; }

/* A single rate is a matter of this worker alone, when none is reckoned with the others' mean; all
 * are summed up now and then for the roundings' sake. */
static void take_rate(struct planner *p, uint32_t worker, double rate)
{
    struct worker *w = &p->workers[worker];
    double before = w->pace;

    if (!w->ready || w->rate <= 0 || rate <= 0 || p->unrated || p->paces_stale ||
        ++p->touched > 100000) {
        w->rate = rate;
        p->paces_stale = true;
        return;
    }
    w->rate = rate;
    plan_worker_pace(p, worker, 0);
    p->pace += w->pace - before;
    p->level_pool = -1;
}

void planner_worker_rate(struct planner *p, uint32_t worker, double rate)
{
    if (worker >= PLANNER_MAX_WORKERS || !(rate >= 0) || isinf(rate))
        return;
    if (worker >= p->worker_end)
        p->worker_end = worker + 1;
    take_rate(p, worker, rate);
}

void planner_worker_capacity(struct planner *p, uint32_t worker, uint32_t capacity)
{
    if (worker >= p->worker_end || capacity == 0)
        return;
    p->workers[worker].capacity = capacity < PLANNER_MAX_CAPACITY ? capacity : PLANNER_MAX_CAPACITY;
    p->paces_stale = true;
}

void planner_worker_gone(struct planner *p, uint32_t worker)
{
    if (worker >= p->worker_end)
        return;
    p->workers[worker].ready = false;
    plan_worker_room(p, worker);
    p->paces_stale = true;
}

size_t planner_worker_leases(const struct planner *p, uint32_t worker, uint64_t *ids, size_t max)
{
    size_t i;

    if (worker >= p->worker_end)
        return 0;
    for (i = 0; i < p->workers[worker].lease_count && i < max; i++)
        ids[i] = p->workers[worker].leases[i]->id;
    return p->workers[worker].lease_count;
}
