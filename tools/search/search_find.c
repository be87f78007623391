#include "tools/search/search_find.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/read/find.h"
#include "store/search/within.h"
#include "store/vectors/vectors.h"
#include "tools/search/fuse.h"
#include "tools/search/search_query.h"
#include "workers/stages/stage_kind.h"

#define CANDIDATES 1000u     /* of each way, at least */
#define FEW_WANTED 100u      /* of one speaker or language: of fewer, more are looked for */
#define NEAR_CANDIDATES 100u /* stretches that sound like it, for a text to be near one */
#define FEW_PART 0.25        /* of the recordings have this speaker: only these are looked at */
#define MANY_SEEN 16000u     /* and too few are in this language: it is worth to read segments */

const char *const search_way_names[SEARCH_WAYS] = {"words", "meaning", "class", "sound"};

/* One way's candidates, best first. */
struct list {
    struct search_result *rows;
    size_t count, room;
};

struct finding {
    struct store *st;
    const struct search_wish *wish;
    struct list lists[SEARCH_WAYS];
    bool has_class; /* such a sound was heard somewhere; only with a text */
    struct err err; /* of a callback */
};

static void list_free(struct list *l)
{
    for (size_t i = 0; i < l->count; i++)
        search_result_free(&l->rows[i]);
    free(l->rows);
    *l = (struct list){0};
}

/* So many of each way, unless all are asked for: one more than is shown tells that there are more.
 */
static size_t candidates(const struct search_wish *w)
{
    return w->limit < CANDIDATES ? CANDIDATES : (size_t)w->limit + 1;
}

static int no_memory(struct finding *f) { return err_set(&f->err, ERR_NOMEM, "out of memory"); }

static bool copy_speakers(struct search_result *to, const struct search_result *from)
{
    to->speaker_count = 0;
    to->speakers = calloc(from->speaker_count + 1, sizeof(*to->speakers));
    for (size_t i = 0; to->speakers && i < from->speaker_count; i++) {
        to->speakers[i] = strdup(from->speakers[i]);
        if (!to->speakers[i])
            return false;
        to->speaker_count++;
    }
    return to->speakers != NULL;
}

/* The strings of row are borrowed, NULL for "". */
static int add(struct finding *f, enum search_way way, const struct search_result *row)
{
    struct list *l = &f->lists[way];
    struct search_result new = *row;
    bool named;

    if (l->count == l->room) {
        size_t room = l->room * 2 + 64;
        struct search_result *rows = realloc(l->rows, room * sizeof(*rows));

        if (!rows)
            return no_memory(f);
        l->rows = rows;
        l->room = room;
    }
#define COPY(field) new.field = strdup(row->field ? row->field : "")
    COPY(path);
    COPY(member);
    COPY(speaker);
    COPY(language);
    COPY(text);
    COPY(snippet);
    COPY(sound);
#undef COPY
    named = copy_speakers(&new, row);
    new.by[way] = true;
    l->rows[l->count++] = new;
    named = named && new.path &&new.member &&new.speaker &&new.language;
    return named && new.text &&new.snippet &&new.sound ? 0 : no_memory(f);
}

/* -------------------------------------------------------------------------------- by words */

static int on_segment(void *arg, const struct read_segment *s)
{
    const struct search_result row = search_of_segment(s);

    return add(arg, SEARCH_WORDS, &row);
}

static int on_span(void *arg, const struct read_span *s)
{
    const struct search_result row = search_of_span(s);

    return add(arg, SEARCH_WORDS, &row);
}

