#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "scheduler/control/control.h"
#include "scheduler/run/archive.h"
#include "store/read/doubts.h"
#include "store/read/read.h"
#include "tools/report/report.h"
#include "workers/stages/transcribe/outcome/doubt.h"

#define STRETCH_MS INT64_C(300000) /* as the run writes them (scheduler/run/diary.h) */
#define NO_MEMORY "no memory for a report"

/* What is said of a time that cannot be reckoned well. */
#define LOW 0.7
#define HIGH 1.5

static char *shown(const char *s) { return utf8_display(s, strlen(s)); }

/* ------------------------------------------------------------------------------------- runs */

static int add_run(void *arg, const struct store_run *row)
{
    struct report *r = arg;
    struct store_run *grown = realloc(r->run, (r->runs + 1) * sizeof(*grown));

    if (!grown)
        return ERR_NOMEM;
    r->run = grown;
    grown[r->runs] = *row;
    grown[r->runs].why = shown(row->why);
    grown[r->runs].reason = shown(row->reason);
    grown[r->runs].devices = shown(row->devices);
    r->runs++;
    return grown[r->runs - 1].why && grown[r->runs - 1].reason && grown[r->runs - 1].devices
               ? 0
               : ERR_NOMEM;
}

static void oldest_first(struct report *r)
{
    for (size_t i = 0; i < r->runs / 2; i++) {
        struct store_run other = r->run[r->runs - 1 - i];

        r->run[r->runs - 1 - i] = r->run[i];
        r->run[i] = other;
    }
}

static void sum_runs(struct report *r)
{
    const struct store_run *last = &r->run[r->runs - 1];

    r->from_ms = r->run[0].started_ms;
    r->to_ms = last->ended_ms ? last->ended_ms : r->on ? r->now_ms : last->seen_ms;
    if (r->to_ms < r->from_ms) /* the clock was put back */
        r->to_ms = r->from_ms;
    for (size_t i = 0; i < r->runs; i++) {
        r->done += r->run[i].recordings_done;
        r->failed += r->run[i].recordings_failed;
        r->audio_ms += r->run[i].audio_ms;
        r->work_ms += r->run[i].work_ms;
    }
}

/* ---------------------------------------------------------------------------------- devices */

static const struct report_step nothing = {
    .load_ms = -1, .energy_j = -1, .celsius = -1, .used_bytes = -1};

static struct report_device *device_of(struct report *r, const char *name)
{
    struct report_device *grown, *d;

