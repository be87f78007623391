/* The report as one page that needs nothing beside it: no script, no network. */
#include "tools/export/escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler/plan/progress.h"
#include "tools/cli/account.h"
#include "tools/demo_model.h"
#include "tools/report/report.h"
#include "tools/cli/text.h"

#define WIDTH 720.0 /* of a chart, in its own units */
#define HEIGHT 96.0
#define CELSIUS_SHOWN 100.0 /* the top of a chart: GPUs slow down before */

/* Contrasts are 4.5 and more for text, 3 and more for what charts are made of. */
static const char style[] =
    "<style>\n"
    ":root{--ink:#1d1f21;--dim:#595d62;--paper:#fdfdfb;--card:#f3f3ee;--line:#d4d4cc;"
    "--bar:#2b6ca3;--mark:#a3402b}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e7e7e2;--dim:#a9adb2;--paper:#16181a;"
    "--card:#1f2225;--line:#3b3f44;--bar:#6aaee6;--mark:#f0907a}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--paper);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .6rem}"
    "h3{font-size:1rem;margin:1.2rem 0 .2rem}p{margin:.3rem 0}.dim{color:var(--dim)}\n"
    ".sums{display:grid;grid-template-columns:repeat(auto-fit,minmax(8rem,1fr));gap:.6rem;"
    "margin:1rem 0;padding:0;list-style:none}.sums li{background:var(--card);"
    "border:1px solid var(--line);border-radius:.4rem;padding:.5rem .7rem}"
    ".sums b{display:block;font-size:1.35rem}\n"
    "@media (max-width:30rem){.sums{grid-template-columns:1fr 1fr}.sums li:first-child{grid-column:"
    "1/-1}}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;overflow-wrap:normal}"
    "th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);"
    "vertical-align:top;white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-"
    "nums}\n"
    "td:last-child,th:last-child{padding-right:0}\n"
    "figure{margin:.4rem 0 .8rem}figcaption{color:var(--dim);font-size:.9rem}"
    "svg{display:block;width:100%;height:6rem;background:var(--card);border:1px solid var(--line)}"
    "svg rect{fill:var(--bar)}svg path{stroke:var(--mark);stroke-width:2;fill:none;"
    "stroke-dasharray:6 4;vector-effect:non-scaling-stroke}\n"
    ".axis{display:flex;justify-content:space-between;color:var(--dim);font-size:.85rem}\n"
    "article{border-left:3px solid var(--mark);padding-left:.8rem;margin:.9rem 0}"
    ".mend::before{content:\"\\2192\\a0\"}\n"
    "@media print{:root{--ink:#000;--dim:#444;--paper:#fff;--card:#fff;--line:#999;--bar:#555;"
    "--mark:#000}body{max-width:none;padding:0}figure,article,tr{break-inside:avoid}h2,h3{break-"
    "after:avoid}"
    "svg rect{-webkit-print-color-adjust:exact;print-color-adjust:exact}}\n"
    "</style>\n</head>\n";

static void put_html_element(struct buf *out, const char *begin, const char *text, const char *end)
{
    buf_printf(out, "%s", begin);
    html_text(out, text);
    buf_printf(out, "%s", end);
}

/* --------------------------------------------------------------------------------------- charts */

typedef double (*value_fn)(const struct report_step *s);

static double audio_value(const struct report_step *s) { return (double)s->audio_ms; }
static double use_value(const struct report_step *s)
{
    return s->span_ms > 0 ? 100.0 * (double)s->busy_ms / (double)s->span_ms : 0;
}
static double memory_value(const struct report_step *s) { return (double)s->memory_bytes; }
static double celsius_value(const struct report_step *s) { return (double)s->celsius; }

/* A value of each, for people. */
typedef void (*say_fn)(double v, char ret[TEXT_LEN]);