static int find_words(struct finding *f, struct err *err)
{
    /* Which of them are near a sound that is no class is seen later; of spans, of one that is. */
    bool by_class = f->has_class && f->wish->within_ms == 0;
    bool all = f->wish->limit == 0 || (f->wish->sound && !by_class);
    const struct read_search s = {.text = f->wish->text,
                                  .path = f->wish->path,
                                  .speaker = f->wish->speaker,
                                  .language = f->wish->language,
                                  .mark_begin = f->wish->mark_begin,
                                  .mark_end = f->wish->mark_end,
                                  .sound = by_class ? f->wish->sound : NULL,
                                  .sound_ms = SEARCH_NEAR_MS,
                                  .limit = all ? 0 : candidates(f->wish)};

    return f->wish->within_ms > 0 ? read_within(f->st, &s, f->wish->within_ms, on_span, f, err)
                                  : read_search(f->st, &s, on_segment, f, err);
}

/* ------------------------------------------------------- who says what where something is heard */

struct said {
    struct finding *f;
    enum search_way way;
    struct search_result row; /* borrowed strings, and: */
    bool found;
};

static bool is_wanted(const struct search_wish *w, const struct find_said *s)
{
    return (!w->speaker || strcasecmp(w->speaker, s->speaker) == 0 ||
            strcasecmp(w->speaker, s->label) == 0) &&
           (!w->language || strcmp(w->language, s->language) == 0);
}

static int on_said(void *arg, const struct find_said *s)
{
    struct said *x = arg;

    x->found = true;
    if (!is_wanted(x->f->wish, s))
        return 0;
    x->row.speaker = (char *)s->speaker;
    x->row.speakers = (char **)s->speakers;
    x->row.speaker_count = s->speaker_count;
    x->row.speakers_more = s->more;
    x->row.language = (char *)s->language;
    if (!x->row.text || x->row.text[0] == 0)
        x->row.text = (char *)s->text;
    x->row.snippet = x->row.text;
    return add(x->f, x->way, &x->row);
}

/* Adds a row with who speaks there, when that is who is wanted. */
static int add_with_said(struct finding *f, enum search_way way, const struct search_result *row)
{
    struct said x = {.f = f, .way = way, .row = *row};
    int rc = find_said(f->st, row->media_id, row->start_ms, row->end_ms, on_said, &x, &f->err);

    if (rc != 0 || x.found || !is_wanted(f->wish, &(struct find_said){"", "", "", "", NULL, 0, 0}))
        return rc;
    x.row.snippet = x.row.text;
    return add(f, way, &x.row);
}

/* ------------------------------------------------------------------------------- by vectors */

/* What a text is to be near: whoever speaks there. */
static bool is_near_text(const struct search_wish *w, enum search_way way)
{
    return way == SEARCH_SOUND && w->text;
}

struct passage {
    struct finding *f;
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

    return is_near_text(x->f->wish, x->way) ? add(x->f, x->way, &hit)
                                            : add_with_said(x->f, x->way, &hit);
}

static int take_hits(struct finding *f, enum search_way way, const struct vectors_hit *hits,
                     size_t n, double least, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0 && hits[i].cosine >= least; i++)
        rc = find_passage(f->st, hits[i].embedding_id, on_passage,
                          &(struct passage){f, way, hits[i].cosine}, err);
    return rc;
}

/* The recordings that are looked at. Nearly each has its SPEAKER_00, so that leaving out the others
 * would save nothing; somebody with a name, or the sixth speaker of a panel, is heard in few. */
static int find_scope(struct finding *f, struct scope *ret, struct err *err)
{
    struct scope scope = {.speaker = f->wish->speaker};
    double part = 1;
    int rc = scope.speaker ? scope_part(f->st, &scope, &part, err) : 0;

    if (part >= FEW_PART)
        scope.speaker = NULL;
    scope.path = f->wish->path;
    if (rc == 0)
        *ret = scope;
    return rc;
}

/* Of so many that were seen too few are wanted: recordings in another language need not be seen.
 * Where few are looked at anyway, that costs more than it saves. */
