#include "tools/search/search_nearest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "store/read/find.h"
#include "store/store.h"
#include "store/vectors/vectors.h"
#include "workers/models/bert/embedder.h"
#include "workers/models/clap/clap.h"
#include "workers/stages/stage_kind.h"

/* ---- what is typed as a vector, by the model whose vectors the catalog has.
 *
 * Main thread. Loads the model on the processor and lets it go again: a search is one command. */

struct search_vector { /* owned: values */
    float *values;
    uint32_t size;
    double least; /* likeness that a text has at least that speaks of it; -1: not known */
};

static int search_vector(const struct store_stage_row *stage, const char *text,
                         struct search_vector *ret, struct err *err);

static int make_room(uint32_t size, struct search_vector *ret, struct err *err)
{
    ret->size = size;
    ret->least = -1;
    ret->values = calloc(size, sizeof(*ret->values));
    return ret->values ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* How alike two texts are that have nothing to do with each other depends on the model: hardly at
 * all for MiniLM, and much for E5, whose vectors lie close together. So what is typed is compared
 * with these, and a hit must stand out, by this share of what is left to 1. With all-MiniLM-L6-v2
 * passages that answered a question had 0.26 to 0.51, and those that had nothing to do with it 0.2
 * at most; this parts them. Other models were not tried. */
#define STANDS_OUT 0.25
static const char *const contrasts[] = {
    "The committee adopted the minutes of the previous meeting without a vote.",
    "Press the red button twice, then wait until the lamp goes out.",
    "Her brother bought seven apples and a pair of green shoes.",
    "The bridge was closed to traffic because of repairs to the railing.",
    "In the second half the visitors scored three goals."};
#define CONTRASTS (sizeof(contrasts) / sizeof(contrasts[0]))

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* By the median: one of them may happen to be of what is asked. */
static int find_least(struct embedder *e, struct search_vector *v, struct err *err)
{
    float *others = calloc(CONTRASTS * (size_t)v->size, sizeof(*others));
    double likeness[CONTRASTS] = {0};
    int rc = others ? embedder_run(e, contrasts, CONTRASTS, EMBED_PASSAGE, others, err)
                    : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t k = 0; rc == 0 && k < CONTRASTS; k++)
        for (uint32_t i = 0; i < v->size; i++)
            likeness[k] += (double)v->values[i] * others[k * v->size + i];
    free(others);
    qsort(likeness, CONTRASTS, sizeof(*likeness), by_number);
    v->least = likeness[CONTRASTS / 2] + STANDS_OUT * (1 - likeness[CONTRASTS / 2]);
    return rc;
}

static int by_meaning(const char *dir, struct backend *be, const char *text,
                      struct search_vector *ret, struct err *err)
{
    struct embedder *e = NULL;
    int rc = embedder_load(dir, be, PRECISION_AUTO, &e, err);

    if (rc == 0)
        rc = make_room(embedder_size(e), ret, err);
    if (rc == 0)
        rc = embedder_run(e, &text, 1, EMBED_QUERY, ret->values, err);
    if (rc == 0)
        rc = find_least(e, ret, err);
    embedder_free(e);
    return rc;
}

static int by_sound(const char *dir, struct backend *be, const char *text,
                    struct search_vector *ret, struct err *err)
{
    struct clap *c = NULL;
    int rc = clap_load(dir, be, PRECISION_AUTO, CLAP_TEXT, 1, &c, err);

    if (rc == 0)
        rc = make_room(clap_size(c), ret, err);
    if (rc == 0)
        rc = clap_run_text(c, &text, 1, ret->values, err);
    clap_free(c);
    return rc;
}

/* Vectors of another model mean nothing beside the catalog's. */
static int check_model(const struct store_stage_row *stage, struct err *err)
{
    char hash[33];
    int rc = stage_model_hash(stage->name, stage->model_dir, hash, err);

    if (rc == 0 && strcmp(hash, stage->model_hash) != 0)
        rc = err_set(err, ERR_MODEL,
                     "'%.200s' is not the model any more that the catalog's vectors are of",
                     stage->model_dir);
    return rc;
}

/* stage: "embed-text" (a sentence encoder's vector of a question) or "embed-audio" (CLAP's of a
 * description). ERR_MODEL, ERR_MISSING: the model is not where it was, or is another one now. */
static int search_vector(const struct store_stage_row *stage, const char *text,
                         struct search_vector *ret, struct err *err)
{
    struct search_vector v = {0};
    struct backend *be = NULL;
    int rc = check_model(stage, err);

    if (rc == 0)
        rc = backend_open_host(1, &be, err);
    if (rc == 0)
        rc = (strcmp(stage->name, stage_embed_text.name) == 0 ? by_meaning : by_sound)(
            stage->model_dir, be, text, &v, err);
    backend_close(be);
    if (rc != 0) {
        free(v.values);
        return rc;
    }
    *ret = v;
    return 0;
}

/* ---- what is found by vectors */

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
