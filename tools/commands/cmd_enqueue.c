/* nightshift enqueue: finds recordings and notes in the catalog what is to be done with them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/spawn.h"
#include "scheduler/control/control.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/enqueue.h"
#include "tools/enqueue/summary.h"
#include "tools/enqueue/watching.h"
#include "tools/writer.h"

static const char help_head[] =
    "Usage: nightshift enqueue [OPTION]... PATH...\n"
    "Find the recordings in files, folders and archives (zip, tar, 7z, iso ...), and\n"
    "note in the catalog that they are to be transcribed. Doing it again adds only\n"
    "what is new, and without a word on how it is done as it was last asked for\n"
    "that folder, or for the one above it.\n"
    "\n"
    "What is taken:\n"
    "  -i, --include=GLOB       only files that fit; may be given more than once\n"
    "  -x, --exclude=GLOB       leave out files and folders that fit\n"
    "                           GLOB is held against the name, or against the path\n"
    "                           below PATH when it has a '/'; case does not matter\n"
    "      --hidden             also hidden files and folders; recycle bins, half\n"
    "                           files and AppleDouble are skipped in any case\n"
    "      --follow             follow symbolic links\n"
    "      --one-file-system    stay on the disk that PATH is on\n"
    "  -a, --all                take every file, also what looks like no recording;\n"
    "                           inside archives recordings alone are taken\n"
    "  -w, --watch              stay, and enqueue what comes as soon as it is whole\n"
    "      --settled=LENGTH     a file is whole when nothing has happened to it\n"
    "                           for so long; default: 30s with --watch, else all are\n"
    "      --poll=LENGTH        how often network shares are looked at (default: 1m)\n"
    "What is done with it:\n"
    "  -p, --priority=WORD      high, normal or low: when it comes, also what is\n"
    "                           enqueued already\n"
    "  -m, --model=NAME         name, folder or Hugging Face id;\n"
    "                           default: whisper-nano\n";

/* The options of enqueue_params.c come here. */
static const char help_tail[] =
    "How:\n"
    "      --again              what other options than last time would do again is\n"
    "                           done again; without options, as last time with the\n"
    "                           models that are here now\n"
    "      --allow-unsandboxed  read archives also where neither Landlock nor seccomp\n"
    "                           would hold the decoders\n"
    "  -n, --dry-run            only list what it would take, what not, and why\n"
    "  -c, --catalog=FILE       the catalog\n"
    "  -q, --quiet              say only what went wrong\n"
    "      --json               the summary as JSON\n"
    "  -h, --help               this text\n"
    "\n"
    "Examples:\n"
    "  nightshift enqueue /archive/1990\n"
    "  nightshift enqueue --model openai/whisper-small --language es tapes.zip\n"
    "  nightshift enqueue --word-timestamps interviews/\n"
    "  nightshift enqueue --vad=on --beam-size=5 /archive/1990\n"
    "  nightshift enqueue --diarize --sounds --embed /archive/1990\n"
    "  nightshift enqueue -i '*.mp3' -i '*.wav' -x '.git/' -x 'tmp/*' .\n"
    "\n"
    "Exit status: 0; 64 also when only --again would do it; 66 when a PATH is not\n"
    "there; others as sysexits.h has them.\n";

#define SETTLED_MS 30000
#define POLL_MS 60000
#define RUN_STEP_US 100000

struct wanted {
    const char **include, **exclude; /* NULL-terminated arrays of argv's strings */
    size_t include_n, exclude_n;
    bool follow, one_file_system, hidden, all, dry_run, unsandboxed, again, has_priority, watch;
    bool of_run;                 /* its first look is the run's, which has enqueued just now */
    int64_t settled_ms, poll_ms; /* settled: -1 as usual */
    int64_t as_of_ms;            /* 0: whenever it is looked at */
    int64_t priority;
    struct enqueue_wish wish;
    int argc; /* as getopt walks through it: */
    char **argv;
};

enum {
    OPT_ALLOW_UNSANDBOXED = 256,
    OPT_AGAIN,
    OPT_FOLLOW,
    OPT_HIDDEN,
    OPT_ONE_FILE_SYSTEM,
    OPT_SETTLED,
    OPT_POLL,
};

