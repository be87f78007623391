/* nightshift run: works until nothing is left. The work itself is scheduler/'s. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/utf8.h"
#include "gpu/precision.h"
#include "scheduler/scheduler.h"
#include "store/parting/parting.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/commands/cmd_enqueue.h"
#include "tools/disabled_stages.h"
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

#define WATCHER_KILLED_MS 5000
#define LINE_MAX_BYTES 4000 /* about, as of cli_command_line */

struct wanted {
    struct scheduler_options o;
    const char *on_finish; /* NULL: nothing */
    bool strict;
    const char *part;      /* NULL: a catalog */
    int64_t write_back_ms; /* of a part; 0: the usual five minutes */
    uint32_t tries;        /* of a part; 0: a failure is one at once */
    int64_t shard_ms, worker_silence_ms;
    int progress;                   /* -1: as the terminal has it */
    struct enqueue_command enqueue; /* of the paths */
    struct buf said;                /* its options that were given, as " --NAME=VALUE" each */
    const char *first;              /* the first of them; NULL: none was */
    int argc;
    char **argv;
    struct watcher { /* pid 0: none */
        pid_t pid;
        int file; /* it ends with this */
    } watcher;
};

/* The jobs of its paths show the options of `enqueue`. */
static void note_option(void *wanted, const struct command_given *given)
{
    struct wanted *w = wanted;
    const char *name = given->option->name, *value = given->value;

    if (!given->option->unlisted)
        return;
    w->first = w->first ? w->first : name;
    buf_printf(&w->said, " --%s%s%s", name, value ? "=" : "", value ? value : "");
}

static int take_until(void *at, const char *value, struct err *err)
{
    return hours_parse_until(value, &((struct wanted *)at)->o.hours)
               ? 0
               : err_set(err, ERR_USAGE,
                         "--until: '%.40s' is not a time of day. Use HH:MM, for example 07:00",
                         value);
}

static int take_between(void *at, const char *value, struct err *err)
{
    return hours_parse_between(value, &((struct wanted *)at)->o.hours)
               ? 0
               : err_set(err, ERR_USAGE,
                         "--between: '%.40s' is not two times of day. Use HH:MM-HH:MM, for example "
                         "22:00-06:00",
                         value);
}

static int take_precision(void *at, const char *value, struct err *err)
{
    enum precision precision;

    ((struct wanted *)at)->o.precision = value;
    return precision_parse(value, &precision, err) == 0 ? 0 : err_prefix(err, "--precision");
}

static int take_cache(void *at, const char *value, struct err *err)
{
    return cache_precision_parse(value, &((struct wanted *)at)->o.cache, err) == 0
               ? 0
               : err_prefix(err, "--cache-precision");
}

static int take_log_format(void *at, const char *value, struct err *err)
{
    (void)at;
    if (!log_set_format(value))
        return err_set(err, ERR_USAGE, "--log-format: '%.40s' is not text, json or journal", value);
    log_set_sink(NULL, NULL); /* a terminal's gets it, too, as it is */
    return 0;
}

static int take_on_finish(void *at, const char *value, struct err *err)
{
    (void)err;
    ((struct wanted *)at)->on_finish = value;
    return 0;
}

#define DAY_MS (24 * 3600 * 1000)
static const char *const log_formats[] = {"text", "json", "journal", NULL};

