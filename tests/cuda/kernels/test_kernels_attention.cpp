/* The kernels of the key/value caches and the attention of single queries over them. */
#include "matrix.h"

static const int HEAD = BACKEND_HEAD_SIZE;

/* Caches of some slots, in host memory as floats: keys and values [slot][head][capacity][64]. */
struct caches {
    enum dtype type;
    uint32_t heads, capacity, slots;
    std::vector<float> values; /* the cache as it lies in memory, elements in order */
    size_t slot_stride;        /* elements; more than a slot needs */

    caches(enum dtype type_, uint32_t heads_, uint32_t capacity_, uint32_t slots_)
        : type(type_), heads(heads_), capacity(capacity_), slots(slots_),
          slot_stride(k_kv_bytes(type_, heads_, capacity_) / dtype_size(type_) + 64)
    {
        values.assign(slots * slot_stride, NAN);
    }
    size_t at(uint32_t slot, uint32_t head, bool value, uint32_t key) const
    {
        return slot * slot_stride +
               ((size_t)(2 * head + (value ? 1u : 0u)) * capacity + key) * (size_t)HEAD;
    }
    struct kv kv(const matrix &m) const
    {
        return {type,   heads, capacity, slots, slot_stride * dtype_size(type), m.tensor().data,
                nullptr, nullptr};
    }
    matrix on_device() const { return matrix(type, slots, (int64_t)slot_stride, values); }
    void put(uint32_t slot, uint32_t key, const float *k, const float *v)
    {
        for (uint32_t head = 0; head < heads; head++)
            for (int d = 0; d < HEAD; d++) {
                values[at(slot, head, false, key) + (size_t)d] = k[head * HEAD + (uint32_t)d];
                values[at(slot, head, true, key) + (size_t)d] = v[head * HEAD + (uint32_t)d];
            }
    }
};

static bool same_bits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

static bool same_numbers(const std::vector<float> &a, const std::vector<float> &b)
{
    for (size_t i = 0; i < a.size(); i++)
        if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])))
            return false;
    return a.size() == b.size();
}

TEST(test_kv_fill)
{
    for (enum dtype type : ALL_TYPES)
        for (int64_t gap : {0, 64, 3})
            for (uint32_t windows : {1u, 3u}) {
                const uint32_t heads = 3, n = 37, slots[] = {4, 0, 2};
                caches c(type, heads, 41, 5);
                matrix device = c.on_device();
                std::vector<float> k = normals(windows * n * heads * HEAD), v = normals(k.size());
                matrix mk(type, windows * n, heads * HEAD, k, gap),
                    mv(type, windows * n, heads * HEAD, v, gap);

                k = mk.get();
                v = mv.get();
                WELL(k_kv_fill(nullptr, c.kv(device), slots, windows, mk.tensor(), mv.tensor()));
                for (uint32_t w = 0; w < windows; w++)
                    for (uint32_t i = 0; i < n; i++)
                        c.put(slots[w], i, &k[(w * n + i) * heads * HEAD],
                              &v[(w * n + i) * heads * HEAD]);
                assert_true(same_numbers(device.get(), c.values));
            }
}

/* More windows than one launch takes. */
TEST(test_kv_fill_many)
{
    const uint32_t windows = 300;
    caches c(DTYPE_F16, 1, 2, windows);
    matrix device = c.on_device();
    std::vector<uint32_t> slots;
    std::vector<float> k = normals(windows * 2 * HEAD), v = normals(k.size());
    matrix mk(DTYPE_F16, windows * 2, HEAD, k), mv(DTYPE_F16, windows * 2, HEAD, v);

    k = mk.get();
    v = mv.get();
    for (uint32_t w = 0; w < windows; w++) {
        slots.push_back(windows - 1 - w);
        for (uint32_t i = 0; i < 2; i++)
            c.put(slots[w], i, &k[(w * 2 + i) * HEAD], &v[(w * 2 + i) * HEAD]);
    }
    WELL(k_kv_fill(nullptr, c.kv(device), slots.data(), windows, mk.tensor(), mv.tensor()));
    assert_true(same_numbers(device.get(), c.values));
}

