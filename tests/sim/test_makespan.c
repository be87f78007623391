/* How near the planner comes to the best that can be: devices of unequal size and speed in virtual
 * time, recordings of the lengths that archives have, a million of them.
 *
 * A device works on up to `slots` shards at once, whose speeds are equal; with few of them it is
 * less than fully used. It holds up to twice as many. What is measured: the work that was done over
 * the work that the devices could have done until the end, and the time spent in the planner. */
#include "tests/common/test.h"

#include <math.h>
#include <time.h>

#include "base/err.h"
#include "scheduler/plan/planner.h"
#include "tests/common/random.h"

#define SHARD_MS 300000
#define BEAT_S 1.0     /* a worker says how busy it is */
#define MEASURED_S 60  /* and from then on how fast */
#define QUEUE_LOW 512u /* as scheduler/backlog.c reads the catalog */
#define QUEUE_HIGH 2048u
/* A million takes seconds; with a sanitizer in the program or without optimisation, minutes. There
 * it is a fiftieth, done in minutes of the devices' time, of which the last shards of each and what
 * was believed of their rates at first are far more than 3 %: it shows that nothing is lost. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MILLION 1000000u
#define SLACK_S 0
#else
#define MILLION 20000u
#define SLACK_S 400
#endif

struct rng {
    uint64_t s;
};

static double uniform(struct rng *r)
{
    return (double)(random_next(&r->s) >> 11) / 9007199254740992.0;
}
static uint32_t below(struct rng *r, uint32_t n) { return (uint32_t)(random_next(&r->s) % n); }

static double normal(struct rng *r)
{
    return sqrt(-2 * log(1 - uniform(r))) * cos(2 * 3.14159265358979 * uniform(r));
}

/* Is its length known? In the catalog; from the container, once it is opened; not before its end.
 */
enum known { KNOWN, TOLD, NEVER };

struct task {
    uint32_t ms, shards;
    size_t done; /* its first entry in world.done */
    uint64_t bytes;
    enum known known;
    bool suspect, complete;
};

struct held {
    uint64_t id;
    int64_t task;
    uint32_t next, last, lanes;
    uint32_t *skip; /* owned */
    uint32_t skip_count;
};

struct lane {
    double ends; /* on the device's own clock, which counts work per lane */
    double size; /* in shards of full length */
    uint64_t lease;
    int64_t task;
    uint32_t seq;
};

struct device {
    double rate; /* shards of full length per second when all slots are in use */
    uint32_t slots;
    double half;           /* slots at which it would have half its rate, were there no limit */
    double believed;       /* what the planner is told of it at first */
    double dies_s, back_s; /* 0: never */

    bool up;
    double clock, at_s; /* its own clock, as of at_s */
    double up_since_s, beat_s;
    double capable;     /* work that it could have done while it was up */
    struct lane *lanes; /* heap by `ends`; slots of them */
    uint32_t lane_count;
    struct held *held;
    size_t held_count, held_cap, cursor;
};

struct world {
    struct rng rng;
    struct planner *p;
    struct task *tasks;
    uint8_t *done;
    uint32_t task_count, open, added;
    bool windowed; /* tasks are queued as a run does it, some at a time */
    struct device *devices;
    uint32_t device_count;
    double now, work, lost, to_add;
    double longest_s; /* the largest piece that cannot be divided, at the fastest device */
    uint64_t groups, timed, timed_ns, leases, caps, deaths;
};

/* ---------------------------------------------------------------------- time in the planner */

/* Longer than this without a break, and the thread was not running: counted as an average group. */
#define PREEMPTED_NS 50000u

static uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t enter(void) { return clock_ns(); }

static void leave(struct world *w, uint64_t from)
{
    uint64_t ns = clock_ns() - from;

    w->groups++;
    if (ns < PREEMPTED_NS) {
        w->timed++;
        w->timed_ns += ns;
    }
}

/* Without what reading the clock itself takes, of which one is inside each group. */
static double planning_s(const struct world *w)
{
    uint64_t from = clock_ns(), i;
    double read_ns;

    for (i = 0; i < 100000; i++)
        (void)clock_ns();
    read_ns = (double)(clock_ns() - from) / 100000;
    return ((double)w->timed_ns / (double)w->timed - read_ns) * (double)w->groups / 1e9;
}

