/* Any bytes typed to search for. What is understood FTS5 takes, as a whole and in its parts; what
 * is not has a place in the text. */
#include <ctype.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/search/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* FTS5 takes what holds no word: so all that is not ASCII may be one. */
static int count_index_words(void *arg, const char *s, size_t n, struct err *err)
{
    (void)arg, (void)err;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0x80 || isalnum((unsigned char)s[i]))
            return 1;
    return 0;
}

static sqlite3_stmt *index_of(void)
{
    static sqlite3_stmt *stmt;
    sqlite3 *db;

    if (!stmt && (sqlite3_open(":memory:", &db) != SQLITE_OK ||
                  sqlite3_exec(db,
                               "CREATE VIRTUAL TABLE f USING fts5 (text, "
                               "tokenize = 'unicode61 remove_diacritics 2');"
                               "INSERT INTO f VALUES ('a b c market square')",
                               NULL, NULL, NULL) != SQLITE_OK ||
                  sqlite3_prepare_v2(db, "SELECT highlight(f, 0, '[', ']') FROM f WHERE f MATCH ?",
                                     -1, &stmt, NULL) != SQLITE_OK))
        abort();
    return stmt;
}

static void match(char *text)
{
    sqlite3_stmt *stmt = index_of();
    int rc;

    if (sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC) != SQLITE_OK)
        abort();
    rc = sqlite3_step(stmt);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        abort();
    sqlite3_reset(stmt);
    free(text);
}

static void understood(const struct query *q)
{
    struct err err = {0};
    char *text = NULL;

    if (query_terms(q) == 0 || query_match(q, &text, &err) != 0)
        abort();
    match(text);
    for (size_t k = 0; k < query_terms(q) && k < 8; k++) {
        if (query_match_term(q, k, &text, &err) != 0 || !text)
            abort();
        match(text);
    }
    if (query_match_any(q, &text, &err) != 0 || !text)
        abort();
    match(text);
    if (query_match_none(q, &text, &err) != 0)
        abort();
    if (text)
        match(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct query_words words = {count_index_words, NULL};
    char *text = malloc(size + 1);
    struct query *q = NULL;
    struct err err = {0};
    size_t at = SIZE_MAX;
    int rc;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    rc = query_parse(text, &words, &q, &at, &err);
    if (rc == 0)
        understood(q);
    else if (rc != ERR_USAGE || at > strlen(text) || strncmp(err.msg, "at character ", 13) != 0)
        abort();
    query_free(q);
    free(text);
    return 0;
}
