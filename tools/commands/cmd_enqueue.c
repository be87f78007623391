/* nightshift enqueue: finds recordings and notes in the catalog what is to be done with them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli.h"
#include "tools/enqueue/enqueue.h"
#include "tools/enqueue/enqueue_stages.h"
#include "tools/text.h"
#include "tools/writer.h"

static const char help_head[] =
    "Usage: nightshift enqueue [OPTION]... PATH...\n"
    "Find the recordings in files, folders and archives (zip, tar, 7z, iso ...), and\n"
    "note in the catalog that they are to be transcribed. Doing it again adds only\n"
    "what is new.\n"
    "\n"
    "What is taken:\n"
    "  -i, --include=GLOB       only files that fit; may be given more than once\n"
    "  -x, --exclude=GLOB       leave out files and folders that fit\n"
    "                           GLOB is held against the name, or against the path\n"
    "                           below PATH when it has a '/'; case does not matter\n"
    "      --follow             follow symbolic links\n"
    "      --one-file-system    stay on the disk that PATH is on\n"
    "  -a, --all                take every file, also what looks like no recording;\n"
    "                           inside archives recordings alone are taken\n"
    "What is done with it:\n"
    "  -m, --model=NAME         name, folder or Hugging Face id;\n"
    "                           default: whisper-nano\n";

/* The options of enqueue_params.c come here. */
static const char help_tail[] =
    "How:\n"
    "      --allow-unsandboxed  read archives also where neither Landlock nor seccomp\n"
    "                           would hold the decoders\n"
    "  -n, --dry-run            only say what would be found\n"
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
    "Exit status: 0; 66 when a PATH is not there; others as sysexits.h has them.\n";

struct wanted {
    const char **include, **exclude; /* NULL-terminated arrays of argv's strings */
    size_t include_n, exclude_n;
    bool follow, one_file_system, all, dry_run, unsandboxed;
    struct enqueue_wish wish;
    int argc; /* as getopt walks through it: */
    char **argv;
};

enum {
    OPT_ALLOW_UNSANDBOXED = 256,
    OPT_FOLLOW,
    OPT_ONE_FILE_SYSTEM,
};

static const struct option own[] = {
    {"include", required_argument, NULL, 'i'},
    {"exclude", required_argument, NULL, 'x'},
    {"follow", no_argument, NULL, OPT_FOLLOW},
    {"one-file-system", no_argument, NULL, OPT_ONE_FILE_SYSTEM},
    {"all", no_argument, NULL, 'a'},
    {"allow-unsandboxed", no_argument, NULL, OPT_ALLOW_UNSANDBOXED},
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
    case 'n':
        w->dry_run = true;
        return 0;
    case 'm':
        w->wish.model = value;
        return 0;
    case OPT_ALLOW_UNSANDBOXED:
        w->unsandboxed = true;
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

/* ------------------------------------------------------------------------------- the summary */

static json_t *json_jobs(const struct enqueue_result *r, const struct enqueue_stages *s)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < s->count; i++)
        json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:I, s:I}", "job",
                                              (json_int_t)r->jobs[i].job_id, "stage",
                                              s->stages[i].name, "model", s->stages[i].model,
                                              "tasks", (json_int_t)r->jobs[i].tasks,
                                              "not_transcribed", (json_int_t)r->jobs[i].lacking));
    return list;
}

