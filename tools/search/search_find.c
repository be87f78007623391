#include "tools/search/search_find.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/read/find.h"
#include "store/search/within.h"
#include "tools/search/search_candidates.h"
#include "tools/search/search_join.h"
#include "tools/search/search_near.h"
#include "tools/search/search_nearest.h"
#include "tools/cli/text.h"

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
