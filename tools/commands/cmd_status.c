/* nightshift status: how far the work is, what went wrong, and what a run is doing now. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "scheduler/control/control.h"
#include "scheduler/plan/progress.h"
#include "store/lock.h"
#include "store/read/corrections.h"
#include "store/read/read.h"
#include "store/store.h"
#include "store/tuning.h"
#include "tools/stages_aside.h"
#include "tools/cli.h"
#include "tools/enqueue/stages/stage_params_words.h"
#include "tools/text.h"
#include "workers/stages/stage_kind.h"

#define FAILURES_SHOWN 10
#define JOBS_SHOWN 5
#define WATCH_US 2000000
#define SCREEN_BYTES 65536
#define LABEL 12 /* columns of the labels on the left */

static const char help[] =
    "Usage: nightshift status [OPTION]...\n"
    "How far the work is, what went wrong, and what a run is doing now.\n"
    "\n"
    "  -w, --watch          again every two seconds until the run ends: in place on\n"
    "                       a terminal, else a line each time\n"
    "  -f, --failures       list every failure with its reason, not just ten\n"
    "  -j, --jobs           list every job, not just the last five with tasks\n"
    "  -e, --events         also what happened in the last runs\n"
    "      --json           all of it as one JSON object\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift status\n"
    "  nightshift status --failures\n"
    "  nightshift status --json | jq .archive.failed\n";

struct wanted {
    bool watch, failures, jobs, events;
};

static const struct option longs[] = {
    {"watch", no_argument, NULL, 'w'},
    {"failures", no_argument, NULL, 'f'},
    {"jobs", no_argument, NULL, 'j'},
    {"events", no_argument, NULL, 'e'},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;

    (void)value;
    (void)err;
    if (option == 'w')
        w->watch = true;
    else if (option == 'f')
        w->failures = true;
    else if (option == 'j')
        w->jobs = true;
    else
        w->events = true;
    return 0;
}

struct report {
    struct store *store;
    struct stages_aside *aside;
    struct store_totals totals;
    uint32_t transcriptions; /* stages that are */
    uint64_t speechless;     /* recordings that are done and have no text */
    uint64_t gone;           /* those that are nowhere any more */
    struct read_correction_counts corrections;
    bool running; /* live is good */
    struct control_live live;
    char holder[200]; /* who holds the catalog when it is no run; "" nobody */
    const struct wanted *wanted;
    /* While rows are read: */
    uint64_t shown, skipped, jobs;
    json_t *rows;
    bool no_memory;
    char *command; /* of the job command_of, and of those since */
    int64_t command_of;
};

static void look_at_run(struct report *r, const char *catalog)
{
    struct control *c = NULL;
    struct err err = {0};

    if (control_connect(catalog, &c, &err) == 0) {
        r->running = control_status(c, &r->live, &err) == 0;
        control_close(c);
    }
    err.code = 0;
    if (!r->running && catalog_lock_holder(catalog, r->holder, sizeof(r->holder), &err) != 0)
        r->holder[0] = 0;
}

/* ------------------------------------------------------------------------------- for people */

static void to_stdout(void *arg, const char *bytes, size_t n)
{
    (void)arg;
    fwrite(bytes, 1, n, stdout);
}

static void label(const char *name)
{
    cli_paint(stdout, "1", name);
    printf("%*s", LABEL - (int)strlen(name), "");
}

static void line(const char *name, struct buf *value)
{
    char *s = buf_cstr(value);

    label(name);
    text_wrap(to_stdout, NULL, s ? s : "", LABEL, LABEL, cli_columns(stdout));
    putchar('\n');
    buf_clear(value);
}

static void amount(struct buf *b, uint64_t n, const char *what)
{
    char count[TEXT_LEN];

    if (n > 0)
        buf_printf(b, "%s%s %s", b->len > 0 ? ", " : "", text_count(n, count), what);
}

