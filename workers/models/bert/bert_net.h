/* workers/models/bert/bert_net.h - what the encoder consists of. Private to bert*.c. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_BERT_BERT_NET_H
#define NIGHTSHIFT_WORKERS_MODELS_BERT_BERT_NET_H

#include "workers/models/bert/bert.h"

struct bert_norm {
    struct tensor gamma, beta; /* [1][hidden] float32 */
};

struct bert_layer {
    struct linear *qkv, *out, *fc1, *fc2;
    struct bert_norm attention_norm, ffn_norm;
};

struct bert {
    struct backend *be;
    struct bert_config config;
    enum precision precision;
    enum dtype type; /* between the products */
    uint32_t tokens;
    struct tensor words;     /* [vocab][hidden] of `type` */
    struct tensor positions; /* [positions][hidden] float32, the type's vector added */
    struct bert_norm norm;
    struct bert_layer layers[BERT_MAX_LAYERS];
    struct token_row *rows, *staged; /* [tokens] in device memory, and in host memory */
    /* Scratch: [tokens][...]. A layer begins and ends with `x`, its middle is `h`; float32. */
    struct tensor x, h;
    struct tensor in;       /* [hidden] of `type`: what products read; none where that is float32 */
    struct tensor qkv;      /* [3 hidden] of `type` */
    struct tensor attended; /* [hidden] of `type` */
    struct tensor ffn;      /* [ffn] of `type` */
};

#endif
