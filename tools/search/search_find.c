#include "tools/search/search_find.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/read/find.h"
#include "store/search/within.h"
#include "tools/cli/text.h"
#include "tools/search/fuse.h"
#include "tools/search/search_candidates.h"
#include "tools/search/search_nearest.h"

/* ---- what was found by several ways, as one ranking of moments */

/* What was found of a moment by one way more. */
static void adopt(struct search_result *r, enum search_way way, struct search_result *from)
{
    r->by[way] = true;
    if (isnan(r->likeness))
        r->likeness = from->likeness;
    if (isnan(r->sound_score))
        r->sound_score = from->sound_score;
    if (r->sound_end_ms == 0) {
        r->sound_start_ms = from->sound_start_ms;
        r->sound_end_ms = from->sound_end_ms;
    }
    if (r->sound[0] == 0) {
        char *was = r->sound;

        r->sound = from->sound;
        from->sound = was;
    }
}

static int join(struct candidates *c, struct search_results *ret, struct err *err)
{
    const struct fuse_item *lists[SEARCH_WAYS];
    struct fuse_item *items[SEARCH_WAYS] = {NULL};
    size_t counts[SEARCH_WAYS], n = 0;
    struct fuse_hit *hits = NULL;
    int rc = 0;

    for (int k = 0; k < SEARCH_WAYS && rc == 0; k++) {
        const struct candidates_list *l = &c->lists[k];

        counts[k] = l->count;
        lists[k] = items[k] = calloc(l->count + 1, sizeof(*items[k]));
        if (!items[k])
            rc = err_set(err, ERR_NOMEM, "out of memory");
        for (size_t i = 0; rc == 0 && i < l->count; i++)
            items[k][i] =
                (struct fuse_item){l->rows[i].media_id, l->rows[i].start_ms, l->rows[i].end_ms};
    }
    if (rc == 0)
        rc = fuse(lists, counts, SEARCH_WAYS, &hits, &n, err);
    if (rc == 0 && !(ret->list = calloc(n + 1, sizeof(*ret->list))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct search_result *r = &ret->list[ret->count++];

        for (int k = SEARCH_WAYS; k-- > 0;) { /* the first way's row is what is shown */
            size_t at = hits[i].at[k];
            struct search_result was = *r;

            if (at == FUSE_NONE)
                continue;
            *r = c->lists[k].rows[at];
            memset(&c->lists[k].rows[at], 0, sizeof(*r));
            if (was.path) {
                for (int j = k + 1; j < SEARCH_WAYS; j++)
                    if (was.by[j])
                        adopt(r, (enum search_way)j, &was);
                search_result_free(&was);
            }
        }
        r->score = hits[i].score;
    }
    for (int k = 0; k < SEARCH_WAYS; k++)
        free(items[k]);
    free(hits);
    return rc;
}

/* What has the words, or the class, before what is like it; each in its order. */
static int part(const struct search_wish *wish, struct search_results *r, struct err *err)
{
    enum search_way way = wish->text ? SEARCH_WORDS : SEARCH_CLASS;
    struct search_result *list = calloc(r->count + 1, sizeof(*list));
    size_t n = 0;

    if (!list)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (int named = 1; named >= 0; named--) {
        for (size_t i = 0; i < r->count; i++)
            if (r->list[i].by[way] == (named == 1))
                list[n++] = r->list[i];
        if (named)
            r->named = n;
    }
    free(r->list);
    r->list = list;
    return 0;
}

/* Takes the rows of the lists over. First what has the words, or the class, that were asked for,
 * then what is like it. */
static int search_join(struct candidates *c, struct search_results *ret, struct err *err)
{
    int rc = join(c, ret, err);

    return rc == 0 ? part(c->wish, ret, err) : rc;
}

/* ---- a text near a sound: which of what was said has it beside it */

/* Sets c->has_class: was a sound of this class heard anywhere? */
static int search_near_known(struct candidates *c, struct err *err)
{
    const struct scope scope = {.path = c->wish->path};

    return find_sound_heard(c->st, c->wish->sound, &scope, &c->has_class, err);
}

struct nearby {
    struct search_result *row;
    bool found, no_memory;
};

static int on_near(void *arg, const struct find_sound *s)
{
    struct nearby *x = arg;
    char *name = strdup(s->name);

    if (!name) {
        x->no_memory = true;
        return 1;
    }
    x->found = true;
    free(x->row->sound);
    x->row->sound = name;
    x->row->sound_score = s->score;
    x->row->sound_start_ms = s->start_ms;
    x->row->sound_end_ms = s->end_ms;
    x->row->by[SEARCH_CLASS] = true;
    return 0;
}

/* The stretch that sounds most like it, of those near the row. */
static bool near_by_vector(const struct candidates_list *heard, struct search_result *row)
{
    for (size_t i = 0; i < heard->count; i++) {
        const struct search_result *h = &heard->rows[i];

        if (h->media_id != row->media_id || h->start_ms > row->end_ms + SEARCH_NEAR_MS ||
            h->end_ms < row->start_ms - SEARCH_NEAR_MS)
            continue;
        row->by[SEARCH_SOUND] = true;
        row->sound_start_ms = h->start_ms;
        row->sound_end_ms = h->end_ms;
        if (isnan(row->likeness))
            row->likeness = h->likeness;
        return true;
    }
    return false;
}

/* Keeps of a list what is near such a sound, in its order. Keeps of a list what is near such a
 * sound, in its order. */
static int search_near_keep(struct candidates *c, struct candidates_list *l, struct err *err)
{
    size_t kept = 0, n = l->count;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        struct search_result *row = &l->rows[i];
        struct nearby x = {.row = row};

        if (rc == 0 && c->has_class)
            rc = find_sound_near(c->st, row->media_id, c->wish->sound,
                                 row->start_ms - SEARCH_NEAR_MS, row->end_ms + SEARCH_NEAR_MS,
                                 on_near, &x, err);
        if (x.no_memory)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        if (rc == 0 && (x.found || near_by_vector(&c->lists[SEARCH_SOUND], row))) {
            struct search_result keep = *row;

            *row = (struct search_result){0};
            l->rows[kept++] = keep;
        } else {
            search_result_free(row);
        }
    }
    l->count = kept;
    return rc;
}

