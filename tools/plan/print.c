/* A plan in words, in 80 columns. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tools/cli/cli.h"
#include "tools/plan/plan.h"
#include "tools/cli/text.h"

#define LABEL 11 /* columns of the labels on the left */
#define INDENT 4

static void print_wrapped(const char *s, size_t column, size_t indent)
{
    cli_wrap(stdout, s, column, indent);
}

static void print_labelled_line(const char *name, const char *value)
{
    cli_paint(stdout, "1", name);
    printf("%*s", LABEL - (int)strlen(name), "");
    print_wrapped(value, LABEL, LABEL);
}

/* "32.5 of 125 GiB", "34 MiB of 19.8 GiB" */
static char *format_memory(uint64_t part, uint64_t whole, char out[2 * PLACEMENT_SIZE])
{
    char p[PLACEMENT_SIZE], w[PLACEMENT_SIZE];
    char *unit = strchr(placement_size(part, p), ' ');

    if (strcmp(unit, strchr(placement_size(whole, w), ' ')) == 0)
        *unit = 0;
    snprintf(out, 2 * PLACEMENT_SIZE, "%s of %s", p, w);
    return out;
}

/* The largest stage's, where what failed is all that they wait for: a run counts these as failed.
 */
static uint64_t count_stuck(const struct plan *p)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < p->stage_count; i++)
        most = p->stages[i].recordings > most ? p->stages[i].recordings : most;
    return most;
}

static void print_waiting(const struct plan *p)
{
    const uint64_t recordings = plan_is_stuck(p) ? count_stuck(p) : p->recordings;
    char n[TEXT_LEN], m[TEXT_LEN], text[400];

    if (!p->waiting && p->held) {
        snprintf(text, sizeof(text), "nothing: %s %s paused. Next: nightshift resume",
                 text_count(p->held, n), text_plural(p->held, "recording is", "recordings are"));
        print_labelled_line("Waiting", text);
        return;
    }
    if (!p->waiting) {
        print_labelled_line("Waiting",
                            p->missing
                                ? "nothing: there is no catalog yet. Next: nightshift enqueue PATH"
                                : "nothing. Next: nightshift enqueue PATH");
        return;
    }
    snprintf(text, sizeof(text), "%s %s", text_count(recordings, n),
             text_plural(recordings, "recording", "recordings"));
    if (p->stage_count > 1)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " in %u stages", p->stage_count);
    if (plan_is_stuck(p)) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 ", but nothing can be done now: their transcription failed, was cancelled or is "
                 "paused. Next: nightshift status --failures");
        print_labelled_line("Waiting", text);
        return;
    }
    if (p->left_ms > 0)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", %s%s of audio",
                 p->unknown ? "about " : "", text_length(p->left_ms, m));
    if (p->unknown > 0 && p->unknown >= p->recordings)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "; lengths are not known yet and guessed from %s",
                 p->guessed ? "the size, at 128 kbit/s" : "others");
    else if (p->unknown)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "; the length of %s is not known yet and guessed from %s",
                 text_count(p->unknown, n), p->guessed ? "the size, at 128 kbit/s" : "the others");
    print_labelled_line("Waiting", text);
    if (p->paused)
        print_labelled_line("",
                            "The catalog is paused: nothing is done until `nightshift resume`.");
}

static void print_devices(const struct plan *p)
{
    for (uint32_t i = 0; i < p->all->count; i++) {
        const struct device *d = &p->all->list[i];
        char text[600], left[2 * PLACEMENT_SIZE], memory[3 * PLACEMENT_SIZE] = "";
        bool used = false;

        for (uint32_t k = 0; k < p->picked->count; k++)
            used |= strcmp(p->picked->list[k].name, d->name) == 0;
        if (d->memory_total > 0)
            snprintf(memory, sizeof(memory), "%s%s free", d->model[0] ? ", " : "",
                     format_memory(d->memory_free, d->memory_total, left));
        snprintf(text, sizeof(text), "%s%s%s", d->model, memory,
                 d->unusable ? ""
                 : used      ? ""
                             : "; not used");
        if (d->unusable)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%scannot be used: %s",
                     text[0] ? "; " : "", d->trouble[0] ? d->trouble : p->all->no_gpu.msg);
        print_labelled_line(d->label, text);
    }
    if (p->all->no_gpu.code && (p->all->count == 0 || p->all->list[0].kind == DEVICE_CPU))
        print_labelled_line("no GPU", p->all->no_gpu.msg);
}

