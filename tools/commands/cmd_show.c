/* nightshift show: the transcript of one recording. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "store/read/corrections.h"
#include "store/read/find.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/cli/account.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/demo_model.h"
#include "tools/enqueue/stages/stage_params_words.h"
#include "tools/export/formats.h"
#include "tools/export/read_document.h"
#include "tools/recording.h"

/* Marks of confidence: average log probability of a segment's tokens. */
#define UNSURE -0.7
#define VERY_UNSURE -1.0
#define SPEAKERS_TOLD 5 /* apart by colours */
#define SOUNDS_SHOWN 8u
#define KNOWN_SHOWN 16u   /* tags, and chapters */
#define KNOWN_COLUMNS 120 /* of each */

enum { COLOR_AUTO, COLOR_ALWAYS }; /* else never */

struct wanted {
    const struct format *format; /* NULL: for people */
    struct format_options options;
    bool dropped;
    int color;
};

static int take_format(void *wanted, const char *value, struct err *err)
{
    return formats_take(value, true, &((struct wanted *)wanted)->format, err);
}

struct page {
    struct store *store;
    struct wanted w;
    uint64_t segments, dropped, missing; /* missing: speech without text */
    int time_width;
    bool unsure; /* a mark was set */
    bool color;
    char *speakers[SPEAKERS_TOLD]; /* in the order of appearance, each with a colour; owned */
    const char *what;              /* as it was typed */
    int64_t place_id;              /* under whose name it is shown */
    uint64_t copies;               /* at other places */
    int status;
    struct err err;
};

/* Text in a colour, where there are any; sgr "": as it is. */
static void print_colored(const struct page *p, const char *sgr, const char *text)
{
    bool on = p->color && sgr[0] && text[0];

    printf("%s%s%s%s%s", on ? "\033[" : "", on ? sgr : "", on ? "m" : "", text,
           on ? "\033[0m" : "");
}

/* The colour of a speaker; those who come after SPEAKERS_TOLD others have none. None is that of
 * doubt. */
static const char *color_of(struct page *p, const char *speaker)
{
    static const char *const colors[SPEAKERS_TOLD] = {"36", "35", "32", "34", "1"};

    for (size_t i = 0; i < SPEAKERS_TOLD; i++) {
        if (!p->speakers[i])
            p->speakers[i] = strdup(speaker);
        if (p->speakers[i] && strcmp(p->speakers[i], speaker) == 0)
            return colors[i];
    }
    return "";
}

static int print_row(void *arg, const struct read_segment *row)
{
    struct page *p = arg;
    const char *said = row->text[0] ? row->text : "(no text)";
    char at[CLOCK_HMS_LEN], *text = utf8_display(said, strlen(said));
    const bool doubted = row->avg_logprob < UNSURE || document_doubted(row->reason);
    const char *mark = p->w.dropped                     ? ""
                       : row->avg_logprob < VERY_UNSURE ? "??"
                       : doubted                        ? "?"
                                                        : "";
    const char *doubt = mark[0] && mark[1] ? "31" : "33";
    size_t indent = (size_t)p->time_width + 4, column = indent;

    clock_hms(row->start_ms, at);
    printf("%*s ", p->time_width, at);
    print_colored(p, doubt, mark);
    printf("%*s", 3 - (int)strlen(mark), "");
    if (row->speaker[0]) {
        char *speaker = utf8_display(row->speaker, strlen(row->speaker));

        print_colored(p, color_of(p, row->speaker), speaker ? speaker : "");
        putchar(':');
        column += text_width(speaker ? speaker : "") + 1;
        free(speaker);
    }
    printf("%s%s%s", p->color && mark[0] ? "\033[" : "", p->color && mark[0] ? doubt : "",
           p->color && mark[0] ? "m" : "");
    text_wrap(text_to_file, stdout, text ? text : "", column, indent, cli_columns(stdout));
    printf("%s\n", p->color && mark[0] ? "\033[0m" : "");
    free(text);
    if (p->w.dropped && row->reason[0] != 0) {
        char *reason = utf8_display(row->reason, strlen(row->reason));

        printf("%*s", (int)indent, "");
        cli_wrap(stdout, reason ? reason : "", indent, indent);
        free(reason);
    }
    p->unsure |= mark[0] != 0;
    p->segments++;
    return 0;
}

