/* nightshift export: transcripts as files beside each other, as the recordings lie. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/utf8.h"
#include "store/read/find.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/cli/account.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/demo_model.h"
#include "tools/export/formats.h"
#include "tools/export/html/html_format.h"
#include "tools/export/names.h"
#include "tools/export/outdir.h"
#include "tools/export/read_document.h"

#define TRANSCRIPT_MAX (1u << 30) /* bytes of one file; a year of talking has less */

struct wanted {
    uint32_t formats; /* bits of rows of the table */
    struct format_options options;
    bool partial, no_waveform;
    const char *output, *base;
};

static int take_media(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;

    for (size_t i = 0; i < HTML_MEDIA; i++)
        if (strcmp(html_media[i], value) == 0) {
            w->options.media = (enum format_media)i;
            w->options.given |= FORMAT_OPTION_MEDIA;
            return 0;
        }
    return err_set(err, ERR_USAGE, "--media is link, copy, opus or none, not '%s'", value);
}

static void put_media(const struct complete *c, const struct command_option *o)
{
    (void)o;
    for (size_t i = 0; i < HTML_MEDIA; i++)
        complete_put(c, html_media[i]);
}

static int take_format(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;
    const struct format *format = NULL;

    if (formats_take(value, false, &format, err) != 0)
        return err->code;
    w->formats |= 1u << (format - formats);
    return 0;
}

static void list_formats(struct buf *out) { formats_help(out, false); }

static int take_no_waveform(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;

    (void)value;
    (void)err;
    w->no_waveform = true;
    w->options.given |= FORMAT_OPTION_MEDIA;
    return 0;
}

static int take_unsandboxed(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;

    (void)value;
    (void)err;
    w->options.unsandboxed = true;
    w->options.given |= FORMAT_OPTION_MEDIA;
    return 0;
}

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_TEXT, "output", 'o', wanted, output, "DIR",
                   "where to write (default: ./transcripts)")},
    {COMMAND_VALUE(COMMAND_TEXT, "base", 'b', wanted, base, "DIR",
                   "start names below this folder, even if the catalog grows"),
     .manual = "Start names below this folder. Without it they start below the folder that all "
               "recordings of the catalog share, which another `enqueue` may change. A folder "
               "without recordings of the catalog is refused, with status 66."},
    {COMMAND_READ("format", 'f', take_format, "FORMAT", "one of these; may be repeated:"),
     .list = list_formats, .complete = formats_values,
     .manual =
         "May be given more than once: txt, srt, vtt, ebutt, tsv, json, whisper-json, csv, docx, "
         "eaf, textgrid, iiif, ohms, rttm or html. Ebutt is EBU-TT-D; docx is for Word and "
         "LibreOffice; eaf is ELAN's and textgrid Praat's; iiif is a manifest of IIIF with W3C "
         "annotations; ohms is WebVTT with a cue for each segment; rttm is who speaks when. Tsv "
         "has the three columns that Whisper writes, and the speaker in a fourth. Whisper-json "
         "is JSON with the names that openai-whisper and WhisperX give its parts; it cannot be "
         "written into one folder together with json, whose files have the same names."},
    {.kind = COMMAND_TABLE, .table = format_args, .offset = offsetof(struct wanted, options)},
    {COMMAND_SWITCH("partial", 0, wanted, partial, "also recordings that are not finished yet")},
    {COMMAND_READ("media", 'm', take_media, "WHAT",
                  "html: play the recordings where they are (link, the default), from copies "
                  "(copy, or opus: small ones), or not at all (none). What browsers cannot play, "
                  "or is in an archive, becomes Opus except with none"),
     .complete = put_media},
    {COMMAND_READ("no-waveform", 0, take_no_waveform, NULL,
                  "html: draw no waveforms, so that recordings are not read")},
    {COMMAND_READ("allow-unsandboxed", 0, take_unsandboxed, NULL,
                  "html: decode even if the kernel offers no sandbox"),
     .manual = "html: decode even if the kernel offers neither Landlock nor seccomp."},
    {0},
};