static void print_fit(const struct device *d, const struct placement *p)
{
    char batch[TEXT_LEN], need[2 * PLACEMENT_SIZE], speed[TEXT_LEN];

    if (p->slots == 0)
        snprintf(batch, sizeof(batch), "-");
    else if (p->windows > 1)
        snprintf(batch, sizeof(batch), "%u x %u", p->slots, p->windows);
    else
        snprintf(batch, sizeof(batch), "%u", p->slots);
    printf("%*s%-11s %-5s %-9s %-20s %8s  %s\n", INDENT, "", d->label, precision_name(p->precision),
           batch, format_memory(p->bytes, p->budget, need),
           p->source == PLACEMENT_UNKNOWN ? "?" : text_speed(p->speed, speed),
           p->source == PLACEMENT_MEASURED    ? "measured"
           : p->source == PLACEMENT_ESTIMATED ? "estimate"
                                              : "not known");
    if (p->note[0]) {
        printf("%*s", INDENT + 2, "");
        print_wrapped(p->note, INDENT + 2, INDENT + 2);
    }
}

static void print_waits(const struct plan_stage *s)
{
    char n[TEXT_LEN], all[TEXT_LEN], text[200];

    text_count(s->recordings, all);
    if (s->sourceless) {
        snprintf(text, sizeof(text), "%s of %s wait%s for the transcription.",
                 text_count(s->sourceless, n), all, s->sourceless == 1 ? "s" : "");
        printf("%*s", INDENT, "");
        print_wrapped(text, INDENT, INDENT);
    }
    if (s->settling) {
        snprintf(text, sizeof(text), "%s of %s %s processed, but not yet finalized.",
                 text_count(s->settling, n), all, s->settling == 1 ? "is" : "are");
        printf("%*s", INDENT, "");
        print_wrapped(text, INDENT, INDENT);
    }
}

/* How much of it is heard more than once is known of what was heard before alone. */
static void print_apart(const struct plan_stage *s)
{
    char n[TEXT_LEN], all[TEXT_LEN], text[300] = "";

    if (!s->apart)
        return;
    if (s->sources.known)
        snprintf(text, sizeof(text),
                 "%s of %s %s processed by channel or track; the estimate counts each. ",
                 text_count(s->sources.known, n), text_count(s->recordings, all),
                 s->sources.known == 1 ? "is" : "are");
    if (s->sources.known < s->recordings)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "Recordings with a microphone on each channel take twice as long; this is known "
                 "once they were decoded.");
    printf("%*s", INDENT, "");
    print_wrapped(text, INDENT, INDENT);
}

static void print_stage(const struct plan *p, const struct plan_stage *s)
{
    char text[600];
    bool headed = false;

    putchar('\n');
    snprintf(text, sizeof(text), "%s with %s", s->name, s->model);
    cli_paint(stdout, "1", text);
    putchar('\n');
    print_waits(s);
    print_apart(s);
    if (s->disabled) {
        snprintf(text, sizeof(text), "disabled in the last run: %s", s->disabled);
        printf("%*s", INDENT, "");
        print_wrapped(text, INDENT, INDENT);
    }
    if (s->no_model.code) {
        printf("%*s", INDENT, "");
        print_wrapped(s->sized ? "It is not here; this is for the published model of that name."
                               : s->no_model.msg,
                      INDENT, INDENT);
    }
    for (uint32_t i = 0; i < p->picked->count && s->sized; i++) {
        const struct device *d = &p->picked->list[i];

        if (s->on[i].fits) {
            if (!headed)
                printf("%*s%-11s %-5s %-9s %-20s %8s\n", INDENT, "", "device", "type", "batch",
                       "memory", "x real");
            headed = true;
            print_fit(d, &s->on[i]);
            continue;
        }
        snprintf(text, sizeof(text), "%s: does not fit: %s%s%s", d->label, s->on[i].why,
                 s->would_fit[i] ? "; a model that would: " : "",
                 s->would_fit[i] ? s->would_fit[i] : "");
        printf("%*s", INDENT, "");
        print_wrapped(text, INDENT, INDENT + 2);
    }
}

/* " MP3 80 %, PCM 20 %", the most first; "" where nothing waits */
static void format_formats(const struct plan *p, char *text, size_t cap)
{
    double all = 0;
    size_t n = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < p->format_count; i++)
        all += p->formats[i].hours;
    for (uint32_t i = 0; i < p->format_count && i < 3; i++) { /* more do not fit the line */
        double percent = all > 0 ? 100 * p->formats[i].hours / all : 0;

        if (percent >= 0.5)
            n += (size_t)snprintf(text + n, cap - n, "%s%s %.0f %%", n ? ", " : " ",
                                  p->formats[i].format->name, percent);
    }
}

/* "together": seen while other stages that are listed here ran beside it. */
static const char *describe_cost(const struct plan *p, const struct plan_stage *s)
{
    uint32_t together = 0;

    for (uint32_t i = 0; i < p->stage_count; i++)
        together += p->stages[i].cost.together && !p->stages[i].cost.text;
    if (s->cost.together && !s->cost.text && together > 1)
        return "together";
    return s->measured ? "measured" : "estimate";
}

