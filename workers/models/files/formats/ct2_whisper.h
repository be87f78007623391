/* workers/models/files/formats/ct2_whisper.h - whether a model of CTranslate2's computes what
 * Whisper does here. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_CT2_WHISPER_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_CT2_WHISPER_H

#include "base/err.h"

struct ct2_file;

/* ERR_MODEL names what it is or has that would be left out: another network, an output matrix that
 * is not the token embedding, keys with a bias, a factor of its own for queries. */
int ct2_whisper_check(const struct ct2_file *c, struct err *err);

#endif
