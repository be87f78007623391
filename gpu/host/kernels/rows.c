/* y = x W^T + b for few rows and one block of 32 outputs.
 *
 * Bound by reading W once from memory, so W is packed in reading order and up to eight rows use
 * each vector that was loaded. Each output is one chain of multiply-adds over `in`, ascending, in
 * every variant: a row gets the same bits whether it came alone or with others. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

INLINE_AFTER void finish(const struct row_job *job, size_t row, size_t column, v16 r)
{
    size_t left = column < job->columns ? job->columns - column : 0;
    size_t at = row * job->y_stride + column;
    float t[16];

    if (left == 0)
        return;
    r += v_load(job->bias + column);
    if (job->epilogue == EPILOGUE_GELU)
        r = v_gelu(r);
    if (job->epilogue == EPILOGUE_RELU)
        r = v_max(v_all(0.0f), r); /* a NaN stays one */
    if (left > 16)
        left = 16;
    v_store(t, r);
    if (job->y_bf16) {
        uint16_t *y = (uint16_t *)job->y + at;

        for (size_t i = 0; i < left; i++)
            y[i] = f32_to_bf16(job->epilogue == EPILOGUE_ADD ? bf16_to_f32(y[i]) + t[i] : t[i]);
    } else if (left == 16) {
        float *y = (float *)job->y + at;

        v_store(y, job->epilogue == EPILOGUE_ADD ? v_load(y) + r : r);
    } else {
        float *y = (float *)job->y + at;

        for (size_t i = 0; i < left; i++)
            y[i] = job->epilogue == EPILOGUE_ADD ? y[i] + t[i] : t[i];
    }
}

/* Sums of rows x 2 registers of outputs at a time; 16 registers are full with six rows of them. */
INLINE void tile_f32(const struct row_job *job, size_t row, const int rows)
{
    const float *x = (const float *)job->x + row * job->x_stride, *w = job->w;
    float out[KERNEL_ROWS][KERNEL_COLUMNS];

    for (int c = 0; c < KERNEL_COLUMNS; c += 2 * LANES) {
        vreg acc[KERNEL_ROWS][2];

#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            acc[r][0] = acc[r][1] = r_all(0.0f);
        for (size_t i = 0; i < job->in; i++) {
            vreg w0 = r_load(w + i * 32 + c), w1 = r_load(w + i * 32 + c + LANES);

#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                vreg value = r_all(x[(size_t)r * job->x_stride + i]);

                acc[r][0] += w0 * value;
                acc[r][1] += w1 * value;
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            r_store(out[r] + c, acc[r][0]);
            r_store(out[r] + c + LANES, acc[r][1]);
        }
    }
    for (int r = 0; r < rows; r++) {
        finish(job, row + (size_t)r, 0, v_load(out[r]));
        finish(job, row + (size_t)r, 16, v_load(out[r] + 16));
    }
}

INLINE void run_f32(const struct row_job *job, size_t row, const int rows)
{
    const int first = LANES < 16 && rows > 6 ? 4 : rows;

    tile_f32(job, row, first);
    if (first < rows)
        tile_f32(job, row + (size_t)first, rows - first);
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
        finish(job, row + (size_t)r, 0, (v16)acc[r][0]);
        finish(job, row + (size_t)r, 16, (v16)acc[r][1]);
    }
}
#endif

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

void KERNEL(rows_f32)(const struct row_job *job) { ROWS(run_f32) }

#if KERNEL_BF16
void KERNEL(rows_bf16)(const struct row_job *job) { ROWS(run_bf16) }
#endif
