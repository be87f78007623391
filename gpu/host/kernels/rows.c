/* y = x W^T + b for few rows and one block of 32 outputs.
 *
 * Bound by reading W once from memory, so W is packed in reading order, in 16 bits where it loses
 * nothing by that, and all rows use what was loaded. Each output is one chain of multiply-adds over
 * `in`, ascending, in every variant: a row gets the same bits whether it came alone or with others.
 */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

/* The epilogue of one register of outputs, which begins at `column`; sums are those of the row. */
INLINE vreg finished(const struct row_job *job, const float *sums, size_t column)
{
    vreg r = r_load(sums + column) + r_load(job->bias + column);

    if (job->epilogue == EPILOGUE_GELU)
        return r_gelu(r);
    if (job->epilogue == EPILOGUE_RELU)
        return r_pick(r_all(0.0f) > r, r_all(0.0f), r); /* a NaN stays one */
    return r;
}

/* Adds r to the earlier y, in an epilogue that adds. */
INLINE vreg added(const struct row_job *job, vreg y, vreg r)
{
    r += y;
    return job->epilogue == EPILOGUE_ADD_RELU ? r_pick(r_all(0.0f) > r, r_all(0.0f), r) : r;
}

INLINE float added_one(const struct row_job *job, float y, float r)
{
    r += y;
    return job->epilogue == EPILOGUE_ADD_RELU && r < 0.0f ? 0.0f : r;
}

/* The sums of a row to its outputs. */
INLINE_AFTER void finish(const struct row_job *job, size_t row, const float *sums)
{
    bool add = epilogue_adds(job->epilogue), whole = job->columns == KERNEL_COLUMNS;
    size_t at = row * job->y_stride;
    float t[KERNEL_COLUMNS];

    for (size_t c = 0; c < KERNEL_COLUMNS; c += LANES) {
        vreg r = finished(job, sums, c);
        float *y = (float *)job->y + at + c;
        uint16_t *y16 = (uint16_t *)job->y + at + c;

        if (!whole)
            r_store(t + c, r);
        else if (job->y_bf16)
            r_store_bf16(y16, add ? added(job, r_load_bf16(y16), r) : r);
        else
            r_store(y, add ? added(job, r_load(y), r) : r);
    }
    for (size_t i = 0; !whole && i < job->columns; i++) {
        float *y = (float *)job->y + at + i;
        uint16_t *y16 = (uint16_t *)job->y + at + i;

        if (job->y_bf16)
            *y16 = f32_to_bf16(add ? added_one(job, bf16_to_f32(*y16), t[i]) : t[i]);
        else
            *y = add ? added_one(job, *y, t[i]) : t[i];
    }
}

/* Rows and registers of one tile, whose sums stay in registers: 16 of AVX-512's 32, 12 of the
 * others' 16. With one or two rows AVX2 takes all four registers of a block's width, so that it
 * reads memory in order and has chains enough to hide an addition's latency. */
#define TILE_ROWS (LANES == 16 ? 8 : 6)
#define TILE_PARTS 2
#define FEW_ROWS 2
#define FEW_PARTS (LANES == 8 ? 4 : 2)
/* Steps over `in` in which a block's weights (16 KiB) and the rows stay in the first-level cache
 * while all tiles use them, and rows that are taken through it together. The sums wait in memory
 * meanwhile, which changes no bit of them. */
#define DEPTH 128
#define GROUP 24

#if KERNEL_F16
INLINE vreg r_half(const uint16_t *p)
{
#if LANES == 16
    return (vreg)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#else
    return (vreg)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#endif
}
#endif

/* Registers of weights at element `at` of a block. */
INLINE vreg weights(const void *w, size_t at, const bool half)
{
#if KERNEL_F16
    if (half)
        return r_half((const uint16_t *)w + at);
#endif
    (void)half;
    return r_load((const float *)w + at);
}