TEST(test_kv_append)
{
    for (enum dtype type : ALL_TYPES)
        for (int64_t shift : {0, 1}) {
            const uint32_t heads = 5;
            caches c(type, heads, 448, 9);
            matrix device = c.on_device();
            std::vector<struct token_row> rows = {
                {8, 0, 0, 0}, {0, 447, 0, 0}, {3, 5, 0, 0}, {-1, 3, 0, 0}}; /* nobody's at last */
            std::vector<float> k = normals(4 * heads * HEAD), v = normals(k.size());
            matrix mk(type, 4, heads * HEAD, k, 7, shift), mv(type, 4, heads * HEAD, v, 0, shift);
            array<struct token_row> where(rows);

            k = mk.get();
            v = mv.get();
            WELL(k_kv_append(nullptr, c.kv(device), where.p, mk.tensor(), mv.tensor()));
            for (size_t i = 0; i < 3; i++)
                c.put((uint32_t)rows[i].slot, (uint32_t)rows[i].pos, &k[i * heads * HEAD],
                      &v[i * heads * HEAD]);
            assert_true(same_numbers(device.get(), c.values));
        }
}

/* A set of rows over random caches; what lies beyond a row's keys is NaN. */
struct problem {
    caches c;
    std::vector<struct token_row> rows;
    std::vector<float> q;
    uint32_t keys; /* or 0: by the rows */

    problem(enum dtype type, uint32_t heads, uint32_t capacity, std::vector<int32_t> counts,
            bool fixed, float spread)
        : c(type, heads, capacity, (uint32_t)counts.size() + 1),
          keys(fixed ? (uint32_t)counts[0] : 0)
    {
        q = normals(counts.size() * heads * HEAD, spread);
        for (float &x : q)
            x = rounded(type, x);
        for (size_t r = 0; r < counts.size(); r++) {
            uint32_t slot = (uint32_t)(counts.size() - r);

            if (fixed) /* nothing but `cross` may be looked at, and the other way round */
                rows.push_back({INT32_MAX, -1, -1, (int32_t)slot});
            else
                rows.push_back({(int32_t)slot, counts[r] - 1, -1, -1});
            for (int32_t i = 0; i < counts[fixed ? 0 : r]; i++) {
                std::vector<float> k = normals(heads * HEAD), v = normals(heads * HEAD);

                c.put(slot, (uint32_t)i, k.data(), v.data());
            }
        }
        for (float &x : c.values)
            x = rounded(type, x);
    }
    /* The first n rows. */
    std::vector<float> run(size_t n, int64_t gap = 0) const
    {
        matrix device = c.on_device();
        int64_t cols = c.heads * HEAD;
        matrix mq(c.type, (int64_t)n, cols, {q.begin(), q.begin() + (int64_t)n * cols}, gap,
                  gap % 2);
        matrix out(c.type, (int64_t)n, cols, gap);
        array<struct token_row> where(rows);

        WELL(k_attention_rows(nullptr, mq.tensor(), c.kv(device), where.p, keys, out.tensor()));
        return out.get();
    }
    std::vector<double> expected(void) const
    {
        std::vector<double> y;

        for (size_t r = 0; r < rows.size(); r++)
            for (uint32_t h = 0; h < c.heads; h++) {
                uint32_t n = keys ? keys : (uint32_t)rows[r].pos + 1;
                uint32_t slot = (uint32_t)(keys ? rows[r].cross : rows[r].slot);
                std::vector<double> w(n), sum((size_t)HEAD);
                double high = -INFINITY, total = 0;

                for (uint32_t i = 0; i < n; i++) {
                    for (size_t d = 0; d < (size_t)HEAD; d++)
                        w[i] += (double)q[(r * c.heads + h) * (size_t)HEAD + d] *
                                (double)c.values[c.at(slot, h, false, i) + d] / 8.0;
                    high = fmax(high, w[i]);
                }
                for (uint32_t i = 0; i < n; i++) {
                    total += w[i] = exp(w[i] - high);
                    for (size_t d = 0; d < (size_t)HEAD; d++)
                        sum[d] += w[i] * (double)c.values[c.at(slot, h, true, i) + d];
                }
                for (double s : sum)
                    y.push_back(s / total);
            }
        return y;
    }
};

