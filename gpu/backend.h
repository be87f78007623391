/* gpu/backend.h - a device, as the table of operations that models are written against.
 *
 * The host backend (gpu/host) is always there. Others implement the same table in modules that are
 * opened at run time (gpu/devices/devices.h), so nothing here may name a library of theirs. Objects
 * that an operation prepares (packed weights, plans) are opaque to the models and belong to the
 * backend that made them; they must be freed before it is closed.
 *
 * One thread calls a backend at a time, and several backends are independent. Operations are
 * ordered, and may still be under way when the call returns; `sync`, `get` and `read` wait. A
 * backend may be *forked*: the fork is a second order of operations on the same device. A fork may
 * have a thread of its own, beside the one that calls the backend: each of them calls one of the
 * two, and they allocate from the same memory (backend_home). Shapes are checked by every
 * operation: a mismatch is ERR_DEVICE with a sentence, because it can only be
 * a fault of ours. A failed allocation is ERR_VRAM, after which everything that existed before is
 * still valid. ERR_DEVICE from anything else means that the device is lost to this process.
 *
 * Words: a *window* is one sequence of a fixed length that fills the encoder; wide operations take
 * several windows as one matrix, one below the other. A *slot* is one sequence that the decoder
 * works on: of its own cache (one per hypothesis), or of the cross-attention's (one per window); a
 * decoder step has one *row* for each token that is fed. Several rows of one step may be of one
 * slot when their positions follow each other (a prompt). Rows are described in device memory
 * (struct token_row), so that a recorded step can run again with other rows.
 *
 * If a device has fp8, rows that only its products read need not be written in 16 bits before they
 * are rounded to 8: layer_norm, copy and a linear with GELU write tensors of DTYPE_E4M3, which
 * linear takes as x. Row r is rounded to e4m3 after it was divided by scales[r], its largest
 * magnitude / 448; a row that is not finite has the scale NaN. Such a tensor begins at a multiple
 * of 16 bytes; its columns and its stride are multiples of 16. */
#ifndef NIGHTSHIFT_GPU_BACKEND_H
#define NIGHTSHIFT_GPU_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/filter_bank.h"
#include "gpu/precision.h"
#include "gpu/tensor.h"

#define BACKEND_HEAD_SIZE 64    /* of every attention: all Whisper models have it */
#define BACKEND_MAX_KEYS 1536   /* keys that an attention may see */
#define BACKEND_MAX_E4M3 6144   /* columns that a linear may yield in 8 bits */
#define BACKEND_MAX_RATE 65536u /* of the two rates of a resampling */

struct backend;
struct buf;         /* base/buf.h */
struct linear;      /* packed weights of y = x W^T + b */
struct mel;         /* plan and scratch of a log-mel spectrogram */
struct filter_bank; /* plan of energies of mel bins */
struct rules;       /* which token may follow: tables on the device */
struct recording;   /* a sequence of operations that can be run again */
struct lstm;        /* packed weights of one layer of a long short-term memory */
struct resampling;  /* weights of rows at another rate */
struct conv2d;      /* packed weights of a convolution over two dimensions (or one: height 1) */

enum epilogue {
    EPILOGUE_NONE, /* y = r */
    EPILOGUE_GELU, /* y = gelu(r), the exact one (erf) */
    EPILOGUE_ADD,  /* y = y + r */
    EPILOGUE_RELU, /* y = max(r, 0) */
    /* Only conv2d takes this one: */
    EPILOGUE_ADD_RELU, /* y = max(y + r, 0); a NaN stays one */
};

/* Whether the result depends on what y held before. */
static inline bool epilogue_adds(enum epilogue e)
{
    return e == EPILOGUE_ADD || e == EPILOGUE_ADD_RELU;
}

enum linear_use {
    LINEAR_WIDE, /* hundreds of rows; with the same number of them results repeat bit for bit */
    LINEAR_ROWS, /* few rows: on the host, and with `deterministic`, a row's result does not depend
                    on the others or on their number */
};

/* One row of a decoder step. In device memory; whoever writes it has checked it. */
struct token_row {
    int32_t slot;  /* of the decoder's own key/value caches; -1: the row is nobody's: it stores
                      nothing, looks at nothing, and what comes of it is undefined */
    int32_t pos;   /* 0-based position in the sequence */
    int32_t token; /* to be fed there */
    int32_t cross; /* slot of the window's keys and values; hypotheses of a window share it */
};

