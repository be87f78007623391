/* nightshift search: where something was said, meant or heard. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "store/find.h"
#include "store/store.h"
#include "tools/cli.h"
#include "tools/formats.h"
#include "tools/search_absence.h"
#include "tools/search_find.h"
#include "tools/text.h"

/* Marks that cannot stand in a text: control characters, replaced when printed. */
#define MARK_BEGIN "\001"
#define MARK_END "\002"

#define SPEAKERS_COLUMNS 40 /* of the names before a hit */

static const char help[] =
    "Usage: nightshift search [OPTION]... TEXT...\n"
    "   or: nightshift search --sound SOUND [OPTION]... [TEXT]...\n"
    "Where something was said: recording, time, who says it, and the words around it.\n"
    "Every word must occur in a segment; \"a phrase\" must stand so; mark* finds market\n"
    "too; accents and case do not matter. Where the catalog has vectors of what is\n"
    "said (nightshift enqueue --embed), what has the same meaning in other words\n"
    "comes below that, behind a line that says so; not with quotes or a star.\n"
    "\n"
    "      --text             by words alone\n"
    "  -s, --semantic         by meaning alone, however unlike\n"
    "      --sound=SOUND      where this is heard: a class of sounds (applause),\n"
    "                         or what a description sounds like, as the catalog has\n"
    "                         them (nightshift enqueue --sounds, --embed-audio); the\n"
    "                         figure, 0 to 1, is how sure the model was. With TEXT:\n"
    "                         where both are, at most 10 s apart\n"
    "      --speaker=WHO      only what WHO says: a name, or a label\n"
    "  -p, --in, --path=PATH  only in this file, or below this folder\n"
    "  -l, --language=CODE    only what is said in this language\n"
    "  -n, --limit=N          hits to show (default: 20; 0: all)\n"
    "  -t, --by-time          by words alone, in the order of recordings and times\n"
    "      --json             as a JSON array\n"
    "  -c, --catalog=FILE     the catalog\n"
    "  -h, --help             this text\n"
    "\n"
    "Examples:\n"
    "  nightshift search market square\n"
    "  nightshift search '\"market square\"' --in /archive/1990\n"
    "  nightshift search --semantic where did they grow up --speaker Ana\n"
    "  nightshift search --sound applause\n"
    "  nightshift search --sound applause strike\n"
    "  nightshift search 'mark*' --json | jq -r '.[].text'\n";

struct wanted {
    uint32_t limit;
    const char *path, *speaker, *language, *sound;
    bool by_time, words_only, meaning_only;
};

enum { OPT_TEXT = 256, OPT_SOUND, OPT_SPEAKER };

static const struct option longs[] = {
    {"limit", required_argument, NULL, 'n'},
    {"path", required_argument, NULL, 'p'},
    {"in", required_argument, NULL, 'p'},
    {"by-time", no_argument, NULL, 't'},
    {"text", no_argument, NULL, OPT_TEXT},
    {"semantic", no_argument, NULL, 's'},
    {"language", required_argument, NULL, 'l'},
    {"sound", required_argument, NULL, OPT_SOUND},
    {"speaker", required_argument, NULL, OPT_SPEAKER},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;

    switch (option) {
    case 'n':
        return cli_u32("--limit", value, 0, 1000000, &w->limit, err);
    case 'p':
        w->path = value;
        return 0;
    case 'l':
        w->language = value;
        return 0;
    case 's':
        w->meaning_only = true;
        return 0;
    case OPT_TEXT:
        w->words_only = true;
        return 0;
    case OPT_SPEAKER:
        w->speaker = value;
        return 0;
    case OPT_SOUND:
        w->sound = value;
        return value[0] ? 0 : err_set(err, ERR_USAGE, "--sound wants the name of a sound");
    default:
        w->by_time = true;
        return 0;
    }
}

struct hits {
    struct store *store;
    const char *path; /* only there; NULL: everywhere */
    bool json;
    uint64_t shown, limit;
    bool more, heard; /* heard: something like the sound, which a text is to be near */
    struct err err;
    struct buf last; /* the recording whose name was printed last */
};

static void to_stdout(void *arg, const char *bytes, size_t n)
{
    (void)arg;
    fwrite(bytes, 1, n, stdout);
}

static void to_buf(void *arg, const char *bytes, size_t n) { buf_put(arg, bytes, n); }

/* `before` and the snippet, safe to print, with marks as the output has them: "[" and "]", or
 * colour. The caller has written `indent` columns. */
