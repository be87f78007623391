/* Hypotheses that share a window, and what tokens look at: rows whose cross-attention is another
 * slot's, prompts of several rows, keys that lie in other slots, scores of a head, and the
 * alignment. */
#include "tests/common/warp.h"
#include "tests/ops/check.h"
#include "tests/ops/reference.h"
#include "tests/ops/reference_align.h"

static enum precision precision_of(enum dtype type)
{
    return type == DTYPE_F32 ? PRECISION_F32 : type == DTYPE_BF16 ? PRECISION_BF16 : PRECISION_F16;
}

/* Rows of one step: slots and positions are the decoder's, out of the windows' range; the windows'
 * slots come twice, in no order. Attention and the scores of each head, which are its logarithm. */
static void one_sharing(enum dtype type, uint32_t n, uint32_t heads)
{
    enum { WINDOWS = 3, ROWS = 7 };
    static const int32_t cross[ROWS] = {2, 0, 2, 1, 1, 2, 0};
    static const uint32_t slots[WINDOWS] = {0, 1, 2};
    size_t d = (size_t)heads * HEAD;
    float *k = values(WINDOWS * n * d, type, 1.0f, n), *v = values(WINDOWS * n * d, type, 1.0f, 2);
    float *q = values(ROWS * d, type, 1.0f, 3);
    double *want = malloc(ROWS * d * sizeof(*want)), *scores = malloc(ROWS * n * sizeof(*scores));
    struct tensor tk = tensor_new(type, WINDOWS * n, d, k),
                  tv = tensor_new(type, WINDOWS * n, d, v);
    struct tensor tq = tensor_new(type, ROWS, d, q), to = tensor_new(type, ROWS, d, NULL);
    struct tensor ts = tensor_new(DTYPE_F32, ROWS, n, NULL);
    struct kv kv = kv_new(type, heads, n + 5, WINDOWS);
    struct token_row rows[ROWS], *on_device;
    char shape[64];
    struct err e;

    for (int32_t r = 0; r < ROWS; r++)
        rows[r] = (struct token_row){.slot = 20 + r, .pos = 400 + r, .cross = cross[r]};
    on_device = rows_new(rows, ROWS);
    assert_ok(be->ops->kv_fill(be, kv, slots, WINDOWS, tk, tv, &e), e);
    for (size_t i = 0; i < (size_t)ROWS * heads; i++) {
        size_t r = i / heads, at = i % heads * HEAD, from = (size_t)cross[r] * n * d + at;

        reference_attend(q + r * d + at, k + from, v + from, d, n, want + r * d + at);
    }
    snprintf(shape, sizeof(shape), "%u shared keys, %u heads", n, heads);
    assert_ok(be->ops->attention_rows(be, tq, kv, on_device, n, to, &e), e);
    compare("attention_rows", precision_of(type), to, want, shape, n);
    for (uint32_t head = 0; head < heads; head++) {
        for (size_t i = 0; i < ROWS * n; i++) {
            const float *a = q + i / n * d + head * HEAD;
            const float *b = k + ((size_t)cross[i / n] * n + i % n) * d + head * HEAD;

            scores[i] = 0.0;
            for (size_t c = 0; c < HEAD; c++)
                scores[i] += (double)a[c] * (double)b[c] / 8.0;
        }
        assert_ok(be->ops->attention_scores(be, tq, kv, on_device, head, n, ts, &e), e);
        compare("scores", precision_of(type), ts, scores, shape, head);
    }
    be->ops->release(be, on_device);
    be->ops->release(be, kv.data);
    tensor_free(tk);
    tensor_free(tv);
    tensor_free(tq);
    tensor_free(to);
    tensor_free(ts);
    free(k);
    free(v);
    free(q);
    free(want);
    free(scores);
}

TEST(sharing)
{
    static const uint32_t keys[] = {1, 15, 16, 17, 50, 1500};

    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t i = 0; have(types[t]) && i < COUNT(keys); i++)
            one_sharing(types[t], keys[i], 1 + (uint32_t)i % 3);
}

