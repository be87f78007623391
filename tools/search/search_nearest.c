#include "tools/search/search_nearest.h"

#include <math.h>
#include <stdlib.h>

#include "store/read/find.h"
#include "store/vectors/vectors.h"
#include "tools/search/search_query.h"
#include "workers/stages/stage_kind.h"

#define FEW_WANTED 100u      /* of one speaker or language: of fewer, more are looked for */
#define NEAR_CANDIDATES 100u /* stretches that sound like it, for a text to be near one */

/* What a text is to be near: whoever speaks there. */
static bool is_near_text(const struct search_wish *w, enum search_way way)
{
    return way == SEARCH_SOUND && w->text;
}

struct passage {
    struct candidates *c;
    enum search_way way;
    double likeness;
};

static int on_passage(void *arg, const struct find_passage *row)
{
    const struct result_passage *p = &row->passage;
    struct passage *x = arg;
    bool heard = x->way == SEARCH_SOUND;
    const struct search_result hit = {.media_id = row->media_id,
                                      .start_ms = p->start_ms,
                                      .end_ms = p->end_ms,
                                      .likeness = x->likeness,
                                      .sound_score = NAN,
                                      .sound_start_ms = heard ? p->start_ms : 0,
                                      .sound_end_ms = heard ? p->end_ms : 0,
                                      .path = (char *)row->path,
                                      .member = (char *)row->member,
                                      .text = (char *)p->text};

    return is_near_text(x->c->wish, x->way) ? candidates_add(x->c, x->way, &hit)
                                            : candidates_add_heard(x->c, x->way, &hit);
}

static int take_hits(struct candidates *c, enum search_way way, const struct vectors_hit *hits,
                     size_t n, double least, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0 && hits[i].cosine >= least; i++)
        rc = find_passage(c->st, hits[i].embedding_id, on_passage,
                          &(struct passage){c, way, hits[i].cosine}, err);
    return rc;
}

/* The nearest ones of one limit; taken: those that were looked at with a lower one. */
struct nearest {
    struct vectors_hit *hits;
    size_t n;
};

static bool goes_on(const struct nearest *was, const struct nearest *now)
{
    bool same = was->n <= now->n;

    for (size_t i = 0; same && i < was->n; i++)
        same = was->hits[i].embedding_id == now->hits[i].embedding_id;
    return same;
}

static int take_limit(struct candidates *c, enum search_way way, const struct vectors_query *q,
                      double least, struct nearest *was, struct err *err)
{
    struct nearest now = {0};
    int rc = vectors_search(c->st, q, &now.hits, &now.n, err);

    if (rc != 0)
        return rc;
    if (!goes_on(was, &now)) { /* a run has found more, or others are looked at */
        candidates_list_free(&c->lists[way]);
        was->n = 0;
    }
    rc = take_hits(c, way, now.hits + was->n, now.n - was->n, least, err);
    free(was->hits);
    *was = now;
    return rc;
}

static size_t enough_of(const struct search_wish *w, bool near_text)
{
    if (near_text || (w->limit > 0 && !w->speaker && !w->language))
        return 0;
    if (w->limit == 0)
        return SIZE_MAX;
    return w->limit < FEW_WANTED ? FEW_WANTED : (size_t)w->limit + 1;
}

/* Who says most of a passage, and in which language, is known only of what was found: while too few
 * of these are wanted, or all that there are, more are asked for. */
static int take_nearest(struct candidates *c, enum search_way way, struct vectors_query *q,
                        double least, struct err *err)
{
    bool near_text = is_near_text(c->wish, way), more = true;
    size_t enough = enough_of(c->wish, near_text);
    struct nearest found = {0};
    int rc = 0;

    if (near_text)
        q->scope = (struct scope){.path = c->wish->path};
    else
        rc = candidates_scope(c, &q->scope, err);
    for (q->limit = near_text ? NEAR_CANDIDATES : candidates_most(c->wish); rc == 0 && more;
         q->limit *= 4) {
        rc = take_limit(c, way, q, least, &found, err);
        more = rc == 0 && found.n == q->limit && found.hits[found.n - 1].cosine >= least &&
               c->lists[way].count < enough;
        candidates_narrow(c, &q->scope, found.n);
    }
    free(found.hits);
    return rc;
}

int search_nearest(struct candidates *c, enum search_way way, const char *text, struct err *err)
{
    struct store_stage_row stage = {0};
    struct search_vector v = {0};
    int rc = find_stage(
        c->st, way == SEARCH_MEANING ? stage_embed_text.name : stage_embed_audio.name, &stage, err);

    if (rc != 0)
        return rc;
    rc = search_vector(&stage, text, &v, err);
    if (rc == 0)
        rc = find_other_vectors(c->st, &stage, c->wish->path, &c->unseen_ms, err);
    if (rc == 0)
        rc = take_nearest(
            c, way,
            &(struct vectors_query){.stage_id = stage.stage_id, .values = v.values, .size = v.size},
            c->wish->meaning_must ? -1 : v.least, err);
    free(v.values);
    store_stage_row_free(&stage);
    return rc;
}
