/* workers/models/yamnet/yamnet_dir.h - what a YAMNet folder says beside its weights: that it is the
 * network that the program knows, and the names of the classes. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_DIR_H
#define NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_DIR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define YAMNET_PATCH 15600 /* samples at 16 kHz that one patch hears: 0.96 s and a frame's rest */
#define YAMNET_HOP 7680    /* from one patch to the next: 0.48 s */
#define YAMNET_FRAMES 96   /* of a patch, of YAMNET_FRAME samples every YAMNET_FRAME_HOP */
#define YAMNET_FRAME_HOP 160
#define YAMNET_FRAME 400
#define YAMNET_FFT 512
#define YAMNET_BINS 64
#define YAMNET_VECTOR 1024
#define YAMNET_MAX_CLASSES 4096
#define YAMNET_LAYERS 14
#define YAMNET_CONVOLUTIONS (2 * YAMNET_LAYERS - 1)

/* Layer 1 is a convolution from one channel; each other one is depthwise, then pointwise. */
struct yamnet_layer {
    uint32_t out, stride;
};

extern const struct yamnet_layer yamnet_layers[YAMNET_LAYERS];

struct yamnet_names { /* owned: yamnet_names_free */
    char **name;
    uint32_t count;
};

/* config.json: ERR_MODEL when its front end or its layers are not those of
 * workers/models/yamnet/yamnet.c.
 */
int yamnet_check_config(const char *dir, struct err *err);
/* classes.csv: a header, then "index,mid,display_name" from 0 on, RFC 4180's quotes. ERR_MODEL says
 * which line is wrong. */
int yamnet_names_read(const char *dir, struct yamnet_names *ret, struct err *err);
/* The same over memory; text: len bytes and a NUL, overwritten. */
int yamnet_names_parse(char *text, size_t len, struct yamnet_names *ret, struct err *err);
void yamnet_names_free(struct yamnet_names *n);

#endif
