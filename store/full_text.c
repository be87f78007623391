#include "store/full_text.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"

/* FTS5 hands its functions out by a pointer that a query leaves (SQLite, "Extending FTS5"). */
int full_text_api(struct store *st, fts5_api **ret, struct err *err)
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

/* SQLite's own tokenizer, which takes the place of itself: of texts everything is as it was; in a
 * query a word may have others at its place ("Synonym Support", the third way). FTS5 counts them as
 * one word, so that a rare spelling is worth no more than the usual one. */
struct module { /* owned by the connection */
    fts5_tokenizer own;
    void *user;
};
struct tokenizer {
    const struct module *module;
    Fts5Tokenizer *own;
};

static int create_tokenizer(void *context, const char **arguments, int n, Fts5Tokenizer **ret)
{
    struct tokenizer *t = malloc(sizeof(*t));
    const struct module *m = context;
    int rc;

    if (!t)
        return SQLITE_NOMEM;
    t->module = m;
    rc = m->own.xCreate(m->user, arguments, n, &t->own);
    if (rc != SQLITE_OK)
        free(t);
    else
        *ret = (Fts5Tokenizer *)t;
    return rc;
}

static void delete (Fts5Tokenizer *tokenizer)
{
    struct tokenizer *t = (struct tokenizer *)tokenizer;

    t->module->own.xDelete(t->own);
    free(t);
}

typedef int (*token_fn)(void *arg, int flags, const char *word, int n, int from, int to);

struct other {
    token_fn token;
    void *arg;
};

static int on_other(void *arg, int flags, const char *word, int n, int from, int to)
{
    const struct other *o = arg;

    return o->token(o->arg, flags | FTS5_TOKEN_COLOCATED, word, n, from, to);
}

static int tokenize_with_forms(Fts5Tokenizer *tokenizer, void *arg, int flags, const char *text,
                               int n, token_fn token)
{
    const struct tokenizer *t = (const struct tokenizer *)tokenizer;
    const char *end =
        flags & FTS5_TOKENIZE_QUERY && text ? memchr(text, FULL_TEXT_FORM, (size_t)n) : NULL;
    struct other other = {token, arg};
    int rc = t->module->own.xTokenize(t->own, arg, flags, text, end ? (int)(end - text) : n, token);

    while (rc == SQLITE_OK && end) {
        const char *from = end + 1;
        const int left = n - (int)(from - text);

        end = memchr(from, FULL_TEXT_FORM, (size_t)left);
        rc = t->module->own.xTokenize(t->own, &other, flags, from, end ? (int)(end - from) : left,
                                      on_other);
    }
    return rc;
}

int full_text_register(struct store *st, struct err *err)
{
    fts5_tokenizer ours = {create_tokenizer, delete, tokenize_with_forms};
    struct module *m = malloc(sizeof(*m));
    fts5_api *api = NULL;
    int rc = m ? full_text_api(st, &api, err) : err_no_memory(err, NULL), made;

    if (rc != 0) {
        free(m);
        return rc;
    }
    made = api->xFindTokenizer(api, FULL_TEXT_TOKENIZER, &m->user, &m->own);
    if (made == SQLITE_OK)
        made = api->xCreateTokenizer(api, FULL_TEXT_TOKENIZER, m, &ours, free);
    if (made != SQLITE_OK)
        free(m); /* FTS5 frees what it has taken alone */
    return made == SQLITE_OK ? 0
                             : db_error_of(made, 0, sqlite3_errstr(made), "full-text search", err);
}

/* ---- the full-text index over the segments that are current */

/* Segments above this number are of the transaction, and not indexed yet. */
static int64_t get_last_indexed_segment(const struct store *st)
{
    return st->before_commit ? st->indexed : INT64_MAX;
}

#define IS_CURRENT "(SELECT current FROM task t WHERE t.task_id = g.task_id)"
#define TAKE                                              \
    "INSERT INTO segment_fts (segment_fts, rowid, text) " \
    "SELECT 'delete', segment_id, text FROM segment g "
#define PUT "INSERT INTO segment_fts (rowid, text) SELECT segment_id, text FROM segment g "

int text_index_take(struct store *st, int64_t segment_id, struct err *err)
{
    return segment_id > get_last_indexed_segment(st)
               ? 0
               : db_run(st, err, TAKE "WHERE segment_id = ? AND " IS_CURRENT, "i", segment_id);
}

int text_index_put(struct store *st, int64_t segment_id, struct err *err)
{
    return segment_id > get_last_indexed_segment(st)
               ? 0
               : db_run(st, err, PUT "WHERE segment_id = ? AND " IS_CURRENT, "i", segment_id);
}

int text_index_take_task(struct store *st, int64_t task_id, struct err *err)
{
    return db_run(st, err, TAKE "WHERE task_id = ? AND segment_id <= ? AND " IS_CURRENT, "ii",
                  task_id, get_last_indexed_segment(st));
}

int text_index_current(struct store *st, int64_t task_id, bool current, struct err *err)
{
    return db_run(st, err,
                  current ? PUT "WHERE task_id = ? AND segment_id <= ?"
                          : TAKE "WHERE task_id = ? AND segment_id <= ?",
                  "ii", task_id, get_last_indexed_segment(st));
}

/* Without a join: SQLite would read all tasks for a Bloom filter of it. */
static int index_new(struct store *st, struct err *err)
{
    return db_run(st, err,
                  PUT "NOT INDEXED WHERE segment_id > ? AND " IS_CURRENT " ORDER BY segment_id",
                  "i", st->indexed);
}

int text_index_begin(struct store *st, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    if (st->before_commit)
        return 0;
    rc = db_first(st, &stmt, err, "SELECT ifnull(max(segment_id), 0) FROM segment", "");
    if (rc != 1)
        return rc;
    st->indexed = sqlite3_column_int64(stmt, 0);
    st->before_commit = index_new;
    sqlite3_reset(stmt);
    return 0;
}

int store_index_texts(struct store *st, struct err *err)
{
    int rc = db_enter(st, err);

    if (rc == 0)
        rc = db_leave(
            st, db_run(st, err, "INSERT INTO segment_fts (segment_fts) VALUES ('rebuild')", ""),
            err);
    return rc;
}
