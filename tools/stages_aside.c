#include "tools/stages_aside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stages_aside {
    char **text; /* of the events of the last run */
    size_t n;
    bool no_memory;
};

static void forget(struct stages_aside *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->text[i]);
    a->n = 0;
}

static int keep(void *arg, const struct read_event *e)
{
    struct stages_aside *a = arg;
    char **grown;

    if (strcmp(e->kind, "run-start") == 0)
        forget(a);
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

int stages_aside_read(struct store *st, struct stages_aside **ret, struct err *err)
{
    struct stages_aside *a = calloc(1, sizeof(*a));
    int rc;

    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = read_events(st, 0, 0, keep, a, err);
    if (a->no_memory)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        *ret = a;
    else
        stages_aside_free(a);
    return rc;
}

void stages_aside_free(struct stages_aside *a)
{
    if (!a)
        return;
    forget(a);
    free(a->text);
    free(a);
}

/* The reason in an event about this stage, as scheduler/backlog.c writes it. */
static const char *find(const struct stages_aside *a, const char *stage, const char *model)
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

const char *stages_aside_why(const struct stages_aside *a, const struct read_progress *p)
{
    return p->pending + p->waiting > 0 ? find(a, p->stage, p->model) : NULL;
}

struct writing {
    const struct stages_aside *a;
    struct buf *out;
};

static int way_out(void *arg, const struct read_job *j)
{
    struct writing *w = arg;

    if (j->tasks_pending > 0 && find(w->a, j->stage, j->model))
        buf_printf(w->out, "%s`nightshift cancel --job %lld` leaves %s out",
                   w->out->len > 0 ? ", " : "", (long long)j->job_id, j->stage);
    return 0;
}

int stages_aside_ways_out(struct store *st, const struct stages_aside *a, struct buf *out,
                          struct err *err)
{
    struct writing w = {a, out};

    return a->n > 0 ? read_jobs(st, way_out, &w, err) : 0;
}
