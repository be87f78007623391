/* Full-text search: what people type, as an FTS5 expression that cannot be a syntax error. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "store/read/filter.h"
#include "store/read/text_rows.h"

#define BLANKS " \t\r\n\v\f"

/* Could the tokenizer find a word in it? Non-ASCII is let through: FTS5 leaves out, between words
 * that merely follow each other, what holds none. */
static bool has_word(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
            return true;
    }
    return false;
}

/* "word" with inner quotes doubled, and the star outside. */
static void put_phrase(struct buf *out, const char *s, size_t n, bool prefix)
{
    if (out->len)
        buf_put(out, " ", 1);
    buf_put(out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"')
            buf_put(out, "\"", 1);
        buf_put(out, s + i, 1);
    }
    buf_put(out, prefix ? "\"*" : "\"", prefix ? 2 : 1);
}

/* Takes one word or one quoted phrase off the front; returns where it goes on. */
static const char *take(const char *p, struct buf *out)
{
    const char *from = p;
    bool prefix;
    size_t n;

    if (*p == '"') {
        from = ++p;
        n = strcspn(p, "\"");
        p += n + (p[n] == '"');
        prefix = *p == '*';
    } else {
        n = strcspn(p, BLANKS "\"");
        p += n;
        prefix = from[n - 1] == '*';
        n -= prefix;
    }
    if (has_word(from, n))
        put_phrase(out, from, n, prefix);
    return p;
}

int read_search_expression(const char *text, char **ret, struct err *err)
{
    char *repaired = utf8_repair(text, strlen(text));
    struct buf out = BUF_INIT;
    const char *p = repaired;
    int rc = 0;

    while (p && *(p += strspn(p, BLANKS)))
        p = take(p, &out);
    if (!repaired || !buf_cstr(&out))
        rc = err_set(err, ERR_NOMEM, "search: out of memory");
    else if (!out.len)
        rc = err_set(err, ERR_USAGE,
                     "search: there is no word in it; type words, \"a phrase\" or the beginning of "
                     "a word with a star, like market*");
    free(repaired);
    if (rc < 0) {
        buf_free(&out);
        return rc;
    }
    *ret = (char *)out.data;
    return 0;
}

/* First the recordings that have such a sound at all: of a rare one they are few. */
static void put_sound(struct buf *sql)
{
    buf_printf(
        sql,
        " AND t.media_id IN (SELECT ht.media_id FROM (" FILTER_CLASSES(
            "?11") ") c "
                   "CROSS JOIN sound h ON h.name = c.name JOIN task ht ON ht.task_id = h.task_id) "
                   "AND EXISTS (SELECT 1 FROM task dt CROSS JOIN sound d ON d.task_id = dt.task_id "
                   "WHERE dt.media_id = t.media_id AND d.start_ms <= g.end_ms + ?12 "
                   "AND d.end_ms >= g.start_ms - ?12 AND instr(lower(d.name), lower(?11)) > 0 "
                   "AND dt.current)");
}

int read_search(struct store *st, const struct read_search *search, read_segment_fn fn, void *arg,
                struct err *err)
{
    struct filter_path path = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    char *expression = NULL;
    int rc;

    rc = read_search_expression(search->text, &expression, err);
    if (rc == 0)
        rc = filter_path_make(search->path, &path, err);
    if (rc < 0)
        goto out;
    text_rows_select(&sql, "highlight(segment_fts, 0, ?2, ?3)",
                     "segment_fts CROSS JOIN segment g ON g.segment_id = segment_fts.rowid",
                     "segment_fts MATCH ?1");
    if (search->path)
        buf_printf(&sql, " AND t.media_id IN (%s)", filter_path_sql(&path, 6));
    if (search->speaker)
        buf_printf(&sql, " AND (k.name = ?9 COLLATE NOCASE OR k.label = ?9 COLLATE NOCASE)");
    if (search->language)
        buf_printf(&sql, " AND g.language = ?10");
    if (search->sound)
        put_sound(&sql);
    buf_printf(&sql, " ORDER BY %s p.path, p.member, g.start_ms, g.segment_id LIMIT ?4 OFFSET ?5",
               search->by_time ? "" : "segment_fts.rank,");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "tttii", expression,
                 search->mark_begin ? search->mark_begin : "[",
                 search->mark_end ? search->mark_end : "]",
                 search->limit ? (int64_t)search->limit : (int64_t)-1, (int64_t)search->offset);
    if (search->path)
        db_rows_bind(&rows, "-----bbb", FILTER_PATH_VALUES(&path));
    if (search->speaker)
        db_rows_bind(&rows, "--------t", search->speaker);
    if (search->language)
        db_rows_bind(&rows, "---------t", search->language);
    if (search->sound)
        db_rows_bind(&rows, "----------ti", search->sound, search->sound_ms);
    rc = text_rows_give(&rows, fn, arg);
out:
    filter_path_free(&path);
    buf_free(&sql);
    free(expression);
    return rc;
}
