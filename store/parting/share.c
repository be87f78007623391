#include "store/parting/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_LEN 24
#define MOST 999999999u

/* Digits and what stands behind them. NULL: none. */
static const char *parse_shard_number(const char *text, uint32_t *ret)
{
    size_t n = strspn(text, "0123456789");

    if (n == 0 || n > 9)
        return NULL;
    *ret = (uint32_t)strtoul(text, NULL, 10);
    return text + n;
}

bool share_parse(const char *text, uint32_t *first, uint32_t *end)
{
    uint32_t last = 0;

    text = parse_shard_number(text, first);
    if (!text || *text != '-')
        return false;
    *end = 0;
    if (*++text == 0)
        return true;
    text = parse_shard_number(text, &last);
    *end = last + 1;
    return text && *text == 0 && last >= *first;
}

int share_put(struct store *st, int64_t task_id, uint32_t first, uint32_t end, struct err *err)
{
    char text[SHARE_LEN];

    if (first > MOST || end > MOST || (end && end <= first))
        return err_set(err, ERR_INPUT, "a share from shard %u to before %u makes no sense", first,
                       end);
    if (end)
        snprintf(text, sizeof(text), "%u-%u", first, end - 1);
    else
        snprintf(text, sizeof(text), "%u-", first);
    return db_run(st, err, "INSERT INTO setting (name, value) VALUES ('shards:' || ?1, ?2)", "it",
                  task_id, text);
}

int share_check(struct store *st, int64_t task_id, struct err *err)
{
    uint32_t first = 0, end = 0;
    sqlite3_stmt *stmt = NULL;
    int64_t total, to;
    bool is;
    int rc = db_first(st, &stmt, err,
                      "SELECT s.value, ifnull(t.shards_total, 0) FROM task t "
                      "JOIN setting s ON s.name = 'shards:' || t.task_id "
                      "WHERE t.task_id = ?1 AND t.state = 'pending' AND t.paused = 0",
                      "i", task_id);

    if (rc != 1)
        return rc;
    is = share_parse(db_text(stmt, 0), &first, &end);
    total = sqlite3_column_int64(stmt, 1);
    sqlite3_reset(stmt);
    to = total && (end == 0 || total < end) ? total : end;
    if (!is || to == 0) /* to the last one, and nobody knows which that is */
        return 0;
    return db_run(st, err,
                  "UPDATE task SET paused = 1, retry_at = NULL WHERE task_id = ?1 AND (SELECT "
                  "count(*) FROM shard WHERE task_id = ?1 AND seq >= ?2 AND seq < ?3) >= ?3 - ?2",
                  "iii", task_id, (int64_t)first, to);
}

/* ---- which tasks are a part's to do */
