/* nightshift forget and nightshift pin: which of several results of a recording stay, and which one
 * is current. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "store/read/read.h"
#include "store/requests/forget.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/stages/stage_params_words.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/writer.h"

struct wanted {
    bool superseded, dry_run, yes, off;
    uint32_t stage;
};

/* ------------------------------------------------------------------------------------ operands */

struct paths {      /* owned: paths_free */
    char **list;    /* absolute; one NULL where none was given: all */
    uint32_t count; /* at least 1 */
};

static void paths_free(struct paths *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        free(p->list[i]);
    free(p->list);
}

static int paths_make(char **names, int n, struct paths *ret, struct err *err)
{
    struct paths p = {calloc((size_t)n + 1, sizeof(*p.list)), n > 0 ? (uint32_t)n : 1};
    int rc = p.list ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    for (int i = 0; i < n && rc == 0; i++)
        rc = cli_place(names[i], &p.list[i], err);
    if (rc != 0 && p.list)
        paths_free(&p);
    if (rc == 0)
        *ret = p;
    return rc;
}

/* The same request for each path. A path that is not known is said, and the others are done. */
static int request_all(struct cli *cli, struct request *rq, const struct paths *p, uint64_t *ret)
{
    struct writer *writer = NULL;
    struct err err = {0};
    uint32_t unknown = 0;
    int rc = writer_open(cli->catalog, cli->command, 10000, cli->quiet, &writer, &err);

    *ret = 0;
    for (uint32_t i = 0; rc == 0 && i < p->count; i++) {
        struct request_reply reply = {0};

        rq->select_path = p->list[i];
        rc = writer_request(writer, rq, &reply, &err);
        *ret += reply.affected;
        if (rc == ERR_MISSING && p->list[i]) {
            cli_fail(cli->command, &err,
                     "Give its whole path, as `nightshift show PART-OF-ITS-NAME` prints it.");
            err = (struct err){0};
            rc = 0;
            unknown++;
        }
    }
    writer_close(writer);
    if (rc != 0)
        return cli_fail(cli->command, &err,
                        rc == ERR_MISSING ? "`nightshift status` lists the numbers of stages."
                                          : NULL);
    return unknown > 0 ? EX_NOINPUT : EX_OK;
}

/* ------------------------------------------------------------------------------------- preview */

struct preview {
    const struct cli *cli;
    json_t *stages;                         /* of rows; NULL: for people */
    uint64_t results, undone, names, bytes; /* undone: recordings without results */
};

static void print_row(const struct forget_row *row)
{
    struct buf b = BUF_INIT;
    char n[TEXT_LEN], *model = text_fit(row->model, 40);

    buf_printf(&b, "%s with %s", row->stage, model ? model : "");
    stage_params_words(row->stage, row->params_json, &b);
    buf_printf(&b, ", stage %lld: %s %s", (long long)row->stage_id, text_count(row->recordings, n),
               text_plural(row->recordings, "recording", "recordings"));
    if (row->undone > 0)
        buf_printf(&b, " with results, %s without", text_count(row->undone, n));
    if (row->segments > 0)
        buf_printf(&b, ", %s %s", text_count(row->segments, n),
                   text_plural(row->segments, "segment", "segments"));
    if (row->vectors > 0)
        buf_printf(&b, ", %s %s", text_count(row->vectors, n),
                   text_plural(row->vectors, "vector", "vectors"));
    buf_printf(&b, ", about %s", text_bytes(row->bytes, n));
    cli_print(buf_cstr(&b), 2);
    buf_free(&b);
    free(model);
}

static int on_row(void *arg, const struct forget_row *row)
{
    struct preview *p = arg;

    p->results += row->recordings;
    p->undone += row->undone;
    p->names += row->names;
    p->bytes += row->bytes;
    if (p->stages)
        json_array_append_new(
            p->stages, json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "stage",
                                 (json_int_t)row->stage_id, "name", row->stage, "model", row->model,
                                 "recordings", (json_int_t)row->recordings, "not_done",
                                 (json_int_t)row->undone, "segments", (json_int_t)row->segments,
                                 "vectors", (json_int_t)row->vectors, "names",
                                 (json_int_t)row->names, "bytes", (json_int_t)row->bytes));
    else if (!p->cli->quiet)
        print_row(row);
    return 0;
}

static int preview_all(const struct cli *cli, const struct wanted *w, const struct paths *paths,
                       struct preview *p, struct err *err)
{
    struct store *st = NULL;
    int rc = store_open(cli->catalog, STORE_READ, &st, err);

