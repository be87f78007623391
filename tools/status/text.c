/* Status for people. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "scheduler/run/archive.h"
#include "store/tuning.h"
#include "tools/cli/account.h"
#include "tools/cli/cli.h"
#include "tools/demo_model.h"
#include "tools/enqueue/stages/stage_params_words.h"
#include "tools/status/status.h"
#include "tools/cli/text.h"
#include "workers/stages/stage_kind.h"

#define JOBS_SHOWN 5
#define EVENTS_SHOWN 40
#define LABEL 12 /* columns of the labels on the left */

struct page {
    const struct status *s;
    const struct status_wanted *w;
    FILE *out;
    unsigned columns;
    uint32_t transcriptions; /* stages that are */
    unsigned demo;           /* something was made with these of tools/demo_model.h */
    /* While rows are written: */
    uint64_t shown, skipped, jobs;
    char *command; /* of the job command_of, and of those since; owned */
    int64_t command_of;
    int job_width; /* of the jobs' numbers */
};

static void print_label(struct page *page, const char *name)
{
    cli_paint(page->out, "1", name);
    fprintf(page->out, "%*s", LABEL - (int)strlen(name), "");
}

static void print_label_value(struct page *page, const char *name, struct buf *value)
{
    char *s = buf_cstr(value);

    print_label(page, name);
    cli_wrap(page->out, s ? s : "", LABEL, LABEL);
    buf_clear(value);
}

/* Prints a heading before the first row of its part of the page. */
static void print_heading(struct page *page, const char *name)
{
    if (page->shown++ > 0)
        return;
    putc('\n', page->out);
    cli_paint(page->out, "1", name);
    putc('\n', page->out);
}

static void append_count(struct buf *b, uint64_t n, const char *what)
{
    char count[TEXT_LEN];

    if (n > 0)
        buf_printf(b, "%s%s %s", b->len > 0 ? ", " : "", text_count(n, count), what);
}

static void put_work(struct page *page, struct buf *b)
{
    const struct status *s = page->s;
    const struct store_totals *t = &s->totals;
    const struct store_archive *of = &t->archive;
    char n[TEXT_LEN], m[TEXT_LEN];

    append_count(b, t->recordings, text_plural(t->recordings, "recording", "recordings"));
    append_count(b, t->places, text_plural(t->places, "place", "places"));
    append_count(b, s->gone, "vanished");
    append_count(b, t->damaged, "damaged");
    append_count(b, t->troubles, text_plural(t->troubles, "path unreadable", "paths unreadable"));
    if (b->len == 0)
        buf_printf(b, "none. Next: nightshift enqueue PATH");
    print_label_value(page, "Found", b);
    if (store_archive_all(of) > 0)
        buf_printf(b, "%s of %s %s done", text_count(of->done, n),
                   text_count(store_archive_all(of), m),
                   text_plural(store_archive_all(of), "recording", "recordings"));
    else
        buf_printf(b, "nothing to do");
    append_count(b, of->pending, "to do");
    append_count(b, of->waiting, "waiting for a transcription");
    append_count(b, of->failed, "failed");
    append_count(b, of->paused, "paused");
    append_count(b, of->cancelled, "cancelled");
    append_count(b, of->absent, "gone from the disk");
    print_label_value(page, "Work", b);
    buf_printf(b, "%s done", text_length(of->audio_done_ms, n));
    if (of->audio_left_ms > 0)
        buf_printf(b, ", %s left", text_length(of->audio_left_ms, m));
    if (of->unknown > 0)
        buf_printf(b, ", %s of unknown length (%s) to do", text_count(of->unknown, n),
                   text_bytes(of->bytes_unknown, m));
    print_label_value(page, "Audio", b);
    buf_printf(b, "%s %s in %s %s", text_count(t->segments, n),
               text_plural(t->segments, "segment", "segments"), text_count(t->shards_done, m),
               text_plural(t->shards_done, "checkpoint", "checkpoints"));
    if (s->no_sound > 0)
        buf_printf(b, "; %s %s no sound", text_count(s->no_sound, n),
                   text_plural(s->no_sound, "recording has", "recordings have"));
    print_label_value(page, "Results", b);
    for (int i = 0; i < TEXTLESS_KINDS; i++)
        if (textless_say(s->textless, (enum store_textless)i, b))
            print_label_value(page, "", b);
    if (account_known(&t->account)) {
        account_say(&t->account, "doubts --missing", b);
        print_label_value(page, "Speech", b);
    }
    if (s->corrections.conflicts > 0) {
        buf_printf(b,
                   "%s %s in conflict with a newer transcription: nightshift correct --conflicts",
                   text_count(s->corrections.conflicts, n),
                   text_plural(s->corrections.conflicts, "correction is", "corrections are"));
        print_label_value(page, "Decide", b);
    }
}