const struct command command_export = {
    .name = "export",
    .usage = "[OPTION]... [PATH]...",
    .about = "Write transcripts as files, one for each recording (at or below PATH), in the same "
             "folders as the recordings. Recordings in an archive go into a folder with its "
             "name.\nThe folders that all recordings of the catalog share are left out of the "
             "names. So a file has the same name with and without PATH. If PATH has only a copy of "
             "a recording, the file is named as the copy. Existing files are replaced; a file is "
             "written completely or not at all.",
    .options = options,
    .json = "the summary as JSON",
    .quiet = "print only errors and warnings",
    .examples = "export -o /archive-text\n"
                "export -f srt -f vtt -o subtitles /archive/films\n"
                "export -f html -o /archive-pages",
    .statuses = "0; 66 if the catalog has no recording at PATH, or below --base; 73 if a file "
                "could not be written; others: see sysexits.h.",
};

/* A recording that was asked for: at its main place, or at another one where that is not there. */
struct asked {
    int64_t media_id;
    int64_t place_id; /* 0: the main one */
};

struct export_run {
    const struct wanted *w;
    struct store *store;
    struct outdir *out;
    struct names_used *used;
    char *base;         /* left out of names: the recordings' common folder, raw bytes */
    const char *path;   /* of those that were asked for, while `only` is filled */
    struct asked *only; /* by their numbers; NULL: all at their main places */
    size_t only_n, only_room;
    bool copies;              /* one of them is at another place */
    bool vanished;            /* those that are not there any more: they get their names last */
    struct buf text;          /* of one file */
    void *pages[FORMATS_MAX]; /* the states of formats that are folders */
    uint64_t recordings, failed;
    uint64_t textless[TEXTLESS_KINDS], no_sound; /* recordings with an empty file of text */
    uint64_t unfinished, gone, cancelled, broken, untranscribed; /* recordings left out */
    uint64_t undiarized; /* recordings without a file of turns */
    unsigned demo;       /* made with these of tools/demo_model.h */
    struct err err;
};

static int by_number(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;

    return x->media_id < y->media_id ? -1 : x->media_id > y->media_id;
}

static int by_number_and_place(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;
    const int rc = by_number(a, b);

    return rc != 0 ? rc : x->place_id < y->place_id ? -1 : x->place_id > y->place_id;
}

static bool is_wanted(const struct export_run *x, unsigned f) { return x->w->formats >> f & 1; }

static int give_name(struct export_run *x, const struct read_recording *r, unsigned f, char **ret,
                     struct err *err)
{
    return names_give(x->used, x->base ? x->base : "", r->path_raw, r->path_raw_len, r->member_raw,
                      r->member_raw_len, r->media_id, formats[f].ending, ret, err);
}

static void on_failure(void *arg, const char *name, const struct err *why)
{
    struct export_run *x = arg;

    cli_note("%s: %s", name, why->msg);
    x->failed++;
}

/* A recording that has no file of one format: said, and counted. Not 0: the disk itself is in the
 * way, and the others would fail the same way. `failed`: how many had before it was tried. */
static int note_failure(struct export_run *x, const struct read_recording *r, uint64_t failed,
                        const struct err *why)
{
    if (x->failed == failed) { /* else it was about others, and has been said */
        cli_note("%s%s%s: %s", r->path, r->member[0] ? "//" : "", r->member, why->msg);
        x->failed++;
    }
    if (why->code != ERR_FULL && why->code != ERR_DENIED && why->code != ERR_IO &&
        why->code != ERR_NOMEM && why->code != ERR_CANCELLED)
        return 0;
    x->err = *why;
    return 1;
}

/* name is taken over. */
static int write_one(struct export_run *x, const struct read_recording *r, const struct document *d,
                     unsigned f, char *name)
{
    uint64_t failed = x->failed;
    struct err err = {0};
    int rc;

    buf_clear(&x->text);
    x->text.max = TRANSCRIPT_MAX;
    rc = formats[f].write(d, &x->w->options, &x->text, &err);
    if (rc == 0 && x->text.failed)
        rc = err_set(&err, ERR_LIMIT, "its transcript is too large for one file");
    /* A folder in the way (a recording "a.txt.mp3" beside a folder "a.txt"): the longer name. */
    for (int again = 0; rc == 0 && again < 2; again++) {
        rc = outdir_write(x->out, name, x->text.data, x->text.len, &err);
        if (rc != ERR_INPUT || again == 1)
            break;
        free(name);
        name = NULL;
        rc = give_name(x, r, f, &name, &err);
    }
    free(name);
    return rc == 0 ? 0 : note_failure(x, r, failed, &err);
}

static bool is_asked_for(const struct export_run *x, int64_t media_id, int64_t place_id)
{
    const struct asked key = {.media_id = media_id}, *found = NULL;

    if (x->only)
        found = bsearch(&key, x->only, x->only_n, sizeof(*x->only), by_number);
    return found ? found->place_id == place_id : !x->only && place_id == 0;
}

