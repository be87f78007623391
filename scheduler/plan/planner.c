#include <stdlib.h>
#include <string.h>

#include "scheduler/plan/planner_state.h"

#define SLAB 256 /* structs made at once */

/* ---------------------------------------------------------------------------- bits and tables */

static int bit_set(struct bits *b, uint32_t i)
{
    if (b->count == 0 && i < 64) {
        b->words = &b->few;
        b->count = 1;
    }
    if (i / 64 >= b->count) {
        uint32_t n = i / 64 + 1 + b->count / 2;
        uint64_t *p = realloc(b->words == &b->few ? NULL : b->words, n * sizeof(*p));

        if (!p)
            return ERR_NOMEM;
        if (b->words == &b->few)
            p[0] = b->few;
        memset(p + b->count, 0, (n - b->count) * sizeof(*p));
        b->words = p;
        b->count = n;
    }
    b->words[i / 64] |= UINT64_C(1) << (i % 64);
    return 0;
}

static void bits_free(struct bits *b)
{
    if (b->words != &b->few)
        free(b->words);
}

int plan_room(void **list, size_t *capacity, size_t want, size_t size)
{
    size_t n = *capacity ? *capacity : 16;
    void *p;

    if (want <= *capacity)
        return 0;
    while (n < want)
        n *= 2;
    p = realloc(*list, n * size);
    if (!p)
        return ERR_NOMEM;
    *list = p;
    *capacity = n;
    return 0;
}

/* ------------------------------------------------------------------------------ structs */

/* n structs of `size` behind a slab's head; NULL when out of memory. */
static char *slab_new(struct planner *p, size_t n, size_t size)
{
    struct slab *s = malloc(sizeof(*s) + n * size);

    if (!s)
        return NULL;
    s->next = p->slabs;
    p->slabs = s;
    return (char *)(s + 1);
}

static struct task *task_new(struct planner *p)
{
    struct task *t = p->free_tasks;

    if (!t) {
        struct task *more = (struct task *)slab_new(p, SLAB, sizeof(*more));

        for (size_t i = SLAB; more && i-- > 0;) {
            more[i].next_free = t;
            t = &more[i];
        }
    }
    if (!t)
        return NULL;
    p->free_tasks = t->next_free;
    memset(t, 0, sizeof(*t));
    return t;
}

static void task_free(struct planner *p, struct task *t)
{
    bits_free(&t->done);
    t->next_free = p->free_tasks;
    p->free_tasks = t;
}

struct lease *plan_lease_new(struct planner *p)
{
    struct lease *l = p->free_leases;

    if (!l) {
        struct lease *more = (struct lease *)slab_new(p, SLAB, sizeof(*more));

        for (size_t i = SLAB; more && i-- > 0;) {
            more[i].sibling = l;
            l = &more[i];
        }
    }
    if (!l)
        return NULL;
    p->free_leases = l->sibling;
    memset(l, 0, sizeof(*l));
    return l;
}

void plan_lease_free(struct planner *p, struct lease *l)
{
    bits_free(&l->finished);
    l->sibling = p->free_leases;
    p->free_leases = l;
}

/* -------------------------------------------------------------------------------- the queue */

/* Ids are below 2^48. */
static int64_t turn_of(const struct task *t)
{
    return t->id - (int64_t)t->priority * (INT64_C(1) << 48);
}

static void heap_push(struct planner *p, struct due d) /* there is room */
{
    size_t i = p->heap_len++;

    while (i && p->heap[(i - 1) / 2].position > d.position) {
        p->heap[i] = p->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    p->heap[i] = d;
}

static void heap_pop(struct planner *p)
{
    struct due d = p->heap[--p->heap_len];
    size_t i = 0;

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= p->heap_len)
            break;
        if (c + 1 < p->heap_len && p->heap[c + 1].position < p->heap[c].position)
            c++;
        if (p->heap[c].position >= d.position)
            break;
        p->heap[i] = p->heap[c];
        i = c;
    }
    p->heap[i] = d;
}