/* Chunks of 256: their edges, one key, the last key of a cache. */
TEST(test_attention)
{
    const std::vector<int32_t> some = {1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 448, 300};

    for (enum dtype type : ALL_TYPES) {
        problem own(type, 2, 448, some, false, 1.0f), sharp(type, 1, 448, some, false, 30.0f);
        problem cross(type, 3, 1500, {1500, 1500}, true, 1.0f);
        problem longest(type, 1, 1536, {1536, 1025, 512, 513}, false, 1.0f);
        problem few(type, 1, 100, {100, 3}, false, 1.0f), odd(type, 2, 1499, {1499}, true, 3.0f);
        problem heads(type, 6, 100, {17, 1}, false, 1.0f); /* more than a block has */

        for (const problem *p : {&own, &sharp, &cross, &longest, &few, &odd, &heads})
            assert_near(p->run(p->rows.size(), p == &own ? 5 : 0), p->expected(),
                        precision_of(type), p == &sharp ? 4e-5 : 2e-6, TYPE_NAMES[type]);
    }
}

/* The same bits alone, among others, and a second time. */
TEST(test_attention_of_one_row)
{
    for (enum dtype type : ALL_TYPES) {
        problem p(type, 2, 1500, {700, 1500, 3, 1499}, false, 1.0f);
        std::vector<float> all = p.run(4), one = p.run(1);

        assert_true(same_bits(all, p.run(4)));
        all.resize(one.size());
        assert_true(same_bits(all, one));
    }
}

/* A key that is no number shows in its own head, and nowhere else. */
TEST(test_attention_not_finite)
{
    problem p(DTYPE_F32, 2, 448, {300, 10}, false, 1.0f);

    p.c.values[p.c.at(2, 0, false, 270) + 5] = NAN;
    std::vector<float> got = p.run(2);
    for (size_t i = 0; i < got.size(); i++)
        assert_int_equal(std::isnan(got[i]), i < (size_t)HEAD);
}

/* A prompt: rows of one slot at positions that follow each other, stored together; each looks at
 * its own key and those before. Hypotheses of one window share its slot of the cross-attention. */
TEST(test_attention_shares_slots)
{
    for (enum dtype type : ALL_TYPES) {
        problem p(type, 2, 300, {255, 9, 9, 9, 9, 9}, false, 1.0f);
        problem cross(type, 2, 300, {300, 300, 300}, true, 1.0f);
        const size_t width = 2 * (size_t)HEAD;
        std::vector<float> k = normals(6 * width), v = normals(6 * width);

        for (int32_t i = 0; i < 6; i++)
            p.rows[(size_t)i] = {i < 5 ? 6 : 1, i < 5 ? 254 + i : 3, -1, -1};
        matrix mk(type, 6, (int64_t)width, k), mv(type, 6, (int64_t)width, v);
        matrix device = p.c.on_device();
        array<struct token_row> where(p.rows);
        WELL(k_kv_append(nullptr, p.c.kv(device), where.p, mk.tensor(), mv.tensor()));
        p.c.values = device.get();
        assert_near(p.run(6), p.expected(), precision_of(type), 2e-6, TYPE_NAMES[type]);
        cross.rows[0].cross = cross.rows[2].cross;
        assert_near(cross.run(3), cross.expected(), precision_of(type), 2e-6, TYPE_NAMES[type]);
    }
}

