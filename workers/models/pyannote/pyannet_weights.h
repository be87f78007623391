/* workers/models/pyannote/pyannet_weights.h - the values of a segmentation network, from its file.
 */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_PYANNET_WEIGHTS_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_PYANNET_WEIGHTS_H

#include <stdint.h>

#include "base/err.h"
#include "workers/models/files/weights.h"

#define PYANNET_CONVS 3
#define SINC_WIDTH 251
#define SINC_RATE_HZ 16000
#define PYANNET_MAX_LAYERS 8  /* of LSTMs, and of linear ones */
#define PYANNET_MAX_SIZE 1024 /* of a layer's output */

struct pyannet_conv {
    uint32_t out, in, width, stride;
    float *w;            /* [out][in][width] */
    float *bias;         /* [out]; NULL: none */
    float *gamma, *beta; /* [out]: of the norm behind it */
};

struct pyannet_lstm { /* of both directions: forward, backward */
    uint32_t in;
    float *w_ih[2], *w_hh[2], *b_ih[2], *b_hh[2];
};

struct pyannet_linear {
    uint32_t in, out;
    float *w, *bias;
};

struct pyannet_weights {
    float *wav_gamma, *wav_beta; /* [1] */
    struct pyannet_conv conv[PYANNET_CONVS];
    uint32_t hidden; /* of an LSTM's direction */
    uint32_t lstms, linears;
    struct pyannet_lstm lstm[PYANNET_MAX_LAYERS];
    struct pyannet_linear linear[PYANNET_MAX_LAYERS + 1]; /* the last one tells the classes */
    struct weights_pool pool;
};

/* classes: that the last layer tells apart. ERR_MODEL when the file cannot be read, or a tensor is
 * missing, of a shape that cannot be, or holds a value that is not finite. */
int pyannet_weights_read(const char *file, uint32_t classes, struct pyannet_weights **ret,
                         struct err *err);
void pyannet_weights_free(struct pyannet_weights *w); /* NULL is fine */

#endif
