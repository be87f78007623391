#include "scheduler/plan/progress.h"

#include <inttypes.h>
#include <math.h>
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

/* ------------------------------------------------------------------------------------- ranges */

struct unit {
    int64_t ms;
    const char *one, *many;
};

static int64_t rounded(int64_t ms, int64_t step) { return ms / step + (ms % step * 2 >= step); }

/* In steps that are no finer than what is known. */
static int64_t step_of(const struct unit *u, int64_t high_ms)
{
    int64_t n = high_ms / u->ms;

    return u->ms < 3600000 && n >= 20 ? 5 : 1;
}

int64_t progress_middle(int64_t low_ms, int64_t high_ms)
{
    return (int64_t)sqrt((double)low_ms * (double)high_ms);
}

void progress_range(int64_t low_ms, int64_t high_ms, char ret[PROGRESS_SPAN])
{
    static const struct unit units[] = {{1000, "second", "seconds"},
                                        {60000, "minute", "minutes"},
                                        {3600000, "hour", "hours"},
                                        {86400000, "day", "days"}};
    static const int64_t until[] = {90000, 150 * 60000, 48 * 3600000LL};
    const struct unit *u = units;
    int64_t low, high, step;

    while (u < units + 3 && high_ms >= until[u - units])
        u++;
    step = step_of(u, high_ms);
    low = rounded(low_ms, u->ms * step) * step;
    high = rounded(high_ms, u->ms * step) * step;
    if (high == 0)
        high = step;
    if (low_ms < 0 || high_ms < low_ms)
        snprintf(ret, PROGRESS_SPAN, "?");
    else if (low == high)
        snprintf(ret, PROGRESS_SPAN, "about %" PRId64 " %s", high, high == 1 ? u->one : u->many);
    else if (low == 0)
        snprintf(ret, PROGRESS_SPAN, "up to %" PRId64 " %s", high, high == 1 ? u->one : u->many);
    else
        snprintf(ret, PROGRESS_SPAN, "%" PRId64 " to %" PRId64 " %s", low, high, u->many);
}

/* --------------------------------------------------------------------------------------- a name */

/* Columns that a character takes: two from the scripts on that may be wide. */
static unsigned char_width(const char *s)
{
    const unsigned char c = (unsigned char)s[0], d = c ? (unsigned char)s[1] : 0;

    return c >= 0xE2 || (c == 0xE1 && d >= 0x84) ? 2 : 1;
}

static size_t char_bytes(const char *s)
{
    size_t n = 1;

    while (((unsigned char)s[n] & 0xC0) == 0x80)
        n++;
    return n;
}

static unsigned measure_columns(const char *s)
{
    unsigned n = 0;

    for (; *s; s += char_bytes(s))
        n += char_width(s);
    return n;
}

#define NAME_LEAST 9 /* columns of a name */

/* The file's name, or the member's, without the middle where it is too wide. */
static void put_name(const char *name, unsigned columns, char *ret, size_t capacity)
{
    const char *slash = strrchr(name, '/'), *from;
    unsigned all, head, at = 0;
    size_t n = 0;

    if (slash && slash[1])
        name = slash + 1;
    all = measure_columns(name);
    if (all <= columns && strlen(name) < capacity) {
        memcpy(ret, name, strlen(name) + 1);
        return;
    }
    head = columns > 3 ? (columns - 3) / 3 : 0;
    while (name[n] && at + char_width(name + n) <= head && n + 8 < capacity / 2) {
        at += char_width(name + n);
        n += char_bytes(name + n);
    }
    for (from = name + n, at = all - at;
         *from && (at + head + 3 > columns || strlen(from) + 8 > capacity / 2);
         from += char_bytes(from))
        at -= char_width(from);
    snprintf(ret, capacity, "%.*s...%s", (int)n, name, from);
}

void progress_work(const struct progress *p, unsigned columns, char ret[PROGRESS_LINE])
{
    char percent[16] = "", more[32] = "", name[PROGRESS_LINE - 64];

    if (p->work_percent >= 0)
        snprintf(percent, sizeof(percent), " (%d %%)", p->work_percent);
    if (p->work_more > 0)
        snprintf(more, sizeof(more), " and %" PRIu32 " more", p->work_more);
    if (columns < strlen(percent) + strlen(more) + NAME_LEAST && p->work_more > 0)
        snprintf(more, sizeof(more), " +%" PRIu32, p->work_more);
    if (columns < strlen(percent) + strlen(more) + NAME_LEAST)
        columns = (unsigned)(strlen(percent) + strlen(more)) + NAME_LEAST;
    put_name(p->work, columns - (unsigned)(strlen(percent) + strlen(more)), name, sizeof(name));
    snprintf(ret, PROGRESS_LINE, "%s%s%s", name, percent, more);
}

/* --------------------------------------------------------------------------------------- a line */

enum part { COUNT, FAILED, PAUSED, CANCELLED, GONE, NOTE, STAGE, AUDIO, SPEED, LEFT, PARTS };

#define PART 96
#define WORK_LEAST 22 /* columns of what is in work that nothing below it in rank takes */

static void format_count_part(char *part, uint64_t n, const char *what)
{
    if (n > 0)
        snprintf(part, PART, "%" PRIu64 " %s", n, what);
}

