/* Whisper's token rules as tables on the device, and the choice by them. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"

struct rules {
    struct rules_device device;
    void *tables; /* one block: never, never_first, languages */
};

static bool all_below(const int32_t *ids, uint32_t count, uint32_t vocab)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab)
            return false;
    return true;
}

static bool spec_fits(const struct rules_spec *s)
{
    const int32_t needed[] = {s->eot, s->timestamp_begin, s->timestamp_end, s->max_initial};

    return s->vocab > 0 && s->vocab <= INT32_MAX && all_below(needed, 4, s->vocab) &&
           (s->no_speech < 0 || all_below(&s->no_speech, 1, s->vocab)) &&
           all_below(s->never, s->never_count, s->vocab) &&
           all_below(s->never_first, s->never_first_count, s->vocab) &&
           all_below(s->languages, s->language_count, s->vocab);
}

static void mark_token_bits(uint32_t *bits, const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        bits[ids[i] / 32] |= 1u << ids[i] % 32;
}

/* The tables are one block of words: two bitmaps, then the languages. */
static int put_tables(struct backend *be, struct rules *r, const struct rules_spec *s,
                      struct err *err)
{
    size_t words = ((size_t)s->vocab + 31) / 32, count = 2 * words + s->language_count;
    uint32_t *tables = calloc(count, sizeof(uint32_t)), *device;
    int rc;

    if (!tables)
        return err_set(err, ERR_NOMEM, "out of memory for token rules");
    mark_token_bits(tables, s->never, s->never_count);
    mark_token_bits(tables + words, s->never_first, s->never_first_count);
    if (s->language_count)
        memcpy(tables + 2 * words, s->languages, s->language_count * sizeof(int32_t));
    rc = cuda_alloc(be, count * sizeof(uint32_t), &r->tables, err);
    if (rc == 0)
        rc = cuda_write(be, r->tables, tables, count * sizeof(uint32_t), err);
    free(tables);
    device = r->tables;
    if (rc == 0) {
        r->device.never = device;
        r->device.never_first = device + words;
        r->device.languages = (const int32_t *)(device + 2 * words);
    }
    return rc;
}

int cuda_rules_new(struct backend *be, const struct rules_spec *spec, struct rules **ret,
                   struct err *err)
{
    struct rules *r;
    int rc;

    if (!spec_fits(spec))
        return err_set(err, ERR_MODEL,
                       "the rules name a token that is not among the model's %u: its files do not "
                       "belong together",
                       spec->vocab);
    r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_NOMEM, "out of memory for token rules");
    r->device = (struct rules_device){
        .vocab = spec->vocab,
        .eot = spec->eot,
        .no_speech = spec->no_speech,
        .timestamp_begin = spec->timestamp_begin,
        .timestamp_end = spec->timestamp_end,
        .max_initial = spec->max_initial,
        .language_count = spec->language_count,
    };
    rc = put_tables(be, r, spec, err);
    if (rc != 0) {
        cuda_rules_free(be, r);
        return rc;
    }
    *ret = r;
    return 0;
}

void cuda_rules_free(struct backend *be, struct rules *r)
{
    if (!r)
        return;
    cuda_release(be, r->tables);
    free(r);
}

int cuda_choose(struct backend *be, const struct rules *r, struct tensor logits,
                const struct choice_ask *ask, struct choice *ret, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (logits.type != DTYPE_F32 || logits.rows < 1 || logits.cols != (int64_t)r->device.vocab ||
        logits.stride < logits.cols)
        return cuda_shape(err, "choose");
    return cuda_status(err, k_choose(c->work, r->device, logits, ask, ret), "choosing tokens");
}

int cuda_top(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
             struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (logits.type != DTYPE_F32 || logits.rows < 1 || logits.cols < 1 ||
        logits.cols > INT32_MAX / 2 || logits.stride < logits.cols || k < 1 || k > BACKEND_MAX_TOP)
        return cuda_shape(err, "top");
    return cuda_status(err, k_top(c->work, logits, k, ret), "finding the likeliest tokens");
}

int cuda_follow(struct backend *be, const struct token_tail *tails, struct token_row *rows,
                struct choice_ask *asks, uint32_t n, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    return cuda_status(err, k_follow(c->work, tails, rows, asks, n), "following chosen tokens");
}

int cuda_note(struct backend *be, const struct rules *r, const struct token_row *rows,
              const struct choice_ask *asks, const struct choice *choices, uint32_t n,
              struct token_tail *tails, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    return cuda_status(err, k_note(c->work, r->device, rows, asks, choices, n, tails),
                       "noting chosen tokens");
}
