#include "scheduler/plan/restart.h"

static void remember(struct restart *r, int64_t task)
{
    uint32_t i;

    for (i = 0; i < r->victim_count; i++)
        if (r->victims[i] == task)
            return;
    if (r->victim_count < RESTART_VICTIMS_MAX)
        r->victims[r->victim_count++] = task;
}

int64_t restart_death(struct restart *r, enum restart_cause cause, int64_t task, uint32_t base_ms)
{
    int64_t ms = base_ms ? base_ms : RESTART_BASE_MS;
    uint32_t n = r->in_a_row++;

    if (cause == RESTART_ONE)
        remember(r, task);
    else if (cause != RESTART_KNOWN)
        r->own++;
    if (r->own >= RESTART_OWN_MAX || r->victim_count >= RESTART_VICTIMS_MAX)
        return -1;
    while (n-- && ms < RESTART_CAP_MS)
        ms *= 2;
    return ms < RESTART_CAP_MS ? ms : RESTART_CAP_MS;
}

void restart_result(struct restart *r) { *r = (struct restart){0}; }
