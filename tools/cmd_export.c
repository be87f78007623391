/* nightshift export: transcripts as files beside each other, as the recordings lie. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "store/read.h"
#include "store/store.h"
#include "tools/cli.h"
#include "tools/formats.h"
#include "tools/names.h"
#include "tools/outdir.h"
#include "tools/text.h"

#define FORMATS 5
#define TRANSCRIPT_MAX (1u << 30) /* bytes of one file; a year of talking has less */

static const char help[] =
    "Usage: nightshift export [OPTION]... [PATH]...\n"
    "Write transcripts as files, one for each recording (at or below PATH), in the\n"
    "folders that the recordings lie in; those of an archive in a folder of its name.\n"
    "Files that are there are replaced; a file is written whole or not at all.\n"
    "\n"
    "  -o, --output=DIR     where to (default: ./transcripts)\n"
    "  -f, --format=FORMAT  txt (default), srt, vtt, tsv, json; may be repeated\n"
    "      --partial        also recordings that are not done to their end yet\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -q, --quiet          say only what went wrong\n"
    "      --json           the summary as JSON\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift export -o /archive-text\n"
    "  nightshift export -f srt -f vtt -o subtitles /archive/films\n";

struct wanted {
    bool format[FORMATS], any_format, partial;
    const char *output;
};

static const struct option longs[] = {
    {"output", required_argument, NULL, 'o'},
    {"format", required_argument, NULL, 'f'},
    {"partial", no_argument, NULL, 256},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;
    int format;

    if (option == 'o') {
        w->output = value;
        return value[0] ? 0 : err_set(err, ERR_USAGE, "--output wants the name of a folder");
    }
    if (option == 256) {
        w->partial = true;
        return 0;
    }
    format = format_from_name(value);
    if (format < 0)
        return err_set(err, ERR_USAGE, "--format is txt, srt, vtt, tsv or json, not '%s'", value);
    w->format[format] = w->any_format = true;
    return 0;
}

struct export_run {
    const struct wanted *w;
    struct store *store;
    struct outdir *out;
    struct names_used *used;
    char *base; /* the recordings' common folder, raw bytes */
    struct buf text[FORMATS];
    uint64_t index;
    uint64_t recordings, files, failed;
    uint64_t unfinished, broken; /* recordings left out */
    int last_code;               /* of what failed */
    struct err err;
};

static int on_segment(void *arg, const struct read_segment *row)
{
    struct export_run *x = arg;
    const struct format_segment s = {.start_ms = row->start_ms,
                                     .end_ms = row->end_ms,
                                     .text = row->text,
                                     .language = row->language,
                                     .speaker = row->speaker,
                                     .avg_logprob = row->avg_logprob,
                                     .no_speech_prob = row->no_speech_prob,
                                     .compression_ratio = row->compression_ratio,
                                     .temperature = row->temperature};

    for (int f = 0; f < FORMATS; f++)
        if (x->w->format[f])
            format_segment(&x->text[f], (enum format)f, x->index, &s);
    x->index++;
    return 0;
}

static int write_one(struct export_run *x, const struct read_recording *r, enum format f)
{
    struct err err = {0};
    char *name = NULL;
    int rc = names_give(x->used, x->base != NULL ? x->base : "", r->path_raw, r->path_raw_len,
                        r->member_raw, r->member_raw_len, r->media_id, format_name(f), &name, &err);

    if (rc == 0 && x->text[f].failed)
        rc = err_set(&err, ERR_LIMIT, "its transcript is too large for one file");
    /* A folder in the way (a recording "a.txt.mp3" beside a folder "a.txt"): the longer name. */
    for (int again = 0; rc == 0 && again < 2; again++) {
        rc = outdir_write(x->out, name, x->text[f].data, x->text[f].len, &err);
        if (rc != ERR_INPUT || again == 1)
            break;
        free(name);
        name = NULL;
        rc = names_give(x->used, x->base != NULL ? x->base : "", r->path_raw, r->path_raw_len,
                        r->member_raw, r->member_raw_len, r->media_id, format_name(f), &name, &err);
    }
    free(name);
    if (rc == 0) {
        x->files++;
        return 0;
    }
    cli_note("%s%s%s: %s", r->path, r->member[0] ? "//" : "", r->member, err.msg);
    x->failed++;
    x->last_code = rc;
    /* The disk itself: the others would fail the same way. */
    if (rc == ERR_FULL || rc == ERR_DENIED || rc == ERR_IO || rc == ERR_NOMEM) {
        x->err = err;
        return 1;
    }
    return 0;
}

