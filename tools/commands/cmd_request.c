/* nightshift retry, cancel, pause, resume, priority: one request each, for all tasks or some. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/recording.h"
#include "tools/writer.h"

struct kind {
    enum request_type type;
    const char *purpose;
    const char *one, *many, *none; /* sentences about what happened */
    const struct command *command;
    const struct kind *failed; /* with --failed */
    bool whole;                /* without PATH and --job it is about the catalog, not tasks */
};

struct wanted {
    bool all, failed;
    uint32_t job;
    int64_t priority;
};

static void print_affected(const struct kind *k, bool through_run, uint64_t affected)
{
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    buf_printf(&b, "%s %s%s", text_count(affected, n), affected == 1 ? k->one : k->many,
               k->type != REQUEST_RETRY && k->type != REQUEST_RESUME ? ""
               : through_run ? " The current run takes this up."
                             : " Next: nightshift run");
    cli_print(buf_cstr(&b), 0);
    buf_free(&b);
}

static void print_result(const struct cli *cli, const struct kind *k, bool whole, bool through_run,
                         uint64_t affected)
{
    json_t *o;

    if (cli->json) {
        o = json_pack("{s:I, s:b}", "affected", (json_int_t)affected, "through_run",
                      (int)through_run);
        json_dumpf(o, stdout, 0);
        putchar('\n');
        json_decref(o);
    } else if (cli->quiet)
        return;
    else if (affected == 0 && !whole)
        puts(k->none);
    else if (whole)
        printf("%s%s\n",
               k->type == REQUEST_PAUSE ? "The catalog is paused: nothing new is started."
                                        : "The catalog is resumed.",
               k->type == REQUEST_PAUSE ? " Next: nightshift resume"
               : through_run            ? ""
                                        : " Next: nightshift run");
    else
        print_affected(k, through_run, affected);
}

static const char *unknown_hint(const struct wanted *w)
{
    return w->job != 0 ? "`nightshift status --jobs` lists the jobs."
                       : "Try another part of its path, or `nightshift search` for its words.";
}

static int take_place(void *arg, const struct read_recording *r)
{
    char **ret = arg;
    struct buf place = BUF_INIT;

    buf_put(&place, r->path_raw, r->path_raw_len);
    if (r->member_raw_len > 0) {
        buf_printf(&place, "//");
        buf_put(&place, r->member_raw, r->member_raw_len);
    }
    *ret = buf_cstr(&place) ? strdup(buf_cstr(&place)) : NULL;
    buf_free(&place);
    return *ret ? 0 : ERR_NOMEM;
}

/* The place of the recording that was named as `show` takes it: by its number, or a part of its
 * name. The caller frees *ret. ERR_MISSING, ERR_USAGE: as recording_find; ERR_USAGE also where the
 * place does not lead back to the recording, since another one has it now or lies there as well. */
static int find_named_place(struct store *st, const char *what, char **ret, struct err *err)
{
    int64_t id = 0, there = 0;
    int rc = recording_find(st, what, &id, err);

    if (rc == 0)
        rc = read_recording_by_id(st, id, take_place, ret, err);
    if (rc < 0 && err->code == 0)
        return err_set(err, rc, "%s", err_name(rc));
    if (rc == 0 && (recording_find(st, *ret, &there, err) != 0 || there != id))
        rc = err_set(err, ERR_USAGE, "%.80s: another recording has the place %.400s too", what,
                     *ret);
    return rc;
}

/* In one line, however long it is: it may be copied. */
static void print_place(const char *place)
{
    char *shown = utf8_display(place, strlen(place));

    puts(shown ? shown : "");
    free(shown);
}

/* Is it meant as a path? A path that the catalog does not have is a slip, and no part of a name. */
static bool is_meant_as_path(const char *typed)
{
    struct stat found;

    return typed[0] == '/' || strncmp(typed, "./", 2) == 0 || strncmp(typed, "../", 3) == 0 ||
           lstat(typed, &found) == 0;
}

/* What lies at or below a path of the catalog; else one recording, whose place is printed. typed:
 * the path as it was typed. */
static int request_one(struct cli *cli, struct writer *writer, struct request *rq, const char *path,
                       const char *typed, struct request_reply *reply, struct err *err)
{
    struct err of_path = {0};
    char *place = NULL;
    int rc;

    rq->select_path = path;
    rc = writer_request(writer, rq, reply, &of_path);
    if (rc != ERR_MISSING || is_meant_as_path(typed)) {
        *err = of_path;
        return rc;
    }
    rc = find_named_place(writer_store(writer), typed, &place, err);
    if (rc == ERR_MISSING)
        *err = of_path;
    if (rc == 0) {
        rq->select_path = place;
        rc = writer_request(writer, rq, reply, err);
    }
    if (rc == 0 && !cli->json && !cli->quiet)
        print_place(place);
    free(place);
    return rc;
}

