/* workers/models/pyannote/plda_file.h - the transforms that VBx compares voices in, from their
 * files (docs/reference/models.md): a folder with pyannote's xvec_transform.npz (mean1, mean2, lda)
 * and plda.npz (mu, tr, psi), or one safetensors file with these six tensors as float32. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_PLDA_FILE_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_PLDA_FILE_H

#include "base/err.h"
#include "workers/speakers/vbx.h"

/* The number of transformed values that are kept, those with the largest phi: the lda_dimension of
 * pyannote's pipeline. */
#define PLDA_DIM 128u

/* path: the file, or the folder. ERR_MODEL names the array and the problem; ERR_MISSING and other
 * errors of the system. *ret: plda_free. */
int plda_open(const char *path, struct plda **ret, struct err *err);

#endif