/* Keys that lie in other slots: the bits of a cache that has them all in its own; slots that have
 * none of a row's keys are not looked at, nor is what stands behind its last key. */
TEST(test_attention_where_keys_lie)
{
    const std::vector<int32_t> counts = {1, 64, 255, 257, 448, 33};

    for (enum dtype type : ALL_TYPES)
        for (uint32_t way : {1u, 3u, 50u}) {
            const uint32_t heads = 5;
            problem own(type, heads, 448, counts, false, 1.0f);
            caches spread(type, heads, 448, 7);
            std::vector<uint16_t> table(7 * 448, UINT16_MAX);
            matrix q(type, 6, heads * HEAD, own.q), out(type, 6, heads * HEAD);

            for (uint32_t r = 0; r < 6; r++)
                for (uint32_t p = 0; p < (uint32_t)counts[r]; p++) {
                    /* No two rows want one place. */
                    const uint32_t slot = 6 - r, from = (slot + p / way) % 7;

                    table[slot * 448 + p] = (uint16_t)from;
                    for (uint32_t h = 0; h < heads; h++)
                        for (bool value : {false, true})
                            for (size_t d = 0; d < (size_t)HEAD; d++)
                                spread.values[spread.at(from, h, value, p) + d] =
                                    own.c.values[own.c.at(slot, h, value, p) + d];
                }
            matrix device = spread.on_device();
            array<uint16_t> on_device(table);
            array<struct token_row> where(own.rows);
            struct kv kv = spread.kv(device);
            kv.lies_in = on_device.p;
            WELL(k_attention_rows(nullptr, q.tensor(), kv, where.p, 0, out.tensor()));
            assert_true(same_bits(out.get(), own.run(6)));
        }
}

/* Nobody's row is left as it is, wherever its numbers point. */
TEST(test_attention_nobodys_row)
{
    for (bool fixed : {false, true}) {
        problem p(DTYPE_F32, 2, 300, {300, 300, 300}, fixed, 1.0f);
        std::vector<float> whole = p.run(3), got;
        const size_t cols = 2 * HEAD;

        p.rows[1] = {-1, INT32_MAX - 1, 0, INT32_MAX};
        got = p.run(3);
        for (size_t i = 0; i < 3 * cols; i++)
            if (i / cols == 1)
                assert_true(got[i] != whole[i]); /* as it was before */
            else
                assert_true(got[i] == whole[i]);
    }
}

/* One head's dimension over the keys of a window, as a cache of 8 bits holds it. */
static void round_column(std::vector<float> &x, size_t from, size_t n, size_t stride)
{
    float high = 0.0f;

    for (size_t i = 0; i < n; i++)
        high = fmaxf(high, fabsf(x[from + i * stride]));
    for (size_t i = 0; i < n; i++)
        x[from + i * stride] = rintf(x[from + i * stride] * (127.0f / high)) * (high / 127.0f);
}

/* 8 bits: filled and looked at by rows in runs of one window, over a multiple of eight and with
 * nobody's among them; each with the bits that it has alone. */
