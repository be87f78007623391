/* nightshift run: works until nothing is left. The work itself is scheduler/'s. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "gpu/precision.h"
#include "scheduler/scheduler.h"
#include "store/parting/parting.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/commands/cmd_enqueue.h"
#include "tools/stages_aside.h"
#include "tools/cli/account.h"
#include "tools/cli/cli.h"
#include "tools/on_finish.h"
#include "tools/parts/part_run.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "workers/media/sandbox.h"
#include "workers/stages/stage.h"
#include "workers/stages/stage_kind.h"
#include "workers/pass/lease.h"

static const char help[] =
    "Usage: nightshift run [OPTION]... [PATH]...\n"
    "Do what was enqueued, PATH first: all options of `nightshift enqueue` may be\n"
    "given for it, too. Goes on where an earlier run ended, however that\n"
    "was. Ctrl-C ends it at the next checkpoint, a second Ctrl-C at once; nothing is\n"
    "lost.\n"
    "\n"
    "  -w, --watch            stay, wait for more to be enqueued, and watch PATH (see\n"
    "                         enqueue --watch)\n"
    "      --until=07:00      end at this time of day, at a checkpoint\n"
    "      --between=22:00-06:00   work at these hours only, night after night\n"
    "      --idle             leave a GPU to others who use it, at a checkpoint, and\n"
    "                         take it again when it was free for five minutes\n"
    "  -d, --devices=LIST     auto (default: every GPU, else the processor), or names\n"
    "                         with commas: cuda:0, cuda:GPU-<uuid>, cpu, cpu,cpu\n"
    "      --allow-cpu        go on with the processor when GPUs are here, but none\n"
    "                         of them can be used; default: only where there are none\n"
    "      --no-allow-cpu     never go on without a GPU\n"
    "      --device-memory=LIST   use so much of a device's memory at most: 80% or\n"
    "                         20G of each, or cuda:0=20G,cuda:1=50%\n"
    "      --precision=P      auto (default), fp32, tf32, fp16, bf16, int8 or fp8,\n"
    "                         where the device has it\n"
    "      --cache-precision=P   auto (default), 16 or 8: bits of the keys and values\n"
    "                         that the decoder looks at of a window; not remembered\n"
    "      --allow-unsandboxed   decode also where neither Landlock nor seccomp would\n"
    "                         hold the decoders\n"
    "      --stage-by-stage   decode the archive again for each stage; default: those\n"
    "                         that fit into memory together hear it at once\n"
    "      --slots=N          windows of 30 s in work at once, for each device;\n"
    "                         default: measured once, and remembered\n"
    "      --windows=N        so many at once in the encoder; default: likewise\n"
    "      --deterministic    equal results, however windows share a batch: slower on\n"
    "                         GPUs\n"
    "      --decoders=N       files decoded at once, for each device\n"
    "      --threads=N        threads that compute, for each device\n"
    "      --shard=LENGTH     a checkpoint about every so often (default: 5m);\n"
    "                         another puts windows elsewhere, some words change\n"
    "      --attempts=N       tries before a recording is set aside (default: 3)\n"
    "      --worker-silence=LENGTH   restart a worker silent so long (default: 30s)\n"
    "      --log-format=F     of standard error: text, json (an object a line), or\n"
    "                         journal; default: journal where systemd reads it,\n"
    "                         else text\n"
    "      --metrics=FILE     figures for Prometheus, replaced every ten seconds\n"
    "      --on-finish=CMD    have /bin/sh run this in the end, with the report on\n"
    "                         its standard input; see NIGHTSHIFT_WHY in the manual\n"
    "      --part=FILE        do a part of a catalog (`nightshift split`): on a copy\n"
    "                         in $SLURM_TMPDIR, $TMPDIR or /tmp, which is written\n"
    "                         back; SIGUSR1 ends it at a checkpoint, too\n"
    "      --write-back=LENGTH   so often, beside at the end (default: 5m)\n"
    "      --tries=N          with --part: when it fails, ask for another try by\n"
    "                         exit status 75, until N failed; then begin none\n"
    "      --strict           exit status 65 when a recording failed\n"
    "      --progress, --no-progress   a redrawn line; default: on a terminal\n"
    "      --json             what happens, as one JSON object a line\n"
    "  -c, --catalog=FILE     the catalog\n"
    "  -q, --quiet            say only what went wrong\n"
    "  -v, --verbose          say more\n"
    "  -h, --help             this text\n"
    "\n"
    "Examples:\n"
    "  nightshift run\n"
    "  nightshift run --devices cuda:0,cuda:2\n"
    "  nightshift run --model openai/whisper-small interviews/\n"
    "  nightshift run --watch /archive/incoming\n"
    "  nightshift run --watch --between 22:00-06:00\n"
    "  nightshift run --watch --idle\n"
    "  nightshift run --watch --threads 2 2>> nightshift.log\n"
    "\n"
    "The CUDA backend has run on an H100 and an H200 alone.\n"
    "\n"
    "Exit status: 0 when it ended in order, also at --until, or when recordings\n"
    "failed (see --strict); 69 when no device can be used; 75 when it was\n"
    "interrupted with work left, a part also at --until: run it again, or have it\n"
    "requeued; others as sysexits.h.\n";

#define WATCHER_KILLED_MS 5000

struct wanted {
    struct scheduler_options o;
    const char *on_finish; /* NULL: nothing */
    bool strict;
    const char *part;                              /* NULL: a catalog */
    uint32_t write_back_ms;                        /* of a part; 0: the usual five minutes */
    uint32_t tries;                                /* of a part; 0: a failure is one at once */
    int progress;                                  /* -1: as the terminal has it */
    struct enqueue_command enqueue;                /* of the paths */
    struct option passed[ENQUEUE_COMMAND_OPTIONS]; /* that it has */
    struct buf said;   /* those that were given, as " --NAME=VALUE" each */
    const char *first; /* the first of them; NULL: none was */
    int argc;          /* as getopt walks through it: */
    char **argv;
    struct watcher { /* pid 0: none */
        pid_t pid;
        int file; /* it ends with this */
    } watcher;
};