/* typed: the paths as they were typed. */
static int request_all(struct cli *cli, const struct kind *k, const struct wanted *w, char **paths,
                       char **typed, uint32_t n)
{
    struct request rq = {.type = k->type, .select_job = w->job, .priority = w->priority};
    struct request_reply reply = {0};
    struct writer *writer = NULL;
    struct store *there = NULL;
    struct err err = {0};
    uint64_t affected = 0;
    uint32_t unknown = 0;
    bool through_run;
    int rc;

    /* A writer would make a catalog where there is none. */
    rc = store_open(cli->catalog, STORE_READ, &there, &err);
    store_close(there);
    if (rc != 0 && rc != ERR_VERSION)
        return cli_fail("open the catalog", &err, NULL);
    rc = writer_open(cli->catalog, k->purpose, 10000, cli->quiet, &writer, &err);
    if (rc != 0)
        return cli_fail("change the catalog", &err, NULL);
    if (n == 0)
        rc = writer_request(writer, &rq, &reply, &err);
    affected = reply.affected;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = request_one(cli, writer, &rq, paths[i], typed[i], &reply, &err);
        if (rc == ERR_MISSING || rc == ERR_USAGE) {
            if (!w->all) { /* as enqueue: said, and the others are done */
                cli_fail(k->purpose, &err, rc == ERR_MISSING ? unknown_hint(w) : NULL);
                unknown++;
            }
            err = (struct err){0};
            rc = 0;
        } else if (rc == 0)
            affected += reply.affected;
    }
    through_run = writer_through_run(writer);
    writer_close(writer);
    if (rc != 0)
        return cli_fail(rc == ERR_MISSING ? k->purpose : "change the catalog", &err,
                        rc == ERR_MISSING ? unknown_hint(w) : NULL);
    if (n == 0 || unknown < n)
        print_result(cli, k, k->whole && n == 0 && w->job == 0, through_run, affected);
    return cli_flush(unknown > 0 ? EX_NOINPUT : EX_OK);
}