/* -------------------------------------------------------------------------------- by words */

static int on_segment(void *arg, const struct read_segment *s)
{
    const struct search_result row = search_of_segment(s);

    return candidates_add(arg, SEARCH_WORDS, &row);
}

static int on_span(void *arg, const struct read_span *s)
{
    const struct search_result row = search_of_span(s);

    return candidates_add(arg, SEARCH_WORDS, &row);
}

static int find_words(struct candidates *c, struct err *err)
{
    /* Which of them are near a sound that is no class is seen later; of spans, of one that is. */
    bool by_class = c->has_class && c->wish->within_ms == 0;
    bool all = c->wish->limit == 0 || (c->wish->sound && !by_class);
    const struct read_search s = {.text = c->wish->text,
                                  .path = c->wish->path,
                                  .speaker = c->wish->speaker,
                                  .language = c->wish->language,
                                  .mark_begin = c->wish->mark_begin,
                                  .mark_end = c->wish->mark_end,
                                  .sound = by_class ? c->wish->sound : NULL,
                                  .sound_ms = SEARCH_NEAR_MS,
                                  .limit = all ? 0 : candidates_most(c->wish)};

    return c->wish->within_ms > 0 ? read_within(c->st, &s, c->wish->within_ms, on_span, c, err)
                                  : read_search(c->st, &s, on_segment, c, err);
}

/* ------------------------------------------------------------------------------ by its class */

struct hearing {
    struct candidates *c;
    size_t seen;
};

static int on_sound(void *arg, const struct find_sound *s)
{
    struct hearing *x = arg;
    struct candidates *c = x->c;
    int rc = candidates_add_heard(c, SEARCH_CLASS,
                                  &(struct search_result){.media_id = s->media_id,
                                                          .start_ms = s->start_ms,
                                                          .end_ms = s->end_ms,
                                                          .likeness = NAN,
                                                          .sound_score = s->score,
                                                          .sound_start_ms = s->start_ms,
                                                          .sound_end_ms = s->end_ms,
                                                          .path = (char *)s->path,
                                                          .member = (char *)s->member,
                                                          .sound = (char *)s->name});

    x->seen++;
    return rc != 0 ? rc
                   : c->wish->limit > 0 && c->lists[SEARCH_CLASS].count >= candidates_most(c->wish);
}