/* Both have capacity. Entries that belong before the last one of the run go to the heap. */
static void due_push(struct planner *p, struct task *t)
{
    struct due d = {turn_of(t), t};

    t->entries++;
    if (p->run_at == p->run_len)
        p->run_at = p->run_len = 0;
    if (p->run_len == 0 || p->run[p->run_len - 1].position <= d.position)
        p->run[p->run_len++] = d;
    else
        heap_push(p, d);
}

static void due_pop(struct planner *p, bool of_run)
{
    struct task *t = of_run ? p->run[p->run_at].task : p->heap[0].task;

    if (of_run)
        p->run_at++;
    else
        heap_pop(p);
    if (--t->entries == 0 && t->gone)
        task_free(p, t);
}

struct task *plan_first_due(struct planner *p)
{
    while (p->run_at < p->run_len || p->heap_len) {
        bool of_run = p->run_at < p->run_len &&
                      (p->heap_len == 0 || p->run[p->run_at].position <= p->heap[0].position);
        struct task *t = of_run ? p->run[p->run_at].task : p->heap[0].task;

        if (!t->gone && t->queued && !t->suspect)
            return t;
        due_pop(p, of_run);
    }
    return NULL;
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

void planner_free(struct planner *p)
{
    size_t at = 0;
    struct task *t;
    struct lease *l;
    uint32_t i;

    if (!p)
        return;
    while ((t = idmap_next(&p->tasks, &at)))
        bits_free(&t->done);
    at = 0;
    while ((l = idmap_next(&p->leases, &at)))
        bits_free(&l->finished);
    for (at = p->run_at; at < p->run_len; at++) /* removed, but still with an entry */
        if (p->run[at].task->gone && p->run[at].task->entries-- == 1)
            bits_free(&p->run[at].task->done);
    for (at = 0; at < p->heap_len; at++)
        if (p->heap[at].task->gone && p->heap[at].task->entries-- == 1)
            bits_free(&p->heap[at].task->done);
    for (i = 0; i < p->worker_end; i++)
        free(p->workers[i].leases);
    while (p->slabs) {
        struct slab *next = p->slabs->next;

        free(p->slabs);
        p->slabs = next;
    }
    idmap_free(&p->tasks);
    idmap_free(&p->leases);
    free(p->run);
    free(p->heap);
    free(p->suspects);
    free(p->skip);
    free(p);
}

/* ---------------------------------------------------------------------------------- tasks */

static bool task_complete(const struct task *t) { return t->total && t->done_count >= t->total; }

struct task *plan_task_get(const struct planner *p, int64_t id)
{
    return idmap_get(&p->tasks, (uint64_t)id);
}

static void queue_in(struct planner *p, struct task *t) /* there is room in both lists */
{
    if (t->suspect)
        p->suspects[p->suspect_len++] = t->id;
    else
        due_push(p, t);
    t->guess = plan_task_shards(p, t) - t->done_count;
    if (t->guess > PLANNER_MAX_SHARDS)
        t->guess = 1;
    t->work = plan_task_work(p, t, t->guess);
    t->queued = true;
    p->queued++;
    p->backlog += t->guess;
    p->backlog_work += t->work;
}

void plan_queue_out(struct planner *p, struct task *t)
{
    if (!t->queued)
        return;
    t->queued = false;
    p->queued--;
    p->backlog -= t->guess;
    p->backlog_work = p->queued ? p->backlog_work - t->work : 0; /* no rounding stays behind */
}

static int queue_room(struct planner *p, struct err *err)
{
    if (plan_room((void **)&p->run, &p->run_cap, p->run_len + 1, sizeof(*p->run)) ||
        plan_room((void **)&p->heap, &p->heap_cap, p->heap_len + 1, sizeof(*p->heap)) ||
        plan_room((void **)&p->suspects, &p->suspect_cap, p->suspect_len + 1, sizeof(*p->suspects)))
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    return 0;
}

static int mark_done(struct task *t, uint32_t seq)
{
    if (bit_get(&t->done, seq))
        return 0;
    if (bit_set(&t->done, seq))
        return ERR_NOMEM;
    t->done_count++;
    if (seq >= t->done_end)
        t->done_end = seq + 1;
    return 0;
}

int planner_task_add(struct planner *p, const struct planner_task *in, struct err *err)
{
    struct task *t;
    uint32_t i;
    int rc;

    if (plan_task_get(p, in->id))
        return 0;
    if (in->shards_total > PLANNER_MAX_SHARDS)
        return err_set(err, ERR_INPUT, "a recording of %u shards is more than can be planned",
                       in->shards_total);
    rc = queue_room(p, err);
    if (rc)
        return rc;
    t = task_new(p);
    if (!t)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    t->id = in->id;
    t->duration_ms = in->duration_ms;
    t->size_bytes = in->size_bytes;
    t->end = in->end ? in->end : UINT32_MAX;
    t->shared = in->first > 0 || t->end < UINT32_MAX;
    t->total = in->shards_total;
    if (t->end < UINT32_MAX && (t->total == 0 || t->total > t->end))
        t->total = t->end;
    t->suspect = in->suspect;
    t->priority = in->priority;
    if (in->first >= t->end || in->first >= PLANNER_MAX_SHARDS ||
        (t->end > PLANNER_MAX_SHARDS && t->end < UINT32_MAX)) {
        rc = err_set(err, ERR_INPUT, "a share from shard %u to before %u makes no sense", in->first,
                     in->end);
        goto out;
    }
    for (i = 0; i < in->first; i++)
        if (mark_done(t, i)) {
            rc = err_set(err, ERR_NOMEM, "no memory for the plan");
            goto out;
        }
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
    plan_learn_length(p, t);
    queue_in(p, t);
    return 0;
out:
    task_free(p, t);
    return rc;
}

bool planner_task_known(const struct planner *p, int64_t task) { return plan_task_get(p, task); }

void planner_task_duration(struct planner *p, int64_t task, int64_t duration_ms)
{
    struct task *t = plan_task_get(p, task);

    if (!t || duration_ms < 0)
        return;
    if (t->duration_ms < 0) {
        t->duration_ms = duration_ms;
        plan_learn_length(p, t);
    }
    t->duration_ms = duration_ms;
    if (t->leases)
        plan_task_update(p, t);
}

int planner_task_total(struct planner *p, int64_t task, uint32_t shards, uint32_t *ret,
                       struct err *err)
{
    struct task *t = plan_task_get(p, task);

