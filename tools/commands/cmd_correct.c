/* nightshift correct: what was really said. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/correct/changes.h"
#include "tools/correct/edited.h"
#include "tools/correct/preview.h"
#include "tools/correct/replace.h"
#include "tools/export/cues.h"
#include "tools/recording.h"
#include "tools/search/search_absence.h"

#define NAME_MAX_BYTES 200 /* of who corrects */

struct wanted {
    const char *replace, *at, *by;
    bool as_heard, list, conflicts, dry_run, yes;
    uint32_t keep, undo;
};

enum { OPTION_CONFLICTS = 256 };

/* Words that are handed to the catalog and printed by others. */
static bool is_name(const char *s)
{
    size_t n = strlen(s);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7F)
            return false;
    return n > 0 && n <= NAME_MAX_BYTES && utf8_valid(s, n);
}

static int take_replace(void *wanted, const char *value, struct err *err)
{
    ((struct wanted *)wanted)->replace = value;
    return value[strspn(value, " \t\n")] != 0 && utf8_valid(value, strlen(value))
               ? 0
               : err_set(err, ERR_USAGE, "--replace wants words in UTF-8");
}

static int take_by(void *wanted, const char *value, struct err *err)
{
    ((struct wanted *)wanted)->by = value;
    return is_name(value)
               ? 0
               : err_set(err, ERR_USAGE, "--by wants a name of at most %d bytes in UTF-8",
                         NAME_MAX_BYTES);
}

struct task {
    struct cli *cli;
    const struct wanted *w;
    struct store *store;
    struct changes changes;
    struct edited edited; /* of a file */
    char *source;         /* owned */
    uint64_t affected;
    bool through_run;
};

/* Who sits here. */
static const char *made_by(const struct wanted *w)
{
    static char number[32];
    const struct passwd *user = w->by ? NULL : getpwuid(getuid());

    if (w->by)
        return w->by;
    if (user && is_name(user->pw_name))
        return user->pw_name;
    snprintf(number, sizeof(number), "user %u", (unsigned)getuid());
    return number;
}

/* ------------------------------------------------------------------------------------- applying */

static int open_writer(const struct task *t, struct writer **ret, struct err *err)
{
    return writer_open(t->cli->catalog, "correct", 10000, t->cli->quiet, ret, err);
}

/* Before anything is shown as if it changed. The catalog is let go again while people read. */
static int check_writable(const struct task *t, struct err *err)
{
    struct writer *writer = NULL;
    int rc = open_writer(t, &writer, err);

    writer_close(writer);
    return rc;
}

static int apply_changes(struct task *t, struct err *err)
{
    struct writer *writer = NULL;
    int rc = open_writer(t, &writer, err);

    if (rc == 0)
        rc = changes_apply(&t->changes, writer, made_by(t->w), t->source, &t->affected, err);
    t->through_run = writer && writer_through_run(writer);
    writer_close(writer);
    return rc;
}