/* ---------------------------------------------------------------------------------- tasks */

static double shard_size(const struct task *t, uint32_t seq)
{
    return seq + 1 < t->shards ? 1 : (t->ms - (double)seq * SHARD_MS) / SHARD_MS;
}

static void add_task(struct world *w, uint32_t i)
{
    const struct task *t = &w->tasks[i];
    struct planner_task in = {
        .id = i, .duration_ms = t->known == KNOWN ? (int64_t)t->ms : -1, .size_bytes = t->bytes};
    struct err err = {0};

    assert_ok(planner_task_add(w->p, &in, &err), err);
}

static void refill(struct world *w)
{
    uint32_t most = w->windowed ? QUEUE_HIGH : UINT32_MAX;
    uint64_t from;

    if (w->added == w->task_count || (w->windowed && planner_queued(w->p) >= QUEUE_LOW))
        return;
    from = enter();
    while (w->added < w->task_count && planner_queued(w->p) < most) {
        w->to_add -= (double)w->tasks[w->added].ms / SHARD_MS;
        add_task(w, w->added++);
    }
    planner_more(w->p, w->to_add * 1.2); /* nobody knows it so well */
    leave(w, from);
}

static void finalize(struct world *w, const struct planner_ended *e)
{
    struct err err = {0};

    if (!e->idle)
        return;
    if (e->complete) {
        w->tasks[e->task].complete = true;
        w->open--;
        planner_task_remove(w->p, e->task);
    } else {
        assert_ok(planner_task_requeue(w->p, e->task, &err), err);
    }
}

/* -------------------------------------------------------------------------------- devices */

static double rate_with(const struct device *d, uint32_t lanes)
{
    return lanes == 0 ? 0 : d->rate * lanes / (lanes + d->half) * (d->slots + d->half) / d->slots;
}

static void advance(struct device *d, double now)
{
    if (d->lane_count)
        d->clock += rate_with(d, d->lane_count) / d->lane_count * (now - d->at_s);
    d->at_s = now;
}

static double next_end(const struct device *d)
{
    return d->at_s + (d->lanes[0].ends - d->clock) * d->lane_count / rate_with(d, d->lane_count);
}

static void sift_down(struct device *d, uint32_t i)
{
    struct lane l = d->lanes[i];

    for (;;) {
        uint32_t c = 2 * i + 1;

        if (c >= d->lane_count)
            break;
        if (c + 1 < d->lane_count && d->lanes[c + 1].ends < d->lanes[c].ends)
            c++;
        if (d->lanes[c].ends >= l.ends)
            break;
        d->lanes[i] = d->lanes[c];
        i = c;
    }
    d->lanes[i] = l;
}

