/* workers/models/pyannote/diarization_dir.h - a diarization model's folder: two networks and how
 * their results are put together. Layouts (docs/reference/models.md):
 *
 *   ours:      config.json {"model_type": "nightshift-diarization", ...}, segmentation.safetensors,
 *              embedding.safetensors, plda.safetensors where the clustering is VBx
 *   pyannote's (a downloaded community-1 or a folder put together of 3.1's parts): config.yaml is
 * not read; segmentation/pytorch_model.bin, embedding/pytorch_model.bin, plda/
 *
 * A folder may mix them: each network, and the PLDA, is taken in the form in which it is there, and
 * in the form of the folder's own layout (ours where config.json is) where it is there in both. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_DIARIZATION_DIR_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_DIARIZATION_DIR_H

#include <stdbool.h>

#include "base/err.h"

struct diarization_dir {            /* owned: diarization_dir_free */
    char *segmentation, *embedding; /* files */
    char *plda;                     /* file or folder; NULL: none */
    bool vbx;                       /* what its config wants */
    float threshold, fa, fb;        /* its config's, or the published pipeline's */
    unsigned min_cluster_size;
};

/* ERR_MODEL says what is missing. Reads the config, not the weights. */
int diarization_dir_open(const char *dir, struct diarization_dir *ret, struct err *err);
void diarization_dir_free(struct diarization_dir *d);

#endif