/* The scores' rows may be wider than the keys, and what lies beside them stays. */
TEST(scores_beside)
{
    enum { KEYS = 21, WIDE = 30 };
    const uint32_t slot = 0;
    const struct token_row row = {0};
    float *k = values(KEYS * HEAD, DTYPE_F32, 1.0f, 1), *q = values(HEAD, DTYPE_F32, 1.0f, 2);
    float marks[WIDE], back[WIDE];
    struct kv kv = kv_new(DTYPE_F32, 1, KEYS, 1);
    struct token_row *on_device = rows_new(&row, 1);
    struct err e;

    for (int i = 0; i < WIDE; i++)
        marks[i] = 1000.0f + (float)i;
    struct tensor tk = tensor_new(DTYPE_F32, KEYS, HEAD, k), tq = tensor_new(DTYPE_F32, 1, HEAD, q);
    struct tensor wide = tensor_new(DTYPE_F32, 1, WIDE, marks);
    assert_ok(be->ops->kv_fill(be, kv, &slot, 1, tk, tk, &e), e);
    assert_ok(be->ops->attention_scores(be, tq, kv, on_device, 0, KEYS,
                                        tensor_columns(wide, 3, KEYS), &e),
              e);
    assert_ok(be->ops->get(be, back, wide, &e), e);
    for (int i = 0; i < WIDE; i++)
        assert_true((back[i] == marks[i]) == (i < 3 || i >= 3 + KEYS));
    be->ops->release(be, on_device);
    be->ops->release(be, kv.data);
    tensor_free(tk);
    tensor_free(tq);
    tensor_free(wide);
    free(k);
    free(q);
}

/* A prompt: all rows of one step are of one slot, and each sees itself and those before it; the
 * next step goes on. The slot held NaNs before. */
TEST(prompts)
{
    enum { ROWS = 19, D = 2 * HEAD };
    static const uint32_t both[] = {0, 1};

    for (size_t t = 0; t < COUNT(types); t++) {
        float *k, *v, *q, poison[2 * ROWS * D];
        double want[ROWS * D];
        struct token_row rows[ROWS], *on_device;
        struct err e;

        if (!have(types[t]))
            continue;
        k = values(ROWS * D, types[t], 1.0f, 4);
        v = values(ROWS * D, types[t], 1.0f, 5);
        q = values(ROWS * D, types[t], 1.0f, 6);
        for (size_t i = 0; i < 2 * ROWS * D; i++)
            poison[i] = NAN;
        struct tensor bad = tensor_new(types[t], 2 * ROWS, D, poison);
        struct tensor tk = tensor_new(types[t], ROWS, D, k), tv = tensor_new(types[t], ROWS, D, v);
        struct tensor tq = tensor_new(types[t], ROWS, D, q);
        struct tensor to = tensor_new(types[t], ROWS, D, NULL);
        struct kv kv = kv_new(types[t], 2, ROWS, 2);

        for (int32_t r = 0; r < ROWS; r++) {
            rows[r] = (struct token_row){.slot = 1, .pos = r, .cross = 7};
            for (int h = 0; h < 2; h++)
                reference_attend(q + r * D + h * HEAD, k + h * HEAD, v + h * HEAD, D, (size_t)r + 1,
                                 want + r * D + h * HEAD);
        }
        on_device = rows_new(rows, ROWS);
        assert_ok(be->ops->kv_fill(be, kv, both, 2, bad, bad, &e), e);
        for (int64_t from = 0, n = 12; from < ROWS; from += n, n = ROWS - from) {
            struct tensor part[4] = {tk, tv, tq, to};

            for (int i = 0; i < 4; i++) {
                part[i].rows = n;
                part[i].data = (char *)part[i].data + (size_t)(from * D) * dtype_size(types[t]);
            }
            assert_ok(be->ops->kv_append(be, kv, on_device + from, part[0], part[1], &e), e);
            assert_ok(be->ops->attention_rows(be, part[2], kv, on_device + from, 0, part[3], &e),
                      e);
        }
        compare("attention_rows", precision_of(types[t]), to, want, "a prompt", 0);
        be->ops->release(be, on_device);
        be->ops->release(be, kv.data);
        tensor_free(bad);
        tensor_free(tk);
        tensor_free(tv);
        tensor_free(tq);
        tensor_free(to);
        free(k);
        free(v);
        free(q);
    }
}

/* How keys come to lie in other slots: all in their own, in turn, by the key's number, in runs. */
enum { LIE_OWN, LIE_IN_TURN, LIE_BY_KEY, LIE_IN_RUNS, LIE_WAYS };

