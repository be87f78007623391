#include "tools/parts/balance.h"

#include <stdlib.h>

static uint64_t total_of(const struct balance_recording *list, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += list[i].cost_ms;
    return sum;
}

/* ------------------------------------------------------------------------------------- cutting */

struct cutting {         /* of one recording */
    uint32_t first, end; /* its shards, as far as its length tells */
    uint32_t pieces;     /* 1: it stays whole */
};

static struct cutting cutting_of(const struct balance_recording *r, uint64_t most_ms,
                                 uint32_t shard_ms)
{
    struct cutting c = {r->first, r->end, 1};
    uint64_t shards, pieces;

    if (r->length_ms < 0 || most_ms == 0 || r->cost_ms <= most_ms)
        return c;
    shards = ((uint64_t)r->length_ms + shard_ms - 1) / shard_ms;
    if (c.end == 0)
        c.end = shards < 1u << 20 ? (uint32_t)shards : 1u << 20;
    pieces = (r->cost_ms + most_ms - 1) / most_ms;
    if (c.end > c.first)
        c.pieces = pieces < c.end - c.first ? (uint32_t)pieces : c.end - c.first;
    return c;
}

/* Piece k of a recording. The last one goes to the end, wherever that is. */
static struct balance_piece piece_of(const struct balance_recording *r, size_t at,
                                     const struct cutting *c, uint32_t k)
{
    uint64_t all = c->end - c->first;
    uint32_t from = c->first + (uint32_t)(all * k / c->pieces);
    uint32_t to = c->first + (uint32_t)(all * (k + 1) / c->pieces);

    if (c->pieces == 1) /* a share of a part that is taken apart stays one */
        return (struct balance_piece){at, r->cost_ms, 0, r->first || r->end, r->first, r->end};
    return (struct balance_piece){.recording = at,
                                  .cost_ms = r->cost_ms * (to - from) / all,
                                  .cut = true,
                                  .first = from,
                                  .end = k + 1 < c->pieces ? to : r->end};
}

static int cut_all(const struct balance_recording *list, size_t n, uint64_t most_ms,
                   uint32_t shard_ms, struct balance *b, struct err *err)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += cutting_of(&list[i], most_ms, shard_ms).pieces;
    b->pieces = calloc(count + 1, sizeof(*b->pieces));
    if (!b->pieces)
        return err_set(err, ERR_NOMEM, "no memory for %zu pieces", count);
    for (size_t i = 0; i < n; i++) {
        struct cutting c = cutting_of(&list[i], most_ms, shard_ms);

        b->cut += c.pieces > 1;
        for (uint32_t k = 0; k < c.pieces; k++)
            b->pieces[b->count++] = piece_of(&list[i], i, &c, k);
    }
    return 0;
}

/* ----------------------------------------------------------------------------------- balancing */

