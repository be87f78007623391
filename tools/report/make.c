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
#include "tools/cli/text.h"
#include "tools/demo_model.h"
#include "tools/report/report.h"
#include "workers/stages/transcribe/outcome/doubt.h"

#define STRETCH_MS INT64_C(300000) /* as the run writes them (scheduler/run/diary.h) */
/* Passages that are read; the report shows the first of each recording. */
#define DOUBTS_LOOKED_AT 1000u
#define NO_MEMORY "no memory for a report"

/* The range around a rough estimate of time, as factors. */
#define LOW 0.7
#define HIGH 1.5

static char *shown(const char *s) { return utf8_display(s, strlen(s)); }

/* ------------------------------------------------------------------------------------- runs */

static void free_run(struct store_run *run)
{
    free((char *)run->why);
    free((char *)run->reason);
    free((char *)run->devices);
}

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

/* One more was read, the run before, and goes again. */
static void set_since(struct report *r, uint64_t n)
{
    struct store_run *before = &r->run[0];

    if (r->runs <= n)
        return;
    clock_iso8601(before->ended_ms ? before->ended_ms : before->seen_ms, r->since);
    free_run(before);
    r->runs--;
    memmove(r->run, r->run + 1, r->runs * sizeof(*r->run));
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

/* A value below 0 is not known. */
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

static int add_event(void *arg, const struct read_event *row)
{
    struct report *r = arg;
    struct report_event *e = &r->event[r->events];

    if (r->events == REPORT_EVENTS) {
        r->more_events++;
        return 0;
    }
    r->events++;
    e->at_ms = row->at_ms;
    e->kind = shown(row->kind);
    e->device = shown(row->device);
    e->text = shown(row->text);
    return e->kind && e->device && e->text ? 0 : ERR_NOMEM;
}

static int read_device_news(struct report *r, struct store *st, struct err *err)
{
    char since[CLOCK_ISO_LEN];
    int rc;

    clock_iso8601(r->run[0].started_ms, since);
    rc = read_device_events(st, since, add_event, r, err);
    return rc == ERR_NOMEM ? err_set(err, ERR_NOMEM, NO_MEMORY) : rc;
}

/* ------------------------------------------------------------------------------------- news */

static struct report_news *news_of(struct report *r, const struct read_failure *f)
{
    struct report_news *grown, *x;

    for (size_t i = 0; i < r->kinds; i++)
        if (strcmp(r->news[i].kind, f->kind) == 0 && strcmp(r->news[i].code, f->code) == 0)
            return &r->news[i];
    grown = realloc(r->news, (r->kinds + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    r->news = grown;
    x = &grown[r->kinds++];
    *x = (struct report_news){
        .kind = shown(f->kind), .code = shown(f->code), .mend = report_mend(f->kind, f->code)};
    return x->kind && x->code ? x : NULL;
}

static char *whole_name(const char *path, const char *member)
{
    char *ret;

    return asprintf(&ret, "%s%s%s", path, member[0] ? "//" : "", member) < 0 ? NULL : ret;
}

/* Is it the same recording, or a member of the same archive, with the same reason? */
static bool is_same(const struct report_item *last, const char *path, const char *reason)
{
    const size_t n = strlen(last->path);

    return strncmp(last->path, path, n) == 0 &&
           (!path[n] || (strncmp(path + n, "//", 2) == 0 && strcmp(last->reason, reason) == 0));
}

/* Rows of one recording follow each other. */
static int add_item(struct report_news *x, const struct read_failure *f)
{
    struct report_item *last = x->items > 0 ? &x->item[x->items - 1] : NULL, *item;
    char *path = whole_name(f->path, f->member);
    bool again;

    if (!path)
        return ERR_NOMEM;
    again = last && is_same(last, path, f->reason);
    x->fresh += !again;
    if (again || x->items == REPORT_NAMED) {
        free(path);
        return 0;
    }
    item = &x->item[x->items++];
    *item =
        (struct report_item){.path = path, .stage = shown(f->stage), .reason = shown(f->reason)};
    return item->stage && item->reason ? 0 : ERR_NOMEM;
}

static int add_news(void *arg, const struct read_failure *f)
{
    struct report *r = arg;
    struct report_news *x = news_of(r, f);

    if (!x)
        return ERR_NOMEM;
    if (strcmp(f->at, r->since) > 0)
        return add_item(x, f);
    x->before++;
    return 0;
}

static int gravest_first(const void *a, const void *b)
{
    const struct report_news *x = a, *y = b;
    const unsigned i = report_rank(x->kind), k = report_rank(y->kind);

    if (i != k)
        return i < k ? -1 : 1;
    return x->fresh != y->fresh ? (x->fresh < y->fresh ? 1 : -1) : strcmp(x->code, y->code);
}

static int reasons_together(const void *a, const void *b)
{
    const struct report_item *x = a, *y = b;
    const int by = strcmp(x->reason, y->reason);

    return by ? by : strcmp(x->path, y->path);
}

static int read_news(struct report *r, struct store *st, struct err *err)
{
    int rc = read_failures(st, NULL, 0, add_news, r, err);

    if (rc == 0)
        rc = read_no_sound(st, r->since, add_news, r, err);
    if (r->kinds > 1)
        qsort(r->news, r->kinds, sizeof(*r->news), gravest_first);
    for (size_t i = 0; i < r->kinds; i++)
        qsort(r->news[i].item, r->news[i].items, sizeof(r->news[i].item[0]), reasons_together);
    return rc == ERR_NOMEM ? err_set(err, ERR_NOMEM, NO_MEMORY) : rc;
}

bool report_before(const struct report *r, struct buf *out)
{
    bool any = false;

    for (size_t i = 0; i < r->kinds; i++) {
        uint64_t n = r->news[i].before;
        char count[TEXT_LEN];

        while (i + 1 < r->kinds && strcmp(r->news[i + 1].kind, r->news[i].kind) == 0)
            n += r->news[++i].before;
        if (n == 0 || strcmp(r->news[i].kind, "absent") == 0)
            continue;
        buf_printf(out, "%s%s %s", any ? ", " : "", text_count(n, count),
                   report_kind(r->news[i].kind));
        any = true;
    }
    return any;
}

/* ----------------------------------------------------------------------------------- doubts */

static void add_sentence(void *out, const char *text)
{
    buf_printf(out, "%s%s", ((const struct buf *)out)->len > 0 ? " " : "", text);
}

static char *describe_doubt(const char *reason)
{
    struct buf said = BUF_INIT;
    char *ret;

    doubt_say(reason, add_sentence, &said);
    ret = buf_cstr(&said) ? shown(buf_cstr(&said)) : NULL;
    buf_free(&said);
    return ret;
}

/* The worst one of each recording: the others are where this one is. */
static int add_doubt(void *arg, const struct read_doubt *row)
{
    const struct read_segment *s = row->segment;
    struct report *r = arg;
    struct report_doubt *d;
    char *path;

    if (r->doubts == REPORT_DOUBTS)
        return 1;
    path = whole_name(s->path, s->member);
    if (!path)
        return ERR_NOMEM;
    for (size_t i = 0; i < r->doubts; i++)
        if (strcmp(r->doubt[i].path, path) == 0) {
            free(path);
            return 0;
        }
    d = &r->doubt[r->doubts++];
    d->path = path;
    d->start_ms = s->start_ms;
    d->text = shown(s->text);
    d->reason = shown(s->reason);
    d->why = describe_doubt(s->reason);
    return d->text && d->reason && d->why ? 0 : ERR_NOMEM;
}

static int doubts_of(struct report *r, struct store *st, struct err *err)
{
    const struct read_doubts which = {
        .of = READ_DOUBTS_TEXT, .since = r->since, .limit = DOUBTS_LOOKED_AT};
    int rc = read_doubts(st, &which, add_doubt, r, err);

    return rc == ERR_NOMEM ? err_set(err, ERR_NOMEM, NO_MEMORY) : rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------------------ what is left */

double report_speed(const struct report *r)
{
    return r->work_ms > 0 && r->audio_ms > 0 ? (double)r->audio_ms / (double)r->work_ms : 0;
}

bool report_worked(const struct report *r)
{
    bool any = false;

    for (size_t i = 0; i < r->devices; i++)
        any |= r->device[i].sum.busy_ms > 0 || r->device[i].sum.left_ms > 0;
    return any;
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
    } words[] = {{"done", "nothing was left"},       {"until", "its time was up"},
                 {"interrupted", "interrupted"},     {"paused", "the catalog was paused"},
                 {"failed", "stopped by a failure"}, {"lost", "killed, or the power went"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].why, run->why) == 0)
            return words[i].words;
    return r->on ? "it is running" : "killed, or the power went";
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

static int add_stage(void *arg, const struct read_progress *p)
{
    struct report *r = arg;

    if (p->done > 0)
        r->demo |= demo_model(p->model, p->model_hash);
    return 0;
}

static int read_all(struct report *r, struct store *st, uint64_t n, struct err *err)
{
    int rc = store_runs_each(st, n + 1, add_run, r, err);

    if (rc == ERR_NOMEM)
        return err_set(err, ERR_NOMEM, NO_MEMORY);
    oldest_first(r);
    set_since(r, n);
    if (rc == 0 && r->runs > 0) {
        sum_runs(r);
        rc = read_devices(r, st, err);
        if (rc == 0)
            rc = read_device_news(r, st, err);
    }
    if (rc == 0)
        rc = store_totals(st, &r->totals, err);
    if (rc == 0)
        rc = store_textless(st, r->since, r->textless, err);
    if (rc == 0)
        rc = store_account(st, r->since, &r->account, err);
    if (rc == 0)
        rc = store_high(st, &r->high, err);
    if (rc == 0)
        rc = read_progress(st, add_stage, r, err);
    if (rc == 0)
        rc = read_news(r, st, err);
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

static void free_item(struct report_item *x)
{
    free(x->path);
    free(x->stage);
    free(x->reason);
}

void report_free(struct report *r)
{
    for (size_t i = 0; i < r->runs; i++)
        free_run(&r->run[i]);
    for (size_t i = 0; i < r->devices; i++) {
        free(r->device[i].name);
        free(r->device[i].step);
    }
    for (size_t i = 0; i < r->events; i++) {
        free(r->event[i].kind);
        free(r->event[i].device);
        free(r->event[i].text);
    }
    for (size_t i = 0; i < r->kinds; i++) {
        free(r->news[i].kind);
        free(r->news[i].code);
        for (size_t k = 0; k < r->news[i].items; k++)
            free_item(&r->news[i].item[k]);
    }
    for (size_t i = 0; i < r->doubts; i++) {
        free(r->doubt[i].path);
        free(r->doubt[i].text);
        free(r->doubt[i].reason);
        free(r->doubt[i].why);
    }
    free(r->run);
    free(r->device);
    free(r->news);
    free(r->catalog);
    *r = (struct report){0};
}

/* ---- what may be done about what failed */

static const struct mend {
    const char *kind, *code, *what; /* code NULL: any */
} mends[] = {
    {"failed", "input",
     "Play it. If it cannot be played, bring another copy and enqueue that, or dismiss it: "
     "nightshift cancel --failed PATH"},
    {"failed", "missing", ""},
    {"failed", "denied", ""},
    {"failed", "changed", ""},
    {"failed", "limit", "It is larger than one recording may be: cut it, and enqueue the parts."},
    {"failed", "io", "Look at the disk or the network share, then: nightshift retry"},
    {"failed", "stalled", "Look at the disk or the network share, then: nightshift retry"},
    {"failed", "timeout", "Try again: nightshift retry. If it hangs again, bring another copy."},
    {"failed", "crash", "Try again: nightshift retry. If it dies again, bring another copy."},
    {"failed", "nomem", "Free memory or take fewer --decoders, then: nightshift retry"},
    {"failed", "vram", "Take fewer --slots or --precision int8, then: nightshift retry"},
    {"failed", "model", "nightshift doctor says what is wrong with the model."},
    {"failed", "device",
     "nightshift doctor says what is wrong with the device; then: nightshift retry"},
    {"failed", NULL, "Try again: nightshift retry"},
    {"damaged", NULL, "What could be read has its text. Enqueue a better copy if there is one."},
    {"absent", NULL, "If it is gone for good: nightshift cancel PATH"},
    {"no sound", NULL, "It counts as done."},
    {"unreadable", "input",
     "What else is in an archive is in the catalog. Where one is damaged, bring another copy."},
    {"unreadable", "limit", "Unpack it by hand, and enqueue what comes out."},
    {"unreadable", "denied", "Let the user of enqueue read it, and enqueue its folder again."},
    {"unreadable", NULL, "Look at the disk or the network share, and enqueue its folder again."},
    {"changed", NULL, "When it is back: nightshift verify"},
};

const char *report_mend(const char *kind, const char *code)
{
    for (size_t i = 0; i < sizeof(mends) / sizeof(mends[0]); i++)
        if (strcmp(mends[i].kind, kind) == 0 &&
            (!mends[i].code || strcmp(mends[i].code, code) == 0))
            return mends[i].what;
    return "nightshift status --failures says why";
}

static const struct {
    const char *kind, *words;
} kinds[] = {{"changed", "changed"}, {"failed", "failed"}, {"unreadable", "unreadable"},
             {"damaged", "damaged"}, {"absent", "gone"},   {"no sound", "no sound"}};

unsigned report_rank(const char *kind)
{
    unsigned i = 0;

    while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].kind, kind) != 0)
        i++;
    return i;
}

const char *report_kind(const char *kind)
{
    const unsigned i = report_rank(kind);

    return i < sizeof(kinds) / sizeof(kinds[0]) ? kinds[i].words : kind;
}

const char *report_stage(const struct report_news *x, const struct report_item *item)
{
    static const char *const of_file[] = {"input", "limit", "missing", "changed", "denied"};

    for (size_t i = 0; i < sizeof(of_file) / sizeof(of_file[0]); i++)
        if (strcmp(of_file[i], x->code) == 0)
            return "";
    return item->stage;
}
