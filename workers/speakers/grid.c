#include "workers/speakers/grid.h"

#include <math.h>

#define MAX_FRAMES 65536u /* of a window */
#define MAX_SIZE 65536u   /* of a vector */

static bool positive(double seconds) { return isfinite(seconds) && seconds > 0.0 && seconds < 1e9; }

int grid_of(const struct diarize_input *in, struct grid *ret, struct err *err)
{
    double end;

    if (in->windows == 0 || in->frames == 0 || in->frames > MAX_FRAMES || in->speakers == 0 ||
        in->speakers > 8 || in->size == 0 || in->size > MAX_SIZE)
        return err_set(
            err, ERR_INPUT,
            "%u windows of %u frames and %u speakers with vectors of %u values cannot be "
            "joined",
            in->windows, in->frames, in->speakers, in->size);
    if (!positive(in->window_s) || !positive(in->step_s) || !positive(in->frame_s) ||
        !positive(in->frame_length_s) || !(in->duration_s >= 0.0))
        return err_set(err, ERR_INPUT, "the windows' times are impossible");
    end = in->window_s + (double)(in->windows - 1) * in->step_s;
    if (end / in->frame_s >= GRID_MAX_FRAMES || !in->active || !in->vectors)
        return err_set(err, ERR_INPUT, "%u windows are too many", in->windows);
    *ret = (struct grid){.total = (uint32_t)rint(end / in->frame_s) + 1,
                         .window_frames = in->frames,
                         .windows = in->windows,
                         .frames_per_step = in->step_s / in->frame_s};
    return 0;
}

uint32_t grid_start(const struct grid *g, uint32_t window)
{
    double start = rint((double)window * g->frames_per_step);

    return start < g->total ? (uint32_t)start : g->total;
}

uint32_t grid_end(const struct grid *g, uint32_t window)
{
    uint32_t start = grid_start(g, window);

    return g->total - start > g->window_frames ? start + g->window_frames : g->total;
}