enum {
    OPT_PRECISION = 256,
    OPT_CACHE_PRECISION,
    OPT_UNTIL,
    OPT_BETWEEN,
    OPT_IDLE,
    OPT_DEVICE_MEMORY,
    OPT_ALLOW_UNSANDBOXED,
    OPT_ALLOW_CPU,
    OPT_NO_ALLOW_CPU,
    OPT_STAGE_BY_STAGE,
    OPT_SLOTS,
    OPT_WINDOWS,
    OPT_DETERMINISTIC,
    OPT_DECODERS,
    OPT_THREADS,
    OPT_SHARD,
    OPT_ATTEMPTS,
    OPT_SILENCE,
    OPT_LOG_FORMAT,
    OPT_METRICS,
    OPT_ON_FINISH,
    OPT_PART,
    OPT_WRITE_BACK,
    OPT_TRIES,
    OPT_STRICT,
    OPT_PROGRESS,
    OPT_NO_PROGRESS,
    OPT_PASSED = 100000, /* and on: what `enqueue` has for it */
};

static const struct option longs[] = {
    {"watch", no_argument, NULL, 'w'},
    {"until", required_argument, NULL, OPT_UNTIL},
    {"between", required_argument, NULL, OPT_BETWEEN},
    {"idle", no_argument, NULL, OPT_IDLE},
    {"devices", required_argument, NULL, 'd'},
    {"device-memory", required_argument, NULL, OPT_DEVICE_MEMORY},
    {"allow-cpu", no_argument, NULL, OPT_ALLOW_CPU},
    {"no-allow-cpu", no_argument, NULL, OPT_NO_ALLOW_CPU},
    {"allow-unsandboxed", no_argument, NULL, OPT_ALLOW_UNSANDBOXED},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"cache-precision", required_argument, NULL, OPT_CACHE_PRECISION},
    {"stage-by-stage", no_argument, NULL, OPT_STAGE_BY_STAGE},
    {"slots", required_argument, NULL, OPT_SLOTS},
    {"windows", required_argument, NULL, OPT_WINDOWS},
    {"deterministic", no_argument, NULL, OPT_DETERMINISTIC},
    {"decoders", required_argument, NULL, OPT_DECODERS},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"shard", required_argument, NULL, OPT_SHARD},
    {"attempts", required_argument, NULL, OPT_ATTEMPTS},
    {"worker-silence", required_argument, NULL, OPT_SILENCE},
    {"log-format", required_argument, NULL, OPT_LOG_FORMAT},
    {"metrics", required_argument, NULL, OPT_METRICS},
    {"on-finish", required_argument, NULL, OPT_ON_FINISH},
    {"part", required_argument, NULL, OPT_PART},
    {"write-back", required_argument, NULL, OPT_WRITE_BACK},
    {"tries", required_argument, NULL, OPT_TRIES},
    {"strict", no_argument, NULL, OPT_STRICT},
    {"progress", no_argument, NULL, OPT_PROGRESS},
    {"no-progress", no_argument, NULL, OPT_NO_PROGRESS},
    {0},
};

