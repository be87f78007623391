#include "tools/enqueue/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/option_words.h"
#include "tools/cli/text.h"

/* ------------------------------------------------------------------------------- as JSON */

static json_t *json_again(const struct again *a)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < a->count; i++) {
        const struct again_item *k = &a->items[i];

        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "stage",
                                        k->stage->name, "model", k->stage->model, "differs",
                                        k->differs, "recordings", (json_int_t)k->recordings,
                                        "known_ms", (json_int_t)k->known_ms, "unknown_length",
                                        (json_int_t)k->unknown, "have_it", (json_int_t)k->have));
    }
    return list;
}

/* begun: its first members are written already, and its brace. */
static void print_json_object(json_t *o, bool begun)
{
    char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;

    if (text)
        puts(begun ? text + strlen("{\n") : text);
    free(text);
    json_decref(o);
}

void summary_refused_json(const struct again *a)
{
    print_json_object(json_pack("{s:o}", "again", json_again(a)), false);
}

static json_t *json_jobs(const struct groups *g)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++) {
            const struct groups_kind *k = &g->list[i].kinds[j];

            json_array_append_new(
                list, json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "job",
                                (json_int_t)k->job_id, "stage", k->stage.name, "model",
                                k->stage.model, "tasks", (json_int_t)k->tasks, "not_transcribed",
                                (json_int_t)k->lacking, "current_again", (json_int_t)k->restored,
                                "waiting_again", (json_int_t)k->reasked, "not_otherwise",
                                (json_int_t)k->instead, "as_last_time", (int)k->kept));
        }
    return list;
}

static bool has_voice(const struct groups *g)
{
    const struct store_stage *s = &g->list[0].kinds[0].stage;
    struct transcribe_params p;
    struct err ignored = {0};

    return strcmp(s->name, stage_transcribe.name) == 0 &&
           transcribe_params_from_json(s->params_json, &p, &ignored) == 0 && p.vad_model[0] != 0;
}

void summary_json(const struct summary *s)
{
    const struct enqueue_result *r = s->result;
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
        {"vanished", c->gone},
        {"back", c->back},
        {"tasks", c->tasks},
        {"files", r->files},
        {"archives", r->archives},
        {"left_alone", r->left_alone},
        {"excluded", r->excluded},
        {"skipped_trash", r->skipped[SKIP_TRASH]},
        {"skipped_system", r->skipped[SKIP_SYSTEM]},
        {"skipped_unfinished", r->skipped[SKIP_UNFINISHED]},
        {"skipped_hidden", r->skipped[SKIP_HIDDEN]},
        {"links", r->links},
        {"specials", r->specials},
        {"undecodable", r->undecodable},
        {"unreadable_files", r->unreadable_files + r->bad_archives + r->bad_members},
        {"unreadable_folders", r->unreadable_folders},
        {"missing", r->missing_roots},
        {"read_whole", r->reread},
        {"read_whole_bytes", r->reread_bytes},
        {"told_apart", r->told_apart},
        {"erased", c->erased},
    };
    json_t *o =
        json_pack("{s:b, s:b, s:b, s:b, s:I}", "dry_run", (int)s->dry_run, "through_run",
                  (int)r->through_run, "vanish_skipped", (int)r->vanish_skipped, "voice_activity",
                  (int)has_voice(s->groups), "job", (json_int_t)s->groups->list[0].kinds[0].job_id);

    for (size_t i = 0; o && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        json_object_set_new(o, numbers[i].name, json_integer((json_int_t)numbers[i].n));
    if (o) {
        json_object_set_new(o, "jobs", json_jobs(s->groups));
        json_object_set_new(o, "again", json_again(s->again));
        json_object_set_new(o, "words_timed", json_integer((json_int_t)s->again->told));
    }
    print_json_object(o, s->listed);
}

/* ------------------------------------------------------------------------------- for people */