static const struct command_option options[] = {
    {COMMAND_SWITCH("watch", 'w', wanted, o.watch,
                    "keep running, wait for new work, and watch PATH for new files"),
     .title = "When it works",
     .manual = "Keep running, and wait for more to be enqueued. With PATH, enqueue what comes "
               "there, too."},
    {COMMAND_READ("until", 0, take_until, "07:00", "stop at this time of day, at a checkpoint"),
     .manual = "Stop at this time of day, at a checkpoint, with status 0."},
    {COMMAND_READ("between", 0, take_between, "22:00-06:00",
                  "work only in these hours, every night"),
     .manual = "Work only in these hours, every night. Outside them the run stops at a checkpoint "
               "and frees the devices. Both are local time, may be over midnight, and hold for "
               "this run alone."},
    {COMMAND_SWITCH("idle", 0, wanted, o.idle,
                    "free a GPU at a checkpoint when others use it; take it again after five "
                    "minutes without them"),
     .manual = "Free a GPU at a checkpoint as soon as others compute on it, and take it again when "
               "nobody else has used it for five minutes. This asks the driver's "
               "libnvidia-ml.so.1. Where that cannot tell, the run ends before it begins, with "
               "status 69."},
    {COMMAND_VALUE(COMMAND_TEXT, "devices", 'd', wanted, o.devices, "LIST",
                   "auto (default: every GPU, or the processor if there is none), or names with "
                   "commas: cuda:0, cuda:GPU-<uuid>, cpu, cpu,cpu"),
     .title = "What it works on",
     .manual = "auto (every GPU, or the processor if there is none), or names with commas between "
               "them. cuda:0 is the first GPU as CUDA counts them. cuda:GPU-uuid is one wherever "
               "it is plugged in; the beginning of its uuid is enough. cpu is the processor, and "
               "cpu,cpu are two workers on it."},
    {COMMAND_CONSTANT("allow-cpu", 0, wanted, o.allow_cpu, ALLOW_CPU_ALWAYS,
                      "use the processor if GPUs are here but none can be used; default: only on "
                      "a machine without GPUs")},
    {COMMAND_CONSTANT("no-allow-cpu", 0, wanted, o.allow_cpu, ALLOW_CPU_NEVER,
                      "never work without a GPU"),
     .manual = "Never work without a GPU. Without this and --allow-cpu, the processor works on a "
               "machine without NVIDIA hardware. On a machine with some where no GPU can be used, "
               "the run ends before it begins, with status 69 and the reason."},
    {COMMAND_VALUE(COMMAND_TEXT, "device-memory", 0, wanted, o.device_memory, "LIST",
                   "most memory to use of a device: 80% or 20G of each, or cuda:0=20G,cuda:1=50%"),
     .manual = "Use at most this much of a device's memory: 80% or 20G of each, or by name as "
               "cuda:0=20G,cpu=50%. Never more than nine tenths of what is free on a GPU."},
    {COMMAND_VALUE(COMMAND_NUMBER, "threads", 0, wanted, o.threads, "N",
                   "threads that compute, for each device"),
     .low = 1, .high = 1024},
    {COMMAND_VALUE(COMMAND_NUMBER, "decoders", 0, wanted, o.decoders, "N",
                   "files decoded at the same time, for each device"),
     .low = 1, .high = 256},
    {COMMAND_SWITCH("allow-unsandboxed", 0, wanted, enqueue.unsandboxed,
                    "decode even if neither Landlock nor seccomp can confine the decoders"),
     .manual = "Decode even if neither Landlock nor seccomp can confine the decoders: a recording "
               "made to do harm could then do whatever the user may. Without it the run ends "
               "before it begins, with status 77. If one of the two is missing, it warns."},
    {COMMAND_READ(
         "precision", 0, take_precision, "P",
         "auto (default), fp32, tf32, fp16, bf16, int16, int8 or fp8, where the device has it"),
     .title = "How it computes",
     .manual =
         "The number type: auto, fp32, tf32, fp16, bf16, int16, int8 or fp8, where the device has "
         "it. A processor has fp32, bf16 where it multiplies that, and int8 where it has "
         "VNNI.",
     .choices = precision_choices},
    {COMMAND_READ("cache-precision", 0, take_cache, "P",
                  "auto (default), 16 or 8: bits of the decoder's cached keys and values"),
     .manual = "Bits of the keys and values of a window that the decoder keeps and reads: auto, 16 "
               "or 8. 16 is the type of --precision, even where that has 32 bits. auto is 8 beside "
               "16 bits and less, and 16 beside 32. Slots and windows that are measured with "
               "another choice than auto are not remembered.",
     .choices = cache_precision_choices},
    {COMMAND_VALUE(COMMAND_NUMBER, "slots", 0, wanted, o.slots, "N",
                   "windows of 30 s in work at the same time, for each device; default: measured "
                   "once and remembered"),
     .low = 1, .high = 4096,
     .manual = "Windows of 30 seconds in work at the same time, for each device."},
    {COMMAND_VALUE(COMMAND_NUMBER, "windows", 0, wanted, o.windows, "N",
                   "windows in the encoder at the same time; default: measured once and "
                   "remembered"),
     .low = 1, .high = 4096,
     .manual = "How many of these are in the encoder at the same time. Default: measured when a "
               "device is first used, and remembered in the catalog's table 'tuning', as are the "
               "slots."},
    {COMMAND_SWITCH("deterministic", 0, wanted, o.deterministic,
                    "results that do not depend on which windows share a batch; slower on GPUs"),
     .manual = "Results do not depend on which windows share a batch. They never do on the "
               "processor; on GPUs it is slower."},
    {COMMAND_SWITCH("stage-by-stage", 0, wanted, o.stage_by_stage,
                    "decode the archive again for each stage; default: stages that fit into memory "
                    "together share one decoding"),
     .manual = "Decode the archive again for each stage. Default: stages that fit into memory "
               "together share one decoding."},
    {COMMAND_VALUE(COMMAND_LENGTH, "shard", 0, wanted, shard_ms, "LENGTH",
                   "audio between two checkpoints (default: 5m); another length changes some "
                   "words"),
     .low = 30000, .high = 7200000,
     .manual =
         "Audio between two checkpoints, about; it is cut where nobody speaks. Another length "
         "moves the windows that are transcribed, and so changes some words. Stages that "
         "yield much for each second, diarization and vectors of sound, have a longest one; "
         "a length beyond it is refused at once."},
    {COMMAND_VALUE(COMMAND_NUMBER, "attempts", 0, wanted, o.attempts, "N",
                   "tries before a recording counts as failed (default: 3)"),
     .low = 1, .high = 100, .title = "Failures",
     .manual = "Tries before a recording counts as failed. If a worker or decoder was killed, that "
               "was no try: its recordings are done again at the end, each alone."},
    {COMMAND_VALUE(COMMAND_LENGTH, "worker-silence", 0, wanted, worker_silence_ms, "LENGTH",
                   "restart a worker that reports nothing for this long (default: 30s)"),
     .low = 1000, .high = DAY_MS},
    {COMMAND_SWITCH("strict", 0, wanted, strict, "exit status 65 if a recording failed")},
    {COMMAND_CONSTANT("progress", 0, wanted, progress, 1, ""), .title = "What it reports"},
    {COMMAND_CONSTANT("no-progress", 0, wanted, progress, 0,
                      "show a progress line or not; default: on a terminal"),
     .manual = "Show a progress line or not. Without either, it is shown when standard error is a "
               "terminal."},
    {COMMAND_READ("log-format", 0, take_log_format, "F",
                  "of standard error: text, json (one object a line) or journal; default: journal "
                  "under systemd, otherwise text"),
     .choices = log_formats,
     .manual = "The format of standard error, of workers and decoders too: text, json or journal. "
               "json is one object a line, with 'at', 'level' (error, warning, info, debug), "
               "'pid', 'process' and 'text'. journal has the priorities that systemd reads from "
               "the beginning of a line; it is the default where systemd reads them "
               "(JOURNAL_STREAM)."},
    {COMMAND_VALUE(COMMAND_TEXT, "metrics", 0, wanted, o.metrics, "FILE",
                   "write figures for Prometheus to this file every ten seconds"),
     .manual = "Write figures in the text format of Prometheus. The file is replaced as a whole "
               "every ten seconds and at the end."},
    {COMMAND_READ("on-finish", 0, take_on_finish, "CMD",
                  "run this with /bin/sh at the end, with the report on its standard input; see "
                  "NIGHTSHIFT_WHY in the manual"),
     .manual = "At the end, also of a run that could not begin, /bin/sh runs CMD. It has the "
               "report of the run on its standard input, and in its environment "
               "NIGHTSHIFT_CATALOG, NIGHTSHIFT_WHY (done, until, interrupted, paused, failed), "
               "NIGHTSHIFT_REASON (of a failure, a sentence), NIGHTSHIFT_DONE, NIGHTSHIFT_FAILED "
               "and NIGHTSHIFT_LEFT (recordings). What it writes goes to standard error. If it "
               "fails, the run warns and keeps its exit status. After ten minutes, or "
               "NIGHTSHIFT_ON_FINISH_SECONDS, it is ended."},
    {COMMAND_VALUE(COMMAND_TEXT, "part", 0, wanted, part, "FILE",
                   "run a part made by `nightshift split`, on a copy in $SLURM_TMPDIR, $TMPDIR or "
                   "/tmp that is written back; SIGUSR1 also stops it at a checkpoint"),
     .title = "A part of a catalog",
     .manual = "Run a part that `split` made, on a copy in SLURM_TMPDIR, TMPDIR or /tmp. FILE is "
               "replaced as a whole now and then and at the end. SIGUSR1 stops such a run at a "
               "checkpoint, as SIGTERM does."},
    {COMMAND_VALUE(COMMAND_LENGTH, "write-back", 0, wanted, write_back_ms, "LENGTH",
                   "how often the part is written back (default: 5m)"),
     .low = 1000, .high = DAY_MS,
     .manual = "How often the part is written back before the end; default: 5m."},
    {COMMAND_VALUE(COMMAND_NUMBER, "tries", 0, wanted, tries, "N",
                   "if the part fails, ask to be started again (exit status 75), until N tries "
                   "failed"),
     .low = 1, .high = 1000,
     .manual = "With --part: if it fails, ask to be started again by exit status 75, until N tries "
               "of the part have failed; then none is begun any more. A try that left a "
               "checkpoint, or was interrupted in order, has not failed."},
    {.kind = COMMAND_TABLE,
     .table = enqueue_command_table,
     .offset = offsetof(struct wanted, enqueue),
     .unlisted = true},
    {0},
};

