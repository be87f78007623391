#include "tools/disabled_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct disabled_stages {
    char **text; /* of the events of the last run */
    size_t n;
    bool no_memory;
};

static void clear_disabled_stages(struct disabled_stages *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->text[i]);
    a->n = 0;
}

static int store_disabled_event(void *arg, const struct read_event *e)
{
    struct disabled_stages *a = arg;
    char **grown;

    if (strcmp(e->kind, "run-start") == 0)
        clear_disabled_stages(a);
    if (strcmp(e->kind, "stage-aside") != 0)
        return 0;
    grown = realloc(a->text, (a->n + 1) * sizeof(*grown));
    if (grown) {
        a->text = grown;
        a->text[a->n] = strdup(e->text);
    }
    if (!grown || !a->text[a->n])
        return a->no_memory = true;
    a->n++;
    return 0;
}

int disabled_stages_read(struct store *st, struct disabled_stages **ret, struct err *err)
{
    struct disabled_stages *a = calloc(1, sizeof(*a));
    int rc;

    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = read_events(st, 0, 0, store_disabled_event, a, err);
    if (a->no_memory)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        *ret = a;
    else
        disabled_stages_free(a);
    return rc;
}

void disabled_stages_free(struct disabled_stages *a)
{
    if (!a)
        return;
    clear_disabled_stages(a);
    free(a->text);
    free(a);
}

/* The reason in an event about this stage, as scheduler/disabled_stages.c writes it. */
static const char *find_disabled_reason(const struct disabled_stages *a, const char *stage,
                                        const char *model)
{
    static const char *const words[] = {"disabled", "put aside"}; /* the latter in older catalogs */
    char begins[256];

    for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
        const size_t len = (size_t)snprintf(
            begins, sizeof(begins), "stage %.40s with model %.120s is %s in this run: ", stage,
            model, words[k]);

        for (size_t i = 0; i < a->n; i++)
            if (strncmp(a->text[i], begins, len) == 0)
                return a->text[i] + len;
    }
    return NULL;
}

const char *disabled_stages_why(const struct disabled_stages *a, const struct read_progress *p)
{
    return p->pending + p->waiting > 0 ? find_disabled_reason(a, p->stage, p->model) : NULL;
}

struct writing {
    const struct disabled_stages *a;
    struct buf *out;
};

static int way_out(void *arg, const struct read_job *j)
{
    struct writing *w = arg;

    if (j->tasks_pending > 0 && find_disabled_reason(w->a, j->stage, j->model))
        buf_printf(w->out, "%s`nightshift cancel --job %lld` leaves %s out",
                   w->out->len > 0 ? ", " : "", (long long)j->job_id, j->stage);
    return 0;
}

int disabled_stages_remedies(struct store *st, const struct disabled_stages *a, struct buf *out,
                             struct err *err)
{
    struct writing w = {a, out};

    return a->n > 0 ? read_jobs(st, way_out, &w, err) : 0;
}