/* "A: x, y, z" - pieces are appended with their separators and broken at blanks at 80 columns. */
static void append_count_text(struct buf *b, bool *first, const char *sep, uint64_t n,
                              const char *one, const char *many)
{
    char count[TEXT_LEN];

    if (n == 0)
        return;
    buf_printf(b, "%s%s %s", *first ? "" : sep, text_count(n, count), text_plural(n, one, many));
    *first = false;
}

static void print_wrapped(struct buf *b)
{
    char *s = buf_cstr(b);

    if (s && s[0] != 0)
        cli_print(s, 0);
    buf_clear(b);
}

/* Recordings of a job that have their text already. 0 if several jobs transcribe or some were
 * enqueued before, since nobody counts them by job. */
static uint64_t told_of(const struct summary *s, const struct groups_kind *k)
{
    const struct groups *g = s->groups;
    uint32_t jobs = 0;

    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++) {
            const struct groups_kind *one = &g->list[i].kinds[j];

            jobs += one->tasks > 0 && stage_kind_find(one->stage.name) == &stage_transcribe;
        }
    return jobs == 1 && stage_kind_find(k->stage.name) == &stage_transcribe && k->reasked == 0 &&
                   s->again->told <= k->tasks
               ? s->again->told
               : 0;
}

static void put_job(const struct summary *s, const struct groups_kind *k, struct buf *out)
{
    const uint64_t told = told_of(s, k);
    char n[TEXT_LEN];

    buf_printf(out, "Job %lld: ", (long long)k->job_id);
    if (k->tasks > told) {
        buf_printf(out, "%s ", text_count(k->tasks - told, n));
        enqueue_stage_words(&k->stage, out);
        buf_printf(out, "%s", told > 0 ? "; " : ".");
    }
    if (told > 0)
        buf_printf(out, "the words of %s %s that %s there get their times.", text_count(told, n),
                   text_plural(told, "text", "texts"), text_plural(told, "is", "are"));
}

/* A line for each job that has something new to do; what comes next is said on the last one. */
static void print_jobs(const struct summary *s)
{
    const struct groups_kind *last = NULL;
    const struct groups *g = s->groups;

    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++)
            last = g->list[i].kinds[j].tasks > 0 ? &g->list[i].kinds[j] : last;
    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++) {
            const struct groups_kind *k = &g->list[i].kinds[j];
            struct buf b = BUF_INIT;

            if (k->tasks == 0)
                continue;
            put_job(s, k, &b);
            buf_printf(&b, "%s",
                       k != last                ? ""
                       : s->result->through_run ? " The current run will do them."
                                                : " Next: nightshift run");
            print_wrapped(&b);
            buf_free(&b);
        }
}

/* Nothing is new, but there is something for a run. */
static void print_waiting(const struct enqueue_result *r, const struct groups *g)
{
    uint64_t reasked = 0;
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++)
            reasked += g->list[i].kinds[j].reasked;
    if (r->counts.waiting > 0)
        buf_printf(&b, "%s %s again. ", text_count(r->counts.waiting, n),
                   text_plural(r->counts.waiting, "recording waits", "recordings wait"));
    if (r->counts.waiting + reasked > 0)
        buf_printf(&b, "%s",
                   r->through_run ? "The current run will do them." : "Next: nightshift run");
    print_wrapped(&b);
    buf_free(&b);
}

/* Each stage once, whether other folders have it, too. */
static uint32_t stages_of(const struct groups *g, bool kept, const struct groups_kind **ret,
                          uint32_t most)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++) {
            const struct groups_kind *k = &g->list[i].kinds[j];
            bool there = kept && !k->kept;

            for (uint32_t at = 0; at < n; at++)
                there |= strcmp(ret[at]->stage.name, k->stage.name) == 0 &&
                         strcmp(ret[at]->stage.model, k->stage.model) == 0 &&
                         (!kept || strcmp(ret[at]->options, k->options) == 0);
            if (!there && n < most)
                ret[n++] = k;
        }
    return n;
}