static int count_dropped(void *arg, const struct read_segment *row)
{
    struct page *p = arg;

    ++*(row->text[0] ? &p->dropped : &p->missing);
    return 0;
}

/* "LABEL: WHAT", wrapped; nothing when WHAT is empty. */
static void print_remark(const char *label, const char *what)
{
    char *shown = utf8_display(what, strlen(what));

    if (what[0] != 0 && shown) {
        fputs(label, stdout);
        cli_wrap(stdout, shown, strlen(label), strlen(label));
    }
    free(shown);
}

/* How much of its speech has a text, where that is not all of it. */
static int print_account(struct page *p, const struct read_recording *r)
{
    struct result_account a;
    struct buf b = BUF_INIT;

    if (read_account(p->store, r->media_id, &a, &p->err) != 0)
        return 1;
    if (account_known(&a) && account_without(&a) > 0) {
        account_say(&a, "show --dropped", &b);
        print_remark("Speech: ", buf_cstr(&b) ? buf_cstr(&b) : "");
    }
    buf_free(&b);
    return 0;
}

#define COPIES_SHOWN 3

static int on_copy(void *arg, const struct read_other *place)
{
    struct page *p = arg;

    if (place->place_id == p->place_id || !place->present)
        return 0;
    if (++p->copies <= COPIES_SHOWN)
        printf("Also at %s%s%s\n", place->path, place->member[0] ? "//" : "", place->member);
    return 0;
}

/* Who asked for one of them by its name sees the others' here. */
static int print_copies(struct page *p, const struct read_recording *r)
{
    char n[TEXT_LEN];
    int rc = r->places > 1 ? read_places_of(p->store, r->media_id, on_copy, p, &p->err) : 0;

    if (p->copies > COPIES_SHOWN)
        printf("Also at %s more %s\n", text_count(p->copies - COPIES_SHOWN, n),
               text_plural(p->copies - COPIES_SHOWN, "place", "places"));
    return rc;
}

static void print_head(const struct page *p, const struct read_recording *r)
{
    char length[TEXT_LEN], *title = utf8_display(r->title, strlen(r->title));

    print_colored(p, "1", r->path);
    printf("%s%s\n", r->member[0] ? "//" : "", r->member);
    if (title && title[0])
        printf("%s\n", title);
    free(title);
    printf("Recording %lld: %s", (long long)r->media_id,
           r->no_sound           ? "no sound"
           : r->duration_ms >= 0 ? text_length(r->duration_ms, length)
                                 : "length unknown");
    if (r->language[0])
        printf(", %s", r->language);
    if (r->codec[0])
        printf(", %s in %s", r->codec, r->container);
    printf(", %s", r->asked ? r->state : "nothing enqueued");
    if (strcmp(r->state, "done") != 0 && r->shards_total > 0)
        printf(" (%llu of %llu parts)", (unsigned long long)r->shards_done,
               (unsigned long long)r->shards_total);
    puts("");
    if (r->places == 0)
        puts("The file is missing.");
    print_remark("Damaged: ", r->damage);
    print_remark("Not transcribed: ", r->left_out);
    print_remark(strcmp(r->state, "failed") == 0 ? "Failed: " : "Last attempt: ", r->error);
}

struct known {
    const struct read_recording *r;
    struct buf tags, chapters;
    unsigned tag_count, chapter_count;
};

/* One of a list, on one line and not too long. */
static void put_known(struct buf *to, unsigned *count, const char *what, const char *value)
{
    char *line = text_fit(value, KNOWN_COLUMNS);

    if (*count < KNOWN_SHOWN && line)
        buf_printf(to, "%s%s%s%s", *count ? "; " : "", what, what[0] && line[0] ? " " : "", line);
    else if (*count == KNOWN_SHOWN)
        buf_printf(to, "; ...");
    ++*count;
    free(line);
}

/* Is the tag in the lines above already, or only about how the file was made? */
static bool is_said(const struct read_recording *r, const struct result_tag *tag)
{
    return strcmp(tag->value, r->title) == 0 || strcmp(tag->value, r->recorded_on) == 0 ||
           strcasecmp(tag->key, "encoder") == 0 || strcmp(tag->value, "und") == 0;
}

