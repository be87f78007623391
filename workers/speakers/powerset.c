#include "workers/speakers/powerset.h"

uint32_t powerset_classes(uint32_t speakers, uint32_t at_once)
{
    uint32_t all = 0, choices = 1; /* of n at a time */

    if (speakers < 1 || speakers > POWERSET_MAX_SPEAKERS || at_once < 1 || at_once > speakers)
        return 0;
    for (uint32_t n = 0; n <= at_once; n++) {
        all += choices;
        choices = choices * (speakers - n) / (n + 1);
    }
    return all;
}

/* The sets of one size in the order of their lists of members: {0,1}, {0,2}, {0,3}, {1,2}, ... The
 * first member is the highest bit of a mirrored number, so that they fall from high to low. */
static uint32_t sets_of_size(uint32_t speakers, uint32_t size, uint8_t *ret)
{
    uint32_t found = 0;

    for (uint32_t mirrored = 1u << speakers; mirrored-- > 0;) {
        uint8_t set = 0;

        if ((uint32_t)__builtin_popcount(mirrored) != size)
            continue;
        for (uint32_t s = 0; s < speakers; s++)
            if (mirrored & 1u << (speakers - 1 - s))
                set |= (uint8_t)(1u << s);
        ret[found++] = set;
    }
    return found;
}

uint32_t powerset_sets(uint32_t speakers, uint32_t at_once, uint8_t sets[POWERSET_MAX_CLASSES])
{
    uint32_t classes = powerset_classes(speakers, at_once), found = 0;

    for (uint32_t size = 0; classes > 0 && size <= at_once; size++)
        found += sets_of_size(speakers, size, sets + found);
    return classes;
}

uint32_t powerset_speakers(uint32_t classes, uint32_t at_once)
{
    for (uint32_t speakers = 1; speakers <= POWERSET_MAX_SPEAKERS; speakers++)
        if (powerset_classes(speakers, at_once) == classes && classes > 0)
            return speakers;
    return 0;
}

uint8_t powerset_best(const uint8_t *sets, const float *scores, uint32_t classes)
{
    uint32_t best = 0;

    for (uint32_t c = 1; c < classes; c++)
        if (scores[c] > scores[best] || scores[best] != scores[best])
            best = c;
    return sets[best];
}
