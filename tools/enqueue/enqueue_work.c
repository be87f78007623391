#include "tools/enqueue/enqueue_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "tools/writer.h"

#define LINES_MAX 200 /* of troubles said on standard error; all of them are in the catalog */
#define PROGRESS_MS 200

struct store *enqueue_known(const struct enqueue_work *q)
{
    return q->writer ? writer_store(q->writer) : q->known;
}

void enqueue_clear_line(struct enqueue_work *q)
{
    if (q->line)
        fputs("\r\033[K", stderr);
    q->line = false;
}

void enqueue_progress(struct enqueue_work *q, const char *path, size_t len)
{
    int64_t now;
    char files[TEXT_LEN], found[TEXT_LEN], head[80], *shown, *fit = NULL;
    size_t columns, used;

    if (!q->o->progress || (now = clock_mono_ms()) - q->shown_ms < PROGRESS_MS)
        return;
    q->shown_ms = now;
    snprintf(head, sizeof(head), "%s files, %s recordings  ", text_count(q->r->files, files),
             text_count(q->r->found, found));
    columns = cli_columns(stderr);
    used = strlen(head) + 1; /* a line that is too long could not be cleared */
    shown = used + TEXT_FIT_MIN <= columns ? utf8_display(path, len) : NULL;
    if (shown)
        fit = text_fit(shown, columns - used);
    fprintf(stderr, "\r\033[K%s%s", head, fit ? fit : "");
    q->line = true;
    free(fit);
    free(shown);
}

void enqueue_say(struct enqueue_work *q, const char *path, size_t path_len, const char *member,
                 uint32_t nth, const char *what)
{
    char *shown, *inner;

    if (q->lines > LINES_MAX)
        return;
    enqueue_clear_line(q);
    if (q->lines++ == LINES_MAX) {
        cli_note("more such files follow; `nightshift status --failures` lists them all");
        return;
    }
    shown = utf8_display(path, path_len);
    inner = utf8_display_nth(member, strlen(member), nth);
    if (shown && inner)
        cli_note("%s%s%s: %s", shown, member[0] ? "//" : "", inner, what);
    free(shown);
    free(inner);
}

static void add_dry_run_line(struct enqueue_work *q, const struct dry_run_line *line)
{
    if (!q->o->lines)
        return;
    enqueue_clear_line(q);
    dry_run_lines_add(q->o->lines, line);
}

void enqueue_skip(struct enqueue_work *q, const struct walk_entry *e, const char *member,
                  uint32_t nth, const char *why)
{
    add_dry_run_line(q, &(struct dry_run_line){.why = why,
                                               .path = e->path,
                                               .path_len = e->path_len,
                                               .directory = e->directory,
                                               .member = member,
                                               .nth = nth});
}

void enqueue_take(struct enqueue_work *q, const char *path, size_t path_len, const char *member,
                  uint32_t nth, uint32_t recordings, const char *why)
{
    add_dry_run_line(q, &(struct dry_run_line){.taken = true,
                                               .why = why,
                                               .path = path,
                                               .path_len = path_len,
                                               .member = member,
                                               .nth = nth,
                                               .recordings = recordings});
}

int enqueue_trouble_at(struct enqueue_work *q, const struct walk_entry *e, const char *member,
                       uint32_t nth, const struct err *why, struct err *err)
{
    struct request_trouble t = {.path = e->path,
                                .path_len = e->path_len,
                                .member = member,
                                .member_len = strlen(member),
                                .nth = nth,
                                .code = why->code,
                                .message = why->msg};
    bool before = false;
    int rc = enqueue_known(q) ? store_trouble_known(enqueue_known(q), &t, &before, err) : 0;

    if (rc != 0)
        return rc;
    q->r->troubles_before += before;
    if (!before)
        enqueue_say(q, e->path, e->path_len, member, nth, why->msg);
    add_dry_run_line(q, &(struct dry_run_line){.why = "unreadable",
                                               .path = e->path,
                                               .path_len = e->path_len,
                                               .directory = e->directory,
                                               .member = member,
                                               .nth = nth,
                                               .error = why->msg});
    rc = batch_trouble(q->first, &t, err);
    return rc != 0 ? rc : batch_unread(q->first, e->path, err);
}

/* Was the sentence said before? It is now. */
static bool is_told(struct enqueue_work *q, const char *sentence)
{
    for (size_t i = 0; i < UNDECODABLE_TOLD; i++) {
        if (q->told[i] == sentence)
            return true;
        if (!q->told[i]) {
            q->told[i] = sentence;
            return false;
        }
    }
    return true;
}

int enqueue_undecodable(struct enqueue_work *q, const struct walk_entry *e, const char *member,
                        uint32_t nth, const char *sentence, struct err *err)
{
    const struct request_trouble t = {.path = e->path,
                                      .path_len = e->path_len,
                                      .member = member,
                                      .member_len = strlen(member),
                                      .nth = nth,
                                      .code = ERR_INPUT,
                                      .message = sentence};

    q->r->undecodable++;
    if (!is_told(q, sentence))
        enqueue_say(q, e->path, e->path_len, member, nth, sentence);
    add_dry_run_line(q, &(struct dry_run_line){.why = "cannot be decoded",
                                               .path = e->path,
                                               .path_len = e->path_len,
                                               .member = member,
                                               .nth = nth,
                                               .error = sentence});
    return batch_trouble(q->first, &t, err);
}

int enqueue_unreadable(struct enqueue_work *q, const struct walk_entry *e, int error,
                       struct err *err)
{
    struct err why = {0};

    err_sys(&why, error, e->directory ? "the folder cannot be read" : "the file cannot be read");
    if (e->directory)
        q->r->unreadable_folders++;
    else
        q->r->unreadable_files++;
    return enqueue_trouble_at(q, e, "", 0, &why, err);
}