/* Is a stage of it still to be done? Then what it adds to the files (speakers) may be missing. */
static bool is_unfinished(const struct read_recording *r)
{
    return strcmp(r->state, "done") != 0 && strcmp(r->state, "failed") != 0 &&
           strcmp(r->state, "cancelled") != 0;
}

static bool has_text(const struct export_run *x, const struct read_recording *r)
{
    return strcmp(r->transcript, "done") == 0 ||
           (x->w->partial && strcmp(r->transcript, "started") == 0);
}

static void count_undone(struct export_run *x, const struct read_recording *r)
{
    if (strcmp(r->state, "absent") == 0)
        x->gone++;
    else if (strcmp(r->state, "cancelled") == 0)
        x->cancelled++;
    else
        x->unfinished++;
}

/* Which files are to be written: none of what nobody made, which an empty one would hide. Counts
 * what is left out. */
static uint32_t choose_formats(struct export_run *x, const struct read_recording *r)
{
    bool text = false, turns = false, broken;
    uint32_t chosen = 0;

    for (unsigned f = 0; f < formats_count; f++) {
        bool of_text = formats[f].needs & FORMAT_TEXT;

        if (!is_wanted(x, f) || formats[f].folder)
            continue;
        chosen |= (uint32_t)(of_text ? has_text(x, r) : r->diarized) << f;
        text |= of_text;
        turns |= !of_text;
    }
    if ((text || turns) && is_unfinished(r) && !x->w->partial) {
        count_undone(x, r);
        return 0;
    }
    broken = !has_text(x, r) && r->transcript[0] && strcmp(r->state, "failed") == 0;
    x->broken += broken && (text || !r->diarized);
    if (text && !has_text(x, r) && !broken) {
        if (r->transcript[0] == 0)
            x->untranscribed++;
        else
            count_undone(x, r);
    }
    x->undiarized += turns && !r->diarized && !broken;
    return chosen;
}

static void count_textless(struct export_run *x, const struct read_recording *r,
                           enum store_textless kind)
{
    if (kind < TEXTLESS_KINDS)
        x->textless[kind]++;
    x->no_sound += r->no_sound;
}

/* The files of the chosen formats. names: of each, taken over. */
static int write_files_of(struct export_run *x, const struct read_recording *r, uint32_t chosen,
                          char *names[])
{
    struct document_memory *memory = NULL;
    struct document d;
    unsigned needs = FORMAT_TEXT; /* also for the count of those without */
    int rc;

    for (unsigned f = 0; f < formats_count; f++)
        needs |= chosen >> f & 1 ? formats_needs(&formats[f], &x->w->options) : 0;
    rc = read_document(x->store, r, needs, false, &d, &memory, &x->err);
    if (rc != 0)
        return rc;
    x->recordings++;
    x->demo |= d.demo;
    count_textless(x, r, d.textless);
    for (unsigned f = 0; rc == 0 && f < formats_count; f++)
        if (chosen >> f & 1) {
            char *name = names[f];

            names[f] = NULL;
            rc = write_one(x, r, &d, f, name);
        }
    document_memory_free(memory);
    return rc;
}

/* Passes each recording, also one without text, to the formats that write folders. */
static int write_pages_of(struct export_run *x, const struct read_recording *r, bool counted,
                          char *names[])
{
    bool any = false;
    int rc = 0;

    for (unsigned f = 0; rc == 0 && f < formats_count; f++) {
        uint64_t failed = x->failed;
        struct err err = {0};

        if (!is_wanted(x, f) || !formats[f].folder)
            continue;
        any = true;
        if (formats[f].folder->recording(x->pages[f], r, names[f], &err) != 0)
            rc = note_failure(x, r, failed, &err);
    }
    if (rc == 0 && any && !counted) {
        enum store_textless kind;

        rc = store_textless_of(x->store, r->media_id, &kind, &x->err);
        count_textless(x, r, kind);
        x->recordings++;
    }
    return rc;
}

/* `at`: as *r, and where it is asked for. */
static int write_recording(struct export_run *x, const struct read_recording *r,
                           const struct read_recording *at, char *names[])
{
    const uint32_t chosen = choose_formats(x, r);
    const int rc = chosen ? write_files_of(x, at, chosen, names) : 0;

    return rc == 0 ? write_pages_of(x, r, chosen != 0, names) : rc;
}

/* Every place gets its names, also one of what is not written: they must not depend on which are
 * asked for today, nor on which are done. */
