/* softmax(scale q k^T + bias) v for one head of any size up to 128, within one sequence.
 *
 * Keys and values are first laid out as attention.c has them (bf16 becomes float32: these models'
 * sequences are short, and their attention a small part of the work), then the queries go by
 * groups. Every score and output is one chain of multiply-adds whatever the group. */
#include "gpu/host/kernels/attend.h"
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

#define Q KERNEL_QUERIES
#define LOG2E 1.44269504088896341f
#define NOWHERE (-__builtin_inff())

/* The parts of the scratch memory. */
struct packed {
    size_t keys, head, wide; /* both rounded up to 16: keys, and values of a row */
    float *k, *v;            /* [keys / 16][head][16], [keys][wide] */
    float *q;                /* [Q][head] */
    float *scores, *out;     /* [Q][keys], [Q][wide] */
};

INLINE void to_f32(const void *from, size_t at, size_t n, bool bf16, float *to)
{
    if (!bf16) {
        memcpy(to, (const float *)from + at, n * sizeof(*to));
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = bf16_to_f32(((const uint16_t *)from)[at + i]);
}

static void pack_keys_values(const struct span_job *j, struct packed *p)
{
    float row[128];

    for (size_t t = 0; t < p->keys; t++) {
        float *key = p->k + t / 16 * 16 * p->head + t % 16, *value = p->v + t * p->wide;

        memset(value, 0, p->wide * sizeof(*value));
        memset(row, 0, sizeof(row));
        if (t < j->n) {
            to_f32(j->k, t * j->k_stride, p->head, j->bf16, row);
            to_f32(j->v, t * j->v_stride, p->head, j->bf16, value);
        }
        for (size_t d = 0; d < p->head; d++)
            key[d * 16] = row[d];
    }
}

/* The row's scores become weights, those behind the last key 0. Returns the reciprocal of their
 * sum. */
INLINE float soften(float *scores, size_t n, size_t keys, float scale, const float *bias)
{
    vreg sum[PARTS], top;
    v16 sums;

    for (size_t i = 0; i < n; i++)
        scores[i] = (scores[i] * scale + (bias ? bias[i] : 0.0f)) * LOG2E;
    for (size_t i = n; i < keys; i++)
        scores[i] = NOWHERE;
    for (int p = 0; p < PARTS; p++)
        sum[p] = r_all(0.0f);
    top = r_highest(scores, keys, -3e38f);
    for (size_t i = 0; i < keys; i += 16) {
        for (int p = 0; p < PARTS; p++) {
            vreg weight = r_exp2(r_load(scores + i + p * LANES) - top);

            sum[p] += weight;
            r_store(scores + i + p * LANES, weight);
        }
    }
    memcpy(&sums, sum, sizeof(sums));
    return 1.0f / v_sum(sums);
}

INLINE void weigh(const struct packed *p, size_t n, size_t r, const float *factor, const int rows)
{
    const float *weights = p->scores + r * p->keys;
    const int wide = (int)p->wide;
    float *out = p->out + r * p->wide;

    for (int c = 0; c < wide;) {
        if (GATHER_PARTS * LANES > 16 && wide - c >= GATHER_PARTS * LANES) {
            gather_tile(weights, p->keys, factor + r, rows, p->v + c, false, NULL, wide,
                        GATHER_PARTS, n, out + c, p->wide);
            c += GATHER_PARTS * LANES;
        } else {
            gather_tile(weights, p->keys, factor + r, rows, p->v + c, false, NULL, wide, PARTS, n,
                        out + c, p->wide);
            c += 16;
        }
    }
}

INLINE void score(const struct packed *p, size_t count)
{
    size_t b = 0, blocks = p->keys / 16;
    int head = (int)p->head;

    for (; count == Q && b + SCORE_BLOCKS <= blocks; b += SCORE_BLOCKS) {
        for (size_t r = 0; r < Q; r += SCORE_ROWS)
            score_tile(p->q + r * p->head, p->head, head, SCORE_ROWS, p->k + b * 16 * p->head,
                       false, SCORE_BLOCKS, p->scores + r * p->keys + b * 16, p->keys);
    }
    for (; b < blocks; b++) {
        for (size_t r = 0; r < count; r++)
            score_tile(p->q + r * p->head, p->head, head, 1, p->k + b * 16 * p->head, false, 1,
                       p->scores + r * p->keys + b * 16, p->keys);
    }
}

static void store_output_row(const struct span_job *j, size_t row, const float *out)
{
    size_t at = row * j->out_stride;

    if (!j->bf16) {
        memcpy((float *)j->out + at, out, j->head * sizeof(*out));
        return;
    }
    for (size_t i = 0; i < j->head; i++)
        ((uint16_t *)j->out)[at + i] = f32_to_bf16(out[i]);
}

/* Queries [from, from + count), count <= Q. */
static void attend_query_group(const struct span_job *j, const struct packed *p, size_t from,
                               size_t count)
{
    float factor[Q];
    size_t r;

    for (r = 0; r < count; r++)
        to_f32(j->q, (from + r) * j->q_stride, p->head, j->bf16, p->q + r * p->head);
    score(p, count);
    for (r = 0; r < count; r++)
        factor[r] = soften(p->scores + r * p->keys, j->n, p->keys, j->scale,
                           j->bias ? j->bias + (from + r) * j->bias_stride : NULL);
    for (r = 0; r + GATHER_ROWS <= count; r += GATHER_ROWS)
        weigh(p, j->n, r, factor, GATHER_ROWS);
    for (; r < count; r++)
        weigh(p, j->n, r, factor, 1);
    for (r = 0; r < count; r++)
        store_output_row(j, from + r, p->out + r * p->wide);
}

void KERNEL(attend_span)(const struct span_job *j)
{
    struct packed p = {.keys = (j->n + 15) / 16 * 16, .head = j->head};

    p.wide = (p.head + 15) / 16 * 16;
    p.k = j->scratch;
    p.v = p.k + p.keys * p.head;
    p.q = p.v + p.keys * p.wide;
    p.scores = p.q + Q * p.head;
    p.out = p.scores + Q * p.keys;
    pack_keys_values(j, &p);
    for (size_t i = 0; i < j->count; i += Q)
        attend_query_group(j, &p, j->from + i, j->count - i < Q ? j->count - i : Q);
}