static int take_length(const char *option, const char *value, int64_t min_ms, int64_t max_ms,
                       uint32_t *ret, struct err *err)
{
    int64_t ms;
    int rc = cli_length(option, value, min_ms, max_ms, &ms, err);

    if (rc == 0)
        *ret = (uint32_t)ms;
    return rc;
}

/* The jobs of its paths show it. */
static void note_passed(struct wanted *w, const char *name, const char *value)
{
    buf_printf(&w->said, " --%s%s%s", name, value ? "=" : "", value ? value : "");
}

static int pass_on(struct wanted *w, int option, const char *value, struct err *err)
{
    const struct option *o = w->passed;

    while (o->val != option)
        o++;
    w->first = w->first ? w->first : o->name;
    note_passed(w, o->name, value);
    return enqueue_command_take(&w->enqueue, option, value,
                                optind < w->argc ? w->argv[optind] : NULL, err);
}

static int take_precision(const char *value, const char **ret, struct err *err)
{
    enum precision precision;

    *ret = value;
    return precision_parse(value, &precision, err) == 0 ? 0 : err_prefix(err, "--precision");
}

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;
    struct scheduler_options *o = &w->o;

    switch (option) {
    case 'w':
        o->watch = true;
        return 0;
    case 'd':
        o->devices = value;
        return 0;
    case OPT_UNTIL:
        return hours_parse_until(value, &o->hours)
                   ? 0
                   : err_set(err, ERR_USAGE, "--until: '%.40s' is no time of day such as 07:00",
                             value);
    case OPT_BETWEEN:
        return hours_parse_between(value, &o->hours)
                   ? 0
                   : err_set(err, ERR_USAGE,
                             "--between: '%.40s' is no two times of day such as 22:00-06:00",
                             value);
    case OPT_DEVICE_MEMORY:
        o->device_memory = value;
        return 0;
    case OPT_IDLE:
        o->idle = true;
        return 0;
    case OPT_ALLOW_CPU:
        o->allow_cpu = ALLOW_CPU_ALWAYS;
        return 0;
    case OPT_NO_ALLOW_CPU:
        o->allow_cpu = ALLOW_CPU_NEVER;
        return 0;
    case OPT_ALLOW_UNSANDBOXED:
        w->enqueue.unsandboxed = true;
        note_passed(w, "allow-unsandboxed", NULL);
        return 0;
    case 'm':
        return pass_on(w, 'm', value, err);
    case OPT_PRECISION:
        return take_precision(value, &o->precision, err);
    case OPT_CACHE_PRECISION:
        return cache_precision_parse(value, &o->cache, err) == 0
                   ? 0
                   : err_prefix(err, "--cache-precision");
    case OPT_STAGE_BY_STAGE:
        o->stage_by_stage = true;
        return 0;
    case OPT_SLOTS:
        return cli_u32("--slots", value, 1, 4096, &o->slots, err);
    case OPT_WINDOWS:
        return cli_u32("--windows", value, 1, 4096, &o->windows, err);
    case OPT_DETERMINISTIC:
        o->deterministic = true;
        return 0;
    case OPT_DECODERS:
        return cli_u32("--decoders", value, 1, 256, &o->decoders, err);
    case OPT_THREADS:
        return cli_u32("--threads", value, 1, 1024, &o->threads, err);
    case OPT_SHARD:
        /* Kept by the catalog: every stage must be able to work with it later (shard_length_asked).
         */
        return take_length("--shard", value, 30000, 7200000, &o->shard_ms, err);
    case OPT_ATTEMPTS:
        return cli_u32("--attempts", value, 1, 100, &o->attempts, err);
    case OPT_SILENCE:
        return take_length("--worker-silence", value, 1000, 86400000, &o->worker_silence_ms, err);
    case OPT_LOG_FORMAT:
        if (!log_set_format(value))
            return err_set(err, ERR_USAGE, "--log-format: '%.40s' is not text, json or journal",
                           value);
        log_set_sink(NULL, NULL); /* a terminal's gets it, too, as it is */
        return 0;
    case OPT_METRICS:
        o->metrics = value;
        return 0;
    case OPT_ON_FINISH:
        w->on_finish = value;
        return 0;
    case OPT_PART:
        w->part = value;
        return 0;
    case OPT_WRITE_BACK:
        return take_length("--write-back", value, 1000, 86400000, &w->write_back_ms, err);
    case OPT_TRIES:
        return cli_u32("--tries", value, 1, 1000, &w->tries, err);
    case OPT_STRICT:
        w->strict = true;
        return 0;
    case OPT_PROGRESS:
    case OPT_NO_PROGRESS:
        w->progress = option == OPT_PROGRESS;
        return 0;
    default:
        return pass_on(w, option - OPT_PASSED, value, err);
    }
}

