/* nightshift export: transcripts as files beside each other, as the recordings lie. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/cli.h"
#include "tools/export/format_finish.h"
#include "tools/export/formats.h"
#include "tools/export/names.h"
#include "tools/export/outdir.h"
#include "tools/export/segment_row.h"
#include "tools/text.h"

#define FORMATS 6
#define TRANSCRIPT_MAX (1u << 30) /* bytes of one file; a year of talking has less */

static const char help[] =
    "Usage: nightshift export [OPTION]... [PATH]...\n"
    "Write transcripts as files, one for each recording (at or below PATH), in the\n"
    "folders that the recordings lie in; those of an archive in a folder of its name.\n"
    "Folders that all recordings of the catalog have in common are left out, so that\n"
    "a recording's file has the same name with and without PATH. Files that are there\n"
    "are replaced; a file is written whole or not at all.\n"
    "\n"
    "  -o, --output=DIR     where to (default: ./transcripts)\n"
    "  -b, --base=DIR       names begin below this folder, however the catalog grows\n"
    "  -f, --format=FORMAT  txt (default), srt, vtt, tsv, json, rttm (who speaks\n"
    "                       when); may be repeated\n"
    "  -w, --words          vtt with a time for each word, where there are any (json\n"
    "                       always has them)\n"
    "      --partial        also recordings that are not done to their end yet\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -q, --quiet          say only what went wrong\n"
    "      --json           the summary as JSON\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift export -o /archive-text\n"
    "  nightshift export -f srt -f vtt -o subtitles /archive/films\n"
    "\n"
    "Exit status: 0; 66 when the catalog has no recording at PATH, or below --base;\n"
    "73 when a file could not be written; others as sysexits.h has them.\n";

struct wanted {
    bool format[FORMATS], any_format, partial, words;
    const char *output, *base;
};