static int give_names(struct export_run *x, const struct read_recording *r, char *names[])
{
    int rc = 0;

    for (unsigned f = 0; rc == 0 && f < formats_count; f++)
        if (is_wanted(x, f))
            rc = give_name(x, r, f, &names[f], &x->err);
    return rc;
}

static void free_names(char *names[])
{
    for (unsigned f = 0; f < formats_count; f++)
        free(names[f]);
}

static int on_recording(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;
    char *names[FORMATS_MAX] = {NULL};
    int rc;

    if ((r->places == 0) != x->vanished)
        return 0;
    rc = give_names(x, r, names);
    if (rc == 0 && is_asked_for(x, r->media_id, 0))
        rc = write_recording(x, r, r, names);
    free_names(names);
    return rc;
}

struct copy {
    struct export_run *x;
    const struct read_other *place;
    char *names[FORMATS_MAX];
};

static void put_place(const struct read_other *place, struct read_recording *r)
{
    r->media_id = place->media_id;
    r->path = place->path;
    r->member = place->member;
    r->path_raw = place->path_raw;
    r->path_raw_len = place->path_raw_len;
    r->member_raw = place->member_raw;
    r->member_raw_len = place->member_raw_len;
}

static int write_copy(void *arg, const struct read_recording *r)
{
    struct copy *c = arg;
    struct read_recording at = *r;

    put_place(c->place, &at);
    return write_recording(c->x, r, &at, c->names);
}

static int on_copy(void *arg, const struct read_other *place)
{
    struct copy c = {.x = arg, .place = place};
    struct read_recording at = {0};
    int rc;

    put_place(place, &at);
    rc = give_names(c.x, &at, c.names);
    if (rc == 0 && is_asked_for(c.x, place->media_id, place->place_id))
        rc = read_recording_by_id(c.x->store, place->media_id, write_copy, &c, &c.x->err);
    free_names(c.names);
    return rc;
}

static int on_copy_place(void *arg, const struct read_other *place)
{
    struct export_run *x = arg;

    return names_common(&x->base, place->path_raw, place->path_raw_len, &x->err);
}

/* Behind all others, so that nothing is called otherwise for them; what the folders of all places
 * have in common is left out of their names. */
static int write_copies(struct export_run *x, struct err *err)
{
    int rc = x->w->base ? 0 : read_others(x->store, on_copy_place, x, err);

    if (rc == 0)
        rc = read_others(x->store, on_copy, x, err);
    if (rc != 0 && x->err.code != 0)
        *err = x->err;
    return rc;
}

static int on_place(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;

    return names_common(&x->base, r->path_raw, r->path_raw_len, &x->err);
}

struct asking {
    const struct read_recording *r;
    int64_t place_id;
};

static int take_place(void *arg, int64_t place_id, const char *path, const char *member)
{
    struct asking *a = arg;

    if (strcmp(path, a->r->path) != 0 || strcmp(member, a->r->member) != 0)
        a->place_id = place_id;
    return 0;
}

static int on_asked(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;
    struct asking a = {.r = r};
    int rc = find_place(x->store, r->media_id, x->path, take_place, &a, &x->err);

    if (rc != 0)
        return rc;
    if (!list_grow(&x->only, &x->only_room, x->only_n, sizeof(*x->only)))
        return err_set(&x->err, ERR_NOMEM, "out of memory");
    x->only[x->only_n++] = (struct asked){r->media_id, a.place_id};
    return 0;
}

static int read_all(struct export_run *x, const char *path, read_recording_fn fn, struct err *err)
{
    const struct read_filter filter = {.path = path};
    int rc = read_recordings(x->store, &filter, fn, x, err);

    if (rc != 0 && x->err.code != 0)
        *err = x->err;
    return rc;
}

/* The recordings at or below the paths, into x->only, each once. */
static int choose_recordings(struct export_run *x, char **paths, uint32_t n, struct err *err)
{
    size_t kept = 0;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        char *shown = utf8_display(paths[i], strlen(paths[i]));

        x->path = shown;
        rc = shown ? read_all(x, shown, on_asked, err) : err_set(err, ERR_NOMEM, "out of memory");
        free(shown);
    }
    if (x->only_n > 0)
        qsort(x->only, x->only_n, sizeof(*x->only), by_number_and_place);
    for (size_t i = 0; i < x->only_n; i++)
        if (kept == 0 || x->only[kept - 1].media_id != x->only[i].media_id)
            x->only[kept++] = x->only[i];
    x->only_n = kept;
    for (size_t i = 0; i < kept; i++)
        x->copies |= x->only[i].place_id != 0;
    return rc;
}