static void print_work(const struct report *r, struct buf *b)
{
    const struct store_totals *t = &r->totals;
    const struct store_archive *of = &t->archive;
    char n[TEXT_LEN], m[TEXT_LEN];

    amount(b, t->recordings, text_plural(t->recordings, "recording", "recordings"));
    amount(b, t->places, text_plural(t->places, "place", "places"));
    amount(b, r->gone, "vanished");
    amount(b, t->damaged, "damaged");
    amount(b, t->troubles, text_plural(t->troubles, "path unreadable", "paths unreadable"));
    if (b->len == 0)
        buf_printf(b, "none. Next: nightshift enqueue PATH");
    line("Found", b);
    if (store_archive_all(of) > 0)
        buf_printf(b, "%s of %s %s done", text_count(of->done, n),
                   text_count(store_archive_all(of), m),
                   text_plural(store_archive_all(of), "recording", "recordings"));
    else
        buf_printf(b, "nothing to do");
    amount(b, of->pending, "to do");
    amount(b, of->waiting, "waiting for a transcription");
    amount(b, of->failed, "failed");
    amount(b, of->paused, "paused");
    amount(b, of->cancelled, "cancelled");
    amount(b, of->absent, "gone from the disk");
    line("Work", b);
    buf_printf(b, "%s done", text_length(of->audio_done_ms, n));
    if (of->audio_left_ms > 0)
        buf_printf(b, ", %s left", text_length(of->audio_left_ms, m));
    if (of->unknown > 0)
        buf_printf(b, ", %s of unknown length (%s) to do", text_count(of->unknown, n),
                   text_bytes(of->bytes_unknown, m));
    line("Audio", b);
    buf_printf(b, "%s %s in %s %s", text_count(t->segments, n),
               text_plural(t->segments, "segment", "segments"), text_count(t->shards_done, m),
               text_plural(t->shards_done, "checkpoint", "checkpoints"));
    if (r->speechless > 0)
        buf_printf(b, "; nobody speaks in %s %s", text_count(r->speechless, n),
                   text_plural(r->speechless, "recording", "recordings"));
    line("Results", b);
    if (r->corrections.conflicts > 0) {
        buf_printf(b, "%s %s in conflict with what was heard anew: nightshift correct --conflicts",
                   text_count(r->corrections.conflicts, n),
                   text_plural(r->corrections.conflicts, "correction is", "corrections are"));
        line("Decide", b);
    }
}

