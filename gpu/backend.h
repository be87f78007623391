/* gpu/backend.h - a device, as the table of operations that models are written against.
 *
 * The host backend (gpu/host) is always there. Others implement the same table in modules that are
 * opened at run time, so nothing here may name a library of theirs. Objects that an operation
 * prepares (packed weights, plans) are opaque to the models and belong to the backend that made
 * them; they must be freed before it is closed.
 *
 * One thread calls a backend at a time, and several backends are independent. Operations are
 * ordered; `sync` waits for all that were given. Shapes are checked by every operation: a mismatch
 * is ERR_DEVICE with a sentence, because it can only be a fault of ours. A failed allocation is
 * ERR_VRAM, after which everything that existed before is still valid. */
#ifndef NIGHTSHIFT_GPU_BACKEND_H
#define NIGHTSHIFT_GPU_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/tensor.h"

#define BACKEND_HEAD_SIZE 64  /* of every attention: all Whisper models have it */
#define BACKEND_MAX_KEYS 1536 /* keys that an attention may see */

struct backend;
struct linear; /* packed weights of y = x W^T + b */
struct conv1d; /* packed weights of a convolution over time, kernel 3, padding 1 */
struct mel;    /* plan and scratch of a log-mel spectrogram */

enum epilogue {
    EPILOGUE_NONE, /* y = r */
    EPILOGUE_GELU, /* y = gelu(r), the exact one (erf) */
    EPILOGUE_ADD,  /* y = y + r */
};

enum linear_use {
    LINEAR_WIDE, /* hundreds of rows, always the same number: results repeat bit for bit */
    LINEAR_ROWS, /* few rows: a row's result does not depend on the others or on their number */
};

/* Keys and values of one sequence and one layer, all heads, in the order in which the device's
 * attention reads them. A view into memory of kv_bytes() bytes. */
struct kv {
    enum dtype type;
    uint32_t heads;
    uint32_t capacity; /* keys; at most BACKEND_MAX_KEYS */
    void *data;        /* borrowed, device memory, zeroed before its first use */
};

struct backend_info {
    char name[64];         /* "AMD EPYC 9654", "NVIDIA H200": for people */
    char id[64];           /* "cpu", a GPU's UUID: stable */
    uint64_t memory_total; /* bytes */
    uint64_t memory_free;  /* when it was opened */
    uint32_t threads;      /* host: threads that operations use; 0 elsewhere */
    bool bf16;             /* has instructions for it: AUTO picks it */
    bool f16;
    char features[96]; /* "avx512, bf16": for people */
};

struct backend_ops {
    void (*close)(struct backend *be);
    int (*sync)(struct backend *be, struct err *err);

    /* Device memory, zeroed, aligned for any use. */
    int (*alloc)(struct backend *be, size_t bytes, void **ret, struct err *err);
    void (*release)(struct backend *be, void *p); /* accepts NULL */
    /* Between host memory of the caller (dense, float32) and a tensor of any type. */
    int (*put)(struct backend *be, struct tensor dst, const float *src, struct err *err);
    int (*get)(struct backend *be, float *dst, struct tensor src, struct err *err);
    /* dst = src, converting between types. */
    int (*copy)(struct backend *be, struct tensor dst, struct tensor src, struct err *err);

    /* w: [out][in] float32 in host memory, bias: [out] or NULL; copied. type: of the weights and
     * of x. rows: how many x will mostly have (wide ones are packed for that). */
    int (*linear_new)(struct backend *be, enum dtype type, enum linear_use use, int64_t rows,
                      int64_t out, int64_t in, const float *w, const float *bias,
                      struct linear **ret, struct err *err);
    void (*linear_free)(struct backend *be, struct linear *l);
    /* x: [rows][in] of the weights' type, y: [rows][out] float32 or the weights' type. */
    int (*linear)(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                  struct tensor y, struct err *err);

    /* w: [out][in][3]. x: [time][in], y: [time / stride][out], both dense. */
    int (*conv1d_new)(struct backend *be, enum dtype type, int64_t out, int64_t in, int64_t stride,
                      const float *w, const float *bias, struct conv1d **ret, struct err *err);
    void (*conv1d_free)(struct backend *be, struct conv1d *c);
    int (*conv1d)(struct backend *be, struct conv1d *c, struct tensor x, enum epilogue epilogue,
                  struct tensor y, struct err *err);

    /* Over the columns, epsilon 1e-5; gamma, beta: [1][cols] float32; x float32, y any. */
    int (*layer_norm)(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                      struct tensor y, struct err *err);
    /* y += x, both float32. */
    int (*add)(struct backend *be, struct tensor y, struct tensor x, struct err *err);
    /* y[i] = table[ids[i]] + positions[pos[i]], y float32. ids and pos: host memory, checked. */
    int (*embed)(struct backend *be, struct tensor table, struct tensor positions,
                 const int32_t *ids, const uint32_t *pos, struct tensor y, struct err *err);

    size_t (*kv_bytes)(enum dtype type, uint32_t heads, uint32_t capacity);
    /* Rows of k and v ([n][heads * 64], the cache's type) become keys 0 .. n-1. */
    int (*kv_fill)(struct backend *be, struct kv kv, struct tensor k, struct tensor v,
                   struct err *err);
    /* Row i of k and v becomes key pos[i] of kv[i]. */
    int (*kv_append)(struct backend *be, const struct kv *kv, const uint32_t *pos, struct tensor k,
                     struct tensor v, struct err *err);
    /* out = softmax(q k^T / 8) v over keys 0 .. keys-1, without a mask. q, out: [n][heads * 64] of
     * the cache's type. */
    int (*attention)(struct backend *be, struct tensor q, struct kv kv, uint32_t keys,
                     struct tensor out, struct err *err);
    /* The same, where row i looks at the first keys[i] keys of kv[i]. A row's result does not
     * depend on the others. */
    int (*attention_rows)(struct backend *be, struct tensor q, const struct kv *kv,
                          const uint32_t *keys, struct tensor out, struct err *err);

    /* Whisper's log-mel spectrogram of a 30 s window at 16 kHz: bins 1 .. 256. */
    int (*mel_new)(struct backend *be, uint32_t bins, struct mel **ret, struct err *err);
    void (*mel_free)(struct backend *be, struct mel *m);
    /* pcm: n <= 480000 samples in host memory; out: [3000][bins] float32, time by bin. */
    int (*mel)(struct backend *be, struct mel *m, const float *pcm, size_t n, struct tensor out,
               struct err *err);
};

/* What a backend's own struct begins with. */
struct backend {
    const struct backend_ops *ops;
    struct backend_info info;
    uint64_t allocated; /* bytes of device memory held now: tensors, packed weights, plans */
    uint64_t peak;      /* the most that it was */
    uint64_t budget;    /* allocated may not pass it (ERR_VRAM); 0: no bound of ours */
};

/* The processor itself. threads 0: as many as this process may run on. Closed with
 * backend_close. */
int backend_open_host(uint32_t threads, struct backend **ret, struct err *err);
/* Accepts NULL. */
void backend_close(struct backend *be);
/* Lets compute threads of the host backend sleep while they wait, where they would spin. Called
 * first in a main() that computes, with its own argv: OpenMP reads its environment before main
 * does, so the program starts itself once more, in the same process. Returns when OMP_WAIT_POLICY
 * or GOMP_SPINCOUNT is set already (by the user, or by the call before), or when it cannot be done.
 */
void backend_host_sleep_when_idle(char **argv);
/* What backend_open_host would find, without opening anything. */
void backend_host_info(struct backend_info *ret);

#endif
