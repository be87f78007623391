#include "tools/search/search_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "store/read/find.h"
#include "tools/cli/cli.h"
#include "tools/export/escape.h"
#include "tools/cli/highlight.h"
#include "tools/search/search_last.h"
#include "tools/cli/text.h"

#define SPEAKERS_COLUMNS 40 /* of the names before a hit */

/* Behind a sound there is only the first segment of what is said meanwhile. */
static bool says_more(const struct search_result *r)
{
    return r->speaker_count > 1 && !r->by[SEARCH_WORDS] && !r->by[SEARCH_MEANING];
}

/* The caller has written `indent` columns. */
static void print_snippet(const char *before, const char *snippet, bool more, size_t indent)
{
    struct buf line = BUF_INIT;
    const char *text;

    buf_printf(&line, "%s %s%s", before, snippet, more ? " ..." : "");
    text = buf_cstr(&line);
    highlight_print(text ? text : "", indent);
    buf_free(&line);
}

static void put_ways(struct buf *b, const struct search_result *r)
{
    bool any = false;

    buf_printf(b, ", \"by\": [");
    for (int k = 0; k < SEARCH_WAYS; k++)
        if (r->by[k]) {
            buf_printf(b, "%s\"%s\"", any ? ", " : "", search_way_names[k]);
            any = true;
        }
    buf_printf(b, "]");
    if (isfinite(r->score))
        buf_printf(b, ", \"score\": %.6g", r->score);
    if (isfinite(r->likeness))
        buf_printf(b, ", \"likeness\": %.6g", r->likeness);
    if (r->sound[0] != 0) {
        buf_printf(b, ", \"sound\": ");
        escape_json(b, r->sound);
        buf_printf(b, ", \"sound_score\": %.6g", r->sound_score);
    }
    if (r->sound_end_ms > 0)
        buf_printf(b, ", \"sound_start_ms\": %lld, \"sound_end_ms\": %lld",
                   (long long)r->sound_start_ms, (long long)r->sound_end_ms);
}

/* Who says most of it, and all who speak in it. */
static void put_who(struct buf *b, const struct search_result *r)
{
    buf_printf(b, ", \"speaker\": ");
    escape_json(b, r->speaker);
    buf_printf(b, ", \"speakers\": [");
    for (size_t i = 0; i < r->speaker_count; i++) {
        buf_printf(b, "%s", i > 0 ? ", " : "");
        escape_json(b, r->speakers[i]);
    }
    if (r->speaker_count == 0 && r->speaker[0] != 0)
        escape_json(b, r->speaker);
    buf_printf(b, "]");
}

static void print_json(const struct search_result *r, bool first)
{
    struct buf b = BUF_INIT;
    char *marked = strdup(r->snippet);

    for (char *s = marked; s && *s; s++)
        *s = *s == MARK_BEGIN[0] ? '[' : *s == MARK_END[0] ? ']' : *s;
    buf_printf(&b, "%s\n  {\"recording\": %lld, \"path\": ", first ? "[" : ",",
               (long long)r->media_id);
    escape_json(&b, r->path);
    buf_printf(&b, ", \"member\": ");
    escape_json(&b, r->member);
    buf_printf(&b, ", \"start_ms\": %lld, \"end_ms\": %lld, \"language\": ", (long long)r->start_ms,
               (long long)r->end_ms);
    escape_json(&b, r->language);
    put_who(&b, r);
    buf_printf(&b, ", \"text\": ");
    escape_json(&b, r->text);
    buf_printf(&b, ", \"hit\": ");
    escape_json(&b, marked ? marked : "");
    put_ways(&b, r);
    buf_printf(&b, "}");
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    free(marked);
}

/* The recording's name, unless it is the one that was printed last. */
static void print_name(struct search_page *p, const struct search_result *r)
{
    struct buf name = BUF_INIT;

    buf_printf(&name, "%s%s%s", r->path, r->member[0] ? "//" : "", r->member);
    if (name.len != p->last.len || memcmp(name.data, p->last.data, name.len) != 0) {
        char *s = buf_cstr(&name);

        cli_paint(stdout, "1", s ? s : r->path);
        putchar('\n');
        buf_clear(&p->last);
        buf_put(&p->last, name.data, name.len);
    }
    buf_free(&name);
}