/* Of the whole catalog, after a run. */
struct after {
    uint64_t textless[TEXTLESS_KINDS]; /* of what this run did, as is the account */
    struct result_account account;
    uint64_t left_out; /* recordings with tracks or channels that were not heard */
    struct store_totals totals;
    bool is_part;
    struct parting_about part;
};

/* All 0 when that cannot be read. begun: the run, as clock_iso8601 has it. */
static struct after look_after(const char *catalog, const char *begun)
{
    struct store *st = NULL;
    struct err err = {0}, none = {0};
    struct after a = {0};

    if (store_open(catalog, STORE_READ, &st, &err) == 0 &&
        store_textless(st, begun, a.textless, &err) == 0 &&
        store_account(st, begun, &a.account, &err) == 0 &&
        store_left_out(st, &a.left_out, &err) == 0)
        (void)store_totals(st, &a.totals, &err);
    a.is_part = st && parting_about(st, &a.part, &none) == 0;
    store_close(st);
    return a;
}

/* Where no transcription is left to do. */
static void print_waiting(uint64_t waiting)
{
    char n[TEXT_LEN], line[160];

    snprintf(line, sizeof(line),
             "%s %s %s for the transcription, which failed, was cancelled, or is paused: "
             "nightshift status",
             text_count(waiting, n), text_plural(waiting, "recording", "recordings"),
             text_plural(waiting, "waits", "wait"));
    cli_print(line, 0);
}

/* Of what is wanted, and not to be done now. */
static void print_idle(const struct after *all)
{
    const struct store_archive *of = &all->totals.archive;
    char n[TEXT_LEN];

    if (of->paused > 0)
        printf("Nothing was done: %s %s paused. Next: nightshift resume\n",
               text_count(of->paused, n),
               text_plural(of->paused, "recording is", "recordings are"));
    else if (all->totals.tasks_waiting > 0)
        puts("Nothing can be done now.");
    else
        puts("Nothing was waiting. Next: nightshift enqueue PATH");
    if (all->totals.tasks_waiting > 0)
        print_waiting(all->totals.tasks_waiting);
}

static void print_damaged(uint64_t damaged)
{
    char n[TEXT_LEN];

    if (damaged > 0)
        printf("%s of the recordings %s damaged: nightshift status --failures\n",
               text_count(damaged, n), text_plural(damaged, "is", "are"));
}

/* Why there is work left after a run. */
static void print_left(const struct scheduler_result *r, const struct after *all)
{
    if (r->timed_out && r->recordings_left > 0)
        puts("Its time was over; `nightshift run` goes on from here.");
    else if (r->interrupted && r->recordings_left > 0)
        puts("Interrupted; `nightshift run` goes on from here.");
    else if (r->tasks_left > 0 && all->totals.paused)
        puts("The catalog is paused: `nightshift resume`, then `nightshift run`.");
    else if (r->tasks_left > 0)
        puts(r->put_aside
                 ? "What is left is of a stage that was put aside: nightshift status"
                 : "What is left is paused, gone, or waits for a retry: nightshift status");
}

