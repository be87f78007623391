/* workers/models/files/adapter.h - a folder with a LoRA adapter of PEFT's instead of a model.
 *
 * adapter_config.json names the model that it adapts, the base, and says how much of the product of
 * two small matrices is added to each adapted one; those are in adapter_model.safetensors (or
 * .bin). All other files of the model are the base's. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_ADAPTER_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_ADAPTER_H

#include <stdbool.h>

#include "base/err.h"
#include "workers/models/files/weight_layout.h"

#define ADAPTER_CONFIG "adapter_config.json"

struct json_t;

struct adapter {      /* zeroed: none */
    char *base;       /* owned: the base as model_dir_find gives it */
    const char *file; /* of the matrices, in the adapter's folder; static */
    enum weight_format format;
    struct json_t *config; /* owned */
};

/* The adapter of a folder whose weight_layout_format is WEIGHT_FORMAT_ADAPTER. ERR_MODEL: it is
 * none that is understood whole, or its base is not here or an adapter itself. */
int adapter_read(const char *dir, struct adapter *ret, struct err *err);
void adapter_free(struct adapter *a);

/* By what the product of matrices of this rank is multiplied before it is added to the weights of
 * `module` ("model.encoder.layers.0.fc1"). */
double adapter_factor(const struct adapter *a, const char *module, double rank);

/* The folder or file that has a model's other files, newly allocated: an adapter's base, or `model`
 * itself. */
int adapter_base(const char *model, char **ret, struct err *err);

#endif
