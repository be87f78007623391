/* nightshift search: where something was said, meant or heard. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "store/read/find.h"
#include "store/search/within.h"
#include "store/store.h"
#include "tools/cli/cli.h"
#include "tools/cli/highlight.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/search/search_absence.h"
#include "tools/search/search_find.h"
#include "tools/search/search_last.h"
#include "tools/search/search_place.h"
#include "tools/search/search_print.h"
#include "tools/search/search_typed.h"
#include "workers/stages/stage_kind.h"

struct wanted {
    uint32_t limit;
    int64_t within_ms; /* 0: in one segment */
    const char *path, *speaker, *language, *sound;
    bool by_time, words_only, meaning_only;
};

#define WITHIN_MOST_MS (24 * 3600 * 1000LL)

static int on_segment(void *arg, const struct read_segment *row)
{
    const struct search_result r = search_of_segment(row);

    return search_print(arg, &r);
}

static int on_span(void *arg, const struct read_span *row)
{
    const struct search_result r = search_of_span(row);

    return search_print(arg, &r);
}

static char *join_arguments(int argc, char **argv, int from)
{
    struct buf b = BUF_INIT;
    char *ret;

    for (int i = from; i < argc; i++)
        buf_printf(&b, "%s%s", i > from ? " " : "", argv[i]);
    ret = buf_cstr(&b);
    if (!ret)
        buf_free(&b);
    return ret;
}

/* Words alone are handed on as they are found: there may be very many. */
static int search_words(struct store *st, const struct wanted *w, const struct search_wish *wish,
                        struct search_page *h, struct err *err)
{
    const struct read_search s = {.text = wish->text,
                                  .path = wish->path,
                                  .speaker = wish->speaker,
                                  .language = wish->language,
                                  .mark_begin = MARK_BEGIN,
                                  .mark_end = MARK_END,
                                  .limit = w->limit > 0 ? (uint64_t)w->limit + 1 : 0,
                                  .by_time = w->by_time};

    return w->within_ms > 0 ? read_within(st, &s, w->within_ms, on_span, h, err)
                            : read_search(st, &s, on_segment, h, err);
}

static struct search_wish wish_of(const struct wanted *w, const char *text, const char *path)
{
    return (struct search_wish){.text = text,
                                .sound = w->sound,
                                .words = !w->meaning_only,
                                .meaning = !w->words_only && w->within_ms == 0,
                                .meaning_must = w->meaning_only,
                                .within_ms = w->within_ms,
                                .path = path,
                                .speaker = w->speaker,
                                .language = w->language,
                                .mark_begin = MARK_BEGIN,
                                .mark_end = MARK_END,
                                .limit = w->limit};
}

/* The line above what is like it only. */
static void print_parting(struct search_page *h, const struct search_wish *wish, bool any_named)
{
    if (h->json || wish->meaning_must || (h->limit > 0 && h->shown == h->limit))
        return;
    if (wish->text)
        puts(any_named ? "By meaning, not in these words:"
                       : "Nothing was found in these words. By meaning:");
    else
        puts(any_named ? "By similarity, not by the class of sound:"
                       : "No such class of sounds was found. By similarity:");
    buf_clear(&h->last);
}

static int search_all(struct store *st, const struct search_wish *wish, struct search_page *h,
                      struct err *err)
{
    struct search_results found;
    int rc = search_find(st, wish, &found, err);

    if (rc != 0)
        return rc;
    h->heard = found.heard;
    if (found.note[0] != 0)
        cli_note("%s.", found.note);
    for (size_t i = 0; i < found.count && rc == 0; i++) {
        if (i == found.named)
            print_parting(h, wish, found.named > 0);
        rc = search_print(h, &found.list[i]);
    }
    search_results_free(&found);
    return rc;
}

/* Are words all that can be searched, or all that is wanted? */
static bool only_words(struct store *st, const struct wanted *w, const struct search_wish *wish)
{
    struct store_stage_row stage = {0};
    struct err none = {0};

    if (wish->sound || wish->meaning_must)
        return false;
    if (!wish->meaning || w->by_time || find_stage(st, stage_embed_text.name, &stage, &none) != 0)
        return true;
    store_stage_row_free(&stage);
    return false;
}

static void print_nothing(struct store *st, const struct search_page *h,
                          const struct search_wish *wish)
{
    struct buf said = BUF_INIT;
    struct err none = {0};
    char *line = search_nothing(st, wish, h->heard, &said, &none) == 0 && said.len > 0
                     ? utf8_display(said.data, said.len)
                     : NULL;

    cli_wrap(stdout, line ? line : "Nothing was found.", 0, 0);
    free(line);
    buf_free(&said);
}

