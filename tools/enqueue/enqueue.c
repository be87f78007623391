#include "tools/enqueue/enqueue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "tools/batch.h"
#include "tools/cli.h"
#include "tools/foresee.h"
#include "tools/text.h"
#include "tools/enqueue/groups.h"
#include "tools/enqueue/walk.h"
#include "tools/writer.h"
#include "workers/media/source/archive.h"
#include "workers/media/decoder.h"
#include "workers/media/source/fingerprint.h"
#include "workers/media/sandbox.h"
#include "workers/media/source/sniff.h"

#define LINES_MAX 200 /* of troubles said on standard error; all of them are in the catalog */
#define PROGRESS_MS 200

struct enqueue {
    const struct enqueue_options *o;
    struct enqueue_result *r;
    struct set {
        struct batch *of[STAGE_COUNT]; /* one for each stage */
    } * sets;                          /* one for each group */
    struct batch *first;               /* what is not about a stage goes with it */
    const struct set *now;             /* of what is looked at, */
    const struct groups_group *group;  /* and its group */
    struct writer *writer;
    struct store *known; /* in a dry run; borrowed; NULL: nothing is known */
    struct foresee *foresee;
    int64_t shown_ms; /* when the progress line was drawn last */
    bool line;        /* it stands on the terminal now */
    uint32_t lines;
    bool sandbox_tried;
};

/* The writer's store is asked for anew each time: it changes when a run ends meanwhile. */
static struct store *known_store(const struct enqueue *q)
{
    return q->writer ? writer_store(q->writer) : q->known;
}

/* ------------------------------------------------------------------------------- speaking */

static void clear_line(struct enqueue *q)
{
    if (q->line)
        fputs("\r\033[K", stderr);
    q->line = false;
}

static void progress(struct enqueue *q, const char *path, size_t len)
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

