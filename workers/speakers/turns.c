#include "workers/speakers/turns.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/speakers/frames.h"

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
