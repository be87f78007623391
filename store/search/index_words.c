#include "store/search/index_words.h"

#include "store/db.h"

/* FTS5 hands its functions out by a pointer that a query leaves (SQLite, "Extending FTS5"). */
int index_words_fts5(struct store *st, fts5_api **ret, struct err *err)
{
    struct db_rows rows;
    int rc;

    *ret = NULL;
    db_rows_open(&rows, st, err, "SELECT fts5(?1)", "");
    if (rows.rc == 0 && sqlite3_bind_pointer(rows.stmt, 1, ret, "fts5_api_ptr", NULL) != SQLITE_OK)
        rows.rc = db_error(st, err, "full-text search");
    db_rows_next(&rows);
    rc = db_rows_end(&rows);
    if (rc != 0)
        return rc;
    return *ret ? 0 : err_set(err, ERR_VERSION, "this SQLite has no full-text search (FTS5)");
}

int index_words_open(struct store *st, struct index_words *ret, struct err *err)
{
    const char *arguments[] = {"remove_diacritics", "2"}; /* as of the table segment_fts */
    struct index_words w = {0};
    fts5_api *api = NULL;
    void *user = NULL;
    int rc = index_words_fts5(st, &api, err);

    if (rc != 0)
        return rc;
    rc = api->xFindTokenizer(api, "unicode61", &user, &w.kind);
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

static int count(void *arg, const char *s, size_t n, struct err *err)
{
    struct index_words *w = arg;
    int words = 0, rc;

    rc = w->kind.xTokenize(w->tokenizer, &words, FTS5_TOKENIZE_QUERY, s, (int)n, on_word);
    return rc == SQLITE_OK ? words
                           : db_error_of(rc, 0, sqlite3_errstr(rc), "full-text search", err);
}

struct query_words index_words_of(struct index_words *w) { return (struct query_words){count, w}; }
