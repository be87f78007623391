/* One sweep over the sorted begins and ends gives stretches in which nothing changes; it is made
 * twice, first for how long every two speakers speak together, then for the errors. */
#include "tools/score/der.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/speakers/match.h"
#include "tools/score/rttm.h"

enum side { REFERENCE, HYPOTHESIS, COLLAR };

struct event {
    double at_s;
    enum side side;
    int change;       /* 1: begins, -1: ends */
    uint32_t speaker; /* of its side, from 0 */
};

struct speakers {
    uint32_t *names; /* sorted, each once */
    uint32_t count;
    uint32_t *turns;  /* [count]: how many of each are on; the same one may speak twice at once */
    uint32_t *active; /* [active_count]: those that are on */
    uint32_t active_count, on;
};

struct scoring {
    struct event *events;
    size_t count;
    struct speakers side[2];
    uint32_t collars; /* on */
    bool skip_overlap;
    double *together; /* [reference][hypothesis] */
    int32_t *partner; /* [reference]: its speaker of the hypothesis, or MATCH_NONE */
    struct der der;
};

typedef void stretch_fn(struct scoring *s, double length_s);

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    return x->at_s < y->at_s ? -1 : x->at_s > y->at_s;
}

static int find_speakers(const struct rttm_turn *turns, size_t n, struct speakers *ret,
                         struct err *err)
{
    uint32_t count = 0;

    ret->names = malloc((n + 1) * sizeof(uint32_t));
    if (!ret->names)
        return err_set(err, ERR_NOMEM, "no memory for %zu turns", n);
    for (size_t i = 0; i < n; i++)
        ret->names[i] = turns[i].speaker;
    qsort(ret->names, n, sizeof(uint32_t), by_number);
    for (size_t i = 0; i < n; i++)
        if (count == 0 || ret->names[count - 1] != ret->names[i])
            ret->names[count++] = ret->names[i];
    if (count > DER_MAX_SPEAKERS)
        return err_set(err, ERR_LIMIT, "it has %u speakers, more than %u", count, DER_MAX_SPEAKERS);
    ret->count = count;
    ret->turns = calloc(2 * (size_t)count + 1, sizeof(uint32_t));
    if (!ret->turns)
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", count);
    ret->active = ret->turns + count;
    return 0;
}

static void add_events(struct scoring *s, enum side side, const struct rttm_turn *turns, size_t n,
                       double half_collar)
{
    struct speakers *who = &s->side[side];

    for (size_t i = 0; i < n; i++) {
        double start = turns[i].start_s, end = turns[i].end_s;
        uint32_t *name =
            bsearch(&turns[i].speaker, who->names, who->count, sizeof(*who->names), by_number);
        uint32_t speaker = (uint32_t)(name - who->names);

        s->events[s->count++] = (struct event){start, side, 1, speaker};
        s->events[s->count++] = (struct event){end, side, -1, speaker};
        if (side == HYPOTHESIS || half_collar <= 0.0)
            continue;
        s->events[s->count++] = (struct event){start - half_collar, COLLAR, 1, 0};
        s->events[s->count++] = (struct event){start + half_collar, COLLAR, -1, 0};
        s->events[s->count++] = (struct event){end - half_collar, COLLAR, 1, 0};
        s->events[s->count++] = (struct event){end + half_collar, COLLAR, -1, 0};
    }
}

static void apply_turn_event(struct scoring *s, const struct event *e)
{
    struct speakers *who;
    uint32_t before;

    if (e->side == COLLAR) {
        s->collars += (uint32_t)e->change;
        return;
    }
    who = &s->side[e->side];
    before = who->turns[e->speaker];
    who->turns[e->speaker] += (uint32_t)e->change;
    who->on += (uint32_t)e->change;
    if (before == 0) {
        who->active[who->active_count++] = e->speaker;
    } else if (who->turns[e->speaker] == 0) {
        uint32_t i = 0;

        while (who->active[i] != e->speaker)
            i++;
        who->active[i] = who->active[--who->active_count];
    }
}

/* At one moment what begins comes before what ends, so that no count falls below 0. */
static int begins_first(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    int order = by_time(a, b);

    return order != 0 ? order : y->change - x->change;
}

static void sweep_events(struct scoring *s, stretch_fn *stretch)
{
    for (size_t i = 0; i < s->count; i++) {
        double length = i + 1 < s->count ? s->events[i + 1].at_s - s->events[i].at_s : 0.0;

        apply_turn_event(s, &s->events[i]);
        if (length > 0.0 && s->collars == 0 && !(s->skip_overlap && s->side[REFERENCE].on > 1))
            stretch(s, length);
    }
}

