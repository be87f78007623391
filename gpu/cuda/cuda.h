/* gpu/cuda/cuda.h - what the files of the CUDA module share: the open device.
 *
 * Everything runs on one stream, `work`, in the order of the calls; only a spectrogram's audio
 * comes by `copies`, and events order the two. A fork has streams of its own, and of everything
 * that an operation uses for itself: scratch, workspace, staging, plans. So between the two nothing
 * is shared but what the caller hands over and orders by `after`, which is an event. What is left
 * is in the device that was opened, `home`: the list of all blocks of memory with what they sum up
 * to, and the algorithms that were timed. `home->shared` guards both, for forks may have threads of
 * their own. The library of products serves all of them, and is safe for several threads.
 *
 * Who waits sleeps: the events that are waited for are blocking ones, for a thread that spins takes
 * a processor from the decoders of media.
 *
 * Nothing allocates in steady state: plans of matrix products, scratch and staging are made at
 * first use and kept. A recording is a captured graph of `work`, so whatever it uses must stay
 * where it is: scratch that has been outgrown is kept until the last recording is freed.
 *
 * Sizes that the kernels see are 64 bit; shapes are checked before anything is launched.
 *
 * Functions of the CUDA run time that the module uses, all of them:
 *   cudaDriverGetVersion cudaRuntimeGetVersion cudaGetDeviceCount cudaGetDeviceProperties
 *   cudaDeviceGetAttribute cudaSetDevice cudaMemGetInfo cudaMalloc cudaFree cudaHostAlloc
 *   cudaFreeHost cudaMemcpyAsync cudaMemsetAsync cudaDeviceGetStreamPriorityRange
 *   cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamSynchronize cudaStreamWaitEvent
 *   cudaEventCreateWithFlags cudaEventRecord cudaEventSynchronize cudaEventQuery
 *   cudaEventElapsedTime cudaEventDestroy cudaGetLastError cudaGetErrorName
 *   cudaGetErrorString cudaStreamBeginCapture cudaStreamEndCapture cudaGraphInstantiate
 *   cudaGraphLaunch cudaGraphDestroy cudaGraphExecDestroy cudaFuncSetAttribute
 *
 * Those of cuBLASLt and cuDNN are in libs.h.
 *
 * NIGHTSHIFT_CUDA_GELU in the environment when the device is opened, for measuring: "exact"
 * computes GELU in a kernel of its own in 16 bits, too (linear.c).
 *
 * NIGHTSHIFT_CUDA_CONVOLVE in the environment when a convolution's weights are made, for measuring:
 * "product" never takes cuDNN, "cudnn" takes it wherever it has a kernel, and "first" is that with
 * cuDNN's first proposal, untimed. */
#ifndef NIGHTSHIFT_GPU_CUDA_CUDA_H
#define NIGHTSHIFT_GPU_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "gpu/backend.h"
#include "gpu/cuda/libs.h"
#include "gpu/cuda_module.h"

#define CUDA_MIN_SM 75 /* the oldest devices that the kernels are compiled for */
#define CUDA_HEAD BACKEND_HEAD_SIZE
#define CUDA_STAGES 4                     /* pinned buffers, used in turn */
#define CUDA_STAGE_BYTES (4u << 20)       /* of each: longer copies go in pieces */
#define CUDA_LAPS 3                       /* runs by which an algorithm is timed */
#define CUDA_ATTENTION_BYTES (256u << 20) /* scores of the unfused attention, at most */

struct plan;          /* a prepared matrix product: matmul.c */
struct algorithm;     /* by which a product is computed: algorithms.c */
struct sdpa_plan;     /* a prepared fused attention: cudnn/sdpa.c */
struct convolve_plan; /* a prepared convolution: cudnn/convolve.c */

/* Pinned host memory through which the caller's pass. */
struct cuda_stage {
    void *data;
    cudaEvent_t done; /* the copy that used it last */
};