static void put_figure(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put_figure(struct buf *b, const char *fmt, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_printf(b, ", %s", text);
}

/* Has the driver any figures for it, or is it left to others? If not, the other lines say all. */
static bool has_figures(const struct control_device *d)
{
    return d->left || d->health[0] || d->percent >= 0 || d->celsius >= 0 || d->milliwatts >= 0 ||
           d->total_bytes > 0;
}

static void put_gpu(struct page *page, const struct control_device *d, const char *name,
                    struct buf *b)
{
    char used[TEXT_LEN], total[TEXT_LEN];

    buf_printf(b, "%s: %s", d->name,
               d->left    ? "in use by others"
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
    if (d->health[0])
        put_figure(b, "%s", d->health);
    print_label_value(page, name, b);
}

/* Shows the driver's figures, whoever uses the GPUs. */
static void put_gpus(struct page *page, const struct control_live *l, struct buf *b)
{
    const char *name = "GPUs";

    for (uint32_t i = 0; i < l->devices; i++)
        if (has_figures(&l->device[i])) {
            put_gpu(page, &l->device[i], name, b);
            name = "";
        }
}

static void put_run(struct page *page, struct buf *b)
{
    const struct status *s = page->s;
    const struct control_live *l = &s->live;
    char a[TEXT_LEN], c[TEXT_LEN], left[PROGRESS_SPAN];

    if (s->on) {
        buf_printf(b, "%s, for %s (pid %u), %u of %u %s ready",
                   l->draining ? "ending at the next checkpoint" : "on",
                   text_length(clock_wall_ms() - l->started_ms, a), l->pid, l->workers_ready,
                   l->workers, text_plural(l->workers, "worker", "workers"));
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
    } else if (s->holder[0] != 0)
        buf_printf(b, "none; the catalog is in use by %s", s->holder);
    else
        buf_printf(b, "none%s",
                   s->totals.tasks_pending > 0 && !s->totals.paused ? ". Next: nightshift run"
                                                                    : "");
    if (s->totals.paused)
        buf_printf(b, "; the catalog is paused. Next: nightshift resume");
    print_label_value(page, "Run", b);
    if (s->on)
        put_gpus(page, l, b);
    if (s->on && l->work[0]) {
        const struct progress p = {
            .work = l->work, .work_percent = (int)l->work_percent, .work_more = l->work_more};
        char work[PROGRESS_LINE];

        progress_work(&p, page->columns - LABEL, work);
        buf_printf(b, "%s", work);
        print_label_value(page, "In work", b);
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
    ((struct page *)arg)->transcriptions += strcmp(p->stage, stage_transcribe.name) == 0;
    return 0;
}

/* Results that are pinned, or current until their replacement is done, still count as current. */
static void put_superseded(const struct status *s, const struct read_progress *p, struct buf *out)
{
    const uint64_t unused = status_unused(s, p), used = p->superseded - unused;
    char n[TEXT_LEN];

    if (used > 0)
        buf_printf(out, "%s %s current still", p->tasks > 0 ? "," : "", text_count(used, n));
    if (unused > 0)
        buf_printf(out, "%s %s superseded", p->tasks + used > 0 ? "," : "", text_count(unused, n));
}

static int put_stage(void *arg, const struct read_progress *p)
{
    struct page *page = arg;
    const struct status *s = page->s;
    struct buf b = BUF_INIT;
    char n[TEXT_LEN], m[TEXT_LEN], *model = text_fit(p->model, 40);
    struct err none = {0};

    if (p->tasks + p->superseded == 0) { /* all of it was forgotten */
        free(model);
        return 0;
    }
    if (p->done + p->superseded > 0)
        page->demo |= demo_model(p->model, p->model_hash);
    buf_printf(&b, "%s with %s", p->stage, model ? model : "");
    stage_params_words(p->stage, p->params_json, &b);
    if (p->source_id != 0 && page->transcriptions > 1)
        (void)read_progress(s->store, put_source, &(struct source){p->source_id, &b}, &none);
    buf_printf(&b, ":");
    if (p->tasks > 0)
        buf_printf(&b, " %s of %s done", text_count(p->done, n), text_count(p->tasks, m));
    if (p->failed > 0)
        buf_printf(&b, ", %s failed", text_count(p->failed, n));
    if (p->waiting > 0)
        buf_printf(&b, ", %s %s for the transcription%s", text_count(p->waiting, n),
                   text_plural(p->waiting, "waits", "wait"),
                   s->totals.tasks_pending > 0 || s->on
                       ? ""
                       : ", which failed, was cancelled or is paused");
    if (p->settling > 0)
        buf_printf(&b, ", %s to finalize", text_count(p->settling, n));
    put_superseded(s, p, &b);
    if (disabled_stages_why(s->disabled, p))
        buf_printf(&b, "; disabled in the last run: %s", disabled_stages_why(s->disabled, p));
    buf_printf(&b, " (stage %lld)", (long long)p->stage_id);
    print_label_value(page, page->shown++ == 0 ? "Stages" : "", &b);
    buf_free(&b);
    free(model);
    return 0;
}

static void put_demo(struct page *page)
{
    struct buf b = BUF_INIT;

    buf_printf(&b, "%s", demo_model_made(page->demo));
    if (page->demo)
        print_label_value(page, "Model", &b);
    buf_free(&b);
}

static uint64_t tasks_of(const struct read_job *j)
{
    return j->tasks_pending + j->tasks_done + j->tasks_failed + j->tasks_cancelled;
}

/* One that added nothing is listed only where all of them are asked for. */
static bool is_shown(const struct page *page, const struct read_job *j)
{
    return page->w->jobs || tasks_of(j) > 0 || j->ended_at[0] == 0;
}

static const char *skip_prefix(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(s, prefix, n) == 0 ? s + n : s;
}

/* An enqueue for several stages makes as many jobs. */
static bool is_command_of_before(struct page *page, const struct read_job *j)
{
    if (page->command && strcmp(page->command, j->command) == 0)
        return true;
    free(page->command);
    page->command = strdup(j->command);
    page->command_of = j->job_id;
    return false;
}

/* Under the job that it was, or behind it where there is room. */
static void put_command(const struct page *page, const char *said, size_t column)
{
    char *lines, *second;

    if (column + 2 + text_width(said) <= page->columns) {
        fprintf(page->out, "  %s\n", said);
        return;
    }
    lines = text_fit_lines(said, page->columns - LABEL - 4);
    second = lines ? strchr(lines, '\n') : NULL;
    if (second)
        *second++ = 0;
    fprintf(page->out, "\n%*s%s\n", LABEL + 4, "", lines ? lines : said);
    if (second)
        fprintf(page->out, "%*s%s\n", LABEL + 4, "", second);
    free(lines);
}

/* Puts a job's notes: below it, like its command, if its line has no room. Returns the column. */
static size_t put_notes(const struct page *page, const struct read_job *j, size_t column)
{
    bool high = strcmp(j->priority, "high") == 0, low = strcmp(j->priority, "low") == 0;
    char notes[64];
    size_t skip = 0;

    snprintf(notes, sizeof(notes), "%s%s",
             high  ? ", high priority"
             : low ? ", low priority"
                   : "",
             j->ended_at[0] ? "" : " (search for files not finished)");
    if (notes[0] && column + strlen(notes) > page->columns) {
        fprintf(page->out, "\n%*s", LABEL + 4, "");
        column = LABEL + 4;
        skip = notes[0] == ',' ? 2 : 1;
    }
    fputs(notes + skip, page->out);
    return column + strlen(notes + skip);
}

static int update_job_width(void *arg, const struct read_job *j)
{
    struct page *page = arg;

    if (is_shown(page, j))
        page->job_width = snprintf(NULL, 0, "#%lld", (long long)j->job_id);
    return 0;
}

static int put_job(void *arg, const struct read_job *j)
{
    struct page *page = arg;
    char number[24], head[160], of[48], done[TEXT_LEN], all[TEXT_LEN];
    size_t column;

    if (!is_shown(page, j) || (!page->w->jobs && page->jobs++ + JOBS_SHOWN < j->with_tasks))
        return 0;
    snprintf(number, sizeof(number), "#%lld", (long long)j->job_id);
    snprintf(head, sizeof(head), "%*s  %.10s %.5s  %.20s: %s of %s done", page->job_width, number,
             j->created_at, strlen(j->created_at) > 11 ? j->created_at + 11 : "", j->stage,
             text_count(j->tasks_done, done), text_count(tasks_of(j), all));
    print_label(page, page->shown++ == 0 ? "Jobs" : "");
    fputs(head, page->out);
    column = put_notes(page, j, LABEL + strlen(head));
    snprintf(of, sizeof(of), "(command of #%lld)", (long long)page->command_of);
    put_command(page,
                is_command_of_before(page, j)
                    ? of
                    : skip_prefix(skip_prefix(j->command, "nightshift "), "enqueue "),
                column);
    return 0;
}

static void put_name(const struct page *page, const char *path, const char *member)
{
    struct buf b = BUF_INIT;
    char *whole, *fit = NULL;

    buf_printf(&b, "%s%s%s", path, member[0] ? "//" : "", member);
    whole = buf_cstr(&b);
    if (whole)
        fit = text_fit(whole, page->columns - LABEL);
    fprintf(page->out, "%s\n", fit ? fit : path);
    free(fit);
    buf_free(&b);
}

static int put_failure(void *arg, const struct read_failure *f)
{
    struct page *page = arg;
    struct buf said = BUF_INIT;
    char *reason;

    if (!page->w->failures) {
        page->skipped++;
        return 0;
    }
    print_heading(page, "Failures");
    cli_paint(page->out, "31", f->kind);
    fprintf(page->out, "%*s", LABEL - (int)strlen(f->kind), "");
    put_name(page, f->path, f->member);
    fprintf(page->out, "%*s", LABEL, "");
    buf_printf(&said, "%s%s%s", f->stage, f->stage[0] ? ": " : "", f->reason);
    reason = utf8_display(said.data, said.len);
    cli_wrap(page->out, reason ? reason : "", LABEL, LABEL);
    free(reason);
    buf_free(&said);
    return 0;
}

static int put_event(void *arg, const struct read_event *e)
{
    struct page *page = arg;
    struct buf b = BUF_INIT;
    char *s;

    print_heading(page, "Events");
    buf_printf(&b, "%.19sZ %s%s%s%s%s", e->at, e->kind, e->device[0] ? " " : "", e->device,
               e->text[0] ? ": " : "", e->text);
    if (e->path[0])
        buf_printf(&b, " (%s)", e->path);
    s = utf8_display(b.data, b.len);
    cli_wrap(page->out, s ? s : "", 0, 2);
    free(s);
    buf_free(&b);
    return 0;
}

/* How full a device gets, against what was foretold. */
static int put_device(void *arg, const struct store_tuning_row *row)
{
    const struct store_tuning *t = &row->tuning;
    char peak[TEXT_LEN], predicted[TEXT_LEN], speed[TEXT_LEN];
    struct page *page = arg;
    struct buf b = BUF_INIT;

    buf_printf(&b, "%s%s%s, %s%s%s: ", row->stage, row->stage[0] ? " on " : "", row->key.device_id,
               row->key.precision, row->key.decoding[0] ? ", " : "", row->key.decoding);
    if (t->predicted_bytes > 0)
        buf_printf(&b, "%u %s, encoding %u at once%s", t->slots,
                   text_plural(t->slots, "slot", "slots"), t->windows, t->rate > 0 ? ", " : "");
    if (t->rate > 0)
        buf_printf(&b, "%s x real time", text_speed(t->rate, speed));
    if (t->peak_bytes > 0)
        buf_printf(&b, "; memory %s", text_bytes(t->peak_bytes, peak));
    if (t->peak_bytes > 0 && t->predicted_bytes > 0)
        buf_printf(&b, " of %s predicted", text_bytes(t->predicted_bytes, predicted));
    if (t->oom_count > 0)
        buf_printf(&b, "; reduced %u %s for lack of memory", t->oom_count,
                   text_plural(t->oom_count, "time", "times"));
    print_label_value(page, page->shown++ == 0 ? "Devices" : "", &b);
    buf_free(&b);
    return 0;
}

static int put_remedies(struct page *page, struct err *err)
{
    struct buf b = BUF_INIT;
    int rc = disabled_stages_remedies(page->s->store, page->s->disabled, &b, err);

    if (rc == 0 && b.len > 0) {
        buf_printf(&b, "; otherwise the next run tries it again");
        print_label_value(page, "", &b);
    }
    buf_free(&b);
    return rc;
}

static void put_head(struct page *page)
{
    const char *catalog = store_path(page->s->store);
    struct buf b = BUF_INIT;
    char *shown = utf8_display(catalog, strlen(catalog));
    char *path = shown ? text_fit(shown, page->columns - LABEL) : NULL;

    print_label(page, "Catalog");
    fprintf(page->out, "%s\n", path ? path : "");
    put_work(page, &b);
    put_run(page, &b);
    buf_free(&b);
    free(path);
    free(shown);
}

static int put_stages(struct page *page, struct err *err)
{
    int rc = read_progress(page->s->store, count_transcriptions, page, err);

    page->shown = 0;
    if (rc == 0)
        rc = read_progress(page->s->store, put_stage, page, err);
    put_demo(page);
    return rc ? rc : put_remedies(page, err);
}

static int put_failures(struct page *page, struct err *err)
{
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];
    int rc;

    page->shown = page->skipped = 0;
    rc = read_failures(page->s->store, NULL, 0, put_failure, page, err);
    if (rc == 0 && page->w->failures) /* none are failures, and nothing else names all of them */
        rc = read_no_sound(page->s->store, "", put_failure, page, err);
    if (page->skipped > 0) {
        buf_printf(&b, "nightshift status --failures lists %s with %s",
                   page->skipped == 1 ? "it" : text_count(page->skipped, n),
                   page->skipped == 1 ? "its reason" : "their reasons");
        print_label_value(page, "Failures", &b);
    }
    buf_free(&b);
    return rc;
}

/* Numbers rise, and the last one is the widest. */
static int put_jobs(struct page *page, struct err *err)
{
    int rc = read_jobs(page->s->store, update_job_width, page, err);

    return rc ? rc : read_jobs(page->s->store, put_job, page, err);
}

int status_text(const struct status *s, const struct status_wanted *w, FILE *out, struct err *err)
{
    struct page page = {.s = s, .w = w, .out = out, .columns = cli_columns(out)};
    int rc;

    put_head(&page);
    rc = put_stages(&page, err);
    page.shown = 0;
    if (rc == 0)
        rc = store_tuning_each(s->store, put_device, &page, err);
    page.shown = 0;
    if (rc == 0 && (!w->watch || w->jobs))
        rc = put_jobs(&page, err);
    if (rc == 0 && (!w->watch || w->failures))
        rc = put_failures(&page, err);
    page.shown = 0;
    if (rc == 0 && w->events)
        rc = read_events(s->store, 0, EVENTS_SHOWN, put_event, &page, err);
    free(page.command);
    return rc;
}

void status_line(const struct status *s, FILE *out)
{
    struct progress p = archive_progress(&s->totals.archive);
    char text[PROGRESS_LINE];

    p.note = "no run is active";
    if (s->on) {
        p.speed = s->live.speed;
        p.low_ms = s->live.low_ms;
        p.high_ms = s->live.high_ms;
        p.note = s->live.note;
        p.work = s->live.work[0] ? s->live.work : NULL;
        p.work_percent = (int)s->live.work_percent;
        p.work_more = s->live.work_more;
    }
    progress_line(&p, 160, text);
    fprintf(out, "%s\n", text);
}