/* The mistake, and below it the text with a caret where it is. */
static int fail_text(const struct cli *cli, const char *text, size_t at, const struct err *err)
{
    int status;
    char *place;

    if (err->code != ERR_USAGE)
        return cli_fail("search", err, NULL);
    status = cli_usage(cli, "%s", err->msg);
    place = at == SEARCH_NO_PLACE || !text[0] ? NULL : search_place(text, at, cli_columns(stderr));
    if (place)
        fputs(place, stderr);
    free(place);
    return status;
}

/* Looks at what is typed before anything is searched. EX_OK, or the status to leave with. */
static int parse_search_text(const struct cli *cli, struct store *st, struct search_wish *wish)
{
    struct search_typed typed = {0};
    struct err err = {0};
    size_t at = SEARCH_NO_PLACE;
    int rc;

    if (wish->meaning_must)
        rc = search_typed_meaning(st, wish->text, &err);
    else
        rc = search_typed(st, wish->text, &typed, &at, &err);
    if (rc != 0)
        return fail_text(cli, wish->text, at, &err);
    wish->meaning = wish->meaning && !typed.exact;
    wish->one_word = typed.one_word;
    wish->terms = typed.terms;
    return EX_OK;
}

static int report_search_end(struct cli *cli, struct store *st, const struct search_wish *wish,
                             const struct search_page *h, int rc, const struct err *err)
{
    char n[TEXT_LEN];

    if (cli->json && rc >= 0)
        printf("%s%s]\n", h->shown == 0 ? "[" : "", h->shown > 0 ? "\n" : "");
    if (rc == ERR_USAGE)
        return cli_usage(cli, "%s", err->msg);
    if (rc < 0)
        return cli_fail("search", err, NULL);
    if (!cli->json && h->shown == 0)
        print_nothing(st, h, wish);
    else if (!cli->json && h->more)
        printf("... the first %s%s; --limit 0 shows all of them.\n",
               h->shown == 1 ? "" : text_count(h->shown, n), h->shown == 1 ? "hit" : " hits");
    return EX_OK;
}

static int search_in(struct cli *cli, struct store *st, const struct wanted *w, const char *text,
                     const char *path)
{
    struct search_wish wish = wish_of(w, text, path);
    struct search_page h = {.store = st, .json = cli->json, .limit = w->limit, .path = path};
    struct err err = {0};
    int status = text ? parse_search_text(cli, st, &wish) : EX_OK, rc;

    if (status != EX_OK)
        return status;
    rc = search_check(st, &wish, &err);
    if (rc != 0)
        return cli_fail("search", &err, rc == ERR_MISSING || rc == ERR_EMPTY ? "" : NULL);
    rc = only_words(st, w, &wish) ? search_words(st, w, &wish, &h, &err)
                                  : search_all(st, &wish, &h, &err);
    if (h.err.code != 0)
        err = h.err;
    status = report_search_end(cli, st, &wish, &h, rc, &err);
    if (!cli->json && h.err.code == 0 && rc >= 0)
        search_last_keep(cli->catalog, &h.hits);
    buf_free(&h.last);
    buf_free(&h.hits);
    return status;
}

