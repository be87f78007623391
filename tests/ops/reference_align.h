/* tests/ops/reference_align.h - alignment of tokens with audio as openai-whisper's timing.py reads.
 */
#ifndef NIGHTSHIFT_TESTS_OPS_REFERENCE_ALIGN_H
#define NIGHTSHIFT_TESTS_OPS_REFERENCE_ALIGN_H

#include <stddef.h>

/* scores[heads][n][frames] to out[n][frames]. Columns whose deviation is below `equal` of their
 * mean count as equal. */
void reference_align(const float *scores, size_t heads, size_t n, size_t frames, double equal,
                     double *out);

#endif
