#include "scheduler/planner.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/idmap.h"

/* Bytes a second of a recording whose length nobody knows: about 128 kbit/s. Only for load. */
#define GUESS_BYTES_PER_SECOND 16000u

struct task {
    int64_t id;
    int64_t duration_ms;
    uint64_t size_bytes;
    uint32_t total;                /* shards; 0 unknown */
    uint64_t *done;                /* bits; owned */
    uint32_t words;                /* of done */
    uint32_t done_count, done_end; /* done_end: highest done + 1 */
    uint32_t leases;
    uint32_t guess; /* shards that are thought to be left; what `backlog` counts it as */
    bool queued, suspect, died_once;
    uint32_t died_on;
};

struct lease {
    uint64_t id;
    struct task *task;
    uint32_t worker;
    uint32_t first, last;
    uint32_t granted_last; /* before caps: a worker past its cap may still report */
    uint64_t *settled;     /* bits from `first`; owned */
    uint32_t settled_words;
    uint32_t lowest;  /* first shard that is neither settled nor done */
    uint32_t highest; /* highest settled + 1; 0 none */
    uint32_t rest;    /* shards that are thought to be left; at least 1 */
    bool alone, progress;
};

struct worker {
    bool ready, alone;
    uint32_t capacity;
    double rate;
    uint64_t load; /* sum of its leases' rest */
    struct lease **leases;
    size_t lease_count, lease_cap;
};

struct planner {
    uint32_t shard_ms;
    struct idmap tasks, leases;
    /* Ids in the order in which they are due: a binary heap. Entries of tasks that are no longer
     * queued are dropped when they come up. */
    int64_t *heap;
    size_t heap_len, heap_cap;
    int64_t *suspects; /* ids, unordered; few */
    size_t suspect_len, suspect_cap;
    size_t queued;
    uint64_t backlog; /* shards thought to be in queued tasks */
    struct worker workers[PLANNER_MAX_WORKERS];
    uint32_t worker_end; /* one past the highest worker seen */
    uint64_t next_lease;
    uint32_t *skip;
    size_t skip_cap;
    struct lease *follow; /* leased by a split whose CAP was the last step: said next */
};

/* ---------------------------------------------------------------------------- bits and tables */

static bool bit_get(const uint64_t *bits, uint32_t words, uint32_t i)
{
    return i / 64 < words && (bits[i / 64] >> (i % 64) & 1);
}

static int bit_set(uint64_t **bits, uint32_t *words, uint32_t i)
{
    if (i / 64 >= *words) {
        uint32_t n = i / 64 + 1 + *words / 2;
        uint64_t *p = realloc(*bits, n * sizeof(*p));

        if (!p)
            return ERR_NOMEM;
        memset(p + *words, 0, (n - *words) * sizeof(*p));
        *bits = p;
        *words = n;
    }
    (*bits)[i / 64] |= UINT64_C(1) << (i % 64);
    return 0;
}

static int room(void **list, size_t *cap, size_t want, size_t size)
{
    size_t n = *cap ? *cap : 16;
    void *p;

    if (want <= *cap)
        return 0;
    while (n < want)
        n *= 2;
    p = realloc(*list, n * size);
    if (!p)
        return ERR_NOMEM;
    *list = p;
    *cap = n;
    return 0;
}

static void heap_push(struct planner *p, int64_t id) /* there is room */
{
    size_t i = p->heap_len++;

    while (i && p->heap[(i - 1) / 2] > id) {
        p->heap[i] = p->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    p->heap[i] = id;
}

static void heap_pop(struct planner *p)
{
    int64_t id = p->heap[--p->heap_len];
    size_t i = 0;

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= p->heap_len)
            break;
        if (c + 1 < p->heap_len && p->heap[c + 1] < p->heap[c])
            c++;
        if (p->heap[c] >= id)
            break;
        p->heap[i] = p->heap[c];
        i = c;
    }
    p->heap[i] = id;
}

struct planner *planner_new(uint32_t shard_ms)
{
    struct planner *p = calloc(1, sizeof(*p));

    if (p) {
        p->shard_ms = shard_ms ? shard_ms : 1;
        p->next_lease = 1;
    }
    return p;
}

static void task_free(struct task *t)
{
    if (t)
        free(t->done);
    free(t);
}

static void lease_free(struct lease *l)
{
    if (l)
        free(l->settled);
    free(l);
}

void planner_free(struct planner *p)
{
    size_t at = 0;
    void *v;
    uint32_t i;

    if (!p)
        return;
    while ((v = idmap_next(&p->tasks, &at)))
        task_free(v);
    at = 0;
    while ((v = idmap_next(&p->leases, &at)))
        lease_free(v);
    for (i = 0; i < p->worker_end; i++)
        free(p->workers[i].leases);
    idmap_free(&p->tasks);
    idmap_free(&p->leases);
    free(p->heap);
    free(p->suspects);
    free(p->skip);
    free(p);
}