static void put_stages(const struct groups_kind **list, uint32_t n, bool options, struct buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        buf_printf(out, "%s", i == 0 ? "" : i + 1 < n ? ", " : " and ");
        enqueue_stage_words(&list[i]->stage, out);
        if (options)
            said_words(list[i]->options, list[i]->stage.name, out);
    }
}

#define STAGES_SAID 16

/* Prints the stages that keep their last options, behind those that changed. */
static void print_kept(const struct summary *s)
{
    const struct groups_kind *list[STAGES_SAID];
    const uint32_t n = stages_of(s->groups, true, list, STAGES_SAID);
    struct buf b = BUF_INIT;

    if (n > 0) {
        buf_printf(&b, s->again->count > 0 ? "Unchanged since last time: " : "As last time: ");
        put_stages(list, n, true, &b);
        buf_printf(&b,
                   s->again->count > 0 ? "." : ". To change that, use --again with other options.");
        print_wrapped(&b);
    }
    buf_free(&b);
}

/* Prints what is done a second time, or would be without --dry-run. */
static void print_again(const struct summary *s)
{
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    if (s->again->told > 0)
        buf_printf(&b, "%s %s transcribed already: the text is kept, and its words get times.",
                   text_count(s->again->told, n),
                   text_plural(s->again->told, "recording is", "recordings are"));
    print_wrapped(&b);
    buf_clear(&b);
    again_words(s->again, s->up_to, &b);
    if (s->again->count > 0 && s->dry_run && !s->allowed)
        buf_printf(&b, " Only --again does that.");
    if (s->again->have > 0 && s->dry_run)
        buf_printf(&b, "%s%s %s results with these options already; nothing is done again.",
                   b.len > 0 ? " " : "", text_count(s->again->have, n),
                   text_plural(s->again->have, "recording has", "recordings have"));
    print_wrapped(&b);
    buf_free(&b);
}

/* Speakers are told apart from now on, and the words have no times by which to part segments. */
static bool stays_whole(const struct groups_group *g)
{
    bool told = false, untimed = false;

    for (uint32_t i = 0; i < g->count; i++) {
        const struct groups_kind *k = &g->kinds[i];
        const struct stage_kind *kind = stage_kind_find(k->stage.name);
        struct transcribe_params p;
        struct err ignored = {0};

        told |= kind == &stage_diarize && !k->kept;
        untimed |= kind == &stage_transcribe &&
                   transcribe_params_from_json(k->stage.params_json, &p, &ignored) == 0 &&
                   !p.word_timestamps;
    }
    return told && untimed;
}

static void print_whole(const struct groups *g)
{
    bool whole = false;

    for (uint32_t i = 0; i < g->count; i++)
        whole |= stays_whole(&g->list[i]);
    if (whole)
        cli_print("Segments with several speakers are not cut, because the transcription has no "
                  "word times: `nightshift enqueue --word-timestamps --again PATH` adds them.",
                  0);
}

/* Prints notes on the chosen models that users may not expect. */
static void print_notes(const struct summary *s)
{
    const char *last = "";
    struct buf b = BUF_INIT;

    for (uint32_t i = 0; i < s->groups->count; i++) {
        const struct groups_group *g = &s->groups->list[i];
        const char *note = g->found.note;
        uint64_t tasks = 0;

        for (uint32_t j = 0; j < g->count; j++)
            tasks += g->kinds[j].tasks;
        if (tasks > 0 && strcmp(note, last) != 0) {
            buf_printf(&b, "%s", note);
            print_wrapped(&b);
            last = note;
        }
    }
    buf_free(&b);
}