static void say_audio(double v, char ret[TEXT_LEN]) { text_length((int64_t)v, ret); }
static void say_use(double v, char ret[TEXT_LEN]) { snprintf(ret, TEXT_LEN, "%.0f %%", v); }
static void say_celsius(double v, char ret[TEXT_LEN])
{
    snprintf(ret, TEXT_LEN,
             "%.0f \xC2\xB0"
             "C",
             v);
}
static void say_energy(double v, char ret[TEXT_LEN]) { snprintf(ret, TEXT_LEN, "%.2f kWh", v); }
static void say_watts(double v, char ret[TEXT_LEN]) { snprintf(ret, TEXT_LEN, "%.0f W", v); }
static void say_memory(double v, char ret[TEXT_LEN]) { text_bytes((uint64_t)v, ret); }

static double most_of(const struct report_device *d, value_fn value)
{
    double most = 0;

    for (size_t i = 0; i < d->steps; i++)
        if (value(&d->step[i]) > most)
            most = value(&d->step[i]);
    return most;
}

static void put_bars(const struct report_device *d, value_fn value, double most, struct buf *out)
{
    const double step = WIDTH / (double)d->steps;

    for (size_t i = 0; i < d->steps; i++) {
        const double v = value(&d->step[i]), h = v < most ? v / most * HEIGHT : HEIGHT;

        if (v > 0)
            buf_printf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
                       (double)i * step + step * 0.05, HEIGHT - h, step * 0.9, h);
    }
}

/* `line`: a value that is marked across; 0: none. */
static void put_chart(const struct report *r, const struct report_device *d, const char *what,
                      value_fn value, say_fn say, double most, double line, struct buf *out)
{
    char from[REPORT_TIME], to[REPORT_TIME], peak[TEXT_LEN], marked[TEXT_LEN];

    if (most <= 0)
        return;
    say(most_of(d, value), peak);
    say(line, marked);
    buf_printf(out, "<figure><figcaption>%s, at most %s", what, peak);
    if (line > 0)
        buf_printf(out, "; dashed: %s predicted", marked);
    buf_printf(out,
               "</figcaption>\n<svg role=\"img\" aria-label=\"%s over time, at most %s\" "
               "viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=\"none\">",
               what, peak, WIDTH, HEIGHT);
    put_bars(d, value, most, out);
    if (line > 0)
        buf_printf(out, "<path d=\"M0 %.2fH%.0f\"/>", HEIGHT - line / most * HEIGHT, WIDTH);
    buf_printf(out, "</svg>\n<div class=\"axis\"><span>%s</span><span>%s</span></div></figure>\n",
               report_time(d->step[0].at_ms, from),
               report_time(d->step[d->steps - 1].at_ms + r->step_ms, to));
}

static void put_charts(const struct report *r, const struct report_device *d, struct buf *out)
{
    const double memory = most_of(d, memory_value);
    const double predicted = memory > 0 ? (double)d->sum.predicted_bytes : 0;
    char what[80];

    if (d->steps < 2) /* the table says as much */
        return;

    put_html_element(out, "<h3>", d->name, "</h3>\n");
    snprintf(what, sizeof(what), "Audio in each %lld minutes", (long long)r->step_ms / 60000);
    put_chart(r, d, what, audio_value, say_audio, most_of(d, audio_value), 0, out);
    put_chart(r, d, "In use", use_value, say_use, most_of(d, use_value) > 0 ? 100 : 0, 0, out);
    put_chart(r, d, "Memory in use", memory_value, say_memory,
              (memory > predicted ? memory : predicted) * 1.05, predicted, out);
    put_chart(r, d, "Load, by the driver", report_load, say_use,
              most_of(d, report_load) > 0 ? 100 : 0, 0, out);
    put_chart(r, d, "Temperature", celsius_value, say_celsius,
              most_of(d, celsius_value) > 0 ? CELSIUS_SHOWN : 0, 0, out);
    put_chart(r, d, "Power", report_watts, say_watts, most_of(d, report_watts) * 1.05, 0, out);
}

/* -------------------------------------------------------------------------------------- sections
 */

