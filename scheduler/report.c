#include "scheduler/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define LINE_MS 500    /* the redrawn line */
#define PLAIN_MS 30000 /* the log line */
#define JSON_MS 2000
#define TOTALS_MS 10000  /* reading the totals again: not sooner, and */
#define TOTALS_SHARE 200 /*   not more of the time than one part in so many */

uint64_t report_audio_seen(const struct run *run)
{
    uint64_t ms = run->audio_seen_ms;
    uint32_t i;

    for (i = 0; i < run->worker_count; i++)
        ms += run->workers[i].audio_ms;
    return ms + run->beside_ms;
}

void report_totals(struct run *run)
{
    int64_t before = clock_mono_ms();
    struct store_totals t;
    struct err err = {0};

    /* Figures for people: a catalog that cannot be read now is found out by who needs it. */
    if (store_totals(run->st, &t, &err) == 0) {
        run->totals = t;
        run->totals_done = run->tasks_done;
        run->totals_failed = run->tasks_failed;
        run->totals_saved_ms = run->audio_saved_ms;
    }
    run->totals_at_ms = clock_mono_ms();
    run->totals_cost_ms = run->totals_at_ms - before;
}

static void refresh(struct run *run, int64_t now)
{
    int64_t wait = run->totals_cost_ms * TOTALS_SHARE;

    /* Not while results wait to be written: the two must be counted at one moment. */
    if (ledger_pending(run->ledger) == 0 &&
        now - run->totals_at_ms >= (wait > TOTALS_MS ? wait : TOTALS_MS))
        report_totals(run);
}

void report_view(struct run *run, struct progress *p)
{
    const struct store_totals *t = &run->totals;
    int64_t saved = run->audio_saved_ms - run->totals_saved_ms;
    uint64_t known = t->tasks_pending - t->tasks_unknown + t->tasks_done;
    double speed = rate_speed(&run->rate, clock_mono_ms());
    struct rate_backlog b = {
        .known_left_ms = t->audio_left_ms - saved,
        .tasks_unknown = t->tasks_unknown,
        .known_ms = t->audio_known_ms,
        .tasks_known = known,
    };
    int64_t left = rate_left_ms(&b);

    *p = (struct progress){
        .tasks_done = t->tasks_done + (run->tasks_done - run->totals_done),
        .tasks_all = t->tasks_pending + t->tasks_waiting + t->tasks_done + t->tasks_failed,
        .several = store_totals_several(t),
        .tasks_failed = t->tasks_failed + (run->tasks_failed - run->totals_failed),
        .audio_done_ms = t->audio_done_ms + saved,
        .audio_all_ms = -1,
        .speed = speed,
        .eta_ms = rate_eta_ms(speed, &b),
        .workers = run->worker_count,
        .workers_ready = run_ready_workers(run),
        .note = run->note ? run->note : "",
    };
    if (left >= 0)
        p->audio_all_ms = p->audio_done_ms + left;
    if (run->mode == RUN_DRAINING)
        p->note = "stopping at a checkpoint";
    else if (run->mode == RUN_PAUSED)
        p->note = "paused";
    else if (run->trouble_since_ms)
        p->note = "the catalog cannot be written";
    else if (p->workers_ready == 0 && run->has_stage)
        p->note = "loading the model";
}

/* ------------------------------------------------------------------------------------ output */

static void put(int fd, const char *s)
{
    size_t len = strlen(s);

    while (len) {
        ssize_t n = write(fd, s, len);

        if (n <= 0)
            return; /* nobody looks any more; the run goes on */
        s += n;
        len -= (size_t)n;
    }
}

static unsigned columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 79;
    return size.ws_col > 80 ? 79 : size.ws_col - 1u;
}

static void line_clear(struct run *run)
{
    if (run->line_shown)
        put(STDERR_FILENO, "\r\033[K");
    run->line_shown = false;
}

static void line_show(struct run *run)
{
    char line[PROGRESS_LINE], out[PROGRESS_LINE + 32];
    struct progress p;

    report_view(run, &p);
    progress_line(&p, columns(), line);
    snprintf(out, sizeof(out), run->color ? "\r\033[K\033[1m%s\033[0m" : "\r\033[K%s", line);
    put(STDERR_FILENO, out);
    run->line_shown = true;
}

static void show_json(struct run *run, const char *event)
{
    char line[PROGRESS_JSON];
    struct progress p;

    report_view(run, &p);
    progress_json(&p, event, line);
    put(STDOUT_FILENO, line);
    put(STDOUT_FILENO, "\n");
}

void report_event(struct run *run, int level, const char *fmt, ...)
{
    char text[1000];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    line_clear(run);
    log_at((enum log_level)level, "%s", text);
}

void report_start(struct run *run)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    run->tty = run->o->progress && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    run->color = run->tty && !(no_color && no_color[0]);
    run->report_due_ms = run->started_ms + (run->tty ? 0 : PLAIN_MS);
    if (run->o->json_events)
        show_json(run, "run-start");
}

void report_tick(struct run *run, int64_t now)
{
    rate_add(&run->rate, now, report_audio_seen(run));
    refresh(run, now);
    if (run->o->json_events && now >= run->json_due_ms) {
        run->json_due_ms = now + JSON_MS;
        show_json(run, "progress");
    }
    if (now < run->report_due_ms)
        return;
    run->report_due_ms = now + (run->tty ? LINE_MS : PLAIN_MS);
    if (run->tty) {
        line_show(run);
    } else {
        char line[PROGRESS_LINE];
        struct progress p;

        report_view(run, &p);
        progress_line(&p, 160, line);
        log_info("%s", line);
    }
}

void report_end(struct run *run)
{
    char audio[PROGRESS_SPAN], wall[PROGRESS_SPAN];
    int64_t wall_ms = clock_mono_ms() - run->started_ms;
    double speed = wall_ms > 0 ? (double)run->audio_saved_ms / (double)wall_ms : 0;

    line_clear(run);
    run->tty = false;
    if (run->o->json_events)
        show_json(run, "run-end");
    progress_hours(run->audio_saved_ms, run->audio_saved_ms, audio);
    progress_span(wall_ms, wall);
    log_debug("%s: %llu recording%s done, %llu failed, %s of audio in %s (%.1f\xC3\x97 real time)",
              run->failure.code  ? "stopped"
              : run->interrupted ? "interrupted"
                                 : "finished",
              (unsigned long long)run->tasks_done, run->tasks_done == 1 ? "" : "s",
              (unsigned long long)run->tasks_failed, audio, wall, speed);
}
