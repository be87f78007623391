/* workers/models/whisper_session.h - what whisper_session.c, whisper_encode.c and whisper_step.c
 * share: the device memory of a session. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_SESSION_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_SESSION_H

#include "workers/models/whisper_net.h"

#define WHISPER_MAX_SLOTS 4096
#define WHISPER_BUCKETS 24 /* row counts that a step is recorded for; whisper_step.c */

struct slot {
    bool encoded;
    uint32_t seen; /* tokens in the decoder's cache */
};

/* A step of so many rows: run once to prepare it, then recorded. */
struct bucket {
    bool prepared;
    struct recording *recording; /* NULL: not yet */
};

struct whisper_session {
    struct whisper *w; /* borrowed */
    uint32_t slots;
    uint32_t windows;
    uint32_t kv_slots; /* one more where steps are recorded: padding rows write there */
    int64_t peek;      /* slot whose spectrogram and encoder output are still there; -1: none */
    uint32_t peek_at;  /* which of the windows in the scratch tensors it was */
    struct slot *slot;
    struct whisper_times times;
    struct mel *mel;
    struct rules *rules;
    struct bucket bucket[WHISPER_BUCKETS];
    bool records; /* the device records steps, and has had memory for it so far */
    char *cache;  /* [kv_slots][whisper_slot_bytes]: per layer cross, then own keys and values */
    void *workspace;

    /* Scratch tensors, of `windows` windows (here W) */
    struct tensor spectrogram;  /* [W * 3000][mel] float32 */
    struct tensor conv_in;      /* the same in the model's type */
    struct tensor conv1, conv2; /* [W * 3000][d], [W * 1500][d] */
    struct tensor x;            /* [W * 1500][d] float32: the running sum */
    struct tensor h, attended;  /* [W * 1500][d] */
    struct tensor qkv;          /* [W * 1500][3d] */
    struct tensor ffn;          /* [W * 1500][ffn] */
    struct tensor output;       /* [W * 1500][d] float32 */
    /* and of `slots` rows. */
    struct tensor step_x; /* [slots][d] float32 */
    struct tensor step_h, step_attended, step_q, step_qkv, step_ffn;
    struct tensor logits;    /* [slots][vocabulary] float32 */
    struct token_row *rows;  /* [slots] */
    struct choice_ask *asks; /* [slots] */
    struct choice *choices;  /* [slots] */

    /* Host memory: what a call is about to give to the device. */
    struct audio *audio;       /* [windows] */
    uint32_t *window_slots;    /* [windows] */
    struct token_row *to_rows; /* [slots] */
    struct choice_ask *to_asks;
};

/* Bytes of a slot's cross-attention cache in one layer, and of the decoder's own. */
size_t whisper_cross_bytes(const struct whisper *w);
size_t whisper_own_bytes(const struct whisper *w);
/* A layer's cache over all slots. */
struct kv whisper_cross_kv(const struct whisper_session *s, uint32_t layer);
struct kv whisper_own_kv(const struct whisper_session *s, uint32_t layer);

/* Rows [0, n) of t. */
static inline struct tensor head_rows(struct tensor t, uint32_t n)
{
    t.rows = n;
    return t;
}

/* Runs every kind of operation once on silence, so that what backends prepare at first use (plans,
 * scratch memory) is there before the first window. The model's layers are alike: one is enough. */
int whisper_warm_encoder(struct whisper_session *s, struct err *err);
int whisper_warm_decoder(struct whisper_session *s, struct err *err);

#endif
