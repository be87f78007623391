/* Full-text search: segments that have what is typed. */
#include <stdlib.h>
#include <string.h>

#include "store/read/filter.h"
#include "store/read/text_rows.h"
#include "store/search/conditions.h"
#include "store/search/index_words.h"
#include "store/search/ranked.h"
#include "store/search/widen.h"

int read_query(struct store *st, const char *text, struct query **ret, size_t *at, struct err *err)
{
    struct index_words index = {0};
    struct query_words words;
    int rc = index_words_open(st, &index, err);

    if (rc != 0)
        return rc;
    words = index_words_of(&index);
    rc = query_parse(text, &words, ret, at, err);
    index_words_close(&index);
    return rc;
}

int read_word_count(struct store *st, const char *text, size_t *ret, struct err *err)
{
    struct index_words index = {0};
    struct query_words words;
    int rc = index_words_open(st, &index, err);

    if (rc != 0)
        return rc;
    words = index_words_of(&index);
    rc = words.count(words.arg, text, strlen(text), err);
    index_words_close(&index);
    if (rc < 0)
        return rc;
    *ret = (size_t)rc;
    return 0;
}

static int expression_of(struct store *st, const char *text, char **ret, struct err *err)
{
    struct query *q = NULL;
    size_t at;
    int rc = read_query(st, text, &q, &at, err);

    if (rc == 0)
        rc = widen(st, q, err);
    if (rc == 0)
        rc = query_match(q, ret, err);
    query_free(q);
    return rc;
}

/* All that are found, in their order. */
static int read_sorted(struct store *st, const struct read_search *search, const char *expression,
                       struct filter_path *path, read_segment_fn fn, void *arg, struct err *err)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;

    text_rows_select(&sql, "highlight(segment_fts, 0, ?2, ?3)",
                     "segment_fts CROSS JOIN segment g ON g.segment_id = segment_fts.rowid",
                     "segment_fts MATCH ?1");
    conditions_put(search, path, &sql);
    buf_printf(&sql, " ORDER BY %s p.path, p.member, g.start_ms, g.segment_id LIMIT ?4 OFFSET ?5",
               search->by_time ? "" : "segment_fts.rank,");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "tttii", expression, READ_MARK_BEGIN(search),
                 READ_MARK_END(search), search->limit ? (int64_t)search->limit : (int64_t)-1,
                 (int64_t)search->offset);
    buf_free(&sql);
    conditions_bind(search, path, &rows);
    return text_rows_give(&rows, fn, arg);
}

int read_search(struct store *st, const struct read_search *search, read_segment_fn fn, void *arg,
                struct err *err)
{
    struct filter_path path = {0};
    struct ranked found = {0};
    char *expression = NULL;
    bool all = true;
    int rc;

    rc = expression_of(st, search->text, &expression, err);
    if (rc == 0)
        rc = filter_path_make(search->path, &path, err);
    if (rc == 0 && !search->by_time)
        rc = ranked_find(st, search, expression, &path, &found, &all, err);
    if (rc == 0)
        rc = all ? read_sorted(st, search, expression, &path, fn, arg, err)
                 : ranked_give(st, search, &found, fn, arg, err);
    ranked_free(&found);
    filter_path_free(&path);
    free(expression);
    return rc;
}