static void lane_push(struct device *d, struct lane l)
{
    uint32_t i = d->lane_count++;

    while (i && d->lanes[(i - 1) / 2].ends > l.ends) {
        d->lanes[i] = d->lanes[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    d->lanes[i] = l;
}

static void lane_pop(struct device *d)
{
    d->lanes[0] = d->lanes[--d->lane_count];
    if (d->lane_count)
        sift_down(d, 0);
}

static size_t find_held(const struct device *d, uint64_t lease)
{
    size_t i;

    for (i = 0; i < d->held_count && d->held[i].id != lease; i++)
        ;
    return i;
}

static bool has_more(const struct world *w, struct held *h)
{
    uint32_t i;

    for (i = 0; i < h->skip_count; i++)
        if (h->skip[i] == h->next)
            h->next++;
    return h->next <= h->last && h->next < w->tasks[h->task].shards;
}

static void end_lease(struct world *w, struct device *d, size_t at)
{
    struct held h = d->held[at];
    const struct task *t = &w->tasks[h.task];
    struct planner_ended e;
    struct err err = {0};
    uint64_t from;

    d->held_count--;
    memmove(&d->held[at], &d->held[at + 1], (d->held_count - at) * sizeof(h));
    if (d->cursor > at)
        d->cursor--;
    free(h.skip);
    from = enter();
    assert_ok(planner_lease_end(w->p, h.id, h.last >= t->shards - 1, t->shards, &e, &err), err);
    finalize(w, &e);
    leave(w, from);
    assert_false(e.unreported);
}

/* Fills the slots; leases with nothing left in them end. */
static void work(struct world *w, struct device *d)
{
    size_t i;

    while (d->cursor < d->held_count && d->lane_count < d->slots) {
        struct held *h = &d->held[d->cursor];
        const struct task *t = &w->tasks[h->task];
        double size;

        if (!has_more(w, h)) {
            d->cursor++;
            continue;
        }
        size = shard_size(t, h->next);
        lane_push(d, (struct lane){d->clock + size, size, h->id, h->task, h->next++});
        h->lanes++;
    }
    for (i = 0; i < d->cursor && i < d->held_count;)
        if (d->held[i].lanes == 0 && !has_more(w, &d->held[i]))
            end_lease(w, d, i);
        else
            i++;
}

static void on_lane(struct world *w, struct device *d)
{
    struct lane l = d->lanes[0];
    size_t at = find_held(d, l.lease);
    struct err err = {0};
    uint64_t from;

    assert_true(at < d->held_count);
    from = enter();
    assert_int_equal(planner_shard(w->p, l.lease, l.seq, true, &err), 0);
    leave(w, from);
    assert_int_equal(w->done[w->tasks[l.task].done + l.seq]++, 0); /* nothing twice */
    d->held[at].lanes--;
    lane_pop(d);
}

static void beat(struct world *w, uint32_t i)
{
    struct device *d = &w->devices[i];
    uint64_t from;

    if (w->now - d->beat_s < BEAT_S)
        return;
    d->beat_s = w->now;
    from = enter();
    planner_worker_busy(w->p, i, d->lane_count);
    if (w->now - d->up_since_s > MEASURED_S)
        planner_worker_rate(w->p, i, d->rate * (0.98 + 0.04 * uniform(&w->rng)));
    leave(w, from);
}

static void start(struct world *w, uint32_t i)
{
    struct device *d = &w->devices[i];

    d->up = true;
    d->at_s = d->up_since_s = d->beat_s = w->now;
    d->lane_count = 0;
    planner_worker_rate(w->p, i, d->believed);
    planner_worker_ready(w->p, i, 2 * d->slots);
    planner_worker_busy(w->p, i, 0);
}

/* It takes what it holds with it; which runs alone from then on, as dispatch.c has it. */
static void die(struct world *w, uint32_t i)
{
    struct device *d = &w->devices[i];
    struct planner_ended e;
    struct err err = {0};
    uint32_t k;

    w->deaths++;
    d->up = false;
    d->capable += (w->now - d->up_since_s) * d->rate;
    for (k = 0; k < d->lane_count; k++)
        w->lost += d->lanes[k].size - (d->lanes[k].ends - d->clock);
    d->lane_count = 0;
    planner_worker_gone(w->p, i);
    while (d->held_count) {
        struct held h = d->held[--d->held_count];

        free(h.skip);
        assert_ok(planner_lease_end(w->p, h.id, false, 0, &e, &err), err);
        planner_task_suspect(w->p, e.task, i);
        finalize(w, &e);
    }
    d->cursor = 0;
}

/* What it has begun of a lease past its cap is dropped, as workers/pass/lease.c does it. */
static void cap(struct world *w, struct device *d, const struct planner_step *s)
{
    size_t at = find_held(d, s->lease);
    uint32_t i, n = 0;

    assert_true(at < d->held_count);
    w->caps++;
    d->held[at].last = s->last;
    for (i = 0; i < d->lane_count; i++) {
        const struct lane *l = &d->lanes[i];

        if (l->lease == s->lease && l->seq > s->last) {
            w->lost += l->size - (l->ends - d->clock);
            d->held[at].lanes--;
        } else {
            d->lanes[n++] = *l;
        }
    }
    if (n == d->lane_count)
        return;
    d->lane_count = n;
    for (i = n / 2; i-- > 0;)
        sift_down(d, i);
}

static void lease(struct world *w, struct device *d, const struct planner_step *s)
{
    struct held h = {.id = s->lease, .task = s->task, .next = s->first, .last = s->last};

    w->leases++;
    if (s->skip_count) {
        h.skip = malloc(s->skip_count * sizeof(*h.skip));
        assert_non_null(h.skip);
        memcpy(h.skip, s->skip, s->skip_count * sizeof(*h.skip));
        h.skip_count = s->skip_count;
    }
    if (d->held_count == d->held_cap) {
        d->held_cap = d->held_cap ? 2 * d->held_cap : 64;
        d->held = realloc(d->held, d->held_cap * sizeof(*d->held));
        assert_non_null(d->held);
    }
    d->held[d->held_count++] = h;
    if (w->tasks[s->task].known == TOLD)
        planner_task_duration(w->p, s->task, w->tasks[s->task].ms);
}

static void dispatch(struct world *w)
{
    struct planner_step s;
    struct err err = {0};
    uint64_t from;
    uint32_t i;

    refill(w);
    for (;;) {
        struct device *d;

        from = enter();
        assert_ok(planner_next(w->p, &s, &err), err);
        leave(w, from);
        if (s.kind == PLANNER_NOTHING)
            break;
        d = &w->devices[s.worker];
        assert_true(d->up);
        advance(d, w->now);
        if (s.kind == PLANNER_CAP)
            cap(w, d, &s);
        else
            lease(w, d, &s);
        refill(w);
    }
    for (i = 0; i < w->device_count; i++)
        if (w->devices[i].up && w->devices[i].lane_count < w->devices[i].slots &&
            w->devices[i].held_count) {
            advance(&w->devices[i], w->now);
            work(w, &w->devices[i]);
        }
}

/* --------------------------------------------------------------------------------- the run */

static void turn(struct world *w)
{
    uint32_t i, who = UINT32_MAX;
    double at = INFINITY;
    enum { LANE, DEATH, BACK } what = LANE;

    for (i = 0; i < w->device_count; i++) {
        const struct device *d = &w->devices[i];

        if (d->up && d->lane_count && next_end(d) < at) {
            at = next_end(d);
            who = i;
            what = LANE;
        }
        if (d->up && d->dies_s > 0 && d->dies_s < at) {
            at = d->dies_s;
            who = i;
            what = DEATH;
        }
        if (!d->up && d->back_s > 0 && d->back_s < at) {
            at = d->back_s;
            who = i;
            what = BACK;
        }
    }
    if (who == UINT32_MAX)
        fail_msg("stuck at %.1f s: %u open, %zu queued, %zu leased", w->now, w->open,
                 planner_queued(w->p), planner_leased(w->p));
    w->now = at > w->now ? at : w->now;
    advance(&w->devices[who], w->now);
    if (what == LANE) {
        on_lane(w, &w->devices[who]);
        work(w, &w->devices[who]);
        beat(w, who);
    } else if (what == DEATH) {
        w->devices[who].dies_s = 0;
        die(w, who);
    } else {
        w->devices[who].back_s = 0;
        start(w, who);
    }
}

static void simulate(struct world *w)
{
    uint32_t i;

    w->p = planner_new(SHARD_MS);
    assert_non_null(w->p);
    w->open = w->task_count;
    for (i = 0; i < w->device_count; i++)
        start(w, i);
    for (;;) {
        dispatch(w);
        if (w->open == 0)
            break;
        turn(w);
    }
    for (i = 0; i < w->device_count; i++)
        if (w->devices[i].up)
            w->devices[i].capable += (w->now - w->devices[i].up_since_s) * w->devices[i].rate;
    assert_int_equal(planner_queued(w->p), 0);
    assert_int_equal(planner_leased(w->p), 0);
}

/* The least time in which it can be done at all, with devices that do not die. */
static double bound_s(const struct world *w)
{
    double rate = 0;
    uint32_t i;

    for (i = 0; i < w->device_count; i++)
        rate += w->devices[i].rate;
    return w->work / rate > w->longest_s ? w->work / rate : w->longest_s;
}

static void world_init(struct world *w, uint64_t seed, uint32_t tasks, uint32_t devices)
{
    memset(w, 0, sizeof(*w));
    w->rng.s = seed;
    w->task_count = tasks;
    w->device_count = devices;
    w->tasks = calloc(tasks, sizeof(*w->tasks));
    w->devices = calloc(devices, sizeof(*w->devices));
    assert_non_null(w->tasks);
    assert_non_null(w->devices);
}

static void set_device(struct world *w, uint32_t i, double rate, uint32_t slots, double half)
{
    struct device *d = &w->devices[i];

    *d = (struct device){.rate = rate, .slots = slots, .half = half, .believed = rate};
    d->lanes = calloc(slots + 1, sizeof(*d->lanes));
    assert_non_null(d->lanes);
}

static void set_task(struct world *w, uint32_t i, uint32_t ms, enum known known)
{
    w->tasks[i] = (struct task){.ms = ms,
                                .shards = (ms + SHARD_MS - 1) / SHARD_MS,
                                .bytes = (uint64_t)ms * 16,
                                .known = known};
}

static void world_ready(struct world *w)
{
    double fastest = 0;
    size_t n = 0;
    uint32_t i;

    for (i = 0; i < w->device_count; i++)
        if (w->devices[i].rate > fastest)
            fastest = w->devices[i].rate;
    for (i = 0; i < w->task_count; i++) {
        struct task *t = &w->tasks[i];

        t->done = n;
        n += t->shards;
        w->work += (double)t->ms / SHARD_MS;
    }
    w->to_add = w->work;
    w->longest_s = 1 / fastest;
    w->done = calloc(n, 1);
    assert_non_null(w->done);
}

static void world_free(struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->device_count; i++) {
        free(w->devices[i].lanes);
        free(w->devices[i].held);
    }
    free(w->devices);
    free(w->tasks);
    free(w->done);
    planner_free(w->p);
}

/* Rates 100:1, slots 2 to 96, neither by the other's measure. Nobody knows the rates at first but
 * to a factor of two. */
static void unequal_devices(struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->device_count; i++) {
        double rate = 0.1 * pow(100, uniform(&w->rng));
        uint32_t slots = 2 + below(&w->rng, 95);

        set_device(w, i, rate, slots, slots / 4.0);
        w->devices[i].believed = rate * pow(2, 2 * uniform(&w->rng) - 1);
    }
}

