#include "tools/export/html/overview.h"

#include <stdio.h>
#include <string.h>

#include "tools/cli/text.h"
#include "tools/export/escape.h"

#define BARS 8

void overview_free(struct overview *o)
{
    struct tally *all[] = {&o->languages, &o->years,    &o->states, &o->failures,
                           &o->doubts,    &o->speakers, &o->sounds};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tally_free(all[i]);
    buf_free(&o->rows);
    buf_free(&o->plain);
    *o = (struct overview){0};
}

static void put(struct buf *out, const char *s) { buf_put(out, s, strlen(s)); }

/* ------------------------------------------------------------------------------------- sums */

static const char *const shares[] = {"No passage in doubt", "Up to 5 % in doubt",
                                     "Up to 20 % in doubt", "More in doubt"};

static unsigned doubt_percent(const struct document *d)
{
    size_t doubted = 0;

    for (size_t i = 0; i < d->segment_count; i++)
        doubted += document_doubted(d->segments[i].reason);
    return doubted == 0 ? 0 : (unsigned)((doubted * 100 + d->segment_count - 1) / d->segment_count);
}

static const char *share_of(unsigned percent)
{
    return shares[percent == 0 ? 0 : percent <= 5 ? 1 : percent <= 20 ? 2 : 3];
}

static int add_document(struct overview *o, const struct document *d, struct err *err)
{
    int rc = 0;

    /* All of them, so that the chart has them in their order. */
    for (size_t i = 0; rc == 0 && i < sizeof(shares) / sizeof(shares[0]); i++)
        rc = tally_add(&o->doubts, shares[i], 0, err);
    if (rc == 0)
        rc = tally_add(&o->doubts, share_of(doubt_percent(d)), 1, err);
    for (size_t i = 0; rc == 0 && i < d->turn_count; i++) {
        const struct document_turn *t = &d->turns[i];

        /* A label says nothing beyond its recording. */
        rc = tally_add(&o->speakers,
                       strcmp(t->speaker, t->label) == 0 ? "Without a name" : t->speaker,
                       t->end_ms - t->start_ms, err);
    }
    for (size_t i = 0; rc == 0 && i < d->sound_count; i++)
        rc = tally_add(&o->sounds, d->sounds[i].name, d->sounds[i].end_ms - d->sounds[i].start_ms,
                       err);
    return rc;
}

/* In words; the codes are those of base/err.h. */
static const char *reason_of(const char *code)
{
    static const char *const words[][2] = {
        {"input", "Cannot be decoded"},      {"missing", "Not there any more"},
        {"denied", "No permission to read"}, {"changed", "Changed since it was enqueued"},
        {"limit", "Beyond its bounds"},      {"crash", "A process died over it"},
        {"timeout", "No sign of life"},      {"io", "Could not be read"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i][0], code) == 0)
            return words[i][1];
    return code[0] ? code : "Unknown";
}

/* A recording that is done but could not be read to its end is "damaged". */
static const char *state_of(const struct read_recording *r)
{
    return strcmp(r->state, "done") == 0 && r->damage[0] ? "damaged" : r->state;
}

static int add_sums(struct overview *o, const struct read_recording *r, struct err *err)
{
    const int64_t ms = r->duration_ms > 0 ? r->duration_ms : 0;
    char year[8] = "unknown";
    int rc;

    if (strlen(r->recorded_on) >= 4)
        snprintf(year, sizeof(year), "%.4s", r->recorded_on);
    o->audio_ms += ms;
    rc = tally_add(&o->states, r->state[0] ? state_of(r) : "not asked for", ms, err);
    if (rc == 0)
        rc = tally_add(&o->languages, r->language[0] ? r->language : "unknown", ms, err);
    if (rc == 0)
        rc = tally_add(&o->years, year, ms, err);
    if (rc == 0 && strcmp(r->state, "failed") == 0)
        rc = tally_add(&o->failures, reason_of(r->error_code), 1, err);
    return rc;
}

/* ------------------------------------------------------------------------------------- rows */

static void put_row(struct overview *o, const struct read_recording *r, const struct document *d,
                    const char *id, const char *where)
{
    struct buf *out = &o->rows;

    buf_printf(out, "%s[\"%s\",", o->recordings > 1 ? ",\n" : "", id);
    html_json(out, where);
    put(out, ",");
    html_json(out, r->title);
    put(out, ",");
    html_json(out, r->language);
    put(out, ",");
    html_json(out, r->recorded_on);
    buf_printf(out, ",%lld,",
               r->duration_ms < 0 || r->no_sound ? -1LL : (long long)(r->duration_ms / 1000));
    html_json(out, state_of(r));
    buf_printf(out, ",%u,", d ? doubt_percent(d) : 0);
    html_json(out, strcmp(r->state, "failed") == 0 ? r->error : r->damage);
    put(out, "]");
}

static void put_plain_row(struct overview *o, const struct read_recording *r, const char *id,
                          const char *where)
{
    struct buf *out = &o->plain;
    char length[TEXT_LEN] = "";

    if (r->duration_ms >= 0)
        text_length(r->duration_ms, length);
    put(out, "<tr><th scope=\"row\" dir=\"auto\">");
    if (id[0])
        buf_printf(out, "<a href=\"recordings/%s.html\">", id);
    html_text(out, where);
    put(out, id[0] ? "</a></th><td>" : "</th><td>");
    html_text(out, r->recorded_on);
    buf_printf(out, "</td><td>%s</td><td>", r->no_sound ? "no sound" : length);
    html_text(out, r->language);
    put(out, "</td><td>");
    html_text(out, state_of(r));
    put(out, "</td></tr>\n");
}

