/* nightshift verify: are the files' bytes what they were? */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/utf8.h"
#include "store/parting/parting.h"
#include "store/read/read.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/writer.h"

/* A commit covers at most so many files and BATCH_BYTES: an interrupted command rereads little. */
#define BATCH_FILES 256
#define PATIENCE_MS 60000 /* with another command that has the catalog */
#define BATCH_BYTES ((uint64_t)4 << 30)
#define NAMED 20 /* of a kind; of a disk that is not mounted every file is missing */

enum outcome { SAME, FIRST, REWRITTEN, CHANGED, STALE, MISSING, UNREADABLE, OUTCOMES };

static const struct {
    const char *name, *said, *problem;
} outcomes[OUTCOMES] = {
    [SAME] = {"same", "as before", NULL},
    [FIRST] = {"first", "read for the first time", NULL},
    [REWRITTEN] = {"rewritten", "replaced since they were transcribed",
                   "replaced by other content since it was transcribed: `nightshift forget --stage "
                   "N`, then `enqueue`, transcribe it again"},
    [CHANGED] = {"changed", "with other bytes",
                 "other bytes than before, with the same size and time"},
    [STALE] = {"stale", "with another size or time",
               "its size or time has changed: enqueue it again"},
    [MISSING] = {"missing", "not there", "it does not exist"},
    [UNREADABLE] = {"unreadable", "unreadable", "it cannot be read"},
};

struct file {
    char *path; /* owned, raw */
    uint64_t size_bytes;
    int64_t mtime_ns;
    bool known, known_heard;
    uint8_t hash[HASH_BYTES], heard[HASH_BYTES]; /* what it was, what its results are of */
};

struct verify {
    struct cli *cli;
    struct file *files; /* owned */
    size_t count, capacity;
    struct request_verified batch[BATCH_FILES];
    uint32_t batched;
    uint64_t batched_bytes, bytes, counts[OUTCOMES];
    char *below[OUTCOMES]; /* owned: the folder that all of a kind are below, "" the root's */
};

/* ---- which */

static int take_file(void *arg, const struct read_file *row)
{
    struct verify *v = arg;
    struct file *f;

    if (!list_grow(&v->files, &v->capacity, v->count, sizeof(*v->files)))
        return ERR_NOMEM;
    f = &v->files[v->count];
    *f = (struct file){.path = strndup(row->path_raw, row->path_raw_len),
                       .size_bytes = row->size_bytes,
                       .mtime_ns = row->mtime_ns,
                       .known = row->hash != NULL,
                       .known_heard = row->heard != NULL};
    if (!f->path)
        return ERR_NOMEM;
    if (row->hash)
        memcpy(f->hash, row->hash, sizeof(f->hash));
    if (row->heard)
        memcpy(f->heard, row->heard, sizeof(f->heard));
    v->count++;
    return 0;
}

static int read_list(struct verify *v, struct store *st, const char *arg, struct err *err)
{
    size_t before = v->count;
    char *path = NULL;
    int rc = arg ? cli_absolute(arg, &path, err) : 0;

    if (rc == 0)
        rc = read_files(st, path, take_file, v, err);
    if (rc == ERR_NOMEM)
        err_set(err, ERR_NOMEM, "out of memory");
    else if (rc == 0 && path && v->count == before)
        rc = err_set(err, ERR_MISSING, "the catalog has no file at or below '%.300s'", path);
    free(path);
    return rc;
}

/* ---- one of them */

static bool is_as_enqueued(const struct file *f, const struct stat *st)
{
    return S_ISREG(st->st_mode) && (uint64_t)st->st_size == f->size_bytes &&
           (f->mtime_ns < 0 || clock_ns_of(&st->st_mtim) == f->mtime_ns);
}

static int hash_all(struct verify *v, int fd, uint8_t ret[HASH_BYTES])
{
    struct hash *h = hash_new();
    struct err err = {0};
    uint64_t bytes = 0;
    int rc = h ? hash_put_file(h, fd, UINT64_MAX, &bytes, &err) : ERR_NOMEM;

    v->bytes += bytes;
    if (rc == 0)
        hash_get(h, ret);
    hash_free(h);
    return rc;
}

