/* The kernels of this instruction set. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/kernels/stockham.h"

#define QUOTE_(x) #x
#define QUOTE(x) QUOTE_(x)

const struct kernels KERNEL(kernels) = {
    .name = QUOTE(NIGHTSHIFT_ISA),
    .rows_f32 = KERNEL(rows_f32),
    .attend_f32 = KERNEL(attend_f32),
    .query_f32 = KERNEL(query_f32),
    .scores_f32 = KERNEL(scores_f32),
    .queries_i8 = KERNEL(queries_i8),
    .scores_i8 = KERNEL(scores_i8),
    .fill_i8 = KERNEL(fill_i8),
#if KERNEL_F16
    .rows_f16 = KERNEL(rows_f16),
    .pack_f16 = KERNEL(pack_f16),
#endif
#if KERNEL_BF16
    .rows_bf16 = KERNEL(rows_bf16),
    .attend_bf16 = KERNEL(attend_bf16),
    .query_bf16 = KERNEL(query_bf16),
    .scores_bf16 = KERNEL(scores_bf16),
#endif
#if KERNEL_INTEGERS
    .rows_i8 = KERNEL(rows_i8),
    .to_i8 = KERNEL(to_i8),
    .rows_i16 = KERNEL(rows_i16),
    .rows_i16_vnni = KERNEL(rows_i16_vnni),
    .to_i16 = KERNEL(to_i16),
#endif
    .softmax = KERNEL(softmax),
    .add_median = KERNEL(add_median),
    .lstm_step = KERNEL(lstm_step),
    .norm = KERNEL(norm),
    .to_bf16 = KERNEL(to_bf16),
    .mel = KERNEL(mel),
    .filter_bank = KERNEL(filter_bank),
    .bank_frames = TRANSFORMS,
    .mel_clamp = KERNEL(mel_clamp),
    .exp_sum = KERNEL(exp_sum),
    .largest = KERNEL(largest),
    .depthwise = KERNEL(depthwise),
    .activate = KERNEL(activate),
    .column_sums = KERNEL(column_sums),
    .scale_columns = KERNEL(scale_columns),
    .highest_rows = KERNEL(highest_rows),
    .weigh_rows = KERNEL(weigh_rows),
    .attend_span = KERNEL(attend_span),
};