static void print_snippet(const char *before, const char *snippet, size_t indent, bool color)
{
    struct buf line = BUF_INIT, out = BUF_INIT;
    const char *open = color ? "\033[1;33m" : "[", *close = color ? "\033[0m" : "]";
    unsigned columns = cli_columns(stdout);
    char *text;

    buf_printf(&line, "%s ", before);
    for (const char *s = snippet;;) {
        size_t n = strcspn(s, MARK_BEGIN MARK_END);
        char *safe = utf8_display(s, n);

        if (safe != NULL)
            buf_put(&line, safe, strlen(safe));
        free(safe);
        if (s[n] == 0)
            break;
        buf_put(&line, s + n, 1);
        s += n + 1;
    }
    text = buf_cstr(&line);
    text_wrap(to_buf, &out, text != NULL ? text : "", indent, indent, columns);
    for (size_t i = 0; i < out.len; i++)
        if (out.data[i] == MARK_BEGIN[0])
            fputs(open, stdout);
        else if (out.data[i] == MARK_END[0])
            fputs(close, stdout);
        else
            putchar(out.data[i]);
    putchar('\n');
    buf_free(&line);
    buf_free(&out);
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
        format_json_string(b, r->sound);
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
    format_json_string(b, r->speaker);
    buf_printf(b, ", \"speakers\": [");
    for (size_t i = 0; i < r->speaker_count; i++) {
        buf_printf(b, "%s", i > 0 ? ", " : "");
        format_json_string(b, r->speakers[i]);
    }
    if (r->speaker_count == 0 && r->speaker[0] != 0)
        format_json_string(b, r->speaker);
    buf_printf(b, "]");
}

static void print_json(const struct search_result *r, bool first)
{
    struct buf b = BUF_INIT;
    char *marked = strdup(r->snippet);

    for (char *s = marked; s != NULL && *s; s++)
        *s = *s == MARK_BEGIN[0] ? '[' : *s == MARK_END[0] ? ']' : *s;
    buf_printf(&b, "%s\n  {\"recording\": %lld, \"path\": ", first ? "[" : ",",
               (long long)r->media_id);
    format_json_string(&b, r->path);
    buf_printf(&b, ", \"member\": ");
    format_json_string(&b, r->member);
    buf_printf(&b, ", \"start_ms\": %lld, \"end_ms\": %lld, \"language\": ", (long long)r->start_ms,
               (long long)r->end_ms);
    format_json_string(&b, r->language);
    put_who(&b, r);
    buf_printf(&b, ", \"text\": ");
    format_json_string(&b, r->text);
    buf_printf(&b, ", \"hit\": ");
    format_json_string(&b, marked != NULL ? marked : "");
    put_ways(&b, r);
    buf_printf(&b, "}");
    fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    free(marked);
}