static uint16_t lies_in(int way, uint32_t slot, uint32_t key, uint32_t slots)
{
    switch (way) {
    case LIE_IN_TURN:
        return (uint16_t)((slot + key) % slots);
    case LIE_BY_KEY:
        return (uint16_t)((slot * 7 + key * key * 5 + key / 3) % slots);
    case LIE_IN_RUNS:
        return (uint16_t)((slot + key / (slot + 1) / 3) % slots);
    }
    return (uint16_t)slot;
}

/* Rows that find their keys in other slots have the bits that they have with all of them in their
 * own; what nobody's keys are is no number. As a step has it, a row's own key is in its own slot.
 */
static void one_lying(enum dtype type, int way, uint32_t capacity, uint32_t keys)
{
    enum { SLOTS = 6, HEADS = 3, D = HEADS * HEAD };
    static const uint32_t all[SLOTS] = {0, 1, 2, 3, 4, 5};
    size_t n = (size_t)SLOTS * capacity * D;
    float *k = values(n, type, 1.0f, keys), *v = values(n, type, 1.0f, 2);
    float *q = values(SLOTS * D, type, 1.0f, 3), *own_k = malloc(n * sizeof(*k)),
          *own_v = malloc(n * sizeof(*v)), want[SLOTS * D], got[SLOTS * D];
    bool *seen = calloc(SLOTS * capacity, sizeof(*seen));
    uint16_t *table = calloc(SLOTS * capacity, sizeof(*table));
    struct kv kv = kv_new(type, HEADS, capacity, SLOTS), own = kv_new(type, HEADS, capacity, SLOTS);
    struct token_row rows[SLOTS], *on_device;
    void *device_table;
    struct err e;

    memcpy(own_k, k, n * sizeof(*k));
    memcpy(own_v, v, n * sizeof(*v));
    for (uint32_t s = 0; s < SLOTS; s++)
        for (uint32_t p = 0; p < capacity; p++) {
            uint16_t from = p < keys - 1 ? lies_in(way, s, p, SLOTS) : (uint16_t)s;

            table[s * capacity + p] = p < keys ? from : UINT16_MAX; /* never read */
            seen[from * capacity + p] |= p < keys;
            memcpy(own_k + (s * capacity + p) * D, k + (from * capacity + p) * D, D * sizeof(*k));
            memcpy(own_v + (s * capacity + p) * D, v + (from * capacity + p) * D, D * sizeof(*v));
        }
    for (size_t i = 0; i < n; i++)
        if (!seen[i / D] && i / D % capacity < keys)
            k[i] = v[i] = NAN;
    for (int32_t i = 0; i < SLOTS; i++)
        rows[i] = (struct token_row){.slot = i, .pos = (int32_t)keys - 1};
    struct tensor tk = tensor_new(type, SLOTS * capacity, D, k), tq = tensor_new(type, SLOTS, D, q);
    struct tensor tv = tensor_new(type, SLOTS * capacity, D, v),
                  to = tensor_new(type, SLOTS, D, NULL);
    struct tensor tok = tensor_new(type, SLOTS * capacity, D, own_k),
                  tov = tensor_new(type, SLOTS * capacity, D, own_v);

    on_device = rows_new(rows, SLOTS);
    assert_ok(be->ops->alloc(be, SLOTS * capacity * sizeof(*table), &device_table, &e), e);
    assert_ok(be->ops->write(be, device_table, table, SLOTS * capacity * sizeof(*table), &e), e);
    assert_ok(be->ops->kv_fill(be, own, all, SLOTS, tok, tov, &e), e);
    assert_ok(be->ops->attention_rows(be, tq, own, on_device, 0, to, &e), e);
    assert_ok(be->ops->get(be, want, to, &e), e);
    assert_ok(be->ops->kv_fill(be, kv, all, SLOTS, tk, tv, &e), e);
    kv.lies_in = device_table;
    assert_ok(be->ops->attention_rows(be, tq, kv, on_device, 0, to, &e), e);
    assert_ok(be->ops->get(be, got, to, &e), e);
    assert_memory_equal(got, want, sizeof(want));
    /* It is no other slots' business: a window's keys lie in the window's slot. */
    assert_ok(be->ops->attention_rows(be, tq, own, on_device, keys, to, &e), e);
    assert_ok(be->ops->get(be, want, to, &e), e);
    own.lies_in = device_table;
    assert_ok(be->ops->attention_rows(be, tq, own, on_device, keys, to, &e), e);
    assert_ok(be->ops->get(be, got, to, &e), e);
    assert_memory_equal(got, want, sizeof(want));
    be->ops->release(be, device_table);
    be->ops->release(be, on_device);
    be->ops->release(be, kv.data);
    be->ops->release(be, own.data);
    tensor_free(tk);
    tensor_free(tv);
    tensor_free(tok);
    tensor_free(tov);
    tensor_free(tq);
    tensor_free(to);
    free(table);
    free(seen);
    free(own_k);
    free(own_v);
    free(k);
    free(v);
    free(q);
}