/* ------------------------------------------------------------------------------ estimates */

/* How many shards the task has, as far as anybody can tell: at least one past those done. */
static uint32_t task_shards(const struct planner *p, const struct task *t)
{
    uint64_t n, ms;

    if (t->total)
        return t->total;
    ms = t->duration_ms >= 0 ? (uint64_t)t->duration_ms
                             : t->size_bytes / GUESS_BYTES_PER_SECOND * 1000;
    n = ms / p->shard_ms + (ms % p->shard_ms != 0);
    if (n <= t->done_end)
        n = (uint64_t)t->done_end + 1;
    return n > PLANNER_MAX_SHARDS ? PLANNER_MAX_SHARDS : (uint32_t)n;
}

static bool length_known(const struct task *t) { return t->total || t->duration_ms >= 0; }

/* The last shard that the lease is thought to reach. */
static uint32_t lease_reach(const struct planner *p, const struct lease *l)
{
    uint32_t n = task_shards(p, l->task) - 1;

    return l->last < n ? l->last : n;
}

/* The rest is an estimate for the load alone; walking the bits from `lowest` keeps it cheap. */
static void lease_update(struct planner *p, struct lease *l)
{
    struct worker *w = &p->workers[l->worker];
    uint32_t reach = lease_reach(p, l), rest = 0, left = 0, i;

    while (l->lowest <= l->last && l->lowest < PLANNER_MAX_SHARDS &&
           (bit_get(l->settled, l->settled_words, l->lowest - l->first) ||
            bit_get(l->task->done, l->task->words, l->lowest)))
        l->lowest++;
    /* Of a recording that claims years, a guess is enough. */
    if (reach >= l->lowest && reach - l->lowest > 4096)
        rest = reach - l->lowest;
    for (i = l->lowest; rest == 0 && i <= reach; i++)
        left += !bit_get(l->settled, l->settled_words, i - l->first) &&
                !bit_get(l->task->done, l->task->words, i);
    rest = rest ? rest : left ? left : 1;
    w->load += rest - (uint64_t)l->rest;
    l->rest = rest;
}

static void task_update_leases(struct planner *p, const struct task *t)
{
    uint32_t i;
    size_t k;

    for (i = 0; i < p->worker_end; i++)
        for (k = 0; k < p->workers[i].lease_count; k++)
            if (p->workers[i].leases[k]->task == t)
                lease_update(p, p->workers[i].leases[k]);
}

/* ---------------------------------------------------------------------------------- tasks */

static struct task *task_get(const struct planner *p, int64_t id)
{
    return idmap_get(&p->tasks, (uint64_t)id);
}

static void queue_in(struct planner *p, struct task *t) /* there is room in both lists */
{
    if (t->suspect)
        p->suspects[p->suspect_len++] = t->id;
    else
        heap_push(p, t->id);
    t->guess = task_shards(p, t) - t->done_count;
    if (t->guess > PLANNER_MAX_SHARDS)
        t->guess = 1;
    t->queued = true;
    p->queued++;
    p->backlog += t->guess;
}

static void queue_out(struct planner *p, struct task *t)
{
    if (!t->queued)
        return;
    t->queued = false;
    p->queued--;
    p->backlog -= t->guess;
}

static int queue_room(struct planner *p, struct err *err)
{
    if (room((void **)&p->heap, &p->heap_cap, p->heap_len + 1, sizeof(*p->heap)) ||
        room((void **)&p->suspects, &p->suspect_cap, p->suspect_len + 1, sizeof(*p->suspects)))
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    return 0;
}

static int mark_done(struct task *t, uint32_t seq)
{
    if (bit_get(t->done, t->words, seq))
        return 0;
    if (bit_set(&t->done, &t->words, seq))
        return ERR_NOMEM;
    t->done_count++;
    if (seq >= t->done_end)
        t->done_end = seq + 1;
    return 0;
}

static bool task_complete(const struct task *t) { return t->total && t->done_count >= t->total; }