/* sums += x w over `depth` inputs: `rows` rows of x (x_stride apart) and of sums (32 apart),
 * `parts` registers of columns. */
INLINE void tile(const float *x, size_t x_stride, const int rows, const void *w, const bool half,
                 size_t column, const int parts, size_t depth, float *sums)
{
    vreg acc[TILE_ROWS][4], weight[4];

#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int p = 0; p < parts; p++)
            acc[r][p] = r_load(sums + (size_t)r * KERNEL_COLUMNS + p * LANES);
    }
    for (size_t i = 0; i < depth; i++) {
#pragma GCC unroll 4
        for (int p = 0; p < parts; p++)
            weight[p] = weights(w, i * KERNEL_COLUMNS + column + (size_t)p * LANES, half);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vreg value = r_all(x[(size_t)r * x_stride + i]);

#pragma GCC unroll 4
            for (int p = 0; p < parts; p++)
                acc[r][p] += weight[p] * value;
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int p = 0; p < parts; p++)
            r_store(sums + (size_t)r * KERNEL_COLUMNS + p * LANES, acc[r][p]);
    }
}

#define TILES(rows)                                                            \
    case rows:                                                                 \
        for (size_t c = 0; c < KERNEL_COLUMNS; c += TILE_PARTS * LANES)        \
            tile(x, x_stride, rows, w, false, c, TILE_PARTS, depth, sums + c); \
        return

/* All columns of at most TILE_ROWS rows; w float32. */
static void multiply_tile_rows(const float *x, size_t x_stride, size_t rows, const float *w,
                               size_t depth, float *sums)
{
    switch (rows) {
        TILES(1);
        TILES(2);
        TILES(3);
        TILES(4);
        TILES(5);
#if LANES == 16
        TILES(6);
        TILES(7);
    default:
        for (size_t c = 0; c < KERNEL_COLUMNS; c += TILE_PARTS * LANES)
            tile(x, x_stride, 8, w, false, c, TILE_PARTS, depth, sums + c);
#else
    default:
        for (size_t c = 0; c < KERNEL_COLUMNS; c += TILE_PARTS * LANES)
            tile(x, x_stride, 6, w, false, c, TILE_PARTS, depth, sums + c);
#endif
    }
}

/* One row or two: bound by memory, through which they go once, whatever type the weights are of. */
INLINE void few(const struct row_job *job, const int rows, const bool half, float *sums)
{
    for (size_t c = 0; c < KERNEL_COLUMNS; c += FEW_PARTS * LANES)
        tile(job->x, job->x_stride, rows, job->w, half, c, FEW_PARTS, job->in, sums + c);
}

#if KERNEL_F16
INLINE void widen(float *to, const uint16_t *from, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        r_store(to + i, r_half(from + i));
}
#endif

/* Rows [row, row + n), n at most GROUP. */
INLINE void many(const struct row_job *job, size_t row, size_t n, const bool half, float *sums)
{
#if KERNEL_F16
    float wide[DEPTH * KERNEL_COLUMNS];
#endif

    for (size_t i = 0; i < job->in; i += DEPTH) {
        size_t depth = job->in - i < DEPTH ? job->in - i : DEPTH, at = i * KERNEL_COLUMNS;
        const float *x = (const float *)job->x + row * job->x_stride + i;
        const float *w = (const float *)job->w + at;

#if KERNEL_F16
        if (half) {
            widen(wide, (const uint16_t *)job->w + at, depth * KERNEL_COLUMNS);
            w = wide;
        }
#endif
        for (size_t r = 0; r < n; r += TILE_ROWS)
            multiply_tile_rows(x + r * job->x_stride, job->x_stride,
                               n - r < TILE_ROWS ? n - r : TILE_ROWS, w, depth,
                               sums + r * KERNEL_COLUMNS);
    }
    (void)half;
}

