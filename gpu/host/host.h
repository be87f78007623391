/* gpu/host/host.h - what the files of the host backend share. */
#ifndef NIGHTSHIFT_GPU_HOST_HOST_H
#define NIGHTSHIFT_GPU_HOST_HOST_H

#include "gpu/backend.h"
#include "gpu/host/kernels.h"
#include "gpu/host/onednn.h"

struct host {
    struct backend base; /* first: a struct backend * is a struct host * */
    const struct kernels *kernels;
    void (*rows_i16)(const struct row_job *job); /* the faster one that the processor has */
    int threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    void *scratch; /* of one call: for the hungriest operation yet */
    size_t scratch_bytes;
    void *packed; /* keys and values of one window, in reading order, for attention */
    size_t packed_bytes;
};

/* Threads for work that touches so many bytes: waking the others costs some microseconds, and on a
 * busy machine waiting for one that was quarantined costs milliseconds. */
static inline int host_threads(const struct host *h, size_t bytes)
{
    return bytes < 256u << 10 ? 1 : h->threads;
}

static inline struct host *host_of(struct backend *be) { return (struct host *)be; }

/* 64-byte aligned and zeroed; counted in base.allocated. ERR_VRAM when there is none, or when it
 * would pass the budget. */
int host_alloc(struct backend *be, size_t bytes, void **ret, struct err *err);
void host_release(struct backend *be, void *p);
/* Makes *scratch at least so large; what was in it is lost. Counted; freed by the backend's close.
 */
int host_grow(struct host *h, void **scratch, size_t *have, size_t bytes, struct err *err);

/* Sets err and returns ERR_DEVICE: the caller is wrong, or oneDNN failed ("what: status 3"). */
int host_shape(struct err *err, const char *operation);
int host_dnn(struct err *err, dnnl_status_t status, const char *what);

/* An attribute with the epilogue as post-operations and the scratch memory ours. */
int host_attribute(enum epilogue epilogue, dnnl_primitive_attr_t *ret, struct err *err);
/* Grows the shared scratch memory to what pd wants, and `more` bytes behind that, at *ret. */
int host_scratch(struct host *h, const_dnnl_primitive_desc_t pd, size_t more, size_t *ret,
                 struct err *err);
/* A memory object over p (DNNL_MEMORY_NONE: to be set later), laid out as pd's `what` argument. */
int host_memory(struct host *h, const_dnnl_primitive_desc_t pd, dnnl_query_t what, void *p,
                dnnl_memory_t *ret, struct err *err);
/* Puts what is laid out as `from` into p as `to` has it. *ret: an object over p; ret NULL: none. */
int host_reorder(struct host *h, onednn_layout from, const void *w, onednn_layout to, void *p,
                 dnnl_memory_t *ret, struct err *err);
/* Packs weights laid out as `from` into new device memory laid out as pd's weights. */
int host_pack(struct host *h, const_dnnl_primitive_desc_t pd, onednn_layout from, const void *w,
              dnnl_memory_t *ret, void **data, struct err *err);

/* Blocks of packed weights with so many outputs (kernels.h). */
static inline int64_t host_blocks(int64_t out)
{
    return (out + KERNEL_COLUMNS - 1) / KERNEL_COLUMNS;
}

/* Weights of products of few rows, each of which is one chain of multiply-adds over `in`: a row of
 * y has the same bits whatever rows are computed with it. */
struct row_weights {
    enum dtype type; /* of x */
    enum dtype
        kept; /* as which they lie in memory: type, or F16 beside F32 when none loses by it */
    int64_t out, in; /* bf16: in is rounded up to an even number, by a zero */
    void *w;
    float *bias; /* [out rounded up to KERNEL_COLUMNS], zeros when there is none */
};

/* w: [out][in], bias: [out] or NULL; copied. narrow: float32 ones are kept as float16 where they
 * are such numbers, as most published models' are; the products have the same bits, and read half
 * as much: for weights that are read from memory each time. */
int host_rows_new(struct backend *be, enum dtype type, bool narrow, int64_t out, int64_t in,
                  const float *w, const float *bias, struct row_weights *ret, struct err *err);
