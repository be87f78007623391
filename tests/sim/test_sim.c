/* The planner with simulated workers in virtual time: unequal speeds, deaths, poison recordings,
 * decoders that somebody kills.
 * What the run does with the policies (scheduler/dispatch.c, supervisor.c) is done here in short.
 */
#include "tests/common/test.h"

#include "base/err.h"
#include "scheduler/plan/planner.h"
#include "scheduler/plan/retry.h"
#include "tests/common/random.h"

#define SHARD_MS 300000
#define MAX_HELD 64

struct rng {
    uint64_t s;
};

static uint32_t below(struct rng *r, uint32_t n) { return (uint32_t)(random_next(&r->s) % n); }

struct sim_task {
    uint32_t shards;
    bool known;   /* its duration is known beforehand */
    int64_t lies; /* and is wrong by so many shards */
    bool poison;  /* whoever begins its shard `at` dies */
    bool hangs;   /*   or hangs, which takes a minute to be seen */
    uint32_t at;
    uint8_t *done;                 /* how often each shard was accepted */
    uint32_t deaths, deaths_alone; /* as in struct retry_failure */
    uint32_t died_alone;           /* all told, without a result */
    bool own;                      /* one of them was */
    double ended_at;
    int64_t wait_until; /* -1: in the planner */
    bool complete, failed;
};

struct sim_lease {
    uint64_t id;
    int64_t task;
    uint32_t next, last;
    uint32_t *skip;
    uint32_t skip_count;
};

struct sim_worker {
    double speed; /* shards per second */
    uint32_t capacity;
    bool up, aside;
    double event_at; /* what happens next: a shard done, a start, a death */
    enum { EV_NONE, EV_START, EV_SHARD, EV_KILL, EV_DEATH } event;
    struct sim_lease held[MAX_HELD];
    uint32_t held_count;
    uint32_t current; /* index in held */
    struct restart restart;
    double mtbf; /* of its own deaths; 0: never */
    double dies_at;
    double decoder_mtbf; /* of the decoder that it reads from */
    double killed_at;
};

struct sim {
    struct planner *p;
    struct sim_task *tasks;
    uint32_t task_count, open;
    struct sim_worker *workers;
    uint32_t worker_count;
    double now;
    struct rng rng;
    uint64_t accepted, deaths, kills, leases, caps;
    uint32_t acquitted;
    uint32_t next_waiting; /* how many tasks wait for a retry */
};

static void release(struct sim_lease *l) { free(l->skip); }

static void drop(struct sim_worker *w, uint32_t i)
{
    release(&w->held[i]);
    memmove(&w->held[i], &w->held[i + 1], (w->held_count - i - 1) * sizeof(w->held[0]));
    w->held_count--;
}

static void decide(struct sim *s, const struct planner_ended *e, bool died)
{
    int64_t id = e->task;
    struct sim_task *t = &s->tasks[id];
    struct retry_rule rule = {.limit = 3, .base_ms = 5000};
    struct retry_failure f = {
        .code = ERR_CRASH,
        .message = "x",
        .died = died,
        .alone = e->alone,
        .progress = e->progress,
        .deaths = t->deaths,
        .deaths_alone = t->deaths_alone,
        .acquitted = s->acquitted,
    };
    struct retry_decision d;
    struct err err;

    retry_decide(&rule, &f, (int64_t)(s->now * 1000), (uint64_t)id, &d);
    t->deaths = d.deaths;
    t->deaths_alone = d.deaths_alone;
    t->own |= d.own;
    t->died_alone += e->alone && !e->progress;
    switch (d.verdict) {
    case RETRY_SUSPECT:
        if (d.at_ms == 0) {
            planner_task_suspect(s->p, id, e->worker);
            assert_int_equal(planner_task_requeue(s->p, id, &err), 0);
            break;
        }
        t->wait_until = d.at_ms;
        s->next_waiting++;
        planner_task_remove(s->p, id);
        break;
    case RETRY_FAIL:
        t->failed = true;
        t->ended_at = s->now;
        s->open--;
        planner_task_remove(s->p, id);
        break;
    default:
        fail_msg("verdict %d", d.verdict);
    }
}

static void finalize(struct sim *s, const struct planner_ended *e)
{
    struct err err;

    if (!e->idle)
        return;
    if (e->complete) {
        s->tasks[e->task].complete = true;
        s->acquitted += s->tasks[e->task].own;
        s->tasks[e->task].ended_at = s->now;
        s->open--;
        planner_task_remove(s->p, e->task);
    } else {
        assert_int_equal(planner_task_requeue(s->p, e->task, &err), 0);
    }
}