/* How many would be new to which stage is known when they are noted. */
static void print_dry(const struct summary *s)
{
    const struct groups_kind *list[STAGES_SAID];
    const uint32_t n = stages_of(s->groups, false, list, STAGES_SAID);
    struct buf b = BUF_INIT;

    buf_printf(&b, "Dry run: the catalog was not changed. New recordings would be "
                   "enqueued ");
    put_stages(list, n, false, &b);
    buf_printf(&b, ".");
    print_wrapped(&b);
    buf_free(&b);
}

/* Puts what changed for known recordings: " 12 recordings have ..." */
static void put_otherwise(const struct groups_kind *k, struct buf *out)
{
    char n[TEXT_LEN];

    if (k->restored > 0)
        buf_printf(out, " %s %s results with these options already: %s current again.",
                   text_count(k->restored, n),
                   text_plural(k->restored, "recording has", "recordings have"),
                   text_plural(k->restored, "it is", "they are"));
    if (k->reasked > 0)
        buf_printf(out, " %s %s enqueued with these options before, and %s again.",
                   text_count(k->reasked, n),
                   text_plural(k->reasked, "recording was", "recordings were"),
                   text_plural(k->reasked, "waits", "wait"));
    if (k->instead > 0)
        buf_printf(out, " %s %s waiting or had failed %s by these options instead.",
                   text_count(k->instead, n),
                   text_plural(k->instead, "recording that was", "recordings that were"),
                   text_plural(k->instead, "goes", "go"));
}

static void print_otherwise(const struct groups_kind *k)
{
    struct buf b = BUF_INIT;

    if (k->restored + k->reasked + k->instead > 0) {
        buf_printf(&b, "Asked ");
        enqueue_stage_words(&k->stage, &b);
        buf_printf(&b, ":");
        put_otherwise(k, &b);
        print_wrapped(&b);
    }
    buf_free(&b);
}

/* Recordings that a stage which works on the text cannot take. */
static void print_lacking(const struct groups_kind *k)
{
    const struct store_stage *source = store_stage_source(&k->stage);
    struct buf b = BUF_INIT;
    char n[TEXT_LEN];

    buf_printf(&b,
               "%s of them %s not transcribed, and skipped for --%s: without --no-transcribe, %s "
               "transcribed with %s first.",
               text_count(k->lacking, n), text_plural(k->lacking, "is", "are"),
               stage_kind_find(k->stage.name)->option, text_plural(k->lacking, "it is", "they are"),
               source ? source->model : "");
    print_wrapped(&b);
    buf_free(&b);
}

static void print_found(const struct store_enqueue_counts *c)
{
    struct buf b = BUF_INIT;
    bool first = true;
    char n[TEXT_LEN];

    buf_printf(&b, "%s %s found", c->seen > 0 ? text_count(c->seen, n) : "No",
               text_plural(c->seen, "recording", "recordings"));
    if (c->seen > 0)
        buf_printf(&b, ": ");
    append_count_text(&b, &first, ", ", c->added, "new", "new");
    append_count_text(&b, &first, ", ", c->changed, "changed", "changed");
    append_count_text(&b, &first, ", ", c->places, "known from another place",
                      "known from other places");
    append_count_text(&b, &first, ", ", c->unchanged, "known", "known");
    append_count_text(&b, &first, ", ", c->back, "is back", "are back");
    buf_printf(&b, ".");
    print_wrapped(&b);
    buf_free(&b);
}

/* Why it took as long as it did. */
static void print_reread(const struct enqueue_result *r)
{
    char n[TEXT_LEN], bytes[TEXT_LEN];
    struct buf b = BUF_INIT;

    if (r->reread > 0)
        buf_printf(&b, "%s %s read completely (%s), to distinguish copies from similar recordings.",
                   text_count(r->reread, n), text_plural(r->reread, "file was", "files were"),
                   text_bytes(r->reread_bytes, bytes));
    print_wrapped(&b);
    if (r->told_apart > 0)
        buf_printf(&b, "%s %s mistaken for another recording before; this is corrected now.",
                   text_count(r->told_apart, n),
                   text_plural(r->told_apart, "file was", "files were"));
    print_wrapped(&b);
    buf_free(&b);
}

