/* Remembered measurements of devices. They are read before a worker is set up, and written when it
 * has measured, when its memory did not suffice, and when it ends. */
#include "scheduler/run/remembered_batch.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "gpu/precision.h"
#include "scheduler/run/report.h"
#include "store/tuning.h"

/* A batch that the user chose is neither looked up nor remembered. */
static bool is_chosen(const struct run_worker *w)
{
    const struct run *run = w->process.run;

    return run->o->slots || run->o->windows || run->o->deterministic ||
           run->o->cache != CACHE_AUTO || run->devices.picked->list[w->index].memory_limit;
}

/* The device is named as the scheduler sees it, not as a worker would: his CUDA adds its own
 * version to the driver's. The precision is the run's, not READY's: networks that compute in
 * float32 alone are looked up beside others. */
static struct store_tuning_key key_of(const struct run_worker *w)
{
    const struct device *d = &w->process.run->devices.picked->list[w->index];

    return (struct store_tuning_key){
        .device_id = d->id,
        .driver = d->driver,
        .model_hash = w->memory.use.model_hash,
        .precision = w->memory.use.precision,
        .decoding = w->memory.use.decoding,
    };
}

/* A catalog may hold any number. What SETUP cannot say is not known. */
static float rate_of(const struct store_tuning *t)
{
    return t->rate >= 0 && t->rate <= (double)FLT_MAX ? (float)t->rate : 0;
}

/* Fills in the speeds of stages beside the first. An unreadable one counts as unknown. */
static void fill_others(struct run_worker *w, struct msg_setup *m)
{
    struct device_use *u = &w->memory.use;
    struct store_tuning_key key = key_of(w);
    struct err err = {0};

    key.decoding = "";
    for (uint32_t i = 1; i < m->stage_count; i++) {
        struct store_tuning t;

        key.model_hash = m->stages[i].model_hash;
        utf8_copy(u->others[i - 1], sizeof(u->others[i - 1]), key.model_hash);
        if (store_tuning_get(w->process.run->st, &key, &t, &err) == 0) {
            m->stages[i].tuned_rate = rate_of(&t);
            free(t.algorithms);
        }
    }
    u->other_count = m->stage_count - 1;
}

void remembered_fill(struct run_worker *w, struct msg_setup *m)
{
    struct run *run = w->process.run;
    const struct device *d = &run->devices.picked->list[w->index];
    enum precision precision = PRECISION_AUTO;
    struct store_tuning_key key;
    struct store_tuning t;
    struct err err = {0};
    int rc;

    memset(&w->memory.use, 0, sizeof(w->memory.use));
    utf8_copy(w->memory.use.model_hash, sizeof(w->memory.use.model_hash), m->stages[0].model_hash);
    utf8_copy(w->memory.use.decoding, sizeof(w->memory.use.decoding), run->backlog.kind.decoding);
    if (is_chosen(w) || precision_parse(m->precision, &precision, &err))
        return; /* the worker says what is wrong with it */
    precision = precision_resolve(precision, d->precisions);
    utf8_copy(w->memory.use.precision, sizeof(w->memory.use.precision), precision_name(precision));
    fill_others(w, m);
    key = key_of(w);
    rc = store_tuning_get(run->st, &key, &t, &err);
    if (rc == 0) {
        m->tuned_slots = t.slots;
        m->tuned_windows = t.windows;
        m->tuned_rate = rate_of(&t);
        if (t.algorithms_bytes <= SETUP_ALGORITHMS_MAX) {
            m->algorithms = t.algorithms;
            m->algorithms_bytes = t.algorithms_bytes;
            t.algorithms = NULL;
        }
        free(t.algorithms);
        w->memory.use.remembered = true;
    } else if (rc != ERR_EMPTY) {
        report_event(run, LOG_WARN, "what is remembered of %s cannot be read: %s", w->label,
                     err.msg);
    }
}