/* A file that somebody writes to meanwhile is looked at twice. */
static enum outcome look_at(struct verify *v, const struct file *f, uint8_t hash[HASH_BYTES])
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    enum outcome is = UNREADABLE;
    struct stat st;

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? MISSING : UNREADABLE;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if (fstat(fd, &st) == 0)
        is = is_as_enqueued(f, &st) ? SAME : STALE;
    if (is == SAME && hash_all(v, fd, hash) != 0)
        is = UNREADABLE;
    if (is == SAME && (fstat(fd, &st) != 0 || !is_as_enqueued(f, &st)))
        is = STALE;
    close(fd);
    if (is != SAME)
        return is;
    if (f->known)
        return memcmp(hash, f->hash, sizeof(f->hash)) == 0 ? SAME : CHANGED;
    if (f->known_heard)
        return memcmp(hash, f->heard, sizeof(f->heard)) == 0 ? SAME : REWRITTEN;
    return FIRST;
}

/* ---- what is wrong with them */

static void narrow_common_folder(char **below, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = *below;
    size_t n = 0;

    if (!folder) {
        *below = strndup(path, slash ? (size_t)(slash - path) : 0);
        return;
    }
    while (folder[n] && folder[n] == path[n])
        n++;
    if (folder[n] == 0 && path[n] == '/')
        return;
    while (n > 0 && folder[--n] != '/')
        ;
    folder[n] = 0;
}

/* Those with other bytes are what it is for: they are named all. */
static void report_bad_file(struct verify *v, const struct file *f, enum outcome is)
{
    char *shown = NULL;

    narrow_common_folder(&v->below[is], f->path);
    if (is > CHANGED && v->counts[is] > NAMED)
        return;
    shown = utf8_display(f->path, strlen(f->path));
    cli_note("'%s': %s", shown ? shown : "", outcomes[is].problem);
    free(shown);
}

/* Cuts the folder behind the first of its parts that is not there. */
static bool cut_where_absent(char *folder)
{
    struct stat st;

    for (char *end = folder; *end;) {
        const char cut = *(end = strchrnul(end + 1, '/'));

        *end = 0;
        if (stat(folder, &st) != 0 && errno == ENOENT)
            return true;
        *end = cut;
    }
    return false;
}

static void say_more(const struct verify *v, enum outcome is)
{
    char more[TEXT_LEN], all[TEXT_LEN], *folder = v->below[is], *shown;
    const char *then = is == STALE ? ": enqueue them again" : "";

    if (v->counts[is] <= NAMED)
        return;
    text_count(v->counts[is] - NAMED, more);
    text_count(v->counts[is], all);
    if (folder && is == MISSING && cut_where_absent(folder))
        then = ", which does not exist either: is its disk mounted?";
    shown = folder && *folder ? utf8_display(folder, strlen(folder)) : NULL;
    if (shown)
        cli_note("%s more %s, all %s of them below '%s'%s", more, outcomes[is].said, all, shown,
                 then);
    else
        cli_note("%s more %s%s", more, outcomes[is].said, then);
    free(shown);
}

/* ---- all of them */

/* The catalog is held for this moment alone: reading may take all night. */
static int flush_verified_batch(struct verify *v, struct err *err)
{
    struct request rq = {.type = REQUEST_VERIFIED, .verified = v->batch, .count = v->batched};
    struct request_reply reply = {0};
    struct writer *writer = NULL;
    int rc = 0;

    if (v->batched > 0)
        rc = writer_open(v->cli->catalog, "verify", PATIENCE_MS, v->cli->quiet, &writer, err);
    if (rc == 0 && writer)
        rc = writer_request(writer, &rq, &reply, err);
    writer_close(writer);
    v->batched = 0;
    v->batched_bytes = v->bytes;
    return rc;
}

static int verify_one(struct verify *v, const struct file *f, struct err *err)
{
    uint8_t hash[HASH_BYTES];
    enum outcome is = look_at(v, f, hash);
    struct request_verified *to = &v->batch[v->batched];

    v->counts[is]++;
    if (outcomes[is].problem)
        report_bad_file(v, f, is);
    if (is > CHANGED)
        return 0;
    *to = (struct request_verified){.path = f->path,
                                    .path_len = strlen(f->path),
                                    .size_bytes = f->size_bytes,
                                    .mtime_ns = f->mtime_ns,
                                    .changed = is == CHANGED};
    memcpy(to->hash, is == CHANGED ? f->hash : hash, sizeof(to->hash));
    if (++v->batched < BATCH_FILES && v->bytes - v->batched_bytes < BATCH_BYTES)
        return 0;
    return flush_verified_batch(v, err);
}

