/* nightshift search: where something was said, meant or heard. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "store/read/find.h"
#include "store/store.h"
#include "tools/cli.h"
#include "tools/search/search_absence.h"
#include "tools/search/search_find.h"
#include "tools/search/search_print.h"
#include "tools/text.h"
#include "workers/stages/stage_kind.h"

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

static void to_stdout(void *arg, const char *bytes, size_t n)
{
    (void)arg;
    fwrite(bytes, 1, n, stdout);
}

static int on_segment(void *arg, const struct read_segment *row)
{
    return search_print(
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
                                     .snippet = (char *)(row->snippet ? row->snippet : ""),
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
                        const char *path, struct search_page *h, struct err *err)
{
    const struct read_search s = {.text = text,
                                  .path = path,
                                  .speaker = w->speaker,
                                  .language = w->language,
                                  .mark_begin = SEARCH_MARK_BEGIN,
                                  .mark_end = SEARCH_MARK_END,
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
                                .mark_begin = SEARCH_MARK_BEGIN,
                                .mark_end = SEARCH_MARK_END,
                                .limit = w->limit};
}

/* The line above what is like it only. */
static void print_parting(struct search_page *h, const struct search_wish *wish, bool any_named)
{
    if (h->json || wish->meaning_must || (h->limit > 0 && h->shown == h->limit))
        return;
    if (wish->text)
        puts(any_named ? "By meaning, not in these words:"
                       : "Nobody said that in these words. By meaning:");
    else
        puts(any_named ? "By its likeness, not by the class of sound:"
                       : "No such class of sounds was heard. By its likeness:");
    buf_clear(&h->last);
}

static int search_all(struct store *st, const struct wanted *w, const char *text, const char *path,
                      struct search_page *h, struct err *err)
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
        rc = search_print(h, &found.list[i]);
    }
    search_results_free(&found);
    return rc;
}

/* Are words all that can be searched, or all that is wanted? */
static bool only_words(struct store *st, const struct wanted *w)
{
    struct store_stage_row stage = {0};
    struct err none = {0};

    if (w->sound || w->meaning_only)
        return false;
    if (w->words_only || w->by_time || find_stage(st, stage_embed_text.name, &stage, &none) != 0)
        return true;
    store_stage_row_free(&stage);
    return false;
}

static const char *nothing_of(const struct search_wish *wish)
{
    if (!wish->text)
        return wish->speaker ? "Nothing sounds like that while that speaker says something."
                             : "Nothing sounds like that.";
    if (wish->sound)
        return "Nobody said that near such a sound.";
    if (wish->meaning_must)
        return "Nothing that was said is there to be compared.";
    return "Nobody said that. Fewer words, or the beginning of one as in 'mark*', find more.";
}

static void print_nothing(struct store *st, const struct search_page *h,
                          const struct search_wish *wish)
{
    struct buf said = BUF_INIT;
    struct err none = {0};
    const char *line;

    if (wish->text && wish->sound && !h->heard)
        buf_printf(&said, "Nothing sounds like '%s', so nobody speaks near it.", wish->sound);
    else
        buf_printf(&said, "%s", nothing_of(wish));
    line = search_waiting(st, wish, &said, &none) == 0 ? buf_cstr(&said) : NULL;
    text_wrap(to_stdout, NULL, line ? line : "Nothing was found.", 0, 0, cli_columns(stdout));
    putchar('\n');
    buf_free(&said);
}

static int search(struct cli *cli, const struct wanted *w, const char *text, const char *path)
{
    const struct search_wish wish = wish_of(w, text, path);
    struct search_page h = {.json = cli->json, .limit = w->limit, .path = path};
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
        printf("... the first %s%s; --limit 0 shows all of them.\n",
               h.shown == 1 ? "" : text_count(h.shown, n), h.shown == 1 ? "hit" : " hits");
    buf_free(&h.last);
    store_close(st);
    return cli_flush(status);
}

int cmd_search(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "n:p:l:st", longs, take, true, NULL};
    struct wanted w = {.limit = 20};
    struct err err = {0};
    char *text = NULL, *path = NULL, *shown = NULL, *expression = NULL;
    bool says;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    says = optind < argc;
    if (!says && !w.sound)
        return cli_usage(cli, "what should be searched for?");
    if (w.meaning_only && (w.words_only || w.by_time || !says))
        return cli_usage(cli, says ? "--semantic does not go with --text and --by-time"
                                   : "--semantic wants a TEXT");
    if (w.by_time && w.sound)
        return cli_usage(cli, "--by-time is about words alone: it does not go with --sound");
    text = says ? joined(argc, argv, optind) : NULL;
    if (text && read_search_expression(text, &expression, &err) == ERR_USAGE) {
        free(text);
        return cli_usage(cli, "%s", err.msg + (strncmp(err.msg, "search: ", 8) == 0 ? 8 : 0));
    }
    free(expression);
    w.words_only |= text && !w.meaning_only && strpbrk(text, "\"*");
    if (w.path && cli_absolute(w.path, &path, &err) == 0)
        shown = utf8_display(path, strlen(path));
    if ((says && !text) || (w.path && !shown)) {
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