static const struct option own[] = {
    {"include", required_argument, NULL, 'i'},
    {"exclude", required_argument, NULL, 'x'},
    {"hidden", no_argument, NULL, OPT_HIDDEN},
    {"follow", no_argument, NULL, OPT_FOLLOW},
    {"one-file-system", no_argument, NULL, OPT_ONE_FILE_SYSTEM},
    {"all", no_argument, NULL, 'a'},
    {"watch", no_argument, NULL, 'w'},
    {"settled", required_argument, NULL, OPT_SETTLED},
    {"poll", required_argument, NULL, OPT_POLL},
    {"again", no_argument, NULL, OPT_AGAIN},
    {"allow-unsandboxed", no_argument, NULL, OPT_ALLOW_UNSANDBOXED},
    {"priority", required_argument, NULL, 'p'},
    {"model", required_argument, NULL, 'm'},
    {"dry-run", no_argument, NULL, 'n'},
};
#define OWN (sizeof(own) / sizeof(own[0]))

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

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;

    switch (option) {
    case 'i':
        return add_glob(&w->include, &w->include_n, value, err);
    case 'x':
        return add_glob(&w->exclude, &w->exclude_n, value, err);
    case 'a':
        w->all = true;
        return 0;
    case 'w':
        w->watch = true;
        return 0;
    case OPT_SETTLED:
        return cli_length("--settled", value, 1, 86400000, &w->settled_ms, err);
    case OPT_POLL:
        return cli_length("--poll", value, 100, 86400000, &w->poll_ms, err);
    case 'n':
        w->dry_run = true;
        return 0;
    case 'p':
        w->has_priority = store_priority_of(value, &w->priority);
        return w->has_priority ? 0
                               : err_set(err, ERR_USAGE,
                                         "--priority: '%.40s' is not high, normal or low", value);
    case 'm':
        w->wish.model = value;
        return 0;
    case OPT_AGAIN:
        w->again = true;
        return 0;
    case OPT_ALLOW_UNSANDBOXED:
        w->unsandboxed = true;
        return 0;
    case OPT_HIDDEN:
        w->hidden = true;
        return 0;
    case OPT_FOLLOW:
        w->follow = true;
        return 0;
    case OPT_ONE_FILE_SYSTEM:
        w->one_file_system = true;
        return 0;
    default:
        return enqueue_wish_knows(option)
                   ? enqueue_wish_take(&w->wish, option, value,
                                       optind < w->argc ? w->argv[optind] : NULL, err)
                   : enqueue_params_take(&w->wish.params, option, value, err);
    }
}