static void add_task(struct sim *s, int64_t id)
{
    struct sim_task *t = &s->tasks[id];
    uint32_t *done = malloc((t->shards + 1) * sizeof(*done)), n = 0, i;
    struct planner_task in;
    struct err err;

    for (i = 0; i < t->shards; i++)
        if (t->done[i])
            done[n++] = i;
    in = (struct planner_task){
        .id = id,
        .duration_ms = t->known ? ((int64_t)t->shards + t->lies) * SHARD_MS : -1,
        .size_bytes = (uint64_t)t->shards * 4000000,
        .done = done,
        .done_count = n,
        .suspect = t->deaths,
    };
    t->wait_until = -1;
    assert_int_equal(planner_task_add(s->p, &in, &err), 0);
    free(done);
}

static double after(struct sim *s, double mean_s)
{
    return mean_s > 0 ? s->now + mean_s * (0.5 + (double)below(&s->rng, 1000) / 1000) : 0;
}

/* What the worker does next with what it holds. */
static void work(struct sim *s, uint32_t index)
{
    struct sim_worker *w = &s->workers[index];

    if (!w->up || w->event == EV_SHARD || w->event == EV_KILL || w->event == EV_DEATH)
        return;
    while (w->held_count) {
        struct sim_lease *l = &w->held[0];
        struct sim_task *t = &s->tasks[l->task];
        struct planner_ended e;
        struct err err;
        uint32_t i;

        for (i = 0; i < l->skip_count; i++)
            if (l->skip[i] == l->next)
                l->next++;
        if (l->next >= t->shards || l->next > l->last) {
            bool end = l->next >= t->shards;
            uint64_t id = l->id;

            drop(w, 0);
            assert_int_equal(planner_lease_end(s->p, id, end, t->shards, &e, &err), 0);
            assert_false(e.unreported);
            finalize(s, &e);
            continue;
        }
        w->current = 0;
        if (w->dies_at < s->now) /* while it had nothing to do: that hit nobody */
            w->dies_at = after(s, w->mtbf);
        if (w->killed_at < s->now)
            w->killed_at = after(s, w->decoder_mtbf);
        if (t->poison && l->next == t->at) {
            w->event = EV_DEATH;
            w->event_at = s->now + (t->hangs ? 60 : 0.1);
        } else {
            w->event = EV_SHARD;
            w->event_at = s->now + 1 / w->speed;
        }
        if (w->killed_at > 0 && w->killed_at < w->event_at) {
            w->event = EV_KILL;
            w->event_at = w->killed_at > s->now ? w->killed_at : s->now;
        }
        if (w->dies_at > 0 && w->dies_at < w->event_at) {
            w->event = EV_DEATH;
            w->event_at = w->dies_at > s->now ? w->dies_at : s->now;
        }
        return;
    }
    w->event = EV_NONE;
}

static void start_worker(struct sim *s, uint32_t i)
{
    struct sim_worker *w = &s->workers[i];

    w->up = true;
    w->event = EV_NONE;
    w->dies_at = after(s, w->mtbf);
    w->killed_at = after(s, w->decoder_mtbf);
    planner_worker_ready(s->p, i, w->capacity);
    planner_worker_rate(s->p, i, w->speed);
}

static void die(struct sim *s, uint32_t i)
{
    struct sim_worker *w = &s->workers[i];
    uint64_t ids[MAX_HELD];
    size_t n = planner_worker_leases(s->p, i, ids, MAX_HELD), k;
    bool alone = true;
    int64_t wait;

    assert_true(n <= MAX_HELD);
    s->deaths++;
    for (k = 1; k < w->held_count; k++)
        alone &= w->held[k].task == w->held[0].task;
    wait = restart_death(&w->restart,
                         n == 0                                 ? RESTART_OWN
                         : !alone                               ? RESTART_MANY
                         : s->tasks[w->held[0].task].deaths > 1 ? RESTART_KNOWN
                                                                : RESTART_ONE,
                         n ? w->held[0].task : 0, 1000);
    planner_worker_gone(s->p, i);
    for (k = 0; k < n; k++) {
        struct planner_ended e;
        struct err err;

        assert_int_equal(planner_lease_end(s->p, ids[k], false, 0, &e, &err), 0);
        planner_task_suspect(s->p, e.task, i);
        if (e.idle)
            decide(s, &e, true);
    }
    while (w->held_count)
        drop(w, 0);
    w->up = false;
    if (wait < 0) {
        w->aside = true;
        w->event = EV_NONE;
    } else {
        w->event = EV_START;
        w->event_at = s->now + (double)wait / 1000 + 1;
    }
}