static void print_outcome(const struct verify *v)
{
    char n[TEXT_LEN], bytes[TEXT_LEN];
    struct buf b = BUF_INIT;
    bool first = true;

    if (v->cli->json) {
        json_t *o =
            json_pack("{s:I, s:I}", "files", (json_int_t)v->count, "bytes", (json_int_t)v->bytes);

        for (int i = 0; i < OUTCOMES; i++)
            json_object_set_new(o, outcomes[i].name, json_integer((json_int_t)v->counts[i]));
        json_dumpf(o, stdout, 0);
        putchar('\n');
        json_decref(o);
        return;
    }
    if (v->cli->quiet)
        return;
    buf_printf(&b, "Of %s %s (%s read): ", text_count(v->count, n),
               text_plural(v->count, "file", "files"), text_bytes(v->bytes, bytes));
    for (int i = 0; i < OUTCOMES; i++)
        if (v->counts[i] > 0 || (i == SAME && v->count == 0)) {
            buf_printf(&b, "%s%s %s", first ? "" : ", ", text_count(v->counts[i], n),
                       outcomes[i].said);
            first = false;
        }
    buf_printf(&b, ".");
    cli_print(buf_cstr(&b), 0);
    buf_free(&b);
}

static int verify_files(struct verify *v, int argc, char **argv)
{
    struct store *st = NULL;
    struct err err = {0};
    int rc;

    if (cli_catalog(v->cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (store_open(v->cli->catalog, STORE_READ, &st, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    rc = optind < argc ? 0 : read_list(v, st, NULL, &err);
    for (int i = optind; rc == 0 && i < argc; i++)
        rc = read_list(v, st, argv[i], &err);
    store_close(st);
    if (rc != 0)
        return cli_fail(
            "verify the files", &err,
            rc == ERR_MISSING
                ? "Give its whole path, as `nightshift show PART-OF-ITS-NAME` prints it."
                : NULL);
    for (size_t i = 0; rc == 0 && i < v->count; i++)
        rc = verify_one(v, &v->files[i], &err);
    if (rc == 0)
        rc = flush_verified_batch(v, &err);
    for (enum outcome is = STALE; is < OUTCOMES; is++)
        say_more(v, is);
    if (rc != 0)
        return cli_fail("verify the files", &err, NULL);
    print_outcome(v);
    if (v->counts[CHANGED] + v->counts[REWRITTEN] > 0)
        return EX_DATAERR;
    return v->counts[STALE] + v->counts[MISSING] + v->counts[UNREADABLE] > 0 ? EX_NOINPUT : EX_OK;
}

/* ---- what people read */

struct reading {
    struct store *st;
    int64_t media_id;
    uint64_t recordings, repaired, damaged;
};

static void say_place(void *arg, const struct parting_place *p)
{
    char *shown = utf8_display(p->path, strlen(p->path));

    cli_note("'%s%s%s': %s", shown ? shown : "", *p->member ? "//" : "", p->member,
             (const char *)arg);
    free(shown);
}

static void say_recording(const struct reading *r, const char *what)
{
    struct err err;

    if (parting_place(r->st, r->media_id, say_place, (void *)what, &err) != 0)
        cli_note("recording %lld: %s", (long long)r->media_id, what);
}

/* 1: there is no other. One whose results are damaged does not keep the others from it. */
static int check_next(struct reading *r, struct err *err)
{
    bool changed = false;
    int rc = store_publish_next(r->st, &r->media_id, &changed, err);

    if (rc == ERR_INPUT && r->media_id) {
        say_recording(r, err->msg);
        r->damaged++;
        *err = (struct err){0};
        return 0;
    }
    if (rc < 0 || !r->media_id)
        return rc < 0 ? rc : 1;
    r->recordings++;
    r->repaired += changed;
    if (changed)
        say_recording(r, "it differed from its results: repaired");
    return 0;
}

static void print_reading(const struct cli *cli, const struct reading *r)
{
    char all[TEXT_LEN], some[TEXT_LEN];
    struct buf b = BUF_INIT;

    if (cli->json)
        printf("{\"recordings\": %llu, \"repaired\": %llu, \"damaged\": %llu}\n",
               (unsigned long long)r->recordings, (unsigned long long)r->repaired,
               (unsigned long long)r->damaged);
    if (cli->json || cli->quiet)
        return;
    text_count(r->recordings, all);
    if (r->repaired)
        buf_printf(
            &b, "%s of %s transcribed recordings differed from their results, and were repaired.",
            text_count(r->repaired, some), all);
    else
        buf_printf(&b, "%s transcribed %s what %s results say.", all,
                   text_plural(r->recordings, "recording reads", "recordings read"),
                   text_plural(r->recordings, "its", "their"));
    cli_print(buf_cstr(&b), 0);
    buf_free(&b);
}

static int verify_reading(struct cli *cli, bool operands)
{
    struct writer *w = NULL;
    struct reading r = {0};
    struct err err = {0};
    int rc = 0;

    if (operands)
        return cli_usage(cli, "--reading checks the whole catalog: leave out the paths");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (access(cli->catalog, F_OK) != 0)
        rc = store_open(cli->catalog, STORE_READ, &r.st, &err); /* says why */
    if (rc == 0)
        rc = writer_open(cli->catalog, "verify", PATIENCE_MS, cli->quiet, &w, &err);
    if (rc == 0 && writer_through_run(w))
        rc = err_set(&err, ERR_LOCKED, "a run is active: check the catalog when it has ended");
    r.st = w ? writer_store(w) : NULL;
    while (rc == 0)
        rc = check_next(&r, &err);
    if (rc == 1 && r.repaired) /* what was changed by hand is not indexed */
        rc = store_index_texts(r.st, &err);
    writer_close(w);
    if (rc < 0)
        return cli_fail("check what people read", &err, NULL);
    print_reading(cli, &r);
    return r.repaired + r.damaged > 0 ? EX_DATAERR : EX_OK;
}

struct wanted {
    bool reading;
};

static const struct command_option options[] = {
    {COMMAND_SWITCH("reading", 0, wanted, reading,
                    "check the catalog instead: rebuild segments, words and corrections from "
                    "results, and repair differences; not during a run"),
     .manual = "Check the catalog instead of the files: rebuild segments, words and corrections "
               "from the results, name recordings that differ, and repair them. The exit status is "
               "65 then. This is not possible during a run."},
    {0},
};

const struct command command_verify = {
    .name = "verify",
    .usage = "[OPTION]... [PATH]...",
    .about =
        "Check that the files of the catalog (at or below PATH) have not changed: read all bytes "
        "and compare their hash with the earlier one. That is the hash from decoding, or from the "
        "first verify. A changed file of the same size and time is listed in the view `failures` "
        "as changed.\nFiles that were never verified come first, then those verified longest ago. "
        "An interrupted verify continues there. All changed files are named, and the first 20 that "
        "are missing, unreadable or replaced. This also works during a run.\nAn older Nightshift "
        "may have mistaken a replaced file for the earlier recording. Verify reports it once; "
        "`nightshift forget --stage N PATH` and `enqueue` transcribe it again.",
    .options = options,
    .json = "the result as JSON",
    .quiet = "print only errors and warnings",
    .examples = "verify\n"
                "verify /archive/1990",
    .statuses = "0; 65 if a file has changed, or a transcript differs from its results; 66 if a "
                "file is missing, unreadable or replaced, or the catalog has nothing at PATH; "
                "others: see sysexits.h.",
};

int cmd_verify(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct verify *v;
    int status = command_parse(cli, &command_verify, &w, argc, argv);

    if (status >= 0)
        return status;
    if (w.reading)
        return cli_flush(verify_reading(cli, optind < argc));
    v = calloc(1, sizeof(*v));
    if (!v) {
        struct err err = {0};

        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("verify the files", &err, NULL);
    }
    v->cli = cli;
    status = verify_files(v, argc, argv);
    for (size_t i = 0; i < v->count; i++)
        free(v->files[i].path);
    free(v->files);
    for (int i = 0; i < OUTCOMES; i++)
        free(v->below[i]);
    free(v);
    return cli_flush(status);
}
