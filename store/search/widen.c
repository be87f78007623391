#include "store/search/widen.h"

#include <stdio.h>
#include <string.h>

#include "store/db.h"
#include "store/full_text.h"
#include "store/search/index_words.h"
#include "store/search/word_forms.h"

#define LOOKED_UP_MOST 500 /* forms; a look takes some 10 us */

struct widening {
    struct store *st;
    struct index_words index;
    int left; /* to look up */
};

int widen_is_said(struct store *st, const char *word, bool *ret, struct err *err)
{
    static const char sql[] = "SELECT 1 FROM segment_fts WHERE segment_fts MATCH ?1 LIMIT 1";
    char match[SPELLING_BYTES + 3];
    sqlite3_stmt *row;
    int rc;

    snprintf(match, sizeof(match), "\"%s\"", word);
    rc = db_first(st, &row, err, sql, "t", match);
    if (rc == 1)
        sqlite3_reset(row);
    *ret = rc == 1;
    return rc < 0 ? rc : 0;
}

static int find(void *arg, const char *s, size_t n, struct buf *ret, struct err *err)
{
    struct widening *w = arg;
    struct word_forms forms;
    char word[SPELLING_BYTES];
    int rc = index_words_one(&w->index, s, n, word, sizeof(word), err);

    if (rc != 0)
        return rc;
    word_forms(word, &forms);
    for (size_t i = 0; i < forms.count && w->left > 0; i++, w->left--) {
        bool said;

        rc = widen_is_said(w->st, forms.list[i], &said, err);
        if (rc != 0)
            return rc;
        if (said) {
            buf_put_u8(ret, FULL_TEXT_FORM);
            buf_put(ret, forms.list[i], strlen(forms.list[i]));
        }
    }
    return 0;
}

int widen(struct store *st, struct query *q, struct err *err)
{
    struct widening w = {.st = st, .left = LOOKED_UP_MOST};
    const struct query_forms forms = {find, &w};
    int rc = index_words_open(st, &w.index, err);

    if (rc == 0)
        rc = query_widen(q, &forms, err);
    index_words_close(&w.index);
    return rc;
}