static int on_known(void *arg, const struct result_tag *tag)
{
    struct known *k = arg;
    char what[CLOCK_HMS_LEN + 160], *value = strdup(tag->value);

    for (char *p = value; p && *p; p++)
        *p = *p == '\n' || *p == '\t' ? ' ' : *p;
    snprintf(what, sizeof(what), "%s:", tag->key);
    if (value && strcmp(tag->source, "chapter") == 0) {
        clock_hms(tag->start_ms, what);
        what[strcspn(what, ".")] = 0;
        put_known(&k->chapters, &k->chapter_count, what, value);
    } else if (value && !is_said(k->r, tag)) {
        put_known(&k->tags, &k->tag_count, what, value);
    }
    free(value);
    return 0;
}

struct levels {
    struct buf said;
    uint32_t track; /* of the row before */
};

static int on_level(void *arg, const struct result_channel *row)
{
    struct levels *l = arg;
    char length[TEXT_LEN];

    if (row->track != l->track)
        buf_printf(&l->said, "%strack %u: ", l->said.len ? "; " : "", row->track);
    else
        buf_printf(&l->said, ", ");
    l->track = row->track;
    if (row->channel == 0) {
        buf_printf(&l->said, "not decoded");
        if (row->length_ms >= 0)
            buf_printf(&l->said, ", %s long", text_length(row->length_ms, length));
        return 0;
    }
    buf_printf(&l->said, "channel %u %s%s", row->channel,
               row->sound_ms >= 50 ? text_length(row->sound_ms, length) : "silent",
               row->heard ? "" : " (not transcribed)");
    return 0;
}

/* How much sound there is, on whichever channel: silence has no transcript. */
static int print_levels(struct page *p, const struct read_recording *r)
{
    struct levels l = {0};
    const char *said;
    int rc = find_channels(p->store, r->media_id, on_level, &l, &p->err);

    said = l.said.len > 0 ? buf_cstr(&l.said) : NULL;
    if (rc == 0 && said)
        print_remark("Sound: ", said);
    buf_free(&l.said);
    return rc;
}

/* When it was recorded, by whom, and all else that is known of it. */
static int print_known(struct page *p, const struct read_recording *r)
{
    struct known k = {.r = r};
    const char *tags, *chapters;
    int rc = find_tags(p->store, r->media_id, on_known, &k, &p->err);

    tags = k.tags.len > 0 ? buf_cstr(&k.tags) : NULL;
    chapters = k.chapters.len > 0 ? buf_cstr(&k.chapters) : NULL;
    if (rc == 0 && r->recorded_on[0])
        printf("Recorded %s (%s)\n", r->recorded_on, r->recorded_from);
    if (rc == 0 && tags)
        print_remark("Tags: ", tags);
    if (rc == 0 && chapters)
        print_remark("Chapters: ", chapters);
    buf_free(&k.tags);
    buf_free(&k.chapters);
    return rc;
}

static int read_texts(struct page *p, const struct read_recording *r, read_segment_fn fn)
{
    return (p->w.dropped ? read_dropped : read_segments)(p->store, r->media_id, 0, fn, p, &p->err);
}

static void print_untranscribed(const struct read_recording *r)
{
    if (r->forgotten)
        cli_print("Its transcript was deleted, or not enqueued. `nightshift enqueue` of it, or of "
                  "its folder, makes it.",
                  0);
    else if (r->stages[0] != 0)
        printf("It is not transcribed (done: %s).\n", r->stages);
    else
        puts("It is not transcribed.");
}

/* Says why a finished transcription has no text. */
static const char *why_nothing(struct page *p, const struct read_recording *r)
{
    enum store_textless kind = TEXTLESS_KINDS;
    struct err ignored = {0};

    if (p->missing > 0 && p->dropped == 0)
        return "Somebody speaks in it, but no text came.";
    (void)store_textless_of(p->store, r->media_id, &kind, &ignored);
    return kind < TEXTLESS_KINDS ? textless_why(kind) : "It has no text.";
}