/* Somebody kills the decoder that it reads from: the recording ends early, the rest goes on. */
static void kill_decoder(struct sim *s, uint32_t i)
{
    struct sim_worker *w = &s->workers[i];
    struct planner_ended e;
    struct err err;

    s->kills++;
    w->event = EV_NONE;
    w->killed_at = after(s, w->decoder_mtbf);
    assert_int_equal(planner_lease_end(s->p, w->held[w->current].id, false, 0, &e, &err), 0);
    drop(w, w->current);
    if (e.idle)
        decide(s, &e, false);
}

static void shard_done(struct sim *s, uint32_t i)
{
    struct sim_worker *w = &s->workers[i];
    struct sim_lease *l = &w->held[w->current];
    struct sim_task *t = &s->tasks[l->task];
    struct err err;

    assert_int_equal(planner_shard(s->p, l->id, l->next, true, &err), 0);
    assert_int_equal(t->done[l->next], 0); /* nothing twice */
    t->done[l->next]++;
    s->accepted++;
    l->next++;
    restart_result(&w->restart);
    w->event = EV_NONE;
}

static void dispatch(struct sim *s)
{
    for (;;) {
        struct planner_step step;
        struct sim_worker *w;
        struct err err;
        uint32_t i;

        assert_int_equal(planner_next(s->p, &step, &err), 0);
        if (step.kind == PLANNER_NOTHING)
            return;
        w = &s->workers[step.worker];
        assert_true(w->up);
        if (step.kind == PLANNER_CAP) {
            s->caps++;
            for (i = 0; i < w->held_count && w->held[i].id != step.lease; i++)
                ;
            assert_true(i < w->held_count);
            assert_true(step.last >= w->held[i].next || w->held[i].next == step.last + 1);
            w->held[i].last = step.last;
            continue;
        }
        s->leases++;
        assert_true(w->held_count < MAX_HELD);
        /* A suspect shares its worker with nobody. */
        if (step.alone)
            assert_int_equal(w->held_count, 0);
        for (i = 0; i < w->held_count; i++)
            assert_false(s->tasks[w->held[i].task].deaths && w->held[i].task != step.task &&
                         planner_task_is_suspect(s->p, w->held[i].task));
        w->held[w->held_count++] = (struct sim_lease){
            .id = step.lease,
            .task = step.task,
            .next = step.first,
            .last = step.last,
            .skip = memcpy(malloc(step.skip_count * sizeof(uint32_t) + 1),
                           step.skip ? step.skip : (const uint32_t *)"",
                           step.skip_count * sizeof(uint32_t)),
            .skip_count = step.skip_count,
        };
        if (s->tasks[step.task].known)
            planner_task_duration(s->p, step.task,
                                  ((int64_t)s->tasks[step.task].shards + s->tasks[step.task].lies) *
                                      SHARD_MS);
    }
}

static void wake_retries(struct sim *s)
{
    uint32_t i;

    if (s->next_waiting == 0)
        return;
    for (i = 0; i < s->task_count; i++)
        if (s->tasks[i].wait_until >= 0 && !s->tasks[i].failed &&
            (double)s->tasks[i].wait_until <= s->now * 1000) {
            s->next_waiting--;
            add_task(s, i);
        }
}

