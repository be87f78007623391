#include "workers/speakers/turns.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- the frames of a recording */

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

/* ---- who speaks in each */

struct frames {
    const struct diarize_input *in;
    const struct grid *g;
    const int32_t *clusters;
    uint32_t most, frame;
    uint32_t from, to; /* windows that hear the frame */
    uint32_t *score;   /* [most] */
    uint32_t *heard;   /* [most]: clusters with a score, `heard_count` */
    uint32_t heard_count;
    uint32_t *chosen; /* [most] */
};

int frames_new(const struct diarize_input *in, const struct grid *g, const int32_t *clusters,
               uint32_t most, struct frames **ret, struct err *err)
{
    struct frames *f = calloc(1, sizeof(*f));

    if (f)
        f->score = calloc(3 * ((size_t)most + 1), sizeof(*f->score));
    if (!f || !f->score) {
        free(f);
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", most);
    }
    f->in = in;
    f->g = g;
    f->clusters = clusters;
    f->most = most;
    f->heard = f->score + most + 1;
    f->chosen = f->heard + most + 1;
    *ret = f;
    return 0;
}

void frames_free(struct frames *f)
{
    if (f)
        free(f->score);
    free(f);
}

/* Two local speakers of a window that are of one cluster count once. */
static void count_active_clusters(struct frames *f, uint32_t window)
{
    const int32_t *cluster = f->clusters + (size_t)window * f->in->speakers;
    uint32_t at = f->frame - grid_start(f->g, window);
    uint8_t active = f->in->active[(size_t)window * f->in->frames + at];

    for (uint32_t s = 0; s < f->in->speakers; s++) {
        int32_t k = cluster[s];
        bool again = k < 0 || !(active & 1u << s);

        for (uint32_t before = 0; before < s && !again; before++)
            again = (active & 1u << before) && cluster[before] == k;
        if (again)
            continue;
        if (f->score[k]++ == 0)
            f->heard[f->heard_count++] = (uint32_t)k;
    }
}

static void hear_all(struct frames *f)
{
    while (f->to < f->g->windows && grid_start(f->g, f->to) <= f->frame)
        f->to++;
    while (f->from < f->to && grid_end(f->g, f->from) <= f->frame)
        f->from++;
    for (uint32_t w = f->from; w < f->to; w++)
        count_active_clusters(f, w);
}

static void insert_sorted(uint32_t *list, uint32_t n, uint32_t value)
{
    for (; n > 0 && list[n - 1] > value; n--)
        list[n] = list[n - 1];
    list[n] = value;
}

/* The highest score that is left, taken out; `most` when none is. */
static uint32_t take_highest(struct frames *f)
{
    uint32_t best = f->most, high = 0;

    for (uint32_t i = 0; i < f->heard_count; i++) {
        uint32_t k = f->heard[i];

        if (f->score[k] > high || (f->score[k] == high && high > 0 && k < best)) {
            high = f->score[k];
            best = k;
        }
    }
    if (best < f->most)
        f->score[best] = 0;
    return best;
}

static bool list_contains(const uint32_t *list, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == value)
            return true;
    return false;
}

const uint32_t *frames_next(struct frames *f, uint32_t count)
{
    uint32_t n = 0, other = 0;

    hear_all(f);
    for (; n < count; n++) {
        uint32_t k = take_highest(f);

        if (k == f->most)
            break;
        insert_sorted(f->chosen, n, k);
    }
    for (; n < count && other < f->most; other++)
        if (!list_contains(f->chosen, n, other)) {
            insert_sorted(f->chosen, n, other);
            n++;
        }
    for (uint32_t i = 0; i < f->heard_count; i++)
        f->score[f->heard[i]] = 0;
    f->heard_count = 0;
    f->frame++;
    return f->chosen;
}

/* ---- turns */

#define NEVER UINT32_MAX