static void put_figure(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put_figure(struct buf *b, const char *fmt, ...)
{
    char text[120];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_printf(b, ", %s", text);
}

/* Of those that nobody sees, and that are not left to others, the other lines say all. */
static bool has_figures(const struct control_device *d)
{
    return d->left || d->percent >= 0 || d->celsius >= 0 || d->milliwatts >= 0 ||
           d->total_bytes > 0;
}

static void print_gpu(const struct control_device *d, const char *name, struct buf *b)
{
    char used[TEXT_LEN], total[TEXT_LEN];

    buf_printf(b, "%s: %s", d->name,
               d->left    ? "left to others who use it"
               : d->ready ? "ready"
                          : "not ready");
    if (d->left && d->user[0])
        buf_printf(b, " (%s)", d->user);
    if (d->percent >= 0)
        put_figure(b, "load %lld %%", (long long)d->percent);
    if (d->celsius >= 0)
        put_figure(b,
                   "%lld \xC2\xB0"
                   "C",
                   (long long)d->celsius);
    if (d->milliwatts >= 0)
        put_figure(b, "%.0f W", (double)d->milliwatts / 1000);
    if (d->total_bytes > 0)
        put_figure(b, "memory %s of %s in use", text_bytes((uint64_t)d->used_bytes, used),
                   text_bytes((uint64_t)d->total_bytes, total));
    line(name, b);
}

/* As the driver sees them, whoever uses them. */
static void print_gpus(const struct control_live *l, struct buf *b)
{
    const char *name = "GPUs";

    for (uint32_t i = 0; i < l->devices; i++)
        if (has_figures(&l->device[i])) {
            print_gpu(&l->device[i], name, b);
            name = "";
        }
}

static void print_run(const struct report *r, struct buf *b)
{
    const struct control_live *l = &r->live;
    char a[TEXT_LEN], c[TEXT_LEN], left[PROGRESS_SPAN];

    if (r->running) {
        buf_printf(b, "%s, for %s (pid %u), %u of %u workers ready",
                   l->draining ? "ending at the next checkpoint" : "on",
                   text_length(clock_wall_ms() - l->started_ms, a), l->pid, l->workers_ready,
                   l->workers);
        if (l->speed > 0)
            buf_printf(b, "; %s of audio at %.1f x real time",
                       text_length((int64_t)l->audio_done_ms, c), l->speed);
        if (l->note[0] && !l->draining)
            buf_printf(b, "; %s", l->note);
        if (l->hours[0])
            buf_printf(b, "; it works %s", l->hours);
        if (l->low_ms >= 0) {
            progress_range(l->low_ms, l->high_ms, left);
            buf_printf(b, "; %s left", left);
        }
    } else if (r->holder[0] != 0)
        buf_printf(b, "none; the catalog is held by %s", r->holder);
    else
        buf_printf(b, "none%s",
                   r->totals.tasks_pending > 0 && !r->totals.paused ? " is on. Next: nightshift run"
                                                                    : " is on");
    if (r->totals.paused)
        buf_printf(b, "; the catalog is paused. Next: nightshift resume");
    line("Run", b);
    if (r->running)
        print_gpus(l, b);
    if (r->running && l->work[0]) {
        const struct progress p = {
            .work = l->work, .work_percent = (int)l->work_percent, .work_more = l->work_more};
        char work[PROGRESS_LINE];

        progress_work(&p, cli_columns(stdout) - LABEL, work);
        buf_printf(b, "%s", work);
        line("In work", b);
    }
}

struct source {
    int64_t stage_id;
    struct buf *out;
};

static int put_source(void *arg, const struct read_progress *p)
{
    struct source *x = arg;
    char *model;

    if (p->stage_id != x->stage_id)
        return 0;
    model = text_fit(p->model, 40);
    buf_printf(x->out, " of the text of %s", model ? model : "");
    stage_params_words(p->stage, p->params_json, x->out);
    free(model);
    return 1;
}

static int count_transcriptions(void *arg, const struct read_progress *p)
{
    ((struct report *)arg)->transcriptions += strcmp(p->stage, stage_transcribe.name) == 0;
    return 0;
}

static uint64_t unused_of(const struct report *r, const struct read_progress *p)
{
    uint64_t n = p->superseded;
    struct err none = {0};

    return p->superseded == 0 || read_unused(r->store, p->stage_id, &n, &none) != 0 ? p->superseded
                                                                                    : n;
}

/* What is pinned, or current until what is asked for now is done, is not superseded. */
static void put_superseded(const struct report *r, const struct read_progress *p, struct buf *out)
{
    const uint64_t unused = unused_of(r, p), used = p->superseded - unused;
    char n[TEXT_LEN];

    if (used > 0)
        buf_printf(out, "%s %s current still", p->tasks > 0 ? "," : "", text_count(used, n));
    if (unused > 0)
        buf_printf(out, "%s %s superseded", p->tasks + used > 0 ? "," : "", text_count(unused, n));
}

static int print_stage(void *arg, const struct read_progress *p)
{
    struct report *r = arg;
    struct buf b = BUF_INIT;
    char n[TEXT_LEN], m[TEXT_LEN], *model = text_fit(p->model, 40);
    struct err none = {0};

    if (p->tasks + p->superseded == 0) { /* all of it was forgotten */
        free(model);
        return 0;
    }
    buf_printf(&b, "%s with %s", p->stage, model ? model : "");
    stage_params_words(p->stage, p->params_json, &b);
    if (p->source_id != 0 && r->transcriptions > 1)
        (void)read_progress(r->store, put_source, &(struct source){p->source_id, &b}, &none);
    buf_printf(&b, ":");
    if (p->tasks > 0)
        buf_printf(&b, " %s of %s done", text_count(p->done, n), text_count(p->tasks, m));
    if (p->failed > 0)
        buf_printf(&b, ", %s failed", text_count(p->failed, n));
    if (p->waiting > 0)
        buf_printf(&b, ", %s %s for the transcription%s", text_count(p->waiting, n),
                   text_plural(p->waiting, "waits", "wait"),
                   r->totals.tasks_pending > 0 || r->running
                       ? ""
                       : ", which failed, was cancelled, or is paused");
    if (p->settling > 0)
        buf_printf(&b, ", %s to be settled", text_count(p->settling, n));
    put_superseded(r, p, &b);
    if (stages_aside_why(r->aside, p))
        buf_printf(&b, "; put aside by the last run: %s", stages_aside_why(r->aside, p));
    buf_printf(&b, " (stage %lld)", (long long)p->stage_id);
    line(r->shown++ == 0 ? "Stages" : "", &b);
    buf_free(&b);
    free(model);
    return 0;
}

static uint64_t tasks_of(const struct read_job *j)
{
    return j->tasks_pending + j->tasks_done + j->tasks_failed + j->tasks_cancelled;
}

/* One that added nothing is listed only where all of them are asked for. */
static bool is_shown(const struct report *r, const struct read_job *j)
{
    return r->wanted->jobs || tasks_of(j) > 0 || j->ended_at[0] == 0;
}

static const char *behind(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(s, prefix, n) == 0 ? s + n : s;
}

/* An enqueue for several stages makes as many jobs. */
static bool is_command_of_before(struct report *r, const struct read_job *j)
{
    if (r->command && strcmp(r->command, j->command) == 0)
        return true;
    free(r->command);
    r->command = strdup(j->command);
    r->command_of = j->job_id;
    return false;
}

/* Under the job that it was, or behind it where there is room. */
static void print_command(const struct read_job *j, size_t column)
{
    const char *said = behind(behind(j->command, "nightshift "), "enqueue ");
    unsigned columns = cli_columns(stdout);
    char *lines, *second;

    if (column + 2 + text_width(said) <= columns) {
        printf("  %s\n", said);
        return;
    }
    lines = text_fit_lines(said, columns - LABEL - 4);
    second = lines ? strchr(lines, '\n') : NULL;
    if (second)
        *second++ = 0;
    printf("\n%*s%s\n", LABEL + 4, "", lines ? lines : said);
    if (second)
        printf("%*s%s\n", LABEL + 4, "", second);
    free(lines);
}

static int print_job(void *arg, const struct read_job *j)
{
    struct report *r = arg;
    char head[160], done[TEXT_LEN], all[TEXT_LEN];

    if (!is_shown(r, j) || (!r->wanted->jobs && r->jobs++ + JOBS_SHOWN < j->with_tasks))
        return 0;
    snprintf(head, sizeof(head), "#%lld  %.10s %.5s  %.20s: %s of %s done%s%s",
             (long long)j->job_id, j->created_at,
             strlen(j->created_at) > 11 ? j->created_at + 11 : "", j->stage,
             text_count(j->tasks_done, done), text_count(tasks_of(j), all),
             strcmp(j->priority, "high") == 0  ? ", high priority"
             : strcmp(j->priority, "low") == 0 ? ", low priority"
                                               : "",
             j->ended_at[0] ? "" : " (walk not ended)");
    label(r->shown++ == 0 ? "Jobs" : "");
    fputs(head, stdout);
    if (is_command_of_before(r, j))
        printf("  (command of #%lld)\n", (long long)r->command_of);
    else
        print_command(j, LABEL + strlen(head));
    return 0;
}

static void print_name(const char *path, const char *member, size_t width)
{
    struct buf b = BUF_INIT;
    char *whole, *fit = NULL;

    buf_printf(&b, "%s%s%s", path, member[0] ? "//" : "", member);
    whole = buf_cstr(&b);
    if (whole)
        fit = text_fit(whole, width);
    puts(fit ? fit : path);
    free(fit);
    buf_free(&b);
}

static int print_failure(void *arg, const struct read_failure *f)
{
    struct report *r = arg;
    char *reason, *said;
    unsigned columns = cli_columns(stdout);

    if (!r->wanted->failures && r->shown == FAILURES_SHOWN) {
        r->skipped++;
        return 0;
    }
    if (r->shown++ == 0) {
        putchar('\n');
        cli_paint(stdout, "1", "Failures");
        putchar('\n');
    }
    cli_paint(stdout, "31", f->kind);
    printf("%*s", LABEL - (int)strlen(f->kind), "");
    print_name(f->path, f->member, columns - LABEL);
    printf("%*s", LABEL, "");
    if (asprintf(&said, "%s%s%s", f->stage, f->stage[0] ? ": " : "", f->reason) < 0)
        return 1;
    reason = utf8_display(said, strlen(said));
    free(said);
    text_wrap(to_stdout, NULL, reason ? reason : "", LABEL, LABEL, columns);
    putchar('\n');
    free(reason);
    return 0;
}

static int print_event(void *arg, const struct read_event *e)
{
    struct report *r = arg;
    struct buf b = BUF_INIT;
    char *s;

    if (r->shown++ == 0) {
        putchar('\n');
        cli_paint(stdout, "1", "Events");
        putchar('\n');
    }
    buf_printf(&b, "%.19sZ %s%s%s%s%s", e->at, e->kind, e->device[0] ? " " : "", e->device,
               e->text[0] ? ": " : "", e->text);
    if (e->path[0])
        buf_printf(&b, " (%s)", e->path);
    s = utf8_display(b.data, b.len);
    text_wrap(to_stdout, NULL, s ? s : "", 0, 2, cli_columns(stdout));
    putchar('\n');
    free(s);
    buf_free(&b);
    return 0;
}

/* How full a device gets, against what was foretold. */
static int print_device(void *arg, const struct store_tuning_row *row)
{
    const struct store_tuning *t = &row->tuning;
    char peak[TEXT_LEN], predicted[TEXT_LEN];
    struct report *r = arg;
    struct buf b = BUF_INIT;

    buf_printf(&b, "%s, %s%s%s: %u slots, encoding %u at once", row->key.device_id,
               row->key.precision, row->key.decoding[0] ? ", " : "", row->key.decoding, t->slots,
               t->windows);
    if (t->rate > 0)
        buf_printf(&b, ", %.3g x real time", t->rate);
    if (t->peak_bytes > 0)
        buf_printf(&b, "; memory %s", text_bytes(t->peak_bytes, peak));
    if (t->peak_bytes > 0 && t->predicted_bytes > 0)
        buf_printf(&b, " of %s predicted", text_bytes(t->predicted_bytes, predicted));
    if (t->oom_count > 0)
        buf_printf(&b, "; lowered %u times for lack of memory", t->oom_count);
    line(r->shown++ == 0 ? "Devices" : "", &b);
    buf_free(&b);
    return 0;
}

static int json_device(void *arg, const struct store_tuning_row *row)
{
    const struct store_tuning *t = &row->tuning;
    struct report *r = arg;
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:I, s:I, s:i, s:s}", "device_id",
                  row->key.device_id, "driver", row->key.driver, "model_hash", row->key.model_hash,
                  "precision", row->key.precision, "decoding", row->key.decoding, "slots",
                  (int)t->slots, "windows", (int)t->windows, "times_real_time", t->rate,
                  "predicted_bytes", (json_int_t)t->predicted_bytes, "peak_bytes",
                  (json_int_t)t->peak_bytes, "oom_count", (int)t->oom_count, "at", row->at);

    if (!o || json_array_append_new(r->rows, o) != 0)
        r->no_memory = true;
    return r->no_memory;
}

