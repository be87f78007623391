#include "scheduler/shard_length.h"

#include <stdlib.h>

#include "base/clock.h"
#include "scheduler/stage_aside.h"

/* way_out: before the option that would do. */
static int check(const struct run *run, const struct store_stage_row *row, int code,
                 const char *way_out, struct err *err)
{
    struct scheduler_stage kind = {0};
    uint32_t asked = run->o->shard_ms, most;

    if (run->o->stage)
        run->o->stage(row->name, row->params_json, &kind);
    most = kind.most_shard_ms;
    if (most == 0 || asked <= most) /* 0: any length will do */
        return 0;
    return err_set(err, code,
                   "a shard of %g min is too long for the stage %.40s: it may give more than a "
                   "message can hold; %s --shard=%u%s or less%s",
                   asked / 60000.0, row->name, way_out, most / (most < 60000 ? 1000 : 60000),
                   most < 60000 ? "s" : "m",
                   most < kind.mixed_most_shard_ms && asked <= kind.mixed_most_shard_ms
                       ? ", or enqueue with --channels=mix (and one track)"
                       : "");
}

static void free_rows(struct store_stage_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_stage_row_free(&rows[i]);
    free(rows);
}

int shard_length_asked(const struct run *run, struct err *err)
{
    struct store_stage_row *rows = NULL;
    size_t n = 0;
    int rc = 0;

    if (run->o->shard_ms == 0)
        return 0;
    rc = store_stages_runnable(run->st, clock_wall_ms(), &rows, &n, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check(run, &rows[i], ERR_USAGE, "use", err);
    free_rows(rows, n);
    return rc;
}

void shard_length_put_aside(struct run *run)
{
    struct store_stage_row *rows = NULL;
    struct err err = {0};
    size_t n = 0;

    if (store_stages_runnable(run->st, clock_wall_ms(), &rows, &n, &err) != 0) {
        run_fail(run, &err);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (check(run, &rows[i], ERR_LIMIT, "use another catalog for it, with", &err))
            stage_aside_put(run, &rows[i], &err);
    free_rows(rows, n);
}