struct finding {
    const struct diarize_input *in;
    double min_off_s;
    uint32_t *last;     /* [most]: the cluster's newest turn */
    uint32_t *speaking; /* [most]: those of the frame before, `n` */
    uint32_t n;
    struct turns found;
};

void turns_free(struct turns *t)
{
    free(t->list);
    *t = (struct turns){0};
}

static int append_speaker_turn(struct turns *t, struct diarize_turn turn, struct err *err)
{
    if (t->count == t->capacity) {
        uint32_t capacity = t->capacity ? 2 * t->capacity : 64;
        struct diarize_turn *list = realloc(t->list, capacity * sizeof(*list));

        if (!list)
            return err_set(err, ERR_NOMEM, "no memory for %u turns", capacity);
        t->list = list;
        t->capacity = capacity;
    }
    t->list[t->count++] = turn;
    return 0;
}

static double compute_frame_middle(const struct finding *f, uint32_t frame)
{
    return (double)frame * f->in->frame_s + 0.5 * f->in->frame_length_s;
}

static int begin_speaker_turn(struct finding *f, uint32_t k, uint32_t frame, struct err *err)
{
    double start = compute_frame_middle(f, frame);
    int rc;

    if (f->last[k] != NEVER && start - f->found.list[f->last[k]].end_s < f->min_off_s)
        return 0; /* the same turn goes on */
    rc = append_speaker_turn(&f->found, (struct diarize_turn){start, start, k}, err);
    if (rc == 0)
        f->last[k] = f->found.count - 1;
    return rc;
}

/* Both lists ascend: a speaker in one alone has begun or ended. */
static int update_turns(struct finding *f, uint32_t frame, const uint32_t *now, uint32_t n,
                        struct err *err)
{
    uint32_t i = 0, k = 0;
    int rc = 0;

    while (rc == 0 && (i < f->n || k < n)) {
        if (k == n || (i < f->n && f->speaking[i] < now[k])) {
            f->found.list[f->last[f->speaking[i++]]].end_s = compute_frame_middle(f, frame);
        } else if (i == f->n || now[k] < f->speaking[i]) {
            rc = begin_speaker_turn(f, now[k++], frame, err);
        } else {
            i++;
            k++;
        }
    }
    if (n > 0)
        memcpy(f->speaking, now, n * sizeof(*now));
    f->n = n;
    return rc;
}

static void cut_turns_at_end(struct turns *t, double duration_s)
{
    uint32_t to = 0;

    for (uint32_t i = 0; i < t->count; i++) {
        struct diarize_turn turn = t->list[i];

        if (turn.end_s > duration_s)
            turn.end_s = duration_s;
        if (turn.end_s > turn.start_s)
            t->list[to++] = turn;
    }
    t->count = to;
}

int turns_find(const struct diarize_input *in, const struct grid *g, const int32_t *clusters,
               const uint8_t *count, uint32_t most, double min_off_s, struct turns *ret,
               struct err *err)
{
    struct finding f = {.in = in, .min_off_s = min_off_s};
    struct frames *frames = NULL;
    int rc = frames_new(in, g, clusters, most, &frames, err);

    f.last = malloc(2 * ((size_t)most + 1) * sizeof(*f.last));
    if (rc == 0 && !f.last)
        rc = err_set(err, ERR_NOMEM, "no memory for %u speakers", most);
    for (uint32_t k = 0; rc == 0 && k < most; k++)
        f.last[k] = NEVER;
    f.speaking = f.last ? f.last + most + 1 : NULL;
    for (uint32_t t = 0; rc == 0 && t < g->total; t++)
        rc = update_turns(&f, t, frames_next(frames, count[t]), count[t], err);
    if (rc == 0)
        rc = update_turns(&f, g->total - 1, NULL, 0,
                          err); /* the last frame's middle ends what goes on */
    if (rc == 0) {
        cut_turns_at_end(&f.found, in->duration_s);
        *ret = f.found;
    } else {
        turns_free(&f.found);
    }
    frames_free(frames);
    free(f.last);
    return rc;
}