TEST(lying_elsewhere)
{
    static const uint32_t keys[] = {1, 2, 3, 15, 16, 17, 33, 34, 64, 65, 100, 301};

    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t i = 0; have(types[t]) && i < COUNT(keys); i++)
            for (int way = 0; way < LIE_WAYS; way++)
                one_lying(types[t], way, i % 2 ? 448 : keys[i] + 1, keys[i]);
}

/* spread: of the scores; same: all rows of a head are equal; hidden: a column nobody looks at. */
static void one_align(size_t heads, size_t n, size_t frames, float spread, bool same, bool hidden)
{
    size_t width = frames + 5;
    float *x =
        values(heads * n * frames, DTYPE_F32, spread, (uint32_t)(heads + n * 3 + frames * 7));
    float *wide = values(heads * n * width, DTYPE_F32, 50.0f, 1);
    double *want = malloc(n * frames * sizeof(*want));
    struct tensor ts, to = tensor_new(DTYPE_F32, n, frames + 2, NULL);
    struct tensor got = tensor_new(DTYPE_F32, n, frames, NULL);
    const struct align_window window = {.rows = (uint32_t)n, .frames = (uint32_t)frames};
    char shape[96];
    struct err e;

    for (size_t i = 0; i < heads * n; i++) {
        if (same)
            memcpy(x + i * frames, x + i / n * n * frames, frames * sizeof(*x));
        if (hidden)
            x[i * frames + frames / 2] = -INFINITY;
        memcpy(wide + i * width, x + i * frames, frames * sizeof(*x));
    }
    ts = tensor_new(DTYPE_F32, heads * n, width, wide);
    reference_align(x, heads, n, frames, 1e-9, want);
    assert_ok(be->ops->align(be, ts, (uint32_t)heads, &window, 1, to, &e), e);
    assert_ok(be->ops->copy(be, got, tensor_columns(to, 0, (int64_t)frames), &e), e);
    snprintf(shape, sizeof(shape), "%zu heads, %zu rows, %zu frames, spread %g", heads, n, frames,
             (double)spread);
    compare("align", PRECISION_F32, got, want, shape, 0);
    tensor_free(ts);
    tensor_free(to);
    tensor_free(got);
    free(x);
    free(wide);
    free(want);
}

TEST(aligning)
{
    static const size_t frames[] = {2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 100, 750};

    for (size_t i = 0; i < COUNT(frames); i++) {
        one_align(1 + i % 3, 2 + i, frames[i], 4.0f, false, false);
        one_align(2, 5, frames[i], 9.0f, false, frames[i] > 3);
    }
    one_align(6, 60, 1500, 8.0f, false, false);
    one_align(3, 1, 40, 4.0f, false, false); /* one row: every column is equal */
    one_align(2, 6, 40, 4.0f, true, false);
    one_align(2, 6, 3, 4.0f, true, false);
    one_align(1, 4, 1, 4.0f, false, false); /* one frame: all weights are 1 */
}

/* Rows [from, from + n) of each of `heads` blocks of `all` rows, one below the other. */
static struct tensor part_of(const float *x, size_t heads, size_t all, size_t from, size_t n,
                             size_t width)
{
    float *part = malloc(heads * n * width * sizeof(*part));
    struct tensor t;

    assert_non_null(part);
    for (size_t h = 0; h < heads; h++)
        memcpy(part + h * n * width, x + (h * all + from) * width, n * width * sizeof(*part));
    t = tensor_new(DTYPE_F32, heads * n, width, part);
    free(part);
    return t;
}