static void put_sum(struct buf *out, const char *value, const char *what)
{
    put_html_element(out, "<li><b>", value, "</b> ");
    put_html_element(out, "", what, "</li>\n");
}

static void put_sums(const struct report *r, struct buf *out)
{
    const struct store_archive *a = &r->totals.archive;
    char text[TEXT_LEN], speed[TEXT_LEN];

    buf_printf(out, "<ul class=\"sums\">\n");
    put_sum(out, text_count(r->done, text),
            text_plural(r->done, "recording done", "recordings done"));
    put_sum(out, text_length(r->audio_ms, text), "of audio processed");
    snprintf(speed, sizeof(speed), "%.1f \xC3\x97", report_speed(r));
    if (report_speed(r) > 0)
        put_sum(out, speed, "real time, while at work");
    put_sum(out, text_count(r->failed, text), "failed");
    put_sum(out, text_count(a->pending, text), "left to do");
    buf_printf(out, "</ul>\n");
}

static void put_runs(const struct report *r, struct buf *out)
{
    char at[REPORT_TIME];

    for (size_t i = 0; i < r->runs; i++) {
        const struct store_run *run = &r->run[i];

        buf_printf(out, "<p>%s to ", report_begin(run->started_ms, at));
        buf_printf(out, "%s: %s", report_until(r, run, at), report_why(r, run));
        if (run->reason[0])
            put_html_element(out, ": ", run->reason, "");
        put_html_element(out, " <span class=\"dim\">on ", run->devices, "</span></p>\n");
    }
    if (r->on && r->live.note[0])
        put_html_element(out, "<p>", r->live.note, "</p>\n");
}

/* A cell; "unknown" below 0. */
static void put_known(struct buf *out, double v, say_fn say)
{
    char text[TEXT_LEN] = "unknown";

    if (v >= 0)
        say(v, text);
    buf_printf(out, "<td class=\"n\">%s</td>", text);
}

static void put_table(const struct report *r, struct buf *out)
{
    char a[TEXT_LEN];

    buf_printf(out, "<h2>Devices</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"Devices\"><table><thead><tr><th scope=\"col\">Device</th>"
                    "<th scope=\"col\" class=\"n\">Audio</th>"
                    "<th scope=\"col\" class=\"n\">\xC3\x97 real time</th>"
                    "<th scope=\"col\" class=\"n\">In use</th>"
                    "<th scope=\"col\" class=\"n\">Memory</th>"
                    "<th scope=\"col\" class=\"n\">Predicted</th>"
                    "<th scope=\"col\" class=\"n\">Batch</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < r->devices; i++) {
        const struct report_device *d = &r->device[i];
        const struct report_step *s = &d->sum;

        put_html_element(out, "<tr><td>", d->name, "</td>");
        buf_printf(out, "<td class=\"n\">%s</td>", text_length(s->audio_ms, a));
        if (s->busy_ms > 0)
            buf_printf(out, "<td class=\"n\">%.1f</td>", (double)s->audio_ms / (double)s->busy_ms);
        else
            buf_printf(out, "<td class=\"n\">-</td>");
        buf_printf(out, "<td class=\"n\">%.0f %%</td>", use_value(s));
        buf_printf(out, "<td class=\"n\">%s</td>",
                   s->memory_bytes > 0 ? text_bytes(s->memory_bytes, a) : "unknown");
        buf_printf(out, "<td class=\"n\">%s</td>",
                   s->predicted_bytes > 0 ? text_bytes(s->predicted_bytes, a) : "unknown");
        if (d->slots > 0)
            buf_printf(out, "<td class=\"n\">%u, %u in the encoder</td></tr>\n", d->slots,
                       d->windows);
        else
            buf_printf(out, "<td class=\"n\">unknown</td></tr>\n");
    }
    buf_printf(out, "</tbody></table></div>\n");
    if (report_per_stage(r))
        buf_printf(out, "<p class=\"dim\">Audio of each stage: audio of several stages counts "
                        "several times here.</p>\n");
}

