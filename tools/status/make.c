/* Reads the figures of status that are read once. */
#include "scheduler/control/control.h"
#include "store/lock.h"
#include "tools/status/status.h"

static void look_at_run(struct status *s, const char *catalog)
{
    struct err none = {0};

    s->on = control_look(catalog, &s->live);
    if (!s->on && catalog_lock_holder(catalog, s->holder, sizeof(s->holder), &none) != 0)
        s->holder[0] = 0;
}

int status_open(const char *catalog, struct status *ret, struct err *err)
{
    int rc;

    *ret = (struct status){0};
    rc = store_open(catalog, STORE_READ, &ret->store, err);
    if (rc == 0) {
        look_at_run(ret, catalog);
        rc = store_totals(ret->store, &ret->totals, err);
    }
    if (rc == 0)
        rc = disabled_stages_read(ret->store, &ret->disabled, err);
    if (rc == 0)
        rc = store_textless(ret->store, "", ret->textless, err);
    if (rc == 0)
        rc = store_no_sound(ret->store, &ret->no_sound, err);
    if (rc == 0)
        rc = store_gone(ret->store, &ret->gone, err);
    if (rc == 0)
        rc = read_correction_counts(ret->store, 0, &ret->corrections, err);
    return rc;
}

void status_close(struct status *s)
{
    disabled_stages_free(s->disabled);
    store_close(s->store);
    *s = (struct status){0};
}

uint64_t status_unused(const struct status *s, const struct read_progress *p)
{
    uint64_t n = p->superseded;
    struct err none = {0};

    return p->superseded == 0 || read_unused(s->store, p->stage_id, &n, &none) != 0 ? p->superseded
                                                                                    : n;
}