    for (uint32_t i = 0; i < paths->count && rc == 0; i++)
        rc = forget_preview(st, w->stage, paths->list[i], on_row, p, err);
    store_close(st);
    return rc;
}

static void print_names(const struct preview *p)
{
    char n[TEXT_LEN];

    if (p->names > 0)
        printf("%s %s that people gave to speakers %s with them; they are kept where the\n"
               "diarization that is current then knows the same speakers without a name.\n",
               text_count(p->names, n), text_plural(p->names, "name", "names"),
               text_plural(p->names, "goes", "go"));
}

/* -------------------------------------------------------------------------------------- forget */

static void print_removed(const struct preview *p, uint64_t affected)
{
    const uint64_t results = affected > p->undone ? affected - p->undone : 0;
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    buf_printf(&b, "%s %s removed", text_count(results, n),
               text_plural(results, "result", "results"));
    if (p->undone > 0)
        buf_printf(&b, ", and unfinished work of %s more", text_count(affected - results, n));
    buf_printf(&b, ". The catalog's file keeps its size, and its space is used again; `sqlite3 "
                   "FILE VACUUM` makes it smaller, when there is no run.");
    cli_print(buf_cstr(&b), 0);
    buf_free(&b);
}

static int print_forgotten(const struct cli *cli, const struct wanted *w, const struct preview *p,
                           bool removed, uint64_t affected, int status)
{
    if (p->stages) {
        json_t *o =
            json_pack("{s:O, s:I, s:b, s:I}", "stages", p->stages, "bytes", (json_int_t)p->bytes,
                      "removed", (int)removed, "affected", (json_int_t)affected);

        json_dumpf(o, stdout, 0);
        putchar('\n');
        json_decref(o);
    } else if (!cli->quiet && removed)
        print_removed(p, affected);
    else if (!cli->quiet && status == EX_OK && p->results + p->undone == 0)
        puts(w->stage ? "There are no results of this stage." : "There are no outdated results.");
    return cli_flush(status);
}

static int forget_results(struct cli *cli, const struct wanted *w, const struct paths *paths)
{
    struct request rq = {.type = REQUEST_FORGET, .stage_id = w->stage};
    struct preview p = {.cli = cli, .stages = cli->json ? json_array() : NULL};
    struct err err = {0};
    uint64_t affected = 0;
    int status = EX_OK;
    enum cli_consent go;

    if (preview_all(cli, w, paths, &p, &err) != 0) {
        json_decref(p.stages);
        return cli_fail("read the catalog", &err, NULL);
    }
    if (!cli->json && !cli->quiet)
        print_names(&p);
    /* If nothing was found, the request reports what is wrong with a path or a number. */
    go = cli_consent(cli, w->dry_run, w->yes || p.results + p.undone == 0, "Delete this for good?");
    if (go == CLI_UNASKED)
        status = cli_unasked(cli, "it removes");
    if (go == CLI_YES)
        status = request_all(cli, &rq, paths, &affected);
    if (status == EX_OK || status == EX_NOINPUT)
        status = print_forgotten(cli, w, &p, go == CLI_YES && p.results + p.undone > 0, affected,
                                 status);
    json_decref(p.stages);
    return status;
}

static const struct command_option forget_options[] = {
    {COMMAND_SWITCH("superseded", 's', wanted, superseded,
                    "outdated results: the recording was transcribed with other options since")},
    {COMMAND_VALUE(COMMAND_NUMBER, "stage", 'S', wanted, stage, "N",
                   "results of stage N (see `nightshift status`), and everything made of them. The "
                   "stage must have no waiting work"),
     .manual = "Results of this stage, and everything made of them, such as the vectors of a "
               "transcription. Refused while the stage has waiting work there.",
     .low = 1, .high = INT32_MAX},
    {COMMAND_SWITCH("dry-run", 'n', wanted, dry_run, "only show what would be deleted")},
    {COMMAND_SWITCH("yes", 'y', wanted, yes, "do not ask"),
     .manual = "Do not ask. Needed where nobody can be asked."},
    {0},
};

const struct command command_forget = {
    .name = "forget",
    .usage = "--superseded|--stage=N [OPTION]... [PATH]...",
    .about =
        "Delete finished results of all recordings, or of those at or below PATH. It shows what "
        "they are and asks. If a recording has other results of the same kind, these become "
        "current. Recordings and waiting work stay; `nightshift cancel` cancels waiting work.",
    .options = forget_options,
    .json = "the results, as JSON",
    .quiet = "print only errors and warnings",
    .examples = "forget --superseded --dry-run\n"
                "forget --stage 3 --yes /archive/1990",
    .statuses =
        "0; 64 without --yes if nobody can be asked; 65 if the stage has waiting work; 66 if there "
        "is no such stage, or the catalog has nothing at PATH; others: see sysexits.h.",
};

