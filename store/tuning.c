#include "store/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "store/db.h"

#define COLUMNS "slots, windows, rate, predicted_bytes, peak_bytes, oom_count"

static struct store_tuning tuning_of(sqlite3_stmt *stmt, int first)
{
    return (struct store_tuning){
        .slots = (uint32_t)sqlite3_column_int64(stmt, first),
        .windows = (uint32_t)sqlite3_column_int64(stmt, first + 1),
        .rate = sqlite3_column_double(stmt, first + 2),
        .predicted_bytes = (uint64_t)sqlite3_column_int64(stmt, first + 3),
        .peak_bytes = (uint64_t)sqlite3_column_int64(stmt, first + 4),
        .oom_count = (uint32_t)sqlite3_column_int64(stmt, first + 5),
    };
}

int store_tuning_get(struct store *st, const struct store_tuning_key *key, struct store_tuning *ret,
                     struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT " COLUMNS ", ways FROM tuning WHERE device_id = ? AND driver = ? "
                      "AND model_hash = ? AND precision = ? AND decoding = ?",
                      "ttttt", key->device_id, key->driver, key->model_hash, key->precision,
                      key->decoding);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_set(err, ERR_EMPTY, "nothing is remembered of this device");
    *ret = tuning_of(stmt, 0);
    ret->algorithms_bytes = (size_t)sqlite3_column_bytes(stmt, 6);
    if (ret->algorithms_bytes) {
        const void *algorithms = sqlite3_column_blob(stmt, 6);

        ret->algorithms = malloc(ret->algorithms_bytes);
        if (ret->algorithms && algorithms)
            memcpy(ret->algorithms, algorithms, ret->algorithms_bytes);
        else
            rc = err_set(err, ERR_NOMEM, "out of memory for what is remembered of a device");
    }
    sqlite3_reset(stmt);
    if (rc < 0) {
        free(ret->algorithms);
        memset(ret, 0, sizeof(*ret));
        return rc;
    }
    return 0;
}

int store_tuning_note(struct store *st, const struct store_tuning_key *key,
                      const struct store_tuning *t, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    int rc;

    if (t->predicted_bytes > INT64_MAX || t->peak_bytes > INT64_MAX)
        return err_set(err, ERR_INPUT, "more memory than a device can have");
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    db_now(now);
    rc = db_run(st, err,
                "INSERT INTO tuning (device_id, driver, model_hash, precision, decoding, " COLUMNS
                ", ways, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (device_id, driver, model_hash, precision, decoding) DO UPDATE SET "
                "peak_bytes = iif(slots = excluded.slots AND windows = excluded.windows, "
                "                 max(peak_bytes, excluded.peak_bytes), excluded.peak_bytes), "
                "slots = excluded.slots, windows = excluded.windows, "
                "rate = iif(excluded.rate > 0, excluded.rate, rate), "
                "predicted_bytes = iif(excluded.predicted_bytes > 0, excluded.predicted_bytes, "
                "                      predicted_bytes), "
                "oom_count = oom_count + excluded.oom_count, "
                "ways = iif(length(excluded.ways) > 0, excluded.ways, ways), at = excluded.at",
                "tttttiidiiibt", key->device_id, key->driver, key->model_hash, key->precision,
                key->decoding, (int64_t)t->slots, (int64_t)t->windows, t->rate,
                (int64_t)t->predicted_bytes, (int64_t)t->peak_bytes, (int64_t)t->oom_count,
                t->algorithms, t->algorithms_bytes, now);
    return db_leave(st, rc, err);
}

int store_tuning_each(struct store *st, store_tuning_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT device_id, driver, model_hash, precision, decoding, " COLUMNS ", at, "
                 "ifnull((SELECT min(name) FROM stage s WHERE s.model_hash = t.model_hash), '') "
                 "FROM tuning t ORDER BY 1, 3, 4, 5, 2",
                 "");
    while (db_rows_next(&rows)) {
        struct store_tuning_row row = {
            .key = {db_text(rows.stmt, 0), db_text(rows.stmt, 1), db_text(rows.stmt, 2),
                    db_text(rows.stmt, 3), db_text(rows.stmt, 4)},
            .tuning = tuning_of(rows.stmt, 5),
            .at = db_text(rows.stmt, 11),
            .stage = db_text(rows.stmt, 12),
        };

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}