/* One line about a path on standard error. */
static void say(struct enqueue *q, const char *path, size_t path_len, const char *member,
                uint32_t nth, const char *what)
{
    char *shown, *inner;

    if (q->lines > LINES_MAX)
        return;
    clear_line(q);
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

/* Says it, and leaves it in the catalog; nothing at or below the path is called vanished. */
static int trouble(struct enqueue *q, const struct walk_entry *e, const char *member, uint32_t nth,
                   const struct err *why, struct err *err)
{
    struct request_trouble t = {.path = e->path,
                                .path_len = e->path_len,
                                .member = member,
                                .member_len = strlen(member),
                                .nth = nth,
                                .code = why->code,
                                .message = why->msg};
    int rc;

    say(q, e->path, e->path_len, member, nth, why->msg);
    rc = batch_trouble(q->first, &t, err);
    return rc != 0 ? rc : batch_unread(q->first, e->path, err);
}

/* Something new for every stage. */
static int found(struct enqueue *q, const struct store_found *f, struct err *err)
{
    int rc = 0;

    q->r->found++;
    for (uint32_t i = 0; rc == 0 && i < q->group->count; i++)
        rc = batch_found(q->now->of[i], f, err);
    return rc;
}

/* ------------------------------------------------------------------------------- archives */

/* An archive inside that could not be looked into: patterns for files do not speak of it. */
static bool is_inner_archive(const struct decoder_entry *m)
{
    enum media_kind kind;

    return m->code != 0 && sniff_name(m->member, &kind) != 0 && kind == MEDIA_ARCHIVE;
}

/* The listing names recordings and what could not be read, nothing else: the decoder saw more of a
 * member than reaches this process, so its judgement stands. */
static int add_member(struct enqueue *q, const struct walk_entry *e, const struct stat *st,
                      bool all_included, const struct decoder_entry *m, bool *left_out,
                      struct err *err)
{
    struct store_found f = {.path = e->path,
                            .path_len = e->path_len,
                            .member = m->member,
                            .member_len = strlen(m->member),
                            .nth = m->nth,
                            .size_bytes = m->size_bytes,
                            .file_size_bytes = (uint64_t)st->st_size,
                            .mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                            .inode = st->st_ino,
                            .device = st->st_dev};
    const struct enqueue_options *o = q->o;

    q->r->files++;
    progress(q, e->path, e->path_len);
    if (walk_fits_any(o->exclude, m->member, false) ||
        (!all_included && o->include && !is_inner_archive(m) &&
         !walk_fits_any(o->include, m->member, false))) {
        q->r->excluded++;
        *left_out = true;
        return 0;
    }
    if (m->code != 0) {
        struct err why = {0};

        err_set(&why, m->code, "%s", m->message ? m->message : err_name(m->code));
        q->r->bad_members++;
        return trouble(q, e, m->member, m->nth, &why, err);
    }
    memcpy(f.fingerprint, m->fingerprint, sizeof(f.fingerprint));
    return found(q, &f, err);
}

/* Before the first decoder. */
static int demand_sandbox(struct enqueue *q, struct err *err)
{
    char unguarded[SANDBOX_WORDS];

    if (q->sandbox_tried)
        return 0;
    if (sandbox_demand(q->o->unsandboxed, unguarded, err) != 0)
        return err->code;
    q->sandbox_tried = true;
    if (unguarded[0] != 0) {
        clear_line(q);
        cli_note("%s", unguarded);
    }
    return 0;
}

static int add_archive(struct enqueue *q, const struct walk_entry *e, int fd, const struct stat *st,
                       const struct store_known *k, bool same, struct err *err)
{
    const struct decoder_limits limits = {0};
    bool by_name = q->o->include && e->included; /* the pattern means all that it holds */
    struct decoder_event ev;
    struct decoder *d = NULL;
    struct err why = {0};
    bool left_out = false; /* members, by a pattern */
    int rc = demand_sandbox(q, err), bad;
    bool empty = true;

    if (rc != 0)
        return rc;
    q->r->archives++;
    bad = decoder_start_list(fd, &limits, &d, &why);
    while (rc == 0 && bad == 0) {
        bad = decoder_next(d, &ev, &why);
        if (bad == 0 && ev.type == DECODER_ENTRY) {
            empty = false;
            rc = add_member(q, e, st, by_name, &ev.entry, &left_out, err);
        } else if (bad == 0 && ev.type == DECODER_END)
            break;
    }
    decoder_close(d);
    /* A later part may end as an archive does, and hold nothing that could be read. */
    if (sniff_is_part(e->path) && (bad == ERR_INPUT || (bad == 0 && empty)))
        bad = archive_refuse_part(&why);
    if (rc == 0 && bad != 0) {
        q->r->bad_archives++;
        return trouble(q, e, "", 0, &why, err);
    }
    /* Members that were left out are there all the same. */
    if (rc == 0 && left_out && same)
        rc = batch_kept(q->first, k->place_ids, k->count, err);
    else if (rc == 0 && left_out)
        rc = batch_unread(q->first, e->path, err);
    return rc;
}

/* ------------------------------------------------------------------------------- files */

/* The catalog's own files, whose content changes while it is written, and the indexes of its
 * vectors. */
static bool is_own(const char *catalog, const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", ".lock", ".sock"};
    size_t len = strlen(catalog);

    if (strncmp(path, catalog, len) != 0)
        return false;
    if (strncmp(path + len, ".vectors-", 9) == 0)
        return true;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (strcmp(path + len, suffixes[i]) == 0)
            return true;
    return false;
}

static bool is_same(const struct store_known *k, const struct stat *st)
{
    return k->file_size_bytes == (uint64_t)st->st_size && k->inode == st->st_ino &&
           k->device == st->st_dev &&
           k->mtime_ns == st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int add_recording(struct enqueue *q, const struct walk_entry *e, int fd,
                         const struct stat *st, struct err *err)
{
    struct store_found f = {.path = e->path,
                            .path_len = e->path_len,
                            .member = "",
                            .size_bytes = (uint64_t)st->st_size,
                            .file_size_bytes = (uint64_t)st->st_size,
                            .mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                            .inode = st->st_ino,
                            .device = st->st_dev};
    struct err why = {0};

    if (fingerprint_fd(fd, f.size_bytes, f.fingerprint, &why) != 0) {
        q->r->unreadable_files++;
        return trouble(q, e, "", 0, &why, err);
    }
    return found(q, &f, err);
}

static int unreadable(struct enqueue *q, const struct walk_entry *e, int error, struct err *err)
{
    struct err why = {0};

    err_sys(&why, error, e->directory ? "the folder cannot be read" : "the file cannot be read");
    if (e->directory)
        q->r->unreadable_folders++;
    else
        q->r->unreadable_files++;
    return trouble(q, e, "", 0, &why, err);
}

static int open_entry(const struct enqueue *q, const struct walk_entry *e)
{
    /* O_NONBLOCK: should a pipe have taken the file's place meanwhile, opening it must not wait. */
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

    if (e->dir < 0)
        return open(e->path, flags);
    return openat(e->dir, e->name, q->o->follow ? flags : flags | O_NOFOLLOW);
}

static int left_alone(struct enqueue *q, const struct walk_entry *e, const struct store_known *k,
                      bool same, struct err *err)
{
    q->r->left_alone++;
    if (e->dir < 0 && !q->o->quiet)
        say(q, e->path, e->path_len, "", 0,
            "left alone: it is no recording (--all takes it anyway)");
    return same ? batch_kept(q->first, k->place_ids, k->count, err) : 0;
}

/* A file whose name may be a recording's or an archive's, and that is not known to be unchanged. */
static int look_into(struct enqueue *q, const struct walk_entry *e, const struct store_known *k,
                     bool same, struct err *err)
{
    enum media_kind kind = MEDIA_OTHER;
    bool by_name = sniff_name(e->name[0] == '/' ? e->below : e->name, &kind) != 0;
    char head[SNIFF_HEAD_BYTES];
    struct stat st;
    ssize_t n;
    int fd, rc = 0;

    if (!e->included && !(by_name && kind == MEDIA_ARCHIVE)) {
        q->r->excluded++;
        return batch_kept(q->first, k->place_ids, k->count, err);
    }
    if (by_name && kind == MEDIA_OTHER && !q->o->all)
        return left_alone(q, e, k, same, err);
    fd = open_entry(q, e);
    if (fd < 0)
        return errno == ENOENT ? 0 : unreadable(q, e, errno, err);
    if (fstat(fd, &st) != 0)
        rc = unreadable(q, e, errno, err);
    else if (!S_ISREG(st.st_mode))
        q->r->specials++;
    else if (!by_name && (n = pread(fd, head, sizeof(head), 0)) < 0)
        rc = unreadable(q, e, errno, err);
    else {
        if (!by_name)
            kind = sniff_bytes(head, (size_t)n);
        if (kind == MEDIA_ARCHIVE)
            rc = add_archive(q, e, fd, &st, k, same, err);
        else if (kind == MEDIA_RECORDING || q->o->all)
            rc = add_recording(q, e, fd, &st, err);
        else
            rc = left_alone(q, e, k, same, err);
    }
    close(fd);
    return rc;
}

/* Would look_into take what the catalog knows of it, by its name alone? Of an archive's members the
 * patterns may leave some out. */
static bool is_plain(const struct enqueue *q, const struct walk_entry *e)
{
    enum media_kind kind;

    if (sniff_name(e->name[0] == '/' ? e->below : e->name, &kind) == 0)
        return false;
    if (kind == MEDIA_ARCHIVE)
        return !q->o->include && !q->o->exclude;
    return kind == MEDIA_RECORDING || q->o->all;
}

/* What the catalog knows of the path: *k for all stages but k->has_task_all, which is has[i] for
 * each of them. ERR_EMPTY: nothing. */
static int look_up(struct enqueue *q, const struct walk_entry *e, struct store_known *k, bool *has,
                   struct err *err)
{
    int rc = ERR_EMPTY;

    if (!known_store(q))
        return rc;
    for (uint32_t i = 0; i < q->group->count; i++) {
        store_known_free(k);
        rc = store_known_path(known_store(q), e->path, e->path_len, &q->group->kinds[i].stage, k,
                              err);
        if (rc != 0)
            return rc;
        has[i] = k->has_task_all;
    }
    return rc;
}

static int on_file(struct enqueue *q, const struct walk_entry *e, struct err *err)
{
    struct store_known k = {0};
    bool same = false, has[STAGE_COUNT] = {0}, has_all = true;
    int rc;

    q->r->files++;
    if (is_own(q->o->catalog, e->path))
        return 0;
    rc = look_up(q, e, &k, has, err);
    if (rc == 0)
        same = is_same(&k, e->st);
    else if (rc != ERR_EMPTY)
        return rc;
    for (uint32_t i = 0; i < q->group->count; i++)
        has_all &= has[i];
    if (same && e->included && (has_all || is_plain(q, e))) {
        q->r->found += k.count;
        rc = 0;
        for (uint32_t i = 0; rc == 0 && i < q->group->count; i++)
            rc = has[i] ? batch_same(q->now->of[i], k.place_ids, k.count, err)
                        : batch_known(q->now->of[i], k.place_ids, k.count, err);
    } else
        rc = look_into(q, e, &k, same, err);
    store_known_free(&k);
    return rc;
}

/* Something that is there and is not taken: what the catalog knows of it must not vanish. */
static int on_left_out(struct enqueue *q, const struct walk_entry *e, struct err *err)
{
    struct store_known k = {0};
    int rc;

    if (e->directory)
        return batch_unread(q->first, e->path, err);
    if (!known_store(q))
        return 0;
    rc = store_known_path(known_store(q), e->path, e->path_len, &q->group->kinds[0].stage, &k, err);
    if (rc != 0)
        return rc == ERR_EMPTY ? 0 : rc;
    rc = batch_kept(q->first, k.place_ids, k.count, err);
    store_known_free(&k);
    return rc;
}

static int on_entry(void *arg, const struct walk_entry *e, struct err *err)
{
    struct enqueue *q = arg;
    const uint32_t group = groups_of(q->o->groups, e->path, e->path_len);

    q->group = &q->o->groups->list[group];
    q->now = &q->sets[group];
    progress(q, e->path, e->path_len);
    switch (e->kind) {
    case WALK_FILE:
        return on_file(q, e, err);
    case WALK_UNREADABLE:
        return unreadable(q, e, e->error, err);
    case WALK_SPECIAL:
        q->r->specials++;
        if (e->dir < 0 && !q->o->quiet)
            say(q, e->path, e->path_len, "", 0, "left alone: it is a pipe, socket or device");
        return 0;
    case WALK_LINK:
        q->r->links++;
        return on_left_out(q, e, err);
    case WALK_EXCLUDED:
    case WALK_OTHER_DISK:
        q->r->excluded++;
        return on_left_out(q, e, err);
    }
    return 0;
}

static int walk_roots(struct enqueue *q, const char *const *roots, uint32_t root_count,
                      const char **walked, uint32_t *walked_count, struct err *err)
{
    const struct walk_options wo = {.include = q->o->include,
                                    .exclude = q->o->exclude,
                                    .follow = q->o->follow,
                                    .one_file_system = q->o->one_file_system,
                                    .entry = on_entry,
                                    .arg = q};
    struct walk *w = NULL;
    int rc = walk_new(&wo, &w, err);

    for (uint32_t i = 0; rc == 0 && i < root_count; i++) {
        rc = walk_root(w, roots[i], err);
        if (rc == 0)
            walked[(*walked_count)++] = roots[i];
        else if (rc == ERR_MISSING && err->code == ERR_MISSING) {
            say(q, roots[i], strlen(roots[i]), "", 0, "there is no such file or folder");
            q->r->missing_roots++;
            rc = 0;
        }
    }
    walk_free(w);
    return rc;
}

/* What has vanished is said once, by the first job: it has been told of everything by then. */
static int end_all(struct enqueue *q, const char *const *walked, uint32_t walked_count,
                   struct err *err)
{
    const struct groups *g = q->o->groups;
    bool ignored;
    int rc = 0;

    for (uint32_t i = g->count; rc == 0 && i-- > 0;)
        for (uint32_t j = 0; rc == 0 && j < g->list[i].count; j++) {
            struct batch *b = q->sets[i].of[j];

            rc = b == q->first ? batch_end(b, walked, walked_count, &q->r->vanish_skipped, err)
                               : batch_end(b, NULL, 0, &ignored, err);
        }
    return rc;
}

static void add_counts(const struct store_enqueue_counts *c, struct store_enqueue_counts *sum)
{
    sum->seen += c->seen;
    sum->added += c->added;
    sum->places += c->places;
    sum->changed += c->changed;
    sum->unchanged += c->unchanged;
    sum->vanished += c->vanished;
    sum->gone += c->gone;
}

static void sum_up(struct enqueue *q)
{
    struct enqueue_result *r = q->r;
    const struct groups *g = q->o->groups;

    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count && q->sets[i].of[j]; j++) {
            const struct store_enqueue_counts *c = batch_counts(q->sets[i].of[j]);
            struct groups_kind *k = &g->list[i].kinds[j];

            k->job_id = batch_job(q->sets[i].of[j]);
            k->tasks = c->tasks;
            k->lacking = c->lacking;
            k->restored = c->restored;
            k->reasked = c->reasked;
            k->instead = c->instead;
            r->counts.tasks += c->tasks;
            if (j == 0)
                add_counts(c, &r->counts);
        }
    r->through_run = q->writer && writer_through_run(q->writer);
}

/* Without a transcription of its own a group takes what is transcribed already. */
static bool transcribes(const struct groups_group *group)
{
    return group->count > 0 && strcmp(group->kinds[0].stage.name, stage_transcribe.name) == 0;
}

static int begin_all(struct enqueue *q, struct err *err)
{
    const struct groups *g = q->o->groups;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < g->count; i++)
        for (uint32_t j = 0; rc == 0 && j < g->list[i].count; j++) {
            const struct groups_kind *k = &g->list[i].kinds[j];
            const struct request rq = {.type = REQUEST_ENQUEUE_BEGIN,
                                       .command_line = q->o->command_line,
                                       .stage = k->stage,
                                       .language = "",
                                       .keep_source = !transcribes(&g->list[i]),
                                       .keep_other = k->keeps,
                                       .roots = k->roots,
                                       .root_count = k->root_count,
                                       .options = k->options,
                                       .replaces = k->replaces};

            rc = batch_begin(q->writer, q->foresee, &rq, &q->sets[i].of[j], err);
        }
    q->first = q->sets[0].of[0];
    return rc;
}

static void free_all(struct enqueue *q)
{
    for (uint32_t i = 0; i < q->o->groups->count && q->sets; i++)
        for (uint32_t j = 0; j < STAGE_COUNT; j++)
            batch_free(q->sets[i].of[j]);
    free(q->sets);
    foresee_free(q->foresee);
}

int enqueue_paths(const struct enqueue_options *o, struct writer *writer, struct store *known,
                  const char *const *roots, uint32_t root_count, struct enqueue_result *ret,
                  struct err *err)
{
    struct enqueue q = {.o = o, .r = ret, .writer = writer, .known = known};
    const char **walked = calloc(root_count + 1, sizeof(*walked));
    uint32_t walked_count = 0;
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    q.sets = calloc(o->groups->count, sizeof(*q.sets));
    if (!walked || !q.sets)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && !writer)
        rc = foresee_new(known, &q.foresee, err);
    if (rc == 0)
        rc = begin_all(&q, err);
    if (rc == 0)
        rc = walk_roots(&q, roots, root_count, walked, &walked_count, err);
    if (rc == 0)
        rc = end_all(&q, walked, walked_count, err);
    clear_line(&q);
    if (q.sets)
        sum_up(&q);
    free_all(&q);
    free(walked);
    return rc;
}