static int on_recording(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;
    const struct format_recording fr = {.id = r->media_id,
                                        .duration_ms = r->duration_ms,
                                        .path = r->path,
                                        .member = r->member,
                                        .state = r->state,
                                        .language = r->language,
                                        .title = r->title,
                                        .damage = r->damage};
    int rc;

    if (strcmp(r->state, "done") != 0 && (!x->w->partial || r->shards_done == 0)) {
        if (strcmp(r->state, "failed") == 0)
            x->broken++;
        else
            x->unfinished++;
        return 0;
    }
    x->index = 0;
    for (int f = 0; f < FORMATS; f++) {
        buf_clear(&x->text[f]);
        x->text[f].max = TRANSCRIPT_MAX;
        if (x->w->format[f])
            format_begin(&x->text[f], (enum format)f, &fr);
    }
    rc = read_segments(x->store, r->media_id, 0, on_segment, x, &x->err);
    if (rc != 0)
        return rc;
    x->recordings++;
    for (int f = 0; rc == 0 && f < FORMATS; f++)
        if (x->w->format[f]) {
            format_end(&x->text[f], (enum format)f, x->index);
            rc = write_one(x, r, (enum format)f);
        }
    return rc;
}

static int on_place(void *arg, const struct read_recording *r)
{
    struct export_run *x = arg;

    return names_common(&x->base, r->path_raw, r->path_raw_len, &x->err);
}

static int each(struct export_run *x, char **paths, uint32_t n, read_recording_fn fn,
                struct err *err)
{
    struct read_filter filter = {0};
    int rc = 0;

    if (n == 0)
        rc = read_recordings(x->store, &filter, fn, x, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        char *shown = utf8_display(paths[i], strlen(paths[i]));

        filter.path = shown;
        rc = shown != NULL ? read_recordings(x->store, &filter, fn, x, err)
                           : err_set(err, ERR_NOMEM, "out of memory");
        free(shown);
    }
    if (rc != 0 && x->err.code != 0)
        *err = x->err;
    return rc;
}

static void print_summary(const struct cli *cli, const struct export_run *x)
{
    char a[TEXT_LEN], b[TEXT_LEN];
    json_t *o;

    if (cli->json) {
        o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "output", x->w->output, "recordings",
                      (json_int_t)x->recordings, "files", (json_int_t)x->files, "failed",
                      (json_int_t)x->failed, "not_done", (json_int_t)x->unfinished,
                      "without_transcript", (json_int_t)x->broken);
        if (o == NULL) /* the folder's name is no UTF-8 */
            o = json_pack("{s:I, s:I, s:I, s:I, s:I}", "recordings", (json_int_t)x->recordings,
                          "files", (json_int_t)x->files, "failed", (json_int_t)x->failed,
                          "not_done", (json_int_t)x->unfinished, "without_transcript",
                          (json_int_t)x->broken);
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
        return;
    }
    if (cli->quiet)
        return;
    printf("%s %s of %s %s written to %s.\n", text_count(x->files, a),
           text_plural(x->files, "file", "files"), text_count(x->recordings, b),
           text_plural(x->recordings, "recording", "recordings"), x->w->output);
    if (x->unfinished > 0)
        printf("%s %s not done yet and left out (--partial takes what there is).\n",
               text_count(x->unfinished, a),
               text_plural(x->unfinished, "recording is", "recordings are"));
    if (x->broken > 0)
        printf("%s failed and %s no transcript (nightshift status --failures).\n",
               text_count(x->broken, a), text_plural(x->broken, "has", "have"));
}

static int export_all(struct cli *cli, struct export_run *x, char **paths, uint32_t n)
{
    struct err err = {0};
    int rc;

    if (store_open(cli->catalog, STORE_READ, &x->store, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    rc = each(x, paths, n, on_place, &err);
    if (rc < 0)
        return cli_fail("read the catalog", &err, NULL);
    if (names_used_new(&x->used, &err) != 0 || outdir_open(x->w->output, &x->out, &err) != 0)
        return cli_fail("export", &err, "Try --output DIR with another folder.");
    rc = each(x, paths, n, on_recording, &err);
    if (rc != 0)
        return cli_fail("export (what was written is whole)", &err,
                        err.code == ERR_DENIED ? "Try --output DIR with another folder." : NULL);
    if (n > 0 && x->recordings + x->unfinished + x->broken == 0) {
        cli_note("cannot export: the catalog knows no recording there. Try `nightshift status`.");
        return EX_NOINPUT;
    }
    print_summary(cli, x);
    return cli_flush(x->failed > 0 ? EX_CANTCREAT : EX_OK);
}

int cmd_export(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "o:f:", longs, take, true};
    struct wanted w = {.output = "transcripts"};
    struct export_run x = {.w = &w};
    struct err err = {0};
    char **paths = NULL;
    uint32_t n = 0;
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    w.format[FORMAT_TXT] |= !w.any_format;
    paths = calloc((size_t)(argc - optind) + 1, sizeof(*paths));
    if (paths == NULL)
        err_set(&err, ERR_NOMEM, "out of memory");
    for (; err.code == 0 && optind < argc; optind++)
        if (cli_absolute(argv[optind], &paths[n], &err) == 0)
            n++;
    if (err.code != 0)
        status = cli_fail("export", &err, NULL);
    else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = export_all(cli, &x, paths, n);
    for (int f = 0; f < FORMATS; f++)
        buf_free(&x.text[f]);
    names_used_free(x.used);
    outdir_close(x.out);
    store_close(x.store);
    free(x.base);
    for (uint32_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
    return status;
}
