/* nightshift erase: what a recording, or a person's name and voice, has left in the catalog goes
 * for good. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "store/requests/erase.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/recording.h"
#include "tools/writer.h"

struct wanted {
    const char *person, *by;
    bool list, allow, dry_run, yes;
};

struct going {
    const struct cli *cli;
    int64_t *ids; /* owned: recordings, or marks; each once */
    uint32_t count;
    json_t *rows; /* NULL: for people */
};

/* ------------------------------------------------------------------------------------- preview */

static int on_recording(void *arg, const struct erase_recording *row)
{
    struct going *g = arg;
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    if (g->rows)
        return json_array_append_new(
            g->rows,
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "path", row->path, "member",
                      row->member, "title", row->title, "places", (json_int_t)row->places,
                      "results", (json_int_t)row->results, "segments", (json_int_t)row->segments,
                      "names", (json_int_t)row->names, "corrections",
                      (json_int_t)row->corrections));
    if (g->cli->quiet)
        return 0;
    buf_printf(&b, "%s%s%s", row->path, row->member[0] ? "//" : "", row->member);
    if (row->title[0])
        buf_printf(&b, " \"%s\"", row->title);
    buf_printf(&b, ": %s %s", text_count(row->results, n),
               text_plural(row->results, "result", "results"));
    buf_printf(&b, ", %s %s", text_count(row->segments, n),
               text_plural(row->segments, "segment", "segments"));
    if (row->names > 0)
        buf_printf(&b, ", %s %s of speakers", text_count(row->names, n),
                   text_plural(row->names, "name", "names"));
    if (row->corrections > 0)
        buf_printf(&b, ", %s %s", text_count(row->corrections, n),
                   text_plural(row->corrections, "correction", "corrections"));
    if (row->places > 1)
        buf_printf(&b, ", all its %s places", text_count(row->places, n));
    cli_print(buf_cstr(&b), 2);
    buf_free(&b);
    return 0;
}

static bool contains_id(const struct going *g, int64_t id)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->ids[i] == id)
            return true;
    return false;
}

struct whole {
    const char *what;
    bool is;
};

static int on_place(void *arg, const struct read_other *place, int rank)
{
    struct whole *w = arg;
    const size_t n = strlen(place->path);
    const char *rest = strncmp(w->what, place->path, n) == 0 ? w->what + n : NULL;

    w->is |= rank == 1;
    if (rest && place->member[0])
        w->is |= strncmp(rest, "//", 2) == 0 && strcmp(rest + 2, place->member) == 0;
    else if (rest)
        w->is |= rest[0] == 0;
    return 0;
}

/* With --yes nobody reads the preview first, and a part of a name may fit another recording than
 * was meant: so --yes requires the whole path or the number. */
static int must_be_whole(struct store *st, int64_t id, const char *what, struct err *err)
{
    /* A number that no recording has may be a part of a name. */
    struct whole w = {what, what[strspn(what, "0123456789")] == 0 && strtoll(what, NULL, 10) == id};
    int rc = w.is ? 0 : recording_places(st, id, what, on_place, &w, err);

    if (rc < 0 || w.is)
        return rc;
    return err_set(err, ERR_USAGE,
                   "'%.200s' is a part of a name, and --yes wants the whole path or a number. Try "
                   "the number, %lld",
                   what, (long long)id);
}

static int find_recordings(struct store *st, struct going *g, const struct wanted *w, char **names,
                           int n, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++) {
        int64_t id = 0;

        rc = recording_find(st, names[i], &id, err);
        if (rc == ERR_MISSING)
            rc = err_set(err, ERR_MISSING,
                         "the catalog has no recording '%.200s'. `nightshift status` shows names "
                         "of recordings",
                         names[i]);
        if (rc == 0 && w->yes && !w->dry_run)
            rc = must_be_whole(st, id, names[i], err);
        if (rc != 0 || contains_id(g, id))
            continue;
        g->ids[g->count++] = id;
        rc = erase_preview(st, id, on_recording, g, err);
    }
    return rc;
}

static int find_person(struct store *st, struct going *g, const char *name, struct err *err)
{
    struct erase_person p;
    char speakers[TEXT_LEN], recordings[TEXT_LEN], voices[TEXT_LEN];
    struct buf b = BUF_INIT;
    int rc = erase_preview_person(st, name, &p, err);

    if (rc == 0 && p.speakers + p.voices == 0)
        rc = err_set(err, ERR_MISSING,
                     "there is no speaker '%.200s'. `nightshift speakers` lists the names", name);
    if (rc == 0 && g->rows)
        json_array_append_new(g->rows,
                              json_pack("{s:s, s:I, s:I, s:I}", "person", name, "speakers",
                                        (json_int_t)p.speakers, "recordings",
                                        (json_int_t)p.recordings, "voices", (json_int_t)p.voices));
    else if (rc == 0 && !g->cli->quiet) {
        buf_printf(&b, "%s: the name of %s %s in %s %s, and %s %s in the register", name,
                   text_count(p.speakers, speakers), text_plural(p.speakers, "speaker", "speakers"),
                   text_count(p.recordings, recordings),
                   text_plural(p.recordings, "recording", "recordings"),
                   text_count(p.voices, voices), text_plural(p.voices, "voice", "voices"));
        cli_print(buf_cstr(&b), 2);
    }
    buf_free(&b);
    return rc;
}

