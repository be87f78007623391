#include "tools/enqueue/path_list.h"

#include <stdbool.h>
#include <string.h>

static const char *path_at(struct paths p, size_t i)
{
    return *(const char *const *)((const char *)p.list + i * p.size);
}

int paths_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The first element that does not come before the n bytes and this one behind them. */
static size_t first_from(struct paths p, const char *path, size_t n, unsigned char behind)
{
    size_t low = 0, high = p.count;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        const char *of = path_at(p, mid);
        const int c = strncmp(of, path, n);

        if (c > 0 || (c == 0 && (unsigned char)of[n] >= behind))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

const void *paths_exact(struct paths p, const char *path, size_t n)
{
    const size_t i = first_from(p, path, n, 0);
    const char *of = i < p.count ? path_at(p, i) : "";

    return strncmp(of, path, n) == 0 && of[n] == 0 ? (const char *)p.list + i * p.size : NULL;
}

size_t paths_above(const char *path, size_t n)
{
    if (n <= 1)
        return 0;
    while (n > 1 && path[n - 1] != '/')
        n--;
    return n > 1 ? n - 1 : 1;
}

const void *paths_nearest(struct paths p, const char *path, size_t n)
{
    const void *at = NULL;

    for (; n > 0 && !at; n = paths_above(path, n))
        at = paths_exact(p, path, n);
    return at;
}

const void *paths_below(struct paths p, const char *path, size_t n)
{
    const bool all = n == 1 && path[0] == '/';
    const size_t i = first_from(p, path, n, all ? 1 : '/');
    const char *of = i < p.count ? path_at(p, i) : "";

    return strncmp(of, path, n) == 0 && (of[n] == '/' || (all && of[n] != 0))
               ? (const char *)p.list + i * p.size
               : NULL;
}