/* The last keys of a long window may stand for many that are alike: of `keys` keys those from
 * `dense` on count `times` times each in the sum of the soft maximum, as if they were repeated. */
struct key_tail {
    uint32_t keys, dense; /* 1 <= dense <= keys */
    uint32_t times;       /* at least 1, which is no tail */
};

/* Keys and values of many slots and one layer, all heads, in the order in which the device's
 * attention reads them: kv_bytes() bytes for each slot, `slot_stride` apart.
 *
 * DTYPE_I8: a slot's values x of one head and one of its 64 dimensions are round(x / s), to the
 * nearest even, with s the largest magnitude among them / 127, kept beside them in float32; sums
 * are float32. A largest magnitude below 1e-36 leaves zeros; where one is not finite, so is s. Such
 * a cache is filled by kv_fill, whole, and looked at by `cross`; the rest of the operations refuse
 * it. Its queries, outputs, keys and values are of any type that the device's attention has. */
struct kv {
    enum dtype type;
    uint32_t heads;
    uint32_t capacity; /* keys of a slot; at most BACKEND_MAX_KEYS */
    uint32_t slots;
    size_t slot_stride; /* bytes; a multiple of 64 */
    void *data;         /* borrowed, device memory, zeroed before its first use */
    /* The decoder's own cache lets hypotheses share the keys that they have in common: key p of
     * slot s is key p of slot lies_in[s * capacity + p]. The last key of a row, its own, is in the
     * row's slot. Only attention with keys 0 reads this, when it runs: keys are always stored in
     * the slot itself. Device memory, [slots][capacity], borrowed; its writer has checked it. NULL:
     * all keys are in slot s. */
    const uint16_t *lies_in;
    /* Of a window's cache, where the device has attention_tail: what attention_rows with keys > 0
     * takes of each slot instead of `keys`. [slots], device memory, borrowed; its writer has
     * checked it, keys <= capacity. NULL: all slots have `keys`. */
    const struct key_tail *tails;
};

struct audio {        /* one window's, in host memory */
    const float *pcm; /* [-1, 1] at 16 kHz */
    size_t n;         /* at most 480000; padded with zeros to that */
};

/* Tables of the rules by which Whisper chooses a token. Ids are below `vocab`; -1: has none. */
struct rules_spec {
    uint32_t vocab; /* of the logits */
    int32_t eot, no_speech;
    int32_t timestamp_begin, timestamp_end; /* first and last timestamp */
    int32_t max_initial;                    /* the last timestamp that may come first */
    const int32_t *never, *never_first;     /* never produced; not produced first */
    uint32_t never_count, never_first_count;
    const int32_t *languages;
    uint32_t language_count;
};

enum {
    CHOOSE_TOKEN = 1,
    CHOOSE_START = 2,    /* no-speech probability and language */
    CHOOSE_GIVEN = 4,    /* not with TOKEN: no rules; how likely is token `last` among the ids below
                            eot? -> logprob (natural logarithm), token = last (-1: it is not one of
                            them, or the row is not usable there) */
    CHOOSE_NO_TIMES = 8, /* with TOKEN: timestamps are never produced, and none is asked for */
};

/* The question to one row's logits. In device memory. */
struct choice_ask {
    int32_t count; /* tokens produced so far, without the prompt */
    int32_t last;  /* the last of them, and the one before; -1: none */
    int32_t before;
    int32_t last_time; /* the last timestamp among them; -1: none */
    uint32_t what;     /* CHOOSE_ bits */
    float temperature; /* 0: the likeliest */
    double uniform;    /* in [0, 1): what a draw is made with */
};

#define TOKEN_FOLLOWS (-2) /* of a token_row: what was chosen for its slot last; see follow */

/* A slot's state after its last choice. In device memory, [slots], zeroed at first: nothing
 * follows. */
struct token_tail {
    int32_t open;  /* 0: nothing follows: it has ended, or no token could be chosen */
    int32_t token; /* chosen last: what a row that follows feeds */
    int32_t count; /* of the question of such a row, as are: */
    int32_t before, last_time;
};

/* The answer, in device memory. Ties go to the lowest id; logits that are NaN count as minus
 * infinity. CHOOSE_START looks at the logits before the rules have masked any. */
struct choice {
    int32_t token;    /* -1: nothing is allowed */
    int32_t language; /* id; -1: the model has none */
    int32_t usable;   /* the logits hold a finite number, and no +infinity */
    int32_t unused;
    double logprob; /* of the token under the masked logits, at temperature 1 */
    double language_prob, no_speech;
};