static const struct option longs[] = {
    {"output", required_argument, NULL, 'o'}, {"format", required_argument, NULL, 'f'},
    {"base", required_argument, NULL, 'b'},   {"words", no_argument, NULL, 'w'},
    {"partial", no_argument, NULL, 256},      {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;
    int format;

    if (option == 'o') {
        w->output = value;
        return value[0] ? 0 : err_set(err, ERR_USAGE, "--output wants the name of a folder");
    }
    if (option == 'b') {
        w->base = value;
        return value[0] ? 0 : err_set(err, ERR_USAGE, "--base wants the name of a folder");
    }
    if (option == 256 || option == 'w') {
        *(option == 'w' ? &w->words : &w->partial) = true;
        return 0;
    }
    format = format_from_name(value);
    if (format < 0)
        return err_set(err, ERR_USAGE, "--format is txt, srt, vtt, tsv, json or rttm, not '%s'",
                       value);
    w->format[format] = w->any_format = true;
    return 0;
}

struct export_run {
    const struct wanted *w;
    struct store *store;
    struct outdir *out;
    struct names_used *used;
    char *base;    /* left out of names: the recordings' common folder, raw bytes */
    int64_t *only; /* numbers of the recordings that were asked for, rising; NULL: all */
    size_t only_n, only_room;
    bool vanished; /* those that are not there any more: they get their names last */
    struct buf text[FORMATS];
    struct segment_row row;
    uint64_t index;
    uint64_t recordings, empty, failed;
    uint64_t unfinished, broken, untranscribed; /* recordings left out */
    uint64_t undiarized;                        /* recordings without a file of turns */
    struct err err;
};

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static int on_segment(void *arg, const struct read_segment *row)
{
    struct export_run *x = arg;
    bool words = x->w->format[FORMAT_JSON] || (x->w->words && x->w->format[FORMAT_VTT]);
    struct format_segment s;
    int rc = segment_row_format(&x->row, x->store, row, words, &s, &x->err);

    if (rc != 0)
        return rc;
    s.time_words = x->w->words;
    for (int f = 0; f < FORMATS; f++)
        if (x->w->format[f])
            format_segment(&x->text[f], (enum format)f, x->index, &s);
    x->index++;
    return 0;
}

static int give_name(struct export_run *x, const struct read_recording *r, enum format f,
                     char **ret, struct err *err)
{
    return names_give(x->used, x->base ? x->base : "", r->path_raw, r->path_raw_len, r->member_raw,
                      r->member_raw_len, r->media_id, format_name(f), ret, err);
}

static void on_failure(void *arg, const char *name, const struct err *why)
{
    struct export_run *x = arg;

    cli_note("%s: %s", name, why->msg);
    x->failed++;
}

/* name is taken over. */
static int write_one(struct export_run *x, const struct read_recording *r, enum format f,
                     char *name)
{
    uint64_t failed = x->failed;
    struct err err = {0};
    int rc = 0;

    if (x->text[f].failed)
        rc = err_set(&err, ERR_LIMIT, "its transcript is too large for one file");
    /* A folder in the way (a recording "a.txt.mp3" beside a folder "a.txt"): the longer name. */
    for (int again = 0; rc == 0 && again < 2; again++) {
        rc = outdir_write(x->out, name, x->text[f].data, x->text[f].len, &err);
        if (rc != ERR_INPUT || again == 1)
            break;
        free(name);
        name = NULL;
        rc = give_name(x, r, f, &name, &err);
    }
    free(name);
    if (rc == 0)
        return 0;
    if (x->failed == failed) { /* else it was about others, and has been said */
        cli_note("%s%s%s: %s", r->path, r->member[0] ? "//" : "", r->member, err.msg);
        x->failed++;
    }
    /* The disk itself: the others would fail the same way. */
    if (rc == ERR_FULL || rc == ERR_DENIED || rc == ERR_IO || rc == ERR_NOMEM) {
        x->err = err;
        return 1;
    }
    return 0;
}

static bool is_asked_for(const struct export_run *x, const struct read_recording *r)
{
    return !x->only ||
           bsearch(&r->media_id, x->only, x->only_n, sizeof(*x->only), by_number) != NULL;
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

/* Which files are to be written: none of what nobody made, which an empty one would hide. Counts
 * what is left out; returns whether there is any. */
static bool choose_formats(struct export_run *x, const struct read_recording *r, bool ret[FORMATS])
{
    bool any = false, text = false, turns = x->w->format[FORMAT_RTTM];

    memset(ret, 0, FORMATS * sizeof(*ret));
    if (is_unfinished(r) && !x->w->partial) {
        x->unfinished++;
        return false;
    }
    for (int f = 0; f < FORMATS; f++) {
        ret[f] = x->w->format[f] && (f == FORMAT_RTTM ? r->diarized : has_text(x, r));
        any |= ret[f];
        text |= x->w->format[f] && f != FORMAT_RTTM;
    }
    if (text && !has_text(x, r)) {
        if (r->transcript[0] == 0)
            x->untranscribed++;
        else if (strcmp(r->state, "failed") == 0)
            x->broken++;
        else
            x->unfinished++;
    }
    if (turns && !r->diarized)
        x->undiarized++;
    return any;
}

/* names: one for each format, taken over when it is wanted. */
static int write_all(struct export_run *x, const struct read_recording *r,
                     const bool wanted[FORMATS], char *names[FORMATS])
{
    const struct format_recording fr = {.id = r->media_id,
                                        .duration_ms = r->duration_ms,
                                        .path = r->path,
                                        .member = r->member,
                                        .state = r->state,
                                        .language = r->language,
                                        .title = r->title,
                                        .recorded_on = r->recorded_on,
                                        .damage = r->damage,
                                        .left_out = r->left_out};
    int rc;

    x->index = 0;
    for (int f = 0; f < FORMATS; f++) {
        buf_clear(&x->text[f]);
        x->text[f].max = TRANSCRIPT_MAX;
        if (x->w->format[f])
            format_begin(&x->text[f], (enum format)f, &fr);
    }
    rc = read_segments(x->store, r->media_id, 0, on_segment, x, &x->err);
    for (int f = 0; rc == 0 && f < FORMATS; f++)
        if (wanted[f])
            rc = format_finish(x->store, (enum format)f, &fr, x->index, &x->text[f], &x->err);
    if (rc != 0)
        return rc;
    x->recordings++;
    x->empty += x->index == 0 && strcmp(r->transcript, "done") == 0;
    for (int f = 0; rc == 0 && f < FORMATS; f++)
        if (wanted[f]) {
            char *name = names[f];

            names[f] = NULL;
            rc = write_one(x, r, (enum format)f, name);
        }
    return rc;
}

/* Every recording gets its names, also one that is not written: they must not depend on which are
 * asked for today, nor on which are done. */
static int on_recording(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;
    char *names[FORMATS] = {NULL};
    bool wanted[FORMATS];
    int rc = 0;

    if ((r->places == 0) != x->vanished)
        return 0;
    for (int f = 0; rc == 0 && f < FORMATS; f++)
        if (x->w->format[f])
            rc = give_name(x, r, (enum format)f, &names[f], &x->err);
    if (rc == 0 && is_asked_for(x, r) && choose_formats(x, r, wanted))
        rc = write_all(x, r, wanted, names);
    for (int f = 0; f < FORMATS; f++)
        free(names[f]);
    return rc;
}

static int on_place(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;

    return names_common(&x->base, r->path_raw, r->path_raw_len, &x->err);
}

static int on_asked(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;

    if (x->only_n == x->only_room) {
        size_t room = x->only_room * 2 + 64;
        int64_t *only = realloc(x->only, room * sizeof(*only));

        if (!only)
            return err_set(&x->err, ERR_NOMEM, "out of memory");
        x->only = only;
        x->only_room = room;
    }
    x->only[x->only_n++] = r->media_id;
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

/* The recordings at or below the paths, into x->only. */
static int choose(struct export_run *x, char **paths, uint32_t n, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        char *shown = utf8_display(paths[i], strlen(paths[i]));

        rc = shown ? read_all(x, shown, on_asked, err) : err_set(err, ERR_NOMEM, "out of memory");
        free(shown);
    }
    if (x->only_n > 0)
        qsort(x->only, x->only_n, sizeof(*x->only), by_number);
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

static int write_files(struct export_run *x, struct err *err)
{
    int rc = read_all(x, NULL, on_recording, err), flushed;
    struct err why = {0};

    x->vanished = true;
    if (rc == 0)
        rc = read_all(x, NULL, on_recording, err);
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
        printf("%s %s not done yet and left out (--partial takes what there is).\n",
               text_count(x->unfinished, a),
               text_plural(x->unfinished, "recording is", "recordings are"));
    if (x->broken > 0)
        printf("%s failed and %s no transcript (nightshift status --failures).\n",
               text_count(x->broken, a), text_plural(x->broken, "has", "have"));
    if (x->untranscribed > 0)
        printf("%s %s not transcribed and %s no text (nightshift enqueue).\n",
               text_count(x->untranscribed, a),
               text_plural(x->untranscribed, "recording is", "recordings are"),
               text_plural(x->untranscribed, "has", "have"));
    if (x->undiarized > 0)
        printf("%s %s no speakers told apart, and no rttm (nightshift enqueue --diarize).\n",
               text_count(x->undiarized, a),
               text_plural(x->undiarized, "recording has", "recordings have"));
}

static void print_summary(const struct cli *cli, const struct export_run *x)
{
    char a[TEXT_LEN], b[TEXT_LEN];
    uint64_t files = outdir_files(x->out);
    json_t *o;

    if (cli->json) {
        o = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "recordings", (json_int_t)x->recordings, "files",
            (json_int_t)files, "without_speech", (json_int_t)x->empty, "failed",
            (json_int_t)x->failed, "not_done", (json_int_t)x->unfinished, "without_transcript",
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
    if (x->empty > 0)
        printf("%s of them %s no text: nobody speaks there.\n", text_count(x->empty, a),
               text_plural(x->empty, "has", "have"));
    print_left_out(x);
}

static int export_all(struct cli *cli, struct export_run *x, char **paths, uint32_t n)
{
    struct err err = {0};
    int rc;

    if (store_open(cli->catalog, STORE_READ, &x->store, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    if (choose(x, paths, n, &err) != 0 || find_base(x, &err) != 0)
        return cli_fail("read the catalog", &err, NULL);
    if (n > 0 && x->only_n == 0) {
        cli_note("cannot export: the catalog knows no recording there. Try `nightshift status`.");
        return EX_NOINPUT;
    }
    if (check_base(x, &err) != 0)
        return cli_fail("export", &err, "`nightshift status` has names of recordings.");
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
    const struct cli_spec spec = {help, "o:b:f:w", longs, take, true, format_values};
    struct wanted w = {.output = "transcripts"};
    struct export_run x = {.w = &w};
    struct err err = {0};
    char **paths = NULL;
    uint32_t n = 0;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (w.words && !w.format[FORMAT_VTT] && !w.format[FORMAT_JSON])
        return cli_usage(cli, "--words is about --format=vtt (json has them without it)");
    w.format[FORMAT_TXT] |= !w.any_format;
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
    for (int f = 0; f < FORMATS; f++)
        buf_free(&x.text[f]);
    segment_row_free(&x.row);
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
