/* store/search/query.h - what is typed to search for: read into a tree, and said as FTS5 has it.
 *
 * Words that must all be there, "phrases", begin*, AND, OR and NOT in capitals, NEAR(a b, 5) and
 * parentheses, as in SQLite's FTS5, but that a parenthesis may stand beside a word:
 *
 *   any   = both {"OR" both}
 *   both  = less {"AND" less}
 *   less  = all {"NOT" all}
 *   all   = thing {thing}
 *   thing = words | "(" any ")" | "NEAR" "(" words {words} ["," n] ")"
 *   words = word ["*"] | quoted ["*"]
 *
 * Whatever else FTS5 has (columns, carets) is no more than text here. A query that cannot be
 * parsed, or that could never find anything, is refused with the position of the error. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_QUERY_H
#define NIGHTSHIFT_STORE_SEARCH_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- a query's tree, between its parser and who says it as FTS5 has it. Internal to query.h */

#define QUERY_NO_NODE SIZE_MAX

/* From what binds least to what binds most. */
enum query_kind { QUERY_OR, QUERY_AND, QUERY_NOT, QUERY_NEAR_BY, QUERY_WORDS };

struct query_node {
    enum query_kind kind;
    size_t from, len;         /* QUERY_WORDS: of the text; quotation marks within it are doubled */
    uint32_t words;           /* of these, as the index parts them */
    bool prefix;              /* and what begins with the last of them */
    bool alone;               /* one word, as it was typed: it has other forms */
    size_t forms, forms_len;  /* of query.forms */
    uint32_t distance;        /* QUERY_NEAR_BY */
    size_t first, last, next; /* children, the one behind it; QUERY_NO_NODE */
};

/* QUERY_NOT: the first child without all the others. */
struct query {
    char *text; /* owned */
    struct query_node *nodes;
    size_t count, capacity, root;
    struct buf forms;
    bool exact, operators;
};

#define QUERY_BYTES 8000 /* of a text, at most */
#define QUERY_DEPTH 10   /* of parentheses: FTS5's parser has a stack of a hundred */
#define QUERY_NEAR 10    /* words between, where NEAR says no number; FTS5's own */
#define QUERY_NEAR_MOST 10000

struct query; /* owned; query_free */

/* How many words the index finds in these bytes of UTF-8; negative: an error. */
struct query_words {
    int (*count)(void *arg, const char *s, size_t n, struct err *err);
    void *arg;
};

/* ERR_USAGE: it cannot be understood, "at character N: why"; *at is the byte where that is. */
int query_parse(const char *text, const struct query_words *words, struct query **ret, size_t *at,
                struct err *err);
void query_free(struct query *q);

/* Appends to *ret the other forms of a word, with FULL_TEXT_FORM before each. They have letters and
 * digits alone. */
struct query_forms {
    int (*find)(void *arg, const char *word, size_t n, struct buf *ret, struct err *err);
    void *arg;
};
/* From here on words that stand by themselves, without quotation marks and star, match their other
 * forms, too; but for what NOT leaves out, so that 'strike NOT strikes' means something. After an
 * error some do. */
int query_widen(struct query *q, const struct query_forms *forms, struct err *err);

bool query_is_exact(const struct query *q);      /* more than words: it says what is to be found */
bool query_has_operators(const struct query *q); /* AND, OR, NOT or NEAR are among it */
bool query_is_one_word(const struct query *q);

/* The number of required terms: operands of AND and left sides of NOT; at least one. */
size_t query_terms(const struct query *q);

/* The query as a string for MATCH, with every word quoted; newly allocated. */
int query_match(const struct query *q, char **ret, struct err *err);
int query_match_term(const struct query *q, size_t term, char **ret, struct err *err);
/* Any of the terms. */
int query_match_any(const struct query *q, char **ret, struct err *err);
/* The terms that must not match; NULL: none. */
int query_match_none(const struct query *q, char **ret, struct err *err);

#endif
