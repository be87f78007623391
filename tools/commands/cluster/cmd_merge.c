/* nightshift merge: what was done in parts of a catalog comes back. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "store/lock.h"
#include "store/parting/parting.h"
#include "tools/cli/cli.h"
#include "tools/parts/part_file.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"

struct one { /* part */
    struct parting_about about;
    struct parting_merged merged;
    bool good;
};

struct merging {
    const struct cli *cli;
    struct part_list parts;
    struct one *list; /* [parts.count] */
    struct store *st;
};

/* A part that is locked, or whose disk fails, is that one's matter; `*opened`: it could be read. */
static int merge_one(struct merging *m, size_t i, bool *opened, struct err *err)
{
    struct one *o = &m->list[i];
    struct store *part = NULL;
    int rc = store_open(m->parts.paths[i], STORE_READ, &part, err);

    if (rc == 0)
        rc = parting_about(part, &o->about, err);
    *opened = rc == 0;
    if (rc == 0)
        rc = parting_merge(m->st, part, &o->merged, err);
    store_close(part);
    o->good = rc == 0;
    return rc;
}

/* An error of the catalog ends the merge; an error of a part only skips that part. If a disk fails,
 * the next part shows whether it was the catalog's. */
static bool is_ours(int code, bool opened)
{
    return code == ERR_NOMEM || (opened && (code == ERR_FULL || code == ERR_LOCKED));
}