static void values(const struct complete *c, int option, void *arg)
{
    enqueue_wish_values(&((const struct wanted *)arg)->wish, option, c);
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

static int open_catalog(struct cli *cli, const struct wanted *w, struct writer **writer,
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

struct enqueuing {
    struct cli *cli;
    struct wanted *w;
    struct groups groups;
    struct again again;
    char **roots;
    uint32_t root_count;
    const char *line; /* the command's own */
};

static int enqueue_all(struct enqueuing *e)
{
    struct cli *cli = e->cli;
    const struct wanted *w = e->w;
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
                                .settled_ms = w->settled_ms,
                                .as_of_ms = w->as_of_ms,
                                .has_priority = w->has_priority,
                                .priority = w->priority,
                                .groups = &e->groups,
                                .command_line = e->line};
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
    rc = enqueue_paths(&o, writer, known, (const char *const *)e->roots, e->root_count, &r, &err);
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

/* What the catalog has so far; NULL when there is none, or none that can be read: then who writes
 * says why. One of an older version is brought up to date first. */
static struct store *look_at_catalog(const struct cli *cli, const struct wanted *w)
{
    struct writer *writer = NULL;
    struct store *st = NULL;
    struct err err = {0};

    if (store_open(cli->catalog, STORE_READ, &st, &err) == ERR_VERSION && !w->dry_run) {
        if (writer_open(cli->catalog, "enqueue", 10000, cli->quiet, &writer, &err) == 0) {
            writer_close(writer);
            (void)store_open(cli->catalog, STORE_READ, &st, &err);
        }
    }
    return st;
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
    const struct wanted *w = e->w;
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
        cli_note(
            "%s Nothing was enqueued: try --again to do that, or no word on how, which goes on "
            "as last time.",
            text ? text : "");
        status = cli_flush(EX_USAGE);
    }
    buf_free(&b);
    return status;
}

/* -1: go on. */
static int settle_stages(struct enqueuing *e)
{
    struct wanted *w = e->w;
    struct store *known = look_at_catalog(e->cli, w);
    struct err err = {0};
    char doing[200] = "";
    int rc = enqueue_wish_agree(&w->wish, &err);

    if (rc == 0)
        rc = groups_make(&w->wish, w->again, known, (const char *const *)e->roots, e->root_count,
                         &e->groups, doing, &err);
    if (rc == 0) {
        snprintf(doing, sizeof(doing), "compare with last time");
        rc = again_count(&e->groups, known, &e->again, &err);
    }
    store_close(known);
    if (rc == 0)
        return allow_again(e);
    return doing[0] == 0 ? cli_usage(e->cli, "%s", err.msg) : cli_fail(doing, &err, NULL);
}

/* --help and the options, of which ours are a part. */
static int parse(struct cli *cli, struct wanted *w, int argc, char **argv)
{
    struct option longs[OWN + ENQUEUE_STAGES_OPTIONS + 1 + ENQUEUE_PARAMS_MAX + 1] = {0};
    size_t n = OWN;
    struct buf help = BUF_INIT;
    struct cli_spec spec = {NULL, "i:x:awp:m:l:n", longs, take, true, values};
    int status;

    memcpy(longs, own, sizeof(own));
    n += enqueue_wish_options(&w->wish, longs + n);
    enqueue_params_options(&w->wish.params, longs + n);
    buf_printf(&help, "%s", help_head);
    enqueue_params_help(&w->wish.params, &help);
    enqueue_wish_help(&w->wish, &help);
    buf_printf(&help, "%s", help_tail);
    spec.help = buf_cstr(&help);
    if (!spec.help)
        spec.help = help_head;
    status = cli_parse(cli, &spec, w, argc, argv);
    buf_free(&help);
    return status;
}

/* Where none of them is there, no catalog is made and no job begun: each is said. One that cannot
 * be looked at is there as far as anybody knows. */
static bool any_there(char **roots, uint32_t n)
{
    struct err err = {0};
    struct stat st;

    for (uint32_t i = 0; i < n; i++)
        if (stat(roots[i], &st) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP))
            return true;
    for (uint32_t i = 0; i < n; i++) {
        err_set(&err, ERR_MISSING, "'%s': there is no such file or folder", roots[i]);
        cli_fail("enqueue", &err, "Look at its name (ls).");
    }
    return false;
}

/* -1: go on, with roots that are absolute. */
static int take_roots(struct enqueuing *e, int argc, char **argv)
{
    struct err err = {0};

    if (optind >= argc)
        return cli_usage(e->cli, "which files or folders?");
    e->roots = calloc((size_t)(argc - optind) + 1, sizeof(*e->roots));
    if (!e->roots || !e->line) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("enqueue", &err, NULL);
    }
    for (; optind < argc; optind++, e->root_count++)
        if (cli_absolute(argv[optind], &e->roots[e->root_count], &err) != 0)
            return cli_fail("enqueue", &err, NULL);
    return any_there(e->roots, e->root_count) ? -1 : EX_NOINPUT;
}