/* And memory that a copy to the host lands in. */
struct cuda_box {
    void *data; /* NULL: not used yet */
    size_t bytes;
    cudaEvent_t done;
};

extern const struct backend_ops cuda_ops;

struct cuda_block {
    void *data;
    size_t bytes;
};

struct cuda {
    struct backend base; /* first: a struct backend * is a struct cuda * */
    struct cuda *home;   /* itself, or what it is a fork of */
    int device;          /* ordinal */
    int sm;              /* 10 * major + minor: 75 ... 120 */
    bool deterministic;
    bool exact_gelu; /* in 16 bits, too */
    bool recording;
    uint32_t recordings; /* alive */

    struct cuda_libs libs;
    cudaStream_t work, copies;
    cudaEvent_t mark; /* in `work`: what is waited for, or what others come after */
    cublasLtHandle_t lt;
    void *dnn;            /* cudnnHandle_t; NULL: no fused attention */
    char dnn_reason[200]; /* why not, or why it refused a shape */
    void *workspace;      /* cuBLASLt's and cuDNN's, one operation at a time */
    size_t workspace_bytes;
    void *scratch; /* base.scratch bytes, of one operation: quantised inputs, scores, padded rows */
    struct cuda_block *old; /* outgrown scratch that recordings may still use */
    size_t old_count;

    struct cuda_stage up[CUDA_STAGES], down;
    struct cuda_box box[BACKEND_BOXES];
    uint32_t next_up;

    pthread_mutex_t
        capturing;          /* home: held by who records, and by who closes a fork (cuda_close) */
    pthread_mutex_t shared; /* home: of what follows here, base.allocated and base.peak */
    struct cuda_block *blocks; /* home: what alloc gave, by address */
    size_t block_count, block_cap;

    struct algorithm *algorithms; /* home: what was timed or learned */
    size_t algorithm_count;

    struct plan **plans; /* a hash table by shape */
    size_t plan_count, plan_cap;
    bool rehearsing;
    cudaEvent_t lap[CUDA_LAPS + 1]; /* while rehearsing: with times */
    struct sdpa_plan **sdpa;        /* a list by shape */
    size_t sdpa_count;
    struct convolve_plan **convolve; /* the same */
    size_t convolve_count;
    char convolve_reason[200]; /* why cuDNN refused a shape last */
};

static inline struct cuda *cuda_of(struct backend *be) { return (struct cuda *)be; }

/* --- errors ------------------------------------------------------------------------------- */

/* 0 when rc (a cudaError_t as int) is; else sets err: ERR_VRAM for memory, ERR_DEVICE for the rest,
 * with the error's name and what was being done ("multiplying matrices"). */
int cuda_status(struct err *err, int rc, const char *doing);
/* ERR_DEVICE: the caller is wrong. */
int cuda_shape(struct err *err, const char *operation);
/* 0, or ERR_DEVICE when a recording is being made and `operation` cannot be part of one. */
int cuda_not_recording(struct cuda *c, const char *operation, struct err *err);

/* --- context.c, memory.c -------------------------------------------------------------------- */

int cuda_open(const char *device, const struct cuda_options *options, struct backend **ret,
              struct err *err);
int cuda_fork(struct backend *be, bool leads, struct backend **ret, struct err *err);
int cuda_after(struct backend *be, struct backend *other, struct err *err);
/* Device memory, counted, held against the budget; zeroed. Not while recording. */
int cuda_alloc(struct backend *be, size_t bytes, void **ret, struct err *err);
void cuda_release(struct backend *be, void *p);
/* Each operation begins with this: it selects the device for the thread. If that fails, the
 * operation's first call to the device fails, too. */
static inline struct cuda *cuda_enter(struct backend *be)
{
    (void)cudaSetDevice(cuda_of(be)->device);
    return cuda_of(be);
}