/* Also where nothing is to be found: a writer would make a catalog where there is none. */
static int find_all(struct going *g, const struct wanted *w, char **names, int n, struct err *err)
{
    struct store *st = NULL;
    int rc = store_open(g->cli->catalog, STORE_READ, &st, err);

    if (rc == 0 && !w->allow)
        rc = w->person ? find_person(st, g, w->person, err)
                       : find_recordings(st, g, w, names, n, err);
    store_close(st);
    return rc;
}

/* -------------------------------------------------------------------------------------- change */

static const char not_known[] =
    "The recording's own file stays. Nightshift does not know which files `export` wrote: the next "
    "`export -f html` into the same folder removes the recording's page, and other formats' files "
    "stay. Backups and copies of the catalog, its parts on other machines, reports, and logs of "
    "runs stay, too. Remove these yourself.";
static const char not_known_person[] =
    "The name stays where somebody says or wrote it: in transcripts, corrections, titles and tags. "
    "It stays in files that `export` wrote, and in backups and copies of the catalog. No mark is "
    "kept, for it would be the name: whoever gives a speaker the name again puts it back.";
static const char log_kept[] =
    "Another program reads the catalog, so that its log (FILE-wal) still holds what was removed. "
    "It is emptied when the next command changes the catalog, or the run ends, and nobody reads.";

static void print_done(const struct wanted *w, const struct request_reply *r)
{
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    if (w->person)
        buf_printf(&b, "%s erased: %s %s %s back to a label. ", w->person,
                   text_count(r->affected, n), text_plural(r->affected, "speaker", "speakers"),
                   text_plural(r->affected, "goes", "go"));
    else if (w->allow)
        buf_printf(&b, "`nightshift enqueue` takes %s %s again.", text_count(r->affected, n),
                   text_plural(r->affected, "recording", "recordings"));
    else
        buf_printf(&b,
                   "%s %s erased. `nightshift enqueue` leaves %s out from now on (nightshift erase "
                   "--list). ",
                   text_count(r->affected, n), text_plural(r->affected, "recording", "recordings"),
                   text_plural(r->affected, "it", "them"));
    cli_print(buf_cstr(&b), 0);
    if (!w->allow)
        cli_print(w->person ? not_known_person : not_known, 0);
    if (r->log_kept)
        cli_print(log_kept, 0);
    buf_free(&b);
}

static int send_erase_request(struct cli *cli, const struct wanted *w, const struct going *g,
                              struct request_reply *ret)
{
    struct request rq = {.type = REQUEST_ERASE,
                         .ids = g->ids,
                         .count = g->count,
                         .speaker_name = w->person ? w->person : "",
                         .made_by = w->by ? w->by : "",
                         .undo = w->allow};
    struct writer *writer = NULL;
    struct err err = {0};
    int rc = writer_open(cli->catalog, cli->command, 10000, cli->quiet, &writer, &err);

    if (rc == 0)
        rc = writer_request(writer, &rq, ret, &err);
    writer_close(writer);
    return rc == 0 ? EX_OK
                   : cli_fail("erase", &err,
                              rc == ERR_MISSING && w->allow
                                  ? "`nightshift erase --list` lists the numbers of marks."
                                  : NULL);
}

static int print_result(const struct cli *cli, const struct wanted *w, const struct going *g,
                        bool done, const struct request_reply *r)
{
    if (cli->json) {
        json_t *o = json_pack("{s:O, s:b, s:I, s:b}", w->person ? "people" : "recordings", g->rows,
                              "erased", (int)done, "affected", (json_int_t)r->affected, "log_kept",
                              (int)r->log_kept);

        json_dumpf(o, stdout, 0);
        putchar('\n');
        json_decref(o);
    } else if (!cli->quiet && done) {
        print_done(w, r);
    }
    return cli_flush(EX_OK);
}

static int erase_recordings(struct cli *cli, const struct wanted *w, struct going *g, char **names,
                            int n)
{
    struct request_reply reply = {0};
    struct err err = {0};
    enum cli_consent go;
    int status = EX_OK;

    if (find_all(g, w, names, n, &err) != 0)
        return cli_fail("erase", &err, NULL);
    go = cli_consent(cli, w->dry_run, w->yes || w->allow, "Erase this for good?");
    if (go == CLI_UNASKED)
        return cli_unasked(cli, "it erases");
    if (go == CLI_YES)
        status = send_erase_request(cli, w, g, &reply);
    return status == EX_OK ? print_result(cli, w, g, go == CLI_YES, &reply) : status;
}

/* --------------------------------------------------------------------------------------- marks */

