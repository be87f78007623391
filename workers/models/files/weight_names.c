#include "workers/models/files/weight_names.h"

#include <stdio.h>
#include <string.h>

/* A part of a tensor name in Hugging Face's, OpenAI's and CTranslate2's spelling; "weight" or
 * "bias" follows a final point. CTranslate2 keeps queries, keys and values as parts of one matrix,
 * and calls its norms' values gamma and beta. */
struct name {
    const char *ours, *openai, *ct2;
    uint32_t part, parts;
};

/* Tensors outside of the layers. */
static const struct name whole[] = {
    {"model.encoder.conv1.", "encoder.conv1.", "encoder/conv1/", 0, 1},
    {"model.encoder.conv2.", "encoder.conv2.", "encoder/conv2/", 0, 1},
    {"model.encoder.embed_positions.weight", "encoder.positional_embedding",
     "encoder/position_encodings/encodings", 0, 1},
    {"model.encoder.layer_norm.", "encoder.ln_post.", "encoder/layer_norm/", 0, 1},
    {"model.decoder.embed_tokens.weight", "decoder.token_embedding.weight",
     "decoder/embeddings/weight", 0, 1},
    {"model.decoder.embed_positions.weight", "decoder.positional_embedding",
     "decoder/position_encodings/encodings", 0, 1},
    {"model.decoder.layer_norm.", "decoder.ln.", "decoder/layer_norm/", 0, 1},
};

/* Tensors of a layer, behind "model.encoder.layers.3.". */
static const struct name layer[] = {
    {"self_attn_layer_norm.", "attn_ln.", "self_attention/layer_norm/", 0, 1},
    {"self_attn.q_proj.", "attn.query.", "self_attention/linear_0/", 0, 3},
    {"self_attn.k_proj.", "attn.key.", "self_attention/linear_0/", 1, 3},
    {"self_attn.v_proj.", "attn.value.", "self_attention/linear_0/", 2, 3},
    {"self_attn.out_proj.", "attn.out.", "self_attention/linear_1/", 0, 1},
    {"encoder_attn_layer_norm.", "cross_attn_ln.", "attention/layer_norm/", 0, 1},
    {"encoder_attn.q_proj.", "cross_attn.query.", "attention/linear_0/", 0, 1},
    {"encoder_attn.k_proj.", "cross_attn.key.", "attention/linear_1/", 0, 2},
    {"encoder_attn.v_proj.", "cross_attn.value.", "attention/linear_1/", 1, 2},
    {"encoder_attn.out_proj.", "cross_attn.out.", "attention/linear_2/", 0, 1},
    {"fc1.", "mlp.0.", "ffn/linear_0/", 0, 1},
    {"fc2.", "mlp.2.", "ffn/linear_1/", 0, 1},
    {"final_layer_norm.", "mlp_ln.", "ffn/layer_norm/", 0, 1},
};

/* The row whose spelling `name` begins with, and the rest of the name. */
static const struct name *find_name_prefix(const struct name *rows, size_t n, const char *name,
                                           const char **rest)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(rows[i].ours);

        if (strncmp(name, rows[i].ours, len) == 0) {
            *rest = name + len;
            return &rows[i];
        }
    }
    return NULL;
}

struct found {
    const struct name *row;
    char network[8]; /* of a layer; else empty */
    unsigned number;
    const char *rest;
};

static bool look_up(const char *name, struct found *ret)
{
    int len = 0;

    *ret = (struct found){.rest = name};
    if (sscanf(name, "model.%7[a-z].layers.%4u.%n", ret->network, &ret->number, &len) == 2 && len) {
        ret->row =
            find_name_prefix(layer, sizeof(layer) / sizeof(layer[0]), name + len, &ret->rest);
    } else {
        ret->network[0] = 0;
        ret->row = find_name_prefix(whole, sizeof(whole) / sizeof(whole[0]), name, &ret->rest);
    }
    return ret->row;
}

bool weight_name_openai(const char *name, struct weight_alias *ret)
{
    char before[40] = "";
    struct found f;

    if (!look_up(name, &f))
        return false;
    if (f.network[0])
        snprintf(before, sizeof(before), "%s.blocks.%u.", f.network, f.number);
    ret->part = 0;
    ret->parts = 1;
    return snprintf(ret->name, sizeof(ret->name), "%s%s%s", before, f.row->openai, f.rest) <
           (int)sizeof(ret->name);
}

bool weight_name_ct2(const char *name, struct weight_alias *ret)
{
    char before[40] = "";
    struct found f;

    if (!look_up(name, &f))
        return false;
    if (f.network[0])
        snprintf(before, sizeof(before), "%s/layer_%u/", f.network, f.number);
    if (strstr(f.row->ct2, "layer_norm"))
        f.rest = strcmp(f.rest, "weight") == 0 ? "gamma" : "beta";
    ret->part = f.row->part;
    ret->parts = f.row->parts;
    return snprintf(ret->name, sizeof(ret->name), "%s%s%s", before, f.row->ct2, f.rest) <
           (int)sizeof(ret->name);
}