/* Frees the scratch that was kept for recordings: with the last of them. */
void cuda_free_retired(struct cuda *c);
/* Scratch of at least `bytes` for the operation that asks; the next one may overwrite it. */
int cuda_scratch(struct cuda *c, size_t bytes, void **ret, struct err *err);
/* Copies to the device on a stream, through pinned memory: src may be reused at once. */
int cuda_upload(struct cuda *c, cudaStream_t stream, void *dst, const void *src, size_t bytes,
                struct err *err);
/* Numbers of the caller's, which may be reused at once, into scratch memory. Not while recording.
 */
int cuda_numbers(struct cuda *c, const uint32_t *numbers, size_t n, uint32_t **ret,
                 struct err *err);

int cuda_sync(struct backend *be, struct err *err);
int cuda_put(struct backend *be, struct tensor dst, const float *src, struct err *err);
int cuda_get(struct backend *be, float *dst, struct tensor src, struct err *err);
int cuda_write(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err);
int cuda_read(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err);
int cuda_post(struct backend *be, uint32_t box, const void *src, size_t bytes, struct err *err);
int cuda_collect(struct backend *be, uint32_t box, void *dst, size_t bytes, struct err *err);
int cuda_posted(struct backend *be, uint32_t box, bool *ret, struct err *err);

/* --- device.c ----------------------------------------------------------------------------- */

int cuda_devices(struct cuda_device *ret, uint32_t cap, uint32_t *n, struct err *err);
uint64_t cuda_free_memory(uint32_t ordinal);
/* The ordinal of "0" or "GPU-8f3c..."; ERR_MISSING. Makes no context. */
int cuda_device_find(const char *name, int *ret, struct err *err);
/* One device; makes no context. */
int cuda_device_describe(int ordinal, struct cuda_device *ret, struct err *err);

/* --- matmul.c ------------------------------------------------------------------------------- */

/* y = alpha x w^T (+ bias) (+ y), row-major: x: [rows][in], w: [out][in] (or [in][out] with
 * `w_by_input`), y: [rows][out]; `batch` of them, so many elements apart (w_step 0: one for all).
 */
struct product {
    cudaDataType_t type, y_type; /* of x and w; of y */
    bool tf32;
    bool w_by_input;
    int64_t rows, out, in;
    int64_t x_stride, w_stride, y_stride;
    int64_t batch, x_step, w_step, y_step;
    enum epilogue epilogue;   /* GELU: the tanh one; RELU: not of 8 bit */
    const void *x, *w, *bias; /* bias: of y's type; of products of fp8 bf16 in any case */
    void *y;
    float alpha;
    const float *x_scales, *w_scales; /* of e4m3, [rows] and [out]: of x's rows and w's; or NULL */
};

/* Prepared at first use of its shape. */
int cuda_product(struct cuda *c, const struct product *p, const char *doing, struct err *err);
void cuda_plans_free(struct cuda *c);
cudaDataType_t cuda_type(enum dtype type);

/* --- algorithms.c --------------------------------------------------------------------------- */

int cuda_rehearse(struct backend *be, bool on, struct err *err);
int cuda_recall(struct backend *be, struct buf *ret, struct err *err);
int cuda_learn(struct backend *be, const void *data, size_t bytes, struct err *err);

/* --- check.c ------------------------------------------------------------------------------ */

int cuda_check(unsigned parts, cuda_finding_fn fn, void *arg);

/* --- operations, as struct backend_ops describes them --------------------------------------- */

int cuda_linear_new(struct backend *be, enum precision precision, enum linear_use use, int64_t rows,
                    int64_t out, int64_t in, const float *w, const float *bias, struct linear **ret,
                    struct err *err);
void cuda_linear_free(struct backend *be, struct linear *l);
int cuda_linear(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                struct tensor y, struct err *err);
/* Whether a tensor of DTYPE_E4M3 is one that products may read (backend.h). */
bool cuda_is_e4m3(const struct tensor *t);

int cuda_copy(struct backend *be, struct tensor dst, struct tensor src, struct err *err);
int cuda_layer_norm(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                    float epsilon, struct tensor y, struct err *err);
int cuda_add(struct backend *be, struct tensor y, struct tensor x, struct err *err);
int cuda_embed(struct backend *be, struct tensor table, struct tensor positions,
               const struct token_row *rows, struct tensor y, struct err *err);