static int print_jobs(struct report *r, struct err *err)
{
    r->jobs = r->shown = 0;
    return read_jobs(r->store, print_job, r, err);
}

static int print_ways_out(struct report *r, struct err *err)
{
    struct buf b = BUF_INIT;
    int rc = stages_aside_ways_out(r->store, r->aside, &b, err);

    if (rc == 0 && b.len > 0) {
        buf_printf(&b, "; else the next run tries again");
        line("", &b);
    }
    buf_free(&b);
    return rc;
}

static int print_report(struct report *r, struct err *err)
{
    struct buf b = BUF_INIT;
    char *shown = utf8_display(store_path(r->store), strlen(store_path(r->store)));
    char *path = shown ? text_fit(shown, cli_columns(stdout) - LABEL) : NULL, n[TEXT_LEN];
    int rc;

    label("Catalog");
    puts(path ? path : "");
    print_work(r, &b);
    print_run(r, &b);
    buf_free(&b);
    free(path);
    free(shown);
    r->shown = 0;
    rc = read_progress(r->store, count_transcriptions, r, err);
    if (rc == 0)
        rc = read_progress(r->store, print_stage, r, err);
    if (rc == 0)
        rc = print_ways_out(r, err);
    r->shown = 0;
    if (rc == 0)
        rc = store_tuning_each(r->store, print_device, r, err);
    if (rc == 0 && (!r->wanted->watch || r->wanted->jobs))
        rc = print_jobs(r, err);
    r->shown = r->skipped = 0;
    if (rc == 0 && (!r->wanted->watch || r->wanted->failures))
        rc = read_failures(r->store, NULL, 0, print_failure, r, err);
    if (r->skipped > 0)
        printf("... and %s more: nightshift status --failures\n", text_count(r->skipped, n));
    r->shown = 0;
    if (rc == 0 && r->wanted->events)
        rc = read_events(r->store, 0, 40, print_event, r, err);
    return rc;
}

