/* nightshift enqueue: finds recordings and notes in the catalog what is to be done with them. */
#include "tools/commands/cmd_enqueue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/spawn.h"
#include "scheduler/control/control.h"
#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/enqueue/enqueue.h"
#include "tools/enqueue/summary.h"
#include "tools/enqueue/watching.h"
#include "tools/writer.h"

#define STABLE_MS 30000
#define POLL_MS 60000
#define RUN_STEP_US 100000

static int add_glob(const char ***list, size_t *n, const char *value, struct err *err)
{
    const char **bigger;

    if (value[0] == 0 || strcmp(value, "/") == 0)
        return err_set(err, ERR_USAGE, "an empty pattern fits nothing");
    bigger = realloc(*list, (*n + 2) * sizeof(**list));
    if (!bigger)
        return err_set(err, ERR_NOMEM, "out of memory");
    bigger[(*n)++] = value;
    bigger[*n] = NULL;
    *list = bigger;
    return 0;
}

static int take_include(void *at, const char *value, struct err *err)
{
    struct enqueue_command *w = at;

    return add_glob(&w->include, &w->include_n, value, err);
}

static int take_exclude(void *at, const char *value, struct err *err)
{
    struct enqueue_command *w = at;

    return add_glob(&w->exclude, &w->exclude_n, value, err);
}

static int take_priority(void *at, const char *value, struct err *err)
{
    struct enqueue_command *w = at;

    w->has_priority = store_priority_of(value, &w->priority);
    return w->has_priority
               ? 0
               : err_set(err, ERR_USAGE, "--priority: '%.40s' is not high, normal or low", value);
}

#define DAY_MS (24 * 3600 * 1000)
static const char *const priority_words[] = {"high", "normal", "low", NULL};

const struct command_option enqueue_command_table[] = {
    {COMMAND_READ("include", 'i', take_include, "GLOB",
                  "only files that match; may be repeated. A GLOB is matched against the name, or "
                  "against the path below PATH if it has a '/'; case does not matter"),
     .title = "Which files are taken",
     .manual = "Only files that match; may be given more than once. A pattern is matched against "
               "the name, or against the path below PATH if it has a slash. '*' matches slashes "
               "too, and case does not matter. It is also matched against names inside archives."},
    {COMMAND_READ("exclude", 'x', take_exclude, "GLOB", "skip files and folders that match"),
     .manual = "Skip files that match, and folders with everything below them. A pattern that ends "
               "in a slash matches folders only."},
    {COMMAND_SWITCH("hidden", 0, enqueue_command, hidden,
                    "also hidden files and folders; recycle bins, unfinished files and AppleDouble "
                    "files are always skipped"),
     .manual =
         "Take hidden files and folders, too: those whose names begin with a dot. Recycle "
         "bins, AppleDouble files, indexes and snapshots of storage servers, and files that a "
         "transfer has not finished (.talk.wav.Zk3x9q, talk.wav.part) are always skipped. A "
         "PATH that is named itself is always taken."},
    {COMMAND_SWITCH("follow", 0, enqueue_command, follow, "follow symbolic links"),
     .manual = "Follow symbolic links. No folder is entered twice."},
    {COMMAND_SWITCH("one-file-system", 0, enqueue_command, one_file_system,
                    "stay on the disk that PATH is on")},
    {COMMAND_SWITCH("all", 'a', enqueue_command, all,
                    "take every file, even if it does not look like a recording; inside archives "
                    "only recordings are taken"),
     .manual = "Take every file, even if it does not look like a recording. Inside archives only "
               "recordings are taken."},
    {COMMAND_SWITCH("watch", 'w', enqueue_command, watch,
                    "keep running, and enqueue new files as soon as they are complete"),
     .manual = "Keep running, and enqueue what comes to PATH as soon as it is complete, by its "
               "recipe, until SIGTERM or SIGINT."},
    {COMMAND_VALUE(COMMAND_LENGTH, "settled", 0, enqueue_command, stable_ms, "LENGTH",
                   "a file is complete if it has not changed for this long (default: 30s with "
                   "--watch, otherwise every file is)"),
     .low = 1, .high = DAY_MS,
     .manual = "A file is complete if it has not changed for this long; others are left for the "
               "next time. The default is 30 s with --watch; otherwise every file is complete."},
    {COMMAND_VALUE(COMMAND_LENGTH, "poll", 0, enqueue_command, poll_ms, "LENGTH",
                   "how often --watch looks at network shares (default: 1m)"),
     .low = 100, .high = DAY_MS,
     .manual = "How often --watch looks at files of which the kernel reports no changes: network "
               "shares, single files (1 minute)."},
    {COMMAND_READ("priority", 'p', take_priority, "WORD",
                  "high, normal or low: when these files are done, also those enqueued already"),
     .title = "What is done with them", .choices = priority_words,
     .manual =
         "One of high, normal and low: before or after all others. This holds for files that "
         "are enqueued already, too, if they are still to be done. See `nightshift priority`."},
    {.kind = COMMAND_TABLE,
     .table = enqueue_wish_table,
     .offset = offsetof(struct enqueue_command, wish)},
    {COMMAND_SWITCH("again", 0, enqueue_command, again,
                    "transcribe again what was done with other options; without options: with the "
                    "models that are here now"),
     .title = "How it is enqueued",
     .manual = "Do again what was done with other options. From then on these options are the "
               "recipe of PATH and of everything below it. Without options, the recipe stays, and "
               "the models that are here now are used."},
    {COMMAND_SWITCH("allow-unsandboxed", 0, enqueue_command, unsandboxed,
                    "read archives even if neither Landlock nor seccomp can confine the decoders")},
    {0},
};

