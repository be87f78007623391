#include "tools/search/search_find.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "store/read/find.h"
#include "store/search/within.h"
#include "store/store.h"
#include "store/vectors/vectors.h"
#include "tools/cli/text.h"
#include "tools/search/fuse.h"
#include "tools/search/search_candidates.h"
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

/* ---- what is found by vectors: by meaning, or by what it sounds like */

#define FEW_WANTED 100u      /* of one speaker or language: of fewer, more are looked for */
#define NEAR_CANDIDATES 100u /* stretches that sound like it, for a text to be near one */

/* A sound that a text is to be near counts whoever speaks there. */
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

/* way: SEARCH_MEANING or SEARCH_SOUND. ERR_EMPTY: the catalog has no such vectors. */
static int search_nearest(struct candidates *c, enum search_way way, const char *text,
                          struct err *err)
{
    struct store_stage_row stage = {0};
    struct search_vector v = {0};
    int rc = find_stage(
        c->st, way == SEARCH_MEANING ? stage_embed_text.name : stage_embed_audio.name, &stage, err);

    if (rc == ERR_EMPTY)
        return err_set(err, rc,
                       way == SEARCH_MEANING
                           ? "nothing here can be found by its meaning yet. `nightshift enqueue "
                             "--embed` prepares that"
                           : "nothing here can be found by its sound yet. `nightshift enqueue "
                             "--embed-audio` prepares that");
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

/* ---- what was found by several ways, as one ranking of moments */

/* Adds what another way found at the same moment. */
static void merge_result_fields(struct search_result *r, enum search_way way,
                                struct search_result *from)
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

static int join_candidates(struct candidates *c, struct search_results *ret, struct err *err)
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
                        merge_result_fields(r, (enum search_way)j, &was);
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

/* Moves results with the words or the class before similar ones; each group keeps its order. */
static int move_named_first(const struct search_wish *wish, struct search_results *r,
                            struct err *err)
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

/* Takes the rows of the lists over. Results with the requested words or class come first, then
 * similar ones. */
static int search_join(struct candidates *c, struct search_results *ret, struct err *err)
{
    int rc = join_candidates(c, ret, err);

    return rc == 0 ? move_named_first(c->wish, ret, err) : rc;
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

struct class_heard {
    struct candidates *c;
    size_t seen;
};

static int on_sound(void *arg, const struct find_sound *s)
{
    struct class_heard *x = arg;
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

/* Finds as many as are wanted. With a speaker or a language it looks at many first, and at all if
 * those were not enough. */
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
        struct class_heard x = {.c = c};

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
