/* Leases of stages that work on a transcription: the passages are read when they are leased, go to
 * the worker with the lease, and into the catalog with the vectors that come back. */
#include "scheduler/lease/lease_passages.h"

void passages_drop(struct run_task *t)
{
    store_passages_free(t->passages, t->passage_count);
    t->passages = NULL;
    t->passage_count = 0;
}

int passages_read(struct run *run, struct run_task *t, struct err *err)
{
    int rc;

    passages_drop(t);
    rc = store_passages(run->st, t->t.task_id, run->backlog.kind.passage_chars, &t->passages,
                        &t->passage_count, err);
    if (rc == 0 && t->passage_count > UINT32_MAX)
        rc = err_set(err, ERR_LIMIT, "%zu passages are more than can be sent", t->passage_count);
    if (rc)
        return rc;
    return t->passage_count == 0;
}

void passages_fill(const struct run_task *t, struct msg_lease *m)
{
    m->total_ms = t->t.duration_ms > 0 ? t->t.duration_ms : 0;
    m->passage_count = (uint32_t)t->passage_count;
    m->passages = t->passages;
}

bool passages_answered(const struct run_task *t, const struct msg_shard_done *m, struct err *err)
{
    if (m->vector_count != t->passage_count) {
        err_set(err, ERR_PROTOCOL, "%u vectors of %zu passages", m->vector_count, t->passage_count);
        return false;
    }
    for (size_t i = 0; i < t->passage_count; i++)
        if (m->vectors[i].start_ms != t->passages[i].start_ms ||
            m->vectors[i].end_ms != t->passages[i].end_ms) {
            err_set(err, ERR_PROTOCOL, "vector %zu is of another passage", i);
            return false;
        }
    return true;
}