static int merge_all(struct merging *m, bool *bad, struct err *err)
{
    for (size_t i = 0; i < m->parts.count; i++) {
        struct err why = {0};
        bool opened = false;

        if (merge_one(m, i, &opened, &why) == 0)
            continue;
        if (is_ours(why.code, opened)) {
            *err = why;
            return err->code;
        }
        cli_fail("merge a part", &why, "It is left out.");
        *bad = true;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------- reports */

static void sum_merged_parts(const struct merging *m, struct parting_merged *ret, uint64_t *open)
{
    for (size_t i = 0; i < m->parts.count; i++) {
        const struct one *o = &m->list[i];

        if (!o->good)
            continue;
        ret->shards += o->merged.shards;
        ret->known += o->merged.known;
        ret->segments += o->merged.segments;
        ret->tasks += o->merged.tasks;
        ret->failed += o->merged.failed;
        ret->strange += o->merged.strange;
        *open += o->about.open;
    }
}

/* Parts of the same taking apart as the i-th that were not given. *first: the lowest of them. The
 * i-th must be the first of its taking apart. */
static uint32_t absent_of(const struct merging *m, size_t i, uint32_t *first)
{
    const struct parting_about *a = &m->list[i].about;
    char *seen = calloc(a->parts, 1);
    uint32_t n = 0;

    for (size_t k = 0; k < m->parts.count && seen; k++)
        if (m->list[k].good && strcmp(m->list[k].about.split, a->split) == 0 &&
            m->list[k].about.number < a->parts)
            seen[m->list[k].about.number] = 1;
    for (uint32_t k = a->parts; k-- > 0 && seen;)
        if (!seen[k]) {
            *first = k;
            n++;
        }
    free(seen);
    return n;
}

static bool is_first(const struct merging *m, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (m->list[k].good && strcmp(m->list[k].about.split, m->list[i].about.split) == 0)
            return false;
    return m->list[i].good;
}

static void print_missing(const struct merging *m, bool any_left)
{
    char n[TEXT_LEN], of[TEXT_LEN];
    uint32_t first = 0, absent;

    for (size_t i = 0; i < m->parts.count; i++) {
        const struct one *o = &m->list[i];

        if (o->good && o->about.open > 0)
            printf("%s: %s of its %s tasks %s not done.\n", m->parts.paths[i],
                   text_count(o->about.open, n),
                   text_count(o->about.open + o->about.done + o->about.failed, of),
                   text_plural(o->about.open, "is", "are"));
        if (any_left && is_first(m, i) && (absent = absent_of(m, i, &first)) > 0)
            printf("%s of the %s parts %s not given, part-%04u the first of them.\n",
                   text_count(absent, n), text_count(o->about.parts, of),
                   text_plural(absent, "was", "were"), first);
    }
}

/* any_left: work of the catalog, without which no part is missing. */
static void print_merged(const struct merging *m, bool any_left)
{
    struct parting_merged t = {0};
    char a[TEXT_LEN], b[TEXT_LEN], c[TEXT_LEN];
    uint64_t open = 0;

    sum_merged_parts(m, &t, &open);
    printf("%s %s came in, with %s %s; %s %s here already.\n", text_count(t.shards, a),
           text_plural(t.shards, "checkpoint", "checkpoints"), text_count(t.segments, b),
           text_plural(t.segments, "segment", "segments"), text_count(t.known, c),
           text_plural(t.known, "was", "were"));
    if (t.failed > 0)
        printf("%s %s failed there: nightshift status --failures\n", text_count(t.failed, a),
               text_plural(t.failed, "task", "tasks"));
    if (t.strange > 0)
        printf("%s %s of theirs %s not in this catalog any more, and skipped.\n",
               text_count(t.strange, a), text_plural(t.strange, "task", "tasks"),
               text_plural(t.strange, "is", "are"));
    print_missing(m, any_left);
}

/* Reports the work left here: stages that need a cut recording as a whole. */
static void print_left(uint64_t recordings)
{
    char n[TEXT_LEN];

    if (recordings > 0)
        printf("Work is left in %s %s: `nightshift run` does it here.\n", text_count(recordings, n),
               text_plural(recordings, "recording", "recordings"));
    else
        puts("Nothing is left to do.");
}

static void print_outcome(const struct merging *m)
{
    struct store_totals t;
    struct err err = {0};
    bool known = store_totals(m->st, &t, &err) == 0;

    print_merged(m, !known || t.archive.pending > 0);
    if (known)
        print_left(t.archive.pending);
}

static void print_json(const struct merging *m)
{
    json_t *list = json_array();

    for (size_t i = 0; i < m->parts.count; i++) {
        const struct one *o = &m->list[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "file",
                      m->parts.paths[i], "merged", (int)o->good, "part",
                      (json_int_t)o->about.number, "parts", (json_int_t)o->about.parts,
                      "checkpoints", (json_int_t)o->merged.shards, "known",
                      (json_int_t)o->merged.known, "segments", (json_int_t)o->merged.segments,
                      "tasks", (json_int_t)o->merged.tasks, "failed", (json_int_t)o->merged.failed,
                      "strange", (json_int_t)o->merged.strange, "open", (json_int_t)o->about.open));
    }
    json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
}

static int merge_parts(struct merging *m)
{
    struct catalog_lock *lock = NULL;
    struct err err = {0};
    bool bad = false;
    int rc, status;

    rc = catalog_lock_take(m->cli->catalog, "merge", &lock, &err);
    if (rc == 0)
        rc = store_open(m->cli->catalog, STORE_WRITE, &m->st, &err);
    if (rc == 0)
        rc = merge_all(m, &bad, &err);
    if (rc < 0) {
        status = cli_fail("merge", &err, NULL);
    } else {
        if (m->cli->json)
            print_json(m);
        else if (!m->cli->quiet)
            print_outcome(m);
        status = bad ? EX_DATAERR : EX_OK;
    }
    store_close(m->st);
    catalog_lock_release(lock);
    return cli_flush(status);
}

/* Ends with the first recording that is to be heard yet. */
static int is_heard(void *arg, const struct parting_work *w, struct err *err)
{
    (void)err;
    *(bool *)arg = w->hearing == 0;
    return w->hearing > 0;
}

/* Nothing is out any more. */
static int all_back(const struct cli *cli, struct err *err)
{
    struct catalog_lock *lock = NULL;
    struct store *st = NULL;
    bool before;
    int rc = catalog_lock_take(cli->catalog, "merge", &lock, err);

    if (rc == 0)
        rc = store_open(cli->catalog, STORE_WRITE, &st, err);
    if (rc == 0)
        rc = parting_out(st, NULL, &before, err);
    store_close(st);
    catalog_lock_release(lock);
    return rc;
}

/* Starts a run of seconds for the work that needs a cut recording as a whole. While parts have
 * audio left it starts none: that run would decode all of it on this machine. */
static int finish_merged_catalog(const struct cli *cli, bool given_up)
{
    const char *const argv[] = {"nightshift", "run",        "--no-progress",
                                "--catalog",  cli->catalog, cli->quiet ? "--quiet" : NULL,
                                NULL};
    struct store *st = NULL;
    struct err err = {0};
    bool heard = true;

    if (store_open(cli->catalog, STORE_READ, &st, &err) == 0)
        (void)parting_work_each(st, is_heard, &heard, &err);
    store_close(st);
    if (!err.code && (heard || given_up))
        (void)all_back(cli, &err);
    if (err.code)
        return cli_fail("finish", &err, NULL);
    if (!heard)
        return EX_OK;
    execv("/proc/self/exe", (char *const *)argv);
    return cli_fail("run", (err_set(&err, ERR_IO, "this program cannot be started"), &err), NULL);
}

struct wanted {
    bool finish;
};

static const struct command_option options[] = {
    {COMMAND_SWITCH("finish", 0, wanted, finish,
                    "if no audio is left to process, finish the stages that need whole recordings; "
                    "without PART, give up missing parts")},
    {0},
};

const struct command command_merge = {
    .name = "merge",
    .usage = "[OPTION]... CATALOG PART...\n"
             "[OPTION]... --catalog=FILE PART...\n"
             "--finish CATALOG",
    .about = "Merge the results of parts that `nightshift split` made of CATALOG. PART is a file, "
             "or a folder with parts. The order does not matter, and neither does merging a part "
             "twice. Each part is merged completely or not at all. Missing parts are listed.",
    .options = options,
    .json = "the merged results, as JSON",
    .quiet = "print only errors and warnings",
    .examples = "merge nightshift.db parts\n"
                "merge nightshift.db parts/part-0003.db parts/part-0007.db",
    .statuses = "0, also if something is missing; 65 if a part cannot be merged (the others are); "
                "others: see sysexits.h.",
};

int cmd_merge(struct cli *cli, int argc, char **argv)
{
    struct merging m = {.cli = cli};
    struct store *there = NULL;
    struct err err = {0};
    struct wanted w = {0};
    bool given_up;
    int status = command_parse(cli, &command_merge, &w, argc, argv), rc;

    if (status >= 0)
        return status;
    if (!cli->catalog && optind < argc && !(cli->catalog = strdup(argv[optind++])))
        return cli_no_memory("merge");
    given_up = w.finish && optind == argc;
    if (optind == argc && !given_up)
        return cli_usage(cli, "name the parts: their files, or their folder");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    /* A writer would make a catalog where there is none. */
    rc = store_open(cli->catalog, STORE_READ, &there, &err);
    store_close(there);
    if (rc != 0 && rc != ERR_VERSION)
        return cli_fail("open the catalog", &err, NULL);
    if (given_up)
        return finish_merged_catalog(cli, true);
    err = (struct err){0};
    rc = part_list_make(argv + optind, argc - optind, &m.parts, &err);
    if (rc == 0 && !(m.list = calloc(m.parts.count + 1, sizeof(*m.list))))
        rc = err_set(&err, ERR_NOMEM, "out of memory");
    status = rc == 0 ? merge_parts(&m) : cli_fail("find the parts", &err, NULL);
    free(m.list);
    part_list_free(&m.parts);
    return status == EX_OK && w.finish ? finish_merged_catalog(cli, false) : status;
}