int overview_add(struct overview *o, const struct read_recording *r, const struct document *d,
                 const char *id, const char *where, struct err *err)
{
    int rc = add_sums(o, r, err);

    if (rc == 0 && d)
        rc = add_document(o, d, err);
    if (rc != 0)
        return rc;
    o->recordings++;
    o->pages += id[0] != 0;
    put_row(o, r, d, id, where);
    put_plain_row(o, r, id, where);
    return o->rows.failed || o->plain.failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* ------------------------------------------------------------------------------------ pages */

static void put_sentence(const struct overview *o, struct buf *out)
{
    char n[TEXT_LEN], length[TEXT_LEN], pages[TEXT_LEN];

    buf_printf(out, "<p class=\"lead\">%s %s, %s of sound. %s can be read.</p>\n",
               text_count(o->recordings, n), text_plural(o->recordings, "recording", "recordings"),
               text_length(o->audio_ms, length), text_count(o->pages, pages));
}

static void put_charts(const struct overview *o, struct buf *out)
{
    put(out, "<section aria-labelledby=\"glance\">\n<h2 id=\"glance\">At a glance</h2>\n"
             "<div class=\"charts\">\n");
    tally_put(&o->languages, &(struct tally_chart){"Hours by language", true, TALLY_LARGEST, BARS},
              out);
    tally_put(&o->years, &(struct tally_chart){"Hours by year", true, TALLY_BY_NAME, 2 * BARS},
              out);
    tally_put(&o->states, &(struct tally_chart){"Hours by state", true, TALLY_LARGEST, 0}, out);
    tally_put(&o->failures, &(struct tally_chart){"Failures by reason", false, TALLY_LARGEST, BARS},
              out);
    tally_put(&o->doubts, &(struct tally_chart){"Recordings by doubt", false, TALLY_AS_ADDED, 0},
              out);
    tally_put(&o->speakers, &(struct tally_chart){"Speakers", true, TALLY_LARGEST, BARS}, out);
    tally_put(&o->sounds, &(struct tally_chart){"Sounds", true, TALLY_LARGEST, BARS}, out);
    put(out, "</div>\n</section>\n");
}

static void begin_archive_page(struct buf *out, const char *title, bool scripts)
{
    html_begin(out, html_policy_folder, title);
    put(out, "<link rel=\"stylesheet\" href=\"pages/style.css\">\n");
    if (scripts)
        put(out, "<script src=\"pages/archive.js\" defer></script>\n"
                 "<script src=\"search/list.js\" defer></script>\n"
                 "<script src=\"search/pieces.js\" defer></script>\n");
    put(out,
        "</head>\n<body class=\"archive\">\n<a class=\"skip\" href=\"#list\">To the list</a>\n");
}

void overview_put_index(const struct overview *o, struct buf *out)
{
    begin_archive_page(out, "Recordings", true);
    put(out, "<header>\n<h1>Recordings</h1>\n");
    put_sentence(o, out);
    put(out,
        "</header>\n<main>\n"
        "<section id=\"search\" aria-labelledby=\"searching\" hidden>\n"
        "<h2 id=\"searching\">Search</h2>\n"
        "<form role=\"search\" id=\"asked\"><label for=\"words\">Words that are said, in any "
        "recording</label>\n"
        "<input type=\"search\" id=\"words\" autocomplete=\"off\" spellcheck=\"false\"></form>\n"
        "<p id=\"found\" role=\"status\"></p>\n<ol id=\"hits\" class=\"hits\"></ol>\n</section>\n");
    put_charts(o, out);
    put(out, "<section id=\"list\" tabindex=\"-1\" aria-labelledby=\"listed\">\n"
             "<h2 id=\"listed\">All recordings</h2>\n"
             "<p><a href=\"list.html\">The whole list as a plain table</a></p>\n</section>\n"
             "</main>\n</body>\n</html>\n");
}

void overview_put_plain(const struct overview *o, struct buf *out)
{
    begin_archive_page(out, "All recordings", false);
    put(out, "<header>\n<nav><a href=\"index.html\">At a glance</a></nav>\n"
             "<h1>All recordings</h1>\n</header>\n<main>\n<section id=\"list\" tabindex=\"-1\" "
             "aria-label=\"List\">\n"
             "<table class=\"list\"><thead><tr><th scope=\"col\">Recording</th>"
             "<th scope=\"col\">Recorded</th><th scope=\"col\">Length</th>"
             "<th scope=\"col\">Language</th><th scope=\"col\">State</th></tr></thead>\n<tbody>\n");
    buf_put(out, o->plain.data, o->plain.len);
    put(out, "</tbody></table>\n</section>\n</main>\n</body>\n</html>\n");
}

void overview_put_list(const struct overview *o, struct buf *out)
{
    put(out, "list([");
    buf_put(out, o->rows.data, o->rows.len);
    put(out, "]);\n");
}
