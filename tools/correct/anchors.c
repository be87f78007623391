#include "tools/correct/anchors.h"

#include <stdbool.h>
#include <stdlib.h>

struct run {
    const struct word *at;
    size_t gram;
    bool in_b;
};

static int by_words(const struct run *x, const struct run *y)
{
    for (size_t i = 0; i < x->gram; i++)
        if (x->at[i].id != y->at[i].id)
            return x->at[i].id < y->at[i].id ? -1 : 1;
    return 0;
}

static int by_words_and_side(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    int c = by_words(x, y);

    return c != 0 ? c : x->in_b - y->in_b;
}

static size_t put_runs(struct run *all, const struct word *w, size_t n, size_t gram, bool in_b)
{
    size_t count = n >= gram ? n - gram + 1 : 0;

    for (size_t i = 0; i < count; i++)
        all[i] = (struct run){w + i, gram, in_b};
    return count;
}

static int by_a(const void *x, const void *y)
{
    size_t a = ((const struct anchor *)x)->a, b = ((const struct anchor *)y)->a;

    return (a > b) - (a < b);
}

/* Pairs of runs that each side has once, in the order of a. */
static size_t pair_up(const struct run *all, size_t n, const struct word *a, const struct word *b,
                      struct anchor *ret)
{
    size_t count = 0;

    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && by_words(&all[i], &all[end]) == 0;)
            end++;
        if (end - i == 2 && !all[i].in_b && all[i + 1].in_b)
            ret[count++] = (struct anchor){(size_t)(all[i].at - a), (size_t)(all[i + 1].at - b)};
    }
    if (count > 0)
        qsort(ret, count, sizeof(*ret), by_a);
    return count;
}

/* Keeps the longest chain in which b rises, too (patience sorting). tails, before: [count]. */
static size_t keep_longest(struct anchor *list, size_t count, size_t *tails, size_t *before)
{
    size_t length = 0, at;

    for (size_t i = 0; i < count; i++) {
        size_t low = 0, high = length;

        while (low < high) {
            size_t mid = (low + high) / 2;

            if (list[tails[mid]].b < list[i].b)
                low = mid + 1;
            else
                high = mid;
        }
        before[i] = low > 0 ? tails[low - 1] : SIZE_MAX;
        tails[low] = i;
        length += low == length;
    }
    at = length > 0 ? tails[length - 1] : SIZE_MAX;
    for (size_t i = length; i > 0; i--, at = before[at])
        tails[i - 1] = at;
    for (size_t i = 0; i < length; i++)
        list[i] = list[tails[i]];
    return length;
}

int anchors_find(const struct word *a, size_t n, const struct word *b, size_t m, size_t gram,
                 struct anchor **ret, size_t *count, struct err *err)
{
    struct run *all = malloc((n + m + 1) * sizeof(*all));
    struct anchor *list = malloc((n + 1) * sizeof(*list));
    size_t *tails = malloc((n + 1) * sizeof(*tails)), *before = malloc((n + 1) * sizeof(*before));
    size_t runs, found = 0;
    int rc = 0;

    if (!all || !list || !tails || !before)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        runs = put_runs(all, a, n, gram, false);
        runs += put_runs(all + runs, b, m, gram, true);
        qsort(all, runs, sizeof(*all), by_words_and_side);
        found = keep_longest(list, pair_up(all, runs, a, b, list), tails, before);
    }
    free(all);
    free(tails);
    free(before);
    if (rc != 0 || found == 0) {
        free(list);
        list = NULL;
    }
    *ret = list;
    *count = found;
    return rc;
}
