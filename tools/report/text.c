/* The report for a terminal, or for mail. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler/plan/progress.h"
#include "tools/cli/account.h"
#include "tools/demo_model.h"
#include "tools/report/report.h"
#include "tools/cli/text.h"

#define LABEL 12 /* columns on the left */
#define ROWS 12u /* of hours, at most */
#define BAR 24

struct page {
    struct buf *out, line;
    unsigned columns;
    const char *label; /* of the next line; "" once it was said */
};

/* A line behind its label, folded. */
static void end_line(struct page *p)
{
    const char *s = buf_cstr(&p->line);

    buf_printf(p->out, "%-*s", LABEL, p->label);
    text_wrap(text_to_buf, p->out, s ? s : "", LABEL, LABEL, p->columns);
    buf_put(p->out, "\n", 1);
    buf_clear(&p->line);
    p->label = "";
}

static void put_text_line(struct page *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void put_text_line(struct page *p, const char *fmt, ...)
{
    char text[2000];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_printf(&p->line, "%s", text);
    end_line(p);
}

/* One that does not fit loses its middle, but is not folded. */
static void put_name_line(struct page *p, const char *s)
{
    char *fit = text_fit(s, p->columns - LABEL);

    buf_printf(p->out, "%-*s%s\n", LABEL, p->label, fit ? fit : "");
    free(fit);
    p->label = "";
}

static void put_runs(const struct report *r, struct page *p)
{
    char begun[REPORT_TIME], ended[REPORT_TIME], n[TEXT_LEN];

    p->label = r->runs == 1 ? "Run" : "Runs";
    for (size_t i = 0; i < r->runs; i++) {
        const struct store_run *run = &r->run[i];

        report_begin(run->started_ms, begun);
        put_text_line(p, "%s to %s: %s%s%s", begun, report_until(r, run, ended), report_why(r, run),
                      run->reason[0] ? ": " : "", run->reason);
        if (r->runs > 1)
            put_text_line(
                p, "  %s done, %llu failed, %s of audio", text_count(run->recordings_done, n),
                (unsigned long long)run->recordings_failed, text_length(run->audio_ms, begun));
    }
    if (r->on && r->live.note[0])
        put_text_line(p, "%s", r->live.note);
}

static void put_done(const struct report *r, struct page *p)
{
    char a[TEXT_LEN], b[TEXT_LEN];

    p->label = "Done";
    if (r->done + r->failed == 0 && r->audio_ms == 0) {
        put_text_line(p, "nothing");
        return;
    }
    put_text_line(p, "%s %s, %s failed", text_count(r->done, a),
                  text_plural(r->done, "recording", "recordings"), text_count(r->failed, b));
    if (report_speed(r) > 0)
        put_text_line(p, "%s of audio in %s of work: %.1f x real time", text_length(r->audio_ms, a),
                      text_length(r->work_ms, b), report_speed(r));
    else if (r->audio_ms > 0)
        put_text_line(p, "%s of audio", text_length(r->audio_ms, a));
    for (int i = 0; i < TEXTLESS_KINDS; i++)
        if (textless_say(r->textless, (enum store_textless)i, &p->line))
            end_line(p);
    if (account_known(&r->account)) {
        account_say(&r->account, "doubts --missing", &p->line);
        end_line(p);
    }
}

/* By the driver, whoever used it. */
static void put_sample(const struct report_step *s, struct page *p)
{
    char a[TEXT_LEN];

    if (report_load(s) >= 0)
        buf_printf(&p->line, "; load %.0f %%", report_load(s));
    if (s->celsius >= 0)
        buf_printf(&p->line,
                   "; up to %lld \xC2\xB0"
                   "C",
                   (long long)s->celsius);
    if (report_watts(s) >= 0)
        buf_printf(&p->line, "; %.2f kWh, %.0f W", (double)s->energy_j / 3.6e6, report_watts(s));
    if (s->used_bytes >= 0)
        buf_printf(&p->line, "; by all programs up to %s of memory",
                   text_bytes((uint64_t)s->used_bytes, a));
    if (s->left_ms > 0)
        buf_printf(&p->line, "; left to others for %s", text_length(s->left_ms, a));
}

static void put_device(const struct report_device *d, struct page *p)
{
    const struct report_step *s = &d->sum;
    char a[TEXT_LEN], b[TEXT_LEN];

    buf_printf(&p->line, "%s: %s of audio", d->name, text_length(s->audio_ms, a));
    if (s->busy_ms > 0)
        buf_printf(&p->line, " at %.1f x real time", (double)s->audio_ms / (double)s->busy_ms);
    if (s->span_ms > 0)
        buf_printf(&p->line, ", in use %.0f %% of the time",
                   100.0 * (double)s->busy_ms / (double)s->span_ms);
    if (s->memory_bytes > 0)
        buf_printf(&p->line, "; memory %s", text_bytes(s->memory_bytes, a));
    if (s->memory_bytes > 0 && s->predicted_bytes > 0)
        buf_printf(&p->line, " of %s predicted", text_bytes(s->predicted_bytes, b));
    if (d->slots > 0)
        buf_printf(&p->line, "; %u %s at once, %u in the encoder", d->slots,
                   text_plural(d->slots, "window", "windows"), d->windows);
    put_sample(s, p);
    end_line(p);
}

/* All devices in one stretch of a row. */
static struct report_step row_of(const struct report *r, size_t from, size_t n)
{
    struct report_step all = {.at_ms = r->from_ms + (int64_t)from * r->step_ms};

    for (size_t i = 0; i < r->devices; i++)
        for (size_t k = from; k < from + n && k < r->device[i].steps; k++) {
            all.audio_ms += r->device[i].step[k].audio_ms;
            all.busy_ms += r->device[i].step[k].busy_ms;
            all.span_ms += r->device[i].step[k].span_ms;
        }
    return all;
}

static void put_hours(const struct report *r, struct page *p)
{
    const size_t steps = r->devices > 0 ? r->device[0].steps : 0;
    const size_t n = (steps + ROWS - 1) / ROWS;
    int64_t most = 0;

    if (steps < 2)
        return;
    for (size_t k = 0; k < steps; k += n) {
        struct report_step s = row_of(r, k, n);

        most = s.audio_ms > most ? s.audio_ms : most;
    }
    p->label = "Over time";
    for (size_t k = 0; most > 0 && k < steps; k += n) {
        const struct report_step s = row_of(r, k, n);
        char at[REPORT_TIME], length[TEXT_LEN];
        const int bar = (int)((double)s.audio_ms / (double)most * BAR + 0.5);

        report_time(s.at_ms, at);
        buf_printf(p->out, "%-*s%s  %.*s%*s %s\n", LABEL, p->label, at, bar,
                   "########################", BAR - bar, "",
                   s.audio_ms > 0 ? text_length(s.audio_ms, length) : "-");
        p->label = "";
    }
}

static void put_left(const struct report *r, struct page *p)
{
    const struct store_archive *a = &r->totals.archive;
    char n[TEXT_LEN], m[TEXT_LEN], span[PROGRESS_SPAN];

    p->label = "Left";
    buf_printf(&p->line, "%s %s to do", text_count(a->pending, n),
               text_plural(a->pending, "recording", "recordings"));
    if (a->pending > 0 && r->left_ms > 0)
        buf_printf(&p->line, ", %s%s of audio", a->unknown > 0 ? "about " : "",
                   text_length(r->left_ms, m));
    if (r->high > 0)
        buf_printf(&p->line, ", %s of them first", text_count(r->high, n));
    if (a->waiting > 0)
        buf_printf(&p->line, ", %s waiting for a transcription", text_count(a->waiting, n));
    if (a->paused > 0)
        buf_printf(&p->line, ", %s paused", text_count(a->paused, n));
    end_line(p);
    if (r->low_ms >= 0) {
        progress_range(r->low_ms, r->high_ms, span);
        put_text_line(p, "%s of work%s", span, r->on ? "" : ", at the speed of these runs");
    }
    if (a->pending > 0 && !r->on)
        put_text_line(p, "%s",
                      r->totals.paused
                          ? "the catalog is paused: nightshift resume, then nightshift run"
                          : "next: nightshift run");
}

static void put_before(const struct report *r, struct page *p)
{
    p->label = "Earlier";
    if (report_before(r, &p->line)) {
        buf_printf(&p->line, ": nightshift status --failures");
        end_line(p);
    }
}

/* Puts the reason below the names that it applies to. A fault of the file names no stage: it
 * affects all of them. */
static void put_reason(const struct report_news *x, const struct report_item *i, struct page *p)
{
    const char *stage = report_stage(x, i);

    buf_printf(p->out, "%*s", LABEL + 2, "");
    buf_printf(&p->line, "%s%s%s", stage, stage[0] ? ": " : "", i->reason);
    text_wrap(text_to_buf, p->out, buf_cstr(&p->line) ? buf_cstr(&p->line) : "", LABEL + 2,
              LABEL + 2, p->columns);
    buf_put(p->out, "\n", 1);
    buf_clear(&p->line);
}

static void put_kind(const struct report_news *x, struct page *p)
{
    char n[TEXT_LEN];

    p->label = report_kind(x->kind);
    for (size_t i = 0; i < x->items; i++) {
        put_name_line(p, x->item[i].path);
        if (i + 1 == x->items || strcmp(x->item[i + 1].reason, x->item[i].reason) != 0)
            put_reason(x, &x->item[i], p);
    }
    if (x->fresh > x->items)
        put_text_line(p, "... and %s more: nightshift status --failures",
                      text_count(x->fresh - x->items, n));
    if (x->mend[0])
        put_text_line(p, "-> %s", x->mend);
}

static void put_news(const struct report *r, struct page *p)
{
    bool any = false;

    for (size_t i = 0; i < r->kinds; i++) {
        if (r->news[i].fresh == 0)
            continue;
        if (!any)
            buf_printf(p->out, "\nWhat is new, and what helps\n");
        any = true;
        put_kind(&r->news[i], p);
    }
}

static void put_doubts(const struct report *r, struct page *p)
{
    if (r->doubts == 0)
        return;
    buf_printf(p->out, "\nWhat is most doubtful of it (nightshift doubts)\n");
    for (size_t i = 0; i < r->doubts; i++) {
        const struct report_doubt *d = &r->doubt[i];
        char at[CLOCK_HMS_LEN];

        clock_hms(d->start_ms, at);
        p->label = at;
        put_name_line(p, d->path);
        put_text_line(p, "\"%s\"", d->text);
        put_text_line(p, "%s", d->why);
    }
}

static void put_device_events(const struct report *r, struct page *p)
{
    char at[REPORT_TIME], n[TEXT_LEN];

    if (r->events > 0)
        buf_printf(p->out, "\nDevice problems\n");
    p->label = "";
    for (size_t i = 0; i < r->events; i++)
        put_text_line(p, "%s: %s", report_time(r->event[i].at_ms, at), r->event[i].text);
    if (r->more_events > 0)
        put_text_line(p, "... and %s more: the table `event` of the catalog",
                      text_count(r->more_events, n));
}

static void put_devices(const struct report *r, struct page *p)
{
    if (r->devices == 0 || !report_worked(r))
        return;
    buf_put(p->out, "\n", 1);
    p->label = "Devices";
    for (size_t i = 0; i < r->devices; i++)
        put_device(&r->device[i], p);
    if (report_per_stage(r))
        put_text_line(p, "(of each stage: audio of several stages counts several times here)");
    put_hours(r, p);
}

void report_text(const struct report *r, unsigned columns, struct buf *out)
{
    struct page p = {.out = out, .line = BUF_INIT, .columns = columns, .label = "Catalog"};

    put_name_line(&p, r->catalog);
    if (r->runs == 0) {
        p.label = "Runs";
        put_text_line(&p, "none yet. Next: nightshift run");
    } else {
        put_runs(r, &p);
        put_done(r, &p);
    }
    put_left(r, &p);
    put_before(r, &p);
    if (r->demo) {
        p.label = "Model";
        put_text_line(&p, "%s", demo_model_made(r->demo));
    }
    put_news(r, &p);
    put_doubts(r, &p);
    put_device_events(r, &p);
    put_devices(r, &p);
    buf_free(&p.line);
}