static const struct command_option options[] = {
    {.kind = COMMAND_TABLE, .table = enqueue_command_table},
    {COMMAND_SWITCH("dry-run", 'n', enqueue_command, dry_run,
                    "only list which files it would take or skip, and why"),
     .manual = "Only list what would be taken and what would be skipped, each with the reason, and "
               "say what would be done again. With --json the array 'listed' has an object for "
               "each: 'taken', 'why', 'path', 'directory', and where they apply 'member', "
               "'recordings' (of an archive that is known as it is) and 'error'."},
    {0},
};

const struct command command_enqueue = {
    .name = "enqueue",
    .usage = "[OPTION]... PATH...",
    .about =
        "Find recordings in files, folders and archives (zip, tar, 7z, iso and others), and add "
        "them to the catalog as work to do. Run it again to add new files.\n"
        "The options become the recipe of PATH. Without options it uses the recipe of PATH or of "
        "the nearest folder above it (see `nightshift recipe`).",
    .options = options,
    .usual = "model language diarize sounds dry-run",
    .json = "the summary as JSON",
    .quiet = "print only errors and warnings",
    .examples = "enqueue /archive/1990\n"
                "enqueue --model openai/whisper-small --language es tapes.zip\n"
                "enqueue --word-timestamps interviews/\n"
                "enqueue --vad=on --beam-size=5 /archive/1990\n"
                "enqueue --diarize --sounds --embed /archive/1990\n"
                "enqueue -i '*.mp3' -i '*.wav' -x '.git/' -x 'tmp/*' .",
    .statuses = "0; 64 also if only --again would do the work; 66 if a PATH does not exist; "
                "others: see sysexits.h.",
};

void enqueue_command_init(struct enqueue_command *c)
{
    *c = (struct enqueue_command){.stable_ms = -1, .poll_ms = POLL_MS};
    enqueue_wish_init(&c->wish);
}

void enqueue_command_free(struct enqueue_command *c)
{
    for (uint32_t i = 0; i < c->root_count; i++)
        free(c->roots[i]);
    free(c->roots);
    free(c->include);
    free(c->exclude);
}

