#include "workers/speakers/frames.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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