static int find_base(struct export_run *x, struct err *err)
{
    return x->w->base ? cli_absolute(x->w->base, &x->base, err) : read_all(x, NULL, on_place, err);
}

static int any_place(void *arg, const struct read_recording *r)
{
    (void)r;
    *(bool *)arg = true;
    return 1;
}

/* A slip in its name would have the whole path in every name. */
static int check_base(struct export_run *x, struct err *err)
{
    struct read_filter filter = {.limit = 1};
    char *shown = NULL;
    bool any = !x->w->base;
    int rc = 0;

    if (!any) {
        filter.path = shown = utf8_display(x->base, strlen(x->base));
        rc = shown ? read_recordings(x->store, &filter, any_place, &any, err)
                   : err_set(err, ERR_NOMEM, "out of memory");
    }
    free(shown);
    if (rc >= 0 && !any)
        rc = err_set(err, ERR_MISSING, "the catalog has no recording below the folder '%.300s'",
                     x->w->base);
    return rc < 0 ? rc : 0;
}

static int open_pages(struct export_run *x, struct err *err)
{
    int rc = 0;

    for (unsigned f = 0; rc == 0 && f < formats_count; f++)
        if (is_wanted(x, f) && formats[f].folder)
            rc = formats[f].folder->open(x->store, x->out, &x->w->options, &x->pages[f], err);
    return rc;
}

static void close_pages(struct export_run *x)
{
    for (unsigned f = 0; f < formats_count; f++)
        if (x->pages[f])
            formats[f].folder->close(x->pages[f]);
}

static int write_files(struct export_run *x, struct err *err)
{
    int rc = open_pages(x, err), flushed;
    struct err why = {0};

    if (rc == 0)
        rc = read_all(x, NULL, on_recording, err);
    x->vanished = true;
    if (rc == 0)
        rc = read_all(x, NULL, on_recording, err);
    if (rc == 0 && x->copies)
        rc = write_copies(x, err);
    for (unsigned f = 0; rc == 0 && f < formats_count; f++)
        if (x->pages[f])
            rc = formats[f].folder->finish(x->pages[f], err);
    flushed = outdir_flush(x->out, &why);
    if (rc == 0 && flushed != 0) {
        *err = why;
        rc = flushed;
    }
    return rc;
}

static void print_left_out(const struct export_run *x)
{
    char a[TEXT_LEN];

    if (x->unfinished > 0)
        printf("%s %s not finished yet and left out (--partial takes what there is).\n",
               text_count(x->unfinished, a),
               text_plural(x->unfinished, "recording is", "recordings are"));
    if (x->gone > 0)
        printf("%s %s left out: %s gone from the disk, and not done.\n", text_count(x->gone, a),
               text_plural(x->gone, "recording is", "recordings are"),
               text_plural(x->gone, "it is", "they are"));
    if (x->cancelled > 0)
        printf("%s %s cancelled and %s no transcript (nightshift retry).\n",
               text_count(x->cancelled, a),
               text_plural(x->cancelled, "recording was", "recordings were"),
               text_plural(x->cancelled, "has", "have"));
    if (x->broken > 0)
        printf("%s failed and %s no transcript (nightshift status --failures).\n",
               text_count(x->broken, a), text_plural(x->broken, "has", "have"));
    if (x->untranscribed > 0)
        printf("%s %s not transcribed and %s no text (nightshift enqueue).\n",
               text_count(x->untranscribed, a),
               text_plural(x->untranscribed, "recording is", "recordings are"),
               text_plural(x->untranscribed, "has", "have"));
    if (x->undiarized > 0)
        printf("%s %s no speakers, and no rttm (nightshift enqueue --diarize).\n",
               text_count(x->undiarized, a),
               text_plural(x->undiarized, "recording has", "recordings have"));
}

/* Not every format has a place for it. */
static void note_demo(const struct export_run *x)
{
    if (x->demo)
        cli_note("%s.", demo_model_made(x->demo));
}

/* Names the page to open. `folder` may end with a slash. */
static void print_open(const char *folder, const char *name)
{
    const size_t len = strlen(folder);

    printf("Open %s%s%s\n", folder, len > 0 && folder[len - 1] == '/' ? "" : "/", name);
}