INLINE void run_f32(const struct row_job *job, const bool half)
{
    float sums[GROUP * KERNEL_COLUMNS];

    for (size_t row = 0; row < job->rows; row += GROUP) {
        size_t n = job->rows - row < GROUP ? job->rows - row : GROUP;

        memset(sums, 0, n * KERNEL_COLUMNS * sizeof(float));
        if (job->rows == 1)
            few(job, 1, half, sums);
        else if (job->rows == FEW_ROWS)
            few(job, FEW_ROWS, half, sums);
        else
            many(job, row, n, half, sums);
        for (size_t r = 0; r < n; r++)
            finish(job, row + r, sums + r * KERNEL_COLUMNS);
    }
}

#if KERNEL_BF16
INLINE void run_bf16(const struct row_job *job, size_t row, const int rows)
{
    const uint16_t *x = (const uint16_t *)job->x + row * job->x_stride, *w = job->w;
    __m512 acc[KERNEL_ROWS][2];

#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (size_t i = 0; i < job->in; i += 2) {
        __m512bh w0 = (__m512bh)_mm512_loadu_si512(w + i * 32);
        __m512bh w1 = (__m512bh)_mm512_loadu_si512(w + i * 32 + 32);

#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            __m512bh value;

            memcpy(&pair, x + (size_t)r * job->x_stride + i, 4);
            value = (__m512bh)_mm512_set1_epi32(pair);
            acc[r][0] = _mm512_dpbf16_ps(acc[r][0], w0, value);
            acc[r][1] = _mm512_dpbf16_ps(acc[r][1], w1, value);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        float sums[KERNEL_COLUMNS];

        _mm512_storeu_ps(sums, acc[r][0]);
        _mm512_storeu_ps(sums + 16, acc[r][1]);
        finish(job, row + (size_t)r, sums);
    }
}
#endif

void KERNEL(rows_f32)(const struct row_job *job) { run_f32(job, false); }

#if KERNEL_F16
void KERNEL(rows_f16)(const struct row_job *job) { run_f32(job, true); }

/* Eight inputs of eight outputs, turned. Returns the lanes in which one of them lost something; an
 * infinity is no weight, and a NaN equals nothing. */
