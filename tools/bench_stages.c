#include "tools/bench_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "tools/cli.h"
#include "tools/text.h"
#include "workers/stages/stage_bench.h"

#define ROUNDS 5

bool bench_stages_any(const struct bench_stages *s)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (s->model[i] != NULL)
            return true;
    return false;
}

int bench_stages_find(struct bench_stages *s, bool quiet, char doing[200], struct err *err)
{
    for (size_t i = 0; i < STAGE_COUNT; i++) {
        int rc =
            s->model[i] != NULL ? enqueue_stages_one(i, s->model[i], &s->found[i], doing, err) : 0;

        if (rc != 0)
            return rc;
        if (!quiet && s->found[i].model_note[0] != 0)
            cli_note("%s", s->found[i].model_note);
    }
    return 0;
}

void bench_stages_free(struct bench_stages *s)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        enqueue_stages_free(&s->found[i]);
}

/* ---- output */

static void print_head(void)
{
    printf("\n%-40s %8s %9s %8s %4s %6s\n", "", "x real", "x real", "windows", "at", "voices");
    printf("%-12s %-22s %-4s %8s %9s %8s %4s %6s\n", "stage", "model", "type", "time", "time/CPU",
           "a second", "once", "each");
}

static void print_foot(void)
{
    puts("\nA round is at least a second of sound that is made up, two recordings at once;\n"
         "the median counts. x real time/CPU: for a second of one processor. Voices of\n"
         "a window are what the model heard, and embedding them is most of diarization;\n"
         "its clustering in the end is not measured. embed-text: passages, which count\n"
         "as 15 characters a second of speech.");
}

static void print_row(const struct store_stage *stage, const struct stage_bench_result *r)
{
    char *name = text_fit(stage->model, 22);

    printf("%-12s %-22s %-4s %8.1f %9.2f %8.1f %4u", stage->name, name != NULL ? name : "",
           precision_name(r->precision), r->times_real_time, r->times_real_time_cpu,
           r->items_per_second, r->at_once);
    if (stage_settles(stage->name)) /* by the voices */
        printf(" %6.2f", r->vectors_per_item);
    putchar('\n');
    fflush(stdout);
    free(name);
}

static json_t *json_row(const char *device, const struct store_stage *stage,
                        const struct stage_bench_result *r)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "stage",
                     stage->name, "model", stage->model, "device", device, "precision",
                     precision_name(r->precision), "at_once", (int)r->at_once, "rounds",
                     (int)r->rounds, "load_s", r->load_s, "seconds", r->seconds, "times_real_time",
                     r->times_real_time, "times_real_time_cpu", r->times_real_time_cpu,
                     "items_per_second", r->items_per_second, "vectors_per_item",
                     r->vectors_per_item);
}

/* ---- running */

static int run_one(const struct bench_stages *s, const struct store_stage *stage,
                   struct backend *be, struct stage_bench_result *ret, struct err *err)
{
    const struct stage_setup setup = {.name = stage->name,
                                      .dir = stage->model_dir,
                                      .params = stage->params_json,
                                      .precision = s->precision,
                                      .windows = s->windows};
    int rc = stage_bench_run(be, &setup, s->rounds ? s->rounds : ROUNDS, ret, err);

    return rc != 0 ? err_prefix(err, "%s with %.100s", stage->name, stage->model) : 0;
}

int bench_stages_run(const struct bench_stages *s, const char *device, struct backend *be,
                     bool people, json_t *rows, struct err *err)
{
    int rc = 0;

    if (people && bench_stages_any(s))
        print_head();
    for (size_t i = 0; rc == 0 && i < STAGE_COUNT; i++) {
        const struct store_stage *stage = &s->found[i].stages[0];
        struct stage_bench_result r;

        if (s->model[i] == NULL)
            continue;
        rc = run_one(s, stage, be, &r, err);
        if (rc == 0 && people)
            print_row(stage, &r);
        if (rc == 0 && json_array_append_new(rows, json_row(device, stage, &r)) != 0)
            rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc == 0 && people && bench_stages_any(s))
        print_foot();
    return rc;
}
