/* gpu/host/kernels.h - the inner loops, once per instruction set.
 *
 * Every file of kernels/ is compiled for plain x86-64 (or whatever the target is), for AVX2, for
 * AVX-512 and for AVX-512 with bfloat16; KERNEL(name) gives each its own name, and host.c picks a
 * table by what the processor has. Kernels are single-threaded, allocate nothing and check nothing:
 * their callers divide the work and have checked the shapes.
 *
 * Layout of packed row weights: blocks of 32 outputs, within a block [in][32] (float32, or float16
 * where no weight loses anything by that), for bf16 [in / 2][32][2]; missing outputs are zero.
 * Weights of 8 bits are [in / 4][32][4], each increased by 128: the dot product wants one side
 * unsigned; those of 16 bits are [in / 2][32][2]. Layout of a head's keys: blocks of 16 keys,
 * within a block [64][16], for bf16 [32][16][2]. Layout of a head's values: [keys][64], for bf16
 * [keys / 2][64][2]. So every inner loop reads memory in order, and bf16 pairs are adjacent as its
 * dot product wants them. A head of 8 bits has both laid out like float32's, in int8, followed by
 * the float32 scales of its 64 dimensions: the keys', then the values'. */
#ifndef NIGHTSHIFT_GPU_HOST_KERNELS_H
#define NIGHTSHIFT_GPU_HOST_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/backend.h"
#include "gpu/filter_bank.h"

#define KERNEL_COLUMNS 32 /* outputs of a block of row weights */
#define KERNEL_ROWS 8     /* rows that bf16 and the LSTM take through them together */
#define KERNEL_KEYS 16    /* keys of a block */
#define KERNEL_QUERIES 12 /* queries that share one reading of keys and values */
#define KERNEL_TOGETHER 4 /* the same for keys and values of 8 bits */

#define MEL_FFT 400
#define MEL_HOP 160
#define MEL_FREQUENCIES 201
#define MEL_LANES 16 /* frames transformed at once */
#define MEL_MOST 256 /* bins */

struct mel_tables {
    uint32_t bins;
    double window[MEL_FFT];
    double cosine[MEL_FFT], sine[MEL_FFT]; /* of 2 pi i / 400 */
    uint32_t *first, *count;               /* [bins]: frequencies of each filter */
    double *weight;                        /* the filters' weights, one after the other */
};

/* Inputs that products of 8 bits take at once: `in` is rounded up to a multiple of it. */
#define KERNEL_INPUTS 16

/* Inputs that share a scale in products of 16 bits, and the largest magnitudes: 64 * 4095 * 8191 is
 * below 2^31. */
#define KERNEL_SPAN INT16_SPAN
#define KERNEL_WEIGHT16 4095.0f
#define KERNEL_VALUE16 8191.0f

/* A row of 8 bits: it is its numbers times scale. */
struct row8 {
    float scale;
    int32_t less; /* -128 times their sum: what the weights' 128 add */
};

struct row_job {
    const void *x; /* [rows][in], float32, bf16 or integers as the weights */
    /* Of integers alone, as is what the weights are multiplied by. 8 bits: struct row8 [rows], and
     * [32]; 16 bits: float [rows][in / 64], and [in / 64][32]. */
    const void *x_scales;
    const float *scales;
    size_t x_stride;
    size_t rows, in;
    const void *w;     /* one packed block */
    const float *bias; /* [32] */
    enum epilogue epilogue;
    void *y; /* [rows][columns] at the block's first column */
    size_t y_stride, columns;
    bool y_bf16;
};

/* One row of outputs of a depthwise convolution. */
struct depthwise_job {
    const float *x;        /* the image: [height][width][channels] */
    const float *w, *bias; /* [kernel_h][kernel_w][channels], [channels] */
    float *y;              /* [columns][channels] */
    size_t channels;
    int64_t height, width, columns;
    int64_t from; /* first row of the image that is seen: may be outside of it, as columns may */
    int64_t kernel_h, kernel_w, stride_w, left;
    enum epilogue epilogue;
};

/* Queries [from, from + count) of one sequence and one head: softmax(scale q k^T + bias) v. */
struct span_job {
    const void *q, *k, *v; /* [n][head], float32 or bf16 */
    void *out;
    size_t q_stride, k_stride, v_stride, out_stride;
    bool bf16;
    size_t n, head; /* head % 8 = 0, at most 128 */
    size_t from, count;
    float scale;
    const float *bias; /* [n][n], or NULL */
    size_t bias_stride;
    float *scratch; /* kernel_span_floats() */
};