/* One of the likeliest tokens. In device memory. */
struct candidate {
    int32_t token; /* -1: fewer were allowed */
    int32_t unused;
    double logprob; /* natural logarithm, at temperature 1 */
};

#define BACKEND_BOXES 16
#define BACKEND_BOX_BYTES ((size_t)4 << 20)
#define BACKEND_MAX_TOP 33 /* candidates of a row */

/* A convolution over images that lie row by row, channels last. */
struct conv2d_spec {
    int64_t in, out;
    bool depthwise;                    /* out == in, and each channel sees itself alone */
    uint32_t kernel_h, kernel_w;       /* 1 .. 255 */
    uint32_t stride_h, stride_w;       /* 1 .. 255 */
    uint32_t top, bottom, left, right; /* zeros around each image, less than the kernel's size */
};

/* Rows at another rate, interpolated. Row i of the output lies at row i down / up of the input: it
 * is the sum of `taps` input rows, from row floor(i down / up) - before on, each times its weight
 * in phase i down % up. Rows whose weight is 0 are not looked at. */
struct resample_spec {
    uint32_t up, down; /* 1 .. BACKEND_MAX_RATE */
    uint32_t taps;     /* 1 .. 1024 */
    uint32_t before;   /* less than taps */
    bool keep_ends;    /* beyond its ends a window goes on as its first and its last row; else it is
                          zeros there */
};

enum activation {
    ACTIVATION_RELU,
    ACTIVATION_LEAKY_RELU, /* x < 0: x / 100 */
    ACTIVATION_ABS,
    ACTIVATION_GELU, /* the exact one (erf) */
    ACTIVATION_TANH,
    ACTIVATION_SIGMOID,
};

enum pool { POOL_MEAN, POOL_MAX, POOL_FIRST };

/* Sequences of different lengths, one below the other: sequence i is rows at[i] .. at[i + 1] - 1 of
 * a tensor whose rows are at[count]. Host memory, may be reused at once; at[0] = 0, ascending. */
struct spans {
    const uint32_t *at; /* [count + 1] */
    uint32_t count;
};

/* attention_spans adds this to its scores before the softmax: table `set[i]` for sequence i; each
 * sequence has length n: [sets * heads * n][n] float32, head by head. */
struct attention_bias {
    struct tensor tables;
    uint32_t sets;
    const uint32_t *set; /* [spans.count], host memory, may be reused at once */
};

struct backend_info {
    char name[64];         /* "AMD EPYC 9654", "NVIDIA H200": for people */
    char id[64];           /* "cpu", a GPU's UUID: stable */
    uint64_t memory_total; /* bytes */
    uint64_t memory_free;  /* when it was opened */
    uint32_t threads;      /* host: threads that operations use; 0 elsewhere */
    uint32_t processors;   /* multiprocessors of a GPU; 0 elsewhere */
    precision_set have;    /* what it computes in hardware (PRECISION_F32 always) */
    bool deterministic;    /* results do not depend on how windows and rows were grouped */
    bool wide_batches;     /* several windows in one operation are faster than one after another */
    char features[96];     /* "avx512, bf16", "sm_90": for people */
};

/* One direction of a layer of a long short-term memory, gates in the order input, forget, cell,
 * output (as PyTorch's); host memory. */
struct lstm_weights {
    const float *w_ih; /* [4 hidden][in] */
    const float *w_hh; /* [4 hidden][hidden] */
    const float *b_ih; /* [4 hidden] or NULL */
    const float *b_hh;
};

/* A window's part of what is aligned: its rows follow those of the window before. */
struct align_window {
    uint32_t rows, frames; /* at least 1 */
    uint32_t path, length; /* warp: of its rows those from `path` on, so many, at least 1 */
};

/* The frames at which a row of a path may be; `to` may lie beyond the last. */
struct align_hold {
    uint32_t from, to;
};
#define ALIGN_HELD_COST 1000.0 /* of any other frame: costs are standard deviations */

/* The rows of n windows of at most `cols` frames; 0: none, or one cannot be aligned. */
static inline int64_t backend_align_rows(const struct align_window *windows, uint32_t n,
                                         int64_t cols)
{
    int64_t rows = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct align_window *w = &windows[i];

        if (w->rows < 1 || w->frames < 1 || (int64_t)w->frames > cols ||
            w->frames > BACKEND_MAX_KEYS || w->path > w->rows || w->length > w->rows - w->path)
            return 0;
        rows += w->rows;
    }
    return rows;
}