static void print_left_out(const struct enqueue_result *r)
{
    struct buf b = BUF_INIT;
    bool first = true;

    append_count_text(&b, &first, "; ", r->left_alone,
                      "file skipped (not a recording; --all takes it)",
                      "files skipped (not recordings; --all takes them)");
    append_count_text(&b, &first, "; ", r->excluded, "left out by your patterns",
                      "left out by your patterns");
    append_count_text(&b, &first, "; ", r->skipped[SKIP_TRASH], "skipped as trash",
                      "skipped as trash");
    append_count_text(&b, &first, "; ", r->skipped[SKIP_SYSTEM],
                      "skipped as a system's own (AppleDouble, index)",
                      "skipped as a system's own (AppleDouble, indexes)");
    append_count_text(&b, &first, "; ", r->skipped[SKIP_UNFINISHED], "unfinished file skipped",
                      "unfinished files skipped");
    append_count_text(&b, &first, "; ", r->skipped[SKIP_HIDDEN],
                      "hidden file or folder skipped (--hidden takes it)",
                      "hidden files or folders skipped (--hidden takes them)");
    append_count_text(&b, &first, "; ", r->links, "symbolic link not followed (--follow does)",
                      "symbolic links not followed (--follow does)");
    append_count_text(&b, &first, "; ", r->specials, "pipe, socket or device skipped",
                      "pipes, sockets or devices skipped");
    append_count_text(
        &b, &first, "; ", r->undecodable,
        "recording of a kind that nothing here can decode (nightshift status --failures)",
        "recordings of kinds that nothing here can decode (nightshift status --failures)");
    append_count_text(&b, &first, "; ", r->unreadable_files, "file could not be read",
                      "files could not be read");
    append_count_text(&b, &first, "; ", r->unreadable_folders, "folder could not be read",
                      "folders could not be read");
    append_count_text(&b, &first, "; ", r->bad_archives, "archive could not be read to its end",
                      "archives could not be read to their ends");
    append_count_text(&b, &first, "; ", r->bad_members, "member of an archive could not be read",
                      "members of archives could not be read");
    append_count_text(&b, &first, "; ", r->troubles_before,
                      "of these was reported before (nightshift status --failures)",
                      "of these were reported before (nightshift status --failures)");
    append_count_text(&b, &first, "; ", r->counts.erased,
                      "recording was erased for good and skipped (nightshift erase --list)",
                      "recordings were erased for good and skipped (nightshift erase --list)");
    append_count_text(&b, &first, "; ", r->counts.gone,
                      "recording has vanished (it is not there any more)",
                      "recordings have vanished (they are not there any more)");
    if (!first)
        buf_printf(&b, ".");
    print_wrapped(&b);
    if (r->vanish_skipped)
        puts("Too much was skipped or unreadable to say which recordings have vanished.");
    buf_free(&b);
}

void summary_print(const struct summary *s)
{
    print_found(&s->result->counts);
    print_reread(s->result);
    print_left_out(s->result);
    print_again(s);
    if (s->result->counts.seen > 0)
        print_kept(s);
    print_notes(s);
    print_whole(s->groups);
    if (s->dry_run)
        print_dry(s);
    for (uint32_t i = 0; i < s->groups->count; i++)
        for (uint32_t j = 0; j < s->groups->list[i].count; j++)
            print_otherwise(&s->groups->list[i].kinds[j]);
    if (!s->dry_run && s->result->counts.tasks > 0)
        print_jobs(s);
    else if (!s->dry_run)
        print_waiting(s->result, s->groups);
    for (uint32_t i = 0; i < s->groups->count; i++)
        for (uint32_t j = 0; j < s->groups->list[i].count; j++)
            if (s->groups->list[i].kinds[j].lacking > 0)
                print_lacking(&s->groups->list[i].kinds[j]);
}
