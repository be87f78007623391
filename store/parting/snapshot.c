/* A catalog as one file, while somebody writes it. */
#include <unistd.h>

#include "store/db.h"
#include "store/parting/parting.h"

int parting_snapshot(struct store *st, const char *path, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc = db_exec(st, "PRAGMA query_only = OFF", err);

    if (rc < 0)
        return rc;
    stmt = db_prepare(st, "VACUUM INTO ?", err);
    rc = stmt ? db_bind(stmt, "t", path) : SQLITE_ERROR;
    rc = rc == SQLITE_OK ? db_next(st, stmt, err) : err_set(err, ERR_NOMEM, "out of memory");
    sqlite3_finalize(stmt);
    if (rc < 0)
        unlink(path);
    if (st->mode == STORE_READ && db_exec(st, "PRAGMA query_only = ON", err) < 0 && rc == 0)
        rc = err->code;
    return rc < 0 ? err_prefix(err, "'%s'", path) : 0;
}