/* Whether each of them has a path. */
static inline bool backend_align_paths(const struct align_window *windows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (windows[i].length < 1)
            return false;
    return true;
}

struct backend_ops {
    void (*close)(struct backend *be);
    int (*sync)(struct backend *be, struct err *err);

    /* Device memory, zeroed, aligned for any use. */
    int (*alloc)(struct backend *be, size_t bytes, void **ret, struct err *err);
    void (*release)(struct backend *be, void *p); /* accepts NULL */
    /* Between host memory of the caller (dense, float32) and a tensor of any type. */
    int (*put)(struct backend *be, struct tensor dst, const float *src, struct err *err);
    int (*get)(struct backend *be, float *dst, struct tensor src, struct err *err);
    /* Bytes, as they are: to the device (src may be reused at once), and from it. */
    int (*write)(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err);
    int (*read)(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err);
    /* dst = src, converting between types. src's rows may overlap: a stride below its columns. */
    int (*copy)(struct backend *be, struct tensor dst, struct tensor src, struct err *err);

    /* w: [out][in] float32 in host memory, bias: [out] or NULL; copied. rows: how many x will
     * mostly have (wide ones are packed for that). ERR_MODEL when the device cannot do it. */
    int (*linear_new)(struct backend *be, enum precision precision, enum linear_use use,
                      int64_t rows, int64_t out, int64_t in, const float *w, const float *bias,
                      struct linear **ret, struct err *err);
    void (*linear_free)(struct backend *be, struct linear *l);
    /* x: [rows][in] of precision_type, y: [rows][out] float32 or of that type. If y's stride is
     * `out` rounded up to a multiple of 8, the columns between them may be overwritten: they must
     * be y's own, whose columns begin the rows. In fp8, x may be DTYPE_E4M3. So may y, with GELU
     * and out <= BACKEND_MAX_E4M3: its stride is at least 2 * out, and all of that is overwritten.
     * ERR_MODEL when the device has no product of that shape and those types; it is not lost then.
     * Every epilogue but ADD_RELU. */
    int (*linear)(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                  struct tensor y, struct err *err);

    /* Over the columns; gamma, beta: [1][cols] float32; x float32, y any (DTYPE_E4M3: of at most
     * 1536 columns, and x as aligned as y); epsilon > 0. */
    int (*layer_norm)(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                      float epsilon, struct tensor y, struct err *err);
    /* Row r of y += row r % x.rows of x, both float32. */
    int (*add)(struct backend *be, struct tensor y, struct tensor x, struct err *err);
    /* Row i of y = table[rows[i].token] + positions[rows[i].pos], y float32. */
    int (*embed)(struct backend *be, struct tensor table, struct tensor positions,
                 const struct token_row *rows, struct tensor y, struct err *err);

    size_t (*kv_bytes)(enum dtype type, uint32_t heads,
                       uint32_t capacity); /* of a slot; % 64 = 0 */
    /* Rows of window i of k and v ([windows * n][heads * 64], the cache's type, or for DTYPE_I8 one
     * of the others) become keys 0..n-1 of slot slots[i] (host memory, may be reused at once). */
    int (*kv_fill)(struct backend *be, struct kv kv, const uint32_t *slots, uint32_t windows,
                   struct tensor k, struct tensor v, struct err *err);
    /* Row i of k and v becomes key rows[i].pos of slot rows[i].slot; rows of one slot by rising
     * position. */
    int (*kv_append)(struct backend *be, struct kv kv, const struct token_row *rows,
                     struct tensor k, struct tensor v, struct err *err);
    /* out = softmax(q k^T / 8) v within each window and head, without a mask. All [windows * n]
     * [heads * 64] of one type, n <= BACKEND_MAX_KEYS; they may be columns of one tensor. */
    int (*attention)(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                     struct tensor v, struct tensor out, struct err *err);
    /* The same of one window whose keys have a tail, tail.keys == q.rows. NULL where the device
     * takes whole windows alone (CUDA: its attention takes many of one length). */
    int (*attention_tail)(struct backend *be, struct tensor q, struct tensor k, struct tensor v,
                          struct key_tail tail, struct tensor out, struct err *err);
    /* attention for single queries: row i of q looks at the first `keys` keys of slot
     * rows[i].cross; keys 0: at the first rows[i].pos + 1 of slot rows[i].slot, wherever they lie
     * (struct kv). A row's result does not depend on the others. */
    int (*attention_rows)(struct backend *be, struct tensor q, struct kv kv,
                          const struct token_row *rows, uint32_t keys, struct tensor out,
                          struct err *err);

