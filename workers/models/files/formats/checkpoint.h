/* workers/models/files/formats/checkpoint.h - the tensors of a PyTorch checkpoint:
 * pytorch_model.bin, or .pt.
 *
 * Since 1.6 torch.save writes a zip archive of uncompressed members: data.pkl describes the tensors
 * (see pickle.h; nothing of it is ever run), and data/KEY holds the bytes of one storage, which
 * several tensors may share. The file is mapped and nothing is copied. Two layouts are known: a
 * dictionary of tensors by name, as Hugging Face writes it, and OpenAI's {"dims": {...},
 * "model_state_dict": {...}}. A training checkpoint has its tensors under "state_dict" (Lightning)
 * or "model_state", beside other values. It is read only on request: classes that those values name
 * are skipped and never created.
 *
 * Every tensor that is offered lies within its storage. Failures are ERR_MODEL with a printable
 * sentence (or ERR_MISSING, ERR_DENIED, ERR_IO from the system). Immutable after opening: any
 * thread may read. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_CHECKPOINT_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/files/weight.h"

struct checkpoint;

int checkpoint_open(const char *path, struct checkpoint **ret, struct err *err);
/* The same over memory of the caller, which must outlive *ret. */
int checkpoint_parse(const void *data, size_t len, struct checkpoint **ret, struct err *err);
/* The same for a training's checkpoint, or a plain dictionary of tensors. */
int checkpoint_open_training(const char *path, struct checkpoint **ret, struct err *err);
int checkpoint_parse_training(const void *data, size_t len, struct checkpoint **ret,
                              struct err *err);
void checkpoint_close(struct checkpoint *c); /* accepts NULL */

/* Whether it is in OpenAI's layout, with OpenAI's names of tensors. */
bool checkpoint_is_openai(const struct checkpoint *c);
/* A number of OpenAI's "dims", such as "n_audio_layer": ERR_MODEL when it is not there or not
 * within 1 .. max. */
int checkpoint_dim(const struct checkpoint *c, const char *key, uint32_t max, uint32_t *ret,
                   struct err *err);

size_t checkpoint_count(const struct checkpoint *c);
const struct weight *checkpoint_at(const struct checkpoint *c, size_t i); /* by name */
const struct weight *checkpoint_find(const struct checkpoint *c, const char *name);

#endif