const struct command command_run = {
    .name = "run",
    .usage = "[OPTION]... [PATH]...",
    .about = "Transcribe everything that is enqueued. With PATH, enqueue that first; all options "
             "of `nightshift enqueue` except --dry-run may be given for it.\n"
             "It resumes where an earlier run ended, even after a crash. Ctrl-C stops it at the "
             "next checkpoint, a second Ctrl-C at once; nothing is lost.",
    .options = options,
    .json = "events as JSON, one object a line",
    .quiet = "print only errors and warnings",
    .verbose = "print more",
    .notes = "The CUDA backend has run on an H100 and an H200 alone.",
    .examples = "run\n"
                "run --devices cuda:0,cuda:2\n"
                "run --model openai/whisper-small interviews/\n"
                "run --watch /archive/incoming\n"
                "run --watch --between 22:00-06:00\n"
                "run --watch --idle\n"
                "run --watch --threads 2 2>> nightshift.log",
    .statuses = "0 if it ended in order, also at --until or with failed recordings (see --strict); "
                "69 if no device can be used; 75 if it was interrupted with work left (a part also "
                "at --until): run it again, or have it requeued; others: see sysexits.h.",
    .on_option = note_option,
};

/* Figures of the whole catalog after a run. */
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

/* Printed when no transcription is left to do. */
static void print_waiting(uint64_t waiting)
{
    char n[TEXT_LEN], line[160];

    snprintf(
        line, sizeof(line),
        "%s %s %s for a transcription that failed, was cancelled or is paused: nightshift status",
        text_count(waiting, n), text_plural(waiting, "recording", "recordings"),
        text_plural(waiting, "waits", "wait"));
    cli_print(line, 0);
}

