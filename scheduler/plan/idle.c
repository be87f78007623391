#include "scheduler/plan/idle.h"

bool idle_look(struct idle *i, const struct idle_times *t, enum idle_sees sees, int64_t now_ms)
{
    if (!i->begun && sees == IDLE_BLIND)
        return i->left = true;
    if (!i->begun || sees != i->saw)
        i->since_ms = now_ms;
    i->saw = sees;
    if (!i->begun)
        i->left = sees == IDLE_USED;
    else if (!i->left && sees != IDLE_FREE)
        i->left = now_ms - i->since_ms >= (sees == IDLE_USED ? t->busy_ms : t->blind_ms);
    else if (i->left && sees == IDLE_FREE)
        i->left = now_ms - i->since_ms < t->free_ms;
    i->begun = true;
    return i->left;
}

/* Where the numbers are others', the worker is one of those that compute, and nobody knows which;
 * nor whose the shares are. */
static enum idle_sees judge_by_count(const struct idle_gpu *g, uint32_t *who)
{
    uint32_t computing = 0;

    for (uint32_t i = 0; i < g->process_count; i++)
        computing += g->process[i].computes;
    *who = 0;
    return computing > (g->worker > 0) ? IDLE_USED : IDLE_FREE;
}

static enum idle_sees judge_by_pid(const struct idle_gpu *g, uint32_t *who)
{
    for (uint32_t i = 0; i < g->process_count; i++) {
        const struct idle_process *p = &g->process[i];

        if (p->pid == g->worker || (!p->computes && p->percent < IDLE_PERCENT))
            continue;
        *who = p->pid;
        return IDLE_USED;
    }
    return IDLE_FREE;
}

enum idle_sees idle_judge(const struct idle_gpu *g, uint32_t *who)
{
    enum idle_sees ret;

    *who = 0;
    if (!g->lists)
        return IDLE_BLIND;
    ret = g->other_numbers ? judge_by_count(g, who) : judge_by_pid(g, who);
    return ret == IDLE_FREE && g->worker == 0 && g->percent >= IDLE_PERCENT ? IDLE_USED : ret;
}