static void print_json(const struct enqueue_result *r, const struct wanted *w,
                       const struct enqueue_stages *s)
{
    const struct store_enqueue_counts *c = &r->counts;
    const struct {
        const char *name;
        uint64_t n;
    } numbers[] = {
        {"recordings", c->seen},
        {"new", c->added},
        {"new_places", c->places},
        {"changed", c->changed},
        {"unchanged", c->unchanged},
        {"vanished", c->vanished},
        {"tasks", c->tasks},
        {"files", r->files},
        {"archives", r->archives},
        {"left_alone", r->left_alone},
        {"excluded", r->excluded},
        {"links", r->links},
        {"specials", r->specials},
        {"unreadable_files", r->unreadable_files + r->bad_archives + r->bad_members},
        {"unreadable_folders", r->unreadable_folders},
        {"missing", r->missing_roots},
    };
    json_t *o = json_pack("{s:b, s:b, s:b, s:b, s:I}", "dry_run", (int)w->dry_run, "through_run",
                          (int)r->through_run, "vanish_skipped", (int)r->vanish_skipped,
                          "voice_activity", (int)s->voice, "job", (json_int_t)r->jobs[0].job_id);

    for (size_t i = 0; o && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        json_object_set_new(o, numbers[i].name, json_integer((json_int_t)numbers[i].n));
    if (o) {
        json_object_set_new(o, "jobs", json_jobs(r, s));
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(o);
}

/* "A: x, y, z" - pieces are appended with their separators and broken at blanks at 80 columns. */
static void piece(struct buf *b, bool *first, const char *sep, uint64_t n, const char *one,
                  const char *many)
{
    char count[TEXT_LEN];

    if (n == 0)
        return;
    buf_printf(b, "%s%s %s", *first ? "" : sep, text_count(n, count), text_plural(n, one, many));
    *first = false;
}

static void to_stdout(void *arg, const char *bytes, size_t n)
{
    (void)arg;
    fwrite(bytes, 1, n, stdout);
}

static void print_wrapped(struct buf *b)
{
    char *s = buf_cstr(b);

    if (s && s[0] != 0) {
        text_wrap(to_stdout, NULL, s, 0, 0, cli_columns(stdout));
        putchar('\n');
    }
    buf_clear(b);
}

/* A line for each stage that has something new to do; what comes next is said on the last one. */
static void print_jobs(const struct enqueue_result *r, const struct enqueue_stages *s)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < s->count; i++)
        last = r->jobs[i].tasks > 0 ? i : last;
    for (uint32_t i = 0; i < s->count; i++) {
        struct buf b = BUF_INIT;
        char n[TEXT_LEN];

        if (r->jobs[i].tasks == 0)
            continue;
        buf_printf(&b, "Job %lld: %s ", (long long)r->jobs[i].job_id,
                   text_count(r->jobs[i].tasks, n));
        enqueue_stage_words(&s->stages[i], &b);
        buf_printf(&b, ".%s",
                   i < last         ? ""
                   : r->through_run ? " The run that is on takes them up."
                                    : " Next: nightshift run");
        print_wrapped(&b);
        buf_free(&b);
    }
}

/* That a model was taken which nobody named, and which does less than people may expect. */
static void print_model_note(const struct enqueue_result *r, const struct enqueue_stages *s,
                             bool dry_run)
{
    struct buf b = BUF_INIT;
    uint64_t tasks = dry_run;

    for (uint32_t i = 0; i < s->count; i++) {
        const struct stage_kind *kind = stage_kind_find(s->stages[i].name);

        if (kind && kind->embedded)
            tasks += r->jobs[i].tasks;
    }
    if (tasks > 0 && s->model_note[0] != 0) {
        buf_printf(&b, "%s", s->model_note);
        print_wrapped(&b);
    }
    buf_free(&b);
}

/* How many would be new to which stage is known when they are noted. */
static void print_dry(const struct enqueue_stages *s)
{
    struct buf b = BUF_INIT;

    buf_printf(&b, "A dry run: nothing was noted in the catalog. What is new would be there ");
    for (uint32_t i = 0; i < s->count; i++) {
        buf_printf(&b, "%s", i == 0 ? "" : i + 1 < s->count ? ", " : " and ");
        enqueue_stage_words(&s->stages[i], &b);
    }
    buf_printf(&b, ".");
    print_wrapped(&b);
    buf_free(&b);
}