static void add_together(struct scoring *s, double length_s)
{
    const struct speakers *r = &s->side[REFERENCE], *h = &s->side[HYPOTHESIS];

    for (uint32_t i = 0; i < r->active_count; i++)
        for (uint32_t k = 0; k < h->active_count; k++)
            s->together[(size_t)r->active[i] * h->count + h->active[k]] +=
                length_s * r->turns[r->active[i]] * h->turns[h->active[k]];
}

static void add_errors(struct scoring *s, double length_s)
{
    const struct speakers *r = &s->side[REFERENCE], *h = &s->side[HYPOTHESIS];
    uint32_t both = r->on < h->on ? r->on : h->on, correct = 0;

    for (uint32_t i = 0; i < r->active_count; i++) {
        uint32_t speaker = r->active[i];
        int32_t partner = s->partner[speaker];

        if (partner >= 0)
            correct +=
                r->turns[speaker] < h->turns[partner] ? r->turns[speaker] : h->turns[partner];
    }
    s->der.total += length_s * r->on;
    s->der.correct += length_s * correct;
    s->der.confusion += length_s * (both - correct);
    s->der.missed += length_s * (r->on - both);
    s->der.false_alarm += length_s * (h->on - both);
}

/* Speakers that never speak together are nobody's. */
static int match_speakers(struct scoring *s, struct err *err)
{
    uint32_t rows = s->side[REFERENCE].count, columns = s->side[HYPOTHESIS].count;
    struct matcher *m = NULL;
    int rc = 0;

    for (uint32_t i = 0; i < rows; i++)
        s->partner[i] = MATCH_NONE;
    if (rows == 0 || columns == 0)
        return 0;
    rc = matcher_new(rows, columns, &m, err);
    if (rc != 0)
        return rc;
    matcher_run(m, s->together, rows, columns, s->partner);
    for (uint32_t i = 0; i < rows; i++)
        if (s->partner[i] >= 0 && s->together[(size_t)i * columns + (uint32_t)s->partner[i]] <= 0.0)
            s->partner[i] = MATCH_NONE;
    matcher_free(m);
    return 0;
}

static int alloc_scoring(struct scoring *s, size_t r, size_t h, struct err *err)
{
    size_t pairs = (size_t)s->side[REFERENCE].count * s->side[HYPOTHESIS].count;

    s->events = malloc((6 * r + 2 * h + 1) * sizeof(*s->events));
    s->together = calloc(pairs + 1, sizeof(*s->together));
    s->partner = calloc((size_t)s->side[REFERENCE].count + 1, sizeof(*s->partner));
    if (s->events && s->together && s->partner)
        return 0;
    return err_set(err, ERR_NOMEM, "no memory for %zu turns", r + h);
}

int der_score(const struct rttm_turn *reference, size_t reference_count,
              const struct rttm_turn *hypothesis, size_t hypothesis_count,
              const struct der_params *p, struct der *ret, struct err *err)
{
    struct scoring s = {.skip_overlap = p->skip_overlap};
    int rc = 0;

    if (!isfinite(p->collar_s) || p->collar_s < 0.0 || p->collar_s > RTTM_MAX_S)
        return err_set(err, ERR_USAGE, "the collar is not a length of time");
    rc = find_speakers(reference, reference_count, &s.side[REFERENCE], err);
    if (rc == 0)
        rc = find_speakers(hypothesis, hypothesis_count, &s.side[HYPOTHESIS], err);
    if (rc == 0)
        rc = alloc_scoring(&s, reference_count, hypothesis_count, err);
    if (rc == 0) {
        add_events(&s, REFERENCE, reference, reference_count, 0.5 * p->collar_s);
        add_events(&s, HYPOTHESIS, hypothesis, hypothesis_count, 0.0);
        qsort(s.events, s.count, sizeof(*s.events), begins_first);
        sweep_events(&s, add_together);
        rc = match_speakers(&s, err);
    }
    if (rc == 0) {
        sweep_events(&s, add_errors);
        *ret = s.der;
    }
    for (int i = 0; i < 2; i++) {
        free(s.side[i].names);
        free(s.side[i].turns);
    }
    free(s.events);
    free(s.together);
    free(s.partner);
    return rc;
}

void der_add(struct der *sum, const struct der *d)
{
    sum->total += d->total;
    sum->correct += d->correct;
    sum->missed += d->missed;
    sum->false_alarm += d->false_alarm;
    sum->confusion += d->confusion;
}

double der_rate(const struct der *d)
{
    return d->total > 0.0 ? (d->missed + d->false_alarm + d->confusion) / d->total : NAN;
}