static void print_nothing(struct page *p, const struct read_recording *r)
{
    if (r->transcript[0] == 0)
        print_untranscribed(r);
    else if (p->w.dropped)
        puts("Nothing was left out.");
    else if (r->no_sound)
        puts("It has no sound: it is a film without an audio track.");
    else if (strcmp(r->transcript, "done") == 0)
        puts(why_nothing(p, r));
    else
        puts(strcmp(r->transcript, "failed") == 0
                 ? "There is no transcript. `nightshift retry` tries it again."
                 : "It is not transcribed yet.");
}

struct heard {
    struct buf said;
    unsigned count;
};

static int on_heard(void *arg, const struct find_heard *row)
{
    struct heard *h = arg;
    char length[TEXT_LEN];

    if (h->count++ == SOUNDS_SHOWN)
        buf_printf(&h->said, ", ...");
    else
        buf_printf(&h->said, "%s%s %s", h->said.len > 0 ? ", " : "", row->name,
                   text_length(row->heard_ms, length));
    return 0;
}

/* Which sounds there are, and how long: what was listened for is not in the transcript. */
static int print_sounds(struct page *p, const struct read_recording *r)
{
    struct heard h = {0};
    const char *said;

    if (find_heard(p->store, r->media_id, SOUNDS_SHOWN + 1, on_heard, &h, &p->err) != 0) {
        buf_free(&h.said);
        return 1;
    }
    said = h.said.len > 0 ? buf_cstr(&h.said) : NULL;
    if (said) {
        putchar('\n');
        print_remark("Sounds: ", said);
    }
    buf_free(&h.said);
    return 0;
}

/* A stage may have several results, which must then be told apart. */
struct results {
    struct buf out;
    char kind[64];
    bool several;
};

static int on_result(void *arg, const struct read_result *row)
{
    struct results *x = arg;
    struct buf said = BUF_INIT;
    char *model = text_fit(row->model, 40), number[32];
    const size_t indent =
        (size_t)snprintf(number, sizeof(number), "  %lld  ", (long long)row->stage_id);

    x->several |= strcmp(x->kind, row->stage) == 0;
    snprintf(x->kind, sizeof(x->kind), "%s", row->stage);
    buf_printf(&said, "%s with %s", row->stage, model ? model : "");
    stage_params_words(row->stage, row->params_json, &said);
    buf_printf(&said, ": %s%s%s", row->wanted || row->current ? row->state : "superseded",
               row->current ? ", current" : "", row->pinned ? ", pinned" : "");
    buf_printf(&x->out, "%s", number);
    if (buf_cstr(&said))
        text_wrap(text_to_buf, &x->out, buf_cstr(&said), indent, indent, cli_columns(stdout));
    buf_printf(&x->out, "\n");
    buf_free(&said);
    free(model);
    return 0;
}

static int print_results(struct page *p, const struct read_recording *r)
{
    struct results x = {.out = BUF_INIT};
    int rc = read_results(p->store, r->media_id, on_result, &x, &p->err);

    if (rc == 0 && x.several && buf_cstr(&x.out))
        printf("\nIts results, by the numbers of their stages:\n%s", buf_cstr(&x.out));
    buf_free(&x.out);
    return rc;
}

/* How much of it people mended, and what of that is to be decided. */
static int print_corrections(struct page *p, const struct read_recording *r)
{
    struct read_correction_counts c;
    char n[TEXT_LEN], m[TEXT_LEN];

    if (read_correction_counts(p->store, r->media_id, &c, &p->err) != 0)
        return 1;
    if (c.kept > 0)
        printf("\n%s %s made in it.\n", text_count(c.kept, n),
               text_plural(c.kept, "correction is", "corrections are"));
    if (c.conflicts > 0)
        printf(
            "%s %s in conflict with a newer transcription: nightshift correct --conflicts %lld\n",
            text_count(c.conflicts, m), text_plural(c.conflicts, "is", "are"),
            (long long)r->media_id);
    return 0;
}

static int print_demo(struct page *p, const struct read_recording *r)
{
    unsigned demo;
    int rc = read_document_demo(p->store, r->media_id, &demo, &p->err);

    if (rc == 0)
        print_remark("", demo_model_made(demo));
    return rc;
}