static void narrow(const struct finding *f, struct scope *scope, size_t seen)
{
    const char *language = f->wish->language;

    if (seen >= MANY_SEEN && !scope->speaker && language && language[0] != 0)
        scope->language = language;
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

static int take_limit(struct finding *f, enum search_way way, const struct vectors_query *q,
                      double least, struct nearest *was, struct err *err)
{
    struct nearest now = {0};
    int rc = vectors_search(f->st, q, &now.hits, &now.n, err);

    if (rc != 0)
        return rc;
    if (!goes_on(was, &now)) { /* a run has found more, or others are looked at */
        list_free(&f->lists[way]);
        was->n = 0;
    }
    rc = take_hits(f, way, now.hits + was->n, now.n - was->n, least, err);
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
static int take_nearest(struct finding *f, enum search_way way, struct vectors_query *q,
                        double least, struct err *err)
{
    bool near_text = is_near_text(f->wish, way), more = true;
    size_t enough = enough_of(f->wish, near_text);
    struct nearest found = {0};
    int rc = 0;

    if (near_text)
        q->scope = (struct scope){.path = f->wish->path};
    else
        rc = find_scope(f, &q->scope, err);
    for (q->limit = near_text ? NEAR_CANDIDATES : candidates(f->wish); rc == 0 && more;
         q->limit *= 4) {
        rc = take_limit(f, way, q, least, &found, err);
        more = rc == 0 && found.n == q->limit && found.hits[found.n - 1].cosine >= least &&
               f->lists[way].count < enough;
        narrow(f, &q->scope, found.n);
    }
    free(found.hits);
    return rc;
}

static int find_vectors(struct finding *f, enum search_way way, const char *text, struct err *err)
{
    struct store_stage_row stage = {0};
    struct search_vector v = {0};
    int rc = find_stage(
        f->st, way == SEARCH_MEANING ? stage_embed_text.name : stage_embed_audio.name, &stage, err);

    if (rc != 0)
        return rc;
    rc = search_vector(&stage, text, &v, err);
    if (rc == 0)
        rc = take_nearest(
            f, way,
            &(struct vectors_query){.stage_id = stage.stage_id, .values = v.values, .size = v.size},
            f->wish->meaning_must ? -1 : v.least, err);
    free(v.values);
    store_stage_row_free(&stage);
    return rc;
}

/* ------------------------------------------------------------------------------ by its class */

struct hearing {
    struct finding *f;
    size_t seen;
};

static int on_sound(void *arg, const struct find_sound *s)
{
    struct hearing *x = arg;
    struct finding *f = x->f;
    int rc = add_with_said(f, SEARCH_CLASS,
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
    return rc != 0 ? rc : f->wish->limit > 0 && f->lists[SEARCH_CLASS].count >= candidates(f->wish);
}

/* As many as are wanted; of a speaker or a language first many, and if these were not enough, all.
 */
static int find_class(struct finding *f, struct err *err)
{
    const struct search_wish *w = f->wish;
    bool chosen = w->speaker || w->language;
    struct scope scope;
    int rc = find_scope(f, &scope, err);

    for (size_t limit = chosen ? MANY_SEEN : w->limit > 0 ? candidates(w) : 0; rc == 0; limit = 0) {
        struct hearing x = {.f = f};

        list_free(&f->lists[SEARCH_CLASS]);
        rc = find_sounds(f->st, w->sound, &scope, limit, on_sound, &x, err);
        if (!chosen || limit == 0 || x.seen < limit)
            break;
        narrow(f, &scope, x.seen);
    }
    return rc < 0 ? rc : 0;
}

/* --------------------------------------------------------------------- a text near a sound */

static int on_first(void *arg, const struct find_sound *s)
{
    (void)s;
    *(bool *)arg = true;
    return 1;
}

static int look_for_class(struct finding *f, struct err *err)
{
    const struct scope scope = {.path = f->wish->path};
    int rc = find_sounds(f->st, f->wish->sound, &scope, 1, on_first, &f->has_class, err);

    return rc < 0 ? rc : 0;
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
static bool near_by_vector(const struct list *heard, struct search_result *row)
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

/* Keeps of a list what is near such a sound, in its order. */
static int keep_near(struct finding *f, struct list *l, struct err *err)
{
    size_t kept = 0, n = l->count;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        struct search_result *row = &l->rows[i];
        struct nearby x = {.row = row};

        if (rc == 0 && f->has_class)
            rc = find_sound_near(f->st, row->media_id, f->wish->sound,
                                 row->start_ms - SEARCH_NEAR_MS, row->end_ms + SEARCH_NEAR_MS,
                                 on_near, &x, err);
        if (x.no_memory)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        if (rc == 0 && (x.found || near_by_vector(&f->lists[SEARCH_SOUND], row))) {
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

static int find_sounding(struct finding *f, struct err *err);

/* The texts are there; what sounds like it alone is not asked for. */
static int only_near(struct finding *f, struct search_results *ret, struct err *err)
{
    int rc = find_sounding(f, err);

    ret->heard = f->has_class || f->lists[SEARCH_SOUND].count > 0;

    if (rc == 0)
        rc = keep_near(f, &f->lists[SEARCH_WORDS], err);
    if (rc == 0)
        rc = keep_near(f, &f->lists[SEARCH_MEANING], err);
    list_free(&f->lists[SEARCH_CLASS]);
    list_free(&f->lists[SEARCH_SOUND]);
    return rc;
}

/* --------------------------------------------------------------------------------- together */

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

static int join(struct finding *f, struct search_results *ret, struct err *err)
{
    const struct fuse_item *lists[SEARCH_WAYS];
    struct fuse_item *items[SEARCH_WAYS] = {NULL};
    size_t counts[SEARCH_WAYS], n = 0;
    struct fuse_hit *hits = NULL;
    int rc = 0;

    for (int k = 0; k < SEARCH_WAYS && rc == 0; k++) {
        const struct list *l = &f->lists[k];

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
            *r = f->lists[k].rows[at];
            memset(&f->lists[k].rows[at], 0, sizeof(*r));
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

/* A way that has nothing to search is left out, unless it must be there. */
static int find_meaning(struct finding *f, struct search_results *ret, struct err *err)
{
    struct err why = {0};
    int rc = find_vectors(f, SEARCH_MEANING, f->wish->text, &why);

    if (rc == 0 || (!f->wish->meaning_must && rc == ERR_EMPTY))
        return 0;
    if (!f->wish->meaning_must && (rc == ERR_MODEL || rc == ERR_MISSING || rc == ERR_DENIED) &&
        f->err.code == 0) {
        snprintf(ret->note, sizeof(ret->note), "by words alone, since %.240s", why.msg);
        return 0;
    }
    *err = why;
    return rc;
}

static int find_sounding(struct finding *f, struct err *err)
{
    struct err why = {0};
    int rc = !f->wish->text ? find_class(f, err) : 0; /* else each text looks for its own */

    if (rc != 0)
        return rc;
    rc = find_vectors(f, SEARCH_SOUND, f->wish->sound, &why);
    if (rc == 0 || rc == ERR_EMPTY)
        return 0;
    if ((f->has_class || f->lists[SEARCH_CLASS].count > 0) && f->err.code == 0 && rc != ERR_NOMEM)
        return 0;
    *err = why;
    return rc;
}

int search_find(struct store *st, const struct search_wish *wish, struct search_results *ret,
                struct err *err)
{
    struct finding f = {.st = st, .wish = wish};
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    if (wish->text && wish->sound)
        rc = look_for_class(&f, err);
    if (rc == 0 && wish->text && wish->words)
        rc = find_words(&f, err);
    if (rc == 0 && wish->text && wish->meaning)
        rc = find_meaning(&f, ret, err);
    if (rc == 0 && wish->sound)
        rc = wish->text ? only_near(&f, ret, err) : find_sounding(&f, err);
    if (rc == 0)
        rc = join(&f, ret, err);
    if (rc == 0)
        rc = part(wish, ret, err);
    if (rc != 0 && f.err.code != 0)
        *err = f.err;
    for (int k = 0; k < SEARCH_WAYS; k++)
        list_free(&f.lists[k]);
    if (rc != 0)
        search_results_free(ret);
    return rc;
}
