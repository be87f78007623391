/* nightshift slurm: a catalog's work as an array of a Slurm cluster, and how far it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/utf8.h"
#include "store/parting/parting.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/parts/part_file.h"
#include "tools/parts/slurm.h"
#include "tools/parts/split.h"

#define AGAIN ".again" /* the folder of the pieces of a part that was handed out again */
#define JOBS "slurm.json"
#define TRIES 3u  /* that end in no order, and a part is reported */
#define PIECES 4u /* of a part that is handed out again */
#define STATE_LEN 24

struct wanted {
    struct split_wanted split;
    struct sbatch sbatch;
    bool again, dry_run;
};

static int read_word(const char *value, const char **ret, struct err *err)
{
    static const char fits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "._,:@/+=%[]-";

    if (!*value || value[strspn(value, fits)] != 0)
        return err_set(err, ERR_USAGE, "sbatch would not accept '%s'", value);
    *ret = value;
    return 0;
}

static int take_partition(void *wanted, const char *value, struct err *err)
{
    return read_word(value, &((struct wanted *)wanted)->sbatch.partition, err);
}

static int take_account(void *wanted, const char *value, struct err *err)
{
    return read_word(value, &((struct wanted *)wanted)->sbatch.account, err);
}

static int take_time(void *wanted, const char *value, struct err *err)
{
    return read_word(value, &((struct wanted *)wanted)->sbatch.time, err);
}

static int take_memory(void *wanted, const char *value, struct err *err)
{
    return read_word(value, &((struct wanted *)wanted)->sbatch.memory, err);
}

static int take_merge_node(void *wanted, const char *value, struct err *err)
{
    return read_word(value, &((struct wanted *)wanted)->sbatch.merge_node, err);
}

/* ---------------------------------------------------------------------------------- submitting */

struct jobs { /* of a folder */
    char array[32], merge[32];
    char *catalog; /* owned */
};

static int write_text(const char *dir, const char *name, const char *text, struct err *err)
{
    char *path = part_path(dir, name, err);
    FILE *f = path ? fopen(path, "we") : NULL;
    bool good = f && text && fputs(text, f) >= 0;

    if (f)
        good = fclose(f) == 0 && good;
    if (path && !good)
        err_sys(err, errno ? errno : EIO, "'%s'", path);
    free(path);
    return good ? 0 : err->code;
}

static int write_scripts(const struct sbatch *s, struct err *err)
{
    struct buf parts = BUF_INIT, merge = BUF_INIT;
    int rc;

    sbatch_parts(s, &parts);
    sbatch_merge(s, &merge);
    rc = write_text(s->dir, "parts.sbatch", buf_cstr(&parts), err);
    if (rc == 0)
        rc = write_text(s->dir, "merge.sbatch", buf_cstr(&merge), err);
    buf_free(&parts);
    buf_free(&merge);
    return rc;
}

static int write_jobs(const struct sbatch *s, const struct jobs *j, struct err *err)
{
    json_t *o =
        json_pack("{s:s, s:s, s:s}", "array", j->array, "merge", j->merge, "catalog", s->catalog);
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    int rc = text ? write_text(s->dir, JOBS, text, err) : err_set(err, ERR_NOMEM, "out of memory");

    free(text);
    json_decref(o);
    return rc;
}

/* `sbatch --parsable` says "12", or "12;cluster". */
static int submit_one(const char *dir, const char *script, const char *after, char ret[32],
                      struct err *err)
{
    char *path = part_path(dir, script, err), depends[64] = "--begin=now";
    const char *argv[] = {"sbatch", "--parsable", depends, path, NULL};
    struct buf out = BUF_INIT;
    const char *said;
    size_t n;
    int rc = path ? 0 : err->code;

    if (after)
        snprintf(depends, sizeof(depends), "--dependency=afterany:%s", after);
    if (rc == 0)
        rc = slurm_call(argv, &out, err);
    said = rc == 0 && buf_cstr(&out) ? buf_cstr(&out) : "";
    n = strspn(said, "0123456789");
    if (rc == 0 && (n == 0 || n > 20))
        rc = err_set(err, ERR_PROTOCOL, "sbatch printed '%.80s', which is not a job number", said);
    else if (rc == 0)
        snprintf(ret, 32, "%.*s", (int)n, said);
    buf_free(&out);
    free(path);
    return rc;
}