static int run_request(struct cli *cli, const struct kind *k, int argc, char **argv)
{
    struct wanted w = {0};
    struct err err = {0};
    char *root[] = {(char *)"/"}, **typed, **paths;
    uint32_t n = 0;
    int status = command_parse(cli, k->command, &w, argc, argv);

    if (status >= 0)
        return status;
    if (k->type == REQUEST_PRIORITY &&
        (optind >= argc || !store_priority_of(argv[optind++], &w.priority)))
        return cli_usage(cli, "name a priority: high, normal or low");
    if (w.all && (w.job != 0 || optind < argc))
        return cli_usage(cli, "--all does not go with a PATH or --job");
    if (w.failed)
        k = k->failed;
    paths = calloc((size_t)(argc - optind) + 1, sizeof(*paths));
    if (!paths) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("change the catalog", &err, NULL);
    }
    /* Everything by its place, which is more than without any. */
    if (w.all && k->type == REQUEST_RETRY && cli_place(root[0], &paths[n], &err) == 0)
        n++;
    typed = n > 0 ? root : argv + optind;
    for (; err.code == 0 && optind < argc; optind++)
        if (cli_place(argv[optind], &paths[n], &err) == 0)
            n++;
    if (err.code != 0)
        status = cli_fail(k->purpose, &err, NULL);
    else if (cli_catalog(cli, false, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    else
        status = request_all(cli, k, &w, paths, typed, n);
    for (uint32_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
    return status;
}

#define ALL(text)                                     \
    {                                                 \
        COMMAND_SWITCH("all", 'a', wanted, all, text) \
    }
#define JOB                                                                                  \
    {                                                                                        \
        COMMAND_VALUE(COMMAND_NUMBER, "job", 'j', wanted, job, "N",                          \
                      "only recordings of this job (see `nightshift status`)"),              \
            .manual = "Only recordings that this job enqueued.", .low = 1, .high = INT32_MAX \
    }
#define SHARED                                                                                   \
    .json = "how many recordings, as JSON", .quiet = "print only errors and warnings",           \
    .notes = "PATH may also be the number of a recording, or a part of its name that no other "  \
             "has, as for `nightshift show`.",                                                   \
    .statuses = "0; 66 if the catalog has no recording at PATH, several fit it, or there is no " \
                "such job; others: see sysexits.h."

static const struct command_option retry_options[] = {
    ALL("all of them, also those of `cancel --failed`"), JOB, {0}};

const struct command command_retry = {
    .name = "retry",
    .usage = "[OPTION]... [PATH]...",
    .about = "Try failed and cancelled recordings again: all of them, or those at or below PATH. "
             "What was transcribed already is kept. Recordings of `nightshift cancel --failed` "
             "need PATH, --job or --all.",
    .options = retry_options,
    .examples = "retry\n"
                "retry /archive/box-7.zip//tapes/3.wav\n"
                "retry /archive/1990 && nightshift run",
    SHARED};

int cmd_retry(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {
        .type = REQUEST_RETRY,
        .command = &command_retry,
        .purpose = "retry",
        .one = "recording will be tried again.",
        .many = "recordings will be tried again.",
        .none =
            "No recording has failed or was cancelled there (--all also takes dismissed ones)."};

    return run_request(cli, &kind, argc, argv);
}

#define AGAIN "; `nightshift retry PATH` or `retry --all` tries "

static const struct command_option cancel_options[] = {
    {COMMAND_SWITCH("failed", 0, wanted, failed,
                    "instead of waiting recordings, stop listing failed ones. Only `nightshift "
                    "retry` with PATH, --job or --all tries them again"),
     .manual = "With `cancel`: failed recordings instead of waiting ones. They no longer count as "
               "failed, and `status` and `report` no longer list them. Only `retry` with PATH, "
               "--job or --all tries them again."},
    {COMMAND_SWITCH("all", 'a', wanted, all,
                    "all waiting recordings (the same as without PATH and --job)"),
     .manual = "The same as without PATH; with `retry`, also those of `cancel --failed`."},
    JOB,
    {0}};

const struct command command_cancel = {
    .name = "cancel",
    .usage = "[OPTION]... [PATH]...",
    .about = "Without PATH or --job: cancel ALL waiting recordings. With PATH: cancel those at or "
             "below PATH.\nA cancelled recording is not transcribed until `nightshift retry`. "
             "Finished results stay; `nightshift forget` deletes results.",
    .options = cancel_options,
    .examples = "cancel /archive/duplicates\n"
                "cancel --job 3\n"
                "cancel --failed /archive/broken",
    SHARED};

int cmd_cancel(struct cli *cli, int argc, char **argv)
{
    static const struct kind dismiss = {.type = REQUEST_DISMISS,
                                        .purpose = "cancel",
                                        .one = "recording dismissed" AGAIN "it again.",
                                        .many = "recordings dismissed" AGAIN "them again.",
                                        .none = "No recording has failed there."};
    static const struct kind kind = {
        .type = REQUEST_CANCEL,
        .command = &command_cancel,
        .failed = &dismiss,
        .purpose = "cancel",
        .one = "recording cancelled; `nightshift retry` takes it up again.",
        .many = "recordings cancelled; `nightshift retry` takes them up again.",
        .none = "No recording is waiting there. To dismiss failed ones: --failed"};

    return run_request(cli, &kind, argc, argv);
}

static const struct command_option everything[] = {
    ALL("everything (the same as without PATH and --job)"), JOB, {0}};

const struct command command_pause = {
    .name = "pause",
    .usage = "[OPTION]... [PATH]...",
    .about = "Start no new work, or none at or below PATH, until `nightshift resume`. A current "
             "run keeps running and finishes what it has started.",
    .options = everything,
    .examples = "pause\n"
                "pause /archive/films",
    SHARED};

int cmd_pause(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {.type = REQUEST_PAUSE,
                                     .command = &command_pause,
                                     .purpose = "pause",
                                     .one = "recording paused. Next: nightshift resume",
                                     .many = "recordings paused. Next: nightshift resume",
                                     .none = "No recording is waiting there.",
                                     .whole = true};

    return run_request(cli, &kind, argc, argv);
}

static const struct command_option priority_options[] = {
    ALL("all waiting recordings (the same as without PATH and --job)"), JOB, {0}};

const struct command command_priority = {
    .name = "priority",
    .usage = "[OPTION]... high|normal|low [PATH]...",
    .about = "Do waiting recordings before all others, or after them: all of them, or those at or "
             "below PATH. Recordings of the same priority are done in the order in which they were "
             "enqueued. A current run first finishes what it has started.",
    .options = priority_options,
    .examples = "priority high /archive/for-tomorrow\n"
                "priority low --job 3",
    SHARED};

int cmd_priority(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {.type = REQUEST_PRIORITY,
                                     .command = &command_priority,
                                     .purpose = "priority",
                                     .one = "recording has that priority now.",
                                     .many = "recordings have that priority now.",
                                     .none = "No waiting recording there changed its priority."};

    return run_request(cli, &kind, argc, argv);
}

const struct command command_resume = {
    .name = "resume",
    .usage = "[OPTION]... [PATH]...",
    .about = "Continue what `nightshift pause` stopped: everything, or what is at or below PATH.",
    .options = everything,
    .examples = "resume\n"
                "resume /archive/films",
    SHARED};

int cmd_resume(struct cli *cli, int argc, char **argv)
{
    static const struct kind kind = {.type = REQUEST_RESUME,
                                     .command = &command_resume,
                                     .purpose = "resume",
                                     .one = "recording is resumed.",
                                     .many = "recordings are resumed.",
                                     .none = "No recording is paused there.",
                                     .whole = true};

    return run_request(cli, &kind, argc, argv);
}
