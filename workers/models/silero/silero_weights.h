/* workers/models/silero/silero_weights.h - the values of Silero's voice activity model, from its
 * file. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_SILERO_SILERO_WEIGHTS_H
#define NIGHTSHIFT_WORKERS_MODELS_SILERO_SILERO_WEIGHTS_H

#include "base/err.h"

#define SILERO_BINS 129 /* of a frame's spectrum */

struct silero_weights {
    float *stft;         /* [2 x 129][256]: real parts, then imaginary ones */
    float *conv[4];      /* [128][129][3], [64][128][3], [64][64][3], [128][64][3] */
    float *conv_bias[4]; /* [128], [64], [64], [128] */
    float *w_ih, *w_hh;  /* [512][128]: input, forget, cell, output */
    float *b_ih, *b_hh;  /* [512] */
    float *out;          /* [128] */
    float *out_bias;     /* [1] */
    float *values;       /* all of the above */
};

/* ERR_MODEL when the file cannot be read as safetensors, or a tensor is missing, of another shape
 * or type, or holds a value that is not finite. */
int silero_weights_read(const char *file, struct silero_weights **ret, struct err *err);
void silero_weights_free(struct silero_weights *w); /* NULL is fine */

#endif
