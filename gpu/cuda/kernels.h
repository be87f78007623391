/* gpu/cuda/kernels.h - our own CUDA kernels, as plain C functions that launch them.
 *
 * Every function puts its kernels on the stream and returns the cudaError_t of the launch as an
 * int (0: well); none allocates, waits, or keeps anything, so all of them may be captured into a
 * graph. All pointers are device memory unless it says "host"; what they point to must live until
 * the stream has passed it, except host memory, which is read before the call returns. Callers have
 * checked the shapes; the kernels bound themselves by them. Matrices are struct tensor; "any" means
 * any of its three types. Rows that are aligned to 16 bytes (pointer and stride) go by 16 bytes,
 * others element by element.
 *
 * No kernel uses float atomics, and none lets a row's result depend on the other rows or on their
 * number: all of them are deterministic. tests/cuda runs them in an emulator.
 */
#ifndef NIGHTSHIFT_GPU_CUDA_KERNELS_H
#define NIGHTSHIFT_GPU_CUDA_KERNELS_H

#include "gpu/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st
    *cudaStream_t; /* as in the CUDA headers, which C callers need not have */

/* --- elementwise.cu ------------------------------------------------------------------------- */

/* Any stride, also one that is not the columns'. */
int k_zero(cudaStream_t s, struct tensor x);
/* dst = src, any to any, to the nearest (ties to even). */
int k_copy(cudaStream_t s, struct tensor dst, struct tensor src);
/* Row r of y (float32) += row r % x.rows of x (any). */
int k_add(cudaStream_t s, struct tensor y, struct tensor x);
/* Row i of y (float32) = table[rows[i].token] + positions[rows[i].pos], both any. */
int k_embed(cudaStream_t s, struct tensor table, struct tensor positions,
            const struct token_row *rows, struct tensor y);
/* y = x + bias, or gelu of that (the exact one), or max(that, 0) (NaN stays), or y = y + x + bias,
 * by `epilogue`, which is not ADD_RELU. x, y: any; y may be x itself. bias: [cols] float32 or
 * NULL. */
int k_epilogue(cudaStream_t s, struct tensor x, const float *bias, enum epilogue epilogue,
               struct tensor y);
/* y[r][i] = sqrt(x[r][i]^2 + x[r][n + i]^2); x: [rows][2n], y: [rows][n], float32. */
int k_magnitude(cudaStream_t s, struct tensor x, struct tensor y);

/* --- norm.cu -------------------------------------------------------------------------------- */

/* y (any) = (x - mean) / sqrt(variance + epsilon) * gamma + beta, for each row of x (float32); two
 * passes over the row in float32. gamma, beta: [cols]. y of DTYPE_E4M3: as k_quantize_rows has it;
 * rows in packs of 4, at most 1536 columns; else cudaErrorInvalidValue. */
int k_layer_norm(cudaStream_t s, struct tensor x, const float *gamma, const float *beta,
                 float epsilon, struct tensor y);
/* The same after x += r (any), which is written back. */
int k_add_layer_norm(cudaStream_t s, struct tensor x, struct tensor r, const float *gamma,
                     const float *beta, float epsilon, struct tensor y);
/* out (any) = softmax(scale * x) over each row of x (float32), at most BACKEND_MAX_KEYS columns.
 * Row r of out may begin where row r of x does. A row that is all minus infinity becomes NaN. */
int k_softmax(cudaStream_t s, struct tensor x, float scale, struct tensor out);

/* --- quantize.cu ---------------------------------------------------------------------------- */

/* q = x in 8 bits, row by row: q[r][c] = round(x[r][c] / scales[r]), to the nearest even, scales[r]
 * = largest |x[r][c]| / 127 (DTYPE_I8) or / 448 (DTYPE_E4M3). q: stride >= cols; columns from cols
 * to the stride become 0. A row of zeros has the scale 0; one that is not finite has the scale NaN,
 * or, where e4m3 can say it, a NaN in its place, so that it does not hide. x: any. */
int k_quantize_rows(cudaStream_t s, struct tensor x, struct tensor q);
/* q (DTYPE_E4M3) = gelu(x) in 8 bits as above; the tanh approximation, some 5e-4 off. Row r of q
 * may begin where row r of x does. x: 16 bits, at most BACKEND_MAX_E4M3 columns, in packs of 8;
 * else cudaErrorInvalidValue. */