    if (shards == 0 || shards > PLANNER_MAX_SHARDS)
        return err_set(err, ERR_PROTOCOL, "a recording of %u shards", shards);
    if (t) {
        uint32_t total = shards > t->done_end ? shards : t->done_end;

        t->total = total < t->end ? total : t->end;
        if (!t->shared) /* else those done may be none of the recording's */
            shards = total;
        plan_task_update(p, t);
    }
    *ret = shards;
    return 0;
}

bool planner_task_complete(const struct planner *p, int64_t task)
{
    const struct task *t = plan_task_get(p, task);

    return t && task_complete(t);
}

void planner_task_suspect(struct planner *p, int64_t task, uint32_t worker)
{
    struct task *t = plan_task_get(p, task);

    if (!t)
        return;
    if (t->suspect == 0)
        t->suspect = 1;
    t->died_once = true;
    t->died_on = worker;
    plan_task_update(p, t); /* nothing of its other parts may be given away any more */
}

bool planner_task_is_suspect(const struct planner *p, int64_t task)
{
    const struct task *t = plan_task_get(p, task);

    return t && t->suspect;
}

int planner_task_requeue(struct planner *p, int64_t task, struct err *err)
{
    struct task *t = plan_task_get(p, task);

    if (!t || t->queued || t->leases)
        return 0;
    if (queue_room(p, err))
        return err->code;
    queue_in(p, t);
    return 0;
}

void plan_suspect_drop(struct planner *p, int64_t id)
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
    struct task *t = plan_task_get(p, task);

