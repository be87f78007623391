#include "tests/unit/models/recorder.h"

#include <stdlib.h>

#include "workers/models/whisper/whisper_net.h"

#define CALLS_MAX 256

enum what { NORM, LINEAR, EMBED, APPEND, ROWS, CHOOSE, TOP };

struct call {
    enum what what;
    struct tensor a, b, c, d;
    struct linear *linear;
    enum epilogue epilogue;
    struct kv kv;
    const struct token_row *rows;
    uint32_t keys;
    const struct rules *rules;
    const struct choice_ask *ask;
    struct choice *ret;
    struct candidate *top;
    float epsilon;
};

struct recording {
    struct call call[CALLS_MAX];
    int count;
};

static const struct backend_ops *real;
static struct backend_ops ops;
static struct recording *now; /* NULL: operations run */
static struct recorder_counts seen;
static int failure;

static int keep(struct call c, struct err *err)
{
    if (now->count == CALLS_MAX)
        return err_set(err, ERR_DEVICE, "more calls than a recording holds");
    now->call[now->count++] = c;
    return 0;
}

static int norm(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                float epsilon, struct tensor y, struct err *err)
{
    return now ? keep(
                     (struct call){
                         .what = NORM, .a = x, .b = gamma, .c = beta, .epsilon = epsilon, .d = y},
                     err)
               : real->layer_norm(be, x, gamma, beta, epsilon, y, err);
}

static int linear(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                  struct tensor y, struct err *err)
{
    return now ? keep(
                     (struct call){
                         .what = LINEAR, .linear = l, .a = x, .epilogue = epilogue, .b = y},
                     err)
               : real->linear(be, l, x, epilogue, y, err);
}

static int embed(struct backend *be, struct tensor table, struct tensor positions,
                 const struct token_row *rows, struct tensor y, struct err *err)
{
    return now ? keep(
                     (struct call){.what = EMBED, .a = table, .b = positions, .rows = rows, .c = y},
                     err)
               : real->embed(be, table, positions, rows, y, err);
}

static int append(struct backend *be, struct kv kv, const struct token_row *rows, struct tensor k,
                  struct tensor v, struct err *err)
{
    return now ? keep((struct call){.what = APPEND, .kv = kv, .rows = rows, .a = k, .b = v}, err)
               : real->kv_append(be, kv, rows, k, v, err);
}

static int attention(struct backend *be, struct tensor q, struct kv kv,
                     const struct token_row *rows, uint32_t keys, struct tensor out,
                     struct err *err)
{
    return now ? keep(
                     (struct call){
                         .what = ROWS, .a = q, .kv = kv, .rows = rows, .keys = keys, .b = out},
                     err)
               : real->attention_rows(be, q, kv, rows, keys, out, err);
}

static int choose(struct backend *be, const struct rules *r, struct tensor logits,
                  const struct choice_ask *ask, struct choice *ret, struct err *err)
{
    return now ? keep(
                     (struct call){.what = CHOOSE, .rules = r, .a = logits, .ask = ask, .ret = ret},
                     err)
               : real->choose(be, r, logits, ask, ret, err);
}

static int top(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
               struct err *err)
{
    return now ? keep((struct call){.what = TOP, .a = logits, .keys = k, .top = ret}, err)
               : real->top(be, logits, k, ret, err);
}

static int record_begin(struct backend *be, struct err *err)
{
    (void)be;
    seen.begun++;
    now = calloc(1, sizeof(*now));
    return now ? 0 : err_set(err, ERR_NOMEM, "no memory for a recording");
}

static int record_end(struct backend *be, struct recording **ret, struct err *err)
{
    (void)be;
    seen.ended++;
    if (failure) {
        free(now);
        now = NULL;
        return err_set(err, failure, "no recording");
    }
    *ret = now;
    now = NULL;
    return 0;
}

static int again(struct backend *be, const struct call *c, struct err *err)
{
    switch (c->what) {
    case NORM:
        return real->layer_norm(be, c->a, c->b, c->c, c->epsilon, c->d, err);
    case LINEAR:
        return real->linear(be, c->linear, c->a, c->epilogue, c->b, err);
    case EMBED:
        return real->embed(be, c->a, c->b, c->rows, c->c, err);
    case APPEND:
        return real->kv_append(be, c->kv, c->rows, c->a, c->b, err);
    case ROWS:
        return real->attention_rows(be, c->a, c->kv, c->rows, c->keys, c->b, err);
    case CHOOSE:
        return real->choose(be, c->rules, c->a, c->ask, c->ret, err);
    case TOP:
        return real->top(be, c->a, c->keys, c->top, err);
    }
    return 0;
}

static int record_run(struct backend *be, struct recording *r, struct err *err)
{
    int rc = 0;

    seen.run++;
    for (int i = 0; rc == 0 && i < r->count; i++)
        rc = again(be, &r->call[i], err);
    return rc;
}

static void record_free(struct backend *be, struct recording *r)
{
    (void)be;
    seen.freed++;
    free(r);
}

void recorder_install(struct backend *be)
{
    real = be->ops;
    ops = *real;
    ops.layer_norm = norm;
    ops.linear = linear;
    ops.embed = embed;
    ops.kv_append = append;
    ops.attention_rows = attention;
    ops.choose = choose;
    ops.top = top;
    ops.record_begin = record_begin;
    ops.record_end = record_end;
    ops.record_run = record_run;
    ops.record_free = record_free;
    be->ops = &ops;
}

void recorder_fail(int code) { failure = code; }

void recorder_counts(struct recorder_counts *ret) { *ret = seen; }

struct backend *recorder_backend(const struct asr_model *w) { return whisper_of(w)->be; }