/* As the run's own line. */
static void print_line(const struct report *r)
{
    const struct store_archive *a = &r->totals.archive;
    const struct progress p = {
        .done = a->done,
        .all = store_archive_all(a),
        .failed = a->failed,
        .paused = a->paused,
        .cancelled = a->cancelled,
        .gone = a->absent,
        .audio_done_ms = a->audio_done_ms,
        .audio_all_ms = -1,
        .speed = r->live.speed,
        .low_ms = r->running ? r->live.low_ms : -1,
        .high_ms = r->running ? r->live.high_ms : -1,
        .note = r->running ? r->live.note : "no run is on",
        .work = r->live.work[0] ? r->live.work : NULL,
        .work_percent = (int)r->live.work_percent,
        .work_more = r->live.work_more,
    };
    char text[PROGRESS_LINE];

    progress_line(&p, 160, text);
    puts(text);
}

/* ------------------------------------------------------------------------------- for programs */

static int append(struct report *r, json_t *o)
{
    if (!o || json_array_append_new(r->rows, o) != 0) {
        r->no_memory = true;
        return 1;
    }
    return 0;
}

static int json_stage(void *arg, const struct read_progress *p)
{
    const struct report *r = arg;
    const uint64_t unused = unused_of(r, p);

    return append(
        arg, json_pack("{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
                       "s:I, s:I, s:I, s:s?}",
                       "stage", (json_int_t)p->stage_id, "source", (json_int_t)p->source_id, "name",
                       p->stage, "model", p->model, "params", p->params_json, "waiting_for_source",
                       (json_int_t)p->waiting, "settling", (json_int_t)p->settling, "tasks",
                       (json_int_t)p->tasks, "done", (json_int_t)p->done, "pending",
                       (json_int_t)p->pending, "failed", (json_int_t)p->failed, "cancelled",
                       (json_int_t)p->cancelled, "paused", (json_int_t)p->paused, "superseded",
                       (json_int_t)unused, "current_still", (json_int_t)(p->superseded - unused),
                       "audio_known_ms", (json_int_t)p->audio_known_ms, "audio_done_ms",
                       (json_int_t)p->audio_done_ms, "put_aside", stages_aside_why(r->aside, p)));
}