/* Recordings that a stage which works on the text cannot take. */
static void print_lacking(const struct enqueue_result *r, const struct enqueue_stages *s)
{
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    for (uint32_t i = 0; i < s->count; i++) {
        if (r->jobs[i].lacking == 0)
            continue;
        buf_printf(&b,
                   "%s of them %s not transcribed, and left out of --%s: without "
                   "--no-transcribe, %s transcribed with %s first.",
                   text_count(r->jobs[i].lacking, n), text_plural(r->jobs[i].lacking, "is", "are"),
                   stage_kind_find(s->stages[i].name)->option,
                   text_plural(r->jobs[i].lacking, "it is", "they are"), s->transcribe.model);
        print_wrapped(&b);
    }
    buf_free(&b);
}

static void print_summary(const struct enqueue_result *r, const struct wanted *w,
                          const struct enqueue_stages *s)
{
    const struct store_enqueue_counts *c = &r->counts;
    struct buf b = BUF_INIT;
    uint64_t bad_files = r->unreadable_files;
    bool first = true;
    char n[TEXT_LEN];

    buf_printf(&b, "%s %s found", c->seen > 0 ? text_count(c->seen, n) : "No",
               text_plural(c->seen, "recording", "recordings"));
    if (c->seen > 0)
        buf_printf(&b, ": ");
    piece(&b, &first, ", ", c->added, "new", "new");
    piece(&b, &first, ", ", c->changed, "changed", "changed");
    piece(&b, &first, ", ", c->places, "known from another place", "known from other places");
    piece(&b, &first, ", ", c->unchanged, "known", "known");
    buf_printf(&b, ".");
    print_wrapped(&b);

    first = true;
    piece(&b, &first, "; ", r->left_alone, "file left alone (not a recording; see --all)",
          "files left alone (not recordings; see --all)");
    piece(&b, &first, "; ", r->excluded, "left out by your patterns", "left out by your patterns");
    piece(&b, &first, "; ", r->links, "symbolic link not followed (see --follow)",
          "symbolic links not followed (see --follow)");
    piece(&b, &first, "; ", r->specials, "pipe, socket or device left alone",
          "pipes, sockets or devices left alone");
    piece(&b, &first, "; ", bad_files, "file could not be read", "files could not be read");
    piece(&b, &first, "; ", r->unreadable_folders, "folder could not be read",
          "folders could not be read");
    piece(&b, &first, "; ", r->bad_archives, "archive could not be read to its end",
          "archives could not be read to their ends");
    piece(&b, &first, "; ", r->bad_members, "member of an archive could not be read",
          "members of archives could not be read");
    piece(&b, &first, "; ", c->vanished, "recording has vanished (it is not there any more)",
          "recordings have vanished (they are not there any more)");
    if (!first)
        buf_printf(&b, ".");
    print_wrapped(&b);
    if (r->vanish_skipped)
        puts("Too much was left out or unreadable to say which recordings have vanished.");
    if (r->jobs[0].tasks > 0 && s->note[0] != 0) {
        buf_printf(&b, "%s", s->note);
        print_wrapped(&b);
    }
    print_model_note(r, s, w->dry_run);
    if (w->dry_run)
        print_dry(s);
    else if (c->tasks > 0)
        print_jobs(r, s);
    print_lacking(r, s);
    buf_free(&b);
}

/* ------------------------------------------------------------------------------- the command */

static char *command_line(int argc, char **argv)
{
    struct buf b = BUF_INIT;
    char *shown, *ret = NULL;

    buf_printf(&b, "nightshift");
    for (int i = 0; i < argc && b.len < 4000; i++)
        buf_printf(&b, " %s", argv[i]);
    shown = b.failed ? NULL : utf8_display(b.data, b.len);
    ret = shown;
    buf_free(&b);
    return ret;
}

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