    for (size_t i = 0; i < r->devices; i++)
        if (strcmp(r->device[i].name, name) == 0)
            return &r->device[i];
    grown = realloc(r->device, (r->devices + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    r->device = grown;
    d = &grown[r->devices];
    *d = (struct report_device){.name = shown(name), .sum = nothing};
    d->steps = (size_t)((r->to_ms - r->from_ms) / r->step_ms + 1);
    d->step = calloc(d->steps, sizeof(*d->step));
    for (size_t i = 0; d->step && i < d->steps; i++)
        d->step[i] = nothing;
    r->devices++; /* report_free frees what is there of it */
    return d->name && d->step ? d : NULL;
}

/* Of values that may not be known. */
static int64_t plus(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : a + b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

double report_load(const struct report_step *s)
{
    return s->load_ms >= 0 && s->seen_ms > 0 ? 100.0 * (double)s->load_ms / (double)s->seen_ms : -1;
}

double report_watts(const struct report_step *s)
{
    return s->energy_j >= 0 && s->seen_ms > 0 ? 1000.0 * (double)s->energy_j / (double)s->seen_ms
                                              : -1;
}

static void add_step(struct report_step *to, const struct store_sample *s)
{
    to->span_ms += s->span_ms;
    to->busy_ms += s->busy_ms;
    to->audio_ms += s->audio_ms;
    if (s->memory_bytes > to->memory_bytes)
        to->memory_bytes = s->memory_bytes;
    if (s->predicted_bytes > to->predicted_bytes)
        to->predicted_bytes = s->predicted_bytes;
    to->seen_ms += s->seen_ms;
    to->left_ms += s->left_ms;
    to->load_ms = plus(to->load_ms, s->load_ms);
    to->energy_j = plus(to->energy_j, s->energy_j);
    to->celsius = most(to->celsius, s->celsius);
    to->used_bytes = most(to->used_bytes, s->used_bytes);
}

static int add_sample(void *arg, const struct store_sample *s)
{
    struct report *r = arg;
    struct report_device *d = device_of(r, s->device);
    int64_t i = s->at_ms > r->from_ms ? (s->at_ms - r->from_ms) / r->step_ms : 0;

    if (!d)
        return ERR_NOMEM;
    if ((size_t)i >= d->steps)
        i = (int64_t)d->steps - 1;
    add_step(&d->step[i], s);
    add_step(&d->sum, s);
    if (s->slots > 0) {
        d->slots = s->slots;
        d->windows = s->windows;
    }
    return 0;
}

static int read_devices(struct report *r, struct store *st, struct err *err)
{
    int rc = 0;

    r->step_ms = STRETCH_MS;
    r->from_ms -= r->from_ms % STRETCH_MS;
    while ((r->to_ms - r->from_ms) / r->step_ms >= (int64_t)REPORT_STEPS)
        r->step_ms += STRETCH_MS;
    for (size_t i = 0; i < r->runs && rc == 0; i++)
        rc = store_samples_each(st, r->run[i].run_id, add_sample, r, err);
    for (size_t i = 0; i < r->devices; i++) {
        struct report_device *d = &r->device[i];

        for (size_t k = 0; k < d->steps && rc == 0; k++)
            d->step[k].at_ms = r->from_ms + (int64_t)k * r->step_ms;
    }
    return rc == ERR_NOMEM ? err_set(err, ERR_NOMEM, NO_MEMORY) : rc;
}

/* --------------------------------------------------------------------------------- failures */

struct gather {
    struct report *r;
    char since[CLOCK_ISO_LEN];
};

/* Reasons say what it is, and behind a colon more of this one recording. */
static bool alike(const char *a, const char *b)
{
    const size_t n = strcspn(a, ":");

    return strcspn(b, ":") == n && strncmp(a, b, n) == 0;
}

static struct report_reason *reason_of(struct report *r, const struct read_failure *f)
{
    struct report_reason *grown, *x;

    for (size_t i = 0; i < r->reasons; i++)
        if (strcmp(r->reason[i].kind, f->kind) == 0 && strcmp(r->reason[i].code, f->code) == 0 &&
            (r->reasons >= REPORT_REASONS || alike(r->reason[i].reason, f->reason)))
            return &r->reason[i];
    grown = realloc(r->reason, (r->reasons + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    r->reason = grown;
    x = &grown[r->reasons];
    *x = (struct report_reason){.kind = shown(f->kind),
                                .code = shown(f->code),
                                .reason = shown(f->reason),
                                .mend = report_mend(f->kind, f->code)};
    if (asprintf(&x->path, "%s%s%s", f->path, f->member[0] ? "//" : "", f->member) < 0)
        x->path = NULL;
    r->reasons++;
    return x->kind && x->code && x->reason && x->path ? x : NULL;
}

static int add_failure(void *arg, const struct read_failure *f)
{
    struct gather *g = arg;
    struct report_reason *x = reason_of(g->r, f);

    if (!x)
        return ERR_NOMEM;
    x->count++;
    x->fresh += strcmp(f->at, g->since) >= 0;
    return 0;
}

static int most_first(const void *a, const void *b)
{
    const struct report_reason *x = a, *y = b;

    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->code, y->code);
}

static int read_reasons(struct report *r, struct store *st, struct err *err)
{
    struct gather g = {.r = r};
    int rc;

    clock_iso8601(r->runs > 0 ? r->run[0].started_ms : r->now_ms, g.since);
    rc = read_failures(st, NULL, 0, add_failure, &g, err);
    if (r->reasons > 1)
        qsort(r->reason, r->reasons, sizeof(*r->reason), most_first);
    return rc == ERR_NOMEM ? err_set(err, ERR_NOMEM, NO_MEMORY) : rc;
}

/* ----------------------------------------------------------------------------------- doubts */

static void add_sentence(void *out, const char *text)
{
    buf_printf(out, "%s%s", ((const struct buf *)out)->len > 0 ? " " : "", text);
}

static char *why(const char *reason)
{
    struct buf said = BUF_INIT;
    char *ret;

    doubt_say(reason, add_sentence, &said);
    ret = buf_cstr(&said) ? shown(buf_cstr(&said)) : NULL;
    buf_free(&said);
    return ret;
}

static int add_doubt(void *arg, const struct read_doubt *row)
{
    const struct read_segment *s = row->segment;
    struct report *r = arg;
    struct report_doubt *d;

    if (r->doubts == REPORT_DOUBTS)
        return 1;
    d = &r->doubt[r->doubts++];
    d->start_ms = s->start_ms;
    d->text = shown(s->text);
    d->reason = shown(s->reason);
    d->why = why(s->reason);
    if (asprintf(&d->path, "%s%s%s", s->path, s->member[0] ? "//" : "", s->member) < 0)
        d->path = NULL;
    return d->text && d->reason && d->why && d->path ? 0 : ERR_NOMEM;
}

static int doubts_of(struct report *r, struct store *st, struct err *err)
{
    int rc = read_doubts(st, &(struct read_doubts){.of = READ_DOUBTS_TEXT, .limit = REPORT_DOUBTS},
                         add_doubt, r, err);

    return rc == ERR_NOMEM ? err_set(err, ERR_NOMEM, NO_MEMORY) : rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------------------ what is left */

double report_speed(const struct report *r)
{
    return r->work_ms > 0 && r->audio_ms > 0 ? (double)r->audio_ms / (double)r->work_ms : 0;
}

bool report_per_stage(const struct report *r)
{
    int64_t sum = 0;

    for (size_t i = 0; i < r->devices; i++)
        sum += r->device[i].sum.audio_ms;
    return sum > r->audio_ms;
}

/* A run that is on knows better; else by the speed of the runs of the report. */
static void reckon_left(struct report *r)
{
    const struct store_archive *a = &r->totals.archive;
    const struct rate_backlog left = archive_backlog(a);
    const double speed = report_speed(r);

    r->left_ms = rate_left_ms(&left);
    r->low_ms = r->high_ms = -1;
    if (r->on) {
        r->low_ms = r->live.low_ms;
        r->high_ms = r->live.high_ms;
    } else if (a->pending > 0 && r->left_ms > 0 && speed > 0 && (double)r->left_ms / speed < 1e15) {
        r->low_ms = (int64_t)((double)r->left_ms / speed * LOW);
        r->high_ms = (int64_t)((double)r->left_ms / speed * HIGH);
    }
}

const char *report_why(const struct report *r, const struct store_run *run)
{
    static const struct {
        const char *why, *words;
    } words[] = {{"done", "nothing was left"},       {"until", "its time was over"},
                 {"interrupted", "interrupted"},     {"paused", "the catalog was paused"},
                 {"failed", "stopped by a failure"}, {"lost", "killed, or the power went"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].why, run->why) == 0)
            return words[i].words;
    return r->on ? "it is on" : "killed, or the power went";
}

static char *put_time(int64_t wall_ms, bool year, char ret[REPORT_TIME])
{
    time_t s = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (!localtime_r(&s, &tm) || (year ? strftime(ret, REPORT_TIME, "%a %d %b %Y, %H:%M", &tm)
                                       : strftime(ret, REPORT_TIME, "%a %d %b, %H:%M", &tm)) == 0)
        memcpy(ret, "?", 2);
    return ret;
}

char *report_time(int64_t wall_ms, char ret[REPORT_TIME]) { return put_time(wall_ms, false, ret); }

char *report_begin(int64_t wall_ms, char ret[REPORT_TIME]) { return put_time(wall_ms, true, ret); }

const char *report_until(const struct report *r, const struct store_run *run, char ret[REPORT_TIME])
{
    char begun[REPORT_TIME];
    size_t day;

    if (!run->ended_ms && r->on)
        return "now";
    report_time(run->started_ms, begun);
    report_time(run->ended_ms ? run->ended_ms : run->seen_ms, ret);
    day = strcspn(ret, ",");
    return ret[day] && strncmp(begun, ret, day + 1) == 0 ? ret + day + 2 : ret;
}

/* ------------------------------------------------------------------------------------ the whole */

static int read_all(struct report *r, struct store *st, uint64_t n, struct err *err)
{
    int rc = store_runs_each(st, n, add_run, r, err);

    if (rc == ERR_NOMEM)
        return err_set(err, ERR_NOMEM, NO_MEMORY);
    oldest_first(r);
    if (rc == 0 && r->runs > 0) {
        sum_runs(r);
        rc = read_devices(r, st, err);
    }
    if (rc == 0)
        rc = store_totals(st, &r->totals, err);
    if (rc == 0)
        rc = store_speechless(st, "", &r->speechless, err);
    if (rc == 0)
        rc = store_high(st, &r->high, err);
    if (rc == 0)
        rc = read_reasons(r, st, err);
    if (rc == 0)
        rc = doubts_of(r, st, err);
    if (rc == 0)
        reckon_left(r);
    return rc;
}

int report_make(const char *catalog, uint64_t n, struct report *ret, struct err *err)
{
    struct store *st = NULL;
    int rc;

    *ret = (struct report){.now_ms = clock_wall_ms(), .catalog = shown(catalog)};
    if (!ret->catalog)
        return err_set(err, ERR_NOMEM, NO_MEMORY);
    rc = store_open(catalog, STORE_READ, &st, err);
    if (rc == 0) {
        ret->on = control_look(catalog, &ret->live);
        rc = read_all(ret, st, n, err);
    }
    store_close(st);
    return rc;
}

void report_free(struct report *r)
{
    for (size_t i = 0; i < r->runs; i++) {
        free((char *)r->run[i].why);
        free((char *)r->run[i].reason);
        free((char *)r->run[i].devices);
    }
    for (size_t i = 0; i < r->devices; i++) {
        free(r->device[i].name);
        free(r->device[i].step);
    }
    for (size_t i = 0; i < r->reasons; i++) {
        free(r->reason[i].kind);
        free(r->reason[i].code);
        free(r->reason[i].path);
        free(r->reason[i].reason);
    }
    for (size_t i = 0; i < r->doubts; i++) {
        free(r->doubt[i].path);
        free(r->doubt[i].text);
        free(r->doubt[i].reason);
        free(r->doubt[i].why);
    }
    free(r->run);
    free(r->device);
    free(r->reason);
    free(r->catalog);
    *r = (struct report){0};
}