    /* The scores of one head of that attention, before its softmax: out[i][j] = q_i . k_j / 8 of
     * head `head`, keys j < keys of slot rows[i].cross. q: [n][heads * 64] as of attention_rows,
     * out: [n][keys] float32. */
    int (*attention_scores)(struct backend *be, struct tensor q, struct kv kv,
                            const struct token_row *rows, uint32_t head, uint32_t keys,
                            struct tensor out, struct err *err);
    /* How the tokens of n windows follow their audio, from the scores of `heads` heads, one head
     * below the other ([heads * rows of all windows][>= frames] float32, overwritten). In each
     * window by itself: softmax over its frames, each column standardised over its head's rows
     * (mean 0, population deviation 1; 0 where they are all equal), a median of 7 over the frames
     * (reflected at both ends; frames <= 3: left as they are), mean of the heads. out: [rows of all
     * windows][>= frames] float32, what is beyond a window's frames is left as it was.
     * windows: host memory, may be reused at once. openai-whisper's timing.py. */
    int (*align)(struct backend *be, struct tensor scores, uint32_t heads,
                 const struct align_window *windows, uint32_t n, struct tensor out,
                 struct err *err);

    /* Dynamic time warping: the path through rows [path, path + length) of each window from its
     * first frame to its last whose values, as align gave them, sum to the most. A step goes one
     * frame on, one row on, or both; of equals it goes one frame on, whatever the third is:
     * openai-whisper's rule. Sums are float64, so that results do not depend on the device.
     *   hold: NULL, or [rows of all windows], host memory, may be reused at once
     *   work: [rows of all windows][>= frames] float32, overwritten
     *   first_frame: [rows of all windows], device memory: the first frame at which the path is in
     *     that row, 0 in its first row; other rows' are left as they were
     * What is no number makes a path of no meaning. Recorded sequences do not hold it. */
    int (*warp)(struct backend *be, struct tensor matrix, const struct align_window *windows,
                uint32_t n, const struct align_hold *hold, struct tensor work,
                uint32_t *first_frame, struct err *err);

    /* Whisper's log-mel spectrogram of 30 s windows at 16 kHz: bins 1 .. 256; at most `windows` at
     * once. */
    int (*mel_new)(struct backend *be, uint32_t bins, uint32_t windows, struct mel **ret,
                   struct err *err);
    void (*mel_free)(struct backend *be, struct mel *m);
    /* out: [windows * 3000][bins] float32, time by bin. The audio may be reused at once, and is cut
     * as filter_bank_sample says: what is no number would spoil the window's maximum. */
    int (*mel)(struct backend *be, struct mel *m, const struct audio *audio, uint32_t windows,
               struct tensor out, struct err *err);

    /* The spec is copied. ERR_USAGE when there are no such filters; ERR_MODEL when the device has
     * no transform of that length (CUDA: 400, 512 and 1024 samples alone). */
    int (*filter_bank_new)(struct backend *be, const struct filter_bank_spec *spec,
                           struct filter_bank **ret, struct err *err);
    void (*filter_bank_free)(struct backend *be, struct filter_bank *f);
    /* Frames of windows of `samples` each, of which window i begins at sample at[i] (host memory,
     * may be reused at once); they may lie over each other. pcm: [1][n] float32, cut as
     * filter_bank_sample says; out: [windows * frames][bins] float32, dense, frames =
     * filter_bank_frames(spec, samples) > 0.
     * Computed in float64; a window's result does not depend on the others. Recorded sequences do
     * not hold it. */
    int (*filter_bank)(struct backend *be, struct filter_bank *f, struct tensor pcm,
                       const uint32_t *at, uint32_t windows, size_t samples, struct tensor out,
                       struct err *err);

    /* The spec is copied. ERR_MODEL when an id is not below vocab. */
    int (*rules_new)(struct backend *be, const struct rules_spec *spec, struct rules **ret,
                     struct err *err);
    void (*rules_free)(struct backend *be, struct rules *r);
    /* Masks row i of logits ([n][vocab] float32; overwritten) by the rules and chooses: ask[i] to
     * ret[i], both device memory. */
    int (*choose)(struct backend *be, const struct rules *r, struct tensor logits,
                  const struct choice_ask *ask, struct choice *ret, struct err *err);

