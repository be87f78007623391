/* workers/models/whisper/whisper_net.h - Whisper's weights and sessions as they lie on the device.
 * Private to workers/models/whisper.
 *
 * log-mel [3000][mel] - conv 3/1, GELU - conv 3/2, GELU - + positions [1500][d]
 *   encoder layer, x times:  x += out(attend(qkv(norm(x))));  x += fc2(gelu(fc1(norm(x))))
 *   norm -> encoder output;  kv of every decoder layer from it, once a window
 * token + position [d]
 *   decoder layer, y times:  x += out(attend(qkv(norm(x)), own past));
 *                            x += out(attend(q(norm(x)), kv));  x += fc2(gelu(fc1(norm(x))))
 *   norm -> times the token embedding -> logits [vocabulary]
 *
 * The sums x are float32 throughout; the inputs of matrix products have the model's precision.
 *
 * A session's device memory. Branch b of slot s is slot s * branches + b of the decoder's own
 * caches, and looks at slot s of the cross-attention's. A branch stores its own rows in its own
 * slot. Rows that it shares with another branch (whisper_branch) stay in that one's slot, and
 * lies_in says where (gpu/backend.h, struct kv). So a beam search stores a position once for all
 * branches that share it. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_NET_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_NET_H

#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"

#define WHISPER_MAX_LAYERS 64
#define WHISPER_WIDE_WINDOWS 16 /* at once, where that is faster: 24000 rows fill any device */

#define WHISPER_PROMPT_ROWS 64 /* that a step has room for at least: a prompt in a few steps */
#define WHISPER_NORM_EPSILON 1e-5f

struct norm {
    struct tensor gamma, beta; /* [1][d] float32 */
};

struct encoder_layer {
    struct norm attention_norm, ffn_norm;
    struct linear *qkv; /* [3d][d]: query, key (without bias), value */
    struct linear *out; /* [d][d] */
    struct linear *fc1; /* [ffn][d] */
    struct linear *fc2; /* [d][ffn] */
};

struct decoder_layer {
    struct norm attention_norm, cross_norm, ffn_norm;
    struct linear *qkv, *out, *fc1, *fc2; /* as the encoder's */
    struct linear *cross_q;               /* [d][d] */
    struct linear *cross_kv;              /* [2d][d], over the encoder's output: wide */
    struct linear *cross_out;             /* [d][d] */
};

struct whisper {
    struct asr_model asr;
    struct backend *be;         /* borrowed */
    struct backend *encoder_be; /* be's fork, owned; `be` itself where it has none: what windows
                                   become keys and values on, while steps run on be */
    struct whisper_config config;
    enum dtype type;
    struct whisper_head heads[WHISPER_MAX_ALIGN_HEADS]; /* asr.align_heads of them */
    uint64_t weight_bytes;                /* and what the backend keeps to compute with them */
    uint64_t mel_bytes, mel_window_bytes; /* a session's log-mel: in any case, and per window */
    uint64_t window_scratch; /* what encoder_be keeps once a window has been encoded: at most so
                                much more for each further one at once */
    struct conv2d *conv1, *conv2;
    struct tensor encoder_positions; /* [1500][d] float32 */
    struct encoder_layer encoder[WHISPER_MAX_LAYERS];
    struct norm encoder_norm;
    struct tensor embedding;         /* [vocabulary][d] of `type` */
    struct tensor decoder_positions; /* [448][d] float32 */
    struct decoder_layer decoder[WHISPER_MAX_LAYERS];
    struct norm decoder_norm;
    struct linear *logits; /* the embedding again, packed; as the convolutions never of 8 bits,
                              which would cost words there and save little time */
};

static inline struct whisper *whisper_of(const struct asr_model *m)
{
    return (struct whisper *)(uintptr_t)m;
}

/* Windows that the encoder takes at once where the device may choose. */
static inline uint32_t whisper_wide_windows(const struct backend *be)
{
    return be->info.wide_batches && !be->info.deterministic ? WHISPER_WIDE_WINDOWS : 1;
}

/* Checks that the program can run this configuration: ERR_MODEL says what it cannot. */
int whisper_check_config(const struct whisper_config *c, struct err *err);

/* ---- sessions */

#define WHISPER_MAX_SLOTS 4096
#define WHISPER_BUCKETS 32 /* row counts that a step is recorded for; whisper_step.c */

struct branch {
    uint32_t seen;   /* tokens in its cache */
    uint32_t stored; /* others may have its own positions below, also where it has seen less */
    bool asked;      /* the last of them asked for a token: a row may follow it */
    /* These check a call's use of the branch. */
    uint64_t call; /* the last one that named it */
    uint32_t from; /* rows: its first position, */
    uint32_t next; /*   and the one that may follow */
    bool to;       /* moves: named as a destination */
};

/* A step of one row count: run once to prepare it, then recorded. */
struct bucket {
    bool prepared;
    struct recording *recording; /* NULL: not yet */
};

/* Windows of one call on their way through the encoder. */
struct wave {
    uint32_t n, *slots; /* [slots] */
    int64_t start;      /* clock_mono_ns */
};

/* A step whose choices the caller does not have yet. */
struct under_way {
    uint32_t n, answered; /* rows */
    bool top;
    int64_t start; /* clock_mono_ns */
};