TEST(test_attention_of_eight_bits)
{
    const std::vector<int32_t> looks = {1, 1, 0, 1, 1, 1, 1, 1, 1, 1, -1, 0};
    const uint32_t slots[] = {2, 0}, heads = 2, cols = 2 * (uint32_t)HEAD;

    for (enum dtype type : ALL_TYPES)
        for (uint32_t n : {1u, 37u, 256u, 300u, 1500u})
            for (int64_t gap : {0, 3}) {
                if (gap && n != 37)
                    continue;
                const size_t stride = (k_kv_bytes(DTYPE_I8, heads, n + 1) + 63) / 64 * 64;
                std::vector<float> k = normals(2 * n * cols), v = normals(k.size());
                std::vector<float> q = normals(looks.size() * cols);
                matrix mk(type, 2 * n, cols, k, gap), mv(type, 2 * n, cols, v, gap);
                matrix mq(type, (int64_t)looks.size(), cols, q),
                    out(type, (int64_t)looks.size(), cols), one(type, 1, cols);
                array<uint8_t> device(std::vector<uint8_t>(3 * stride, 0x81));
                struct kv kv = {DTYPE_I8, heads, n + 1, 3, stride, device.p, nullptr, nullptr};
                std::vector<struct token_row> rows;
                std::vector<double> want;

                for (int32_t w : looks)
                    rows.push_back({w < 0 ? -1 : 0, -1, -1, w < 0 ? INT32_MAX : (int32_t)slots[w]});
                array<struct token_row> where(rows);
                WELL(k_kv_fill(nullptr, kv, slots, 2, mk.tensor(), mv.tensor()));
                WELL(k_attention_rows(nullptr, mq.tensor(), kv, where.p, n, out.tensor()));
                k = mk.get();
                v = mv.get();
                q = mq.get();
                for (size_t w = 0; w < 2; w++)
                    for (size_t c = 0; c < cols; c++) {
                        round_column(k, w * n * cols + c, n, cols);
                        round_column(v, w * n * cols + c, n, cols);
                    }
                std::vector<float> got = out.get(), alone;
                for (size_t r = 0; r < looks.size(); r++)
                    for (size_t h = 0; h < heads; h++) {
                        std::vector<double> w(n), sum((size_t)HEAD);
                        double high = -INFINITY, total = 0;
                        const size_t at = r * cols + h * (size_t)HEAD;
                        const size_t from =
                            (size_t)(looks[r] < 0 ? 0 : looks[r]) * n * cols + h * (size_t)HEAD;

                        for (size_t i = 0; i < n; i++) {
                            for (size_t d = 0; d < (size_t)HEAD; d++)
                                w[i] += (double)q[at + d] * (double)k[from + i * cols + d] / 8.0;
                            high = fmax(high, w[i]);
                        }
                        for (size_t i = 0; i < n; i++) {
                            total += w[i] = exp(w[i] - high);
                            for (size_t d = 0; d < (size_t)HEAD; d++)
                                sum[d] += w[i] * (double)v[from + i * cols + d];
                        }
                        for (size_t d = 0; d < (size_t)HEAD; d++)
                            want.push_back(looks[r] < 0 ? (double)got[at + d] : sum[d] / total);
                    }
                assert_near(got, want, precision_of(type), 3e-6, TYPE_NAMES[type]);
                for (size_t r = 0; n >= 256 && r < looks.size(); r++) {
                    matrix mine(
                        type, 1, cols,
                        {q.begin() + (int64_t)(r * cols), q.begin() + (int64_t)((r + 1) * cols)});
                    array<struct token_row> my_row(std::vector<struct token_row>{rows[r]});

                    if (looks[r] < 0)
                        continue;
                    WELL(k_attention_rows(nullptr, mine.tensor(), kv, my_row.p, n, one.tensor()));
                    alone = one.get();
                    assert_memory_equal(alone.data(), &got[r * cols], cols * sizeof(float));
                }
            }
}

TEST(test_too_many_rows)
{
    struct tensor q = {DTYPE_F32, 65536, HEAD, HEAD, nullptr, nullptr};
    struct kv kv = {DTYPE_F32, 1, 4, 1, 2048, nullptr, nullptr, nullptr};

    assert_int_not_equal(k_attention_rows(nullptr, q, kv, nullptr, 1, q), 0);
    q.rows = 0;
    WELL(k_attention_rows(nullptr, q, kv, nullptr, 1, q));
    WELL(k_kv_append(nullptr, kv, nullptr, q, q));
    WELL(k_kv_fill(nullptr, kv, nullptr, 0, q, q));
}

TEST_MAIN(NULL, NULL)