/* Frames of a filter bank, [0 .. frames) of them, frame i beginning at pcm + i step. */
struct bank_job {
    const struct filter_bank_spec *spec;
    const double *window;        /* [spec->frame] */
    const double *cosine, *sine; /* [spec->mel.fft] of 2 pi i / fft */
    const uint8_t *radix;        /* [stages]: factors of fft / 2, each 2, 3, 4 or 5 */
    uint32_t stages;
    uint32_t frames;               /* 1 .. bank_frames */
    const uint32_t *first, *count; /* as of mel_filters_ranges */
    const double *weight;
    const float *pcm;
    void *scratch; /* KERNEL_BANK_BYTES(fft), aligned to 64 */
    double *bins;  /* out: [frames][spec->mel.bins] */
};
#define KERNEL_BANK_FRAMES 8 /* the most that bank_frames is */
#define KERNEL_BANK_BYTES(fft) ((5 * (size_t)(fft) / 2 + 1) * KERNEL_BANK_FRAMES * sizeof(double))

#define KERNEL_BLOCK 16 /* columns that are summed and scaled at once */

/* Keys and values of one head. lies_in NULL: those at k and v; else key p is `stride` bytes times
 * lies_in[p] behind (struct kv). */
struct head_cache {
    const void *k, *v;
    size_t stride;
    const uint16_t *lies_in;
};

struct kernels {
    const char *name;
    void (*rows_f32)(const struct row_job *job);
    /* Computes the same bits as rows_f32 from weights kept as float16; NULL: the processor cannot
     * convert them. */
    void (*rows_f16)(const struct row_job *job);
    void (*rows_bf16)(const struct row_job *job); /* NULL: the processor has no bf16 */
    /* Products of 8 bits, whose sums are exact. Only if cpu_has_vnni; NULL: this instruction set
     * has none. */
    void (*rows_i8)(const struct row_job *job);
    /* x [n], float32 or bf16, to 8 bits, the largest magnitude to 127; zeros up to a multiple of
     * KERNEL_INPUTS. A row in which not all are numbers has a scale that is none. */
    void (*to_i8)(const void *x, bool bf16, size_t n, int8_t *to, struct row8 *ret);
    /* Products of 16 bits, whose sums over 64 inputs are exact. The second one only if
     * cpu_has_vnni. NULL: this instruction set has none. */
    void (*rows_i16)(const struct row_job *job);
    void (*rows_i16_vnni)(const struct row_job *job);
    /* x [n] to 16 bits, the largest magnitude of every 64 to KERNEL_VALUE16; zeros up to a multiple
     * of 64. scales: one for every 64, which is none where not all are numbers. */
    void (*to_i16)(const float *x, size_t n, int16_t *to, float *scales);
    /* Packs a whole block of 32 outputs, w [32][in], in % 8 = 0, as float16. False: not all of them
     * are such numbers, and what was packed is nothing. NULL as rows_f16. */
    bool (*pack_f16)(const float *w, size_t in, uint16_t *packed);

    /* n <= KERNEL_QUERIES queries of one head over all its keys. */
    void (*attend_f32)(const float *q, size_t q_stride, size_t n, const float *k, const float *v,
                       struct key_tail tail, float *out, size_t out_stride);
    void (*attend_bf16)(const uint16_t *q, size_t q_stride, size_t n, const uint16_t *k,
                        const uint16_t *v, struct key_tail tail, uint16_t *out, size_t out_stride);
    /* One query of one head. */
    void (*query_f32)(const float *q, const struct head_cache *c, struct key_tail tail, float *out);
    void (*query_bf16)(const uint16_t *q, const struct head_cache *c, struct key_tail tail,
                       uint16_t *out);
    /* Its scores alone, q . k / 8. */
    void (*scores_f32)(const float *q, const float *k, size_t keys, float *out);
    void (*scores_bf16)(const uint16_t *q, const uint16_t *k, size_t keys, float *out);