static void print_textless(const struct export_run *x)
{
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    for (int i = 0; i < TEXTLESS_KINDS; i++) {
        if (textless_say(x->textless, (enum store_textless)i, &b) && buf_cstr(&b))
            printf("Of them: %s\n", buf_cstr(&b));
        buf_clear(&b);
    }
    buf_free(&b);
    if (x->no_sound > 0)
        printf("Of them: %s %s no sound\n", text_count(x->no_sound, n),
               text_plural(x->no_sound, "recording has", "recordings have"));
}

static void print_summary(const struct cli *cli, const struct export_run *x)
{
    char a[TEXT_LEN], b[TEXT_LEN];
    uint64_t files = outdir_files(x->out);
    json_t *o;

    if (cli->json) {
        o = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "recordings",
            (json_int_t)x->recordings, "files", (json_int_t)files, "without_speech",
            (json_int_t)x->textless[TEXTLESS_SILENT], "without_text",
            (json_int_t)textless_all(x->textless), "without_sound", (json_int_t)x->no_sound,
            "failed", (json_int_t)x->failed, "not_done", (json_int_t)x->unfinished, "gone",
            (json_int_t)x->gone, "cancelled", (json_int_t)x->cancelled, "without_transcript",
            (json_int_t)(x->broken + x->untranscribed), "not_diarized", (json_int_t)x->undiarized);
        if (o) /* nothing is set when the folder's name is no UTF-8 */
            json_object_set_new(o, "output", json_string(x->w->output));
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
        return;
    }
    if (cli->quiet)
        return;
    printf("%s %s of %s %s written to %s.\n", text_count(files, a),
           text_plural(files, "file", "files"), text_count(x->recordings, b),
           text_plural(x->recordings, "recording", "recordings"), x->w->output);
    for (unsigned f = 0; f < formats_count; f++)
        if (x->pages[f])
            print_open(x->w->output, formats[f].folder->first);
    print_textless(x);
    print_left_out(x);
    note_demo(x);
}

static int export_all(struct cli *cli, struct export_run *x, char **paths, uint32_t n)
{
    struct err err = {0};
    int rc;

    if (store_open(cli->catalog, STORE_READ, &x->store, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    if (choose_recordings(x, paths, n, &err) != 0 || find_base(x, &err) != 0)
        return cli_fail("read the catalog", &err, NULL);
    if (n > 0 && x->only_n == 0) {
        cli_note("cannot export: the catalog has no recording there. Try `nightshift status`.");
        return EX_NOINPUT;
    }
    if (check_base(x, &err) != 0)
        return cli_fail("export", &err, "`nightshift status` shows names of recordings.");
    if (names_used_new(&x->used, &err) != 0 || outdir_open(x->w->output, &x->out, &err) != 0)
        return cli_fail("export", &err, "Try --output DIR with another folder.");
    outdir_on_failure(x->out, on_failure, x);
    rc = write_files(x, &err);
    if (rc != 0)
        return cli_fail("export (what was written is whole)", &err,
                        err.code == ERR_DENIED ? "Try --output DIR with another folder." : NULL);
    print_summary(cli, x);
    return cli_flush(x->failed > 0 ? EX_CANTCREAT : EX_OK);
}

int cmd_export(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.output = "transcripts"};
    struct export_run x = {.w = &w};
    struct err err = {0};
    char **paths = NULL, why[FORMAT_ARGS_WHY];
    uint32_t n = 0;
    int status = command_parse(cli, &command_export, &w, argc, argv);

    if (status >= 0)
        return status;
    if (strcmp(w.output, "-") == 0)
        return cli_usage(cli, "it writes files into a folder; one transcript on standard output is "
                              "`nightshift show --format=FORMAT RECORDING`");
    w.formats |= w.formats ? 0 : 1;
    if (!format_args_fit(&w.options, w.formats, why))
        return cli_usage(cli, "%s", why);
    w.options.waveform = !w.no_waveform;
    w.options.output = w.output;
    paths = calloc((size_t)(argc - optind) + 1, sizeof(*paths));
    if (!paths) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("export", &err, NULL);
    }
    for (; err.code == 0 && optind < argc; optind++)
        if (cli_place(argv[optind], &paths[n], &err) == 0)
            n++;
    if (err.code != 0)
        status = cli_fail("export", &err, NULL);
    else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = export_all(cli, &x, paths, n);
    buf_free(&x.text);
    close_pages(&x);
    names_used_free(x.used);
    outdir_close(x.out);
    store_close(x.store);
    free(x.base);
    free(x.only);
    for (uint32_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
    return status;
}
