#include "store/register/groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/register/likeness.h"

#define NONE SIZE_MAX

/* A group is named by its first voice's place in the list, and a voice alone is a group of one. */
struct placing {
    const struct groups_voice *voices;
    size_t count, size;
    double from;
    int64_t last;
    float *sums;                   /* [count][size]: of a group's vectors, at its first voice */
    size_t *first;                 /* of each voice's group */
    size_t *next;                  /* voice of the same group; NONE */
    size_t *end, *members;         /* at the first voice */
    int64_t *number;               /* at the first voice; 0: none yet */
    size_t *live, *at, live_count; /* the groups, and where each of them stands there */
    size_t *chain;
    int64_t *recordings; /* room for two groups' */
};

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static bool has_recording(const struct placing *p, size_t group, int64_t recording)
{
    for (size_t v = group; v != NONE; v = p->next[v])
        if (p->voices[v].recording == recording)
            return true;
    return false;
}

static bool share_recording(const struct placing *p, size_t a, size_t b)
{
    size_t n = 0;

    if (p->members[b] == 1)
        return has_recording(p, a, p->voices[b].recording);
    for (size_t v = a; v != NONE; v = p->next[v])
        p->recordings[n++] = p->voices[v].recording;
    for (size_t v = b; v != NONE; v = p->next[v])
        p->recordings[n++] = p->voices[v].recording;
    qsort(p->recordings, n, sizeof(*p->recordings), by_value);
    for (size_t i = 1; i < n; i++)
        if (p->recordings[i] == p->recordings[i - 1])
            return true;
    return false;
}

/* The mean over all pairs of a voice of the one and a voice of the other. */
static double compute_mean_likeness(const struct placing *p, size_t a, size_t b)
{
    return likeness_product(p->sums + a * p->size, p->sums + b * p->size, p->size) /
           ((double)p->members[a] * (double)p->members[b]);
}

/* Among equals `before` wins, else the first in the list. NONE: no group is similar enough. */
static size_t find_nearest_group(const struct placing *p, size_t group, size_t before)
{
    size_t best = NONE;
    double most = p->from;

    for (size_t i = 0; i < p->live_count; i++) {
        size_t other = p->live[i];
        double is = other == group ? -INFINITY : compute_mean_likeness(p, other, group);

        if (is < most ||
            (best != NONE && is == most && (best == before || (other > best && other != before))))
            continue;
        if (share_recording(p, other, group))
            continue;
        most = is;
        best = other;
    }
    return best;
}

static size_t merge_groups(struct placing *p, size_t a, size_t b)
{
    size_t to = a < b ? a : b, of = a < b ? b : a, moved;
    int64_t number = p->number[to];

    if (number == 0 || (p->number[of] != 0 && p->number[of] < number))
        number = p->number[of];
    for (size_t k = 0; k < p->size; k++)
        p->sums[to * p->size + k] += p->sums[of * p->size + k];
    for (size_t v = of; v != NONE; v = p->next[v])
        p->first[v] = to;
    p->next[p->end[to]] = of;
    p->end[to] = p->end[of];
    p->members[to] += p->members[of];
    p->number[to] = number;
    moved = p->live[--p->live_count];
    p->live[p->at[of]] = moved;
    p->at[moved] = p->at[of];
    return to;
}

/* A voice with its former group's number: voices that were a group before start as one. */
struct numbered {
    int64_t group;
    size_t voice;
};

static int by_group(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->voice > y->voice) - (x->voice < y->voice);
}

static void init_groups(struct placing *p, struct numbered *sorted)
{
    size_t n = 0;

    for (size_t v = 0; v < p->count; v++) {
        memcpy(p->sums + v * p->size, p->voices[v].vector, p->size * sizeof(float));
        p->first[v] = p->end[v] = p->live[v] = p->at[v] = v;
        p->next[v] = NONE;
        p->members[v] = 1;
        p->number[v] = p->voices[v].group;
        if (p->voices[v].group)
            sorted[n++] = (struct numbered){p->voices[v].group, v};
    }
    p->live_count = p->count;
    if (n > 0)
        qsort(sorted, n, sizeof(*sorted), by_group);
    for (size_t i = 1; i < n; i++)
        if (sorted[i].group == sorted[i - 1].group)
            merge_groups(p, p->first[sorted[i - 1].voice], sorted[i].voice);
}

/* From one to its nearest, to that one's nearest, and so on, until two are each other's: likeness
 * rises with every step, so that this ends. They are joined, and it goes on from who came before.
 */
static void group_voice(struct placing *p, size_t voice)
{
    size_t depth = 0, other;

    p->chain[depth++] = p->first[voice];
    while (depth > 0) {
        size_t before = depth > 1 ? p->chain[depth - 2] : NONE;

        other = find_nearest_group(p, p->chain[depth - 1], before);
        if (other == NONE) {
            depth--;
        } else if (other != before) {
            p->chain[depth++] = other;
        } else {
            depth -= 2;
            other = merge_groups(p, other, p->chain[depth + 1]);
            if (p->number[other] == 0)
                p->number[other] = ++p->last;
            if (depth == 0)
                p->chain[depth++] = other;
        }
    }
}

int groups_match(struct groups_voice *voices, size_t count, size_t size, double from, int64_t *last,
                 struct err *err)
{
    struct placing p = {
        .voices = voices, .count = count, .size = size, .from = from, .last = *last};
    struct numbered *sorted = calloc(count + 1, sizeof(*sorted));
    int rc = 0;

    p.sums = calloc(count * size + 1, sizeof(*p.sums));
    p.first = calloc(7 * count + 1, sizeof(*p.first));
    p.number = calloc(2 * count + 1, sizeof(*p.number));
    if (sorted && p.sums && p.first && p.number) {
        p.next = p.first + count;
        p.end = p.next + count;
        p.members = p.end + count;
        p.live = p.members + count;
        p.at = p.live + count;
        p.chain = p.at + count;
        p.recordings = p.number + count;
        init_groups(&p, sorted);
        for (size_t v = 0; v < count; v++)
            if (voices[v].due)
                group_voice(&p, v);
        for (size_t v = 0; v < count; v++)
            voices[v].group = p.members[p.first[v]] > 1 ? p.number[p.first[v]] : 0;
        *last = p.last;
    } else {
        rc = err_no_memory(err, "catalog");
    }
    free(sorted);
    free(p.sums);
    free(p.first);
    free(p.number);
    return rc;
}