static void fill_progress_parts(const struct progress *p, char parts[PARTS][PART])
{
    const int64_t whole_ms = p->audio_all_ms >= 0 ? p->audio_all_ms : p->audio_done_ms;
    char a[PROGRESS_SPAN], b[PROGRESS_SPAN];

    memset(parts, 0, PARTS * sizeof(*parts));
    snprintf(parts[COUNT], PART, "%" PRIu64 " of %" PRIu64 " recording%s", p->done, p->all,
             p->all == 1 ? "" : "s");
    format_count_part(parts[FAILED], p->failed, "failed");
    format_count_part(parts[PAUSED], p->paused, "paused");
    format_count_part(parts[CANCELLED], p->cancelled, "cancelled");
    format_count_part(parts[GONE], p->gone, "gone");
    if (p->note)
        snprintf(parts[NOTE], PART, "%s", p->note);
    if (p->stage)
        snprintf(parts[STAGE], PART, "%.20s %" PRIu64, p->stage, p->stage_done);
    progress_hours(p->audio_done_ms, whole_ms, a);
    progress_hours(p->audio_all_ms, whole_ms, b);
    if (p->audio_all_ms >= 0)
        snprintf(parts[AUDIO], PART, "%s of %s", a, b);
    else
        snprintf(parts[AUDIO], PART, "%s", a);
    if (p->speed > 0 && p->speed < 1e9)
        snprintf(parts[SPEED], PART,
                 p->speed < 10 ? "%.1f\xC3\x97 real time" : "%.0f\xC3\x97 real time", p->speed);
    if (p->low_ms >= 0) {
        progress_range(p->low_ms, p->high_ms, a);
        snprintf(parts[LEFT], PART, "%s left", a);
    }
}

void progress_line(const struct progress *p, unsigned columns, char ret[PROGRESS_LINE])
{
    static const enum part rank[] = {COUNT,  FAILED,    NOTE, LEFT,  STAGE,
                                     PAUSED, CANCELLED, GONE, AUDIO, SPEED};
    const size_t above_work = 4; /* what ranks above what is in work */
    char parts[PARTS][PART], work[PROGRESS_LINE] = "";
    unsigned used = 0, kept = 0;
    size_t len = 0;

    fill_progress_parts(p, parts);
    if (p->work) {
        progress_work(p, WORK_LEAST, work);
        kept = measure_columns(work) + 2;
    }
    for (size_t i = 0; i < sizeof(rank) / sizeof(rank[0]); i++) {
        unsigned wide = measure_columns(parts[rank[i]]) + (used > 0 ? 2 : 0);

        if (parts[rank[i]][0] && used + wide + (i < above_work ? 0 : kept) <= columns)
            used += wide;
        else
            parts[rank[i]][0] = 0;
    }
    ret[0] = 0;
    for (size_t i = 0; i < PARTS; i++)
        if (parts[i][0])
            len += (size_t)snprintf(ret + len, PROGRESS_LINE - len, "%s%s", len > 0 ? ", " : "",
                                    parts[i]);
    if (kept == 0 || used + kept > columns)
        return;
    progress_work(p, columns - used - 2, work);
    if (used + 2 + measure_columns(work) <= columns && len + 2 + strlen(work) < PROGRESS_LINE)
        snprintf(ret + len, PROGRESS_LINE - len, ": %s", work);
}

/* ---------------------------------------------------------------------------------------- JSON */

/* Text that passed base/utf8.h has no control characters. */
static void escape_quotes(const char *s, char *ret, size_t capacity)
{
    size_t len = 0, n;

    for (; *s; s += n) {
        n = char_bytes(s);
        if (len + n + 2 > capacity)
            break;
        if (*s == '"' || *s == '\\')
            ret[len++] = '\\';
        memcpy(ret + len, s, n);
        len += n;
    }
    ret[len] = 0;
}

static void work_json(const struct progress *p, char *ret, size_t capacity)
{
    char name[800], percent[32] = "";

    ret[0] = 0;
    if (!p->work)
        return;
    escape_quotes(p->work, name, sizeof(name));
    if (p->work_percent >= 0)
        snprintf(percent, sizeof(percent), ",\"percent\":%d", p->work_percent);
    snprintf(ret, capacity, ",\"in_work\":%" PRIu32 ",\"first_in_work\":{\"recording\":\"%s\"%s}",
             p->work_more + 1, name, percent);
}

void progress_json(const struct progress *p, const char *event, char ret[PROGRESS_JSON])
{
    char all[48] = "", eta[128] = "", note[96] = "", work[1000];

    if (p->audio_all_ms >= 0)
        snprintf(all, sizeof(all), ",\"audio_all_ms\":%" PRId64, p->audio_all_ms);
    if (p->low_ms >= 0)
        snprintf(eta, sizeof(eta),
                 ",\"eta_ms\":%" PRId64 ",\"eta_low_ms\":%" PRId64 ",\"eta_high_ms\":%" PRId64,
                 progress_middle(p->low_ms, p->high_ms), p->low_ms, p->high_ms);
    if (p->note && p->note[0])
        snprintf(note, sizeof(note), ",\"note\":\"%.80s\"", p->note);
    work_json(p, work, sizeof(work));
    snprintf(ret, PROGRESS_JSON,
             "{\"event\":\"%.30s\",\"recordings_done\":%" PRIu64 ",\"recordings_all\":%" PRIu64
             ",\"recordings_failed\":%" PRIu64 ",\"recordings_paused\":%" PRIu64
             ",\"recordings_cancelled\":%" PRIu64 ",\"recordings_absent\":%" PRIu64
             ",\"audio_done_ms\":%" PRId64
             ",\"speed\":%.2f,\"workers\":%u,\"workers_ready\":%u%s%s%s%s}",
             event, p->done, p->all, p->failed, p->paused, p->cancelled, p->gone, p->audio_done_ms,
             p->speed < 1e9 ? p->speed : 1e9, p->workers, p->workers_ready, all, eta, note, work);
}