int k_gelu_rows(cudaStream_t s, struct tensor x, struct tensor q);
/* r = acc[r][c] * row_scales[r] * column_scales[c] + bias[c] (or no bias: NULL), then as k_epilogue
 * (which see) into y: any. acc: int32 or, `whole` being false, float32. */
int k_dequantize(cudaStream_t s, const void *acc, bool whole, int64_t acc_stride,
                 const float *row_scales, const float *column_scales, const float *bias,
                 enum epilogue epilogue, struct tensor y);

/* --- attention.cu --------------------------------------------------------------------------- */

/* Layout of struct kv: each slot is [heads] of { keys [capacity][64], values [capacity][64] }, of
 * the cache's type, dense; of 8 bits with { scales of the keys [64], of the values [64] } behind
 * each head's, float32. kv.data and slot_stride are multiples of 16 bytes. Bytes of a head: */
static inline size_t k_head_bytes(enum dtype type, uint32_t capacity)
{
    return 2 * (size_t)capacity * BACKEND_HEAD_SIZE * dtype_size(type) +
           (type == DTYPE_I8 ? 2 * BACKEND_HEAD_SIZE * sizeof(float) : 0);
}

static inline size_t k_kv_bytes(enum dtype type, uint32_t heads, uint32_t capacity)
{
    return heads * k_head_bytes(type, capacity);
}

/* slots: host memory. See the operations of the same names, also for caches of 8 bits, which only
 * k_kv_fill, k_attention_rows (keys > 0) and k_attention_scores know. */
int k_kv_fill(cudaStream_t s, struct kv kv, const uint32_t *slots, uint32_t windows,
              struct tensor k, struct tensor v);
int k_kv_append(cudaStream_t s, struct kv kv, const struct token_row *rows, struct tensor k,
                struct tensor v);

#define K_ATTENTION_CHUNK 256 /* keys that are summed before they are merged */

#define K_ATTENTION_TOGETHER                                                     \
    8 /* rows whose window's keys and values of 8 bits are read once, where they \
         look at one window: those beside each other from a multiple of it on */

/* keys 0: rows[i].pos + 1 of slot rows[i].slot, else of rows[i].cross. */
int k_attention_rows(cudaStream_t s, struct tensor q, struct kv kv, const struct token_row *rows,
                     uint32_t keys, struct tensor out);

/* --- align.cu ------------------------------------------------------------------------------- */

#define K_ALIGN_WINDOWS 16 /* of a launch */

/* See the operations of the same names. out: [rows][>= keys] float32. */
int k_attention_scores(cudaStream_t s, struct tensor q, struct kv kv, const struct token_row *rows,
                       uint32_t head, uint32_t keys, struct tensor out);
/* windows: host memory, checked by backend_align_rows. statistics: scratch of
 * k_align_statistics(heads, n) numbers. */
int k_align(cudaStream_t s, struct tensor scores, uint32_t heads,
            const struct align_window *windows, uint32_t n, double *statistics, struct tensor out);

/* hold: device memory, two numbers of each row, or NULL. */
int k_warp(cudaStream_t s, struct tensor matrix, const struct align_window *windows, uint32_t n,
           const uint32_t *hold, struct tensor work, uint32_t *first_frame);

static inline size_t k_align_statistics(uint32_t heads, uint32_t n)
{
    return 2 * (size_t)(n < K_ALIGN_WINDOWS ? n : K_ALIGN_WINDOWS) * heads * BACKEND_MAX_KEYS;
}

/* --- mel.cu --------------------------------------------------------------------------------- */

#define K_MEL_SAMPLES 480000
#define K_MEL_FRAMES 3000
#define K_MEL_FFT 400
#define K_MEL_BLOCKS 750 /* blocks of a window; each leaves its maximum */

/* All device memory, as the host backend's struct mel_tables has them. */
struct mel_device {
    uint32_t bins;         /* 1 .. 256 */
    const double *window;  /* [400] Hann */
    const double *cosine;  /* [400] of 2 pi i / 400 */
    const double *sine;    /* [400] */
    const uint32_t *first; /* [bins]: each filter's first frequency, of 201 */
    const uint32_t *count; /* [bins]: its frequencies */
    const uint32_t *at;    /* [bins]: where its weights begin */
    const double *weight;
};

