#include "tools/export/subtitles/sounds.h"

#include <stdlib.h>
#include <string.h>

#include "tools/export/keys.h"
#include "tools/export/subtitles/pieces.h"

#define APART_MS 10000 /* the same sound is not told again sooner */

static bool is_speech(const char *name)
{
    static const char *const speech[] = {"Speech",       "Conversation", "Narration",
                                         "Silence",      "Inside,",      "Outside,",
                                         "Child speech", "Male speech",  "Female speech"};

    for (size_t i = 0; i < sizeof(speech) / sizeof(speech[0]); i++)
        if (strncmp(name, speech[i], strlen(speech[i])) == 0)
            return true;
    return false;
}

/* Sounds come in the order in which they begin, so each finds its place at or behind that of the
 * one before: one sweep over the cues. */
struct sweep {
    const struct subtitle *cues; /* speech */
    size_t cue_count, next;      /* next: the first that ends behind `free_ms` */
    int64_t free_ms;             /* before it there is no room for another sound */
    const struct subtitle_limits *limits;
    struct keys names;
    int64_t *told_ms; /* of each name: when it was told last */
    struct subtitle *list;
    size_t count;
};

/* Moves free_ms to the first moment at or behind `from` that is free for long enough, or to where
 * that is impossible before `to`. False: there is none before. *until: when it is free no more. */
static bool find_free(struct sweep *w, int64_t from, int64_t to, int64_t *until)
{
    const struct subtitle_limits *l = w->limits;

    w->free_ms = w->free_ms < from ? from : w->free_ms;
    for (; w->next < w->cue_count && w->free_ms + l->min_ms <= to; w->next++) {
        const struct subtitle *c = &w->cues[w->next];

        if (c->end_ms + l->gap_ms <= w->free_ms)
            continue;
        if (c->start_ms - l->gap_ms - w->free_ms >= l->min_ms) {
            *until = to < c->start_ms - l->gap_ms ? to : c->start_ms - l->gap_ms;
            return true;
        }
        w->free_ms = c->end_ms + l->gap_ms;
    }
    *until = to;
    return w->free_ms + l->min_ms <= to;
}

/* The last time it was told is enough: a place that is left is behind all that were. */
static bool told_lately(const struct sweep *w, size_t name, const struct document_sound *sound)
{
    return w->told_ms[name] >= 0 && w->told_ms[name] > sound->start_ms - APART_MS &&
           w->told_ms[name] < sound->end_ms + APART_MS;
}

static int put_sound(struct sweep *w, const struct document_sound *sound, struct err *err)
{
    const size_t known = w->names.count;
    uint32_t columns, characters;
    int64_t until;
    size_t name;

    pieces_measure(sound->name, strlen(sound->name), &columns, &characters);
    if (is_speech(sound->name) || columns + 2 > w->limits->line_columns)
        return 0;
    if (keys_give(&w->names, sound->name, strlen(sound->name), &name, err) != 0)
        return err->code;
    if (name == known)
        w->told_ms[name] = -1;
    if (told_lately(w, name, sound) ||
        !find_free(w, sound->start_ms < 0 ? 0 : sound->start_ms, sound->end_ms, &until))
        return 0;
    if (until - w->free_ms > w->limits->max_ms)
        until = w->free_ms + w->limits->max_ms;
    w->told_ms[name] = w->free_ms;
    w->list[w->count++] = (struct subtitle){
        .start_ms = w->free_ms, .end_ms = until, .speaker = "", .sound = sound->name};
    w->free_ms = until + w->limits->gap_ms;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct document_sound *x = *(const struct document_sound *const *)a;
    const struct document_sound *y = *(const struct document_sound *const *)b;

    if (x->start_ms != y->start_ms)
        return x->start_ms < y->start_ms ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Both are in order; so is what becomes of them. */
static int merge_sound_cues(struct subtitles *s, const struct sweep *w, struct err *err)
{
    struct subtitle *all = calloc(s->count + w->count + 1, sizeof(*all));
    size_t i = 0, k = 0;

    if (!all)
        return err_set(err, ERR_NOMEM, "out of memory");
    while (i < s->count || k < w->count) {
        const bool speech =
            i < s->count && (k == w->count || s->list[i].start_ms <= w->list[k].start_ms);

        all[i + k] = speech ? s->list[i] : w->list[k];
        i += speech;
        k += !speech;
    }
    free(s->list);
    s->list = all;
    s->count = i + k;
    return 0;
}

int sounds_put(const struct document *d, const struct subtitle_limits *l, struct subtitles *s,
               struct err *err)
{
    const size_t n = d->sound_count;
    const struct document_sound **order = calloc(n + 1, sizeof(*order));
    struct sweep w = {.cues = s->list,
                      .cue_count = s->count,
                      .limits = l,
                      .told_ms = calloc(n + 1, sizeof(*w.told_ms)),
                      .list = calloc(n + 1, sizeof(*w.list))};
    int rc = order && w.told_ms && w.list ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t i = 0; rc == 0 && i < n; i++)
        order[i] = &d->sounds[i];
    if (rc == 0)
        qsort(order, n, sizeof(*order), by_start);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_sound(&w, order[i], err);
    if (rc == 0 && w.count > 0)
        rc = merge_sound_cues(s, &w, err);
    free(order);
    free(w.told_ms);
    free(w.list);
    keys_free(&w.names);
    return rc;
}
