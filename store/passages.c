/* Neighbouring segments of a transcription as passages, for the stages that work on its text. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/db.h"

#define PAUSE_MS 10000

struct joining {
    uint32_t chars; /* of a passage, at most */
    struct store_passage *list;
    size_t count, cap;
    struct buf text;                           /* of the passage that grows */
    int64_t start_ms, end_ms, speaker, length; /* length: its characters */
};

static int finish(struct joining *j, struct err *err)
{
    struct store_passage *list = j->list;
    size_t cap = j->cap ? j->cap * 2 : 64;

    if (!j->text.len)
        return 0;
    if (j->count == j->cap) {
        list = realloc(j->list, cap * sizeof(*list));
        if (!list)
            return err_set(err, ERR_NOMEM, "catalog: out of memory");
        j->list = list;
        j->cap = cap;
    }
    if (!buf_cstr(&j->text))
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    list[j->count++] = (struct store_passage){j->start_ms, j->end_ms, (char *)j->text.data};
    j->text = BUF_INIT;
    return 0;
}

/* start_ms, end_ms, text (trimmed), its characters, speaker_id or 0. */
static int take(struct joining *j, sqlite3_stmt *stmt, struct err *err)
{
    int64_t start = sqlite3_column_int64(stmt, 0), end = sqlite3_column_int64(stmt, 1);
    int64_t length = sqlite3_column_int64(stmt, 3), speaker = sqlite3_column_int64(stmt, 4);
    const char *text = db_text(stmt, 2);
    int rc = 0;

    if (!*text)
        return 0;
    if (j->text.len && (start - j->end_ms > PAUSE_MS || speaker != j->speaker ||
                        j->length + 1 + length > j->chars))
        rc = finish(j, err);
    if (rc < 0)
        return rc;
    if (!j->text.len) {
        j->start_ms = start;
        j->end_ms = end;
        j->speaker = speaker;
        j->length = length;
    } else {
        buf_put(&j->text, " ", 1);
        j->length += 1 + length;
    }
    buf_put(&j->text, text, strlen(text));
    if (end > j->end_ms)
        j->end_ms = end;
    return 0;
}

static int source_of(struct store *st, int64_t task_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT o.task_id FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "JOIN task o ON o.media_id = t.media_id AND o.stage_id = s.source_id "
                      "WHERE t.task_id = ? AND o.state = 'done'",
                      "i", task_id);

    if (rc == 0)
        return err_set(err, ERR_INPUT, "task %lld works on no transcription that is done",
                       (long long)task_id);
    if (rc < 0)
        return rc;
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

int store_passages(struct store *st, int64_t task_id, uint32_t chars, struct store_passage **ret,
                   size_t *n, struct err *err)
{
    struct joining j = {.chars = chars};
    sqlite3_stmt *stmt = NULL;
    int64_t source = 0;
    int rc = source_of(st, task_id, &source, err);

    if (rc == 0)
        rc = db_first(st, &stmt, err,
                      "SELECT start_ms, end_ms, trim(text), length(trim(text)), "
                      "ifnull(speaker_id, 0) FROM segment WHERE task_id = ? ORDER BY seq, idx",
                      "i", source);
    while (rc == 1) {
        rc = take(&j, stmt, err);
        if (rc < 0)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    if (rc == 0)
        rc = finish(&j, err);
    buf_free(&j.text);
    if (rc < 0) {
        store_passages_free(j.list, j.count);
        return rc;
    }
    *ret = j.list;
    *n = j.count;
    return 0;
}

void store_passages_free(struct store_passage *p, size_t n)
{
    for (size_t i = 0; p && i < n; i++)
        free(p[i].text);
    free(p);
}
