#include "store/search/conditions.h"

#define FEW_SOUNDS 20000 /* of the classes: their recordings are gathered first */

#define HEARD                                        \
    "FROM (" FILTER_CLASSES("?11") ") c CROSS JOIN " \
                                   "sound h ON h.name = c.name "

/* First the recordings that have such a sound at all: of a rare one they are few. */
static void put_sound(struct buf *sql)
{
    buf_printf(sql,
               " AND ((SELECT count(*) FROM (SELECT 1 " HEARD "LIMIT %d)) > %d OR t.media_id IN "
               "(SELECT ht.media_id " HEARD "JOIN task ht ON ht.task_id = h.task_id)) "
               "AND EXISTS (SELECT 1 FROM task dt CROSS JOIN sound d ON d.task_id = dt.task_id "
               "WHERE dt.media_id = t.media_id AND d.start_ms <= g.end_ms + ?12 "
               "AND d.end_ms >= g.start_ms - ?12 AND instr(lower(d.name), lower(?11)) > 0 "
               "AND dt.current)",
               FEW_SOUNDS + 1, FEW_SOUNDS);
}

void conditions_put(const struct read_search *search, struct filter_path *path, struct buf *sql)
{
    if (search->path)
        buf_printf(sql, " AND t.media_id IN (%s)", filter_path_sql(path, 6));
    if (search->speaker)
        buf_printf(sql, " AND " FILTER_SPEAKER("?9"));
    if (search->language)
        buf_printf(sql, " AND " FILTER_LANGUAGE("?10"));
    if (search->sound)
        put_sound(sql);
}

void conditions_bind(const struct read_search *search, const struct filter_path *path,
                     struct db_rows *rows)
{
    if (search->path)
        db_rows_bind(rows, "-----bbb", FILTER_PATH_VALUES(path));
    if (search->speaker)
        db_rows_bind(rows, "--------t", search->speaker);
    if (search->language)
        db_rows_bind(rows, "---------t", search->language);
    if (search->sound)
        db_rows_bind(rows, "----------ti", search->sound, search->sound_ms);
}