static int page_for_people(struct page *p, const struct read_recording *r)
{
    char n[TEXT_LEN];

    print_head(p, r);
    if (print_demo(p, r) != 0 || print_account(p, r) != 0 || print_levels(p, r) != 0 ||
        print_copies(p, r) != 0 || print_known(p, r) != 0)
        return 1;
    puts("");
    if (read_texts(p, r, print_row) != 0 ||
        read_dropped(p->store, r->media_id, 0, count_dropped, p, &p->err) != 0)
        return 1;
    if (p->segments == 0)
        print_nothing(p, r);
    if (p->unsure || (p->dropped > 0 && !p->w.dropped))
        putchar('\n');
    if (p->unsure)
        puts("? the model was unsure, or the text is in doubt; ?? very unsure");
    if (p->dropped > 0 && !p->w.dropped)
        printf("%s %s rejected and left out; --dropped shows %s.\n", text_count(p->dropped, n),
               text_plural(p->dropped, "text was", "texts were"),
               text_plural(p->dropped, "it", "them"));
    if (p->w.dropped)
        return 0;
    return print_sounds(p, r) != 0 || print_corrections(p, r) != 0 || print_results(p, r) != 0;
}

/* A file without a line does not say why. */
static void note_absence(const struct page *p, const struct read_recording *r)
{
    bool text = p->w.format->needs & FORMAT_TEXT;

    if (!text && !r->diarized)
        cli_note("it has no speakers yet: `nightshift enqueue --diarize PATH` finds them.");
    else if (text && r->transcript[0] == 0)
        cli_note(
            r->forgotten
                ? "its transcript was deleted, or not enqueued: `nightshift enqueue PATH` makes it."
                : "it is not transcribed: `nightshift enqueue PATH` enqueues it.");
}

static int write_file(struct page *p, const struct read_recording *r)
{
    struct document_memory *memory = NULL;
    struct buf out = BUF_INIT;
    struct document d;
    int rc = read_document(p->store, r, formats_needs(p->w.format, &p->w.options), p->w.dropped, &d,
                           &memory, &p->err);

    if (rc == 0)
        rc = p->w.format->write(&d, &p->w.options, &out, &p->err);
    if (rc == 0 && d.demo && !p->w.format->notes)
        cli_note("%s.", d.made);
    if (rc == 0 && out.failed)
        rc = err_set(&p->err, ERR_NOMEM, "out of memory");
    if (rc == 0 && out.len > 0)
        fwrite(out.data, 1, out.len, stdout);
    buf_free(&out);
    document_memory_free(memory);
    return rc;
}

static int page_of(void *arg, const struct read_recording *r)
{
    struct page *p = arg;
    char longest[CLOCK_HMS_LEN];

    clock_hms(r->duration_ms > 0 ? r->duration_ms : 3600000, longest);
    p->time_width = (int)strlen(longest);
    if (!p->w.format)
        return page_for_people(p, r);
    note_absence(p, r);
    return write_file(p, r);
}

struct named {
    struct page *page;
    struct read_recording row;
    int rank;
    bool present;
    char *path, *member, *path_raw, *member_raw;
};

static void named_free(struct named *n)
{
    free(n->path);
    free(n->member);
    free(n->path_raw);
    free(n->member_raw);
}

/* The first that fits best of those that are there; the main one where none does. */
static int take_name(void *arg, const struct read_other *place, int rank)
{
    struct named *n = arg, other = {.rank = rank ? rank : INT_MAX, .present = place->present};

    if (n->page->place_id && (other.rank >= n->rank || n->present > place->present))
        return 0;
    other.path = strdup(place->path);
    other.member = strdup(place->member);
    other.path_raw = strndup(place->path_raw, place->path_raw_len);
    other.member_raw = strndup(place->member_raw, place->member_raw_len);
    if (!other.path || !other.member || !other.path_raw || !other.member_raw) {
        named_free(&other);
        return ERR_NOMEM;
    }
    named_free(n);
    other.page = n->page;
    other.row = n->row;
    other.page->place_id = place->place_id;
    other.row.path = other.path;
    other.row.member = other.member;
    other.row.path_raw = other.path_raw;
    other.row.path_raw_len = place->path_raw_len;
    other.row.member_raw = other.member_raw;
    other.row.member_raw_len = place->member_raw_len;
    *n = other;
    return 0;
}