/* "(Applause 0:21.000-0:24.000, 0.90) " */
static void put_sound(struct buf *b, const struct search_result *r)
{
    char from[CLOCK_HMS_LEN], to[CLOCK_HMS_LEN];

    clock_hms(r->sound_start_ms, from);
    clock_hms(r->sound_end_ms, to);
    buf_printf(b, "(%s%s%s-%s", r->sound, r->sound[0] ? " " : "", from, to);
    if (isfinite(r->sound_score))
        buf_printf(b, ", %.2f", r->sound_score);
    buf_printf(b, ") ");
}

/* "(to 0:45.000) ": it is longer than a segment, and what was meant may stand at its end. */
static void put_end(struct buf *b, const struct search_result *r)
{
    char to[CLOCK_HMS_LEN];

    clock_hms(r->end_ms, to);
    buf_printf(b, "(to %s) ", to);
}

/* "Ana, SPEAKER_01 and 2 more:" */
static void put_speakers(struct buf *b, const struct search_result *r)
{
    size_t named = 0, columns = 0, left;

    for (; named < r->speaker_count; named++) {
        char *shown = utf8_display(r->speakers[named], strlen(r->speakers[named]));

        columns += 2 + (shown ? text_width(shown) : 0);
        free(shown);
        if (named > 0 && columns > SPEAKERS_COLUMNS)
            break;
        buf_printf(b, "%s%s", named > 0 ? ", " : "", r->speakers[named]);
    }
    left = r->speaker_count - named + r->speakers_more;
    if (left > 0)
        buf_printf(b, " and %zu more", left);
    if (named == 0)
        buf_printf(b, "%s", r->speaker);
    if (named > 0 || r->speaker[0] != 0)
        buf_printf(b, ":");
}

/* The sound and the speaker, which go before the text. Newly allocated, safe to print. */
static char *before_of(const struct search_result *r)
{
    struct buf b = BUF_INIT;
    char *shown;

    if (r->sound_end_ms > 0)
        put_sound(&b, r);
    if (r->several || (r->by[SEARCH_MEANING] && !r->by[SEARCH_WORDS] && r->sound_end_ms == 0))
        put_end(&b, r);
    put_speakers(&b, r);
    shown = utf8_display(b.len > 0 ? (const char *)b.data : "", b.len);
    buf_free(&b);
    return shown;
}

static void print_one(struct search_page *p, const struct search_result *r)
{
    char at[CLOCK_HMS_LEN], *before;

    if (p->json) {
        print_json(r, p->shown == 1);
        return;
    }
    print_name(p, r);
    clock_hms(r->start_ms, at);
    printf("%-3llu %8s  ", (unsigned long long)p->shown, at);
    before = before_of(r);
    print_snippet(before ? before : "", r->snippet[0] ? r->snippet : r->text, says_more(r), 14);
    free(before);
}

struct placing {
    struct search_page *page;
    struct search_result row; /* borrowed */
    bool printed;
};

static int on_place(void *arg, int64_t place_id, const char *path, const char *member)
{
    struct placing *x = arg;

    (void)place_id;
    x->row.path = (char *)path;
    x->row.member = (char *)member;
    x->printed = true;
    print_one(x->page, &x->row);
    return 0;
}

int search_print(struct search_page *p, const struct search_result *r)
{
    struct placing x = {.page = p, .row = *r};
    struct err err = {0};

    if (p->limit > 0 && p->shown == p->limit) {
        p->more = true;
        return 1;
    }
    p->shown++;
    search_last_put(&p->hits, r->media_id, r->sound_end_ms > 0 ? r->sound_start_ms : r->start_ms,
                    r->end_ms);
    if (p->path && find_place(p->store, r->media_id, p->path, on_place, &x, &err) != 0)
        return err_set(&p->err, err.code, "%s", err.msg);
    if (!x.printed)
        print_one(p, r);
    return 0;
}
