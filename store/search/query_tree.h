/* store/search/query_tree.h - a query's tree, between its parser and who says it as FTS5 has it.
 * Internal to query.h. */
#ifndef NIGHTSHIFT_STORE_SEARCH_QUERY_TREE_H
#define NIGHTSHIFT_STORE_SEARCH_QUERY_TREE_H

#include <stdint.h>

#include "store/search/query.h"

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
    size_t count, room, root;
    struct buf forms;
    bool exact, operators;
};

#endif
