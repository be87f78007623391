#include "store/search/widen.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "store/db.h"
#include "store/full_text.h"
#include "store/search/query.h"
#include "store/search/word_forms.h"
#include "store/store.h"

/* ---- how the full-text index parts a text into words: by its own tokenizer */

int index_words_open(struct store *st, struct index_words *ret, struct err *err)
{
    const char *arguments[] = {"remove_diacritics", "2"}; /* as of the table segment_fts */
    struct index_words w = {0};
    fts5_api *api = NULL;
    void *user = NULL;
    int rc = full_text_api(st, &api, err);

    if (rc != 0)
        return rc;
    rc = api->xFindTokenizer(api, FULL_TEXT_TOKENIZER, &user, &w.kind);
    if (rc == SQLITE_OK)
        rc = w.kind.xCreate(user, arguments, 2, &w.tokenizer);
    if (rc != SQLITE_OK)
        return db_error_of(rc, 0, sqlite3_errstr(rc), "full-text search", err);
    *ret = w;
    return 0;
}

void index_words_close(struct index_words *w)
{
    if (w->tokenizer)
        w->kind.xDelete(w->tokenizer);
    *w = (struct index_words){0};
}

static int on_word(void *arg, int flags, const char *word, int n, int from, int to)
{
    (void)flags, (void)word, (void)n, (void)from, (void)to;
    ++*(int *)arg;
    return SQLITE_OK;
}

static int count_index_words(void *arg, const char *s, size_t n, struct err *err)
{
    struct index_words *w = arg;
    int words = 0, rc;

    rc = w->kind.xTokenize(w->tokenizer, &words, FTS5_TOKENIZE_QUERY, s, (int)n, on_word);
    return rc == SQLITE_OK ? words
                           : db_error_of(rc, 0, sqlite3_errstr(rc), "full-text search", err);
}

struct one {
    char *to;
    size_t capacity;
    int words;
};

static int on_one(void *arg, int flags, const char *word, int n, int from, int to)
{
    struct one *o = arg;

    (void)flags, (void)from, (void)to;
    o->to[0] = 0;
    if (o->words++ == 0 && n > 0 && (size_t)n < o->capacity) {
        memcpy(o->to, word, (size_t)n);
        o->to[n] = 0;
    }
    return SQLITE_OK;
}

int index_words_one(struct index_words *w, const char *s, size_t n, char *ret, size_t capacity,
                    struct err *err)
{
    struct one o = {ret, capacity, 0};
    int rc;

    ret[0] = 0;
    rc = w->kind.xTokenize(w->tokenizer, &o, FTS5_TOKENIZE_QUERY, s, (int)n, on_one);
    return rc == SQLITE_OK ? 0 : db_error_of(rc, 0, sqlite3_errstr(rc), "full-text search", err);
}

struct query_words index_words_of(struct index_words *w)
{
    return (struct query_words){count_index_words, w};
}

/* ---- a query's words in their other forms, as far as somebody said them */

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

static int find_said_forms(void *arg, const char *s, size_t n, struct buf *ret, struct err *err)
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
    const struct query_forms forms = {find_said_forms, &w};
    int rc = index_words_open(st, &w.index, err);

    if (rc == 0)
        rc = query_widen(q, &forms, err);
    index_words_close(&w.index);
    return rc;
}