    /* After choose, from the logits as it left them: each row's k <= BACKEND_MAX_TOP likeliest
     * tokens, likeliest first, of equals the lowest id first, none from a row that is not usable;
     * ret: [n][k], device memory. */
    int (*top)(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
               struct err *err);

    /* One layer, of one direction, which is forward, or two, forward and backward; float32, copied.
     * hidden <= 512, a multiple of 8. */
    int (*lstm_new)(struct backend *be, int64_t in, int64_t hidden, uint32_t directions,
                    const struct lstm_weights *w, struct lstm **ret, struct err *err);
    void (*lstm_free)(struct backend *be, struct lstm *l);
    /* x: [sequences * steps][in] float32, each sequence's steps one below the other; y: [sequences
     * * steps][directions * hidden] (may be columns of a wider tensor), forward beside backward,
     * each at the step that it belongs to; h, c: [directions * sequences][hidden], the state before
     * and after, backward below forward. lengths: host memory, steps of each sequence (y beyond
     * them is 0), or NULL: all; backward begins with the last of them. A sequence's result does not
     * depend on the others. Recorded sequences do not hold it. */
    int (*lstm)(struct backend *be, struct lstm *l, uint32_t sequences, struct tensor x,
                const uint32_t *lengths, struct tensor h, struct tensor c, struct tensor y,
                struct err *err);
    /* y[r][i] = |x[r][i] + i x[r][n + i]|, x: [rows][2n], y: [rows][n], float32. */
    int (*magnitude)(struct backend *be, struct tensor x, struct tensor y, struct err *err);

    /* w: [out][in][kernel_h][kernel_w], or [out][kernel_h][kernel_w] when depthwise (float32 then,
     * whatever the precision); bias: [out] or NULL; host memory, copied. ERR_MODEL when the device
     * cannot do it. */
    int (*conv2d_new)(struct backend *be, enum precision precision, const struct conv2d_spec *spec,
                      const float *w, const float *bias, struct conv2d **ret, struct err *err);
    void (*conv2d_free)(struct backend *be, struct conv2d *c);
    /* x: [images * height * width][in] of precision_type (float32 when depthwise); y: [images *
     * out_height * out_width][out] float32 or of that type, where out_height = (top + height +
     * bottom - kernel_h) / stride_h + 1; both dense. An image's result does not depend on the
     * others where the device is deterministic. Recorded sequences do not hold it. */
    int (*conv2d)(struct backend *be, struct conv2d *c, uint32_t images, uint32_t height,
                  uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                  struct err *err);
    /* y = f(x), element by element; x float32, y any; they may be one tensor. */
    int (*activate)(struct backend *be, enum activation f, struct tensor x, struct tensor y,
                    struct err *err);
    /* Each column of each window over its x.rows / windows rows to mean 0 and population deviation
     * 1 (epsilon > 0 within the root), then times gamma plus beta ([1][cols] float32). x, y
     * float32; they may be one tensor. */
    int (*instance_norm)(struct backend *be, uint32_t windows, struct tensor x, struct tensor gamma,
                         struct tensor beta, float epsilon, struct tensor y, struct err *err);
    /* The largest of `size` rows every `size` rows of each window; a rest is left out. magnitudes:
     * of the values' magnitudes. x: [windows * n][cols], y: [windows * (n / size)][cols], float32.
     */
    int (*max_pool)(struct backend *be, uint32_t windows, uint32_t size, bool magnitudes,
                    struct tensor x, struct tensor y, struct err *err);
    /* The spec and w ([up][taps] float32, host memory) are copied. */
    int (*resample_new)(struct backend *be, const struct resample_spec *spec, const float *w,
                        struct resampling **ret, struct err *err);
    void (*resample_free)(struct backend *be, struct resampling *r);
    /* Each window of x by itself, x: [windows * n][cols], y: [windows * m][cols], float32. lengths:
     * the rows of each window that count, 1 .. n (host memory, may be reused at once); NULL: all.
     * Rows of y that lie behind the last of them are zeros; each other row is multiplied with
     * gamma, and beta is added ([1][cols] float32, both or neither; NULL: neither). A window's
     * result does not depend on the others. Recorded sequences do not hold it. */
    int (*resample)(struct backend *be, struct resampling *r, uint32_t windows,
                    const uint32_t *lengths, struct tensor x, const struct tensor *gamma,
                    const struct tensor *beta, struct tensor y, struct err *err);
    /* One row for each sequence: the mean or the largest of its rows (sums in ascending order), or
     * its first one. No sequence is empty. x: [at[count]][cols], y: [count][cols], float32.
     * Recorded sequences do not hold it. */
    int (*pool)(struct backend *be, enum pool kind, struct spans spans, struct tensor x,
                struct tensor y, struct err *err);
    /* Weighted mean and deviation over the rows of window of[i] (host memory, may be reused at
     * once), for each of n = weights.rows sets of weights: with v1 = sum(w) + 1e-8, v2 = sum(w^2):
     * mean = sum(w x) / v1; deviation = sqrt(sum(w (x - mean)^2) / (v1 - v2 / v1 + 1e-8)), as
     * pyannote.audio's StatsPool. x: [windows * t][c], weights: [n][t] >= 0, y: [n][2c] (means,
     * then deviations), float32. Recorded sequences do not hold it. */
    int (*weighted_stats)(struct backend *be, uint32_t windows, struct tensor x, const uint32_t *of,
                          struct tensor weights, struct tensor y, struct err *err);
    /* Row i of y = row rows[i] of x; -1: zeros. rows: device memory, each below x.rows (whoever
     * writes it has checked it). One type; x and y do not overlap. */
    int (*gather)(struct backend *be, struct tensor x, const int32_t *rows, struct tensor y,
                  struct err *err);
    /* out = softmax(scale q k^T + bias) v within each sequence and head. q, k, v, out: [at[count]]
     * [heads * head_size] of one type, each possibly columns of a wider one; head_size a multiple
     * of 8 up to 128; a sequence has at most BACKEND_MAX_KEYS rows. bias NULL: none. A sequence's
     * result does not depend on the others. Recorded sequences do not hold it. */
    int (*attention_spans)(struct backend *be, struct spans spans, uint32_t heads,
                           uint32_t head_size, float scale, struct tensor q, struct tensor k,
                           struct tensor v, const struct attention_bias *bias, struct tensor out,
                           struct err *err);