static int submit_jobs(const struct sbatch *s, bool dry_run, struct jobs *j, struct err *err)
{
    int rc = write_scripts(s, err);

    if (rc == 0 && !dry_run)
        rc = submit_one(s->dir, "parts.sbatch", NULL, j->array, err);
    if (rc == 0) /* what is submitted is known, whatever comes */
        rc = write_jobs(s, j, err);
    if (rc < 0 || dry_run)
        return rc < 0 && j->array[0] ? err_prefix(err, "job %s is submitted, but", j->array) : rc;
    rc = submit_one(s->dir, "merge.sbatch", j->array, j->merge, err);
    if (rc == 0)
        rc = write_jobs(s, j, err);
    return rc < 0 ? err_prefix(err, "job %s is submitted, but not the job that merges it", j->array)
                  : 0;
}

static void print_submitted(const struct cli *cli, const struct sbatch *s, const struct jobs *j,
                            bool dry_run)
{
    char n[TEXT_LEN];

    if (cli->json)
        printf("{\"parts\": %u, \"array\": \"%s\", \"merge\": \"%s\"}\n", s->parts, j->array,
               j->merge);
    else if (!cli->quiet && dry_run)
        printf("%s %s in %s. Next: sbatch %s/parts.sbatch\n", text_count(s->parts, n),
               text_plural(s->parts, "part", "parts"), s->dir, s->dir);
    else if (!cli->quiet)
        printf("%s %s in %s: job %s, and %s merges them. Next: nightshift slurm status %s\n",
               text_count(s->parts, n), text_plural(s->parts, "part", "parts"), s->dir, j->array,
               j->merge, s->dir);
}

/* dir holds the parts already. */
static int submit_folder(const struct cli *cli, struct wanted *w, const char *dir,
                         const char *catalog, uint32_t parts, struct err *err)
{
    struct sbatch s = w->sbatch;
    struct jobs j = {0};
    int rc;

    s.dir = dir;
    s.catalog = catalog;
    s.parts = parts;
    rc = submit_jobs(&s, w->dry_run, &j, err);
    if (rc == 0)
        print_submitted(cli, &s, &j, w->dry_run);
    return rc;
}

/* They stand in quotes in a line that Slurm reads. */
static int check_folder(const char *dir, struct err *err)
{
    if (strpbrk(dir, "\"%\\\n$`"))
        return err_set(err, ERR_USAGE, "Slurm would not take the folder's name: '%s'", dir);
    return 0;
}

/* Tasks that an array may have here; 0: Slurm does not say. */
static uint32_t most_tasks(void)
{
    const char *const argv[] = {"scontrol", "show", "config", NULL};
    struct buf out = BUF_INIT;
    struct err err = {0};
    const char *text = slurm_call(argv, &out, &err) == 0 && buf_cstr(&out) ? buf_cstr(&out) : "";
    const char *at = strstr(text, "MaxArraySize");
    unsigned long n = 0;

    if (at) {
        at += strcspn(at, "=\n");
        n = *at == '=' ? strtoul(at + 1, NULL, 10) : 0;
    }
    buf_free(&out);
    return n < UINT32_MAX ? (uint32_t)n : 0;
}

/* Nobody said how many: parts of a day, or longer ones when that were more than an array has. */
static int split_usual(struct split_wanted *w, struct split_done *d, struct err *err)
{
    int rc;

    w->part_hours = 24;
    rc = split_catalog(w, d, err);
    if (rc != ERR_LIMIT || !w->most_parts)
        return rc;
    *err = (struct err){0};
    w->part_hours = 0;
    w->parts = w->most_parts;
    return split_catalog(w, d, err);
}