/* ------------------------------------------------------------------------------- the command */

/* One descriptor is open for each folder on the way down. */
static void allow_deep_folders(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < 8192) {
        lim.rlim_cur = lim.rlim_max < 8192 ? lim.rlim_max : 8192;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
}

static int open_catalog(struct cli *cli, const struct enqueue_command *w, struct writer **writer,
                        struct store **known, struct err *err)
{
    int rc;

    if (!w->dry_run)
        return writer_open(cli->catalog, "enqueue", 10000, cli->quiet, writer, err);
    rc = store_open(cli->catalog, STORE_READ, known, err);
    if (rc == ERR_MISSING) {
        err->code = 0;
        rc = 0;
    }
    return rc;
}

/* Without --watch all are taken. */
static int64_t stable_ms(const struct enqueue_command *w)
{
    return w->stable_ms >= 0 ? w->stable_ms : w->watch ? STABLE_MS : 0;
}

struct enqueuing {
    struct cli *cli;
    struct enqueue_command *w;
    struct groups groups;
    struct again again;
};

static int enqueue_all(struct enqueuing *e)
{
    struct cli *cli = e->cli;
    const struct enqueue_command *w = e->w;
    const bool listed = w->dry_run && (cli->json || !cli->quiet);
    struct dry_run_lines lines = {.json = cli->json};
    struct enqueue_options o = {.catalog = cli->catalog,
                                .include = w->include,
                                .exclude = w->exclude,
                                .follow = w->follow,
                                .one_file_system = w->one_file_system,
                                .hidden = w->hidden,
                                .all = w->all,
                                .unsandboxed = w->unsandboxed,
                                .quiet = cli->quiet,
                                .progress = !cli->quiet && isatty(STDERR_FILENO) &&
                                            !(listed && isatty(STDOUT_FILENO)),
                                .lines = listed ? &lines : NULL,
                                .stable_ms = stable_ms(w),
                                .as_of_ms = w->as_of_ms,
                                .has_priority = w->has_priority,
                                .priority = w->priority,
                                .groups = &e->groups,
                                .command_line = w->line};
    struct enqueue_result r;
    struct summary s = {.result = &r,
                        .groups = &e->groups,
                        .again = &e->again,
                        .dry_run = w->dry_run,
                        .allowed = w->again,
                        .listed = listed,
                        .up_to = w->include || w->exclude};
    struct writer *writer = NULL;
    struct store *known = NULL;
    struct err err = {0};
    int rc = open_catalog(cli, w, &writer, &known, &err);

    if (rc != 0)
        return cli_fail("open the catalog", &err, NULL);
    allow_deep_folders();
    if (listed)
        dry_run_lines_open(&lines);
    rc = enqueue_paths(&o, writer, known, (const char *const *)w->roots, w->root_count, &r, &err);
    if (known)
        store_close(known);
    writer_close(writer);
    if (rc != 0)
        return cli_fail("enqueue (what was found so far is kept)", &err, NULL);
    if (listed)
        dry_run_lines_close(&lines);
    if (cli->json)
        summary_json(&s);
    else if (!cli->quiet)
        summary_print(&s);
    return cli_flush(r.missing_roots > 0 ? EX_NOINPUT : EX_OK);
}

/* Opens the catalog for reading. *ret is NULL if there is none, or (an error) if it cannot be read.
 * Upgrades an older catalog first, except in a dry run. */
static int look_at_catalog(const struct cli *cli, const struct enqueue_command *w,
                           struct store **ret, struct err *err)
{
    struct writer *writer = NULL;
    int rc = store_open(cli->catalog, STORE_READ, ret, err);

    if (rc == ERR_VERSION && !w->dry_run) {
        rc = writer_open(cli->catalog, "enqueue", 10000, cli->quiet, &writer, err);
        if (rc == 0) {
            writer_close(writer);
            rc = store_open(cli->catalog, STORE_READ, ret, err);
        }
    }
    if (rc != ERR_MISSING)
        return rc;
    *err = (struct err){0};
    return 0;
}