/* Windows of different sizes have the very bits that each has alone, and nothing beside them is
 * written. */
static void align_together(uint32_t count, size_t heads)
{
    enum { MOST = 40, WIDTH = 331 };
    struct align_window windows[MOST];
    size_t all = 0, at = 0;

    assert_true(count <= MOST);
    for (uint32_t i = 0; i < count; i++) {
        windows[i] =
            (struct align_window){.rows = 1 + i * 7 % 23, .frames = 1 + (i * 97 + count) % 330};
        all += windows[i].rows;
    }
    float *x = values(heads * all * WIDTH, DTYPE_F32, 6.0f, count);
    float *clear = malloc(all * WIDTH * sizeof(*clear)), *got = malloc(all * WIDTH * sizeof(*got));
    struct tensor ts = tensor_new(DTYPE_F32, heads * all, WIDTH, x), to;
    struct err e;

    assert_true(clear && got);
    for (size_t i = 0; i < all * WIDTH; i++)
        clear[i] = -7.0f;
    to = tensor_new(DTYPE_F32, all, WIDTH, clear);
    assert_ok(be->ops->align(be, ts, (uint32_t)heads, windows, count, to, &e), e);
    assert_ok(be->ops->get(be, got, to, &e), e);
    for (uint32_t i = 0; i < count; i++) {
        size_t n = windows[i].rows, frames = windows[i].frames;
        struct tensor one = part_of(x, heads, all, at, n, WIDTH);
        struct tensor out = tensor_new(DTYPE_F32, n, frames, NULL);
        float *alone = malloc(n * frames * sizeof(*alone));

        assert_non_null(alone);
        assert_ok(be->ops->align(be, one, (uint32_t)heads, &windows[i], 1, out, &e), e);
        assert_ok(be->ops->get(be, alone, out, &e), e);
        for (size_t r = 0; r < n; r++) {
            assert_memory_equal(got + (at + r) * WIDTH, alone + r * frames,
                                frames * sizeof(*alone));
            for (size_t c = frames; c < WIDTH; c++)
                assert_true(got[(at + r) * WIDTH + c] == -7.0f);
        }
        at += n;
        tensor_free(one);
        tensor_free(out);
        free(alone);
    }
    tensor_free(ts);
    tensor_free(to);
    free(x);
    free(clear);
    free(got);
}

TEST(aligning_together)
{
    static const uint32_t counts[] = {1, 2, 8, 16, 17, 40}; /* more than a launch takes, too */

    for (size_t i = 0; i < COUNT(counts); i++)
        align_together(counts[i], 1 + i % 3);
}

/* values: few, so that many sums are equal. */
static void warp_together(uint32_t count, bool held, float values_of)
{
    enum { MOST = 20, WIDTH = 211 };
    struct align_window windows[MOST];
    uint32_t all = 0, at = 0;

    assert_true(count <= MOST);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rows = 1 + (i * 131 + count) % 300, path = i % 3 < rows ? i % 3 : 0;

        windows[i] =
            (struct align_window){rows, 1 + (i * 97 + count) % 211, path,
                                  i % 2 && rows - path > 1 ? rows - path - 1 : rows - path};
        all += rows;
    }
    float *x = values((size_t)all * WIDTH, DTYPE_F32, 6.0f, count);
    struct align_hold *hold = malloc(all * sizeof(*hold));
    uint32_t *got = malloc(all * sizeof(*got)), *want = malloc(all * sizeof(*want));
    struct tensor matrix, work = tensor_new(DTYPE_F32, all, WIDTH, NULL);
    void *device;
    struct err e;

    assert_true(hold && got && want);
    for (size_t i = 0; values_of > 0 && i < (size_t)all * WIDTH; i++)
        x[i] = rintf(x[i] / 6.0f * values_of);
    for (uint32_t i = 0; i < all; i++) {
        hold[i] = (struct align_hold){i * 7 % 40, i % 3 ? i * 7 % 40 + i % 90 : UINT32_MAX};
        want[i] = 7;
    }
    matrix = tensor_new(DTYPE_F32, all, WIDTH, x);
    assert_ok(be->ops->alloc(be, all * sizeof(*got), &device, &e), e);
    assert_ok(be->ops->write(be, device, want, all * sizeof(*want), &e), e);
    assert_ok(be->ops->warp(be, matrix, windows, count, held ? hold : NULL, work, device, &e), e);
    assert_ok(be->ops->read(be, got, device, all * sizeof(*got), &e), e);
    for (uint32_t i = 0; i < count; at += windows[i++].rows) {
        uint32_t from = at + windows[i].path;

        assert_true(reference_warp(x + (size_t)from * WIDTH, WIDTH, windows[i].length,
                                   windows[i].frames, held ? hold + from : NULL, want + from));
    }
    assert_memory_equal(got, want, all * sizeof(*got)); /* and other rows' are as they were */
    be->ops->release(be, device);
    tensor_free(matrix);
    tensor_free(work);
    free(x);
    free(hold);
    free(got);
    free(want);
}