static void amount(uint64_t n, const char *what)
{
    char count[TEXT_LEN];

    if (n > 0)
        printf(", %s %s", text_count(n, count), what);
}

static void print_part(const struct parting_about *p)
{
    char n[TEXT_LEN], of[TEXT_LEN], failed[TEXT_LEN], left[TEXT_LEN];
    const uint64_t all = p->done + p->failed + p->open;

    printf("%s of this part's %s %s done, %s failed, %s left.\n", text_count(p->done, n),
           text_count(all, of), text_plural(all, "task", "tasks"), text_count(p->failed, failed),
           text_count(p->open, left));
}

static void print_textless(const uint64_t counts[TEXTLESS_KINDS])
{
    struct buf b = BUF_INIT;

    for (int i = 0; i < TEXTLESS_KINDS; i++) {
        if (textless_say(counts, (enum store_textless)i, &b) && buf_cstr(&b))
            printf("Of what this run did: %s\n", buf_cstr(&b));
        buf_clear(&b);
    }
    buf_free(&b);
}

/* What is known of the archive by now; a run that did nothing has added nothing to it. */
static void print_known(const struct after *all)
{
    char n[TEXT_LEN];

    print_textless(all->textless);
    if (all->account.missing_ms > 0)
        printf("%s of speech has no text in what this run did: nightshift doubts --missing\n",
               text_length(all->account.missing_ms, n));
    if (all->left_out > 0)
        printf("%s of the recordings %s tracks or channels that were not heard: nightshift show.\n",
               text_count(all->left_out, n), text_plural(all->left_out, "has", "have"));
    print_damaged(all->totals.damaged);
}

static void print_result(const struct scheduler_result *r, const struct after *all)
{
    const struct store_archive *of = &all->totals.archive;
    const uint64_t waiting = all->totals.tasks_waiting;
    char a[TEXT_LEN], b[TEXT_LEN], c[TEXT_LEN];

    if (r->tasks_done + r->tasks_failed + r->tasks_left == 0 && r->audio_ms == 0 && !all->is_part) {
        print_idle(all);
        return;
    }
    if (all->is_part) { /* where a recording that is cut is never done, but paused */
        print_part(&all->part);
    } else {
        printf("%s %s done, %s failed, %s left", text_count(r->recordings_done, a),
               text_plural(r->recordings_done, "recording", "recordings"),
               text_count(r->recordings_failed, b), text_count(r->recordings_left, c));
        amount(of->paused, "paused");
        amount(of->cancelled, "cancelled");
        amount(of->absent, "gone from the disk");
        puts(".");
    }
    if (waiting > 0 && r->recordings_left == 0)
        print_waiting(waiting);
    if (r->work_ms > 0 && r->audio_ms > 0) /* as `report` has it */
        printf("%s of audio in %s of work: %.1f x real time.\n", text_length(r->audio_ms, a),
               text_length(r->work_ms, b), (double)r->audio_ms / (double)r->work_ms);
    if (r->tasks_failed > 0)
        puts("Why they failed: nightshift status --failures");
    if (r->tasks_done + r->tasks_failed > 0 || r->audio_ms > 0)
        print_known(all);
    print_left(r, all);
}

/* What can be done about the stages that were put aside; "" when that cannot be read. *ret is to be
 * freed. */
static char *ways_out(const char *catalog)
{
    struct stages_aside *a = NULL;
    struct store *st = NULL;
    struct buf b = BUF_INIT;
    struct err err = {0};
    char *ret;

    if (store_open(catalog, STORE_READ, &st, &err) == 0 && stages_aside_read(st, &a, &err) == 0)
        (void)stages_aside_ways_out(st, a, &b, &err);
    stages_aside_free(a);
    store_close(st);
    if (b.len > 0)
        buf_printf(&b, ".");
    ret = strdup(b.len > 0 && buf_cstr(&b) ? buf_cstr(&b) : "");
    buf_free(&b);
    return ret;
}

