#include "scheduler/plan/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void progress_span(int64_t ms, char ret[PROGRESS_SPAN])
{
    int64_t s = ms / 1000;

    if (ms < 0)
        snprintf(ret, PROGRESS_SPAN, "?");
    else if (s >= 48 * 3600)
        snprintf(ret, PROGRESS_SPAN, "%" PRId64 " d %" PRId64 " h", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(ret, PROGRESS_SPAN, "%" PRId64 " h %02" PRId64 " min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(ret, PROGRESS_SPAN, "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
    else
        snprintf(ret, PROGRESS_SPAN, "%" PRId64 " s", s);
}

void progress_hours(int64_t ms, int64_t whole_ms, char ret[PROGRESS_SPAN])
{
    double h = (double)ms / 3600000.0;

    if (ms < 0)
        snprintf(ret, PROGRESS_SPAN, "?");
    else if (whole_ms < 2 * 3600000)
        snprintf(ret, PROGRESS_SPAN, "%.1f min", h * 60);
    else
        snprintf(ret, PROGRESS_SPAN, h < 100 ? "%.1f h" : "%.0f h", h);
}

/* Columns: every character is one wide, and the only one of two bytes is the multiplication sign.
 */
static unsigned width(const char *s)
{
    unsigned n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static bool add(char *line, unsigned columns, const char *part)
{
    size_t len = strlen(line);

    if (part[0] == 0 || width(line) + width(part) + 2 > columns ||
        len + strlen(part) + 3 > PROGRESS_LINE)
        return false;
    snprintf(line + len, PROGRESS_LINE - len, "%s%s", len ? ", " : "", part);
    return true;
}

void progress_line(const struct progress *p, unsigned columns, char ret[PROGRESS_LINE])
{
    const int64_t whole_ms = p->audio_all_ms >= 0 ? p->audio_all_ms : p->audio_done_ms;
    char part[96], a[PROGRESS_SPAN], b[PROGRESS_SPAN];

    ret[0] = 0;
    snprintf(part, sizeof(part), "%" PRIu64 "/%" PRIu64 " %s", p->tasks_done, p->tasks_all,
             p->several ? "tasks" : "files");
    add(ret, columns, part);
    if (p->tasks_failed) {
        snprintf(part, sizeof(part), "%" PRIu64 " failed", p->tasks_failed);
        add(ret, columns, part);
    }
    if (p->note && p->note[0])
        add(ret, columns, p->note);
    progress_hours(p->audio_done_ms, whole_ms, a);
    progress_hours(p->audio_all_ms, whole_ms, b);
    if (p->audio_all_ms >= 0)
        snprintf(part, sizeof(part), "%s of %s", a, b);
    else
        snprintf(part, sizeof(part), "%s", a);
    add(ret, columns, part);
    if (p->speed > 0 && p->speed < 1e9) {
        snprintf(part, sizeof(part),
                 p->speed < 10 ? "%.1f\xC3\x97 real time" : "%.0f\xC3\x97 real time", p->speed);
        add(ret, columns, part);
    }
    if (p->eta_ms >= 0 && p->speed > 0) {
        progress_span(p->eta_ms, a);
        snprintf(part, sizeof(part), "%s left", a);
        add(ret, columns, part);
    }
}

void progress_json(const struct progress *p, const char *event, char ret[PROGRESS_JSON])
{
    char all[48] = "", eta[48] = "", note[96] = "";

    if (p->audio_all_ms >= 0)
        snprintf(all, sizeof(all), ",\"audio_all_ms\":%" PRId64, p->audio_all_ms);
    if (p->eta_ms >= 0)
        snprintf(eta, sizeof(eta), ",\"eta_ms\":%" PRId64, p->eta_ms);
    if (p->note && p->note[0])
        snprintf(note, sizeof(note), ",\"note\":\"%.80s\"", p->note);
    snprintf(ret, PROGRESS_JSON,
             "{\"event\":\"%.30s\",\"tasks_done\":%" PRIu64 ",\"tasks_all\":%" PRIu64
             ",\"tasks_failed\":%" PRIu64 ",\"audio_done_ms\":%" PRId64
             ",\"speed\":%.2f,\"workers\":%u,\"workers_ready\":%u%s%s%s}",
             event, p->tasks_done, p->tasks_all, p->tasks_failed, p->audio_done_ms,
             p->speed < 1e9 ? p->speed : 1e9, p->workers, p->workers_ready, all, eta, note);
}