/* Returns the makespan in seconds. */
static double simulate(struct sim *s)
{
    uint64_t guard = 0;
    uint32_t i;

    s->p = planner_new(SHARD_MS);
    s->open = s->task_count;
    for (i = 0; i < s->task_count; i++) {
        s->tasks[i].done = calloc(s->tasks[i].shards + 1, 1);
        add_task(s, i);
    }
    for (i = 0; i < s->worker_count; i++)
        start_worker(s, i);
    while (s->open) {
        uint32_t best = UINT32_MAX;
        double at = 0;

        assert_true(guard++ < 30000000);
        wake_retries(s);
        dispatch(s);
        for (i = 0; i < s->worker_count; i++)
            work(s, i);
        dispatch(s);
        for (i = 0; i < s->worker_count; i++)
            work(s, i);
        for (i = 0; i < s->worker_count; i++)
            if (s->workers[i].event != EV_NONE &&
                (best == UINT32_MAX || s->workers[i].event_at < at)) {
                best = i;
                at = s->workers[i].event_at;
            }
        if (s->open == 0)
            break;
        if (s->next_waiting)
            for (i = 0; i < s->task_count; i++)
                if (s->tasks[i].wait_until >= 0 && !s->tasks[i].failed &&
                    (best == UINT32_MAX || (double)(s->tasks[i].wait_until + 1) / 1000 < at)) {
                    best = UINT32_MAX - 1;
                    at = (double)(s->tasks[i].wait_until + 1) / 1000; /* rounding */
                }
        if (best == UINT32_MAX)
            fail_msg("stuck at %.1f s: %u tasks open, %zu queued, %zu leased", s->now, s->open,
                     planner_queued(s->p), planner_leased(s->p));
        if (at > s->now)
            s->now = at;
        if (best == UINT32_MAX - 1)
            continue;
        switch (s->workers[best].event) {
        case EV_START:
            start_worker(s, best);
            break;
        case EV_SHARD:
            shard_done(s, best);
            break;
        case EV_KILL:
            kill_decoder(s, best);
            break;
        case EV_DEATH:
            die(s, best);
            break;
        case EV_NONE:
            break;
        }
    }
    return s->now;
}

static double lower_bound(const struct sim *s)
{
    double speed = 0, shards = 0;
    uint32_t i;

    for (i = 0; i < s->worker_count; i++)
        speed += s->workers[i].speed;
    for (i = 0; i < s->task_count; i++)
        shards += s->tasks[i].shards;
    return shards / speed;
}

static void check_all_done(const struct sim *s)
{
    uint32_t i, k;

    for (i = 0; i < s->task_count; i++) {
        const struct sim_task *t = &s->tasks[i];

        assert_true(t->complete != t->failed);
        if (t->complete)
            for (k = 0; k < t->shards; k++)
                assert_int_equal(t->done[k], 1); /* nothing lost */
    }
    assert_int_equal(planner_queued(s->p), 0);
    assert_int_equal(planner_leased(s->p), 0);
}

static void sim_free(struct sim *s)
{
    uint32_t i;

    for (i = 0; i < s->task_count; i++)
        free(s->tasks[i].done);
    for (i = 0; i < s->worker_count; i++)
        while (s->workers[i].held_count)
            drop(&s->workers[i], 0);
    free(s->tasks);
    free(s->workers);
    planner_free(s->p);
}

static void sim_init(struct sim *s, uint64_t seed, uint32_t tasks, uint32_t workers)
{
    uint32_t i;

    memset(s, 0, sizeof(*s));
    s->rng.s = seed;
    s->task_count = tasks;
    s->worker_count = workers;
    s->tasks = calloc(tasks, sizeof(*s->tasks));
    s->workers = calloc(workers, sizeof(*s->workers));
    assert_non_null(s->tasks);
    assert_non_null(s->workers);
    for (i = 0; i < tasks; i++) {
        s->tasks[i].wait_until = -1;
        s->tasks[i].known = true;
        s->tasks[i].shards = 1;
    }
    for (i = 0; i < workers; i++)
        s->workers[i] = (struct sim_worker){.speed = 1, .capacity = 4};
}

TEST(one_long_recording_is_shared)
{
    uint32_t n;

    for (n = 1; n <= 64; n *= 2) {
        struct sim s;
        double span;

        sim_init(&s, n, 1, n);
        s.tasks[0].shards = 2048;
        span = simulate(&s);
        check_all_done(&s);
        /* Within 15 % of all working all the time, and the shards that cannot be given away. */
        if (span > lower_bound(&s) * 1.15 + 8)
            fail_msg("%u workers: %.1f s, at best %.1f s", n, span, lower_bound(&s));
        sim_free(&s);
    }
}

