/* What the catalog's queries say of stages by their names is what the stages say of themselves. */
#include <sqlite3.h>

#include "store/db.h"
#include "tests/common/test.h"
#include "workers/stages/stage_kind.h"

/* Of a row of the table stage that has this name. */
static bool holds(const char *condition, const char *name)
{
    char sql[200];
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    bool ret;

    snprintf(sql, sizeof(sql), "SELECT %s FROM (SELECT ?1 AS name)", condition);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    ret = sqlite3_column_int(stmt, 0) != 0;
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return ret;
}

TEST(conditions_on_names_are_the_stages_own)
{
    for (size_t i = 0; i < STAGE_COUNT; i++) {
        const struct stage_kind *k = stage_kinds[i];

        assert_int_equal(holds(DB_TRANSCRIBES, k->name), k == &stage_transcribe);
        assert_int_equal(holds(DB_FINALIZES, k->name), k->finalizes);
        assert_int_equal(holds(DB_LISTENS, k->name), k == &stage_sounds);
    }
}

TEST_MAIN(NULL, NULL)