/* A run that could not do all: all that it did is said, too. */
static int end_badly(const struct cli *cli, const struct scheduler_result *r, const char *begun,
                     const struct err *err)
{
    const struct after after = look_after(cli->catalog, begun);
    char *hint;
    int status;

    if (!r->put_aside) {
        status =
            cli_fail("run", err, err->code == ERR_USAGE ? "Try `nightshift run --help`." : NULL);
        /* A night that never began must not look like one that goes on another time. */
        return err->code == ERR_LOCKED && !r->why ? EX_UNAVAILABLE : status;
    }
    if (!cli->quiet && !cli->json)
        print_result(r, &after);
    hint = ways_out(cli->catalog);
    status = cli_fail("do every stage", err, hint && hint[0] != 0 ? hint : NULL);
    free(hint);
    return status;
}

/* Of parameters that this version does not know: the worker says so. */
static void know_stage(const char *name, const char *params_json, struct scheduler_stage *ret)
{
    const struct stage_kind *kind = stage_kind_find(name);
    struct transcribe_params p;
    struct err err = {0};

    _Static_assert(SCHEDULER_DECODING_LEN == TRANSCRIBE_DECODING_LEN, "one text");
    ret->settles = stage_settles(name);
    ret->most_shard_ms = lease_most_shard_ms(name, params_json);
    if (stage_hears_apart(name, params_json))
        ret->mixed_most_shard_ms = lease_most_shard_ms(name, "{}");
    if (kind == &stage_transcribe && transcribe_params_from_json(params_json, &p, &err) == 0)
        transcribe_decoding(&p, ret->decoding);
    if (kind && !kind->hears)
        ret->passage_chars = kind->passage_chars(params_json);
}

/* A transcription with times of words takes the text of one without. */
static char *know_text(const char *name, const char *params_json)
{
    struct err err = {0};
    char *untimed = NULL;

    if (stage_kind_find(name) == &stage_transcribe)
        (void)transcribe_params_untimed(params_json, &untimed, &err);
    return untimed;
}

/* A part is another run's to go on with, also where its time was over: only then is it done. */
static int status_of(const struct wanted *w, const struct scheduler_result *r)
{
    if ((r->interrupted || (w->part && r->timed_out)) && r->tasks_left > 0)
        return EX_TEMPFAIL;
    return w->strict && r->tasks_failed > 0 ? EX_DATAERR : EX_OK;
}

/* The run itself, of cli->catalog, and what is said of it. */
static int run(struct cli *cli, struct wanted *w, struct scheduler_result *r, struct err *err)
{
    char begun[CLOCK_ISO_LEN];
    struct after after;
    int status;

    clock_iso8601(clock_wall_ms(), begun);
    w->o.catalog = cli->catalog;
    if (scheduler_run(&w->o, r, err) != 0) {
        status = end_badly(cli, r, begun, err);
    } else {
        after = look_after(cli->catalog, begun);
        if (!cli->quiet && !cli->json)
            print_result(r, &after);
        status = status_of(w, r);
    }
    return cli_flush(status);
}

static void tell(const struct cli *cli, const struct wanted *w, const struct scheduler_result *r,
                 const struct err *failure)
{
    if (w->on_finish)
        on_finish(w->on_finish, cli->catalog ? cli->catalog : "", r, failure);
}

/* It ends before it began, which --on-finish is to hear, too. Returns the status to leave with. */
static int not_begun(const struct cli *cli, const struct wanted *w, const char *doing,
                     const struct err *err, const char *hint)
{
    const struct scheduler_result none = {0};
    const int status = cli_fail(doing, err, hint);

    tell(cli, w, &none, err);
    return status;
}

static int run_catalog(struct cli *cli, struct wanted *w)
{
    struct scheduler_result r = {0};
    struct err err = {0};
    const int status = run(cli, w, &r, &err);

    tell(cli, w, &r, &err);
    return status;
}

