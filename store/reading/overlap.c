#include "store/reading/overlap.h"

#include <stdlib.h>
#include <string.h>

/* Turns sorted by their begin. furthest[i] is the turn among 0 .. i that ends last (the first of
 * equals). The array is a balanced tree, too (the middle of a range above those of its halves), in
 * which end_below[i] is the last end of what is at and below i: a branch that is over by a moment
 * is passed by, so a turn that spans the recording does not make every question read all of it. */
struct overlaps {
    size_t count;
    struct overlap_turn *turns; /* [count] */
    size_t *furthest;           /* [count] */
    int64_t *end_below;         /* [count] */
    /* One query's result: the speakers met, and how long each overlaps. */
    size_t met;
    struct shared {
        int64_t speaker, ms;
    } * overlaps; /* [count] */
};

static int by_begin(const void *a, const void *b)
{
    const struct overlap_turn *x = a, *y = b;

    if (x->start_ms != y->start_ms)
        return x->start_ms < y->start_ms ? -1 : 1;
    if (x->end_ms != y->end_ms)
        return x->end_ms < y->end_ms ? -1 : 1;
    return (x->speaker > y->speaker) - (x->speaker < y->speaker);
}

/* Sets the latest ends within [low, high), which is not empty. */
static int64_t put_ends(struct overlaps *a, size_t low, size_t high)
{
    size_t middle = low + (high - low) / 2;
    int64_t end = a->turns[middle].end_ms, other;

    if (low < middle && (other = put_ends(a, low, middle)) > end)
        end = other;
    if (middle + 1 < high && (other = put_ends(a, middle + 1, high)) > end)
        end = other;
    return a->end_below[middle] = end;
}

int overlap_make(const struct overlap_turn *turns, size_t n, struct overlaps **ret, struct err *err)
{
    struct overlaps *a = calloc(1, sizeof(*a));

    if (a) {
        a->turns = calloc(n + 1, sizeof(*a->turns));
        a->furthest = calloc(n + 1, sizeof(*a->furthest));
        a->end_below = calloc(n + 1, sizeof(*a->end_below));
        a->overlaps = calloc(n + 1, sizeof(*a->overlaps));
    }
    if (!a || !a->turns || !a->furthest || !a->end_below || !a->overlaps) {
        overlap_free(a);
        return err_no_memory(err, "speakers");
    }
    a->count = n;
    if (n)
        memcpy(a->turns, turns, n * sizeof(*turns));
    qsort(a->turns, n, sizeof(*a->turns), by_begin);
    for (size_t i = 1; i < n; i++) {
        size_t before = a->furthest[i - 1];

        a->furthest[i] = a->turns[i].end_ms > a->turns[before].end_ms ? i : before;
    }
    if (n)
        put_ends(a, 0, n);
    *ret = a;
    return 0;
}

void overlap_free(struct overlaps *a)
{
    if (!a)
        return;
    free(a->turns);
    free(a->furthest);
    free(a->end_below);
    free(a->overlaps);
    free(a);
}

/* The number of turns that begin before a moment. */
static size_t count_turns_before(const struct overlaps *a, int64_t ms)
{
    size_t low = 0, high = a->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (a->turns[middle].start_ms < ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_overlap(struct overlaps *a, int64_t speaker, int64_t ms)
{
    size_t i = 0;

    while (i < a->met && a->overlaps[i].speaker != speaker)
        i++;
    if (i == a->met)
        a->overlaps[a->met++] = (struct shared){speaker, 0};
    a->overlaps[i].ms += ms;
}

/* Meets the turns of [low, high) that overlap [start_ms, end_ms), in their order. */
static void add_overlapping_turns(struct overlaps *a, size_t low, size_t high, int64_t start_ms,
                                  int64_t end_ms)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct overlap_turn *t = &a->turns[middle];
        int64_t from = t->start_ms > start_ms ? t->start_ms : start_ms;
        int64_t to = t->end_ms < end_ms ? t->end_ms : end_ms;

        if (a->end_below[middle] <= start_ms)
            return;
        add_overlapping_turns(a, low, middle, start_ms, end_ms);
        if (to > from)
            add_overlap(a, t->speaker, to - from);
        if (t->start_ms >= end_ms)
            return;
        low = middle + 1;
    }
}

/* NULL: none is near. */
static const struct overlap_turn *find_nearest_turn(const struct overlaps *a, size_t after,
                                                    int64_t start_ms, int64_t end_ms)
{
    const struct overlap_turn *left = after > 0 ? &a->turns[a->furthest[after - 1]] : NULL;
    const struct overlap_turn *right = after < a->count ? &a->turns[after] : NULL;

    if (left && start_ms - left->end_ms > OVERLAP_NEAR_MS)
        left = NULL;
    if (right && right->start_ms - end_ms > OVERLAP_NEAR_MS)
        right = NULL;
    if (left && right)
        return right->start_ms - end_ms < start_ms - left->end_ms ? right : left;
    return left ? left : right;
}

int64_t overlap_speaker(struct overlaps *a, int64_t start_ms, int64_t end_ms, int64_t none)
{
    const struct overlap_turn *near;
    size_t last, best = 0;

    if (end_ms <= start_ms)
        end_ms = start_ms + 1;
    a->met = 0;
    last = count_turns_before(a, end_ms);
    add_overlapping_turns(a, 0, a->count, start_ms, end_ms);
    if (!a->met) {
        near = find_nearest_turn(a, last, start_ms, end_ms);
        return near ? near->speaker : none;
    }
    for (size_t i = 1; i < a->met; i++)
        if (a->overlaps[i].ms > a->overlaps[best].ms)
            best = i;
    return a->overlaps[best].speaker;
}

static bool has_speaker_change(const struct overlaps *a, size_t low, size_t high,
                               const struct overlap_turn *between, int64_t from, int64_t to)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct overlap_turn *t = &a->turns[middle];

        if (a->end_below[middle] < between->start_ms)
            return false;
        if ((t->speaker == from && t->end_ms >= between->start_ms &&
             t->end_ms <= between->end_ms) ||
            (t->speaker == to && t->start_ms >= between->start_ms &&
             t->start_ms <= between->end_ms) ||
            has_speaker_change(a, low, middle, between, from, to))
            return true;
        if (t->start_ms > between->end_ms)
            return false;
        low = middle + 1;
    }
    return false;
}

bool overlap_changes(const struct overlaps *a, int64_t from, int64_t to, int64_t start_ms,
                     int64_t end_ms)
{
    const struct overlap_turn between = {start_ms, end_ms, 0};

    return has_speaker_change(a, 0, a->count, &between, from, to);
}