int planner_task_add(struct planner *p, const struct planner_task *in, struct err *err)
{
    struct task *t;
    uint32_t i;
    int rc;

    if (task_get(p, in->id))
        return 0;
    if (in->shards_total > PLANNER_MAX_SHARDS)
        return err_set(err, ERR_INPUT, "a recording of %u shards is more than can be planned",
                       in->shards_total);
    rc = queue_room(p, err);
    if (rc)
        return rc;
    t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    t->id = in->id;
    t->duration_ms = in->duration_ms;
    t->size_bytes = in->size_bytes;
    t->total = in->shards_total;
    t->suspect = in->suspect;
    for (i = 0; i < in->done_count; i++) {
        if (in->done[i] >= PLANNER_MAX_SHARDS) {
            rc = err_set(err, ERR_INPUT, "shard %u is more than can be planned", in->done[i]);
            goto out;
        }
        if (mark_done(t, in->done[i])) {
            rc = err_set(err, ERR_NOMEM, "no memory for the plan");
            goto out;
        }
    }
    if (t->total && t->total < t->done_end)
        t->total = t->done_end;
    if (task_complete(t)) {
        rc = 1;
        goto out;
    }
    if (idmap_put(&p->tasks, (uint64_t)t->id, t)) {
        rc = err_set(err, ERR_NOMEM, "no memory for the plan");
        goto out;
    }
    queue_in(p, t);
    return 0;
out:
    task_free(t);
    return rc;
}

bool planner_task_known(const struct planner *p, int64_t task) { return task_get(p, task); }

void planner_task_duration(struct planner *p, int64_t task, int64_t duration_ms)
{
    struct task *t = task_get(p, task);

    if (!t || duration_ms < 0)
        return;
    t->duration_ms = duration_ms;
    if (t->leases)
        task_update_leases(p, t);
}

void planner_task_suspect(struct planner *p, int64_t task, uint32_t worker)
{
    struct task *t = task_get(p, task);

    if (!t)
        return;
    t->suspect = true;
    t->died_once = true;
    t->died_on = worker;
}

bool planner_task_is_suspect(const struct planner *p, int64_t task)
{
    const struct task *t = task_get(p, task);

    return t && t->suspect;
}

int planner_task_requeue(struct planner *p, int64_t task, struct err *err)
{
    struct task *t = task_get(p, task);

    if (!t || t->queued || t->leases)
        return 0;
    if (queue_room(p, err))
        return err->code;
    queue_in(p, t);
    return 0;
}

static void suspect_drop(struct planner *p, int64_t id)
{
    size_t i;

    for (i = 0; i < p->suspect_len; i++)
        if (p->suspects[i] == id) {
            p->suspects[i] = p->suspects[--p->suspect_len];
            return;
        }
}

void planner_task_remove(struct planner *p, int64_t task)
{
    struct task *t = task_get(p, task);

    if (!t || t->leases)
        return;
    if (t->queued && t->suspect)
        suspect_drop(p, t->id);
    queue_out(p, t);
    idmap_remove(&p->tasks, (uint64_t)task);
    task_free(t);
}

void planner_forget_queued(struct planner *p)
{
    while (p->heap_len) {
        struct task *t = task_get(p, p->heap[0]);

        if (t && t->queued && !t->suspect)
            planner_task_remove(p, t->id);
        heap_pop(p);
    }
    while (p->suspect_len) {
        struct task *t = task_get(p, p->suspects[p->suspect_len - 1]);

        if (t && t->queued)
            planner_task_remove(p, t->id); /* takes its entry */
        else
            p->suspect_len--;
    }
}

size_t planner_queued(const struct planner *p) { return p->queued; }
size_t planner_leased(const struct planner *p) { return p->leases.count; }

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
    w->capacity = capacity ? capacity : 1;
}

void planner_worker_rate(struct planner *p, uint32_t worker, double rate)
{
    if (worker < p->worker_end && rate >= 0)
        p->workers[worker].rate = rate;
}