    if (!t || t->leases)
        return;
    if (t->queued && t->suspect)
        plan_suspect_drop(p, t->id);
    plan_queue_out(p, t);
    idmap_remove(&p->tasks, (uint64_t)task);
    t->gone = true;
    if (t->entries == 0)
        task_free(p, t);
}

void planner_forget_queued(struct planner *p)
{
    struct task *due;

    while ((due = plan_first_due(p)))
        planner_task_remove(p, due->id);
    while (p->suspect_len) {
        struct task *t = plan_task_get(p, p->suspects[p->suspect_len - 1]);

        if (t && t->queued)
            planner_task_remove(p, t->id); /* takes its entry */
        else
            p->suspect_len--;
    }
}

size_t planner_queued(const struct planner *p) { return p->queued; }
size_t planner_suspects(const struct planner *p) { return p->suspect_len; }
size_t planner_leased(const struct planner *p) { return p->leases.count; }

/* --------------------------------------------------------------------------------- results */

int planner_shard(struct planner *p, uint64_t lease, uint32_t seq, bool done, struct err *err)
{
    struct lease *l = idmap_get(&p->leases, lease);
    bool old;

    if (!l)
        return err_set(err, ERR_EMPTY, "lease %llu is over", (unsigned long long)lease);
    if (seq < l->first || seq > l->granted_last || seq >= PLANNER_MAX_SHARDS)
        return err_set(err, ERR_PROTOCOL, "shard %u is not one of lease %llu", seq,
                       (unsigned long long)lease);
    if (bit_get(&l->finished, seq - l->first))
        return 1;
    old = bit_get(&l->task->done, seq);
    if (bit_set(&l->finished, seq - l->first) || (done && mark_done(l->task, seq)))
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    if (seq >= l->highest)
        l->highest = seq + 1;
    l->progress |= done;
    if (l->task->leases > 1)
        plan_task_update(p, l->task);
    else
        plan_lease_update(p, l);
    return old;
}

static void lease_drop(struct planner *p, struct lease *l)
{
    struct worker *w = &p->workers[l->worker];
    struct lease **at = &l->task->first;
    size_t i;

    while (*at != l)
        at = &(*at)->sibling;
    *at = l->sibling;
    for (i = 0; i < w->lease_count; i++)
        if (w->leases[i] == l) {
            w->leases[i] = w->leases[--w->lease_count];
            break;
        }
    w->load -= l->rest;
    w->spare -= l->spare;
    p->spare -= l->spare;
    p->work = p->leases.count > 1 ? p->work - l->work : 0;
    w->work = w->lease_count ? w->work - l->work : 0; /* no rounding stays behind */
    if (l->alone)
        w->alone = false;
    plan_worker_room(p, l->worker);
    if (p->follow == l)
        p->follow = NULL;
    l->task->leases--;
    idmap_remove(&p->leases, l->id);
    plan_lease_free(p, l);
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
        if (!bit_get(&l->finished, i - l->first) && !bit_get(&t->done, i))
            return false;
    return true;
}

int planner_lease_end(struct planner *p, uint64_t lease, bool reached_end, uint32_t shards,
                      struct planner_ended *ret, struct err *err)
{
    struct lease *l = idmap_get(&p->leases, lease);
    struct task *t;
    int rc;

    if (!l)
        return err_set(err, ERR_EMPTY, "lease %llu is over", (unsigned long long)lease);
    t = l->task;
    rc = reached_end ? planner_task_total(p, t->id, shards, &shards, err) : 0;
    if (rc)
        return rc;
    *ret = (struct planner_ended){
        .task = t->id,
        .worker = l->worker,
        .unreported = !lease_reported(l),
        .progress = l->progress,
        .alone = l->alone,
        .idle = t->leases == 1,
    };
    ret->complete = ret->idle && task_complete(t);
    lease_drop(p, l);
    return 0;
}