INLINE __m256 pack_tile(const float *w, size_t in, uint16_t *packed)
{
    const __m256 least = _mm256_set1_ps(65536.0f), sign = _mm256_set1_ps(-0.0f);
    __m128i half[8], pair[8], four[8];
    __m256 lost = _mm256_setzero_ps();

#pragma GCC unroll 8
    for (size_t c = 0; c < 8; c++) {
        __m256 x = _mm256_loadu_ps(w + c * in);

        half[c] = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
        lost = _mm256_or_ps(lost, _mm256_cmp_ps(_mm256_cvtph_ps(half[c]), x, _CMP_NEQ_UQ));
        lost = _mm256_or_ps(lost, _mm256_cmp_ps(_mm256_andnot_ps(sign, x), least, _CMP_GE_OQ));
    }
    /* 8 x 8 numbers of 16 bits: pairs of outputs, then fours, then all. */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        pair[c] = _mm_unpacklo_epi16(half[2 * c], half[2 * c + 1]);     /* inputs 0 .. 3 */
        pair[c + 4] = _mm_unpackhi_epi16(half[2 * c], half[2 * c + 1]); /* inputs 4 .. 7 */
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) { /* outputs 0 .. 3 of two inputs, then 4 .. 7 */
        int of = c / 2 * 4 + c % 2 * 2;

        four[2 * c] = _mm_unpacklo_epi32(pair[of], pair[of + 1]);
        four[2 * c + 1] = _mm_unpackhi_epi32(pair[of], pair[of + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        int of = i / 4 * 4 + i / 2 % 2;

        _mm_storeu_si128((__m128i *)(packed + i * KERNEL_COLUMNS),
                         i % 2 ? _mm_unpackhi_epi64(four[of], four[of + 2])
                               : _mm_unpacklo_epi64(four[of], four[of + 2]));
    }
    return lost;
}

bool KERNEL(pack_f16)(const float *w, size_t in, uint16_t *packed)
{
    __m256 lost = _mm256_setzero_ps();

    for (size_t c = 0; c < KERNEL_COLUMNS; c += 8)
        for (size_t i = 0; i < in; i += 8)
            lost =
                _mm256_or_ps(lost, pack_tile(w + c * in + i, in, packed + i * KERNEL_COLUMNS + c));
    return _mm256_movemask_ps(lost) == 0;
}
#endif

#if KERNEL_BF16
#define ROWS(run)                                               \
    for (size_t row = 0; row < job->rows; row += KERNEL_ROWS) { \
        switch (job->rows - row) {                              \
        case 1:                                                 \
            run(job, row, 1);                                   \
            break;                                              \
        case 2:                                                 \
            run(job, row, 2);                                   \
            break;                                              \
        case 3:                                                 \
            run(job, row, 3);                                   \
            break;                                              \
        case 4:                                                 \
            run(job, row, 4);                                   \
            break;                                              \
        case 5:                                                 \
            run(job, row, 5);                                   \
            break;                                              \
        case 6:                                                 \
            run(job, row, 6);                                   \
            break;                                              \
        case 7:                                                 \
            run(job, row, 7);                                   \
            break;                                              \
        default:                                                \
            run(job, row, 8);                                   \
            break;                                              \
        }                                                       \
    }

void KERNEL(rows_bf16)(const struct row_job *job) { ROWS(run_bf16) }
#endif

#if KERNEL_INTEGERS
/* The set itself does not have the dot product of 8 bits: cpu_has_vnni says whether the processor
 * does. */
#if LANES == 16
#define WITH_VNNI __attribute__((target("avx512vnni")))
#define TILE8_ROWS 12
#else
#define WITH_VNNI __attribute__((target("avxvnni")))
#define TILE8_ROWS 6
#endif

/* sums + w x of four inputs in each of its numbers, w without a sign. */
INLINE WITH_VNNI ireg dot8(ireg sums, ireg w, ireg x)
{
#if LANES == 16
    return (ireg)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)w, (__m512i)x);
#else
    return (ireg)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)w, (__m256i)x);
#endif
}

INLINE const struct row8 *row8_of(const struct row_job *job, size_t row)
{
    return (const struct row8 *)job->x_scales + row;
}

INLINE ireg i_load(const void *p)
{
    ireg r;

    memcpy(&r, p, sizeof(r));
    return r;
}

INLINE vreg i_float(ireg x)
{
#if LANES == 16
    return (vreg)_mm512_cvtepi32_ps((__m512i)x);
#else
    return (vreg)_mm256_cvtepi32_ps((__m256i)x);
#endif
}

/* Rows [row, row + rows) and the two registers of columns from `column`, into out[rows][32]. Few
 * rows need `chains` partial sums each, to hide an addition's latency. Sums of integers are the
 * same in any order. */