void planner_worker_gone(struct planner *p, uint32_t worker)
{
    if (worker < p->worker_end)
        p->workers[worker].ready = false;
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

    if (room((void **)&w->leases, &w->lease_cap, w->lease_count + 1, sizeof(struct lease *)) ||
        room((void **)&p->skip, &p->skip_cap, (size_t)t->done_end + 1, sizeof(*p->skip)))
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    l->id = p->next_lease;
    if (idmap_put(&p->leases, l->id, l)) {
        lease_free(l);
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
    queue_out(p, t);
    t->leases++;
    lease_update(p, l);
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
    struct lease *l;
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
    if (rc == 0)
        say_lease(p, l, ret);
    return rc;
}

static struct task *first_queued(struct planner *p)
{
    while (p->heap_len) {
        struct task *t = task_get(p, p->heap[0]);

        if (t && t->queued && !t->suspect)
            return t;
        heap_pop(p);
    }
    return NULL;
}

static struct task *first_suspect(struct planner *p, uint32_t worker, bool even_again)
{
    struct task *best = NULL;
    size_t i;

    for (i = 0; i < p->suspect_len; i++) {
        struct task *t = task_get(p, p->suspects[i]);

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

    if (l->alone || l->task->suspect || !length_known(l->task))
        return 0;
    reach = lease_reach(p, l);
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
    struct lease *victim = split_victim(p, thief, &take), *l;
    int rc;

    if (!victim) {
        *ret = (struct planner_step){.kind = PLANNER_NOTHING};
        return 0;
    }
    cut = lease_reach(p, victim) - take;
    rc = lease_add(p, thief, victim->task, cut + 1, victim->last, false, &l, err);
    if (rc)
        return rc;
    victim->last = cut;
    lease_update(p, victim);
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
            suspect_drop(p, t->id);
        return rc;
    }
    return split(p, worker, ret, err);
}

int planner_next(struct planner *p, struct planner_step *ret, struct err *err)
{
    bool tried[PLANNER_MAX_WORKERS] = {false};
    bool plenty = is_plenty(p);

    if (p->follow) {
        if (room((void **)&p->skip, &p->skip_cap, (size_t)p->follow->task->done_end + 1,
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
    lease_update(p, l);
    *ret = (struct planner_step){
        .kind = PLANNER_CAP, .worker = l->worker, .lease = l->id, .task = l->task->id, .last = cut};
    return true;
}

/* --------------------------------------------------------------------------------- results */

int planner_shard(struct planner *p, uint64_t lease, uint32_t seq, bool done, struct err *err)
{
    struct lease *l = idmap_get(&p->leases, lease);

    if (!l)
        return err_set(err, ERR_EMPTY, "lease %llu is over", (unsigned long long)lease);
    if (seq < l->first || seq > l->granted_last || seq >= PLANNER_MAX_SHARDS)
        return err_set(err, ERR_PROTOCOL, "shard %u is not one of lease %llu", seq,
                       (unsigned long long)lease);
    if (bit_get(l->settled, l->settled_words, seq - l->first))
        return 1;
    if (bit_set(&l->settled, &l->settled_words, seq - l->first) ||
        (done && mark_done(l->task, seq)))
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    if (seq >= l->highest)
        l->highest = seq + 1;
    l->progress |= done;
    if (l->task->leases > 1)
        task_update_leases(p, l->task);
    else
        lease_update(p, l);
    return 0;
}

static void lease_drop(struct planner *p, struct lease *l)
{
    struct worker *w = &p->workers[l->worker];
    size_t i;

    for (i = 0; i < w->lease_count; i++)
        if (w->leases[i] == l) {
            w->leases[i] = w->leases[--w->lease_count];
            break;
        }
    w->load -= l->rest;
    if (l->alone)
        w->alone = false;
    if (p->follow == l)
        p->follow = NULL;
    l->task->leases--;
    idmap_remove(&p->leases, l->id);
    lease_free(l);
}

/* Did every shard that the lease still stood for get a word? */
static bool lease_reported(const struct lease *l)
{
    const struct task *t = l->task;
    uint32_t last = l->last, i;

    if (last == UINT32_MAX) {
        if (!t->total)
            return false;
        last = t->total - 1;
    } else if (t->total && last >= t->total) {
        last = t->total - 1;
    }
    for (i = l->lowest; i <= last; i++)
        if (!bit_get(l->settled, l->settled_words, i - l->first) && !bit_get(t->done, t->words, i))
            return false;
    return true;
}

int planner_lease_end(struct planner *p, uint64_t lease, bool reached_end, uint32_t shards,
                      struct planner_ended *ret, struct err *err)
{
    struct lease *l = idmap_get(&p->leases, lease);
    struct task *t;

    if (!l)
        return err_set(err, ERR_EMPTY, "lease %llu is over", (unsigned long long)lease);
    t = l->task;
    if (reached_end && (shards == 0 || shards > PLANNER_MAX_SHARDS))
        return err_set(err, ERR_PROTOCOL, "a recording of %u shards", shards);
    if (reached_end)
        t->total = shards > t->done_end ? shards : t->done_end;
    *ret = (struct planner_ended){
        .task = t->id,
        .worker = l->worker,
        .unreported = !lease_reported(l),
        .progress = l->progress,
        .alone = l->alone,
        .idle = t->leases == 1,
        .total = t->total,
    };
    ret->complete = ret->idle && task_complete(t);
    lease_drop(p, l);
    if (reached_end && t->leases)
        task_update_leases(p, t);
    return 0;
}

bool planner_lease_find(const struct planner *p, uint64_t lease, int64_t *task, uint32_t *worker)
{
    const struct lease *l = idmap_get(&p->leases, lease);

    if (!l)
        return false;
    *task = l->task->id;
    *worker = l->worker;
    return true;
}
