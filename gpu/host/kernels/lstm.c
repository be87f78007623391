/* The functions of a long short-term memory's gates, one step of one sequence. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

/* Units [i, i + LANES): gates are `hidden` apart. */
INLINE void units(const float *in, const float *rec, size_t hidden, float *c, float *h)
{
    vreg gate[4], cell;

    for (size_t g = 0; g < 4; g++)
        gate[g] = r_load(in + g * hidden) + r_load(rec + g * hidden);
    cell = r_sigmoid(gate[1]) * r_load(c) + r_sigmoid(gate[0]) * r_tanh(gate[2]);
    r_store(c, cell);
    r_store(h, r_sigmoid(gate[3]) * r_tanh(cell));
}

/* The last units, fewer than LANES of them. */
INLINE void last_units(const float *in, const float *rec, size_t hidden, size_t n, float *c,
                       float *h)
{
    float t_in[4 * LANES] = {0}, t_rec[4 * LANES] = {0}, t_c[LANES] = {0}, t_h[LANES];

    for (size_t g = 0; g < 4; g++) {
        memcpy(t_in + g * LANES, in + g * hidden, n * sizeof(float));
        memcpy(t_rec + g * LANES, rec + g * hidden, n * sizeof(float));
    }
    memcpy(t_c, c, n * sizeof(float));
    units(t_in, t_rec, LANES, t_c, t_h);
    memcpy(c, t_c, n * sizeof(float));
    memcpy(h, t_h, n * sizeof(float));
}

void KERNEL(lstm_step)(const float *in, const float *rec, size_t hidden, float *c, float *h)
{
    size_t i = 0;

    for (; i + LANES <= hidden; i += LANES)
        units(in + i, rec + i, hidden, c + i, h + i);
    if (i < hidden)
        last_units(in + i, rec + i, hidden, hidden - i, c + i, h + i);
}