void host_rows_free(struct backend *be, struct row_weights *l); /* back to {0} */
int64_t host_rows_blocks(const struct row_weights *l);
/* Columns of one block of y, in this thread; x has l->in columns of l->type. */
void host_rows_block(const struct host *h, const struct row_weights *l, int64_t block,
                     struct tensor x, enum epilogue epilogue, struct tensor y);

/* Weights that are integers: of 8 bits with one scale an output, or of 16 bits with one for every
 * KERNEL_SPAN inputs of an output. Rows of x get theirs as they come. Sums of integers are exact,
 * so a row of y has the same bits whatever rows are computed with it. */
struct int_weights {
    uint32_t bytes;  /* of a weight: 1 or 2 */
    int64_t out, in; /* in: rounded up to KERNEL_INPUTS or KERNEL_SPAN */
    void *w;
    float *scales; /* [blocks of outputs][1 or in / KERNEL_SPAN][KERNEL_COLUMNS] */
    float *bias;   /* [out rounded up to KERNEL_COLUMNS] */
};

/* w: [out][in], bias: [out] or NULL; copied. bytes: 1 or 2. ERR_MODEL: a weight is no number, or
 * there are more than 65,536 inputs, whose sums might not fit. */
int host_int_weights_new(struct backend *be, uint32_t bytes, int64_t out, int64_t in,
                         const float *w, const float *bias, struct int_weights *ret,
                         struct err *err);
void host_int_weights_free(struct backend *be, struct int_weights *l); /* back to {0} */
/* y = epilogue(x W^T + b); x: [rows][in] float32, or of 8 bits bf16; y float32 or bf16. */
int host_linear_int(struct host *h, const struct int_weights *l, struct tensor x,
                    enum epilogue epilogue, struct tensor y, struct err *err);

int host_linear_new(struct backend *be, enum precision precision, enum linear_use use, int64_t rows,
                    int64_t out, int64_t in, const float *w, const float *bias, struct linear **ret,
                    struct err *err);
void host_linear_free(struct backend *be, struct linear *l);
int host_linear(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                struct tensor y, struct err *err);

size_t host_kv_bytes(enum dtype type, uint32_t heads, uint32_t capacity);
int host_kv_fill(struct backend *be, struct kv kv, const uint32_t *slots, uint32_t windows,
                 struct tensor k, struct tensor v, struct err *err);
int host_kv_append(struct backend *be, struct kv kv, const struct token_row *rows, struct tensor k,
                   struct tensor v, struct err *err);
int host_attention(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                   struct tensor v, struct tensor out, struct err *err);
int host_attention_tail(struct backend *be, struct tensor q, struct tensor k, struct tensor v,
                        struct key_tail tail, struct tensor out, struct err *err);
int host_attention_rows(struct backend *be, struct tensor q, struct kv kv,
                        const struct token_row *rows, uint32_t keys, struct tensor out,
                        struct err *err);
int host_attention_scores(struct backend *be, struct tensor q, struct kv kv,
                          const struct token_row *rows, uint32_t head, uint32_t keys,
                          struct tensor out, struct err *err);
/* Caches of 8 bits (cache8.c); shapes have been checked. Rows [from, from + n) of k and v become
 * the keys of a slot; what attention_rows does, of windows' caches; scores of one row and head. */
void host_fill_i8(const struct host *h, const struct kv *kv, uint32_t slot, struct tensor k,
                  struct tensor v, int64_t from, int64_t n);
void host_attend_i8(const struct host *h, struct tensor q, const struct kv *kv,
                    const struct token_row *rows, uint32_t keys, struct tensor out);
void host_score_i8(const struct host *h, struct tensor q, const struct kv *kv, uint32_t slot,
                   uint32_t head, int64_t row, uint32_t keys, float *ret);
int host_align(struct backend *be, struct tensor scores, uint32_t heads,
               const struct align_window *windows, uint32_t n, struct tensor out, struct err *err);
int host_warp(struct backend *be, struct tensor matrix, const struct align_window *windows,
              uint32_t n, const struct align_hold *hold, struct tensor work, uint32_t *first_frame,
              struct err *err);

