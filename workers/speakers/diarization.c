#include "workers/speakers/diarization.h"

#include <stdlib.h>

void diarize_params_default(enum diarize_clustering c, struct diarize_params *ret)
{
    static const struct diarize_params published[] = {
        [DIARIZE_AHC] = DIARIZE_AHC_PARAMS,
        [DIARIZE_VBX] = DIARIZE_VBX_PARAMS,
    };

    *ret = published[c];
}

void diarize_free(struct diarize_result *r)
{
    free(r->turns);
    free(r->vectors);
    free(r->speech_s);
    *r = (struct diarize_result){0};
}