/* pcm: [windows] rows of K_MEL_SAMPLES, `stride` apart, of which the first n[w] are audio; the rest
 * counts as silence, whatever lies there. maxima: [windows * K_MEL_BLOCKS] scratch. out: [windows *
 * 3000][bins] float32. Framing, transform (no other library is needed), filters, log10, clamp. */
int k_mel(cudaStream_t s, struct mel_device m, const float *pcm, size_t stride, const uint32_t *n,
          uint32_t windows, float *maxima, struct tensor out);

/* --- filter_bank.cu -------------------------------------------------------------------------- */

/* struct filter_bank_spec on the device. */
struct bank_device {
    struct mel_device mel; /* window: [frame]; cosine, sine: [fft] of 2 pi i / fft */
    uint32_t fft;          /* that k_filter_bank_has */
    uint32_t frame, step,
        before; /* before: samples of the first frame that lie before its window */
    bool mirrored, less_mean, magnitudes, logarithm, centre;
    double pre_emphasis, scale, floor, offset;
};

/* Is there a transform of that length? */
bool k_filter_bank_has(uint32_t fft);
/* See the operation filter_bank. at: [windows]; out: [windows * frames][bins]. */
int k_filter_bank(cudaStream_t s, struct bank_device b, const float *pcm, const uint32_t *at,
                  uint32_t windows, uint32_t samples, uint32_t frames, struct tensor out);

/* --- choose.cu ------------------------------------------------------------------------------ */

/* struct rules_spec on the device: lists as bitmaps of (vocab + 31) / 32 words. */
struct rules_device {
    uint32_t vocab;
    int32_t eot, no_speech;
    int32_t timestamp_begin, timestamp_end;
    int32_t max_initial;
    uint32_t language_count;
    const int32_t *languages;
    const uint32_t *never, *never_first;
};

/* One answer for each row of logits (float32). In rows that ask for a token, forbidden ids become
 * minus infinity, including all text if the timestamps' mass forbids it. Other rows stay. */
int k_choose(cudaStream_t s, struct rules_device r, struct tensor logits,
             const struct choice_ask *ask, struct choice *ret);

/* --- follow.cu ------------------------------------------------------------------------------ */

/* See the operations of the same names. */
int k_follow(cudaStream_t s, const struct token_tail *tails, struct token_row *rows,
             struct choice_ask *asks, uint32_t n);
int k_note(cudaStream_t s, struct rules_device r, const struct token_row *rows,
           const struct choice_ask *asks, const struct choice *choices, uint32_t n,
           struct token_tail *tails);

/* --- top.cu --------------------------------------------------------------------------------- */

/* The k largest of each row of logits (float32), k <= BACKEND_MAX_TOP; ret: [rows][k]. The lowest
 * id of equals comes first; NaN and minus infinity are no candidates, and a row with +infinity has
 * none at all. */
int k_top(cudaStream_t s, struct tensor logits, uint32_t k, struct candidate *ret);

/* --- lstm.cu -------------------------------------------------------------------------------- */

#define K_LSTM_MOST 512 /* hidden values */

/* The recurrent part of one layer: one direction, or forward and backward. */
struct lstm_device {
    uint32_t hidden;     /* a multiple of 8, at most K_LSTM_MOST */
    uint32_t directions; /* 1 or 2 */
    const float *w;      /* [directions] of w_hh as [hidden / 4][4 hidden][4]: four columns of a row
                            together */
    const float *inputs; /* [sequences * steps][directions][4 hidden]: x W_ih^T and both biases */
    uint32_t sequences, steps;
    const uint32_t *lengths; /* [sequences], at most steps; NULL: all of them are steps */
    struct tensor h, c;      /* [directions * sequences][hidden] float32: before and after */
    struct tensor y;         /* [sequences * steps][directions * hidden] float32 */
};

/* How many sequences a block should take on a device of so many multiprocessors: 1, 2 or 4. */
uint32_t k_lstm_together(const struct lstm_device *l, uint32_t processors, size_t shared_bytes);

