#include "store/stage_row.h"

#include <stdlib.h>

void store_stage_row_free(struct store_stage_row *s)
{
    free(s->name);
    free(s->model);
    free(s->model_dir);
    free(s->model_hash);
    free(s->params_json);
    *s = (struct store_stage_row){0};
}

int stage_row_of(sqlite3_stmt *stmt, struct store_stage_row *ret, struct err *err)
{
    *ret = (struct store_stage_row){.stage_id = sqlite3_column_int64(stmt, 0),
                                    .name = db_dup(stmt, 1),
                                    .model = db_dup(stmt, 2),
                                    .model_dir = db_dup(stmt, 3),
                                    .model_hash = db_dup(stmt, 4),
                                    .params_json = db_dup(stmt, 5),
                                    .source_id = sqlite3_column_int64(stmt, 6)};
    if (!ret->name || !ret->model || !ret->model_dir || !ret->model_hash || !ret->params_json) {
        store_stage_row_free(ret);
        return err_no_memory(err, "catalog");
    }
    return 0;
}
