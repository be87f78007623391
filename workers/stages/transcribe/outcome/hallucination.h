/* workers/stages/transcribe/outcome/hallucination.h - text that seems invented next to silence, by
 * its words' times.
 *
 * openai-whisper's rule for hallucination_silence_threshold: a segment is odd when its words are
 * improbable, too short or too long; odd ones between silences are left out, and listening goes on
 * behind the silence. Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_HALLUCINATION_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_HALLUCINATION_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/stages/transcribe/outcome/outcome.h"

/* Seconds; all but `begin` from the window's begin. */
struct hallucination_rule {
    double threshold;   /* > 0: a silence */
    double begin;       /* of the window in the recording */
    double length;      /* of the window's audio, */
    double window;      /*   and of the model's windows */
    double last_speech; /* end of the speech before; may be negative */
    bool at_end;        /* no audio follows it */
};

/* How many of o's drafts are kept. All: *seek is untouched; else where to listen again. */
uint32_t hallucination_find(const struct hallucination_rule *rule, const struct outcome *o,
                            double *seek);

#endif