static int by_cost(const void *a, const void *b)
{
    const struct balance_piece *x = a, *y = b;

    if (x->cost_ms != y->cost_ms)
        return x->cost_ms > y->cost_ms ? -1 : 1;
    if (x->recording != y->recording)
        return x->recording < y->recording ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int by_part(const void *a, const void *b)
{
    const struct balance_piece *x = a, *y = b;

    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->recording != y->recording)
        return x->recording < y->recording ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int by_recording(const struct balance_piece *x, const struct balance_piece *y)
{
    return x->recording != y->recording ? x->recording < y->recording ? -1 : 1 : 0;
}

static int by_recording_part(const void *a, const void *b)
{
    const struct balance_piece *x = a, *y = b;
    int rc = by_recording(x, y);

    return rc ? rc : x->part < y->part ? -1 : x->part > y->part;
}

static int by_recording_shard(const void *a, const void *b)
{
    const struct balance_piece *x = a, *y = b;
    int rc = by_recording(x, y);

    return rc ? rc : x->first < y->first ? -1 : x->first > y->first;
}

static bool has_less_load(const uint64_t *loads, uint32_t a, uint32_t b)
{
    return loads[a] != loads[b] ? loads[a] < loads[b] : a < b;
}

/* heap: parts, the one with least on top, which has got more. */
static void sift_part_down(uint32_t *heap, uint32_t n, const uint64_t *loads)
{
    uint32_t part = heap[0], i = 0;

    for (;;) {
        uint32_t c = 2 * i + 1;

        if (c >= n)
            break;
        if (c + 1 < n && has_less_load(loads, heap[c + 1], heap[c]))
            c++;
        if (!has_less_load(loads, heap[c], part))
            break;
        heap[i] = heap[c];
        i = c;
    }
    heap[i] = part;
}

/* A part has one piece of a recording at most. The pieces of one cost the same, so those that came
 * to the same part may be neighbours, and are joined. */
static int join_neighbour_pieces(struct balance *b, struct err *err)
{
    uint32_t *parts = calloc(b->count + 1, sizeof(*parts));
    size_t to = 0;

    if (!parts)
        return err_set(err, ERR_NOMEM, "no memory for %zu pieces", b->count);
    qsort(b->pieces, b->count, sizeof(*b->pieces), by_recording_part);
    for (size_t i = 0; i < b->count; i++)
        parts[i] = b->pieces[i].part;
    qsort(b->pieces, b->count, sizeof(*b->pieces), by_recording_shard);
    for (uint32_t i = 0; i < b->parts; i++)
        b->loads[i] = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct balance_piece p = b->pieces[i], *last = to ? &b->pieces[to - 1] : NULL;

        p.part = parts[i];
        b->loads[p.part] += p.cost_ms;
        if (last && last->recording == p.recording && last->part == p.part) {
            last->end = p.end;
            last->cost_ms += p.cost_ms;
        } else {
            b->pieces[to++] = p;
        }
    }
    b->count = to;
    qsort(b->pieces, b->count, sizeof(*b->pieces), by_part);
    free(parts);
    return 0;
}

static int spread_pieces(struct balance *b, struct err *err)
{
    uint32_t *heap = calloc(b->parts, sizeof(*heap));

    b->loads = calloc(b->parts, sizeof(*b->loads));
    if (!heap || !b->loads) {
        free(heap);
        return err_set(err, ERR_NOMEM, "no memory for %u parts", b->parts);
    }
    for (uint32_t i = 0; i < b->parts; i++)
        heap[i] = i;
    qsort(b->pieces, b->count, sizeof(*b->pieces), by_cost);
    for (size_t i = 0; i < b->count; i++) {
        b->pieces[i].part = heap[0];
        b->loads[heap[0]] += b->pieces[i].cost_ms;
        sift_part_down(heap, b->parts, b->loads);
    }
    free(heap);
    return join_neighbour_pieces(b, err);
}

static uint64_t parts_of(uint64_t total_ms, const struct balance_rule *rule)
{
    uint64_t parts = rule->parts;

    if (parts == 0)
        parts = rule->part_ms ? (total_ms + rule->part_ms - 1) / rule->part_ms : 1;
    return parts ? parts : 1;
}

static uint64_t most_of(uint64_t total_ms, uint64_t parts)
{
    return parts > 1 ? (total_ms + 2 * parts - 1) / (2 * parts) : 0;
}

uint64_t balance_most(const struct balance_recording *list, size_t n,
                      const struct balance_rule *rule)
{
    uint64_t total_ms = total_of(list, n);

    return most_of(total_ms, parts_of(total_ms, rule));
}

int balance_make(const struct balance_recording *list, size_t n, const struct balance_rule *rule,
                 struct balance *ret, struct err *err)
{
    struct balance b = {.total_ms = total_of(list, n)};
    uint64_t parts = parts_of(b.total_ms, rule);
    int rc;

    if (parts > BALANCE_MOST_PARTS)
        return err_set(err, ERR_LIMIT, "that would be %llu parts, of at most %u",
                       (unsigned long long)parts, BALANCE_MOST_PARTS);
    rc = cut_all(list, n, most_of(b.total_ms, parts), rule->shard_ms, &b, err);
    b.parts = b.count < parts ? (uint32_t)b.count : (uint32_t)parts;
    if (rc == 0 && b.parts)
        rc = spread_pieces(&b, err);
    if (rc < 0) {
        balance_free(&b);
        return rc;
    }
    *ret = b;
    return 0;
}

void balance_free(struct balance *b)
{
    free(b->pieces);
    free(b->loads);
    *b = (struct balance){0};
}
