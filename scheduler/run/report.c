#include "scheduler/run/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/run/figures.h"

#define LINE_MS 500 /* the redrawn line */
#define JSON_MS 2000

/* ------------------------------------------------------------------------------------ output */

static void write_text_fully(int fd, const char *s)
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

static unsigned get_terminal_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 79;
    return size.ws_col > 80 ? 79 : size.ws_col - 1u;
}

static void line_clear(struct report *r)
{
    if (r->line_shown)
        write_text_fully(STDERR_FILENO, "\r\033[K");
    r->line_shown = false;
}

static void line_show(struct run *run)
{
    char line[PROGRESS_LINE], out[PROGRESS_LINE + 32];
    struct progress p;

    figures_view(run, &p);
    progress_line(&p, get_terminal_columns(), line);
    snprintf(out, sizeof(out), run->report.color ? "\r\033[K\033[1m%s\033[0m" : "\r\033[K%s", line);
    write_text_fully(STDERR_FILENO, out);
    run->report.line_shown = true;
}

static void show_json(struct run *run, const char *event)
{
    char line[PROGRESS_JSON];
    struct progress p;

    figures_view(run, &p);
    progress_json(&p, event, line);
    write_text_fully(STDOUT_FILENO, line);
    write_text_fully(STDOUT_FILENO, "\n");
}

void report_event(struct run *run, int level, const char *fmt, ...)
{
    char text[1000];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    line_clear(&run->report);
    log_at((enum log_level)level, "%s", text);
}

void report_start(struct run *run)
{
    struct report *r = &run->report;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    r->tty = run->o->progress && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    r->color = r->tty && !(no_color && no_color[0]);
    r->due_ms = run->figures.started_ms + (r->tty ? 0 : run->tune.line_ms);
    if (run->o->json_events)
        show_json(run, "run-start");
}

void report_tick(struct run *run, int64_t now)
{
    struct report *r = &run->report;

    figures_tick(run, now);
    if (run->o->json_events && now >= r->json_due_ms) {
        r->json_due_ms = now + JSON_MS;
        show_json(run, "progress");
    }
    if (now < r->due_ms)
        return;
    r->due_ms = now + (r->tty ? LINE_MS : run->tune.line_ms);
    if (r->tty) {
        line_show(run);
    } else {
        char line[PROGRESS_LINE];
        struct progress p;

        figures_view(run, &p);
        progress_line(&p, 160, line);
        if (strcmp(line, r->said) != 0) /* a day's rest is no thousand lines */
            log_info("%s", line);
        snprintf(r->said, sizeof(r->said), "%s", line);
    }
}

void report_end(struct run *run)
{
    char audio[PROGRESS_SPAN], work[PROGRESS_SPAN];
    const int64_t work_ms = run->diary.work_ms;
    double speed = work_ms > 0 ? (double)run->figures.audio_ms / (double)work_ms : 0;

    line_clear(&run->report);
    run->report.tty = false;
    if (run->o->json_events)
        show_json(run, "run-end");
    progress_hours(run->figures.audio_ms, run->figures.audio_ms, audio);
    progress_span(work_ms, work);
    log_debug("%s: %llu recording%s done, %llu failed, %s of audio in %s of work (%.1f\xC3\x97 "
              "real time)",
              run->failure.code  ? "stopped"
              : run->interrupted ? "interrupted"
                                 : "finished",
              (unsigned long long)run->figures.recordings_done,
              run->figures.recordings_done == 1 ? "" : "s",
              (unsigned long long)run->figures.failed.count, audio, work, speed);
}