struct whisper_session {
    struct asr_session asr;
    struct whisper *w;      /* borrowed */
    struct asr_shape shape; /* without zeros for what is chosen */
    uint32_t top;           /* candidates of a row; 0: none, a window has one branch */
    uint32_t own_slots;     /* slots * branches */
    uint32_t positions;     /* of a branch's cache */
    uint32_t pass_rows;     /* rows that an alignment feeds at once: at least asr.rows */
    /* Which positions of each slot's window there are, and of the windows in the scratch tensors
     * (whisper_encode.c). [slots], device memory of a host. */
    struct key_tail *window_keys, computed;
    int64_t peek;     /* slot whose window was put into the scratch tensors last; -1: none, or not
                         whole, as of a window with sparse silence */
    uint32_t peek_at; /* which of the windows there it is */
    bool *encoded;    /* [slots] */
    struct wave wave[ASR_WAVES];       /* wave i in place i % ASR_WAVES, */
    uint64_t waves_begun, waves_there; /*   for i from waves_there to waves_begun - 1 */
    bool marks;                        /* on a fork: of how far they are, from this box on */
    uint32_t wave_box;
    int64_t there_at;      /* clock_mono_ns */
    struct branch *branch; /* [slots * branches] */
    uint64_t calls;        /* that named branches */
    struct mel *mel;
    struct rules *rules;
    int32_t eot; /* of the rules */
    struct bucket bucket[WHISPER_BUCKETS];
    bool records;        /* the device records steps, and has had memory for it so far */
    uint32_t answer_box; /* asr.ahead: from this box on */
    struct under_way under_way[ASR_AHEAD]; /* step i in place i % ASR_AHEAD, */
    uint64_t begun, ended;                 /*   for i from `ended` to begun - 1 */
    int64_t ended_at;                      /* clock_mono_ns */
    char *cross; /* [slots][layers][whisper_cross_bytes]: keys and values of the windows */
    char *own;   /* [own_slots][layers][whisper_own_bytes]: and of the branches */
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
    /* and of `asr.rows` rows (here R) or `pass_rows` (here P). */
    struct tensor step_x; /* [P][d] float32 */
    struct tensor step_h, step_attended, step_q, step_qkv, step_ffn;
    struct tensor logits;         /* [R][vocabulary] float32, rows at multiples of 16 bytes */
    struct token_row *rows;       /* [P] */
    struct choice_ask *asks;      /* [P] */
    struct choice *choices;       /* [P] */
    struct candidate *candidates; /* [R][top] */
    struct token_tail *tails;     /* [R], by own slot */
    uint16_t *lies_in;            /* [own_slots][positions]; in a session of several branches */
    /* T: asr.align_tokens. */
    struct tensor scores;  /* [align_heads * T][1500] float32 */
    struct tensor aligned; /* [T][1500] float32 */
    uint32_t *first_frame; /* [T] */

    /* Host memory: what a call is about to give to the device, */
    struct audio *audio; /* [windows] */
    struct token_row *to_rows;
    uint16_t *to_lies_in;         /* what lies_in is to be; of own slots from lies_from to */
    uint32_t lies_from, lies_end; /*   lies_end - 1 the device does not have it yet */
    struct choice_ask *to_asks;
    /* and what it gave, answer i to row answered[i]. */
    uint32_t *answered; /* [R] */
    struct choice *from_choices;
    struct candidate *from_candidates;
    /* For alignments: of each window, and of each token. */
    struct align_window *to_windows; /* [T] */
    struct align_hold *to_hold;      /* [T] */
    uint32_t *from_first_frame;      /* [T] */
};

static inline struct whisper_session *whisper_session_of(struct asr_session *s)
{
    return (struct whisper_session *)s;
}

/* Bytes of a slot's cross-attention cache in one layer, and of the decoder's own. */
size_t whisper_cross_bytes(const struct whisper *w);
size_t whisper_own_bytes(const struct whisper *w, uint32_t positions);
/* A layer's cache over all slots. */
struct kv whisper_cross_kv(const struct whisper_session *s, uint32_t layer);
struct kv whisper_own_kv(const struct whisper_session *s, uint32_t layer);

/* Rows [0, n) of t. */
static inline struct tensor head_rows(struct tensor t, uint32_t n)
{
    t.rows = n;
    return t;
}

/* ERR_MODEL: not in the vocabulary. */
int whisper_check_token(const struct whisper_session *s, int32_t token, struct err *err);
/* The same of the n rows that lie in s->to_rows. */
int whisper_send_rows(struct whisper_session *s, uint32_t n, uint32_t width, struct err *err);
/* How many rows a step of n has with its padding, because devices that record steps prepare
 * themselves for each number; n itself elsewhere. index: its place among them. */
uint32_t whisper_step_width(const struct whisper_session *s, uint32_t n, uint32_t *index);
/* The same of a pass, whose number of rows has no place. */
uint32_t whisper_pass_width(const struct whisper_session *s, uint32_t n);

/* whisper_align's request to a pass: the scores of these heads for the first `rows` rows, which are
 * tokens [at, at + rows) of all windows together. */
struct look {
    const struct whisper_head *heads;
    uint32_t head_count, frames; /* frames: the most that a window has */
    uint32_t tokens, at, rows;
};

/* The rows that lie in s->rows, padding and all, to s->step_x, and on to s->logits. look: or NULL.
 */
int whisper_step_layers(struct whisper_session *s, uint32_t n, const struct look *look,
                        struct err *err);
/* Of rows [first, first + n), to the first n of s->logits; n <= asr.rows. */
int whisper_step_logits(struct whisper_session *s, uint32_t first, uint32_t n, struct err *err);
/* The scores of the heads of this layer, q being its queries. */
int whisper_look(struct whisper_session *s, uint32_t layer, struct tensor q,
                 const struct look *look, struct err *err);

/* Runs every kind of operation once on silence, so that what backends prepare at first use (plans,
 * scratch memory) is there before the first window. The model's layers are alike: one is enough. */
int whisper_warm_encoder(struct whisper_session *s, struct err *err);
int whisper_warm_decoder(struct whisper_session *s, struct err *err);

#endif