static void print_costs(const struct plan *p)
{
    char formats[60], what[80];

    cli_paint(stdout, "1", "An hour of sound takes, in seconds");
    printf("\n%*s%-35s %9s %20s\n", INDENT, "", "", "devices", "processor");
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const struct plan_stage *s = &p->stages[i];
        const double processor = s->cost.core_s + (p->gpus ? s->cost.thread_s : 0);

        printf("%*s%-35s", INDENT, "", s->name);
        if (s->cost.device_s > 0)
            printf(" %9.3f %s", s->cost.device_s, describe_cost(p, s));
        else
            printf(" %9s %s", "?", "not known");
        if (processor > 0)
            printf(" %*.2f %s", s->cost.device_s > 0 ? 11 : 10, processor,
                   s->measured && s->cost.core_s > 0 ? "measured" : "estimate");
        putchar('\n');
    }
    if (!p->hears)
        return;
    format_formats(p, formats, sizeof(formats));
    snprintf(what, sizeof(what), "decoding%s", formats);
    printf("%*s%-56s %9.2f estimate\n", INDENT, "", what, p->decode_s);
    printf("%*s%-56s %9.2f estimate\n", INDENT, "", "receiving, storing, finalizing", p->commit_s);
}

/* Says what bounds the night, and how busy the rest is. */
static void print_bound(const struct plan *p)
{
    const struct night_length *n = &p->night;
    const double longest = fmax(n->device_s, fmax(n->thread_s, n->core_s));
    const bool alone = p->gpus == 0; /* the processor is the device */
    char text[400], speed[TEXT_LEN], of[80];
    bool measured = n->bound == NIGHT_DEVICES || n->bound == NIGHT_EARLIER;

    for (uint32_t i = 0; i < p->stage_count; i++)
        measured &= p->stages[i].measured;
    if (n->bound == NIGHT_NOTHING)
        return;
    if (n->bound == NIGHT_EARLIER && !alone)
        snprintf(of, sizeof(of), "what bounded earlier nights");
    else if (n->bound == NIGHT_CORES || alone)
        snprintf(of, sizeof(of), "the processor's %u %s", p->cores,
                 p->cores == 1 ? "core" : "cores");
    else if (n->bound == NIGHT_DEVICES)
        snprintf(of, sizeof(of), "the %s", p->gpus == 1 ? "device" : "devices");
    else
        snprintf(of, sizeof(of), "the thread of %s", n->thread);
    snprintf(text, sizeof(text), "%s (%s)", of, measured ? "measured" : "estimate");
    if (!alone && n->bound != NIGHT_EARLIER)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 ". Busy: devices %.0f %%, cores %.0f %%, busiest thread %.0f %%",
                 100 * n->device_s / longest, 100 * n->core_s / longest,
                 100 * n->thread_s / longest);
    if (!p->waiting)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ". %s x real time",
                 text_speed(3600 / n->seconds, speed));
    else if (p->ms > 0 && p->left_ms > 0)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ". %s x real time in all",
                 text_speed((double)p->left_ms / (double)p->ms, speed));
    print_labelled_line("Bound by", text);
}

static void print_night(const struct plan *p)
{
    if (!p->fits || plan_is_stuck(p))
        return;
    putchar('\n');
    print_costs(p);
    putchar('\n');
    print_bound(p);
}

static void print_end(const struct plan *p)
{
    char text[300], n[TEXT_LEN], when[64];
    bool measured = p->night.bound == NIGHT_DEVICES || p->night.bound == NIGHT_EARLIER;
    bool told = false;
    time_t at = (time_t)((clock_wall_ms() + p->ms) / 1000);
    struct tm tm;

    if (!p->waiting || plan_is_stuck(p))
        return;
    for (uint32_t i = 0; i < p->stage_count; i++)
        if (p->stages[i].ms >= 0) {
            measured &= p->stages[i].measured && p->stages[i].unknown == 0;
            told = true;
        }
    if (!p->fits)
        putchar('\n');
    if (p->ms < 0 || !told) {
        print_labelled_line("Done", p->fits ? "no estimate yet: a speed or a length is not known"
                                            : "never: a model fits no device");
        return;
    }
    localtime_r(&at, &tm);
    strftime(when, sizeof(when), p->paused ? "after it goes on" : "on %a %d %b %Y, %H:%M", &tm);
    snprintf(text, sizeof(text), "in %s%s%s%s%s%s",
             p->untold  ? "at least "
             : measured ? ""
                        : "about ",
             text_length(p->ms > 1000 ? p->ms : 1000, n), p->paused ? " " : ", ", when,
             measured ? "" : " (an estimate; the run itself measures it)",
             p->untold ? "; without stages of unknown speed" : "");
    print_labelled_line("Done", text);
}

void plan_print(const struct plan *p, const struct plan_options *o)
{
    print_labelled_line("Catalog", o->catalog);
    print_waiting(p);
    putchar('\n');
    print_devices(p);
    for (uint32_t i = 0; i < p->stage_count; i++)
        print_stage(p, &p->stages[i]);
    print_night(p);
    print_end(p);
}
