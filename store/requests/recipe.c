/* What is to be done with a file, or a folder and all that is below it: rows of the table recipe.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "store/requests/request_apply.h"

/* What was set for it below holds no more. */
static int forget_below(struct store *st, const char *path, const char *kind, struct err *err)
{
    struct db_prefix below = {0};
    int rc = db_prefix(path, strlen(path), &below, err);

    if (rc < 0)
        return rc;
    rc = db_run(st, err, "DELETE FROM recipe WHERE path_raw >= ?1 AND path_raw < ?2 AND kind = ?3",
                "bbt", below.low, below.len, below.high, below.len, kind);
    db_prefix_free(&below);
    return rc;
}

static int put(struct store *st, const struct request *rq, const char *path, int64_t job_id,
               struct err *err)
{
    size_t len = strlen(path);
    char *shown = utf8_display(path, len);
    int rc;

    if (!shown)
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    rc = db_run(st, err,
                "INSERT INTO recipe (path_raw, kind, path, options, model_hash, job_id) "
                "VALUES (?, ?, ?, ?, ?, nullif(?, 0)) ON CONFLICT (path_raw, kind) DO UPDATE SET "
                "options = excluded.options, model_hash = excluded.model_hash, "
                "job_id = ifnull(excluded.job_id, job_id)",
                "btttti", path, len, rq->stage.name, shown, rq->options, rq->stage.model_hash,
                job_id);
    free(shown);
    return rc;
}

int recipe_apply(struct store *st, const struct request *rq, int64_t job_id,
                 struct request_reply *ret, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < rq->root_count; i++) {
        const char *path = rq->roots[i];

        if (rq->replaces)
            rc = forget_below(st, path, rq->stage.name, err);
        if (rc == 0 && rq->options)
            rc = put(st, rq, path, job_id, err);
        else if (rc == 0)
            rc = db_run(st, err, "DELETE FROM recipe WHERE path_raw = ?1 AND kind = ?2", "bt", path,
                        strlen(path), rq->stage.name);
        if (rc == 0 && !rq->options)
            ret->affected += (uint64_t)sqlite3_changes64(st->db);
    }
    return rc;
}
