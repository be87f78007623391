#include "tools/cli/did_you_mean.h"

#include <stdio.h>
#include <string.h>

#define WORD_MAX 48 /* bytes; longer ones are near to nothing */

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

/* How many letters were left out, put in, taken for others or swapped with their neighbours. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][WORD_MAX + 1];
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

const char *did_you_mean(const char *typed, const char *const *names, size_t n)
{
    const size_t len = strlen(typed);
    unsigned best = (unsigned)(len < 6 ? 1 : (len + 2) / 4) + 1; /* one too many */
    const char *ret = NULL;

    for (size_t i = 0; len > 1 && len <= WORD_MAX && i < n; i++) {
        const size_t name_len = strlen(names[i]);
        unsigned d;

        if (name_len > WORD_MAX)
            continue;
        d = strncmp(names[i], typed, len) == 0 ? 1 : distance(typed, len, names[i], name_len);
        if (d <= best)
            ret = d < best ? names[i] : NULL;
        best = least(best, d);
    }
    return ret;
}

char *did_you_mean_sentence(const char *what, const char *mark, const char *typed,
                            const char *const *names, size_t n, char out[DID_YOU_MEAN_LEN])
{
    const char *meant = did_you_mean(typed, names, n);

    if (meant)
        snprintf(out, DID_YOU_MEAN_LEN, "there is no %s '%s%.100s'. Perhaps '%s%.100s' was meant",
                 what, mark, typed, mark, meant);
    else
        snprintf(out, DID_YOU_MEAN_LEN, "there is no %s '%s%.200s'", what, mark, typed);
    return out;
}
