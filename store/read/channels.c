/* How much sound the channels of a recording have. */
#include "store/db.h"
#include "store/read/find.h"

static uint32_t number_of(sqlite3_stmt *stmt, int column)
{
    const int64_t n = sqlite3_column_int64(stmt, column);

    return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

int find_channels(struct store *st, int64_t media_id, find_channel_fn fn, void *arg,
                  struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT track, channel, ifnull(sound_ms, -1), ifnull(length_ms, -1), heard "
                 "FROM channel WHERE media_id = ?1 ORDER BY track, channel LIMIT ?2",
                 "ii", media_id, (int64_t)RESULT_CHANNELS_MAX);
    while (db_rows_next(&rows)) {
        const struct result_channel row = {
            number_of(rows.stmt, 0), number_of(rows.stmt, 1), sqlite3_column_int64(rows.stmt, 2),
            sqlite3_column_int64(rows.stmt, 3), sqlite3_column_int(rows.stmt, 4) != 0};

        rows.rc = result_channel_holds(&row) ? fn(arg, &row) : 0; /* a part may be anybody's */
    }
    return db_rows_end(&rows);
}
