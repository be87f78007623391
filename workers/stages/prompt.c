#include "workers/stages/prompt.h"

#include <string.h>

uint32_t prompt_previous_max(uint32_t positions) { return positions / 2; }

uint32_t prompt_previous(const struct vocabulary *v, uint32_t positions, const int32_t *previous,
                         uint32_t n, int32_t *ret)
{
    int32_t sot_prev = vocabulary_ids(v)->sot_prev;
    uint32_t most = prompt_previous_max(positions) - 1;

    if (n == 0 || sot_prev < 0)
        return 0;
    if (n > most) {
        previous += n - most;
        n = most;
    }
    ret[0] = sot_prev;
    memcpy(ret + 1, previous, n * sizeof(*previous));
    return n + 1;
}

uint32_t prompt_start(const struct vocabulary *v, const struct transcribe_params *params,
                      int32_t language, int32_t *ret)
{
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    uint32_t n = 0;

    ret[n++] = ids->sot;
    if (vocabulary_multilingual(v)) {
        ret[n++] = language;
        ret[n++] = params->translate ? ids->translate : ids->transcribe;
    }
    if (params->without_timestamps)
        ret[n++] = ids->no_timestamps;
    return n;
}