/* What is done is written back, or the status says that it is not, and *err why. */
static int write_back(struct part_run *p, int status, struct err *err)
{
    struct err why = {0};
    int rc = part_run_end(p, err->code == 0, status == EX_TEMPFAIL ? "interrupted" : "", &why);

    if (rc == 0)
        return status;
    *err = why;
    if (rc != ERR_CANCELLED)
        return cli_fail("run the part", err, "Copy it there: nothing is lost.");
    cli_fail("run the part", err, "That one goes on with it.");
    return EX_CANTCREAT;
}

/* The part itself counts how often it failed: what Slurm counts are requeues, whatever for. */
static int ask_again(const struct part_run *p, const struct wanted *w, int status)
{
    uint32_t failed = part_run_failed_tries(p);

    if (failed >= w->tries)
        return status;
    log_warn("%u of %u tries have failed; it asks for another", failed, w->tries);
    return EX_TEMPFAIL;
}

/* Of a part, on its copy here. A signal that came too early for the run asks for another try. The
 * user's command comes when all is written back: it may take its time, and hears of it. */
static int run_part(struct cli *cli, struct wanted *w)
{
    struct scheduler_result r = {.why = "interrupted"};
    struct part_run *p = NULL;
    struct err err = {0};
    int status = EX_TEMPFAIL, ran;
    bool failed;

    if (part_run_open(w->part, w->write_back_ms ? w->write_back_ms : 300000, w->tries, &p, &err) !=
        0)
        return not_begun(cli, w, "run the part", &err, NULL);
    free(cli->catalog);
    cli->catalog = strdup(part_run_catalog(p));
    w->o.early_signal = true;
    part_run_hand_over(p);
    if (!cli->catalog) {
        err_set(&err, ERR_NOMEM, "out of memory");
        status = EX_OSERR;
    } else if (!part_run_stopped(p)) {
        status = run(cli, w, &r, &err);
    }
    failed = err.code != 0;
    ran = status;
    status = write_back(p, status, &err);
    if (failed && status == ran)
        status = ask_again(p, w, status);
    tell(cli, w, &r, &err);
    part_run_close(p);
    return status;
}

static bool is_own(const char *name)
{
    for (size_t i = 0; longs[i].name; i++)
        if (strcmp(longs[i].name, name) == 0)
            return true;
    return false;
}

/* Our options, and of those of `enqueue` the others: at most CLI_OPTIONS_MAX with the end. */
static void all_options(const struct wanted *w, bool completing, struct option *ret)
{
    size_t n = sizeof(longs) / sizeof(longs[0]) - 1;

    _Static_assert(sizeof(longs) / sizeof(longs[0]) + ENQUEUE_COMMAND_OPTIONS <= CLI_OPTIONS_MAX,
                   "room for all");
    memcpy(ret, longs, sizeof(longs));
    if (completing) /* it offers ours alone, as --help does */
        return;
    for (const struct option *o = w->passed; o->name; o++)
        if (!is_own(o->name) && strcmp(o->name, "dry-run") != 0) {
            ret[n] = *o;
            ret[n++].val = OPT_PASSED + o->val;
        }
    ret[n] = (struct option){0};
}

/* Of the command what is about its paths: the catalog is handed on, and --on-finish may hold a
 * password. NULL: out of memory. */
static char *line_of(struct wanted *w, int paths)
{
    char **argv = calloc((size_t)paths + 3, sizeof(*argv)), *ret = NULL;
    const char *said = buf_cstr(&w->said);
    int n = 0;

    if (argv && said) {
        argv[n++] = (char *)"run";
        if (w->o.watch)
            argv[n++] = (char *)"--watch";
        if (*said)
            argv[n++] = (char *)said + 1; /* without the blank */
        for (int i = 0; i < paths; i++)
            argv[n++] = w->argv[optind + i];
        ret = cli_command_line(n, argv);
    }
    free(argv);
    return ret;
}