/* The recording's name, unless it is the one that was printed last. */
static void print_name(struct hits *h, const struct search_result *r)
{
    struct buf name = BUF_INIT;

    buf_printf(&name, "%s%s%s", r->path, r->member[0] ? "//" : "", r->member);
    if (name.len != h->last.len || memcmp(name.data, h->last.data, name.len) != 0) {
        char *s = buf_cstr(&name);

        cli_paint(stdout, "1", s != NULL ? s : r->path);
        putchar('\n');
        buf_clear(&h->last);
        buf_put(&h->last, name.data, name.len);
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

/* "(to 0:45.000) ": a passage is longer than a segment, and what was meant may stand at its end. */
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

        columns += 2 + (shown != NULL ? text_width(shown) : 0);
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

/* What stands before the text: the sound, and who says it. Newly allocated, safe to print. */
static char *before_of(const struct search_result *r)
{
    struct buf b = BUF_INIT;
    char *shown;

    if (r->sound_end_ms > 0)
        put_sound(&b, r);
    else if (r->by[SEARCH_MEANING] && !r->by[SEARCH_WORDS])
        put_end(&b, r);
    put_speakers(&b, r);
    shown = utf8_display(b.len > 0 ? (const char *)b.data : "", b.len);
    buf_free(&b);
    return shown;
}

static void print_one(struct hits *h, const struct search_result *r)
{
    char at[CLOCK_HMS_LEN], *before;

    if (h->json) {
        print_json(r, h->shown == 1);
        return;
    }
    print_name(h, r);
    clock_hms(r->start_ms, at);
    printf("%12s  ", at);
    before = before_of(r);
    print_snippet(before != NULL ? before : "", r->snippet[0] ? r->snippet : r->text, 14,
                  cli_color(stdout));
    free(before);
}

struct placing {
    struct hits *hits;
    struct search_result row; /* borrowed */
    bool printed;
};

static int on_place(void *arg, const char *path, const char *member)
{
    struct placing *x = arg;

    x->row.path = (char *)path;
    x->row.member = (char *)member;
    x->printed = true;
    print_one(x->hits, &x->row);
    return 0;
}

/* With the place that was asked about, of a recording that lies in several. */
static int print_hit(struct hits *h, const struct search_result *r)
{
    struct placing x = {.hits = h, .row = *r};
    struct err err = {0};

    if (h->limit > 0 && h->shown == h->limit) {
        h->more = true;
        return 1;
    }
    h->shown++;
    if (h->path != NULL && find_place(h->store, r->media_id, h->path, on_place, &x, &err) != 0)
        return err_set(&h->err, err.code, "%s", err.msg);
    if (!x.printed)
        print_one(h, r);
    return 0;
}

static int on_segment(void *arg, const struct read_segment *row)
{
    return print_hit(
        arg, &(struct search_result){.media_id = row->media_id,
                                     .start_ms = row->start_ms,
                                     .end_ms = row->end_ms,
                                     .score = NAN,
                                     .by = {[SEARCH_WORDS] = true},
                                     .likeness = NAN,
                                     .sound_score = NAN,
                                     .path = (char *)row->path,
                                     .member = (char *)row->member,
                                     .speaker = (char *)row->speaker,
                                     .language = (char *)row->language,
                                     .text = (char *)row->text,
                                     .snippet = (char *)(row->snippet != NULL ? row->snippet : ""),
                                     .sound = (char *)""});
}

static char *joined(int argc, char **argv, int from)
{
    struct buf b = BUF_INIT;
    char *ret;

    for (int i = from; i < argc; i++)
        buf_printf(&b, "%s%s", i > from ? " " : "", argv[i]);
    ret = b.failed ? NULL : utf8_repair(b.data, b.len);
    buf_free(&b);
    return ret;
}

/* Words alone are handed on as they are found: there may be very many. */
static int search_words(struct store *st, const struct wanted *w, const char *text,
                        const char *path, struct hits *h, struct err *err)
{
    const struct read_search s = {.text = text,
                                  .path = path,
                                  .speaker = w->speaker,
                                  .language = w->language,
                                  .mark_begin = MARK_BEGIN,
                                  .mark_end = MARK_END,
                                  .limit = w->limit > 0 ? (uint64_t)w->limit + 1 : 0,
                                  .by_time = w->by_time};

    return read_search(st, &s, on_segment, h, err);
}

static struct search_wish wish_of(const struct wanted *w, const char *text, const char *path)
{
    return (struct search_wish){.text = text,
                                .sound = w->sound,
                                .words = !w->meaning_only,
                                .meaning = !w->words_only,
                                .meaning_must = w->meaning_only,
                                .path = path,
                                .speaker = w->speaker,
                                .language = w->language,
                                .mark_begin = MARK_BEGIN,
                                .mark_end = MARK_END,
                                .limit = w->limit};
}

/* The line above what is like it only. */
static void print_parting(struct hits *h, const struct search_wish *wish, bool any_named)
{
    if (h->json || wish->meaning_must || (h->limit > 0 && h->shown == h->limit))
        return;
    if (wish->text != NULL)
        puts(any_named ? "By meaning, not in these words:"
                       : "Nobody said that in these words. By meaning:");
    else
        puts(any_named ? "By its likeness, not by the class of sound:"
                       : "No such class of sounds was heard. By its likeness:");
    buf_clear(&h->last);
}

static int search_all(struct store *st, const struct wanted *w, const char *text, const char *path,
                      struct hits *h, struct err *err)
{
    const struct search_wish wish = wish_of(w, text, path);
    struct search_results found;
    int rc = search_find(st, &wish, &found, err);

    if (rc != 0)
        return rc;
    h->heard = found.heard;
    if (found.note[0] != 0)
        cli_note("%s.", found.note);
    for (size_t i = 0; i < found.count && rc == 0; i++) {
        if (i == found.named)
            print_parting(h, &wish, found.named > 0);
        rc = print_hit(h, &found.list[i]);
    }
    search_results_free(&found);
    return rc;
}

/* Are words all that can be searched, or all that is wanted? */
static bool only_words(struct store *st, const struct wanted *w)
{
    struct store_stage_row stage = {0};
    struct err none = {0};

    if (w->sound != NULL || w->meaning_only)
        return false;
    if (w->words_only || w->by_time || find_stage(st, "embed-text", &stage, &none) != 0)
        return true;
    store_stage_row_free(&stage);
    return false;
}

static void print_nothing(struct store *st, const struct hits *h, const struct search_wish *wish)
{
    struct buf said = BUF_INIT;
    struct err none = {0};
    const char *line;

    if (wish->text != NULL && wish->sound != NULL && !h->heard)
        buf_printf(&said, "Nothing sounds like '%s', so nobody speaks near it.", wish->sound);
    else
        buf_printf(&said, "%s",
                   wish->text == NULL    ? "Nothing sounds like that."
                   : wish->sound != NULL ? "Nobody said that near such a sound."
                   : wish->meaning_must  ? "Nothing that was said is there to be compared."
                                         : "Nobody said that. Fewer words, or the beginning of "
                                           "one as in 'mark*', find more.");
    line = search_waiting(st, wish, &said, &none) == 0 ? buf_cstr(&said) : NULL;
    text_wrap(to_stdout, NULL, line != NULL ? line : "Nothing was found.", 0, 0,
              cli_columns(stdout));
    putchar('\n');
    buf_free(&said);
}

static int search(struct cli *cli, const struct wanted *w, const char *text, const char *path)
{
    const struct search_wish wish = wish_of(w, text, path);
    struct hits h = {.json = cli->json, .limit = w->limit, .path = path};
    struct store *st = NULL;
    struct err err = {0};
    int status = EX_OK, rc;
    char n[TEXT_LEN];

    if (store_open(cli->catalog, STORE_READ, &st, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    h.store = st;
    rc = search_check(st, &wish, &err);
    if (rc != 0) {
        store_close(st);
        return cli_fail("search", &err, rc == ERR_MISSING || rc == ERR_EMPTY ? "" : NULL);
    }
    rc = (only_words(st, w) ? search_words : search_all)(st, w, text, path, &h, &err);
    if (h.err.code != 0)
        err = h.err;
    if (cli->json && rc >= 0)
        printf("%s%s]\n", h.shown == 0 ? "[" : "", h.shown > 0 ? "\n" : "");
    if (rc == ERR_USAGE)
        status = cli_usage(cli, "%s", err.msg + (strncmp(err.msg, "search: ", 8) == 0 ? 8 : 0));
    else if (rc < 0)
        status = cli_fail("search", &err,
                          rc == ERR_EMPTY ? "`nightshift enqueue --embed` makes them." : NULL);
    else if (!cli->json && h.shown == 0)
        print_nothing(st, &h, &wish);
    else if (!cli->json && h.more)
        printf("... the first %s %s; --limit 0 shows all of them.\n", text_count(h.shown, n),
               text_plural(h.shown, "hit", "hits"));
    buf_free(&h.last);
    store_close(st);
    return cli_flush(status);
}

int cmd_search(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "n:p:l:st", longs, take, true};
    struct wanted w = {.limit = 20};
    struct err err = {0};
    char *text = NULL, *path = NULL, *shown = NULL, *expression = NULL;
    bool says;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    says = optind < argc;
    if (!says && w.sound == NULL)
        return cli_usage(cli, "what should be searched for?");
    if (w.meaning_only && (w.words_only || w.by_time || !says))
        return cli_usage(cli, says ? "--semantic does not go with --text and --by-time"
                                   : "--semantic wants a TEXT");
    if (w.by_time && w.sound != NULL)
        return cli_usage(cli, "--by-time is about words alone: it does not go with --sound");
    text = says ? joined(argc, argv, optind) : NULL;
    if (text != NULL && read_search_expression(text, &expression, &err) == ERR_USAGE) {
        free(text);
        return cli_usage(cli, "%s", err.msg + (strncmp(err.msg, "search: ", 8) == 0 ? 8 : 0));
    }
    free(expression);
    w.words_only |= text != NULL && !w.meaning_only && strpbrk(text, "\"*") != NULL;
    if (w.path != NULL && cli_absolute(w.path, &path, &err) == 0)
        shown = utf8_display(path, strlen(path));
    if ((says && text == NULL) || (w.path != NULL && shown == NULL)) {
        if (err.code == 0)
            err_set(&err, ERR_NOMEM, "out of memory");
        status = cli_fail("search", &err, NULL);
    } else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = search(cli, &w, text, shown);
    free(shown);
    free(path);
    free(text);
    return status;
}