/* ready: what READY said, of which the ways are noted; or NULL. */
static void store_batch_tuning(struct run_worker *w, uint32_t oom_count,
                               const struct msg_ready *ready)
{
    struct run *run = w->process.run;
    const struct device_use *u = &w->memory.use;
    const struct store_tuning_key key = key_of(w);
    const struct store_tuning t = {
        .slots = u->slots,
        .windows = u->windows,
        .rate = u->measured ? (double)u->rate : 0,
        .predicted_bytes = u->predicted,
        .peak_bytes = u->peak,
        .oom_count = oom_count,
        .algorithms = ready ? ready->algorithms : NULL,
        .algorithms_bytes = ready ? ready->algorithms_bytes : 0,
    };
    struct err err = {0};

    run_check(run, ledger_tuning(run->ledger, &key, &t, &err), &err);
    run_note_commit(run);
}

/* The speeds of stages beside the first. Their batches are not remembered. */
static void store_others(struct run_worker *w, const struct msg_ready *m)
{
    struct run *run = w->process.run;
    const struct device_use *u = &w->memory.use;
    struct store_tuning_key key = key_of(w);
    struct err err = {0};

    key.decoding = "";
    for (uint32_t i = 0; i < m->rate_count && i < u->other_count; i++) {
        const struct store_tuning t = {.slots = 1, .windows = 1, .rate = (double)m->rates[i]};

        if (!(t.rate > 0))
            continue;
        key.model_hash = u->others[i];
        run_check(run, ledger_tuning(run->ledger, &key, &t, &err), &err);
        run_note_commit(run);
    }
}

void remembered_ready(struct run_worker *w, const struct msg_ready *m)
{
    struct device_use *u = &w->memory.use;

    u->slots = m->slots;
    u->windows = m->windows;
    u->predicted = m->predicted_bytes;
    u->peak = m->allocated_bytes;
    u->rate = m->rate;
    u->measured = m->measured;
    /* Slots that nobody measured are not remembered for the ways' sake. */
    if ((m->measured || (u->remembered && m->algorithms_bytes)) && !is_chosen(w)) {
        u->remembered = true;
        store_batch_tuning(w, 0, m);
    }
    if (!is_chosen(w))
        store_others(w, m);
}

void remembered_lowered(struct run_worker *w, const struct msg_tuned *m)
{
    struct run *run = w->process.run;
    struct device_use *u = &w->memory.use;
    char *shown = utf8_display(m->reason, strlen(m->reason));
    struct err err = {0};
    char text[600];

    u->slots = m->slots;
    u->windows = m->windows;
    u->measured = false; /* the rate was that of more */
    snprintf(text, sizeof(text),
             "%s goes on with %u window%s in flight, %u at once in the encoder: %.300s", w->label,
             m->slots, m->slots == 1 ? "" : "s", m->windows, shown ? shown : "");
    free(shown);
    report_event(run, LOG_WARN, "%s", text);
    run_check(run, ledger_event(run->ledger, "tuned", 0, w->device, text, &err), &err);
    run_note_commit(run);
    if (is_chosen(w))
        return;
    u->peak = 0; /* the heartbeats go on with it */
    u->remembered = true;
    store_batch_tuning(w, 1, NULL);
}

void remembered_heartbeat(struct run_worker *w, const struct msg_heartbeat *m)
{
    if (m->vram_peak > w->memory.use.peak)
        w->memory.use.peak = m->vram_peak;
}

void remembered_gone(struct run_worker *w)
{
    struct device_use *u = &w->memory.use;

    if (u->slots == 0)
        return; /* it was never ready */
    if (u->remembered)
        store_batch_tuning(w, 0, NULL);
    if (u->peak > w->memory.peak_bytes) {
        w->memory.peak_bytes = u->peak;
        w->memory.predicted_bytes = u->predicted;
    }
    u->slots = 0;
}

void remembered_summary(const struct run *run, char *text, size_t cap)
{
    size_t n = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < run->devices.count && n < cap; i++) {
        const struct run_worker *w = &run->devices.workers[i];
        const struct device *d = &run->devices.picked->list[i];
        int more;

        if (d->kind == DEVICE_CPU || w->memory.peak_bytes == 0)
            continue;
        more = snprintf(text + n, cap - n, "; %s used %.2f GB of %.2f, predicted %.2f", d->label,
                        (double)w->memory.peak_bytes / 1e9, (double)d->memory_total / 1e9,
                        (double)w->memory.predicted_bytes / 1e9);
        n += more > 0 ? (size_t)more : 0;
    }
}