TEST(unequal_workers_end_together)
{
    uint64_t seed;

    for (seed = 1; seed <= 20; seed++) {
        struct sim s;
        double span, slack = 0;
        uint32_t i;

        sim_init(&s, seed, 300, 1 + below(&(struct rng){seed}, 64));
        for (i = 0; i < s.worker_count; i++) {
            s.workers[i].speed = 0.1 + below(&s.rng, 100) / 10.0;
            s.workers[i].capacity = 1 + below(&s.rng, 8);
            /* The last shards that a slow worker took before the queue ran dry. */
            if ((s.workers[i].capacity * 1.5 + 1) / s.workers[i].speed > slack)
                slack = (s.workers[i].capacity * 1.5 + 1) / s.workers[i].speed;
        }
        for (i = 0; i < s.task_count; i++) {
            s.tasks[i].shards = below(&s.rng, 4) ? 1 + below(&s.rng, 3) : 1 + below(&s.rng, 200);
            /* What has no length cannot be shared, so a long one would be as slow as its worker. */
            s.tasks[i].known = s.tasks[i].shards > 3 || below(&s.rng, 10) > 0;
            s.tasks[i].lies = below(&s.rng, 10) ? 0 : (int64_t)below(&s.rng, 3) - 1;
            if (s.tasks[i].lies < 0 && s.tasks[i].shards == 1)
                s.tasks[i].lies = 0;
        }
        span = simulate(&s);
        check_all_done(&s);
        if (span > lower_bound(&s) * 1.1 + slack)
            fail_msg("seed %d, %u workers: %.1f s, at best %.1f s, slack %.1f s", (int)seed,
                     s.worker_count, span, lower_bound(&s), slack);
        sim_free(&s);
    }
}

TEST(poison_is_isolated)
{
    uint64_t seed;

    for (seed = 1; seed <= 30; seed++) {
        struct sim s;
        uint32_t i, poison = 0, failed = 0;

        sim_init(&s, seed, 400, 1 + below(&(struct rng){seed * 7}, 16));
        for (i = 0; i < s.worker_count; i++)
            s.workers[i].speed = 0.5 + below(&s.rng, 40) / 10.0;
        for (i = 0; i < s.task_count; i++) {
            s.tasks[i].shards = below(&s.rng, 5) ? 1 : 1 + below(&s.rng, 60);
            if (below(&s.rng, 40) == 0) {
                s.tasks[i].poison = true;
                s.tasks[i].hangs = below(&s.rng, 2);
                s.tasks[i].at = below(&s.rng, s.tasks[i].shards);
                poison++;
            }
        }
        simulate(&s);
        check_all_done(&s);
        for (i = 0; i < s.task_count; i++) {
            const struct sim_task *t = &s.tasks[i];

            failed += t->failed;
            if (t->poison) {
                assert_true(t->failed);
                assert_int_equal(t->died_alone, 2);
            } else if (t->failed || t->died_alone) {
                fail_msg("seed %d: innocent %u died alone %u times", (int)seed, i, t->died_alone);
            }
        }
        assert_int_equal(failed, poison);
        for (i = 0; i < s.worker_count; i++)
            assert_false(s.workers[i].aside);
        sim_free(&s);
    }
}

/* Workers and decoders that somebody kills all night long, and some recordings that do kill theirs:
 * they alone are quarantined, after all that nobody suspects is done. */
TEST(kills_from_outside_count_against_nobody)
{
    uint64_t kills = 0, deaths = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        double suspected_from = 1e18, others_until = 0;
        struct sim s;

        sim_init(&s, seed, 240, 1 + below(&(struct rng){seed * 5}, 6));
        for (uint32_t i = 0; i < s.task_count; i++) {
            s.tasks[i].shards = below(&s.rng, 3) ? 1 + below(&s.rng, 5) : 1 + below(&s.rng, 200);
            s.tasks[i].poison = i % 80 == 40;
            s.tasks[i].at = below(&s.rng, s.tasks[i].shards);
        }
        for (uint32_t i = 0; i < s.worker_count; i++) {
            s.workers[i].mtbf = 60 + below(&s.rng, 400);
            s.workers[i].decoder_mtbf = 30 + below(&s.rng, 200);
        }
        simulate(&s);
        check_all_done(&s);
        for (uint32_t i = 0; i < s.task_count; i++) {
            const struct sim_task *t = &s.tasks[i];

            if (t->failed != t->poison)
                fail_msg("seed %d: task %u, %s, died alone %u times", (int)seed, i,
                         t->poison ? "poison" : "innocent", t->died_alone);
            if (t->poison && t->ended_at < suspected_from)
                suspected_from = t->ended_at;
            if (!t->deaths && t->ended_at > others_until)
                others_until = t->ended_at;
        }
        if (s.worker_count == 1)
            assert_true(suspected_from > others_until);
        kills += s.kills;
        deaths += s.deaths;
        sim_free(&s);
    }
    print_message("%llu decoders and %llu workers killed\n", (unsigned long long)kills,
                  (unsigned long long)deaths);
    assert_true(kills > 40 * 30 && deaths > 40 * 10);
}