    /* NULL, all five, where a device gains nothing by it (the host): so that steps follow each
     * other without the caller, who learns of a step's choices while the next one runs. follow: of
     * rows i < n whose token is TOKEN_FOLLOWS that becomes the one in tails[rows[i].slot], and
     * count, last, before and last_time of asks[i] become what they are with it. If nothing
     * follows, the row is nobody's from then on, and asks for nothing. */
    int (*follow)(struct backend *be, const struct token_tail *tails, struct token_row *rows,
                  struct choice_ask *asks, uint32_t n, struct err *err);
    /* After choose: the tails of the slots of rows that asked for a token; no slot has two such
     * rows. Nothing follows eot, nor where no token was chosen or the row is not usable. */
    int (*note)(struct backend *be, const struct rules *r, const struct token_row *rows,
                const struct choice_ask *asks, const struct choice *choices, uint32_t n,
                struct token_tail *tails, struct err *err);
    /* A copy of device memory on its way to the host, after what was asked for before and while
     * what comes later runs: into a box that was taken, at most BACKEND_BOX_BYTES; of 0 bytes it is
     * a mark of how far `be` is. collect: sleeps until it is there; dst: host memory. posted: *ret:
     * whether it is there; waits for nothing. Once it is known to be there, operations that are
     * begun on other backends come after all that it came after. Recorded sequences hold none of
     * the three. */
    int (*post)(struct backend *be, uint32_t box, const void *src, size_t bytes, struct err *err);
    int (*collect)(struct backend *be, uint32_t box, void *dst, size_t bytes, struct err *err);
    int (*posted)(struct backend *be, uint32_t box, bool *ret, struct err *err);

    /* NULL where a device gains nothing by it (the host). Between begin and end operations are
     * recorded, not run; only those above that neither wait nor prepare may be called. run: as if
     * they were called again, on whatever their device memory holds then. */
    int (*record_begin)(struct backend *be, struct err *err);
    int (*record_end)(struct backend *be, struct recording **ret, struct err *err);
    int (*record_run)(struct backend *be, struct recording *r, struct err *err);
    void (*record_free)(struct backend *be, struct recording *r);

    /* NULL, both, where a device runs one operation at a time (the host). The fork's operations are
     * ordered among themselves, and beside be's they have no order but what `after` gives. The fork
     * uses what `be` has prepared and allocated. Its own allocations count in be, and its
     * `allocated` stays 0. While this runs nobody else calls be. The fork is closed before be; a
     * fork of a fork is one more of be. If both want the device, the operations of a fork that
     * `leads` come before be's, and those of another after them. A device that has forks has
     * boxes. */
    int (*fork)(struct backend *be, bool leads, struct backend **ret, struct err *err);
    /* Later operations of `be` begin after all earlier ones of `other` have ended. The call itself
     * does not wait. One is the other's fork, and one thread calls both. Recorded sequences do not
     * hold it. */
    int (*after)(struct backend *be, struct backend *other, struct err *err);