/* Whether a cache can be what it says. */
bool cuda_is_cache(const struct kv *kv);
size_t cuda_kv_bytes(enum dtype type, uint32_t heads, uint32_t capacity);
int cuda_kv_fill(struct backend *be, struct kv kv, const uint32_t *slots, uint32_t windows,
                 struct tensor k, struct tensor v, struct err *err);
int cuda_kv_append(struct backend *be, struct kv kv, const struct token_row *rows, struct tensor k,
                   struct tensor v, struct err *err);
int cuda_attention(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                   struct tensor v, struct tensor out, struct err *err);
int cuda_attention_rows(struct backend *be, struct tensor q, struct kv kv,
                        const struct token_row *rows, uint32_t keys, struct tensor out,
                        struct err *err);
int cuda_attention_scores(struct backend *be, struct tensor q, struct kv kv,
                          const struct token_row *rows, uint32_t head, uint32_t keys,
                          struct tensor out, struct err *err);
int cuda_align(struct backend *be, struct tensor scores, uint32_t heads,
               const struct align_window *windows, uint32_t n, struct tensor out, struct err *err);
int cuda_warp(struct backend *be, struct tensor matrix, const struct align_window *windows,
              uint32_t n, const struct align_hold *hold, struct tensor work, uint32_t *first_frame,
              struct err *err);

int cuda_mel_new(struct backend *be, uint32_t bins, uint32_t windows, struct mel **ret,
                 struct err *err);
void cuda_mel_free(struct backend *be, struct mel *m);
int cuda_mel(struct backend *be, struct mel *m, const struct audio *audio, uint32_t windows,
             struct tensor out, struct err *err);
int cuda_filter_bank_new(struct backend *be, const struct filter_bank_spec *spec,
                         struct filter_bank **ret, struct err *err);
void cuda_filter_bank_free(struct backend *be, struct filter_bank *f);
int cuda_filter_bank(struct backend *be, struct filter_bank *f, struct tensor pcm,
                     const uint32_t *at, uint32_t windows, size_t samples, struct tensor out,
                     struct err *err);

int cuda_rules_new(struct backend *be, const struct rules_spec *spec, struct rules **ret,
                   struct err *err);
void cuda_rules_free(struct backend *be, struct rules *r);
int cuda_choose(struct backend *be, const struct rules *r, struct tensor logits,
                const struct choice_ask *ask, struct choice *ret, struct err *err);
int cuda_follow(struct backend *be, const struct token_tail *tails, struct token_row *rows,
                struct choice_ask *asks, uint32_t n, struct err *err);
int cuda_note(struct backend *be, const struct rules *r, const struct token_row *rows,
              const struct choice_ask *asks, const struct choice *choices, uint32_t n,
              struct token_tail *tails, struct err *err);
int cuda_top(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
             struct err *err);

int cuda_lstm_new(struct backend *be, int64_t in, int64_t hidden, uint32_t directions,
                  const struct lstm_weights *w, struct lstm **ret, struct err *err);
void cuda_lstm_free(struct backend *be, struct lstm *l);
int cuda_lstm(struct backend *be, struct lstm *l, uint32_t sequences, struct tensor x,
              const uint32_t *lengths, struct tensor h, struct tensor c, struct tensor y,
              struct err *err);
int cuda_magnitude(struct backend *be, struct tensor x, struct tensor y, struct err *err);

int cuda_conv2d_new(struct backend *be, enum precision precision, const struct conv2d_spec *spec,
                    const float *w, const float *bias, struct conv2d **ret, struct err *err);
void cuda_conv2d_free(struct backend *be, struct conv2d *conv);
int cuda_conv2d(struct backend *be, struct conv2d *conv, uint32_t images, uint32_t height,
                uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                struct err *err);
int cuda_activate(struct backend *be, enum activation f, struct tensor x, struct tensor y,
                  struct err *err);