/* Says why the run did nothing. */
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
        puts("Its time was up; `nightshift run` resumes from here.");
    else if (r->interrupted && r->recordings_left > 0)
        puts("Interrupted; `nightshift run` resumes from here.");
    else if (r->tasks_left > 0 && all->totals.paused)
        puts("The catalog is paused: `nightshift resume`, then `nightshift run`.");
    else if (r->tasks_left > 0)
        puts(r->stages_disabled
                 ? "The rest belongs to a disabled stage: nightshift status"
                 : "The rest is paused, missing, or waiting for a retry: nightshift status");
}

static void print_count(uint64_t n, const char *what)
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
            printf("In this run: %s\n", buf_cstr(&b));
        buf_clear(&b);
    }
    buf_free(&b);
}

/* Prints what the run found out; print_result skips it after a run that did nothing. */
static void print_known(const struct after *all)
{
    char n[TEXT_LEN];

    print_textless(all->textless);
    if (all->account.missing_ms > 0)
        printf("%s of speech got no text in this run: nightshift doubts --missing\n",
               text_length(all->account.missing_ms, n));
    if (all->left_out > 0)
        printf("%s of the recordings %s tracks or channels that were not transcribed: nightshift "
               "show\n",
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
        print_count(of->paused, "paused");
        print_count(of->cancelled, "cancelled");
        print_count(of->absent, "gone from the disk");
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

/* Remedies for the disabled stages; "" if they cannot be read. The caller frees it. */
static char *remedies(const char *catalog)
{
    struct disabled_stages *a = NULL;
    struct store *st = NULL;
    struct buf b = BUF_INIT;
    struct err err = {0};
    char *ret;

    if (store_open(catalog, STORE_READ, &st, &err) == 0 && disabled_stages_read(st, &a, &err) == 0)
        (void)disabled_stages_remedies(st, a, &b, &err);
    disabled_stages_free(a);
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

    if (!r->stages_disabled) {
        status =
            cli_fail("run", err, err->code == ERR_USAGE ? "Try `nightshift run --help`." : NULL);
        /* A night that never began must not look like one that goes on another time. */
        return err->code == ERR_LOCKED && !r->why ? EX_UNAVAILABLE : status;
    }
    if (!cli->quiet && !cli->json)
        print_result(r, &after);
    hint = remedies(cli->catalog);
    status = cli_fail("do all stages", err, hint && hint[0] != 0 ? hint : NULL);
    free(hint);
    return status;
}

/* Skips parameters that this version does not know: the worker reports them. */
static void know_stage(const char *name, const char *params_json, struct scheduler_stage *ret)
{
    const struct stage_kind *kind = stage_kind_find(name);
    struct transcribe_params p;
    struct err err = {0};

    _Static_assert(SCHEDULER_DECODING_LEN == TRANSCRIBE_DECODING_LEN, "one text");
    ret->finalizes = stage_finalizes(name);
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
static int run_and_report(struct cli *cli, struct wanted *w, struct scheduler_result *r,
                          struct err *err)
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

static void call_on_finish(const struct cli *cli, const struct wanted *w,
                           const struct scheduler_result *r, const struct err *failure)
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

    call_on_finish(cli, w, &none, err);
    return status;
}

static int run_catalog(struct cli *cli, struct wanted *w)
{
    struct scheduler_result r = {0};
    struct err err = {0};
    const int status = run_and_report(cli, w, &r, &err);

    call_on_finish(cli, w, &r, &err);
    return status;
}

/* Writes the finished work back. If that fails, the returned status and *err say so. */
static int write_back(struct part_run *p, int status, struct err *err)
{
    struct err why = {0};
    int rc = part_run_end(p, err->code == 0, status == EX_TEMPFAIL ? "interrupted" : "", &why);

    if (rc == 0)
        return status;
    *err = why;
    if (rc != ERR_CANCELLED)
        return cli_fail("run the part", err, "Copy it there: nothing is lost.");
    cli_fail("run the part", err, "The other one continues it.");
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

/* Runs a part on its copy here. A signal that came too early for the run asks for another try. The
 * user's --on-finish command runs after the write-back: it may be slow, and gets the result. */
static int run_part(struct cli *cli, struct wanted *w)
{
    struct scheduler_result r = {.why = "interrupted"};
    struct part_run *p = NULL;
    struct err err = {0};
    int status = EX_TEMPFAIL, ran;
    bool failed;

    if (part_run_open(w->part, w->write_back_ms ? (uint32_t)w->write_back_ms : 300000, w->tries, &p,
                      &err) != 0)
        return not_begun(cli, w, "run the part", &err, NULL);
    free(cli->catalog);
    cli->catalog = strdup(part_run_catalog(p));
    w->o.early_signal = true;
    part_run_hand_over(p);
    if (!cli->catalog) {
        err_set(&err, ERR_NOMEM, "out of memory");
        status = EX_OSERR;
    } else if (!part_run_stopped(p)) {
        status = run_and_report(cli, w, &r, &err);
    }
    failed = err.code != 0;
    ran = status;
    status = write_back(p, status, &err);
    if (failed && status == ran)
        status = ask_again(p, w, status);
    call_on_finish(cli, w, &r, &err);
    part_run_close(p);
    return status;
}

/* The command line for the job, without --catalog, which is passed on, and --on-finish, which may
 * hold a password. NULL: out of memory. */
static char *line_of(struct wanted *w, int paths)
{
    struct buf b = BUF_INIT;
    const char *said = buf_cstr(&w->said);
    char *ret = NULL;

    buf_printf(&b, "nightshift run%s%s%s", w->o.watch ? " --watch" : "",
               w->enqueue.unsandboxed ? " --allow-unsandboxed" : "", said ? said : "");
    for (int i = 0; i < paths && b.len < LINE_MAX_BYTES; i++)
        buf_printf(&b, " %s", w->argv[optind + i]);
    if (said && !b.failed)
        ret = utf8_display(b.data, b.len);
    buf_free(&b);
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
    err_set(&err, ERR_USAGE, "nothing was run, because PATH could not be enqueued");
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
                   ? cli_usage(cli, "--part does not go with --watch or --catalog")
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
        status = w->part ? cli_usage(cli, "--part does not take a PATH")
                         : enqueue_first(cli, w, paths, &missing);
    else if (w->first)
        status = cli_usage(cli, "--%s is an option of `enqueue` and needs a PATH", w->first);
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
    struct wanted w = {
        .o = {.devices = "auto", .precision = "auto", .stage = know_stage, .text_of = know_text},
        .progress = -1,
        .said = BUF_INIT,
        .argc = argc,
        .argv = argv};
    int status;

    enqueue_command_init(&w.enqueue);
    status = command_parse(cli, &command_run, &w, argc, argv);
    w.o.shard_ms = (uint32_t)w.shard_ms;
    w.o.worker_silence_ms = (uint32_t)w.worker_silence_ms;
    if (status < 0)
        status = run_all(cli, &w);
    buf_free(&w.said);
    free((char *)w.enqueue.line);
    enqueue_command_free(&w.enqueue);
    return status;
}