static int submit_catalog(struct cli *cli, struct wanted *w, struct err *err)
{
    struct split_done d;
    char *dir = NULL;
    int rc = cli_catalog(cli, false, err);

    if (rc == 0)
        rc = cli_path_text(cli->catalog, "the catalog, which " JOBS " keeps", ERR_USAGE, err);
    if (rc == 0)
        rc = cli_absolute(w->split.output, &dir, err);
    if (rc == 0)
        rc = check_folder(dir, err);
    w->split.catalog = cli->catalog;
    w->split.output = dir;
    w->split.most_parts = most_tasks();
    if (rc == 0 && (w->split.parts || w->split.part_hours))
        rc = split_catalog(&w->split, &d, err);
    else if (rc == 0)
        rc = split_usual(&w->split, &d, err);
    if (rc == ERR_LIMIT && w->split.most_parts)
        err_prefix(err, "an array has at most %u tasks here (MaxArraySize)", w->split.most_parts);
    if (rc == 0)
        rc = submit_folder(cli, w, dir, cli->catalog, d.parts, err);
    free(dir);
    return rc;
}

/* -------------------------------------------------------------------------------- how far it is */

struct row { /* a part */
    struct parting_about about;
    char why[160];         /* it cannot be read: why; else "" */
    char state[STATE_LEN]; /* Slurm's word; "" none */
    bool again;            /* its rest was handed out again */
};

struct folder {
    char *dir;
    struct jobs jobs;
    struct part_list parts;
    struct row *rows; /* [parts.count] */
};

static void folder_free(struct folder *f)
{
    free(f->dir);
    free(f->jobs.catalog);
    free(f->rows);
    part_list_free(&f->parts);
}

static void take_job(const json_t *o, const char *name, char ret[32])
{
    const char *s = json_string_value(json_object_get(o, name));

    if (s && strlen(s) < 21 && s[strspn(s, "0123456789")] == 0)
        snprintf(ret, 32, "%s", s);
}

