#include "workers/models/bert/bert.h"

#include <math.h>

#include "workers/models/bert/bert_net.h"

const struct bert_config *bert_config(const struct bert *b) { return &b->config; }

uint32_t bert_tokens(const struct bert *b) { return b->tokens; }

/* The tokens [from, from + n) of the scratch tensors. */
struct piece {
    struct spans spans;
    struct tensor x, h, in, qkv, attended, ffn;
};

static struct piece piece_of(struct bert *b, struct spans spans, int64_t from)
{
    int64_t n = spans.at[spans.count];
    struct piece p = {.spans = spans};

    p.x = tensor_rows(b->x, from, n);
    p.h = tensor_rows(b->h, from, n);
    p.in = b->type == DTYPE_F32 ? p.x : tensor_rows(b->in, from, n);
    p.qkv = tensor_rows(b->qkv, from, n);
    p.attended = tensor_rows(b->attended, from, n);
    p.ffn = tensor_rows(b->ffn, from, n);
    return p;
}

/* `sum`, normalised, to `y`; and to p->in what the products read of it. */
static int apply_layer_norm(struct bert *b, struct tensor sum, const struct bert_norm *n,
                            struct tensor y, struct piece *p, struct err *err)
{
    int rc = b->be->ops->layer_norm(b->be, sum, n->gamma, n->beta, b->config.epsilon, y, err);

    if (b->type == DTYPE_F32)
        p->in = y;
    else if (rc == 0)
        rc = b->be->ops->copy(b->be, p->in, y, err);
    return rc;
}

/* x to x; what each half adds up goes to the other tensor when it is normalised. */
static int run_layer(struct bert *b, const struct bert_layer *l, struct piece *p, struct err *err)
{
    struct backend *be = b->be;
    int64_t d = b->config.hidden;
    uint32_t size = b->config.hidden / b->config.heads;
    int rc = be->ops->linear(be, l->qkv, p->in, EPILOGUE_NONE, p->qkv, err);

    if (rc == 0)
        rc =
            be->ops->attention_spans(be, p->spans, b->config.heads, size, 1.0f / sqrtf((float)size),
                                     tensor_columns(p->qkv, 0, d), tensor_columns(p->qkv, d, d),
                                     tensor_columns(p->qkv, 2 * d, d), NULL, p->attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->out, p->attended, EPILOGUE_ADD, p->x, err);
    if (rc == 0)
        rc = apply_layer_norm(b, p->x, &l->attention_norm, p->h, p, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc1, p->in, b->config.activation, p->ffn, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc2, p->ffn, EPILOGUE_ADD, p->h, err);
    return rc == 0 ? apply_layer_norm(b, p->h, &l->ffn_norm, p->x, p, err) : rc;
}

/* RoBERTa counts the tokens that are no padding; a padding token within a text has the padding's
 * own position. */
static int stage_rows(struct bert *b, struct spans spans, const int32_t *ids, struct err *err)
{
    const struct bert_config *c = &b->config;

    for (uint32_t i = 0; i < spans.count; i++) {
        uint32_t pos = c->offset ? c->padding + 1 : 0;

        if (spans.at[i + 1] <= spans.at[i] ||
            spans.at[i + 1] - spans.at[i] > bert_max_tokens(&b->config))
            return err_set(err, ERR_MODEL, "a sequence of %u tokens cannot be read by this model",
                           spans.at[i + 1] - spans.at[i]);
        for (uint32_t k = spans.at[i]; k < spans.at[i + 1]; k++) {
            bool padding = c->offset && ids[k] == (int32_t)c->padding;

            if (ids[k] < 0 || (uint32_t)ids[k] >= c->vocab)
                return err_set(err, ERR_MODEL, "token %d is none of the model's %u", ids[k],
                               c->vocab);
            b->staged[k] =
                (struct token_row){.token = ids[k], .pos = (int32_t)(padding ? c->padding : pos++)};
        }
    }
    return 0;
}

/* The sequences of `spans`, which begins at 0, as one batch, from row `from` of the scratch on. */
static int run_piece(struct bert *b, struct spans spans, uint32_t from, struct err *err)
{
    struct piece p = piece_of(b, spans, from);
    int rc = b->be->ops->embed(b->be, b->words, b->positions, b->rows + from, p.h, err);

    if (rc == 0)
        rc = apply_layer_norm(b, p.h, &b->norm, p.x, &p, err);
    for (uint32_t i = 0; rc == 0 && i < b->config.layers; i++)
        rc = run_layer(b, &b->layers[i], &p, err);
    return rc;
}

int bert_run(struct bert *b, struct spans spans, const int32_t *ids, struct tensor *hidden,
             struct err *err)
{
    uint32_t n = spans.count ? spans.at[spans.count] : 0;
    int rc;

    if (n == 0 || n > b->tokens)
        return err_set(err, ERR_MODEL, "%u tokens at once cannot be read by this model", n);
    rc = stage_rows(b, spans, ids, err);
    if (rc == 0)
        rc = b->be->ops->write(b->be, b->rows, b->staged, n * sizeof(*b->rows), err);
    if (rc == 0 && b->be->info.wide_batches)
        rc = run_piece(b, spans, 0, err);
    for (uint32_t i = 0; rc == 0 && !b->be->info.wide_batches && i < spans.count; i++) {
        uint32_t one[2] = {0, spans.at[i + 1] - spans.at[i]};

        rc = run_piece(b, (struct spans){one, 1}, spans.at[i], err);
    }
    if (rc == 0)
        *hidden = tensor_rows(b->x, 0, n);
    return rc;
}
