/* nightshift describe: what a list beside the files says of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/describe/describe.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/writer.h"

#define TABLE_MAX ((size_t)256 << 20)
#define NOTES_SHOWN 20
#define NOTES_KEPT 1000
#define AT_ONCE 1024 /* recordings, and so values of at most that many rows, in one request */

struct task {
    struct cli *cli;
    bool dry_run, through_run;
    struct buf text;
    char *file, *folder; /* absolute */
    struct described described;
    uint64_t applied, notes; /* recordings */
    json_t *json;            /* the notes; NULL: for people */
};

/* ---- reading */

static int read_file(const char *path, struct buf *ret, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;

    ret->max = TABLE_MAX + 1;
    while (got > 0) {
        uint8_t *to = buf_reserve(ret, (size_t)1 << 16);

        if (!to)
            break;
        do
            got = read(fd, to, (size_t)1 << 16);
        while (got < 0 && errno == EINTR);
        ret->len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0 && errno == EISDIR)
        err_set(err, ERR_INPUT, "'%.300s' is a folder: try the file of the list", path);
    else if (got < 0)
        err_sys(err, errno, "read '%.300s'", path);
    else if (ret->len > TABLE_MAX - ((size_t)1 << 16))
        err_set(err, ERR_LIMIT, "'%.300s' is longer than 256 MiB", path);
    else if (ret->failed || !buf_reserve(ret, 1))
        err_set(err, ERR_NOMEM, "out of memory");
    if (fd >= 0)
        close(fd);
    return err->code;
}

static void on_note(void *arg, uint64_t line, bool left_out, const char *sentence)
{
    struct task *t = arg;
    char *shown = utf8_display(sentence, strlen(sentence));

    t->notes++;
    if (t->json && t->notes <= NOTES_KEPT && shown)
        json_array_append_new(t->json, json_pack("{s:I, s:b, s:s}", "line", (json_int_t)line,
                                                 "left_out", (int)left_out, "message", shown));
    else if (!t->json && t->notes <= NOTES_SHOWN && shown)
        cli_note("line %llu: %s", (unsigned long long)line, shown);
    free(shown);
}

static int read_table(struct task *t, struct store *st, struct err *err)
{
    struct lookup *lookup = NULL;
    struct csv table = {0};
    int rc = lookup_new(st, t->folder, &lookup, err);

    if (rc == 0)
        rc = csv_begin(&table, (char *)t->text.data, t->text.len, err);
    if (rc == 0)
        rc = describe_read(&table, lookup, on_note, t, &t->described, err);
    if (rc == ERR_INPUT)
        err_prefix(err, "'%.200s'", t->file);
    csv_free(&table);
    lookup_free(lookup);
    return rc;
}

/* ---- writing */

static size_t bytes_of(const struct request_description *d)
{
    size_t n = 64;

    for (uint32_t i = 0; i < d->value_count; i++)
        n += strlen(d->values[i].key) + strlen(d->values[i].value) + 16;
    return n;
}

static int send_descriptions(struct task *t, struct err *err)
{
    const struct described *d = &t->described;
    struct writer *writer = NULL;
    int rc = writer_open(t->cli->catalog, "describe", 10000, t->cli->quiet, &writer, err);

    for (size_t i = 0; rc == 0 && i < d->count;) {
        struct request rq = {.type = REQUEST_DESCRIBE, .descriptions = &d->list[i]};
        struct request_reply reply = {0};
        size_t bytes = 0;

        do
            bytes += bytes_of(&d->list[i++]);
        while (++rq.count < AT_ONCE && i < d->count && bytes < REQUEST_SOFT_BYTES);
        rc = writer_request(writer, &rq, &reply, err);
        t->applied += reply.affected;
    }
    t->through_run = writer && writer_through_run(writer);
    writer_close(writer);
    return rc;
}

/* ---- what became of it */