static void put_device_events(const struct report *r, struct buf *out)
{
    char at[REPORT_TIME], n[TEXT_LEN];

    if (r->events > 0)
        buf_printf(out, "<h2>Device problems</h2>\n");
    for (size_t i = 0; i < r->events; i++) {
        buf_printf(out, "<article><p>%s: ", report_time(r->event[i].at_ms, at));
        put_html_element(out, "", r->event[i].text, "</p></article>\n");
    }
    if (r->more_events > 0)
        buf_printf(out, "<p>and %s more: the table <code>event</code> of the catalog</p>\n",
                   text_count(r->more_events, n));
}

/* Those that the driver told of, by all who used them. */
static void put_sights(const struct report *r, struct buf *out)
{
    bool any = false;
    char a[TEXT_LEN];

    for (size_t i = 0; i < r->devices; i++)
        any |= r->device[i].sum.seen_ms > 0 || r->device[i].sum.left_ms > 0;
    if (!any)
        return;
    buf_printf(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" "
                    "aria-label=\"As the driver saw them\"><table><thead><tr>"
                    "<th scope=\"col\">As the driver saw it</th>"
                    "<th scope=\"col\" class=\"n\">Load</th>"
                    "<th scope=\"col\" class=\"n\">Hottest</th>"
                    "<th scope=\"col\" class=\"n\">Energy</th>"
                    "<th scope=\"col\" class=\"n\">Power</th>"
                    "<th scope=\"col\" class=\"n\">Memory of all</th>"
                    "<th scope=\"col\" class=\"n\">Left to others</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < r->devices; i++) {
        const struct report_step *s = &r->device[i].sum;

        if (s->seen_ms == 0 && s->left_ms == 0)
            continue;
        put_html_element(out, "<tr><td>", r->device[i].name, "</td>");
        put_known(out, report_load(s), say_use);
        put_known(out, (double)s->celsius, say_celsius);
        put_known(out, s->energy_j < 0 ? -1 : (double)s->energy_j / 3.6e6, say_energy);
        put_known(out, report_watts(s), say_watts);
        put_known(out, (double)s->used_bytes, say_memory);
        buf_printf(out, "<td class=\"n\">%s</td></tr>\n",
                   s->left_ms > 0 ? text_length(s->left_ms, a) : "-");
    }
    buf_printf(out, "</tbody></table></div>\n");
}

static void put_left(const struct report *r, struct buf *out)
{
    const struct store_archive *a = &r->totals.archive;
    char n[TEXT_LEN], span[PROGRESS_SPAN];

    if (r->demo)
        buf_printf(out, "<p>%s.</p>\n", demo_model_made(r->demo));
    if (a->pending > 0) {
        buf_printf(out, "<p>Left: %s %s to do", text_count(a->pending, n),
                   text_plural(a->pending, "recording", "recordings"));
        if (r->left_ms > 0)
            buf_printf(out, ", %s%s of audio", a->unknown > 0 ? "about " : "",
                       text_length(r->left_ms, n));
        if (r->low_ms >= 0) {
            progress_range(r->low_ms, r->high_ms, span);
            buf_printf(out, ": %s of work%s", span, r->on ? "" : ", at the speed of these runs");
        }
        buf_printf(out, ".</p>\n");
    }
    if (a->waiting > 0)
        buf_printf(out, "<p>%s waiting for a transcription.</p>\n", text_count(a->waiting, n));
    if (a->paused > 0)
        buf_printf(out, "<p>%s paused: <code>nightshift resume</code>.</p>\n",
                   text_count(a->paused, n));
}

/* It needs no escapes. */
static void put_account(const struct report *r, struct buf *out)
{
    struct buf said = BUF_INIT;

    for (int i = 0; i < TEXTLESS_KINDS; i++) {
        if (textless_say(r->textless, (enum store_textless)i, &said))
            buf_printf(out, "<p>%s.</p>\n", buf_cstr(&said) ? buf_cstr(&said) : "");
        out->failed |= said.failed;
        buf_clear(&said);
    }
    buf_free(&said);
    if (!account_known(&r->account))
        return;
    buf_printf(out, "<p>");
    account_say(&r->account, "doubts --missing", out);
    buf_printf(out, ".</p>\n");
}