INLINE WITH_VNNI void tile8(const struct row_job *job, size_t row, const int rows, const int chains,
                            size_t column, float *out)
{
    const int8_t *x = (const int8_t *)job->x + row * job->x_stride;
    const uint8_t *w = (const uint8_t *)job->w + column * 4;
    ireg acc[TILE8_ROWS][2][4];

#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        acc[r][0][0] = acc[r][1][0] = (ireg){0} + row8_of(job, row + (size_t)r)->less;
#pragma GCC unroll 4
        for (int c = 1; c < chains; c++)
            acc[r][0][c] = acc[r][1][c] = (ireg){0};
    }
    for (size_t i = 0; i < job->in; i += 4 * (size_t)chains) {
#pragma GCC unroll 4
        for (int c = 0; c < chains; c++) {
            size_t at = i + 4 * (size_t)c;
            ireg w0 = i_load(w + at * KERNEL_COLUMNS);
            ireg w1 = i_load(w + at * KERNEL_COLUMNS + sizeof(ireg));

#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                int32_t four;
                ireg value;

                memcpy(&four, x + (size_t)r * job->x_stride + at, sizeof(four));
                value = (ireg){0} + four;
                acc[r][0][c] = dot8(acc[r][0][c], w0, value);
                acc[r][1][c] = dot8(acc[r][1][c], w1, value);
            }
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        vreg scale = r_all(row8_of(job, row + (size_t)r)->scale);

#pragma GCC unroll 2
        for (int p = 0; p < 2; p++) {
            size_t at = column + (size_t)p * LANES;
            ireg sum = acc[r][p][0];

#pragma GCC unroll 4
            for (int c = 1; c < chains; c++)
                sum += acc[r][p][c];
            r_store(out + (size_t)r * KERNEL_COLUMNS + at,
                    i_float(sum) * (scale * r_load(job->scales + at)));
        }
    }
}

#define TILES8(rows, chains)                                       \
    for (size_t c = 0; c < KERNEL_COLUMNS; c += (size_t)2 * LANES) \
        tile8(job, row, rows, chains, c, sums);                    \
    n = rows

WITH_VNNI void KERNEL(rows_i8)(const struct row_job *job)
{
    float sums[TILE8_ROWS * KERNEL_COLUMNS];
    size_t n;

    for (size_t row = 0; row < job->rows; row += n) {
        size_t left = job->rows - row;

        if (left >= TILE8_ROWS) {
            TILES8(TILE8_ROWS, 1);
#if LANES == 16
        } else if (left >= 8) {
            TILES8(8, 1);
#endif
        } else if (left >= 4) {
            TILES8(4, 1);
        } else if (left >= 2) {
            TILES8(2, 2);
        } else {
            TILES8(1, LANES == 16 ? 4 : 2);
        }
        for (size_t r = 0; r < n; r++)
            finish(job, row + r, sums + r * KERNEL_COLUMNS);
    }
}

INLINE void to_i8(const void *x, const bool bf16, size_t n, int8_t *to, struct row8 *ret)
{
    const ireg magnitude = (ireg){0} + 0x7fffffff;
    size_t whole = n / LANES * LANES,
           padded = (n + KERNEL_INPUTS - 1) / KERNEL_INPUTS * KERNEL_INPUTS;
    ireg most = {0}, sum = {0};
    float rest[LANES] = {0}, largest;
    int32_t bits = 0, total = 0;
    vreg factor;

    for (size_t i = whole; i < n; i++)
        rest[i - whole] = bf16 ? bf16_to_f32(((const uint16_t *)x)[i]) : ((const float *)x)[i];
    /* Magnitudes are ordered as their bits, infinities and what is no number above all. */
    for (size_t i = 0; i < whole; i += LANES) {
        ireg m = (ireg)r_of(x, bf16, i) & magnitude;

        most = (ireg)r_pick(m > most, (vreg)m, (vreg)most);
    }
    most = (ireg)r_pick(((ireg)r_load(rest) & magnitude) > most,
                        (vreg)((ireg)r_load(rest) & magnitude), (vreg)most);
    for (int i = 0; i < LANES; i++)
        bits = most[i] > bits ? most[i] : bits;
    memcpy(&largest, &bits, sizeof(largest));
    if (bits >= 0x7f800000) {
        memset(to, 0, padded);
        *ret = (struct row8){.scale = __builtin_nanf("")};
        return;
    }
    /* Below this nothing is seen of a row, and 127 / largest would not be a number. */
    factor = r_all(largest > 1e-30f ? 127.0f / largest : 0.0f);
    for (size_t i = 0; i < whole; i += LANES)
        sum += r_store_i8(to + i, r_of(x, bf16, i) * factor);
    if (whole < padded) {
        memset(to + whole, 0, padded - whole);
        sum += r_store_i8(to + whole, r_load(rest) * factor);
    }
    for (int i = 0; i < LANES; i++)
        total += sum[i];
    ret->less = -128 * total;
    ret->scale = largest / 127.0f;
}

