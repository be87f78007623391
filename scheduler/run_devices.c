/* Which devices a run works on: one worker for each. Chosen before anything is begun or written,
 * so that what cannot be is told while somebody is still looking. */
#include "scheduler/run_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gpu/devices/devices.h"
#include "scheduler/run/report.h"
#include "scheduler/supervisor.h"

static int add_worker(struct run *run, const struct device *d, struct err *err)
{
    struct run_worker *p, *w;

    if (run->devices.count == PLANNER_MAX_WORKERS)
        return err_set(err, ERR_USAGE, "more than %u devices", PLANNER_MAX_WORKERS);
    p = realloc(run->devices.workers, (run->devices.count + 1) * sizeof(*p));
    if (!p)
        return err_set(err, ERR_NOMEM, "no memory for the workers");
    run->devices.workers = p;
    w = &p[run->devices.count];
    memset(w, 0, sizeof(*w));
    w->index = run->devices.count++;
    snprintf(w->device, sizeof(w->device), "%s", d->name);
    return 0;
}

static void label_workers(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->devices.count; i++) {
        struct run_worker *w = &run->devices.workers[i];
        const char *label = run->devices.picked->list[i].label;

        if (run->devices.count == 1)
            snprintf(w->label, sizeof(w->label), "worker %s", label);
        else
            snprintf(w->label, sizeof(w->label), "worker %u (%s)", i + 1, label);
        supervisor_add(run, w);
    }
}

int run_devices_init(struct run *run, struct err *err)
{
    const struct scheduler_options *o = run->o;
    struct devices *all = malloc(sizeof(*all)), *picked = malloc(sizeof(*picked));
    uint32_t i;
    int rc = 0;

    run->devices.picked = picked;
    if (!all || !picked) {
        free(all);
        return err_set(err, ERR_NOMEM, "no memory for the devices");
    }
    if (devices_list_wants_gpus(o->devices))
        rc = devices_find(run->tune.worker_program, all, err);
    else
        devices_processor(all);
    if (rc == 0)
        rc = devices_pick(all, o->devices, o->allow_cpu, picked, err);
    if (rc == 0)
        rc = devices_cap(picked, o->device_memory, err);
    for (i = 0; rc == 0 && i < picked->count; i++)
        rc = add_worker(run, &picked->list[i], err);
    if (rc == 0)
        label_workers(run);
    free(all);
    return rc;
}

void run_devices_free(struct run_devices *d)
{
    free(d->workers);
    free(d->picked);
}

void run_devices_say(struct run *run)
{
    const struct devices *d = run->devices.picked;
    const char *list = run->o->devices;
    bool any = !list || !list[0] || strcmp(list, "auto") == 0;
    uint32_t i;

    /* Of libraries that nothing here needs nobody wants to hear. */
    for (i = 0; d->expects_gpu && i < d->finding_count; i++) {
        const struct device_finding *f = &d->findings[i];

        if (f->state == FINDING_WARNING)
            report_event(run, LOG_WARN, "%s: %s; wanted: %s; %s", f->name, f->found, f->wanted,
                         f->todo);
    }
    if (any && d->list[0].kind == DEVICE_CPU)
        report_event(run, d->expects_gpu ? LOG_WARN : LOG_INFO,
                     "no GPU: %s; working on the processor", d->no_gpu.msg);
}