/* As many as are wanted; of a speaker or a language first many, and if these were not enough, all.
 */
static int find_class(struct candidates *c, struct err *err)
{
    const struct search_wish *w = c->wish;
    bool chosen = w->speaker || w->language;
    struct scope scope;
    int rc = candidates_scope(c, &scope, err);

    for (size_t limit = chosen         ? CANDIDATES_MANY_SEEN
                        : w->limit > 0 ? candidates_most(w)
                                       : 0;
         rc == 0; limit = 0) {
        struct hearing x = {.c = c};

        candidates_list_free(&c->lists[SEARCH_CLASS]);
        rc = find_sounds(c->st, w->sound, &scope, limit, on_sound, &x, err);
        if (!chosen || limit == 0 || x.seen < limit)
            break;
        candidates_narrow(c, &scope, x.seen);
    }
    return rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ by what it sounds like */

static int find_sounding(struct candidates *c, struct err *err)
{
    struct err why = {0};
    int rc = !c->wish->text ? find_class(c, err) : 0; /* else each text looks for its own */

    if (rc != 0)
        return rc;
    rc = search_nearest(c, SEARCH_SOUND, c->wish->sound, &why);
    if (rc == 0 || rc == ERR_EMPTY)
        return 0;
    if ((c->has_class || c->lists[SEARCH_CLASS].count > 0) && c->err.code == 0 && rc != ERR_NOMEM)
        return 0;
    *err = why;
    return rc;
}

/* The texts are there; what sounds like it alone is not asked for. */
static int only_near(struct candidates *c, struct search_results *ret, struct err *err)
{
    int rc = find_sounding(c, err);

    ret->heard = c->has_class || c->lists[SEARCH_SOUND].count > 0;

    if (rc == 0)
        rc = search_near_keep(c, &c->lists[SEARCH_WORDS], err);
    if (rc == 0)
        rc = search_near_keep(c, &c->lists[SEARCH_MEANING], err);
    candidates_list_free(&c->lists[SEARCH_CLASS]);
    candidates_list_free(&c->lists[SEARCH_SOUND]);
    return rc;
}

/* --------------------------------------------------------------------------------- together */

/* A way that has nothing to search is left out, unless it must be there. */
static int find_meaning(struct candidates *c, struct search_results *ret, struct err *err)
{
    struct err why = {0};
    int rc = search_nearest(c, SEARCH_MEANING, c->wish->text, &why);

    if (rc == 0 || (!c->wish->meaning_must && rc == ERR_EMPTY))
        return 0;
    if (!c->wish->meaning_must && (rc == ERR_MODEL || rc == ERR_MISSING || rc == ERR_DENIED) &&
        c->err.code == 0) {
        snprintf(ret->note, sizeof(ret->note), "by words alone, since %.240s", why.msg);
        return 0;
    }
    *err = why;
    return rc;
}

/* While another model's vectors take the place of one's, recording by recording, those of most of
 * the archive are searched. */
static void say_unseen(const struct candidates *c, struct search_results *ret)
{
    char length[TEXT_LEN];

    if (c->unseen_ms > 0 && ret->note[0] == 0)
        snprintf(ret->note, sizeof(ret->note),
                 "by likeness without %s of audio, which have vectors of another model only",
                 text_length((uint64_t)c->unseen_ms, length));
}

int search_find(struct store *st, const struct search_wish *wish, struct search_results *ret,
                struct err *err)
{
    struct candidates c = {.st = st, .wish = wish};
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    if (wish->text && wish->sound)
        rc = search_near_known(&c, err);
    if (rc == 0 && wish->text && wish->words)
        rc = find_words(&c, err);
    if (rc == 0 && wish->text && wish->meaning)
        rc = find_meaning(&c, ret, err);
    if (rc == 0 && wish->sound)
        rc = wish->text ? only_near(&c, ret, err) : find_sounding(&c, err);
    if (rc == 0)
        rc = search_join(&c, ret, err);
    if (rc == 0)
        say_unseen(&c, ret);
    if (rc != 0 && c.err.code != 0)
        *err = c.err;
    for (int k = 0; k < SEARCH_WAYS; k++)
        candidates_list_free(&c.lists[k]);
    if (rc != 0)
        search_results_free(ret);
    return rc;
}