/* The command that follows when something has come: as last asked, so without a word on how. */
static const char **words_of(const struct enqueuing *e, char as_of[WATCHING_AS_OF],
                             char settled[32])
{
    const struct wanted *w = e->w;
    const char **v = calloc(2 * (w->include_n + w->exclude_n) + e->root_count + 20, sizeof(*v));
    size_t n = 0;

    if (!v)
        return NULL;
    snprintf(settled, 32, "--settled=%.3fs", (double)w->settled_ms / 1000);
    v[n++] = "nightshift";
    v[n++] = "watched";
    v[n++] = e->line;
    v[n++] = as_of;
    v[n++] = settled;
    v[n++] = "--catalog";
    v[n++] = e->cli->catalog;
    if (e->cli->quiet)
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
    for (uint32_t i = 0; i < e->root_count; i++)
        v[n++] = e->roots[i];
    return v;
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

static int watch(struct enqueuing *e)
{
    struct watching watching = {.roots = (const char *const *)e->roots,
                                .root_count = e->root_count,
                                .hidden = e->w->hidden,
                                .settled_ms = e->w->settled_ms,
                                .poll_ms = e->w->poll_ms};
    char as_of[WATCHING_AS_OF] = "", settled[32];
    const char **words = words_of(e, as_of, settled);
    struct err err = {0};
    int rc;

    watching.argv = words;
    watching.as_of = as_of;
    if (e->w->of_run)
        wait_for_run(e->cli->catalog);
    rc = words ? watching_run(&watching, &err) : err_set(&err, ERR_NOMEM, "out of memory");
    free(words);
    return rc == 0 ? EX_OK : cli_fail("watch", &err, NULL);
}

static bool is_well(int status) { return status == EX_OK || status == EX_NOINPUT; }

/* Whatever the first look has found: a folder that is not there may come. */
static int take_all(struct enqueuing *e)
{
    struct wanted *w = e->w;
    struct err err = {0};
    int status = -1;

    if (w->watch && w->dry_run)
        return cli_usage(e->cli, "--watch and --dry-run do not go together");
    if (w->settled_ms < 0)
        w->settled_ms = w->watch ? SETTLED_MS : 0;
    if (cli_catalog(e->cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (!w->of_run)
        status = settle_stages(e);
    if (status >= 0)
        return status;
    if (cli_catalog(e->cli, !w->dry_run, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    status = w->of_run ? EX_OK : enqueue_all(e);
    return w->watch && is_well(status) ? watch(e) : status;
}

static int enqueue(struct cli *cli, int argc, char **argv, bool of_run, int64_t as_of_ms)
{
    struct wanted w = {.settled_ms = -1,
                       .as_of_ms = as_of_ms,
                       .poll_ms = POLL_MS,
                       .watch = of_run,
                       .of_run = of_run};
    struct enqueuing e = {.cli = cli, .w = &w};
    char *line;
    int status;

    enqueue_wish_init(&w.wish);
    e.line = line =
        cli->said ? strdup(cli->said) : cli_command_line(argc, argv); /* before getopt sorts it */
    w.argc = argc;
    w.argv = argv;
    status = parse(cli, &w, argc, argv);
    if (status < 0)
        status = take_roots(&e, argc, argv);
    if (status < 0)
        status = take_all(&e);
    for (uint32_t i = 0; i < e.root_count; i++)
        free(e.roots[i]);
    free(e.roots);
    free(line);
    again_free(&e.again);
    groups_free(&e.groups);
    free(w.include);
    free(w.exclude);
    return status;
}

int cmd_enqueue(struct cli *cli, int argc, char **argv)
{
    return enqueue(cli, argc, argv, false, 0);
}

static int started_by_hand(struct cli *cli)
{
    return cli_usage(cli, "this is started by `nightshift enqueue --watch` alone");
}

/* The word before the options stands where getopt expects the command's name. */
int cmd_watcher(struct cli *cli, int argc, char **argv)
{
    if (!spawn_begun(STDIN_FILENO))
        return EX_UNAVAILABLE;
    if (argc < 2)
        return started_by_hand(cli);
    cli->said = argv[1];
    return enqueue(cli, argc - 1, argv + 1, true, 0);
}

int cmd_watched(struct cli *cli, int argc, char **argv)
{
    if (argc < 3)
        return started_by_hand(cli);
    cli->said = argv[1];
    return enqueue(cli, argc - 2, argv + 2, false, strtoll(argv[2], NULL, 10));
}

size_t cmd_enqueue_options(struct option *ret, size_t max)
{
    struct option longs[OWN + ENQUEUE_STAGES_OPTIONS + 1 + ENQUEUE_PARAMS_MAX + 1] = {0};
    struct wanted w = {0};
    size_t n = OWN;

    enqueue_wish_init(&w.wish);
    memcpy(longs, own, sizeof(own));
    n += enqueue_wish_options(&w.wish, longs + n);
    enqueue_params_options(&w.wish.params, longs + n);
    for (n = 0; n < max && longs[n].name; n++) {
        ret[n] = longs[n];
        ret[n].name = strdup(longs[n].name); /* theirs go with the wish */
        if (!ret[n].name)
            break;
    }
    return n;
}
