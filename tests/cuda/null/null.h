/* tests/cuda/null/null.h - a CUDA module that computes nothing: what a run costs on such a device
 * is what it costs the host. It answers at once, or after a time that is pretended.
 *
 * It is opened as the real module is. Copies pass through buffers of the real one's size, and small
 * ones reach the device's memory, which is the host's; operations write nothing. A copy back of
 * what an operation "computed" gets numbers that are made up (made_up.h), so that a recording has
 * text, speech, speakers and sounds. Nothing is checked but memory: tests/ops does that.
 *
 * Environment, read when a device is listed or opened:
 *
 * - NIGHTSHIFT_NULL_GPUS="139GiB,24GiB": devices and their memory (default one of 139 GiB)
 * - NIGHTSHIFT_NULL_CC="9.0": compute capability of all
 * - NIGHTSHIFT_NULL_NAME="NVIDIA H200": their name
 * - NIGHTSHIFT_NULL_COUNTS=FILE: when a device is closed, its calls and bytes go to FILE.PID, a
 *   line "name number" each; microseconds: "busy_us", what their operations were pretended to take,
 *   and "waited_us", for how long threads had to sleep for them
 * - NIGHTSHIFT_NULL_TAKES_US=N: an operation takes so long (default 0), after the one before it;
 * the forks of a device do not slow each other down */
#ifndef NIGHTSHIFT_TESTS_CUDA_NULL_H
#define NIGHTSHIFT_TESTS_CUDA_NULL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/backend.h"
#include "tests/cuda/null/made_up.h"

#define NULL_STAGES 4 /* as gpu/cuda has them, each of NULL_STAGE_BYTES */
#define NULL_STAGE_BYTES ((size_t)4 << 20)

/* Calls that are counted; X(name) each. */
#define NULL_CALLS(X)                                                                              \
    X(sync), X(alloc), X(put), X(get), X(write), X(read), X(copy), X(linear), X(layer_norm),       \
        X(add), X(embed), X(kv_fill), X(kv_append), X(attention), X(attention_rows),               \
        X(attention_scores), X(align), X(warp), X(mel), X(filter_bank), X(choose), X(top),         \
        X(lstm), X(magnitude), X(conv2d), X(activate), X(instance_norm), X(max_pool), X(resample), \
        X(pool), X(weighted_stats), X(gather), X(attention_spans), X(follow), X(note), X(post),    \
        X(collect), X(posted), X(record_run), X(fork), X(after)

#define NULL_CALL(name) NULL_CALL_##name
enum null_call { NULL_CALLS(NULL_CALL), NULL_CALL_COUNT };

struct null_counts {
    uint64_t calls[NULL_CALL_COUNT];
    uint64_t bytes_up, bytes_down;
    uint64_t busy_us, waited_us;
};

struct null_block {
    void *data;
    size_t bytes;
};

/* What a device and its forks share. */
struct null_home {
    pthread_mutex_t lock;
    struct null_block *blocks;
    size_t block_count, block_capacity;
    struct made_up_table *table;
    struct null_counts counts; /* of forks that were closed */
};

struct null_act;

/* The real module records into a graph; here it is a list of what must be done again. */
struct recording {
    struct null_act *acts;
    uint32_t count, capacity;
};

struct null_box {
    char *data;
    size_t bytes;
    int64_t ready_us;
};

struct null_device {
    struct backend base;
    struct null_device *owner; /* itself, or the one that it is a fork of */
    struct null_home *home;
    char *stage[NULL_STAGES];
    uint32_t next_stage;
    struct null_box box[BACKEND_BOXES];
    struct recording *recorded;    /* while recording */
    const struct choice *answered; /* of the last `choose`, for `top` */
    const struct rules *asked;
    uint64_t drawn; /* tokens so far */
    struct made_up_clock clock;
    struct null_counts counts;
    int64_t takes_us; /* each operation */
    int64_t idle_us;  /* monotonic: when what it was asked for is done */
};

static inline struct null_device *null_of(struct backend *be) { return (struct null_device *)be; }
static inline void null_count(struct backend *be, enum null_call call)
{
    null_of(be)->counts.calls[call]++;
}
/* An operation, which takes its time behind the ones before it. */
void null_operate(struct backend *be, enum null_call call);
void null_wait_until(struct null_device *d, int64_t us); /* monotonic */

/* ---- null_memory.c */

/* Memory that weights take: nobody reads it, so it is only counted. */
int null_take_bytes(struct backend *be, uint64_t bytes, struct err *err);
void null_give_bytes(struct backend *be, uint64_t bytes);
int null_alloc(struct backend *be, size_t bytes, void **ret, struct err *err);
void null_release(struct backend *be, void *p);
void null_release_block(const struct null_block *b);
/* Copies through the stages; a small copy arrives, a large one does not. dst NULL: none does. */
void null_upload(struct null_device *d, void *dst, const void *src, size_t bytes);
int null_put(struct backend *be, struct tensor dst, const float *src, struct err *err);
int null_get(struct backend *be, float *dst, struct tensor src, struct err *err);
int null_write(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err);
int null_read(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err);
int null_post(struct backend *be, uint32_t box, const void *src, size_t bytes, struct err *err);
int null_collect(struct backend *be, uint32_t box, void *dst, size_t bytes, struct err *err);
int null_posted(struct backend *be, uint32_t box, bool *ret, struct err *err);
/* The memory at `at` holds what was written there. */
void null_stored(struct null_device *d, const void *at);
/* An operation has written y: reads of it are made up from now on. */
void null_computed(struct backend *be, enum null_call call, struct tensor y,
                   enum made_up_kind kind);

/* ---- null_tokens.c */

int null_rules_new(struct backend *be, const struct rules_spec *spec, struct rules **ret,
                   struct err *err);
void null_rules_free(struct backend *be, struct rules *r);
int null_choose(struct backend *be, const struct rules *r, struct tensor logits,
                const struct choice_ask *ask, struct choice *ret, struct err *err);
int null_top(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
             struct err *err);
int null_follow(struct backend *be, const struct token_tail *tails, struct token_row *rows,
                struct choice_ask *asks, uint32_t n, struct err *err);
int null_note(struct backend *be, const struct rules *r, const struct token_row *rows,
              const struct choice_ask *asks, const struct choice *choices, uint32_t n,
              struct token_tail *tails, struct err *err);
int null_record_begin(struct backend *be, struct err *err);
int null_record_end(struct backend *be, struct recording **ret, struct err *err);
int null_record_run(struct backend *be, struct recording *r, struct err *err);
void null_record_free(struct backend *be, struct recording *r);

/* ---- null_operations.c */

extern const struct backend_ops null_operations;
int null_device_new(const struct backend_info *info, uint64_t budget, struct null_device **ret,
                    struct err *err);

#endif