/* together: sequences of a block, 1 (where hidden is 128: 2), 2 or 4; it changes no result.
 * shared_bytes: of shared memory that a block of this device may have
 * (cudaDevAttrMaxSharedMemoryPerBlockOptin). */
int k_lstm(cudaStream_t s, const struct lstm_device *l, uint32_t together, size_t shared_bytes);

/* --- images.cu ------------------------------------------------------------------------------ */

/* Images that lie row by row, channels last, and the outputs of a convolution over them. */
struct image_device {
    int64_t height, width, out_height, out_width;
    int64_t in; /* channels */
    int64_t kernel_h, kernel_w, stride_h, stride_w, top, left;
};

/* Row r of dst is what output first + r sees, counted over all images of x one after the other:
 * [kernel_h][kernel_w][in], zeros outside of the image, in the columns behind, and for outputs
 * behind the last image. x: [images * height * width][in], dense; dst of its type. */
int k_unfold(cudaStream_t s, struct tensor dst, struct tensor x, const struct image_device *g,
             int64_t first);
/* Each channel by itself, then `epilogue`, but ADD_RELU. x, y: dense, float32; w:
 * [kernel_h][kernel_w][in]; bias: [in] or NULL. */
int k_depthwise(cudaStream_t s, struct tensor x, const float *w, const float *bias,
                const struct image_device *g, enum epilogue epilogue, struct tensor y);
/* See activate. x: float32, y: any; y may be x. */
int k_activate(cudaStream_t s, enum activation f, struct tensor x, struct tensor y);

/* --- pooling.cu ----------------------------------------------------------------------------- */

/* See the operations of the same names; all float32. gamma, beta: [cols]. at: [y.rows + 1]; of:
 * [weights.rows]. */
int k_instance_norm(cudaStream_t s, uint32_t windows, struct tensor x, const float *gamma,
                    const float *beta, float epsilon, void *scratch, struct tensor y);
/* Bytes of its scratch, which is aligned to 16; windows > 0. */
size_t k_norm_bytes(uint32_t windows, struct tensor x);
int k_max_pool(cudaStream_t s, uint32_t windows, uint32_t size, bool magnitudes, struct tensor x,
               struct tensor y);
int k_pool(cudaStream_t s, enum pool kind, const uint32_t *at, struct tensor x, struct tensor y);
int k_weighted_stats(cudaStream_t s, uint32_t windows, struct tensor x, const uint32_t *of,
                     struct tensor weights, struct tensor y);

/* --- resample.cu ---------------------------------------------------------------------------- */

/* struct resample_spec on the device. */
struct resample_device {
    uint32_t up, down, taps, before;
    bool keep_ends;
    const float *w;            /* [taps][up] */
    const uint32_t *lengths;   /* [windows]; NULL: all rows of each */
    const float *gamma, *beta; /* [cols]; NULL: neither */
};

/* See resample. */
int k_resample(cudaStream_t s, const struct resample_device *d, uint32_t windows, struct tensor x,
               struct tensor y);

/* --- spans.cu ------------------------------------------------------------------------------- */

/* See gather. A number that is no row of x counts as -1. */
int k_gather(cudaStream_t s, struct tensor x, const int32_t *rows, struct tensor y);

/* See attention_spans. */
struct spans_device {
    const uint32_t *at;  /* [count + 1] */
    const uint32_t *set; /* [count]; NULL: no bias */
    uint32_t heads, head_size;
    float scale;
    struct tensor q, k, v, out; /* of one type */
    struct tensor tables;
};

/* longest: rows of the longest sequence. Keys whose bias is minus infinity are not seen; a row that
 * sees none becomes NaN. */
int k_attend_spans(cudaStream_t s, const struct spans_device *d, uint32_t count, uint32_t longest);

/* --- bandwidth.cu --------------------------------------------------------------------------- */

#define K_READ_BLOCKS 2048

/* Reads `bytes` (a multiple of 16) from p (aligned to 16) once and leaves partial sums of its
 * 32-bit words, modulo 2^32, in ret[K_READ_BLOCKS]: what a device's memory can deliver. */
int k_read(cudaStream_t s, const void *p, size_t bytes, uint32_t *ret);

#ifdef __cplusplus
}
#endif

#endif
