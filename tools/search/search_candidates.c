#include "tools/search/search_candidates.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"
#include "store/read/find.h"

#define CANDIDATES 1000u /* of each way, at least */
#define FEW_PART 0.25    /* of the recordings have this speaker: only these are looked at */

void candidates_list_free(struct candidates_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        search_result_free(&l->rows[i]);
    free(l->rows);
    *l = (struct candidates_list){0};
}

/* So many of each way, unless all are asked for: one more than is shown tells that there are more.
 */
size_t candidates_most(const struct search_wish *w)
{
    return w->limit < CANDIDATES ? CANDIDATES : (size_t)w->limit + 1;
}

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
int candidates_add(struct candidates *c, enum search_way way, const struct search_result *row)
{
    struct candidates_list *l = &c->lists[way];
    struct search_result new = *row;
    bool named;

    if (!list_grow(&l->rows, &l->capacity, l->count, sizeof(*l->rows)))
        return err_no_memory(&c->err, NULL);
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
    return named && new.text &&new.snippet &&new.sound ? 0 : err_no_memory(&c->err, NULL);
}

/* ------------------------------------------------------- who says what where something is heard */

struct said {
    struct candidates *c;
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
    if (!is_wanted(x->c->wish, s))
        return 0;
    x->row.speaker = (char *)s->speaker;
    x->row.speakers = (char **)s->speakers;
    x->row.speaker_count = s->speaker_count;
    x->row.speakers_more = s->more;
    x->row.language = (char *)s->language;
    if (!x->row.text || x->row.text[0] == 0)
        x->row.text = (char *)s->text;
    x->row.snippet = x->row.text;
    return candidates_add(x->c, x->way, &x->row);
}

/* Adds a row with who speaks there, when that is who is wanted. */
int candidates_add_heard(struct candidates *c, enum search_way way, const struct search_result *row)
{
    struct said x = {.c = c, .way = way, .row = *row};
    int rc = find_said(c->st, row->media_id, row->start_ms, row->end_ms, on_said, &x, &c->err);

    if (rc != 0 || x.found || !is_wanted(c->wish, &(struct find_said){"", "", "", "", NULL, 0, 0}))
        return rc;
    x.row.snippet = x.row.text;
    return candidates_add(c, way, &x.row);
}

/* ------------------------------------------------------------------------- which are looked at */

/* The recordings that are looked at. Nearly each has its SPEAKER_00, so that leaving out the others
 * would save nothing; somebody with a name, or the sixth speaker of a panel, is heard in few. */
int candidates_scope(struct candidates *c, struct scope *ret, struct err *err)
{
    struct scope scope = {.speaker = c->wish->speaker};
    double part = 1;
    int rc = scope.speaker ? scope_part(c->st, &scope, &part, err) : 0;

    if (part >= FEW_PART)
        scope.speaker = NULL;
    scope.path = c->wish->path;
    if (rc == 0)
        *ret = scope;
    return rc;
}

/* Leaves out recordings in other languages if many candidates were seen and too few were wanted.
 * With few candidates that costs more than it saves. */
void candidates_narrow(const struct candidates *c, struct scope *scope, size_t seen)
{
    const char *language = c->wish->language;

    if (seen >= CANDIDATES_MANY_SEEN && !scope->speaker && language && language[0] != 0)
        scope->language = language;
}