static int json_job(void *arg, const struct read_job *j)
{
    return append(
        arg,
        json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                  "job", (json_int_t)j->job_id, "created_at", j->created_at, "ended_at",
                  j->ended_at, "command", j->command, "stage", j->stage, "model", j->model,
                  "priority", j->priority, "recordings", (json_int_t)j->counts.seen, "new",
                  (json_int_t)j->counts.added, "changed", (json_int_t)j->counts.changed, "vanished",
                  (json_int_t)j->counts.vanished, "pending", (json_int_t)j->tasks_pending, "done",
                  (json_int_t)j->tasks_done, "failed", (json_int_t)j->tasks_failed, "cancelled",
                  (json_int_t)j->tasks_cancelled));
}

static int json_failure(void *arg, const struct read_failure *f)
{
    return append(arg, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i}", "kind", f->kind,
                                 "path", f->path, "member", f->member, "code", f->code, "reason",
                                 f->reason, "stage", f->stage, "at", f->at, "recording",
                                 (json_int_t)f->media_id, "attempts", (int)f->attempts));
}

static int json_event(void *arg, const struct read_event *e)
{
    return append(arg,
                  json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I}", "event", (json_int_t)e->event_id,
                            "at", e->at, "kind", e->kind, "device", e->device, "text", e->text,
                            "path", e->path, "recording", (json_int_t)e->media_id));
}

static json_t *json_time(int64_t ms) { return ms >= 0 ? json_integer(ms) : json_null(); }

static json_t *json_work(const struct control_live *l)
{
    if (!l->work[0])
        return json_null();
    return json_pack("{s:s, s:o, s:I}", "recording", l->work, "percent", json_time(l->work_percent),
                     "more", (json_int_t)l->work_more);
}

static json_t *json_archive(const struct store_archive *a)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "pending",
                     (json_int_t)a->pending, "waiting", (json_int_t)a->waiting, "done",
                     (json_int_t)a->done, "failed", (json_int_t)a->failed, "cancelled",
                     (json_int_t)a->cancelled, "paused", (json_int_t)a->paused, "absent",
                     (json_int_t)a->absent, "audio_known_ms", (json_int_t)a->audio_known_ms,
                     "audio_done_ms", (json_int_t)a->audio_done_ms, "audio_left_ms",
                     (json_int_t)a->audio_left_ms, "unknown_lengths", (json_int_t)a->unknown);
}