int cuda_instance_norm(struct backend *be, uint32_t windows, struct tensor x, struct tensor gamma,
                       struct tensor beta, float epsilon, struct tensor y, struct err *err);
int cuda_max_pool(struct backend *be, uint32_t windows, uint32_t size, bool magnitudes,
                  struct tensor x, struct tensor y, struct err *err);
int cuda_resample_new(struct backend *be, const struct resample_spec *spec, const float *w,
                      struct resampling **ret, struct err *err);
void cuda_resample_free(struct backend *be, struct resampling *r);
int cuda_resample(struct backend *be, struct resampling *r, uint32_t windows,
                  const uint32_t *lengths, struct tensor x, const struct tensor *gamma,
                  const struct tensor *beta, struct tensor y, struct err *err);
/* Rows of the longest sequence; 0: they do not begin at 0, ascend, and end at `rows`. */
uint32_t cuda_spans(struct spans spans, int64_t rows);
int cuda_pool(struct backend *be, enum pool kind, struct spans spans, struct tensor x,
              struct tensor y, struct err *err);
int cuda_weighted_stats(struct backend *be, uint32_t windows, struct tensor x, const uint32_t *of,
                        struct tensor weights, struct tensor y, struct err *err);
int cuda_gather(struct backend *be, struct tensor x, const int32_t *rows, struct tensor y,
                struct err *err);
int cuda_attention_spans(struct backend *be, struct spans spans, uint32_t heads, uint32_t head_size,
                         float scale, struct tensor q, struct tensor k, struct tensor v,
                         const struct attention_bias *bias, struct tensor out, struct err *err);

int cuda_record_begin(struct backend *be, struct err *err);
int cuda_record_end(struct backend *be, struct recording **ret, struct err *err);
int cuda_record_run(struct backend *be, struct recording *r, struct err *err);
void cuda_record_free(struct backend *be, struct recording *r);

/* --- what cuDNN does, where there is one ---------------------------------------------------- */

/* cudnn/graph.c: its handle. Without one c->dnn stays NULL, and c->dnn_reason says why. */
int cuda_dnn_open(struct cuda *c, struct err *err);
void cuda_dnn_close(struct cuda *c);

/* The fused attention (cudnn/sdpa.c): ERR_EMPTY when this device, or its cuDNN, has none for the
 * shape, and the caller takes the unfused one; c->dnn_reason says why. */
int cuda_sdpa(struct cuda *c, uint32_t windows, struct tensor q, struct tensor k, struct tensor v,
              struct tensor out, struct err *err);
void cuda_sdpa_free(struct cuda *c);

/* A convolution in float32, TF32 or float16 (cudnn/convolve.c). x: [images * height * width][in],
 * y: [images * out_height * out_width][out], w: [out][kernel_h][kernel_w][in], all dense and of
 * precision_type; bias: [out] float32, dense_bias the same of precision_type, both NULL: none. */
struct convolution {
    const struct conv2d_spec *spec;
    enum precision precision;
    uint32_t images;
    int64_t height, width, out_height, out_width;
    enum epilogue epilogue;
    void *x, *w, *bias, *dense_bias, *y;
    bool timed; /* a new shape's engines against each other, in a rehearsal */
};

/* The middle of CUDA_LAPS runs' times, after one that is not counted; in a rehearsal. An error is
 * what it returned. */
int cuda_time(struct cuda *c, int (*once)(void *arg, struct err *err), void *arg, float *ms,
              struct err *err);
#define CUDA_CLEARLY 0.98f /* of the first way's time: what noise does not do */

/* ERR_EMPTY where cuDNN has no kernel for it, and nothing was touched. */
int cuda_convolve(struct cuda *c, const struct convolution *v, struct err *err);
/* Whether to ask at all: then weights are to lie as above. */
bool cuda_convolves(const struct cuda *c, const struct conv2d_spec *spec, enum precision precision);
void cuda_convolve_free(struct cuda *c);

#endif
