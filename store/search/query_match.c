/* A query's tree as FTS5 has it (store/search/query.h). */
#include <stdlib.h>

#include "base/buf.h"
#include "store/search/query_tree.h"

static void put_node(const struct query *q, size_t node, struct buf *out);

/* In parentheses where it binds no more than what it stands in. */
static void put_child(const struct query *q, size_t node, enum query_kind in, struct buf *out)
{
    bool loose = q->nodes[node].kind <= in;

    if (loose)
        buf_put(out, "(", 1);
    put_node(q, node, out);
    if (loose)
        buf_put(out, ")", 1);
}

static void put_children(const struct query *q, const struct query_node *n, const char *between,
                         struct buf *out)
{
    for (size_t c = n->first; c != QUERY_NO_NODE; c = q->nodes[c].next) {
        if (c != n->first)
            buf_printf(out, "%s", between);
        put_child(q, c, n->kind, out);
    }
}

/* All that is left out at once: FTS5's tree is as high as there are NOTs in a row. */
static void put_without(const struct query *q, const struct query_node *n, struct buf *out)
{
    size_t first = q->nodes[n->first].next;

    put_child(q, n->first, QUERY_NOT, out);
    buf_printf(out, " NOT (");
    for (size_t c = first; c != QUERY_NO_NODE; c = q->nodes[c].next) {
        buf_printf(out, "%s", c == first ? "" : " OR ");
        put_child(q, c, QUERY_OR, out);
    }
    buf_put(out, ")", 1);
}

static void put_node(const struct query *q, size_t node, struct buf *out)
{
    const struct query_node *n = &q->nodes[node];

    switch (n->kind) {
    case QUERY_OR:
        put_children(q, n, " OR ", out);
        return;
    case QUERY_AND:
        put_children(q, n, " AND ", out);
        return;
    case QUERY_NOT:
        put_without(q, n, out);
        return;
    case QUERY_NEAR_BY:
        buf_printf(out, "NEAR(");
        put_children(q, n, " ", out);
        buf_printf(out, ", %u)", n->distance);
        return;
    case QUERY_WORDS:
        buf_put(out, "\"", 1);
        buf_put(out, q->text + n->from, n->len);
        if (n->forms_len > 0)
            buf_put(out, q->forms.data + n->forms, n->forms_len);
        buf_printf(out, "\"%s", n->prefix ? "*" : "");
    }
}

static int done(struct buf *out, char **ret, struct err *err)
{
    if (!buf_cstr(out)) {
        buf_free(out);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *ret = (char *)out->data;
    return 0;
}

/* ---------------------------------------------------------------------------------------- terms */

#define EVERY_TERM SIZE_MAX
#define LEFT_OUT (SIZE_MAX - 1)
#define NO_TERM (SIZE_MAX - 2)

/* What AND joins and NOT leaves, each a term, and what NOT leaves out. */
struct walk {
    const struct query *q;
    size_t terms, chosen; /* seen; the one that is put, or one of the above */
    struct buf out;
};

static void put_chosen(struct walk *w, size_t node, bool wanted)
{
    bool chosen = wanted ? w->chosen == EVERY_TERM || w->chosen == w->terms : w->chosen == LEFT_OUT;

    w->terms += wanted;
    if (!chosen)
        return;
    buf_printf(&w->out, "%s(", w->out.len > 0 ? " OR " : "");
    put_node(w->q, node, &w->out);
    buf_put(&w->out, ")", 1);
}

static void walk(struct walk *w, size_t node)
{
    const struct query_node *n = &w->q->nodes[node];

    if (n->kind != QUERY_AND && n->kind != QUERY_NOT) {
        put_chosen(w, node, true);
        return;
    }
    for (size_t c = n->first; c != QUERY_NO_NODE; c = w->q->nodes[c].next)
        if (n->kind == QUERY_AND || c == n->first)
            walk(w, c);
        else
            put_chosen(w, c, false);
}

static int put_terms(const struct query *q, size_t chosen, char **ret, struct err *err)
{
    struct walk w = {.q = q, .chosen = chosen};

    walk(&w, q->root);
    if (w.out.len == 0 && !w.out.failed) {
        *ret = NULL;
        return 0;
    }
    return done(&w.out, ret, err);
}

int query_match(const struct query *q, char **ret, struct err *err)
{
    struct buf out = BUF_INIT;

    put_node(q, q->root, &out);
    return done(&out, ret, err);
}

int query_match_term(const struct query *q, size_t term, char **ret, struct err *err)
{
    return put_terms(q, term, ret, err);
}

int query_match_any(const struct query *q, char **ret, struct err *err)
{
    return put_terms(q, EVERY_TERM, ret, err);
}

int query_match_none(const struct query *q, char **ret, struct err *err)
{
    return put_terms(q, LEFT_OUT, ret, err);
}

size_t query_terms(const struct query *q)
{
    struct walk w = {.q = q, .chosen = NO_TERM};

    walk(&w, q->root);
    return w.terms;
}

bool query_is_exact(const struct query *q) { return q->exact; }
bool query_has_operators(const struct query *q) { return q->operators; }

bool query_is_one_word(const struct query *q)
{
    const struct query_node *n = &q->nodes[q->root];

    return n->kind == QUERY_WORDS && n->words == 1;
}