TEST(paths)
{
    static const uint32_t counts[] = {1, 2, 8, 16, 19}; /* more than a launch takes, too */

    for (size_t i = 0; i < COUNT(counts); i++) {
        warp_together(counts[i], false, 0);
        warp_together(counts[i], true, 0);
        warp_together(counts[i], false, 2);
    }
}

TEST(refusals)
{
    struct tensor s = tensor_new(DTYPE_F32, 6, 20, NULL), out = tensor_new(DTYPE_F32, 3, 20, NULL);
    struct tensor q = tensor_new(DTYPE_F32, 3, 2 * HEAD, NULL);
    struct kv kv = kv_new(DTYPE_F32, 2, 20, 2);
    const struct token_row row = {0};
    struct token_row *rows = rows_new(&row, 1);
    struct err e;

    const struct align_window whole = {3, 20, 0, 0}, two[] = {{1, 20, 0, 0}, {2, 7, 0, 0}},
                              none = {3, 0, 0, 0}, beyond = {3, 21, 0, 0}, more = {4, 20, 0, 0},
                              empty[] = {{3, 20, 0, 0}, {0, 20, 0, 0}};

    assert_int_equal(be->ops->align(be, s, 3, &whole, 1, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->align(be, s, 0, &whole, 1, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->align(be, s, 2, &whole, 0, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->align(be, s, 2, &none, 1, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->align(be, s, 2, &beyond, 1, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->align(be, s, 2, &more, 1, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->align(be, s, 2, empty, 2, out, &e), ERR_DEVICE);
    assert_ok(be->ops->align(be, s, 2, &whole, 1, out, &e), e);
    assert_ok(be->ops->align(be, s, 2, two, 2, out, &e), e);
    const struct align_window path = {3, 20, 1, 2}, longer = {3, 20, 2, 2}, behind = {3, 20, 4, 0};
    struct tensor work = tensor_new(DTYPE_F32, 3, 20, NULL), narrow = tensor_columns(work, 0, 19);
    uint32_t *first;

    assert_ok(be->ops->alloc(be, 3 * sizeof(*first), (void **)&first, &e), e);
    assert_int_equal(be->ops->warp(be, out, &whole, 1, NULL, work, first, &e), ERR_DEVICE);
    assert_int_equal(be->ops->warp(be, out, &longer, 1, NULL, work, first, &e), ERR_DEVICE);
    assert_int_equal(be->ops->warp(be, out, &behind, 1, NULL, work, first, &e), ERR_DEVICE);
    assert_int_equal(be->ops->warp(be, out, &path, 1, NULL, narrow, first, &e), ERR_DEVICE);
    assert_int_equal(be->ops->warp(be, out, &path, 0, NULL, work, first, &e), ERR_DEVICE);
    assert_ok(be->ops->warp(be, out, &path, 1, NULL, work, first, &e), e);
    be->ops->release(be, first);
    tensor_free(work);
    q.rows = out.rows = 1;
    assert_int_equal(be->ops->attention_scores(be, q, kv, rows, 2, 20, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->attention_scores(be, q, kv, rows, 0, 21, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->attention_scores(be, q, kv, rows, 0, 0, out, &e), ERR_DEVICE);
    assert_ok(be->ops->attention_scores(be, q, kv, rows, 1, 20, out, &e), e);
    be->ops->release(be, rows);
    be->ops->release(be, kv.data);
    tensor_free(s);
    tensor_free(out);
    tensor_free(q);
}

TEST_MAIN(open_backend, close_backend)
