/* Recordings whose shards are all there, and that are settled as a whole: by settlers, processes of
 * their own without a device, one recording at a time. What was settled goes into the ledger like
 * every result. */

#include "scheduler/settle/settle.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler/run/process.h"
#include "scheduler/settle/settle_process.h"

#define LOOK_MS 1000 /* between looks into the catalog, while there is other work */

/* ------------------------------------------------------------------------------ the catalog */

static void drop_page(struct settle *s)
{
    while (s->page_at < s->page_len)
        store_task_free(&s->page[s->page_at++]);
    s->page_len = s->page_at = 0;
}

static void end_look(struct settle *s)
{
    drop_page(s);
    for (size_t i = 0; i < s->stage_count; i++)
        store_stage_row_free(&s->stages[i]);
    free(s->stages);
    s->stages = NULL;
    s->stage_count = s->stage_at = 0;
    s->cursor = 0;
}

static void cannot_read(struct run *run, struct err *err)
{
    err_prefix(err, "reading what is to be settled");
    run_fail(run, err);
}

static bool look_due(const struct run *run)
{
    const struct settle *s = run->settle;

    return run->turn.unsettled && (!run_leased(run) || clock_mono_ms() - s->looked_ms >= LOOK_MS);
}

static bool begin_look(struct run *run)
{
    struct settle *s = run->settle;
    struct err err = {0};

    s->looked_ms = clock_mono_ms();
    run->turn.unsettled = false;
    if (store_stages_unsettled(run->st, clock_wall_ms(), &s->stages, &s->stage_count, &err)) {
        s->stages = NULL;
        s->stage_count = 0;
        cannot_read(run, &err);
        return false;
    }
    return s->stages != NULL;
}

static bool in_hand(const struct run *run, int64_t task)
{
    for (uint32_t i = 0; i < SETTLERS; i++)
        if (settler_is_busy(&run->settle->of[i]) && run->settle->of[i].t.task_id == task)
            return true;
    return false;
}

/* The next page with anything in it. False: nothing (more) is to be settled now. */
static bool read_page(struct run *run)
{
    struct settle *s = run->settle;
    struct err err = {0};

    /* Before the flush: this is asked at every message, and results are to be written together. */
    if (!s->stages && !look_due(run))
        return false;
    /* What is not written yet would be read as still to do. */
    if (!run_flush(run) || (!s->stages && !begin_look(run)))
        return false;
    for (; s->stage_at < s->stage_count; s->stage_at++, s->cursor = 0) {
        int64_t stage = s->stages[s->stage_at].stage_id;

        if (run_is_aside(run, stage))
            continue;
        if (store_unsettled(run->st, stage, s->cursor, clock_wall_ms(), s->page, SETTLE_PAGE,
                            &s->page_len, &err)) {
            s->page_len = 0;
            cannot_read(run, &err);
            break;
        }
        s->page_at = 0;
        if (s->page_len) {
            s->cursor = s->page[s->page_len - 1].task_id;
            return true;
        }
    }
    end_look(s);
    return false;
}

/* The next recording; it stays in the page until page_at goes on. NULL: none now. */
static struct store_task *peek(struct run *run)
{
    struct settle *s = run->settle;

    for (;;) {
        if (s->page_at < s->page_len && run_is_aside(run, s->stages[s->stage_at].stage_id))
            drop_page(s);
        if (s->page_at == s->page_len && !read_page(run))
            return NULL;
        if (!in_hand(run, s->page[s->page_at].task_id))
            return &s->page[s->page_at];
        store_task_free(&s->page[s->page_at++]);
    }
}

/* Is it still to be settled? */
static bool still_wanted(struct run *run, const struct settler *w)
{
    struct store_task t;
    struct err err = {0};
    size_t n = 0;
    bool yes;

    if (store_unsettled(run->st, w->stage.stage_id, w->t.task_id - 1, INT64_MAX, &t, 1, &n, &err)) {
        cannot_read(run, &err);
        return true;
    }
    yes = n && t.task_id == w->t.task_id;
    if (n)
        store_task_free(&t);
    return yes;
}

void settle_recheck(struct run *run)
{
    if (!run_flush(run))
        return;
    for (uint32_t i = 0; i < SETTLERS; i++) {
        struct settler *w = &run->settle->of[i];

        if (settler_is_busy(w))
            w->unwanted = !still_wanted(run, w); /* it may be wanted again */
    }
    end_look(run->settle);
    run_note_unsettled(run);
}

/* ---------------------------------------------------------------------------------- the run */

int settle_open(struct run *run, struct err *err)
{
    run->settle = calloc(1, sizeof(*run->settle));
    if (!run->settle)
        return err_set(err, ERR_NOMEM, "no memory for the run");
    for (uint32_t i = 0; i < SETTLERS; i++)
        settler_add(&run->settle->of[i], run);
    run->turn.unsettled = true;
    return 0;
}

static struct settler *idle_one(struct settle *s)
{
    for (uint32_t i = 0; i < SETTLERS; i++)
        if (settler_is_idle(&s->of[i]))
            return &s->of[i];
    return NULL;
}

static struct settler *one_in(struct settle *s, enum process_state state)
{
    for (uint32_t i = 0; i < SETTLERS; i++)
        if (s->of[i].process.state == state && !s->of[i].process.condemned)
            return &s->of[i];
    return NULL;
}

static void give_next(struct settler *w, struct store_task *t)
{
    struct settle *s = w->process.run->settle;

    settler_give(w, &s->stages[s->stage_at], t);
    s->page_at += t->task_id == 0; /* it was taken over */
}

bool settle_step(struct run *run)
{
    struct settle *s = run->settle;
    struct settler *w = NULL;
    struct store_task *t;

    if (settlers_all_aside(s) || run->failure.code)
        return false;
    if (run->catalog.room.waiting) /* nothing new is begun */
        return settle_in_hand(run) || peek(run) || run->turn.unsettled;
    while (!run->failure.code && (w = idle_one(s)) && (t = peek(run)))
        give_next(w, t);
    if (w) /* and nothing for it */
        return settle_in_hand(run) || run->turn.unsettled;
    /* One that is on its way takes the next one. */
    if (!one_in(s, PROCESS_STARTING) && !one_in(s, PROCESS_WAITING) &&
        (w = one_in(s, PROCESS_OFF)) && peek(run))
        settler_start(w);
    return settle_in_hand(run) || run->turn.unsettled || s->page_at < s->page_len;
}

void settle_take_back(struct run *run)
{
    for (uint32_t i = 0; i < SETTLERS; i++)
        if (run->settle->of[i].process.state == PROCESS_ASIDE) {
            run->settle->of[i].process.state = PROCESS_OFF;
            restart_result(&run->settle->of[i].process.restart);
        }
    run_note_unsettled(run);
}

bool settle_in_hand(const struct run *run)
{
    for (uint32_t i = 0; i < SETTLERS; i++)
        if (settler_is_busy(&run->settle->of[i]))
            return true;
    return false;
}

void settle_leave(struct run *run)
{
    for (uint32_t i = 0; i < SETTLERS; i++)
        process_leave(&run->settle->of[i].process);
}

void settle_free(struct run *run)
{
    if (!run->settle)
        return;
    end_look(run->settle);
    for (uint32_t i = 0; i < SETTLERS; i++)
        settler_put_down(&run->settle->of[i]);
    free(run->settle);
    run->settle = NULL;
}