/* Of the run's devices, in order. null: not known. */
static json_t *json_gpus(const struct control_live *l)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < l->devices; i++) {
        const struct control_device *d = &l->device[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:o}", "device", d->name, "ready",
                      (int)d->ready, "left_to_others", (int)d->left, "used_by", d->user,
                      "load_percent", json_time(d->percent), "temperature_c", json_time(d->celsius),
                      "power_mw", json_time(d->milliwatts), "used_bytes", json_time(d->used_bytes),
                      "total_bytes", json_time(d->total_bytes)));
    }
    return list;
}

static json_t *json_run(const struct report *r)
{
    const struct control_live *l = &r->live;
    char at[CLOCK_ISO_LEN];

    if (!r->running)
        return json_null();
    clock_iso8601(l->started_ms, at);
    return json_pack("{s:I, s:s, s:i, s:i, s:I, s:f, s:o, s:o, s:o, s:b, s:s, s:s, s:o, s:o}",
                     "pid", (json_int_t)l->pid, "started_at", at, "workers", (int)l->workers,
                     "workers_ready", (int)l->workers_ready, "audio_done_ms",
                     (json_int_t)l->audio_done_ms, "speed", l->speed, "eta_ms",
                     json_time(l->low_ms < 0 ? -1 : progress_middle(l->low_ms, l->high_ms)),
                     "eta_low_ms", json_time(l->low_ms), "eta_high_ms", json_time(l->high_ms),
                     "draining", (int)l->draining, "note", l->note, "hours", l->hours, "in_work",
                     json_work(l), "devices", json_gpus(l));
}

static json_t *json_totals(const struct report *r)
{
    const struct store_totals *t = &r->totals;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, "
        "s:I, s:I}, s:b}",
        "recordings", (json_int_t)t->recordings, "places", (json_int_t)t->places, "vanished",
        (json_int_t)r->gone, "damaged", (json_int_t)t->damaged, "unreadable",
        (json_int_t)t->troubles, "segments", (json_int_t)t->segments, "checkpoints",
        (json_int_t)t->shards_done, "tasks", "pending", (json_int_t)t->tasks_pending, "done",
        (json_int_t)t->tasks_done, "failed", (json_int_t)t->tasks_failed, "cancelled",
        (json_int_t)t->tasks_cancelled, "paused", (json_int_t)t->tasks_paused, "absent",
        (json_int_t)t->tasks_absent, "audio", "known_ms", (json_int_t)t->audio_known_ms, "done_ms",
        (json_int_t)t->audio_done_ms, "left_ms", (json_int_t)t->audio_left_ms, "unknown_tasks",
        (json_int_t)t->tasks_unknown, "pending_bytes", (json_int_t)t->bytes_pending, "paused",
        (int)t->paused);
}

/* Runs one of the readings with its rows in a new array at o[name]. */
static void begin_rows(struct report *r, json_t *o, const char *name)
{
    r->rows = json_array();
    if (!r->rows || json_object_set_new(o, name, r->rows) != 0)
        r->no_memory = true;
}

/* store_path is as the user gave it: any bytes. */
static json_t *json_path(const char *path)
{
    char *shown = utf8_display(path, strlen(path));
    json_t *ret = shown ? json_string(shown) : NULL;

    free(shown);
    return ret;
}

