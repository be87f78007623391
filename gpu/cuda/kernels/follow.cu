/* Rows of a step that follow the step before: a thread for a row, in blocks of 128. A slot's tail
 * is read and written by one row of a step, so that no order of threads shows. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 128;

__global__ __launch_bounds__(THREADS) void follow_rows(const struct token_tail *tails,
                                                       struct token_row *rows,
                                                       struct choice_ask *asks, uint32_t n)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;

    if (i >= n || rows[i].token != TOKEN_FOLLOWS)
        return;
    const struct token_tail tail =
        rows[i].slot < 0 ? token_tail{0, 0, 0, -1, -1} : tails[rows[i].slot];

    if (!tail.open) {
        rows[i] = {-1, 0, 0, 0};
        asks[i].what = 0;
        return;
    }
    rows[i].token = tail.token;
    asks[i].count = tail.count;
    asks[i].last = tail.token;
    asks[i].before = tail.before;
    asks[i].last_time = tail.last_time;
}

__global__ __launch_bounds__(THREADS) void note_rows(struct rules_device r,
                                                     const struct token_row *rows,
                                                     const struct choice_ask *asks,
                                                     const struct choice *choices, uint32_t n,
                                                     struct token_tail *tails)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;

    if (i >= n || rows[i].slot < 0 || !(asks[i].what & CHOOSE_TOKEN))
        return;
    const struct choice_ask ask = asks[i];
    const int32_t token = choices[i].token;
    const bool open = choices[i].usable && token >= 0 && token != r.eot;

    tails[rows[i].slot] = {open, token, ask.count + 1, ask.last,
                           token >= r.timestamp_begin ? token : ask.last_time};
}

} // namespace

int k_follow(cudaStream_t s, const struct token_tail *tails, struct token_row *rows,
             struct choice_ask *asks, uint32_t n)
{
    if (n == 0)
        return 0;
    LAUNCH(follow_rows, dim3((n + THREADS - 1) / THREADS), dim3(THREADS), 0, s)
    (tails, rows, asks, n);
    return launched();
}

int k_note(cudaStream_t s, struct rules_device r, const struct token_row *rows,
           const struct choice_ask *asks, const struct choice *choices, uint32_t n,
           struct token_tail *tails)
{
    if (n == 0)
        return 0;
    LAUNCH(note_rows, dim3((n + THREADS - 1) / THREADS), dim3(THREADS), 0, s)
    (r, rows, asks, choices, n, tails);
    return launched();
}