static int read_jobs_of(struct folder *f, struct err *err)
{
    char *path = part_path(f->dir, JOBS, err);
    json_t *o = path ? json_load_file(path, 0, NULL) : NULL;
    const char *catalog = json_string_value(json_object_get(o, "catalog"));
    int rc = path ? 0 : err->code;

    if (rc == 0 && !catalog)
        rc = err_set(err, ERR_MISSING,
                     "'%s' is not there, or not what `nightshift slurm submit` writes", path);
    if (rc == 0) {
        take_job(o, "array", f->jobs.array);
        take_job(o, "merge", f->jobs.merge);
        f->jobs.catalog = strdup(catalog);
        rc = f->jobs.catalog ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    json_decref(o);
    free(path);
    return rc;
}

/* Its pieces were submitted: a folder alone is a try that failed. */
static bool has_array(const char *dir)
{
    struct folder f = {.dir = strdup(dir)};
    struct err err = {0};
    bool ret = f.dir && read_jobs_of(&f, &err) == 0 && f.jobs.array[0];

    folder_free(&f);
    return ret;
}

static void look_at_part(const char *path, struct row *r)
{
    struct store *st = NULL;
    struct err err = {0};
    char *again = NULL;

    if (store_open(path, STORE_READ, &st, &err) != 0 || parting_about(st, &r->about, &err) != 0)
        utf8_copy(r->why, sizeof(r->why), err.msg);
    store_close(st);
    if (asprintf(&again, "%s" AGAIN, path) >= 0) {
        r->again = has_array(again);
        free(again);
    }
}

/* Parses "12_7|STATE" or "12_7|CANCELLED by 1000" of array 12: returns the state, NUL-terminated in
 * place, and its task in *ret. NULL: any other line, such as a warning or another job. */
static const char *state_in(char *line, const char *array, unsigned long *ret)
{
    size_t n = strlen(array);
    char *end;

    if (strncmp(line, array, n) != 0 || line[n] != '_' || line[n + 1] < '0' || line[n + 1] > '9')
        return NULL;
    *ret = strtoul(line + n + 1, &end, 10);
    if (*end++ != '|')
        return NULL;
    n = strspn(end, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (n == 0 || n >= STATE_LEN || !strchr(" +", end[n]))
        return NULL;
    end[n] = 0;
    return end;
}

/* A later line overrides an earlier one. */
static void take_states(struct folder *f, char *text)
{
    char *next = NULL;

    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        unsigned long n = 0;
        const char *state = state_in(line, f->jobs.array, &n);

        for (size_t i = 0; i < f->parts.count && state; i++)
            if (!f->rows[i].why[0] && f->rows[i].about.number == n)
                snprintf(f->rows[i].state, sizeof(f->rows[i].state), "%s", state);
    }
}

/* Without accounting, or when Slurm has forgotten the job, the parts themselves say enough. */
static void ask_slurm(struct folder *f)
{
    const char *const past[] = {"sacct",       "-n", "-P",          "-X", "-j",
                                f->jobs.array, "-o", "JobID,State", NULL};
    const char *const now[] = {"squeue", "-h",          "-r", "-t",       "all",
                               "-j",     f->jobs.array, "-o", "%F_%K|%T", NULL};
    const char *const *const calls[] = {past, now};

    for (size_t i = 0; i < 2 && f->jobs.array[0]; i++) {
        struct buf out = BUF_INIT;
        struct err err = {0};

        if (slurm_call(calls[i], &out, &err) == 0 && buf_cstr(&out))
            take_states(f, buf_cstr(&out));
        buf_free(&out);
    }
}

static int folder_read(const char *dir, struct folder *f, struct err *err)
{
    int rc = cli_absolute(dir, &f->dir, err);
    char *operand[1];

    operand[0] = f->dir;
    if (rc == 0)
        rc = read_jobs_of(f, err);
    if (rc == 0)
        rc = part_list_make(operand, 1, &f->parts, err);
    if (rc == 0 && !(f->rows = calloc(f->parts.count + 1, sizeof(*f->rows))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < f->parts.count && rc == 0; i++)
        look_at_part(f->parts.paths[i], &f->rows[i]);
    if (rc == 0)
        ask_slurm(f);
    return rc;
}

static bool in_queue(const struct row *r)
{
    static const char *const waiting[] = {"PENDING",  "RUNNING",   "CONFIGURING", "COMPLETING",
                                          "REQUEUED", "SUSPENDED", "REQUEUE_HOLD"};

    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        if (strcmp(r->state, waiting[i]) == 0)
            return true;
    return false;
}

/* A try that is on has not failed yet. */
static uint32_t failed_tries(const struct row *r)
{
    uint32_t n = r->about.failed_tries;

    return r->about.last_failed && strcmp(r->state, "RUNNING") == 0 ? n - 1 : n;
}

static bool has_failed(const struct row *r)
{
    return !r->why[0] && r->about.open > 0 && failed_tries(r) >= TRIES;
}

static const char *word_of(const struct row *r)
{
    return r->why[0]            ? "cannot be read"
           : r->about.open == 0 ? "done"
           : r->again           ? "handed out again"
           : has_failed(r)      ? "failed"
           : in_queue(r)        ? "in the queue"
           : r->about.tries > 0 ? "left"
                                : "not begun";
}

static void print_row(const char *path, const struct row *r)
{
    const struct parting_about *a = &r->about;
    const char *name = strrchr(path, '/');
    char done[TEXT_LEN], all[TEXT_LEN];

    if (r->why[0]) {
        printf("%-14s  cannot be read: %s\n", name ? name + 1 : path, r->why);
        return;
    }
    printf("%-14s  %-16s  %-12s  %s of %s tasks done", name ? name + 1 : path, word_of(r),
           r->state[0] ? r->state : "-", text_count(a->done, done),
           text_count(a->done + a->failed + a->open, all));
    if (a->failed > 0)
        printf(", %s failed", text_count(a->failed, all));
    if (a->tries > 1)
        printf(", %u tries", a->tries);
    putchar('\n');
}

static void print_folder(const struct folder *f)
{
    uint64_t done = 0, bad = 0;
    char a[TEXT_LEN], b[TEXT_LEN];

    for (size_t i = 0; i < f->parts.count; i++) {
        const struct row *r = &f->rows[i];

        print_row(f->parts.paths[i], r);
        done += !r->why[0] && r->about.open == 0;
        bad += has_failed(r) && !r->again && !in_queue(r);
    }
    printf("%s of %s parts done; job %s, merged by %s.\n", text_count(done, a),
           text_count(f->parts.count, b), f->jobs.array[0] ? f->jobs.array : "none",
           f->jobs.merge[0] ? f->jobs.merge : "none");
    if (bad > 0)
        printf("%s failed three times: their logs say why; nightshift slurm submit --again %s\n",
               text_count(bad, a), f->dir);
}

static int print_json(const struct folder *f)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < f->parts.count; i++) {
        const struct row *r = &f->rows[i];

        json_array_append_new(
            rows,
            json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "file", f->parts.paths[i],
                      "part", (json_int_t)r->about.number, "is", word_of(r), "slurm", r->state,
                      "done", (json_int_t)r->about.done, "failed", (json_int_t)r->about.failed,
                      "open", (json_int_t)r->about.open, "tries", (json_int_t)r->about.tries,
                      "failed_tries", (json_int_t)failed_tries(r)));
    }
    json_dumpf(rows, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(rows);
    return 0;
}

