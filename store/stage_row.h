/* store/stage_row.h - a stage as the catalog has it. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_STAGE_ROW_H
#define NIGHTSHIFT_STORE_STAGE_ROW_H

#include "store/db.h"

/* A row of stage_id, name, model, model_dir, model_hash, params, source_id. *ret is the caller's;
 * on error it owns nothing. */
int stage_row_of(sqlite3_stmt *stmt, struct store_stage_row *ret, struct err *err);

#endif