static void print_json(const struct task *t)
{
    json_t *o = json_pack("{s:I, s:I, s:I, s:b, s:b, s:O}", "lines", (json_int_t)t->described.lines,
                          "described", (json_int_t)t->applied, "left_out",
                          (json_int_t)t->described.left_out, "dry_run", (int)t->dry_run,
                          "through_run", (int)t->through_run, "notes", t->json);

    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

static void print_for_people(const struct task *t)
{
    const struct described *d = &t->described;
    char said[TEXT_LEN], done[TEXT_LEN], all[TEXT_LEN], out[TEXT_LEN];

    if (t->notes > NOTES_SHOWN)
        cli_note("... and %s more", text_count(t->notes - NOTES_SHOWN, out));
    if (t->cli->quiet)
        return;
    if (d->lines == 0) {
        puts("The list has no line below its first one.");
        return;
    }
    printf(t->dry_run ? "%s of %s %s would describe %s %s.\n" : "%s of %s %s described %s %s.\n",
           text_count(d->lines - d->left_out, said), text_count(d->lines, all),
           text_plural(d->lines, "line", "lines"), text_count(t->applied, done),
           text_plural(t->applied, "recording", "recordings"));
    if (d->left_out > 0)
        printf("%s %s left out.\n", text_count(d->left_out, out),
               text_plural(d->left_out, "line was", "lines were"));
}

static int describe_recordings(struct task *t, const char *path)
{
    struct store *st = NULL;
    struct err err = {0};
    char *slash;

    if (read_file(path, &t->text, &err) != 0 || cli_absolute(path, &t->file, &err) != 0)
        return cli_fail("read the list", &err, NULL);
    t->folder = strdup(t->file);
    slash = t->folder ? strrchr(t->folder, '/') : NULL;
    if (!slash) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("read the list", &err, NULL);
    }
    *slash = '\0';
    if (cli_catalog(t->cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (store_open(t->cli->catalog, STORE_READ, &st, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    read_table(t, st, &err);
    store_close(st);
    if (err.code != 0)
        return cli_fail("take the list", &err, "Nothing was changed.");
    if (!t->dry_run && t->described.count > 0 && send_descriptions(t, &err) != 0)
        return cli_fail("change the catalog", &err, NULL);
    if (t->dry_run || t->applied > t->described.recordings)
        t->applied = t->described.recordings;
    if (t->json)
        print_json(t);
    else
        print_for_people(t);
    return t->described.left_out > 0 ? EX_NOINPUT : EX_OK;
}

struct wanted {
    bool dry_run;
};

static const struct command_option options[] = {
    {COMMAND_SWITCH("dry-run", 'n', wanted, dry_run, "only show what would change")},
    {0},
};

const struct command command_describe = {
    .name = "describe",
    .usage = "[OPTION]... FILE.csv",
    .about = "Add what a CSV list says about recordings: dates, people, numbers. The first line "
             "names the columns, separated by commas, semicolons or tabs.\nOne column identifies "
             "the recording: path, file or filename (absolute, relative to the list's folder, a "
             "unique name, or ARCHIVE//MEMBER), or its number in media_id, recording or number. "
             "The other columns are stored in the view `tags`. date (2003, 2003-05 or 2003-05-17) "
             "is the date of recording, title its title.\nA column replaces an earlier one of the "
             "same name; an empty field removes the value. This also works during a run.",
    .options = options,
    .json = "the result as JSON",
    .quiet = "print only errors and warnings",
    .examples = "describe /archive/index.csv\n"
                "describe --dry-run tapes.csv",
    .statuses = "0; 65 if the list cannot be read; 66 if lines were skipped, or the file does not "
                "exist; others: see sysexits.h.",
};

int cmd_describe(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct task t = {.cli = cli};
    int status = command_parse(cli, &command_describe, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind + 1 != argc)
        return cli_usage(cli, optind < argc ? "name only one list" : "name a list");
    t.dry_run = w.dry_run;
    t.json = cli->json ? json_array() : NULL;
    status = describe_recordings(&t, argv[optind]);
    described_free(&t.described);
    json_decref(t.json);
    buf_free(&t.text);
    free(t.file);
    free(t.folder);
    return cli_flush(status);
}