static void print_json(const struct task *t, bool applied)
{
    json_t *changes = preview_json(&t->changes), *refused = preview_json(&t->edited.refused);
    json_t *o =
        json_pack("{s:o, s:o, s:I, s:b, s:b, s:I, s:I, s:I, s:I}", "changes", changes, "refused",
                  refused, "corrected", (json_int_t)t->affected, "dry_run", (int)!applied,
                  "through_run", (int)t->through_run, "segments", (json_int_t)t->edited.segments,
                  "before", (json_int_t)t->edited.before, "behind", (json_int_t)t->edited.behind,
                  "left_out", (json_int_t)t->edited.nowhere);

    if (o)
        json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

/* Reports passages that others changed since the file was made: they are not corrected. The note
 * appears even with --quiet. */
static int print_refused(const struct task *t, struct err *err)
{
    const struct changes *refused = &t->edited.refused;
    char n[TEXT_LEN];
    int rc = 0;

    if (!t->cli->json && !t->cli->quiet && refused->count > 0) {
        puts("The text now, and what the file has instead:");
        rc = preview_changes(refused, false, err);
        fflush(stdout);
    }
    if (rc == 0 && refused->count > 0)
        cli_note("%s %s changed since the file was made: not corrected. `nightshift correct --at` "
                 "corrects one",
                 text_count(refused->count, n),
                 text_plural(refused->count, "passage has", "passages have"));
    return rc;
}

/* Prints how many segments the file lacks, and how many of its words were left out. */
static void print_rest(const struct edited *e)
{
    char before[TEXT_LEN], behind[TEXT_LEN];

    if (e->before + e->behind > 0)
        printf("The file has a part of the recording: %s %s before and %s behind stay.\n",
               text_count(e->before, before), text_plural(e->before, "segment", "segments"),
               text_count(e->behind, behind));
    if (e->nowhere > 0)
        printf("%s of its words %s to no segment: left out.\n", text_count(e->nowhere, before),
               text_plural(e->nowhere, "belongs", "belong"));
}

static void print_sum(const struct task *t, bool applied)
{
    char n[TEXT_LEN], of[TEXT_LEN];
    uint64_t count = applied ? t->affected : t->changes.count;

    if (count == 0)
        puts("Nothing changes.");
    else if (t->w->as_heard)
        puts(applied ? "It is confirmed as it is." : "It would be confirmed as it is.");
    else if (t->changes.recordings > 1)
        printf(applied ? "%s %s of %s recordings corrected.\n"
                       : "%s %s of %s recordings would be corrected.\n",
               text_count(count, n), text_plural(count, "segment", "segments"),
               text_count(t->changes.recordings, of));
    else
        printf(applied ? "%s %s corrected.\n" : "%s %s would be corrected.\n", text_count(count, n),
               text_plural(count, "segment", "segments"));
    print_rest(&t->edited);
}

/* Only --replace asks: one word may change many segments, but a file is a decision already. */
static bool asks(const struct task *t) { return t->w->replace && !t->w->yes; }

static bool may_apply(const struct task *t)
{
    return !asks(t) || (cli_can_ask(t->cli) && cli_confirmed("Replace them?"));
}

/* Shows the changes, applies them and says so. */
static int preview_and_apply(struct task *t)
{
    struct err err = {0};
    bool go = t->changes.count > 0 && !t->w->dry_run;
    const int status = t->edited.refused.count > 0 ? EX_DATAERR : EX_OK;

    if (go && (!asks(t) || cli_can_ask(t->cli)) && check_writable(t, &err) != 0)
        return cli_fail("correct it", &err, NULL);
    if (!t->cli->json && !t->cli->quiet &&
        preview_changes(&t->changes, t->w->replace != NULL, &err) != 0)
        return cli_fail("show what changes", &err, NULL);
    if (go && !may_apply(t)) {
        if (!cli_can_ask(t->cli))
            return cli_unasked(t->cli, "it replaces");
        go = false;
    }
    if (go && apply_changes(t, &err) != 0)
        return cli_fail("correct it", &err,
                        err.code == ERR_INPUT
                            ? "It may have been transcribed or corrected meanwhile: try again."
                            : NULL);
    if (t->cli->json)
        print_json(t, go || (t->changes.count == 0 && !t->w->dry_run));
    else if (!t->cli->quiet)
        print_sum(t, go);
    if (print_refused(t, &err) != 0)
        return cli_fail("show what does not change", &err, NULL);
    return cli_flush(status);
}

/* ---------------------------------------------------------------------------------- recordings */

static int find_failed(const struct err *err)
{
    int status =
        cli_fail("correct it", err,
                 err->code == ERR_MISSING
                     ? "Try another part of its path, or `nightshift search` for its words."
                     : NULL);

    return err->code == ERR_MISSING ? EX_NOINPUT : status;
}

static int begin_recording_changes(void *arg, const struct read_recording *row)
{
    struct task *t = arg;
    struct err none = {0};
    int rc = changes_begin(&t->changes, row->media_id, row->path, row->member, &none);

    return rc == 0 ? changes_begin(&t->edited.refused, row->media_id, row->path, row->member, &none)
                   : rc;
}

static int begin_recording(struct task *t, int64_t media_id, struct err *err)
{
    int rc = read_recording_by_id(t->store, media_id, begin_recording_changes, t, err);

    return rc != 0 && err->code == 0 ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

static int set_source(struct task *t, const char *what, const char *name, struct err *err)
{
    char *shown = utf8_display(name, strlen(name));

    if (!shown || asprintf(&t->source, "%s%.300s", what, shown) < 0)
        t->source = NULL;
    free(shown);
    return t->source ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int by_file(struct task *t, const char *recording, const char *file)
{
    const char *slash = strrchr(file, '/');
    struct err err = {0};
    int64_t id;

    if (recording_find(t->store, recording, &id, &err) != 0)
        return find_failed(&err);
    if (set_source(t, "file ", slash ? slash + 1 : file, &err) != 0 ||
        begin_recording(t, id, &err) != 0 ||
        edited_read(t->store, id, file, &t->changes, &t->edited, &err) != 0)
        return cli_fail("take the file", &err, "Nothing was changed.");
    return preview_and_apply(t);
}

/* ------------------------------------------------------------------------------------ one place */

static int nobody_then(const struct current *c, int64_t ms, struct err *err)
{
    char then[CLOCK_HMS_LEN], near[CLOCK_HMS_LEN];
    int64_t best = -1;

    for (size_t i = 0; i < c->count; i++)
        if (best < 0 || llabs(c->list[i].start_ms - ms) < llabs(best - ms))
            best = c->list[i].start_ms;
    clock_hms(ms, then);
    clock_hms(best < 0 ? 0 : best, near);
    if (best < 0)
        return err_set(err, ERR_INPUT,
                       "there is no transcript of it. `nightshift show` says what there is");
    return err_set(err, ERR_INPUT,
                   "nothing is said at %s: try %s, where the nearest segment begins", then, near);
}

static int add_one(struct task *t, int64_t id, int64_t ms, const char *text, struct err *err)
{
    const struct current_segment *s;
    struct current c = {0};
    char at[CLOCK_HMS_LEN];
    int rc = current_read(t->store, id, &c, err);

    s = rc == 0 ? current_at(&c, ms) : NULL;
    if (rc == 0 && !s)
        rc = nobody_then(&c, ms, err);
    if (rc == 0)
        clock_hms(s->start_ms, at);
    if (rc == 0)
        rc = set_source(t, "at ", at, err);
    if (rc == 0)
        rc = begin_recording(t, id, err);
    if (rc == 0)
        rc = changes_add(&t->changes, s, text ? text : s->text, !text, err);
    current_free(&c);
    return rc;
}

/* text NULL: as it stands. */
static int by_time(struct task *t, const char *recording, const char *text)
{
    struct err err = {0};
    int64_t ms = cues_time_whole(t->w->at), id;

    if (ms < 0)
        return cli_usage(t->cli, "--at wants a time such as 12:34.5, not '%s'", t->w->at);
    if (recording_find(t->store, recording, &id, &err) != 0)
        return find_failed(&err);
    if (add_one(t, id, ms, text, &err) != 0)
        return cli_fail("correct it", &err, NULL);
    return preview_and_apply(t);
}

/* -------------------------------------------------------------------------------------- replace */

struct replacing {
    struct task *t;
    const char *with;
    const struct read_recording *recording;
    bool begun;
    size_t known; /* changes of paths before this one */
    struct err err;
};

static int on_segment(void *arg, const struct read_segment *row)
{
    struct replacing *r = arg;
    struct changes *changes = &r->t->changes;
    const struct current_segment s = {row->segment_id, row->start_ms, row->end_ms,
                                      (char *)row->text,
                                      (char *)(row->heard ? row->heard : row->text)};
    char *text = NULL;
    size_t count;
    int rc = replace_words(row->text, r->t->w->replace, r->with, &text, &count, &r->err);

    if (rc == 0 && text && !r->begun) {
        rc = changes_begin(changes, r->recording->media_id, r->recording->path,
                           r->recording->member, &r->err);
        r->begun = true;
    }
    if (rc == 0 && text)
        rc = changes_add(changes, &s, text, false, &r->err);
    free(text);
    return rc;
}

static int on_recording(void *arg, const struct read_recording *row)
{
    struct replacing *r = arg;

    for (size_t i = 0; i < r->known; i++)
        if (r->t->changes.list[i].media_id == row->media_id)
            return 0;
    r->recording = row;
    r->begun = false;
    return row->transcript[0] ? read_segments(r->t->store, row->media_id, 0, on_segment, r, &r->err)
                              : 0;
}

/* The path as the catalog shows it; *ret is the caller's. */
static int shown_path(const char *name, char **ret, struct err *err)
{
    char *path = NULL;
    int rc = cli_place(name, &path, err);

    if (rc == 0 && !(*ret = utf8_display(path, strlen(path))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    free(path);
    return rc;
}

/* name NULL: everywhere. */
static int replace_below(struct replacing *r, const char *name, struct err *err)
{
    struct read_filter filter = {0};
    char *path = NULL;
    int rc = name ? shown_path(name, &path, err) : 0;

    if (rc == 0 && path)
        rc = search_check(r->t->store, &(struct search_wish){.path = path}, err);
    filter.path = path;
    r->known = r->t->changes.count;
    if (rc == 0)
        rc = read_recordings(r->t->store, &filter, on_recording, r, err);
    if (rc != 0 && r->err.code != 0)
        *err = r->err;
    free(path);
    return rc;
}

static int by_words(struct task *t, const char *with, char **paths, int n)
{
    struct replacing r = {.t = t, .with = with};
    struct err err = {0};
    int rc;

    if (!utf8_valid(with, strlen(with)))
        return cli_usage(t->cli, "the new text is not UTF-8");
    rc = set_source(t, "replace", "", &err);
    if (rc == 0 && n == 0)
        rc = replace_below(&r, NULL, &err);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = replace_below(&r, paths[i], &err);
    return rc == 0 ? preview_and_apply(t) : cli_fail("look for it", &err, NULL);
}

/* ------------------------------------------------------------------------------ what there is */

static int choose_corrections(struct task *t, const char *what, struct read_corrections *which,
                              char **path, struct err *err)
{
    struct err other = {0};
    int rc = shown_path(what, path, err);

    if (rc == 0 && search_check(t->store, &(struct search_wish){.path = *path}, &other) == 0)
        which->path = *path;
    else if (rc == 0)
        rc = recording_find(t->store, what, &which->media_id, err);
    return rc;
}

static int list_corrections(struct task *t, const char *what)
{
    struct read_corrections which = {.state = t->w->conflicts ? "conflict" : NULL};
    struct err err = {0};
    char *path = NULL;
    uint64_t count = 0;
    int status = EX_OK;

    if (what && choose_corrections(t, what, &which, &path, &err) != 0)
        status = find_failed(&err);
    else if (listing_print(t->store, &which, t->cli->json, &count, &err) != 0)
        status = cli_fail("read the catalog", &err, NULL);
    else if (count == 0 && !t->cli->json)
        puts(t->w->conflicts ? "There are no conflicts." : "Nothing is corrected there.");
    free(path);
    return cli_flush(status);
}

static int decide_correction(struct cli *cli, const struct wanted *w)
{
    const bool undo = w->undo > 0;
    struct request rq = {.type = REQUEST_CORRECT_DECIDE,
                         .made_by = made_by(w),
                         .correction_id = undo ? w->undo : w->keep,
                         .undo = undo};
    struct request_reply reply = {0};
    struct writer *writer = NULL;
    struct err err = {0};
    int rc = writer_open(cli->catalog, "correct", 10000, cli->quiet, &writer, &err);

    if (rc == 0)
        rc = writer_request(writer, &rq, &reply, &err);
    writer_close(writer);
    if (rc != 0)
        return cli_fail("decide it", &err,
                        rc == ERR_INPUT ? "`nightshift correct --list` lists them all." : NULL);
    if (cli->json)
        printf("{\"affected\": %llu}\n", (unsigned long long)reply.affected);
    else if (!cli->quiet)
        printf(undo ? "Correction %lld is undone.\n" : "Correction %lld holds.\n",
               (long long)rq.correction_id);
    return cli_flush(EX_OK);
}

/* ------------------------------------------------------------------------------ command line */

/* -1: go on. */
static int check_usage(const struct cli *cli, const struct wanted *w, int operands)
{
    const int modes = (w->replace != NULL) + (w->at != NULL) + w->list + w->conflicts +
                      (w->keep > 0) + (w->undo > 0);

    if (modes > 1)
        return cli_usage(
            cli, "--replace, --at, --list, --conflicts, --keep and --undo do not go together");
    if (w->as_heard && !w->at)
        return cli_usage(cli, "--as-heard needs --at");
    if ((w->keep || w->undo) && operands > 0)
        return cli_usage(cli, "a correction is decided by its number alone");
    if ((w->keep || w->undo) && w->dry_run)
        return cli_usage(
            cli, "--dry-run is for what changes texts: `nightshift correct --list` shows them");
    if ((w->list || w->conflicts) && operands > 1)
        return cli_usage(cli, "one recording or path at a time");
    if (w->replace && operands < 1)
        return cli_usage(cli, "name the words to put instead");
    if (w->at && operands != 2 - w->as_heard)
        return cli_usage(cli,
                         w->as_heard ? "name a recording" : "name the recording and its new text");
    if (modes == 0 && operands != 2)
        return cli_usage(cli, "name the recording and the edited file");
    return -1;
}

static int run_correct(struct task *t, int argc, char **argv)
{
    const struct wanted *w = t->w;
    struct err err = {0};

    if (store_open(t->cli->catalog, STORE_READ, &t->store, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    if (w->keep || w->undo)
        return decide_correction(t->cli, w);
    if (w->list || w->conflicts)
        return list_corrections(t, argc > 0 ? argv[0] : NULL);
    if (w->replace)
        return by_words(t, argv[0], argv + 1, argc - 1);
    if (w->at)
        return by_time(t, argv[0], w->as_heard ? NULL : argv[1]);
    return by_file(t, argv[0], argv[1]);
}

static const struct command_option options[] = {
    {COMMAND_READ("replace", 'r', take_replace, "WORDS",
                  "replace exactly these words by OTHERS, everywhere (at or below PATH); shows the "
                  "passages and asks"),
     .manual = "Replace WORDS by OTHERS in the current transcripts: whole words, in exactly these "
               "letters, in all recordings or those at or below PATH. It shows each place and then "
               "asks. Where nobody can be asked it needs --yes."},
    {COMMAND_VALUE(COMMAND_TEXT, "at", 'a', wanted, at, "TIME",
                   "replace the text of the segment at this time (12:34.5) by TEXT; '': nothing is "
                   "said there"),
     .manual = "Replace the text of the segment at this time, such as 12:34.5, by TEXT. An empty "
               "TEXT means that nothing is said there."},
    {COMMAND_SWITCH("as-heard", 'H', wanted, as_heard, "with --at: confirm the text as it is"),
     .manual = "With --at and without a text: confirm the text as it is, so that it is no longer "
               "doubtful."},
    {COMMAND_SWITCH("list", 'l', wanted, list, "list corrections, with author and original text"),
     .manual = "List corrections, with number, author, time and original text."},
    {COMMAND_SWITCH("conflicts", 0, wanted, conflicts,
                    "list corrections that differ from a newer transcription"),
     .manual = "List corrections whose original text differs in a newer transcription. --keep or "
               "--undo decides them."},
    {COMMAND_VALUE(COMMAND_NUMBER, "keep", 'k', wanted, keep, "N",
                   "keep correction N: its words replace the newer text"),
     .low = 1, .high = UINT32_MAX},
    {COMMAND_VALUE(COMMAND_NUMBER, "undo", 'u', wanted, undo, "N", "undo correction N"), .low = 1,
     .high = UINT32_MAX},
    {COMMAND_READ("by", 'b', take_by, "NAME", "the author (default: your login name)")},
    {COMMAND_SWITCH("dry-run", 'n', wanted, dry_run, "only show what would change")},
    {COMMAND_SWITCH("yes", 'y', wanted, yes, "with --replace: do not ask")},
    {0},
};

const struct command command_correct = {
    .name = "correct",
    .usage = "[OPTION]... RECORDING FILE\n"
             "[OPTION]... --replace=WORDS OTHERS [PATH]...\n"
             "[OPTION]... --at=TIME RECORDING TEXT\n"
             "[OPTION]... --at=TIME --as-heard RECORDING\n"
             "--list|--conflicts [RECORDING|PATH]\n"
             "--keep=N|--undo=N",
    .about = "Correct transcripts. FILE is an edited export of the recording (srt, vtt, txt, tsv, "
             "json). Its words are taken, not its times; a file of a part of the recording changes "
             "only that part.\nFILE may also be what an exported page saved (export -f html). Text "
             "that has changed since the page was made is listed, not corrected (exit status "
             "65).\nThe machine's words are kept. If a recording is transcribed again, corrections "
             "are applied again where the text is the same. Otherwise they become conflicts to "
             "decide. This also works during a run.",
    .options = options,
    .json = "as JSON",
    .quiet = "print only errors and warnings",
    .examples = "export -f srt -o subtitles /archive/1990/tape-3.wav\n"
                "correct tape-3.wav subtitles/tape-3.srt\n"
                "correct --replace Sanches Sánchez /archive/1990\n"
                "correct --at 12:34.5 tape-3.wav 'We came from the harbour.'\n"
                "correct --conflicts",
};

int cmd_correct(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    struct task t = {.cli = cli, .w = &w};
    struct err err = {0};
    int status = command_parse(cli, &command_correct, &w, argc, argv);

    if (status < 0)
        status = check_usage(cli, &w, argc - optind);
    if (status >= 0)
        return status;
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    status = run_correct(&t, argc - optind, argv + optind);
    store_close(t.store);
    changes_free(&t.changes);
    changes_free(&t.edited.refused);
    free(t.source);
    return status;
}