static int search_catalog(struct cli *cli, const struct wanted *w, const char *text,
                          const char *path)
{
    struct store *st = NULL;
    struct err err = {0};
    bool held = false;
    int status;

    if (store_open(cli->catalog, STORE_READ, &st, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    status = store_hold(st, &held, &err) == 0 ? search_in(cli, st, w, text, path)
                                              : cli_fail("search", &err, NULL);
    store_let_go(st, held);
    store_close(st);
    return cli_flush(status);
}

/* Refuses options that exclude each other. Returns EX_OK, or the exit status. */
static int check_search_options(const struct cli *cli, const struct wanted *w, bool says)
{
    if (!says && !w->sound)
        return cli_usage(cli, "name the words to search for");
    if (w->meaning_only && (w->words_only || w->by_time || !says))
        return cli_usage(cli, says ? "--semantic does not go with --text and --by-time"
                                   : "--semantic wants a TEXT");
    if (w->by_time && w->sound)
        return cli_usage(cli, "--by-time searches only words: it does not go with --sound");
    if (w->within_ms > 0 && (w->meaning_only || !says))
        return cli_usage(cli, says ? "--within is about words: it does not go with --semantic"
                                   : "--within wants a TEXT");
    return EX_OK;
}

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_LENGTH, "within", 0, wanted, within_ms, "TIME",
                   "all words within TIME, over several segments (60s, 2m); the nearest first"),
     .manual = "All words, phrases and groups may be in different segments of a recording, if "
               "these begin at most TIME apart (60s, 2m, 1m30s; up to a day). A hit is a shortest "
               "stretch that contains them all, shown with `...` between its matching segments. "
               "The nearest come first. What `NOT` excludes is in no segment of the stretch. With "
               "--speaker and --language, all segments have that speaker or language.",
     .low = 1, .high = WITHIN_MOST_MS},
    {COMMAND_SWITCH("text", 0, wanted, words_only, "search only by words")},
    {COMMAND_SWITCH("semantic", 's', wanted, meaning_only,
                    "search only by meaning; the most similar first"),
     .manual = "Search only by meaning; the most similar passages come first. The text is any text "
               "then; operators are refused."},
    {COMMAND_VALUE(COMMAND_TEXT, "sound", 0, wanted, sound, "SOUND",
                   "find a sound: a class (applause), or a description, if they were enqueued with "
                   "--sounds or --embed-audio. The number, 0 to 1, is how sure the model was. With "
                   "TEXT: both, at most 10 s apart")},
    {COMMAND_VALUE(COMMAND_TEXT, "speaker", 0, wanted, speaker, "WHO",
                   "only speech of WHO: a name, a label, or a channel or track ('channel 1')")},
    {COMMAND_VALUE(COMMAND_TEXT, "path", 'p', wanted, path, "PATH",
                   "only in this file or ARCHIVE//MEMBER, or below this folder"),
     .also = "in"},
    {COMMAND_VALUE(COMMAND_LANGUAGE, "language", 'l', wanted, language, "NAME",
                   "only speech in this language: Spanish or es"),
     .manual = "Only speech in this language, by its name or code, such as Spanish or es."},
    {COMMAND_VALUE(COMMAND_NUMBER, "limit", 'n', wanted, limit, "N",
                   "hits to show (default: 20; 0: all)"),
     .manual = "Hits to show; 0 shows all, which with -s is every passage.", .high = 1000000},
    {COMMAND_SWITCH("by-time", 't', wanted, by_time,
                    "search only by words, in the order of recordings and times")},
    {0},
};

const struct command command_search = {
    .name = "search",
    .usage = "[OPTION]... TEXT...\n"
             "--sound SOUND [OPTION]... [TEXT]...",
    .about = "Find where something was said: recording, time, speaker, and the words around "
             "it.\nAll words must occur in one segment; accents and case do not matter. An English "
             "word also matches other spellings (colour, color) and endings (strike, strikes). "
             "\"Quotation marks\" match exactly; mark* matches market too. In capitals, AND, OR "
             "and NOT join words and (groups); NEAR(a b, 5) allows at most 5 words between.\nIf "
             "the catalog has text vectors (nightshift enqueue --embed), passages with the same "
             "meaning follow below a line that says so. That needs plain words without operators.",
    .options = options,
    .json = "as a JSON array",
    .examples = "search market square\n"
                "search '\"market square\"' --in /archive/1990\n"
                "search '(strike OR walkout) NOT baseball'\n"
                "search --within 60s harbour 'fish*'\n"
                "search --semantic where did they grow up --speaker Ana\n"
                "search --sound applause\n"
                "search --sound applause strike\n"
                "search 'mark*' --json | jq -r '.[].text'",
    .statuses =
        "0, also if nothing was found; 64 if the search text cannot be understood; 66 if there is "
        "nothing to search, or no such path, speaker, language or sound; others: see sysexits.h.",
};

int cmd_search(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.limit = 20};
    struct err err = {0};
    char *text = NULL, *path = NULL, *shown = NULL;
    bool says;
    int status = command_parse(cli, &command_search, &w, argc, argv);

    if (status >= 0)
        return status;
    says = optind < argc;
    status = check_search_options(cli, &w, says);
    if (status != EX_OK)
        return status;
    text = says ? join_arguments(argc, argv, optind) : NULL;
    if (w.path && cli_place(w.path, &path, &err) == 0)
        shown = utf8_display(path, strlen(path));
    if ((says && !text) || (w.path && !shown)) {
        if (err.code == 0)
            err_set(&err, ERR_NOMEM, "out of memory");
        status = cli_fail("search", &err, NULL);
    } else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = search_catalog(cli, &w, text, shown);
    free(shown);
    free(path);
    free(text);
    return status;
}