static int enqueue_all(struct cli *cli, const struct wanted *w, const struct enqueue_stages *s,
                       char **roots, uint32_t root_count, const char *line)
{
    struct enqueue_options o = {.catalog = cli->catalog,
                                .include = w->include,
                                .exclude = w->exclude,
                                .follow = w->follow,
                                .one_file_system = w->one_file_system,
                                .all = w->all,
                                .unsandboxed = w->unsandboxed,
                                .quiet = cli->quiet,
                                .progress = !cli->quiet && isatty(STDERR_FILENO),
                                .stages = s->stages,
                                .stage_count = s->count,
                                .keep_source = w->wish.no_transcribe,
                                .command_line = line};
    struct enqueue_result r;
    struct writer *writer = NULL;
    struct store *known = NULL;
    struct err err = {0};
    int rc = open_catalog(cli, w, &writer, &known, &err);

    if (rc != 0)
        return cli_fail("open the catalog", &err, NULL);
    allow_deep_folders();
    rc = enqueue_paths(&o, writer, known, (const char *const *)roots, root_count, &r, &err);
    if (known)
        store_close(known);
    writer_close(writer);
    if (rc != 0)
        return cli_fail("enqueue (what was found so far is kept)", &err, NULL);
    if (cli->json)
        print_json(&r, w, s);
    else if (!cli->quiet)
        print_summary(&r, w, s);
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

/* -1: go on. */
static int settle_stages(struct cli *cli, struct wanted *w, struct enqueue_stages *found)
{
    struct store *known = look_at_catalog(cli, w);
    struct err err = {0};
    char doing[200] = "";
    int rc = enqueue_wish_agree(&w->wish, &err);

    if (rc == 0)
        rc = enqueue_stages_find(&w->wish, known, found, doing, &err);
    store_close(known);
    if (rc == 0)
        return -1;
    return doing[0] == 0 ? cli_usage(cli, "%s", err.msg) : cli_fail(doing, &err, NULL);
}

/* --help and the options, of which ours are a part. */
static int parse(struct cli *cli, struct wanted *w, int argc, char **argv)
{
    struct option longs[OWN + ENQUEUE_STAGES_OPTIONS + 1 + ENQUEUE_PARAMS_MAX + 1] = {0};
    size_t n = OWN;
    struct buf help = BUF_INIT;
    struct cli_spec spec = {NULL, "i:x:am:l:n", longs, take, true, values};
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

int cmd_enqueue(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct enqueue_stages found = {0};
    struct err err = {0};
    char **roots = NULL, *line = NULL;
    uint32_t n = 0;
    int status;

    enqueue_wish_init(&w.wish);
    line = command_line(argc, argv); /* before getopt sorts it */
    w.argc = argc;
    w.argv = argv;
    status = parse(cli, &w, argc, argv);
    if (status >= 0)
        goto out;
    if (optind >= argc) {
        status = cli_usage(cli, "which files or folders?");
        goto out;
    }
    roots = calloc((size_t)(argc - optind) + 1, sizeof(*roots));
    if (!roots || !line) {
        err_set(&err, ERR_NOMEM, "out of memory");
        status = cli_fail("enqueue", &err, NULL);
        goto out;
    }
    for (; optind < argc; optind++, n++)
        if (cli_absolute(argv[optind], &roots[n], &err) != 0) {
            status = cli_fail("enqueue", &err, NULL);
            goto out;
        }
    if (!any_there(roots, n)) {
        status = EX_NOINPUT;
        goto out;
    }
    status = cli_catalog(cli, false, &err) != 0 ? cli_fail("find the catalog", &err, NULL)
                                                : settle_stages(cli, &w, &found);
    if (status < 0)
        status = cli_catalog(cli, !w.dry_run, &err) != 0
                     ? cli_fail("find the catalog", &err, NULL)
                     : enqueue_all(cli, &w, &found, roots, n, line);
out:
    for (uint32_t i = 0; i < n; i++)
        free(roots[i]);
    free(roots);
    free(line);
    enqueue_stages_free(&found);
    free(w.include);
    free(w.exclude);
    return status;
}