void KERNEL(to_i8)(const void *x, bool bf16, size_t n, int8_t *to, struct row8 *ret)
{
    if (bf16)
        to_i8(x, true, n, to, ret);
    else
        to_i8(x, false, n, to, ret);
}

/* --- 16 bits --- */

#define TILE16_ROWS (LANES == 16 ? 12 : 4)

/* sums + w x of two inputs in each of its numbers. */
typedef ireg (*dot16)(ireg sums, ireg w, ireg x);

INLINE ireg dot16_plain(ireg sums, ireg w, ireg x)
{
#if LANES == 16
    return sums + (ireg)_mm512_madd_epi16((__m512i)w, (__m512i)x);
#else
    return sums + (ireg)_mm256_madd_epi16((__m256i)w, (__m256i)x);
#endif
}

INLINE WITH_VNNI ireg dot16_vnni(ireg sums, ireg w, ireg x)
{
#if LANES == 16
    return (ireg)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)w, (__m512i)x);
#else
    return (ireg)_mm256_dpwssd_avx_epi32((__m256i)sums, (__m256i)w, (__m256i)x);
#endif
}

/* Adds the products of some spans of inputs, from `span` on: rows [row, row + rows) and the two
 * registers of columns from `column`, to sums[rows][32]. */
INLINE void tile16(const struct row_job *job, const dot16 dot, size_t row, const int rows,
                   size_t column, size_t span, size_t spans, float *sums)
{
    size_t all = job->in / KERNEL_SPAN;
    const int16_t *x = (const int16_t *)job->x + row * job->x_stride;
    const int16_t *w = (const int16_t *)job->w + column * 2;
    const float *x_scales = (const float *)job->x_scales + row * all;

    for (size_t s = span; s < span + spans; s++) {
        vreg scale[2];
        ireg acc[TILE16_ROWS][2];

#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            acc[r][0] = acc[r][1] = (ireg){0};
#pragma GCC unroll 4
        for (size_t i = s * KERNEL_SPAN; i < (s + 1) * KERNEL_SPAN; i += 2) {
            ireg w0 = i_load(w + i * KERNEL_COLUMNS);
            ireg w1 = i_load(w + i * KERNEL_COLUMNS + 2 * LANES);

            /* Without this the compiler reads them again for each row, and loads are the bound. */
            __asm__("" : "+v"(w0), "+v"(w1));
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                int32_t two;
                ireg value;

                memcpy(&two, x + (size_t)r * job->x_stride + i, sizeof(two));
                value = (ireg){0} + two;
                acc[r][0] = dot(acc[r][0], w0, value);
                acc[r][1] = dot(acc[r][1], w1, value);
            }
        }
        for (int p = 0; p < 2; p++)
            scale[p] = r_load(job->scales + s * KERNEL_COLUMNS + column + (size_t)p * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vreg of_row = r_all(x_scales[(size_t)r * all + s]);

#pragma GCC unroll 2
            for (int p = 0; p < 2; p++) {
                float *to = sums + (size_t)r * KERNEL_COLUMNS + column + (size_t)p * LANES;

                r_store(to, r_load(to) + i_float(acc[r][p]) * (of_row * scale[p]));
            }
        }
    }
}

/* Takes `rows` rows through all columns; returns their number. */
INLINE size_t tiles16(const struct row_job *job, const dot16 dot, size_t row, const int rows,
                      size_t span, size_t spans, float *sums)
{
    for (size_t c = 0; c < KERNEL_COLUMNS; c += (size_t)2 * LANES)
        tile16(job, dot, row, rows, c, span, spans, sums);
    return (size_t)rows;
}