static int status_of(const struct cli *cli, const char *dir)
{
    struct folder f = {0};
    struct err err = {0};
    int rc = folder_read(dir, &f, &err);

    if (rc == 0 && cli->json)
        print_json(&f);
    else if (rc == 0)
        print_folder(&f);
    folder_free(&f);
    return rc == 0 ? cli_flush(EX_OK) : cli_fail("look at the parts", &err, NULL);
}

/* ----------------------------------------------------------------------------------- once more */

/* All that an earlier try wrote and did not submit; 0: there is none, or not all. */
static uint32_t pieces_of(char *dir)
{
    struct part_list there = {0};
    struct row first = {0};
    struct err err = {0};
    uint32_t n = 0;

    if (part_list_make(&dir, 1, &there, &err) == 0 && there.count > 0) {
        look_at_part(there.paths[0], &first);
        n = !first.why[0] && first.about.parts == there.count ? first.about.parts : 0;
    }
    part_list_free(&there);
    return n;
}

/* Splits the rest of a part into pieces; its finished work was merged with its folder. */
static int again_one(const struct cli *cli, struct wanted *w, const struct folder *f, size_t i,
                     struct err *err)
{
    struct split_wanted split = {.catalog = f->parts.paths[i], .parts = PIECES};
    struct split_done d;
    char *dir = NULL;
    int rc = 0;