/* Lengths as archives have them: median five minutes, many clips, some of hours; one in a thousand
 * of ten hours. In a first run no length is known until the recording is opened, and a few are not
 * known then either. */
static void archive(struct world *w, bool first_run)
{
    uint32_t i;

    for (i = 0; i < w->task_count; i++) {
        double ms = SHARD_MS * exp(1.2 * normal(&w->rng));
        enum known known = first_run ? TOLD : KNOWN;

        if (below(&w->rng, 1000) == 0)
            ms = 36000000;
        if (below(&w->rng, 200) == 0 && ms < 3600000)
            known = NEVER;
        set_task(w, i, ms < 1000 ? 1000 : ms > 43200000 ? 43200000 : (uint32_t)ms, known);
        w->tasks[i].bytes = (uint64_t)(w->tasks[i].ms * 16 * exp(0.5 * normal(&w->rng)));
    }
}

static void tell(const struct world *w, const char *what)
{
    print_message("%s, %u recordings, %u %s: %.0f s, at best %.0f s (+%.2f %%); %llu leases, "
                  "%llu caps, %llu deaths; planned in %.2f s\n",
                  what, w->task_count, w->device_count, w->device_count == 1 ? "device" : "devices",
                  w->now, bound_s(w), 100 * (w->now / bound_s(w) - 1),
                  (unsigned long long)w->leases, (unsigned long long)w->caps,
                  (unsigned long long)w->deaths, planning_s(w));
}

