#include "workers/text/edit_distance.h"

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][EDIT_DISTANCE_MAX + 1];
    unsigned *last = rows[0], *row = rows[1], *before = rows[2];

    for (size_t k = 0; k <= b_len; k++)
        row[k] = (unsigned)k;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *spare = before;

        before = last;
        last = row;
        row = spare;
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= b_len; k++) {
            row[k] = least(least(last[k], row[k - 1]) + 1, last[k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[k] = least(row[k], before[k - 2] + 1);
        }
    }
    return row[b_len];
}

unsigned edit_distance_most(size_t len) { return (unsigned)(len < 6 ? 1 : (len + 2) / 4); }
