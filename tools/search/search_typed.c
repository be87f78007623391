#include "tools/search/search_typed.h"

#include <string.h>

#include "store/search/query.h"
#include "store/read/read.h"

int search_typed(struct store *st, const char *text, struct search_typed *ret, size_t *at,
                 struct err *err)
{
    struct query *q = NULL;
    int rc;

    *at = SEARCH_NO_PLACE;
    rc = read_query(st, text, &q, at, err);
    if (rc == 0)
        *ret = (struct search_typed){query_is_exact(q), query_is_one_word(q), query_terms(q)};
    query_free(q);
    return rc;
}

int search_typed_meaning(struct store *st, const char *text, struct err *err)
{
    struct query *q = NULL;
    struct err none = {0};
    size_t words, at;
    bool operators;
    int rc = read_word_count(st, text, &words, err);

    if (rc != 0)
        return rc;
    if (words == 0)
        return err_set(err, ERR_USAGE, "there is no word in it");
    rc = read_query(st, text, &q, &at, &none);
    operators = rc == 0 && query_has_operators(q);
    query_free(q);
    if (operators)
        return err_set(err, ERR_USAGE,
                       "--semantic compares what is meant, and AND, OR, NOT and NEAR say nothing "
                       "there; write them small, or leave --semantic out");
    return rc == 0 || rc == ERR_USAGE ? 0 : err_set(err, rc, "%s", none.msg);
}
