/* tests/ops/reference_choose.h - Whisper's rules once more, as they read in openai-whisper's
 * decoding.py, over whole sequences; for the vocabulary below. */
#ifndef NIGHTSHIFT_TESTS_OPS_REFERENCE_CHOOSE_H
#define NIGHTSHIFT_TESTS_OPS_REFERENCE_CHOOSE_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/backend.h"

#define VOCAB 2200 /* wider than the vocabulary's 2151, as padded models are */
#define EOT 640
#define NO_SPEECH 648
#define TS 650
#define TS_END 2150

/* The rules that the reference knows: a blank and the end not first, three ids never. */
extern const struct rules_spec reference_rules;

/* What may not follow seq becomes minus infinity; all but the rule on the timestamps' mass. */
void reference_mask(const int32_t *seq, size_t n, float *l);
/* log of the sum of e^l over [from, to); minus infinity for none. */
double reference_log_sum(const float *l, int from, int to);
/* The rule on the timestamps' mass. *margin: how far it was from going the other way. */
void reference_mass(float *l, double *margin);
/* What is asked about a sequence. */
struct choice_ask reference_ask(const int32_t *seq, size_t n);

#endif