static int print_json(struct report *r, struct err *err)
{
    json_t *o = json_totals(r);
    int rc = 0;

    if (!o || json_object_set_new(o, "catalog", json_path(store_path(r->store))) != 0 ||
        json_object_set_new(o, "archive", json_archive(&r->totals.archive)) != 0 ||
        json_object_set_new(o, "without_speech", json_integer((json_int_t)r->speechless)) != 0 ||
        json_object_set_new(o, "corrections", json_integer((json_int_t)r->corrections.kept)) != 0 ||
        json_object_set_new(o, "conflicts", json_integer((json_int_t)r->corrections.conflicts)) !=
            0 ||
        json_object_set_new(o, "schema", json_integer(store_schema_version(r->store))) != 0 ||
        json_object_set_new(o, "run", json_run(r)) != 0)
        r->no_memory = true;
    if (!r->no_memory)
        begin_rows(r, o, "stages");
    if (!r->no_memory)
        rc = read_progress(r->store, json_stage, r, err);
    if (rc == 0 && !r->no_memory)
        begin_rows(r, o, "devices");
    if (rc == 0 && !r->no_memory)
        rc = store_tuning_each(r->store, json_device, r, err);
    if (rc == 0 && !r->no_memory)
        begin_rows(r, o, "jobs");
    if (rc == 0 && !r->no_memory)
        rc = read_jobs(r->store, json_job, r, err);
    if (rc == 0 && !r->no_memory)
        begin_rows(r, o, "failures");
    if (rc == 0 && !r->no_memory)
        rc = read_failures(r->store, NULL, 0, json_failure, r, err);
    if (rc == 0 && !r->no_memory && r->wanted->events) {
        begin_rows(r, o, "events");
        rc = r->no_memory ? 0 : read_events(r->store, 0, 0, json_event, r, err);
    }
    if (r->no_memory)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        json_dumpf(o, stdout, r->wanted->watch ? JSON_COMPACT : JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(o);
    return rc;
}

/* Everything, once. *running: a run is on. */
static int look(const struct cli *cli, const struct wanted *w, bool *running, struct err *err)
{
    struct report r = {.wanted = w};
    int rc = store_open(cli->catalog, STORE_READ, &r.store, err);

    *running = false;
    if (rc == 0) {
        look_at_run(&r, cli->catalog);
        *running = r.running;
        rc = store_totals(r.store, &r.totals, err);
    }
    if (rc == 0)
        rc = stages_aside_read(r.store, &r.aside, err);
    if (rc == 0)
        rc = store_speechless(r.store, &r.speechless, err);
    if (rc == 0)
        rc = store_gone(r.store, &r.gone, err);
    if (rc == 0)
        rc = read_correction_counts(r.store, 0, &r.corrections, err);
    if (rc == 0 && cli->json)
        rc = print_json(&r, err);
    else if (rc == 0 && w->watch && !isatty(STDOUT_FILENO))
        print_line(&r);
    else if (rc == 0)
        rc = print_report(&r, err);
    free(r.command);
    stages_aside_free(r.aside);
    store_close(r.store);
    return rc;
}

/* What fits a screen of so many rows (0: any number), where the cursor comes to stand behind it. */
static void put_screen(const char *text, unsigned rows)
{
    const char *end = text;
    size_t lines = 0, shown;

    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    shown = rows > 0 && lines >= rows ? (rows > 2 ? rows - 2 : 0) : lines;
    for (size_t i = 0; i < shown; i++)
        end = strchr(end, '\n') + 1;
    fputs("\033[H\033[J", stdout);
    fwrite(text, 1, (size_t)(end - text), stdout);
    if (shown < lines)
        printf("... %zu more lines", lines - shown);
}

/* One look over the last one, in one write. */
static int look_in_place(const struct cli *cli, const struct wanted *w, bool *running,
                         struct err *err)
{
    FILE *terminal = stdout;
    char *text = NULL;
    size_t len = 0;
    int rc;

    stdout = open_memstream(&text, &len);
    if (!stdout) {
        stdout = terminal;
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    rc = look(cli, w, running, err);
    if (fclose(stdout) != 0 && rc == 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    stdout = terminal;
    if (rc == 0)
        put_screen(text, *running ? cli_rows() : 0);
    free(text);
    return rc;
}

/* Until the run ends, whose end is shown as a whole. */
static int watch(const struct cli *cli, const struct wanted *w, struct err *err)
{
    const bool in_place = isatty(STDOUT_FILENO) && !cli->json;
    bool running;
    int rc;

    if (in_place)
        setvbuf(stdout, NULL, _IOFBF, SCREEN_BYTES);
    for (;;) {
        rc = (in_place ? look_in_place : look)(cli, w, &running, err);
        if (rc != 0 || !running || fflush(stdout) != 0)
            return rc;
        usleep(WATCH_US);
    }
}

int cmd_status(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "wfje", longs, take, true, NULL};
    struct wanted w = {0};
    struct err err = {0};
    bool running;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no '%s'; `nightshift show` is about one recording",
                         argv[optind]);
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if ((w.watch ? watch(cli, &w, &err) : look(cli, &w, &running, &err)) != 0)
        status = cli_fail("read the catalog", &err, NULL);
    else
        status = EX_OK;
    return cli_flush(status);
}
