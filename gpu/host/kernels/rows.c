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

/* What was there and r, of an epilogue that adds. */
INLINE vreg added(const struct row_job *job, const float *y, vreg r)
{
    r += r_load(y);
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

        if (whole && !job->y_bf16)
            r_store(y, add ? added(job, y, r) : r);
        else
            r_store(t + c, r);
    }
    if (job->y_bf16) {
        uint16_t *y = (uint16_t *)job->y + at;

        for (size_t i = 0; i < job->columns; i++)
            y[i] = f32_to_bf16(add ? added_one(job, bf16_to_f32(y[i]), t[i]) : t[i]);
    } else if (!whole) {
        float *y = (float *)job->y + at;

        for (size_t i = 0; i < job->columns; i++)
            y[i] = add ? added_one(job, y[i], t[i]) : t[i];
    }
}

/* Rows and registers of one tile, whose sums stay in registers: 16 of AVX-512's 32, 12 of the
 * others' 16. Of one or two rows AVX2 takes all four registers of a block's width, so that it reads
 * memory in order and has chains enough to hide what an addition takes. */
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
static void tiles(const float *x, size_t x_stride, size_t rows, const float *w, size_t depth,
                  float *sums)
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
            tiles(x + r * job->x_stride, job->x_stride, n - r < TILE_ROWS ? n - r : TILE_ROWS, w,
                  depth, sums + r * KERNEL_COLUMNS);
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