int cmd_forget(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct paths paths;
    struct err err = {0};
    int status = command_parse(cli, &command_forget, &w, argc, argv);

    if (status >= 0)
        return status;
    if (w.superseded == (w.stage != 0))
        return cli_usage(cli, w.stage ? "--superseded and --stage do not go together"
                                      : "give --superseded or --stage N");
    if (paths_make(argv + optind, argc - optind, &paths, &err) != 0)
        return cli_fail("forget", &err, NULL);
    status = cli_catalog(cli, false, &err) != 0 ? cli_fail("find the catalog", &err, NULL)
                                                : forget_results(cli, &w, &paths);
    paths_free(&paths);
    return status;
}

/* ----------------------------------------------------------------------------------------- pin */

struct pending {
    int64_t stage_id;
    uint64_t count;
};

static int add_pending(void *arg, const struct read_progress *row)
{
    struct pending *p = arg;

    p->count += row->stage_id == p->stage_id ? row->pending + row->waiting : 0;
    return 0;
}

static uint64_t count_pending(struct store *st, int64_t stage_id)
{
    struct pending p = {.stage_id = stage_id};
    struct err none = {0};

    return read_progress(st, add_pending, &p, &none) == 0 ? p.count : 0;
}

static int pin_results(struct cli *cli, const struct wanted *w, const struct paths *paths)
{
    struct request rq = {.type = REQUEST_PIN, .stage_id = w->stage};
    struct store *there = NULL;
    struct err err = {0};
    uint64_t affected, undone = 0;
    char n[TEXT_LEN];
    int status, rc;

    /* A writer would make a catalog where there is none. */
    rc = store_open(cli->catalog, STORE_READ, &there, &err);
    if (rc != 0 && rc != ERR_VERSION)
        return cli_fail("open the catalog", &err, NULL);
    if (there && !w->off)
        undone = count_pending(there, w->stage);
    store_close(there);
    status = request_all(cli, &rq, paths, &affected);
    if (status != EX_OK && status != EX_NOINPUT)
        return status;
    if (cli->json)
        printf("{\"affected\": %llu}\n", (unsigned long long)affected);
    else if (cli->quiet)
        return cli_flush(status);
    else if (affected == 0 && status != EX_OK)
        return cli_flush(status); /* what is wrong was said */
    else if (affected == 0)
        puts(w->off ? "No recording is pinned there."
                    : "No recording there has results of this stage that are not pinned yet.");
    else
        printf("%s %s %s.%s\n", text_count(affected, n), text_plural(affected, "result", "results"),
               w->off ? "not pinned any more" : "pinned",
               undone > 0 ? " Those not done yet become current when they are." : "");
    return cli_flush(status);
}

static const struct command_option pin_options[] = {
    {COMMAND_SWITCH("off", 'o', wanted, off,
                    "unpin: the results asked for last become current again")},
    {0},
};

const struct command command_pin = {
    .name = "pin",
    .usage = "[OPTION]... STAGE [PATH]...\n"
             "--off [PATH]...",
    .about = "Make the results of stage STAGE the current ones, in all recordings that have them "
             "or in those at or below PATH. They stay current, whatever is enqueued later. "
             "`nightshift status` and `nightshift show` list the numbers of stages.",
    .options = pin_options,
    .json = "how many recordings, as JSON",
    .quiet = "print only errors and warnings",
    .examples = "pin 2 /archive/1990\n"
                "pin 2 /archive/box-7.zip//tapes/3.wav\n"
                "pin --off",
    .statuses = "0; 66 if there is no such stage, or the catalog has nothing at PATH; others: see "
                "sysexits.h.",
};

int cmd_pin(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct paths paths;
    struct err err = {0};
    int status = command_parse(cli, &command_pin, &w, argc, argv);

    if (status >= 0)
        return status;
    if (!w.off && optind == argc)
        return cli_usage(cli, "name a stage; `nightshift status` lists their numbers");
    if (!w.off && cli_u32("STAGE", argv[optind++], 1, INT32_MAX, &w.stage, &err) != 0)
        return cli_usage(cli, "%s", err.msg);
    if (paths_make(argv + optind, argc - optind, &paths, &err) != 0)
        return cli_fail("pin", &err, NULL);
    status = cli_catalog(cli, false, &err) != 0 ? cli_fail("find the catalog", &err, NULL)
                                                : pin_results(cli, &w, &paths);
    paths_free(&paths);
    return status;
}