    if (asprintf(&dir, "%s" AGAIN, f->parts.paths[i]) < 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    split.output = dir;
    d.parts = pieces_of(dir);
    if (!d.parts)
        rc = split_catalog(&split, &d, err);
    if (rc == 0)
        rc = submit_folder(cli, w, dir, f->jobs.catalog, d.parts, err);
    free(dir);
    return rc;
}

static int submit_again(const struct cli *cli, struct wanted *w, const char *dir, struct err *err)
{
    struct folder f = {0};
    size_t did = 0;
    int rc = folder_read(dir, &f, err);

    for (size_t i = 0; i < f.parts.count && rc == 0; i++)
        if (has_failed(&f.rows[i]) && !f.rows[i].again && !in_queue(&f.rows[i])) {
            struct err why = {0};

            did++;
            if (again_one(cli, w, &f, i, &why) == 0)
                continue;
            if (err->code) /* the last one is the caller's to say */
                cli_fail("submit", err, NULL);
            *err = why;
        }
    if (rc == 0)
        rc = err->code;
    if (rc == 0 && did == 0)
        rc = err_set(err, ERR_EMPTY, "no part of '%s' failed three times", f.dir);
    folder_free(&f);
    return rc;
}

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_TEXT, "output", 'o', wanted, split.output, "DIR",
                   "the folder of the parts; all nodes must see it")},
    {COMMAND_VALUE(COMMAND_NUMBER, "into", 0, wanted, split.parts, "N", ""), .low = 1,
     .high = 1000000},
    {COMMAND_VALUE(COMMAND_NUMBER, "hours-per-part", 0, wanted, split.part_hours, "H", ""),
     .low = 1, .high = 1000000},
    {COMMAND_VALUE(COMMAND_LENGTH, "shard", 0, wanted, split.shard_ms, "LENGTH",
                   "as for `nightshift split` (default: --hours-per-part=24)"),
     .low = 30000, .high = 7200000},
    {COMMAND_SWITCH("again", 0, wanted, again, "submit failed parts of DIR again, see above"),
     .manual = "Submit the rest of parts in DIR that failed three times, in smaller parts. Their "
               "files are beside them, as `part-NNNN.db.again`."},
    {COMMAND_VALUE(COMMAND_NUMBER, "gpus-per-task", 0, wanted, sbatch.gpus_per_task, "N",
                   "GPUs of each task (default: 1; 0: none)"),
     .high = 64},
    {COMMAND_VALUE(COMMAND_NUMBER, "cpus-per-task", 0, wanted, sbatch.cpus_per_task, "N",
                   "processors of each task"),
     .low = 1, .high = 4096},
    {COMMAND_VALUE(COMMAND_NUMBER, "array-throttle", 0, wanted, sbatch.array_throttle, "N",
                   "most parts at the same time"),
     .low = 1, .high = 1000000},
    {COMMAND_READ("partition", 0, take_partition, "NAME", "")},
    {COMMAND_READ("account", 0, take_account, "NAME", "")},
    {COMMAND_READ("time", 0, take_time, "TIME", "")},
    {COMMAND_READ("mem", 0, take_memory, "SIZE", "as for sbatch")},
    {COMMAND_READ("merge-node", 0, take_merge_node, "NAME",
                  "the node with the catalog's disk (default: any, if all nodes see the catalog)")},
    {COMMAND_SWITCH("dry-run", 'n', wanted, dry_run, "write the files, but do not submit them")},
    {0},
};

const struct command command_slurm = {
    .name = "slurm",
    .usage = "submit --output=DIR [OPTION]...\n"
             "submit --again DIR [OPTION]...\n"
             "status DIR [--json]",
    .about =
        "submit: split the waiting work into DIR, write DIR/parts.sbatch and DIR/merge.sbatch, and "
        "hand them to sbatch. That makes an array with one task for each part, and a job that "
        "merges when all have ended. A task whose time is up stops at a checkpoint and is "
        "requeued; one that fails is tried three times.\nstatus: show how far the parts "
        "are.\nsubmit --again: submit parts that failed three times once more, in smaller parts.",
    .options = options,
    .json = "as JSON",
    .quiet = "print only errors and warnings",
    .examples = "slurm submit --output /net/parts --into 32 --time 8:00:00\n"
                "slurm status /net/parts",
    .statuses = "0; 66 if no work is waiting, or there is no Slurm here; 74 if Slurm refuses; "
                "others: see sysexits.h.",
};

int cmd_slurm(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.sbatch = {.gpus_per_task = 1}};
    char self[4096] = "";
    struct err err = {0};
    int status = command_parse(cli, &command_slurm, &w, argc, argv), left, rc;
    const char *what;

    if (status >= 0)
        return status;
    what = optind < argc ? argv[optind++] : "";
    left = argc - optind;
    if (strcmp(what, "status") == 0 && left == 1)
        return status_of(cli, argv[optind]);
    if (strcmp(what, "submit") != 0 || left != w.again || (!w.again && !w.split.output))
        return cli_usage(cli, "use submit --output=DIR, submit --again DIR or status DIR");
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return cli_usage(cli, "/proc is missing, so nightshift cannot find its own program");
    w.sbatch.program = self;
    rc = w.again ? submit_again(cli, &w, argv[optind], &err) : submit_catalog(cli, &w, &err);
    if (rc == ERR_EMPTY) {
        cli_fail("submit", &err, "`nightshift status` shows what there is.");
        return EX_NOINPUT;
    }
    if (rc != 0)
        return cli_fail("submit", &err,
                        rc == ERR_MISSING || rc == ERR_IO
                            ? "What was written stays; see docs/how-to/use-many-machines.md."
                            : NULL);
    return cli_flush(EX_OK);
}