int host_put(struct backend *be, struct tensor dst, const float *src, struct err *err);
int host_get(struct backend *be, float *dst, struct tensor src, struct err *err);
int host_copy(struct backend *be, struct tensor dst, struct tensor src, struct err *err);
int host_layer_norm(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                    float epsilon, struct tensor y, struct err *err);
int host_add(struct backend *be, struct tensor y, struct tensor x, struct err *err);
int host_embed(struct backend *be, struct tensor table, struct tensor positions,
               const struct token_row *rows, struct tensor y, struct err *err);
int host_magnitude(struct backend *be, struct tensor x, struct tensor y, struct err *err);

int host_mel_new(struct backend *be, uint32_t bins, uint32_t windows, struct mel **ret,
                 struct err *err);
void host_mel_free(struct backend *be, struct mel *m);
int host_mel(struct backend *be, struct mel *m, const struct audio *audio, uint32_t windows,
             struct tensor out, struct err *err);
int host_filter_bank_new(struct backend *be, const struct filter_bank_spec *spec,
                         struct filter_bank **ret, struct err *err);
void host_filter_bank_free(struct backend *be, struct filter_bank *f);
int host_filter_bank(struct backend *be, struct filter_bank *f, struct tensor pcm,
                     const uint32_t *at, uint32_t windows, size_t samples, struct tensor out,
                     struct err *err);

int host_rules_new(struct backend *be, const struct rules_spec *spec, struct rules **ret,
                   struct err *err);
void host_rules_free(struct backend *be, struct rules *r);
int host_choose(struct backend *be, const struct rules *r, struct tensor logits,
                const struct choice_ask *ask, struct choice *ret, struct err *err);
int host_lstm_new(struct backend *be, int64_t in, int64_t hidden, uint32_t directions,
                  const struct lstm_weights *w, struct lstm **ret, struct err *err);
void host_lstm_free(struct backend *be, struct lstm *l);
int host_lstm(struct backend *be, struct lstm *l, uint32_t sequences, struct tensor x,
              const uint32_t *lengths, struct tensor h, struct tensor c, struct tensor y,
              struct err *err);

int host_conv2d_new(struct backend *be, enum precision precision, const struct conv2d_spec *spec,
                    const float *w, const float *bias, struct conv2d **ret, struct err *err);
void host_conv2d_free(struct backend *be, struct conv2d *c);
int host_conv2d(struct backend *be, struct conv2d *c, uint32_t images, uint32_t height,
                uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                struct err *err);
int host_activate(struct backend *be, enum activation f, struct tensor x, struct tensor y,
                  struct err *err);
int host_instance_norm(struct backend *be, uint32_t windows, struct tensor x, struct tensor gamma,
                       struct tensor beta, float epsilon, struct tensor y, struct err *err);
int host_max_pool(struct backend *be, uint32_t windows, uint32_t size, bool magnitudes,
                  struct tensor x, struct tensor y, struct err *err);
int host_resample_new(struct backend *be, const struct resample_spec *spec, const float *w,
                      struct resampling **ret, struct err *err);
void host_resample_free(struct backend *be, struct resampling *r);
int host_resample(struct backend *be, struct resampling *r, uint32_t windows,
                  const uint32_t *lengths, struct tensor x, const struct tensor *gamma,
                  const struct tensor *beta, struct tensor y, struct err *err);
/* Whether they begin at 0, ascend, and end at `rows`. Some may be empty. */
bool host_spans_fit(struct spans spans, int64_t rows);
int host_pool(struct backend *be, enum pool kind, struct spans spans, struct tensor x,
              struct tensor y, struct err *err);
int host_weighted_stats(struct backend *be, uint32_t windows, struct tensor x, const uint32_t *of,
                        struct tensor weights, struct tensor y, struct err *err);
int host_gather(struct backend *be, struct tensor x, const int32_t *rows, struct tensor y,
                struct err *err);
int host_attention_spans(struct backend *be, struct spans spans, uint32_t heads, uint32_t head_size,
                         float scale, struct tensor q, struct tensor k, struct tensor v,
                         const struct attention_bias *bias, struct tensor out, struct err *err);

int host_top(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
             struct err *err);

#endif
