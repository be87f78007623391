/* The parser of what is typed to search for (store/search/query.h). */

#include "store/search/query.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/utf8.h"
#include "store/full_text.h"

/* ---- a query's tree, between its parser and who says it as FTS5 has it */

/* ---- what is typed to search for */

enum sign { END, WORDS, OPEN, CLOSE, COMMA, AND, OR, NOT, NEAR };

static const char *const sign_names[] = {
    [AND] = "AND", [OR] = "OR", [NOT] = "NOT", [NEAR] = "NEAR"};

struct token {
    enum sign sign;
    size_t at;        /* its first byte */
    size_t from, len; /* WORDS: without quotation marks and star */
    uint32_t words;
    bool prefix, quoted;
};

struct parser {
    const char *text;
    size_t pos;
    struct token token, before; /* the one that is looked at, and the one before it */
    bool in_near;               /* a comma is a sign */
    int depth;
    const struct query_words *words;
    struct query *q;
    size_t *at;
    struct err *err;
};

/* ------------------------------------------------------------------------------------ mistakes */

static int report_syntax_error(struct parser *p, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int report_syntax_error(struct parser *p, size_t at, const char *fmt, ...)
{
    size_t character = 1;
    char why[300];
    va_list ap;

    for (size_t i = 0; i < at; i++)
        character += ((unsigned char)p->text[i] & 0xC0) != 0x80;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    *p->at = at;
    return err_set(p->err, ERR_USAGE, "at character %zu: %s", character, why);
}

static bool is_operator(enum sign s) { return s == AND || s == OR || s == NOT; }

/* A word should stand here, and does not. */
static int nothing_here(struct parser *p)
{
    enum sign here = p->token.sign, before = p->before.sign;

    if (is_operator(before) && here == NOT)
        return report_syntax_error(
            p, p->before.at,
            "%s and NOT do not stand together; NOT alone leaves out, as in 'market NOT "
            "fish'",
            sign_names[before]);
    if (is_operator(before))
        return report_syntax_error(p, p->before.at, "behind %s there is no word",
                                   sign_names[before]);
    if (before == OPEN && here == END)
        return report_syntax_error(p, p->before.at, "this parenthesis is not closed");
    if (before == OPEN && here == CLOSE)
        return report_syntax_error(p, p->before.at, "there is no word in these parentheses");
    if (here == CLOSE)
        return report_syntax_error(p, p->token.at,
                                   "no parenthesis is open that this one could close");
    if (here == NOT)
        return report_syntax_error(
            p, p->token.at,
            "before NOT there is no word; it takes from what is found, as in 'market NOT "
            "fish'");
    if (is_operator(here))
        return report_syntax_error(p, p->token.at, "before %s there is no word", sign_names[here]);
    return report_syntax_error(
        p, p->token.at,
        "there is no word in it; type words, \"a phrase\" or the beginning of a word with "
        "a star, like market*");
}

/* -------------------------------------------------------------------------------------- signs */

/* Bytes of the blank that stands here: those of ASCII, and what is typed or pasted for one. */
static size_t blank_at(const char *s)
{
    const unsigned char *c = (const unsigned char *)s;

    if (c[0] == ' ' || (c[0] >= '\t' && c[0] <= '\r'))
        return 1;
    if (c[0] == 0xC2 && c[1] == 0xA0) /* no-break */
        return 2;
    if (c[0] == 0xE3 && c[1] == 0x80 && c[2] == 0x80) /* ideographic */
        return 3;
    if (c[0] == 0xE2 && c[1] == 0x80 && ((c[2] >= 0x80 && c[2] <= 0x8A) || c[2] == 0xAF))
        return 3; /* of another width */
    return 0;
}

static bool ends_word(const struct parser *p, size_t at)
{
    char c = p->text[at];

    return c == 0 || c == '"' || c == '(' || c == ')' || (c == ',' && p->in_near) ||
           blank_at(p->text + at) > 0;
}

/* The words in it, as the index has them. */
static int count_words(struct parser *p, struct token *t)
{
    int n = p->words->count(p->words->arg, p->text + t->from, t->len, p->err);

    if (n < 0)
        return n;
    if (n == 0)
        return report_syntax_error(p, t->at, "there is no word in it: no letter and no digit");
    t->words = (uint32_t)n;
    return 0;
}

/* Behind the quotation mark; one that is doubled is meant as such. */
static int take_quoted(struct parser *p, struct token *t)
{
    const char *star;
    size_t i = t->at + 1;

    for (; p->text[i] && (p->text[i] != '"' || p->text[i + 1] == '"'); i++)
        i += p->text[i] == '"';
    if (!p->text[i])
        return report_syntax_error(p, t->at, "this quotation mark is not closed");
    t->from = t->at + 1;
    t->len = i - t->from;
    star = memchr(p->text + t->from, '*', t->len);
    if (star)
        return report_syntax_error(
            p, (size_t)(star - p->text),
            "a star within quotation marks means nothing; behind them it finds what "
            "begins so, as in '\"market squ\"*'");
    t->quoted = true;
    t->prefix = p->text[i + 1] == '*';
    p->pos = i + 1 + t->prefix;
    p->q->exact = true;
    return count_words(p, t);
}

static int take_word(struct parser *p, struct token *t)
{
    size_t end = t->at;
    const char *star;

    while (!ends_word(p, end))
        end++;
    t->from = t->at;
    t->len = end - t->at;
    p->pos = end;
    for (enum sign s = AND; s <= NEAR; s++)
        if (t->len == strlen(sign_names[s]) &&
            memcmp(p->text + t->at, sign_names[s], t->len) == 0) {
            t->sign = s;
            p->q->exact = p->q->operators = true;
            return 0;
        }
    if (p->text[end] == '(')
        return report_syntax_error(
            p, end,
            "a parenthesis stands right behind a word; leave a blank between them, or put "
            "both into quotation marks");
    star = memchr(p->text + t->at, '*', t->len);
    t->prefix = star && star + 1 == p->text + end;
    if (star && (!t->prefix || t->len == 1))
        return report_syntax_error(
            p, (size_t)(star - p->text),
            "a star stands behind the beginning of a word, as in 'market*', and nowhere "
            "else");
    t->len -= t->prefix;
    p->q->exact |= t->prefix;
    return count_words(p, t);
}

static int read_next_token(struct parser *p)
{
    struct token t = {.sign = WORDS};
    char c;
    int rc;

    for (size_t n; (n = blank_at(p->text + p->pos)) > 0;)
        p->pos += n;
    t.at = p->pos;
    c = p->text[t.at];
    if (c == '"' || !ends_word(p, t.at)) {
        rc = c == '"' ? take_quoted(p, &t) : take_word(p, &t);
        if (rc != 0)
            return rc;
    } else {
        t.sign = c == 0 ? END : c == '(' ? OPEN : c == ')' ? CLOSE : COMMA;
        p->q->exact |= c != 0;
        p->pos += c != 0;
    }
    p->before = p->token;
    p->token = t;
    return 0;
}

/* --------------------------------------------------------------------------------------- rules */

static int add_node(struct parser *p, struct query_node node, size_t *ret)
{
    struct query *q = p->q;

    if (!list_grow(&q->nodes, &q->capacity, q->count, sizeof(*q->nodes)))
        return err_no_memory(p->err, NULL);
    node.first = node.last = node.next = QUERY_NO_NODE;
    q->nodes[q->count] = node;
    *ret = q->count++;
    return 0;
}

static void append_child_node(struct query *q, size_t parent, size_t child)
{
    struct query_node *n = &q->nodes[parent];

    if (n->first == QUERY_NO_NODE)
        n->first = child;
    else
        q->nodes[n->last].next = child;
    n->last = child;
}

/* `*left` of that kind takes one more; each kind is the same whether its left is one or many. */
static int join_nodes(struct parser *p, enum query_kind kind, size_t *left, size_t right)
{
    size_t both = 0;
    int rc;

    if (p->q->nodes[*left].kind != kind) {
        rc = add_node(p, (struct query_node){.kind = kind}, &both);
        if (rc != 0)
            return rc;
        append_child_node(p->q, both, *left);
        *left = both;
    }
    append_child_node(p->q, *left, right);
    return 0;
}

static int any(struct parser *p, size_t *ret);

static int parse_words(struct parser *p, size_t *ret)
{
    const struct token *t = &p->token;
    int rc = add_node(p,
                      (struct query_node){.kind = QUERY_WORDS,
                                          .from = t->from,
                                          .len = t->len,
                                          .words = t->words,
                                          .prefix = t->prefix,
                                          .alone = t->words == 1 && !t->quoted && !t->prefix},
                      ret);

    return rc != 0 ? rc : read_next_token(p);
}

/* Behind the comma, to what follows the number. */
static int parse_near_distance(struct parser *p, uint32_t *ret)
{
    size_t at = p->pos;
    uint32_t n = 0;

    while (blank_at(p->text + at) > 0)
        at += blank_at(p->text + at);
    p->pos = at;
    while (p->text[p->pos] >= '0' && p->text[p->pos] <= '9' && n <= QUERY_NEAR_MOST)
        n = n * 10 + (uint32_t)(p->text[p->pos++] - '0');
    if (p->pos == at || n > QUERY_NEAR_MOST || !ends_word(p, p->pos))
        return report_syntax_error(p, at,
                                   "here NEAR wants how many words may lie between, 0 to %d, as in "
                                   "'NEAR(market square, 5)'",
                                   QUERY_NEAR_MOST);
    *ret = n;
    return read_next_token(p);
}

static int parse_near(struct parser *p, size_t *ret)
{
    size_t at = p->token.at, open, child = 0, self = 0;
    uint32_t between = QUERY_NEAR;
    int rc = read_next_token(p);

    if (rc == 0 && p->token.sign != OPEN)
        return report_syntax_error(
            p, at,
            "NEAR wants its words in parentheses, as in 'NEAR(market square, 5)'; the "
            "word itself is found by 'near'");
    open = p->token.at;
    p->in_near = true;
    if (rc == 0)
        rc = read_next_token(p);
    if (rc == 0)
        rc = add_node(p, (struct query_node){.kind = QUERY_NEAR_BY}, &self);
    while (rc == 0 && p->token.sign == WORDS && (rc = parse_words(p, &child)) == 0)
        append_child_node(p->q, self, child);
    if (rc != 0)
        return rc;
    if (p->q->nodes[self].first == QUERY_NO_NODE &&
        (p->token.sign == CLOSE || p->token.sign == COMMA))
        return report_syntax_error(p, at, "there is no word in this NEAR");
    if (p->token.sign == COMMA && (rc = parse_near_distance(p, &between)) != 0)
        return rc;
    if (p->token.sign == END)
        return report_syntax_error(p, open, "this parenthesis is not closed");
    if (p->token.sign != CLOSE)
        return report_syntax_error(
            p, p->token.at,
            "in NEAR there are words and phrases, and at its end a number, as in "
            "'NEAR(market square, 5)'");
    p->q->nodes[self].distance = between;
    p->in_near = false;
    *ret = self;
    return read_next_token(p);
}

static int parse_parentheses(struct parser *p, size_t *ret)
{
    size_t open = p->token.at;
    int rc;

    if (p->depth == QUERY_DEPTH)
        return report_syntax_error(p, open, "more than %d parentheses lie in one another",
                                   QUERY_DEPTH);
    p->depth++;
    rc = read_next_token(p);
    if (rc == 0)
        rc = any(p, ret);
    if (rc != 0)
        return rc;
    if (p->token.sign != CLOSE)
        return report_syntax_error(p, open, "this parenthesis is not closed");
    p->depth--;
    return read_next_token(p);
}

static int parse_operand(struct parser *p, size_t *ret)
{
    switch (p->token.sign) {
    case WORDS:
        return parse_words(p, ret);
    case OPEN:
        return parse_parentheses(p, ret);
    case NEAR:
        return parse_near(p, ret);
    default:
        return nothing_here(p);
    }
}

static bool begins_thing(enum sign s) { return s == WORDS || s == OPEN || s == NEAR; }

static int parse_and_chain(struct parser *p, size_t *ret)
{
    size_t right;
    int rc = parse_operand(p, ret);

    while (rc == 0 && begins_thing(p->token.sign) && (rc = parse_operand(p, &right)) == 0)
        rc = join_nodes(p, QUERY_AND, ret, right);
    return rc;
}

/* sub {sign sub} */
static int parse_operator_chain(struct parser *p, enum sign sign, enum query_kind kind,
                                int (*sub)(struct parser *p, size_t *ret), size_t *ret)
{
    size_t right;
    int rc = sub(p, ret);

    while (rc == 0 && p->token.sign == sign) {
        rc = read_next_token(p);
        if (rc == 0)
            rc = sub(p, &right);
        if (rc == 0)
            rc = join_nodes(p, kind, ret, right);
    }
    return rc;
}

static int less(struct parser *p, size_t *ret)
{
    return parse_operator_chain(p, NOT, QUERY_NOT, parse_and_chain, ret);
}
static int both(struct parser *p, size_t *ret)
{
    return parse_operator_chain(p, AND, QUERY_AND, less, ret);
}
static int any(struct parser *p, size_t *ret)
{
    return parse_operator_chain(p, OR, QUERY_OR, both, ret);
}

/* ---------------------------------------------------------------------------------- the whole */

/* The first byte that is none of a character; len: there is none. */
static size_t ill_formed(const char *s, size_t len)
{
    size_t i = 0, n;

    while (i < len) {
        unsigned char c = (unsigned char)s[i];

        n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        if (n > len - i || !utf8_valid(s + i, n))
            break;
        i += n;
    }
    return i;
}

static int parse_query(struct parser *p)
{
    size_t len = strlen(p->text), bad = ill_formed(p->text, len);
    int rc;

    if (len > QUERY_BYTES)
        return report_syntax_error(p, QUERY_BYTES,
                                   "a search has at most %d bytes, this one has more", QUERY_BYTES);
    if (bad < len)
        return report_syntax_error(p, bad, "this is no text in UTF-8");
    rc = read_next_token(p);
    if (rc == 0)
        rc = any(p, &p->q->root);
    if (rc == 0 && p->token.sign != END)
        rc = nothing_here(p);
    return rc;
}

int query_parse(const char *text, const struct query_words *words_in, struct query **ret,
                size_t *at, struct err *err)
{
    struct parser p = {.words = words_in, .at = at, .err = err};
    int rc;

    *at = 0;
    p.q = calloc(1, sizeof(*p.q));
    if (p.q)
        p.q->text = strdup(text);
    if (!p.q || !p.q->text) {
        free(p.q);
        return err_no_memory(err, NULL);
    }
    for (char *c = p.q->text; (c = strchr(c, FULL_TEXT_FORM));)
        *c = ' '; /* what is typed says nothing of the kind */
    p.text = p.q->text;
    rc = parse_query(&p);
    if (rc != 0) {
        query_free(p.q);
        return rc;
    }
    *ret = p.q;
    return 0;
}

static int widen_word(struct query *q, struct query_node *n, const struct query_forms *forms,
                      struct err *err)
{
    int rc;

    if (!n->alone || n->forms_len > 0)
        return 0;
    n->forms = q->forms.len;
    rc = forms->find(forms->arg, q->text + n->from, n->len, &q->forms, err);
    if (rc == 0 && q->forms.failed)
        rc = err_no_memory(err, NULL);
    n->forms_len = rc == 0 ? q->forms.len - n->forms : 0;
    return rc;
}

static int widen_node(struct query *q, size_t node, const struct query_forms *forms,
                      struct err *err)
{
    const struct query_node *n = &q->nodes[node];
    int rc = 0;

    if (n->kind == QUERY_WORDS)
        return widen_word(q, &q->nodes[node], forms, err);
    for (size_t c = n->first; c != QUERY_NO_NODE && rc == 0; c = q->nodes[c].next)
        if (n->kind != QUERY_NOT || c == n->first)
            rc = widen_node(q, c, forms, err);
    return rc;
}

int query_widen(struct query *q, const struct query_forms *forms, struct err *err)
{
    return widen_node(q, q->root, forms, err);
}

void query_free(struct query *q)
{
    if (!q)
        return;
    buf_free(&q->forms);
    free(q->nodes);
    free(q->text);
    free(q);
}

/* ---- A query's tree as FTS5 has it */

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

static int return_expression(struct buf *out, char **ret, struct err *err)
{
    if (!buf_cstr(out)) {
        buf_free(out);
        return err_no_memory(err, NULL);
    }
    *ret = (char *)out->data;
    return 0;
}

/* ---------------------------------------------------------------------------------------- terms */

#define EVERY_TERM SIZE_MAX
#define LEFT_OUT (SIZE_MAX - 1)
#define NO_TERM (SIZE_MAX - 2)

/* A walk over the terms: each operand of AND and each left side of NOT is one; the right sides of
 * NOT are left out. */
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

static void choose_match_nodes(struct walk *w, size_t node)
{
    const struct query_node *n = &w->q->nodes[node];

    if (n->kind != QUERY_AND && n->kind != QUERY_NOT) {
        put_chosen(w, node, true);
        return;
    }
    for (size_t c = n->first; c != QUERY_NO_NODE; c = w->q->nodes[c].next)
        if (n->kind == QUERY_AND || c == n->first)
            choose_match_nodes(w, c);
        else
            put_chosen(w, c, false);
}

static int put_terms(const struct query *q, size_t chosen, char **ret, struct err *err)
{
    struct walk w = {.q = q, .chosen = chosen};

    choose_match_nodes(&w, q->root);
    if (w.out.len == 0 && !w.out.failed) {
        *ret = NULL;
        return 0;
    }
    return return_expression(&w.out, ret, err);
}

int query_match(const struct query *q, char **ret, struct err *err)
{
    struct buf out = BUF_INIT;

    put_node(q, q->root, &out);
    return return_expression(&out, ret, err);
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

    choose_match_nodes(&w, q->root);
    return w.terms;
}

bool query_is_exact(const struct query *q) { return q->exact; }
bool query_has_operators(const struct query *q) { return q->operators; }

bool query_is_one_word(const struct query *q)
{
    const struct query_node *n = &q->nodes[q->root];

    return n->kind == QUERY_WORDS && n->words == 1;
}