/* 0: go on, also where some of the paths are not there: *missing. Else the status to leave with. */
static int enqueue_first(const struct cli *cli, struct wanted *w, int paths, bool *missing)
{
    struct cli sub = {.command = "enqueue", .quiet = cli->quiet || cli->json};
    struct err err = {0};
    int status;

    sub.catalog = cli->catalog ? strdup(cli->catalog) : NULL;
    w->enqueue.line = line_of(w, paths);
    if (!w->enqueue.line || (cli->catalog && !sub.catalog)) {
        cli_free(&sub);
        return cli_no_memory("enqueue");
    }
    status = enqueue_command_paths(&w->enqueue, &sub, paths, w->argv + optind);
    if (status == 0)
        status = enqueue_command_do(&w->enqueue, &sub);
    cli_free(&sub);
    *missing = status == EX_NOINPUT;
    if (status == EX_OK || (*missing && w->o.watch))
        return 0;
    err_set(&err, ERR_USAGE, "nothing was run: PATH could not be enqueued");
    if (w->on_finish)
        on_finish(w->on_finish, cli->catalog ? cli->catalog : "", &(struct scheduler_result){0},
                  &err);
    return status;
}

static void end_watcher(struct wanted *w)
{
    if (w->watcher.pid <= 0)
        return;
    spawn_end(w->watcher.pid, WATCHER_KILLED_MS);
    close(w->watcher.file);
}

/* 0, or the status to leave with: there is nothing to run. */
static int find_catalog(struct cli *cli, const struct wanted *w)
{
    struct err err = {0};

    if (w->part)
        return w->o.watch || cli->catalog
                   ? cli_usage(cli, "--part is a catalog by itself, which has an end: no --watch, "
                                    "no --catalog")
                   : 0;
    if (cli_catalog(cli, w->o.watch, &err) != 0)
        return not_begun(cli, w, "find the catalog", &err, NULL);
    if (w->o.watch || access(cli->catalog, F_OK) == 0)
        return 0;
    err_set(&err, ERR_MISSING, "there is no catalog '%s'", cli->catalog);
    return not_begun(cli, w, "run", &err, "Try `nightshift enqueue PATH` first.");
}

static int run_all(struct cli *cli, struct wanted *w)
{
    char unguarded[SANDBOX_WORDS];
    const int paths = w->argc - optind;
    bool missing = false;
    struct err err = {0};
    int status = 0;

    if (!w->part && (w->tries || w->write_back_ms))
        return cli_usage(cli, "%s does nothing without --part",
                         w->tries ? "--tries" : "--write-back");
    if (paths > 0)
        status = w->part ? cli_usage(cli, "--part is a catalog by itself: no PATH")
                         : enqueue_first(cli, w, paths, &missing);
    else if (w->first)
        status = cli_usage(cli, "--%s is of `enqueue`, and there is no PATH", w->first);
    if (status == 0)
        status = find_catalog(cli, w);
    if (status != 0)
        return status;
    if (sandbox_demand(w->enqueue.unsandboxed, unguarded, &err) != 0)
        return not_begun(cli, w, "run", &err, NULL);
    w->o.unguarded = unguarded;
    w->o.json_events = cli->json;
    w->o.progress = w->progress >= 0 ? w->progress > 0
                                     : isatty(STDERR_FILENO) && !cli->quiet && !cli->json &&
                                           log_format() == LOG_TEXT;
    if (w->o.watch && paths > 0 &&
        enqueue_watcher_start(&w->enqueue, cli->catalog, &w->watcher.pid, &w->watcher.file, &err) !=
            0)
        return not_begun(cli, w, "run", &err, NULL);
    status = w->part ? run_part(cli, w) : run_catalog(cli, w);
    end_watcher(w);
    return status == EX_OK && missing ? EX_NOINPUT : status;
}

int cmd_run(struct cli *cli, int argc, char **argv)
{
    struct option all[CLI_OPTIONS_MAX];
    const struct cli_spec spec = {help, "wd:m:", all, take, true, NULL};
    struct wanted w = {
        .o = {.devices = "auto", .precision = "auto", .stage = know_stage, .text_of = know_text},
        .progress = -1,
        .said = BUF_INIT,
        .argc = argc,
        .argv = argv};
    int status;

    enqueue_command_init(&w.enqueue);
    enqueue_command_options(&w.enqueue, w.passed);
    all_options(&w, cli->complete, all);
    status = cli_parse(cli, &spec, &w, argc, argv);
    if (status < 0)
        status = run_all(cli, &w);
    buf_free(&w.said);
    free((char *)w.enqueue.line);
    enqueue_command_free(&w.enqueue);
    return status;
}