/* Under the name by which it was asked for. */
static int page_named(void *arg, const struct read_recording *r)
{
    struct page *p = arg;
    struct named n = {.page = p, .row = *r};
    int rc = recording_places(p->store, r->media_id, p->what, take_name, &n, &p->err);

    if (rc == 0)
        rc = page_of(p, &n.row);
    named_free(&n);
    return rc;
}

static const char *const color_words[] = {"auto", "always", "never", NULL};

static const struct command_option options[] = {
    {COMMAND_READ("format", 'f', take_format, "FORMAT",
                  "print a file as `nightshift export` writes it (txt, srt, vtt, docx, json ...), "
                  "instead of the page for people"),
     .manual = "Print a file as `export` writes it, instead of the page for people.",
     .complete = formats_values},
    {.kind = COMMAND_TABLE,
     .table = format_args,
     .offset = offsetof(struct wanted, options),
     .help = "how that file is made; see `nightshift export --help`"},
    {COMMAND_SWITCH(
         "dropped", 'd', wanted, dropped,
         "print rejected texts instead of the transcript (for people, vtt and json, which say so)"),
     .manual = "Print the texts that were rejected, with the reasons, instead of the transcript."},
    {COMMAND_VALUE(COMMAND_CHOICE, "color", 0, wanted, color, "WHEN",
                   "auto (default: on a terminal), always or never: speakers in colours, doubtful "
                   "passages in yellow or red"),
     .choices = color_words,
     .manual = "Show speakers in colours, and doubtful passages in yellow or red. The default is "
               "auto: on a terminal with colours, unless NO_COLOR is set."},
    {0},
};

const struct command command_show = {
    .name = "show",
    .usage = "[OPTION]... WHAT",
    .about = "Print the transcript of one recording, with times, its description, and the sounds "
             "in it if --sounds was enqueued. WHAT is its path, any unique part of the path, its "
             "number (as in `nightshift search --json`), or ARCHIVE//MEMBER.",
    .options = options,
    .json = "the same as --format=json: also speakers, sounds, tags and chapters",
    .examples = "show /archive/1990/tape-3.wav\n"
                "show tape-3.wav\n"
                "show box.zip//side-a.mp3 --format srt > side-a.srt",
    .statuses = "0; 64 if several recordings match; 66 if none does; others: see sysexits.h.",
};

int cmd_show(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct page p = {0};
    struct err err = {0};
    char why[FORMAT_ARGS_WHY];
    int64_t id = 0;
    int status = command_parse(cli, &command_show, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind + 1 != argc)
        return cli_usage(cli, optind < argc ? "name only one recording" : "name a recording");
    p.w = w;
    p.what = argv[optind];
    p.color = w.color == COLOR_AUTO ? cli_color(stdout) : w.color == COLOR_ALWAYS;
    if (cli->json && w.format && strcmp(w.format->name, "json") != 0)
        return cli_usage(cli, "--json is --format=json, and not %s as well", w.format->name);
    p.w.format = cli->json ? formats_find("json") : w.format;
    if (!format_args_fit(&w.options, p.w.format ? 1u << (p.w.format - formats) : 0, why))
        return cli_usage(cli, "%s", why);
    if (p.w.format && strcmp(p.w.format->name, "docx") == 0 && isatty(STDOUT_FILENO))
        return cli_usage(cli, "docx cannot be shown on a terminal: add '> FILE.docx'");
    if (w.dropped && p.w.format && !p.w.format->dropped)
        return cli_usage(cli,
                         "--dropped is for people, vtt and json: a %s file could not say that "
                         "this is no transcript",
                         p.w.format->name);
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (store_open(cli->catalog, STORE_READ, &p.store, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    if (recording_find(p.store, argv[optind], &id, &err) != 0) {
        status =
            cli_fail("show it", &err,
                     err.code == ERR_USAGE
                         ? NULL
                         : "Try another part of its path, or `nightshift search` for its words.");
        if (err.code == ERR_MISSING)
            status = EX_NOINPUT;
    } else if (read_recording_by_id(p.store, id, page_named, &p, &err) != 0)
        status = cli_fail("read the catalog", p.err.code != 0 ? &p.err : &err, NULL);
    else
        status = EX_OK;
    for (size_t i = 0; i < SPEAKERS_TOLD; i++)
        free(p.speakers[i]);
    store_close(p.store);
    return cli_flush(status);
}