/* Takes rows [row, row + n) through some spans. */
INLINE void span16(const struct row_job *job, const dot16 dot, size_t row, size_t n, size_t span,
                   size_t spans, float *sums)
{
    for (size_t r = 0; r < n;) {
        float *to = sums + r * KERNEL_COLUMNS;

        if (n - r >= TILE16_ROWS)
            r += tiles16(job, dot, row + r, TILE16_ROWS, span, spans, to);
        else if (n - r >= 4)
            r += tiles16(job, dot, row + r, 4, span, spans, to);
        else if (n - r >= 2)
            r += tiles16(job, dot, row + r, 2, span, spans, to);
        else
            r += tiles16(job, dot, row + r, 1, span, spans, to);
    }
}

/* The weights of so many spans, 16 KiB, stay in the first-level cache while a group of rows uses
 * them. */
#define SPANS 4

INLINE void run_i16(const struct row_job *job, const dot16 dot)
{
    float sums[GROUP * KERNEL_COLUMNS];
    size_t all = job->in / KERNEL_SPAN;

    for (size_t row = 0; row < job->rows; row += GROUP) {
        size_t n = job->rows - row < GROUP ? job->rows - row : GROUP;

        memset(sums, 0, n * KERNEL_COLUMNS * sizeof(float));
        for (size_t s = 0; s < all; s += SPANS)
            span16(job, dot, row, n, s, all - s < SPANS ? all - s : SPANS, sums);
        for (size_t r = 0; r < n; r++)
            finish(job, row + r, sums + r * KERNEL_COLUMNS);
    }
}

void KERNEL(rows_i16)(const struct row_job *job) { run_i16(job, dot16_plain); }

WITH_VNNI void KERNEL(rows_i16_vnni)(const struct row_job *job) { run_i16(job, dot16_vnni); }

/* To the nearest integers, stored as 16 bits. */
INLINE void r_store_i16(int16_t *to, vreg x)
{
#if LANES == 16
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32((__m512)x)));
#else
    __m256i r = _mm256_cvtps_epi32((__m256)x);

    _mm_storeu_si128((__m128i *)to,
                     _mm_packs_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
#endif
}

INLINE void span_to_i16(const float *x, int16_t *to, float *scale)
{
    const ireg magnitude = (ireg){0} + 0x7fffffff;
    ireg most = {0};
    int32_t bits = 0;
    float largest;

    for (size_t i = 0; i < KERNEL_SPAN; i += LANES) {
        ireg m = (ireg)r_load(x + i) & magnitude;

        most = (ireg)r_pick(m > most, (vreg)m, (vreg)most);
    }
    for (int i = 0; i < LANES; i++)
        bits = most[i] > bits ? most[i] : bits;
    memcpy(&largest, &bits, sizeof(largest));
    if (bits >= 0x7f800000) {
        memset(to, 0, KERNEL_SPAN * sizeof(*to));
        *scale = __builtin_nanf("");
        return;
    }
    *scale = largest / KERNEL_VALUE16;
    for (size_t i = 0; i < KERNEL_SPAN; i += LANES)
        r_store_i16(to + i,
                    r_load(x + i) * r_all(largest > 1e-30f ? KERNEL_VALUE16 / largest : 0.0f));
}

void KERNEL(to_i16)(const float *x, size_t n, int16_t *to, float *scales)
{
    float rest[KERNEL_SPAN] = {0};
    size_t whole = n / KERNEL_SPAN * KERNEL_SPAN;

    for (size_t i = 0; i < whole; i += KERNEL_SPAN)
        span_to_i16(x + i, to + i, &scales[i / KERNEL_SPAN]);
    if (whole == n)
        return;
    memcpy(rest, x + whole, (n - whole) * sizeof(*x));
    span_to_i16(rest, to + whole, &scales[whole / KERNEL_SPAN]);
}
#endif