/* On a terminal only: nobody else is there to say yes. */
static bool says_yes(const struct cli *cli, const char *text)
{
    char answer[16];

    if (cli->json || cli->quiet || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return false;
    cli_note("%s", text);
    fprintf(stderr, "Do that? [y/N] ");
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

/* -1: go on. Nights are not spent a second time by a slip in the options. */
static int allow_again(const struct enqueuing *e)
{
    const struct enqueue_command *w = e->w;
    struct buf b = BUF_INIT;
    const char *text;
    int status = -1;

    if (e->again.count == 0 || w->again || w->dry_run)
        return -1;
    again_words(&e->again, w->include || w->exclude, &b);
    text = buf_cstr(&b);
    if (!says_yes(e->cli, text ? text : "")) {
        if (e->cli->json)
            summary_refused_json(&e->again);
        cli_note("%s Nothing was enqueued. Use --again to do that, or leave these options out to "
                 "continue as last time.",
                 text ? text : "");
        status = cli_flush(EX_USAGE);
    }
    buf_free(&b);
    return status;
}

static int compare_with_last_time(struct enqueuing *e, struct store *known, char doing[200],
                                  struct err *err)
{
    struct enqueue_command *w = e->w;
    int rc = groups_make(&w->wish, w->again, known, (const char *const *)w->roots, w->root_count,
                         &e->groups, doing, err);

    if (rc != 0)
        return rc;
    snprintf(doing, 200, "compare with last time");
    return again_count(&e->groups, known, &e->again, err);
}

/* Who asks for speakers gets times of words, too, as long as no text is written again for them. */
static int compare_with_times(struct enqueuing *e, struct store *known, char doing[200],
                              struct err *err)
{
    int rc;

    e->w->wish.times = true;
    rc = compare_with_last_time(e, known, doing, err);
    if (!e->groups.own || !e->groups.times || e->w->again || (rc == 0 && e->again.count == 0))
        return rc;
    again_free(&e->again);
    groups_free(&e->groups);
    e->w->wish.times = false;
    doing[0] = 0;
    *err = (struct err){0};
    return compare_with_last_time(e, known, doing, err);
}

/* -1: go on. */
static int resolve_stages(struct enqueuing *e)
{
    struct enqueue_command *w = e->w;
    struct store *known = NULL;
    struct err err = {0}, unread = {0};
    char doing[200] = "";
    int rc;

    /* Who writes says why it cannot be read, or makes one of an empty file. */
    (void)look_at_catalog(e->cli, w, &known, &unread);
    rc = enqueue_wish_agree(&w->wish, &err);
    if (rc == 0)
        rc = compare_with_times(e, known, doing, &err);
    store_close(known);
    if (rc == 0)
        return allow_again(e);
    if (rc == ERR_MODEL && unread.code != 0) /* its recipes would have said which */
        return cli_fail("open the catalog", &unread, NULL);
    return doing[0] == 0 ? cli_usage(e->cli, "%s", err.msg) : cli_fail(doing, &err, NULL);
}

/* If no root exists, the command reports each one and makes no catalog and no job. A root that
 * cannot be examined counts as existing. */
static bool any_there(char **roots, uint32_t n)
{
    struct err err = {0};
    struct stat st;

    for (uint32_t i = 0; i < n; i++)
        if (stat(roots[i], &st) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP))
            return true;
    for (uint32_t i = 0; i < n; i++) {
        err_set(&err, ERR_MISSING, "'%s': %s", roots[i], enqueue_absent(roots[i]));
        cli_fail("enqueue", &err, "Check its name (ls -l).");
    }
    return false;
}

int enqueue_command_paths(struct enqueue_command *w, const struct cli *cli, int n, char **paths)
{
    struct err err = {0};

    if (n <= 0)
        return cli_usage(cli, "name the files or folders to enqueue");
    w->roots = calloc((size_t)n, sizeof(*w->roots));
    if (!w->roots) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("enqueue", &err, NULL);
    }
    for (int i = 0; i < n; i++, w->root_count++)
        if (cli_absolute(paths[i], &w->roots[w->root_count], &err) != 0)
            return cli_fail("enqueue", &err, NULL);
    return any_there(w->roots, w->root_count) ? 0 : EX_NOINPUT;
}

