/* tests/unit/models/yamnet_model.h - YAMNet with weights by formula: as a folder, and as plain
 * loops in double precision. */
#ifndef NIGHTSHIFT_TESTS_UNIT_MODELS_YAMNET_MODEL_H
#define NIGHTSHIFT_TESTS_UNIT_MODELS_YAMNET_MODEL_H

#include <stdint.h>

#include "tests/common/formula_weights.h"

#define YAMNET_MODEL_CLASSES 7

struct formula *yamnet_model(void);
/* Each into dir, which is made. stride2: of layer 2's depthwise convolution (1). */
void yamnet_model_config(const char *dir, const char *type, unsigned stride2);
void yamnet_model_classes(const char *dir, const char *text);      /* NULL: seven of them */
void yamnet_model_write(const struct formula *f, const char *dir); /* all three files */
/* One log-mel image [96][64]: vector [1024], scores [7]. */
void yamnet_model_run(struct formula *f, const float *image, double *vector, double *scores);

#endif