TEST(a_million_files)
{
    static const uint32_t counts[] = {1, 2, 8, 64};
    uint32_t i, k;

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (k = 0; k < 2; k++) {
            struct world w;

            /* All of it where it is asked for (64 devices); else a tenth is enough. */
            world_init(&w, 2 * i + k + 1, counts[i] == 64 ? MILLION : MILLION / 10, counts[i]);
            w.windowed = k;
            unequal_devices(&w);
            archive(&w, k);
            world_ready(&w);
            simulate(&w);
            tell(&w, k ? "a first run" : "lengths known");
            assert_true(w.now <= bound_s(&w) * 1.03 + SLACK_S);
            if (SLACK_S == 0)
                assert_true(planning_s(&w) < 5); /* about one where nothing else runs */
            world_free(&w);
        }
}

/* The least time for so many shards of full length when each is done whole by one device. */
static double whole_shards_s(const struct world *w, uint32_t shards)
{
    double low = 0, high = 1e9;
    uint32_t k, i;

    for (k = 0; k < 100; k++) {
        double at = (low + high) / 2, n = 0;

        for (i = 0; i < w->device_count; i++)
            n += floor(w->devices[i].rate * at * (1 + 1e-12));
        if (n >= shards)
            high = at;
        else
            low = at;
    }
    return high;
}