int enqueue_command_do(struct enqueue_command *w, struct cli *cli)
{
    struct enqueuing e = {.cli = cli, .w = w};
    struct err err = {0};
    int status;

    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    status = resolve_stages(&e);
    if (status < 0 && cli_catalog(cli, !w->dry_run, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    if (status < 0)
        status = enqueue_all(&e);
    again_free(&e.again);
    groups_free(&e.groups);
    return status;
}

/* -------------------------------------------------------------------------------- watching */

/* The command line of a helper: `watched`, as of a time that is written into `as_of`, when
 * something has come; or `watcher`. By the recipe, so without a word on how. */
struct words {
    const char **argv; /* to be freed; ends with NULL */
    char as_of[WATCHING_AS_OF], stable[32], poll[32];
};

static int make_words(const struct enqueue_command *w, const char *helper, const char *catalog,
                      bool quiet, struct words *ret, struct err *err)
{
    const char **v = calloc(2 * (w->include_n + w->exclude_n) + w->root_count + 20, sizeof(*v));
    size_t n = 0;

    if (!v)
        return err_set(err, ERR_NOMEM, "out of memory");
    snprintf(ret->stable, sizeof(ret->stable), "--settled=%.3fs",
             (double)(w->stable_ms >= 0 ? w->stable_ms : STABLE_MS) / 1000);
    snprintf(ret->poll, sizeof(ret->poll), "--poll=%.3fs", (double)w->poll_ms / 1000);
    ret->argv = v;
    v[n++] = "nightshift";
    v[n++] = helper;
    v[n++] = w->line;
    v[n++] = ret->as_of;
    v[n++] = ret->stable;
    v[n++] = ret->poll;
    v[n++] = "--catalog";
    v[n++] = catalog;
    if (quiet)
        v[n++] = "--quiet";
    if (w->hidden)
        v[n++] = "--hidden";
    if (w->follow)
        v[n++] = "--follow";
    if (w->one_file_system)
        v[n++] = "--one-file-system";
    if (w->all)
        v[n++] = "--all";
    if (w->unsandboxed)
        v[n++] = "--allow-unsandboxed";
    if (w->has_priority) {
        v[n++] = "--priority";
        v[n++] = store_priority_name((int)w->priority);
    }
    for (size_t i = 0; i < w->include_n; i++) {
        v[n++] = "--include";
        v[n++] = w->include[i];
    }
    for (size_t i = 0; i < w->exclude_n; i++) {
        v[n++] = "--exclude";
        v[n++] = w->exclude[i];
    }
    v[n++] = "--";
    for (uint32_t i = 0; i < w->root_count; i++)
        v[n++] = w->roots[i];
    return 0;
}

/* Whatever the first look has found: a folder that is not there may come. */
static int watch(const struct enqueue_command *w, const struct cli *cli)
{
    struct words words = {0};
    struct watching watching = {.roots = (const char *const *)w->roots,
                                .root_count = w->root_count,
                                .hidden = w->hidden,
                                .stable_ms = stable_ms(w),
                                .poll_ms = w->poll_ms};
    struct err err = {0};
    int rc = make_words(w, "watched", cli->catalog, cli->quiet, &words, &err);

    watching.argv = words.argv;
    watching.as_of = words.as_of;
    if (rc == 0)
        rc = watching_run(&watching, &err);
    free(words.argv);
    return rc == 0 ? EX_OK : cli_fail("watch", &err, NULL);
}

int enqueue_watcher_start(const struct enqueue_command *c, const char *catalog, pid_t *pid,
                          int *file, struct err *err)
{
    struct words words = {.as_of = "0"};
    int ends[2] = {-1, -1}, rc = make_words(c, "watcher", catalog, true, &words, err);

    if (rc != 0)
        return rc;
    if (pipe2(ends, O_CLOEXEC) != 0)
        rc = errno;
    if (rc == 0)
        rc = spawn_start(NULL, words.argv, (const int[]){ends[0], STDERR_FILENO, STDERR_FILENO}, 3,
                         pid);
    if (ends[0] >= 0)
        close(ends[0]);
    *file = ends[1];
    free(words.argv);
    return rc ? err_sys(err, rc, "watch the folders") : 0;
}

/* Its requests are for that run, which has the catalog's lock. */
static void wait_for_run(const char *catalog)
{
    struct control *c = NULL;
    struct err err = {0};

    while (control_connect(catalog, &c, &err) != 0)
        usleep(RUN_STEP_US);
    control_close(c);
}

/* ------------------------------------------------------------------------------- the commands */

/* The options and the paths. -1: go on. */
static int parse_enqueue_line(struct cli *cli, struct enqueue_command *w, int argc, char **argv)
{
    int status = command_parse(cli, &command_enqueue, w, argc, argv);

    if (status >= 0)
        return status;
    status = enqueue_command_paths(w, cli, argc - optind, argv + optind);
    return status == 0 ? -1 : status;
}

static bool is_well(int status) { return status == EX_OK || status == EX_NOINPUT; }

static int enqueue_or_watch(struct cli *cli, struct enqueue_command *w)
{
    int status;

    if (w->watch && w->dry_run)
        return cli_usage(cli, "--watch and --dry-run do not go together");
    status = enqueue_command_do(w, cli);
    return w->watch && is_well(status) ? watch(w, cli) : status;
}

int cmd_enqueue(struct cli *cli, int argc, char **argv)
{
    char *line = cli_command_line(argc, argv); /* before getopt sorts it */
    struct enqueue_command w;
    int status;

    if (!line)
        return cli_no_memory("enqueue");
    enqueue_command_init(&w);
    w.line = line;
    status = parse_enqueue_line(cli, &w, argc, argv);
    if (status < 0)
        status = enqueue_or_watch(cli, &w);
    enqueue_command_free(&w);
    free(line);
    return status;
}

/* A helper: of LINE MS WORD..., where the word before the options stands where getopt expects the
 * command's name. -1: go on. */
static int parse_helper(struct cli *cli, struct enqueue_command *w, int argc, char **argv)
{
    enqueue_command_init(w);
    if (argc < 3)
        return cli_usage(cli, "this is started by `nightshift enqueue --watch` alone");
    w->line = argv[1];
    w->as_of_ms = strtoll(argv[2], NULL, 10);
    return parse_enqueue_line(cli, w, argc - 2, argv + 2);
}

int cmd_watcher(struct cli *cli, int argc, char **argv)
{
    struct enqueue_command w;
    struct err err = {0};
    int status;

    if (!spawn_begun(STDIN_FILENO))
        return EX_UNAVAILABLE;
    status = parse_helper(cli, &w, argc, argv);
    w.watch = true;
    if (status < 0 && cli_catalog(cli, true, &err) != 0)
        status = cli_fail("find the catalog", &err, NULL);
    if (status < 0) {
        wait_for_run(cli->catalog);
        status = watch(&w, cli);
    }
    enqueue_command_free(&w);
    return status;
}

int cmd_watched(struct cli *cli, int argc, char **argv)
{
    struct enqueue_command w;
    int status = parse_helper(cli, &w, argc, argv);

    if (status < 0)
        status = enqueue_or_watch(cli, &w);
    enqueue_command_free(&w);
    return status;
}