/* A day and a night in which something dies every minute, a worker or a decoder, and in every other
 * one there are recordings that kill theirs. */
TEST(a_day_with_a_death_every_minute)
{
    const double day_s = 86400;

    for (uint64_t seed = 1; seed <= 8; seed++) {
        uint32_t workers = 1 + below(&(struct rng){seed * 11}, 8), failed = 0, poison = 0, n = 0;
        double speed = 0, shards = 0;
        struct sim s;

        sim_init(&s, seed, (uint32_t)(day_s * 0.3 * workers / 6), workers);
        for (uint32_t i = 0; i < workers; i++) {
            s.workers[i].speed = 0.1 + below(&s.rng, 21) / 100.0;
            s.workers[i].capacity = 2 + below(&s.rng, 7);
            /* A worker that dies begins a new wait for its decoder's death, too. */
            s.workers[i].mtbf = 110.0 * workers;
            s.workers[i].decoder_mtbf = 60.0 * workers;
            speed += s.workers[i].speed;
        }
        for (; shards < day_s * speed && n < s.task_count; n++) {
            s.tasks[n].shards = below(&s.rng, 3) ? 1 + below(&s.rng, 5) : 1 + below(&s.rng, 60);
            s.tasks[n].poison = seed % 2 == 0 && n % 500 == 250;
            s.tasks[n].at = below(&s.rng, s.tasks[n].shards);
            poison += s.tasks[n].poison;
            shards += s.tasks[n].shards;
        }
        assert_true(shards >= day_s * speed);
        s.task_count = n;
        simulate(&s);
        check_all_done(&s);
        for (uint32_t i = 0; i < s.task_count; i++) {
            const struct sim_task *t = &s.tasks[i];

            failed += t->failed;
            if (t->failed != t->poison)
                fail_msg("seed %d: task %u, %s, died alone %u times", (int)seed, i,
                         t->poison ? "poison" : "innocent", t->died_alone);
        }
        assert_int_equal(failed, poison);
        for (uint32_t i = 0; i < workers; i++)
            assert_false(s.workers[i].aside);
        print_message("%u workers, %.1f h for %.1f: %llu workers and %llu decoders died\n", workers,
                      s.now / 3600, lower_bound(&s) / 3600, (unsigned long long)s.deaths,
                      (unsigned long long)s.kills);
        assert_true(s.now >= day_s);
        assert_true((double)(s.deaths + s.kills) > s.now / 60);
        if (s.now > lower_bound(&s) * 1.25)
            fail_msg("seed %d: %.0f s, at best %.0f s", (int)seed, s.now, lower_bound(&s));
        sim_free(&s);
    }
}

TEST(workers_that_die_lose_nothing)
{
    uint64_t seed;

    for (seed = 1; seed <= 20; seed++) {
        struct sim s;
        uint32_t i;

        sim_init(&s, seed, 200, 2 + below(&(struct rng){seed * 3}, 20));
        for (i = 0; i < s.task_count; i++)
            s.tasks[i].shards = 1 + below(&s.rng, 40);
        for (i = 0; i < s.worker_count; i++)
            s.workers[i].mtbf = below(&s.rng, 3) ? 50 + below(&s.rng, 300) : 0;
        simulate(&s);
        check_all_done(&s);
        for (i = 0; i < s.task_count; i++)
            if (s.tasks[i].failed)
                fail_msg("seed %d: task %u failed though nothing is wrong with it", (int)seed, i);
        assert_true(s.deaths > 0);
        sim_free(&s);
    }
}

TEST(a_worker_that_always_dies_is_put_aside)
{
    struct sim s;
    uint32_t i;

    sim_init(&s, 5, 300, 3);
    s.workers[1].mtbf = 0.01;
    simulate(&s);
    check_all_done(&s);
    assert_true(s.workers[1].aside);
    for (i = 0; i < s.task_count; i++)
        assert_true(s.tasks[i].complete);
    sim_free(&s);
}

/* A million recordings on 64 devices: the planner itself must not be what takes the time. */
TEST(a_million_recordings)
{
    struct sim s;

    sim_init(&s, 9, 1000000, 64);
    simulate(&s);
    assert_int_equal(s.accepted, 1000000);
    assert_int_equal(s.leases, 1000000);
    sim_free(&s);
}

TEST_MAIN(NULL, NULL)