    /* n <= KERNEL_TOGETHER queries of one head over its keys of 8 bits, q and out float32; q was
     * multiplied with the keys' scales. A query's bits do not depend on the others. */
    void (*queries_i8)(const float *q, size_t q_stride, size_t n, const int8_t *k, const int8_t *v,
                       struct key_tail tail, const float *v_scales, float *out, size_t out_stride);
    void (*scores_i8)(const float *q, const int8_t *k, size_t keys, float *out);
    /* n rows of 64 of one head, `stride` apart, float32 or bf16, become its keys or its `values` of
     * 8 bits, each dimension by its largest magnitude / 127, which goes to scales[64]. A dimension
     * with a value that is not finite is zeros, and its scale NaN. The rest of the keys' last block
     * becomes zeros. */
    void (*fill_i8)(const void *x, bool bf16, size_t stride, size_t n, bool values, int8_t *to,
                    float *scales);
    /* x[0 .. n) becomes its softmax; n <= BACKEND_MAX_KEYS. */
    void (*softmax)(float *x, size_t n);
    /* sum[i] += the median of x[i .. i + 7), i < n, n a multiple of 16. */
    void (*add_median)(const float *x, size_t n, float *sum);

    /* One step of one sequence: in + rec are the gates ([4][hidden]: input, forget, cell, output)
     * before their functions; c and h move on. */
    void (*lstm_step)(const float *in, const float *rec, size_t hidden, float *c, float *h);

    void (*norm)(const float *x, const float *gamma, const float *beta, size_t n, float epsilon,
                 void *y, bool bf16);
    void (*to_bf16)(uint16_t *dst, const float *src, size_t n);
    /* log10 of the mel energies of 16 frames, audio[160 * i ..] being frame i: out[i][bins];
     * returns the highest. */
    float (*mel)(const struct mel_tables *t, const float *audio, float *out);
    void (*filter_bank)(const struct bank_job *job);
    uint32_t bank_frames; /* that it takes at once */
    /* x = (max(x, floor) + 4) / 4 */
    void (*mel_clamp)(float *x, size_t n, float floor);

    /* sum and number_exp((x[i] - max) / temperature), in the order of i, to its bits on every
     * processor. */
    double (*exp_sum)(double sum, const float *x, size_t n, double max, double temperature);
    /* The largest, the first of equals in *at; minus infinity, *at left alone: none is larger than
     * that. A NaN is not. */
    float (*largest)(const float *x, size_t n, size_t *at);

    /* One row of outputs of a depthwise convolution. */
    void (*depthwise)(const struct depthwise_job *job);
    /* y may be x when it is not bf16. */
    void (*activate)(enum activation f, const float *x, size_t n, void *y, bool bf16);
    /* sum[c] = sum over rows of weight (x[r][c] - centre[c])^p; p is 1 and centre 0 for NULL, else
     * 2; weights NULL: 1. Rows in ascending order; cols <= KERNEL_BLOCK. */
    void (*column_sums)(const float *x, size_t stride, size_t rows, size_t cols,
                        const float *weights, const double *centre, double *sum);
    /* y = (x - centre) scale + beta, cols <= KERNEL_BLOCK; y may be x. */
    void (*scale_columns)(const float *x, size_t x_stride, size_t rows, size_t cols,
                          const float *centre, const float *scale, const float *beta, float *y,
                          size_t y_stride);
    /* y[c] = the largest of column c; NaN when one is. rows >= 1. */
    void (*highest_rows)(const float *x, size_t stride, size_t rows, size_t cols, float *y);
    /* y[i] = the sum over k < taps of w[k] x[k][i], i < n, in ascending order of k. */
    void (*weigh_rows)(const float *const *x, const float *w, size_t taps, size_t n, float *y);
    /* Some queries of one head of one sequence. */
    void (*attend_span)(const struct span_job *job);
};

extern const struct kernels kernels_plain, kernels_avx2, kernels_avx512, kernels_avx512bf16;

/* Bytes of a head's keys (or values) for `capacity` of them: whole blocks. */
static inline size_t kernel_head_bytes(enum dtype type, uint32_t capacity)
{
    size_t blocks = ((size_t)capacity + KERNEL_KEYS - 1) / KERNEL_KEYS;

    return blocks * KERNEL_KEYS * BACKEND_HEAD_SIZE * dtype_size(type);
}

/* Bytes of a head: keys, values, and scales where there are any. */
static inline size_t kernel_pair_bytes(enum dtype type, uint32_t capacity)
{
    return 2 * kernel_head_bytes(type, capacity) +
           (type == DTYPE_I8 ? 2 * BACKEND_HEAD_SIZE * sizeof(float) : 0);
}

/* Floats that attend_span wants as scratch for a sequence of n. */
static inline size_t kernel_span_floats(size_t n, size_t head)
{
    size_t keys = (n + KERNEL_KEYS - 1) / KERNEL_KEYS * KERNEL_KEYS, wide = (head + 15) / 16 * 16;

    return keys * (head + wide) + KERNEL_QUERIES * (head + keys + wide);
}

#endif