static void put_before(const struct report *r, struct buf *out)
{
    struct buf said = BUF_INIT;

    if (report_before(r, &said) && buf_cstr(&said))
        buf_printf(out, "<p>Earlier: %s. <code>nightshift status --failures</code></p>\n",
                   buf_cstr(&said));
    out->failed |= said.failed;
    buf_free(&said);
}

/* Puts a reason once, below the names that it applies to, as report_text does. */
static void put_kind(const struct report_news *x, struct buf *out)
{
    char n[TEXT_LEN];

    buf_printf(out, "<article><h3>%s: %s</h3>\n", report_kind(x->kind), text_count(x->fresh, n));
    for (size_t i = 0; i < x->items; i++) {
        const struct report_item *item = &x->item[i];

        put_html_element(out, "<p><code>", item->path, "</code></p>\n");
        if (i + 1 < x->items && strcmp(x->item[i + 1].reason, item->reason) == 0)
            continue;
        buf_printf(out, "<p class=\"dim\">");
        if (report_stage(x, item)[0])
            put_html_element(out, "", item->stage, ": ");
        put_html_element(out, "", item->reason, "</p>\n");
    }
    if (x->fresh > x->items)
        buf_printf(out, "<p>and %s more: <code>nightshift status --failures</code></p>\n",
                   text_count(x->fresh - x->items, n));
    if (x->mend[0])
        put_html_element(out, "<p class=\"mend\">", x->mend, "</p>");
    buf_printf(out, "</article>\n");
}

static void put_news(const struct report *r, struct buf *out)
{
    bool any = false;

    for (size_t i = 0; i < r->kinds; i++) {
        if (r->news[i].fresh == 0)
            continue;
        if (!any)
            buf_printf(out, "<h2>What is new, and what helps</h2>\n");
        any = true;
        put_kind(&r->news[i], out);
    }
}

static void put_doubts(const struct report *r, struct buf *out)
{
    char at[CLOCK_HMS_LEN];

    if (r->doubts > 0)
        buf_printf(out, "<h2>What is most doubtful of it</h2>\n");
    for (size_t i = 0; i < r->doubts; i++) {
        const struct report_doubt *d = &r->doubt[i];

        clock_hms(d->start_ms, at);
        put_html_element(out, "<article><p>\xE2\x80\x9C", d->text, "\xE2\x80\x9D</p>\n");
        put_html_element(out, "<p><code>", d->path, "</code>");
        buf_printf(out, " at %s</p>\n", at);
        put_html_element(out, "<p class=\"dim\">", d->why, "</p></article>\n");
    }
}

void report_html(const struct report *r, struct buf *out)
{
    char at[REPORT_TIME];

    html_begin(out, html_policy_alone, "Nightshift: the report of the night");
    buf_printf(out, "%s<body>\n<main>\n<h1>The report of the night</h1>\n<p class=\"dim\">", style);
    html_text(out, r->catalog);
    buf_printf(out, ", %s</p>\n", report_begin(r->now_ms, at));
    if (r->runs == 0)
        buf_printf(out, "<p>No run yet. Next: <code>nightshift run</code></p>\n");
    put_sums(r, out);
    put_runs(r, out);
    put_account(r, out);
    put_left(r, out);
    put_before(r, out);
    put_news(r, out);
    put_doubts(r, out);
    put_device_events(r, out);
    if (r->devices > 0 && report_worked(r))
        put_table(r, out);
    put_sights(r, out);
    for (size_t i = 0; i < r->devices; i++)
        put_charts(r, &r->device[i], out);
    buf_printf(out, "</main>\n</body>\n</html>\n");
}