static int on_mark(void *arg, const struct erase_mark *row)
{
    struct going *g = arg;
    char n[TEXT_LEN];

    if (g->rows)
        return json_array_append_new(
            g->rows, json_pack("{s:I, s:I, s:s, s:s}", "mark", (json_int_t)row->erased_id, "bytes",
                               (json_int_t)row->size_bytes, "at", row->at, "by", row->by));
    printf("%lld: %s, erased on %.10s%s%s\n", (long long)row->erased_id,
           text_bytes(row->size_bytes, n), row->at, row->by[0] ? " by " : "", row->by);
    g->count++;
    return 0;
}

static int list_marks(struct cli *cli, struct going *g)
{
    struct store *st = NULL;
    struct err err = {0};
    int rc = store_open(cli->catalog, STORE_READ, &st, &err);

    if (rc == 0)
        rc = erase_marks(st, on_mark, g, &err);
    store_close(st);
    if (rc != 0)
        return cli_fail("list what was erased", &err, NULL);
    if (g->rows) {
        json_dumpf(g->rows, stdout, 0);
        putchar('\n');
    } else if (g->count == 0) {
        puts("Nothing was erased.");
    }
    return cli_flush(EX_OK);
}

static int take_marks(struct going *g, char **words, int n, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++) {
        uint32_t id = 0;

        rc = cli_u32("--allow", words[i], 1, INT32_MAX, &id, err);
        if (rc == 0 && !contains_id(g, id))
            g->ids[g->count++] = id;
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- command */

static const struct command_option options[] = {
    {COMMAND_VALUE(
         COMMAND_TEXT, "person", 'p', wanted, person, "NAME",
         "a person: delete their voices and their name in all recordings; transcripts stay"),
     .manual = "Delete a person instead: their entry in the register with its voices, and in all "
               "recordings the name and voice print of the speakers with that name. These speakers "
               "get their labels back. Transcripts, corrections, titles and tags stay."},
    {COMMAND_VALUE(COMMAND_TEXT, "by", 'b', wanted, by, "NAME", "your name, for the mark")},
    {COMMAND_SWITCH("list", 'l', wanted, list, "list the marks: number, size, time and author")},
    {COMMAND_SWITCH("allow", 'a', wanted, allow,
                    "delete marks, so that `enqueue` takes the recordings again"),
     .manual = "Delete marks, by their numbers, so that `enqueue` takes the recordings again."},
    {COMMAND_SWITCH("dry-run", 'n', wanted, dry_run, "only show what would be deleted")},
    {COMMAND_SWITCH("yes", 'y', wanted, yes,
                    "do not ask; RECORDING must then be a whole path, or a number")},
    {0},
};

const struct command command_erase = {
    .name = "erase",
    .usage = "[OPTION]... RECORDING...\n"
             "[OPTION]... --person=NAME\n"
             "--list\n"
             "--allow MARK...",
    .about = "Delete a recording from the catalog for good: its transcripts, vectors, voices, "
             "corrections, tags, title and paths. Only a mark stays: a hash of its bytes, so that "
             "`enqueue` never takes it again. Files on the disk are not touched, neither the "
             "recording nor exports. This also works during a run.",
    .options = options,
    .json = "what is deleted, as JSON",
    .quiet = "print only errors and warnings",
    .examples = "erase --dry-run /archive/1990/interview.wav\n"
                "erase --yes --by 'Ana Ruiz' interview.wav\n"
                "erase --person 'Carmen Soto'",
    .statuses = "0; 64 without --yes if nobody can be asked; 66 if there is no such recording, "
                "person or mark; others: see sysexits.h.",
};

int cmd_erase(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct going g = {.cli = cli};
    struct err err = {0};
    int status = command_parse(cli, &command_erase, &w, argc, argv), n = argc - optind;

    if (status >= 0)
        return status;
    if ((w.person != NULL) + w.list + w.allow > 1)
        return cli_usage(cli, "--person, --list and --allow do not go together");
    if ((w.person || w.list) && n > 0)
        return cli_usage(cli, "--%s takes no '%s'", w.list ? "list" : "person", argv[optind]);
    if (!w.person && !w.list && n == 0)
        return cli_usage(cli, w.allow
                                  ? "name the marks; `nightshift erase --list` lists their numbers"
                                  : "give a RECORDING or --person NAME");
    if (n > REQUEST_MAX_FOUND)
        return cli_usage(cli, "at most %d at once", REQUEST_MAX_FOUND);
    g.ids = calloc((size_t)n + 1, sizeof(*g.ids));
    g.rows = cli->json ? json_array() : NULL;
    if (!g.ids || (cli->json && !g.rows))
        status = cli_fail("erase", (err_no_memory(&err, NULL), &err), NULL);
    else if (w.allow && take_marks(&g, argv + optind, n, &err) != 0)
        status = cli_usage(cli, "%s", err.msg);
    else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = w.list ? list_marks(cli, &g) : erase_recordings(cli, &w, &g, argv + optind, n);
    json_decref(g.rows);
    free(g.ids);
    return status;
}
