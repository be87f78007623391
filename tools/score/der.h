/* tools/score/der.h - diarization error rate, as NIST defines it and pyannote.metrics computes
 * it: with the speakers of the hypothesis named so that they agree with the reference as long as
 * they can,
 *
 *     (missed + false alarm + confusion) / total
 *
 * in seconds of speech, where two that speak at once count twice. Evaluated from the first begin to
 * the last end of either side. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_DER_H
#define NIGHTSHIFT_TOOLS_SCORE_DER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DER_MAX_SPEAKERS 1000u /* of either side in one recording */

struct rttm_turn;

struct der_params {
    double collar_s;   /* so much is left out around each begin and end of a turn of the reference,
                          half of it before and half behind */
    bool skip_overlap; /* what several of the reference's turns share is left out, too */
};

struct der { /* seconds */
    double total, correct, missed, false_alarm, confusion;
};

/* Turns of one recording; the names of the two sides have nothing to do with each other. ERR_LIMIT:
 * too many speakers; ERR_USAGE: the parameters; ERR_NOMEM. */
int der_score(const struct rttm_turn *reference, size_t reference_count,
              const struct rttm_turn *hypothesis, size_t hypothesis_count,
              const struct der_params *p, struct der *ret, struct err *err);
void der_add(struct der *sum, const struct der *d);
/* NaN where the reference has no speech. */
double der_rate(const struct der *d);

#endif
