/* What a new job is asked for from now on: rows of the table asking. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "store/requests/request_apply.h"

/* What was asked for below it before holds no more. */
static int forget_below(struct store *st, const char *path, const char *kind, struct err *err)
{
    struct db_prefix below = {0};
    int rc = db_prefix(path, strlen(path), &below, err);

    if (rc < 0)
        return rc;
    rc = db_run(st, err, "DELETE FROM asking WHERE path_raw >= ?1 AND path_raw < ?2 AND kind = ?3",
                "bbt", below.low, below.len, below.high, below.len, kind);
    db_prefix_free(&below);
    return rc;
}

static int put(struct store *st, const struct request *rq, const char *path, int64_t stage_id,
               int64_t job_id, struct err *err)
{
    size_t len = strlen(path);
    char *shown = utf8_display(path, len);
    int rc;

    if (!shown)
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    rc = db_run(st, err,
                "INSERT INTO asking (path_raw, kind, path, stage_id, job_id, options) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (path_raw, kind) DO UPDATE SET "
                "stage_id = excluded.stage_id, job_id = excluded.job_id, "
                "options = excluded.options",
                "bttiit", path, len, rq->stage.name, shown, stage_id, job_id, rq->options);
    free(shown);
    return rc;
}

int asking_put(struct store *st, const struct request *rq, int64_t stage_id, int64_t job_id,
               struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < rq->root_count; i++) {
        if (rq->replaces)
            rc = forget_below(st, rq->roots[i], rq->stage.name, err);
        if (rc == 0)
            rc = put(st, rq, rq->roots[i], stage_id, job_id, err);
    }
    return rc;
}