    /* NULL, all three, where an operation has one way (the host). Between rehearse(true) and
     * rehearse(false) what operations compute is of no account: what a device has several ways of
     * it may try in turn, and keep to the fastest. Not within a recording; a failed call ends it.
     */
    int (*rehearse)(struct backend *be, bool on, struct err *err);
    /* Puts what rehearsals have found, forks' among it, behind ret's content: for a later process
     * with this device. Nothing where they have found nothing. */
    int (*recall)(struct backend *be, struct buf *ret, struct err *err);
    /* Takes what `recall` gave, before the operations that it is about. The bytes need not be
     * trusted. ERR_EMPTY: it is of another device or library, and nothing is taken; ERR_INPUT: it
     * is no such thing. */
    int (*learn)(struct backend *be, const void *data, size_t bytes, struct err *err);
};

/* The first member of each backend's own struct. */
struct backend {
    const struct backend_ops *ops;
    struct backend_info info;
    struct backend *forked; /* what a fork was made of, and no fork itself; NULL: it is no fork */
    /* Of a backend that has forks: backend_memory, while they have threads of their own. */
    uint64_t allocated; /* bytes of device memory held now: tensors, packed weights, plans */
    uint64_t peak;      /* the most that it was */
    uint64_t scratch;   /* of it, what operations keep for themselves (a fork's: its own); it grows
                           with what they are asked for: with so many times the rows, to so many times
                           as much at most */
    uint64_t budget;    /* allocated may not pass it (ERR_VRAM); 0: no bound of ours */
    /* Set by a model that warms up: operations prepare what they prepare at first use, and need not
     * compute, so that what they leave behind means nothing. */
    bool rehearsing;
    uint32_t boxes; /* bits of those that are taken */
};

/* The backend that has the memory: `be`, or what it is a fork of. */
static inline const struct backend *backend_home(const struct backend *be)
{
    return be->forked ? be->forked : be;
}

/* Device memory that be and its forks hold now, and the most that they held: any thread. */
void backend_memory(const struct backend *be, uint64_t *allocated, uint64_t *peak);

/* Boxes that nobody else has, *first and those behind it; given back by who took them. A post
 * overwrites the one before in its box: so each of several models on a device has its own boxes.
 * ERR_DEVICE: so many are not left, or the device has none. */
int backend_take_boxes(struct backend *be, uint32_t count, uint32_t *first, struct err *err);
void backend_give_boxes(struct backend *be, uint32_t first, uint32_t count);

/* The processor itself. threads 0: as many as this process may run on. Closed with
 * backend_close. */
int backend_open_host(uint32_t threads, struct backend **ret, struct err *err);
/* Accepts NULL. */
void backend_close(struct backend *be);
/* Runs `run` in a rehearsal, `rehearsing` set: what it computes is of no account. Not at all where
 * the device has one way of everything, or is deterministic. The error is run's. */
int backend_rehearse(struct backend *be, int (*run)(void *arg, struct err *err), void *arg,
                     struct err *err);
/* AUTO becomes what suits the device; anything that it does not have is ERR_MODEL. */
int backend_precision(const struct backend *be, enum precision wanted, enum precision *ret,
                      struct err *err);
/* Has none of the sequences more steps than there are? lengths NULL: all have as many. */
bool backend_lengths_fit(const uint32_t *lengths, uint32_t sequences, int64_t steps);
/* Lets compute threads of the host backend sleep when they have waited for a moment, where they
 * would spin for long. Called first in a main() that computes, with its own argv: OpenMP reads its
 * environment before main does, so the program starts itself once more, in the same process.
 * Returns when OMP_WAIT_POLICY or GOMP_SPINCOUNT is set already (by the user, or by the call
 * before), or when it cannot be done. argv NULL: in the processes that this one starts, which need
 * not start themselves again then. */
void backend_host_sleep_when_idle(char **argv);
/* The info that backend_open_host would find, without opening anything. */
void backend_host_info(struct backend_info *ret);
/* Would it keep the weights of LINEAR_ROWS that are float16 numbers as such, in float32? */
bool backend_host_halves(void);

#endif
