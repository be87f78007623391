/* workers/models/yamnet/yamnet.h - which sounds there are: YAMNet on one device.
 *
 * 521 classes of AudioSet and 1024 values for each patch of 0.96 s, every 0.48 s. The folder holds
 * config.json, classes.csv and model.safetensors (docs/reference/models.md has the layout).
 * float32. A patch's result does not depend on the others (bit for bit on the host). One thread at
 * a time. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_H
#define NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/yamnet/yamnet_dir.h"

#define YAMNET_MAX_PATCHES 4096 /* of a call */

struct backend;
struct yamnet;

/* dir: as model_dir_find gives it. patches: that a call takes at most; 0: chosen. be borrowed. */
int yamnet_load(const char *dir, struct backend *be, uint32_t patches, struct yamnet **ret,
                struct err *err);
void yamnet_free(struct yamnet *y); /* NULL is fine */
uint32_t yamnet_patches(const struct yamnet *y);
uint32_t yamnet_classes(const struct yamnet *y);
const char *yamnet_class_name(const struct yamnet *y, uint32_t class_id); /* UTF-8, owned by y */
uint64_t yamnet_predict_bytes(uint32_t patches);
/* The patches of n samples: YAMNET_PATCH, and one more for each further YAMNET_HOP; a last one that
 * is not whole is padded with zeros, so that every sample is heard; at least 1. */
uint32_t yamnet_count(size_t n);
/* pcm: [-1, 1], n samples, at most yamnet_patches patches; a sample that is no number is silence.
 * scores: [patches][classes], 0 .. 1
 * (each class by itself); vectors: [patches][YAMNET_VECTOR], or NULL. ERR_MODEL when something
 * computed is no number. */
int yamnet_run(struct yamnet *y, const float *pcm, size_t n, float *scores, float *vectors,
               struct err *err);

/* ---- for tests: what it hears, and what lies between its convolutions */

/* The log-mel of n samples' patches, [patches][96][64] to ret; as yamnet_run otherwise. */
int yamnet_listen(struct yamnet *y, const float *pcm, size_t n, float *ret, struct err *err);

/* One patch's log-mel image ([96][64]) after the first `convolutions` (1 .. YAMNET_CONVOLUTIONS):
 * [height][width][channels] to ret, at most 98304 values. */
int yamnet_look(struct yamnet *y, const float *image, uint32_t convolutions, float *ret,
                struct err *err);

#endif