/* Few recordings: every device has its part of each from the start. One shard at a time, so that
 * the best can be told exactly. */
TEST(few_recordings_are_shared)
{
    uint32_t seed;

    for (seed = 1; seed <= 60; seed++) {
        uint32_t files = seed % 3 == 0 ? 3 : 1, i;
        struct world w;
        double best;

        world_init(&w, seed, files, 2 + seed % 7);
        for (i = 0; i < w.device_count; i++)
            set_device(&w, i, 0.1 * pow(100, uniform(&w.rng)), 1, 0);
        for (i = 0; i < files; i++)
            set_task(&w, i, 120 * SHARD_MS, seed % 2 ? KNOWN : TOLD);
        world_ready(&w);
        simulate(&w);
        best = whole_shards_s(&w, files * 120);
        if (w.now > best * 1.03)
            fail_msg("seed %u: %u recordings of ten hours on %u devices took %.1f s, not %.1f s",
                     seed, files, w.device_count, w.now, best);
        world_free(&w);
    }
}

/* One fast device and one that is a hundred times slower: the slow one must not hold the last. */
TEST(nobody_waits_for_a_slow_device)
{
    uint32_t n;

    for (n = 1; n <= 40; n++) {
        struct world w;
        uint32_t i;

        world_init(&w, n, n, 2);
        set_device(&w, 0, 0.05, 8, 2); /* and it is the first to be asked */
        set_device(&w, 1, 5, 8, 2);
        for (i = 0; i < n; i++)
            set_task(&w, i, SHARD_MS, n % 2 ? KNOWN : TOLD);
        world_ready(&w);
        simulate(&w);
        /* With eight at once one shard takes as long as eight; the last ones are not eight. */
        if (w.now > (n + 8) / 5.0)
            fail_msg("%u shards took %.1f s", n, w.now);
        world_free(&w);
    }
}

/* Devices that die and come back, or do not. What they could have done while they were there is
 * what they are measured by; what was lost with them was done too. */
TEST(deaths_cost_little_more_than_what_they_take)
{
    uint32_t seed;

    for (seed = 1; seed <= 2; seed++) {
        double could = 0, fleet = 0, before;
        struct world w;
        uint32_t i;

        world_init(&w, seed, MILLION / 10, 16);
        unequal_devices(&w);
        archive(&w, true);
        w.windowed = seed % 2;
        world_ready(&w);
        before = bound_s(&w);
        for (i = 0; i < w.device_count; i++)
            if (i % 3) {
                w.devices[i].dies_s = before * (0.1 + 0.7 * uniform(&w.rng));
                if (i % 3 == 2)
                    w.devices[i].back_s = w.devices[i].dies_s + 60 + before * uniform(&w.rng) / 10;
            }
        simulate(&w);
        for (i = 0; i < w.device_count; i++) {
            could += w.devices[i].capable;
            fleet += w.devices[i].rate;
        }
        tell(&w, "with deaths");
        print_message("  %.2f %% of what the devices could have done while they were there\n",
                      100 * (w.work + w.lost) / could);
        assert_true(w.deaths >= 8);
        for (i = 0; i < w.task_count; i++)
            assert_true(w.tasks[i].complete);
        assert_true(w.work + w.lost >= 0.97 * (could - SLACK_S * fleet));
        world_free(&w);
    }
}

TEST_MAIN(NULL, NULL)
