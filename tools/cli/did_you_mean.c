#include "tools/cli/did_you_mean.h"

#include <stdio.h>
#include <string.h>

#include "workers/text/edit_distance.h"

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

const char *did_you_mean(const char *typed, const char *const *names, size_t n)
{
    const size_t len = strlen(typed);
    unsigned best = edit_distance_most(len) + 1; /* one too many */
    const char *ret = NULL;

    for (size_t i = 0; len > 1 && len <= EDIT_DISTANCE_MAX && i < n; i++) {
        const size_t name_len = strlen(names[i]);
        unsigned d;

        if (name_len > EDIT_DISTANCE_MAX)
            continue;
        d = strncmp(names[i], typed, len) == 0 ? 1 : edit_distance(typed, len, names[i], name_len);
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
