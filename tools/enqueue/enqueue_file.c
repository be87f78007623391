#include "base/clock.h"
#include "tools/enqueue/enqueue_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/enqueue/identity.h"
#include "tools/enqueue/watching.h"
#include "workers/media/decoder.h"
#include "workers/media/sandbox.h"
#include "workers/media/stream/archive.h"
#include "workers/media/stream/fingerprint.h"
#include "workers/media/stream/sniff.h"

/* Says how a dry run counted it. */
static const char *counted_as(const struct store_enqueue_counts *before,
                              const struct store_enqueue_counts *after)
{
    return after->added > before->added       ? "new"
           : after->changed > before->changed ? "changed"
           : after->places > before->places   ? "known elsewhere"
                                              : "known";
}

/* Something new for every stage. */
static int enqueue_found_file(struct enqueue_work *q, const struct store_found *f, struct err *err)
{
    const struct store_enqueue_counts before = *batch_counts(q->now->of[0]);
    const struct walk_entry e = {.path = f->path, .path_len = f->path_len};
    int rc = 0;

    q->r->found++;
    for (uint32_t i = 0; rc == 0 && i < q->group->count; i++)
        rc = batch_found(q->now->of[i], f, err);
    if (rc == 0 && q->dry_run && batch_counts(q->now->of[0])->erased > before.erased)
        enqueue_skip(q, &e, f->member, f->nth, "erased for good");
    else if (rc == 0)
        enqueue_take(q, f->path, f->path_len, f->member, f->nth, 0,
                     counted_as(&before, batch_counts(q->now->of[0])));
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
static int add_member(struct enqueue_work *q, const struct walk_entry *e, const struct stat *st,
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
                            .mtime_ns = clock_ns_of(&st->st_mtim),
                            .inode = st->st_ino,
                            .device = st->st_dev};
    const struct enqueue_options *o = q->o;
    const enum skip_reason skip = skip_member(m->member, o->hidden);
    int rc;

    q->r->files++;
    enqueue_progress(q, e->path, e->path_len);
    if (skip != SKIP_NONE) {
        q->r->skipped[skip]++;
        enqueue_skip(q, e, m->member, m->nth, skip_word(skip));
        *left_out = true;
        return 0;
    }
    if (walk_fits_any(o->exclude, m->member, false) ||
        (!all_included && o->include && !is_inner_archive(m) &&
         !walk_fits_any(o->include, m->member, false))) {
        q->r->excluded++;
        enqueue_skip(q, e, m->member, m->nth, "excluded");
        *left_out = true;
        return 0;
    }
    if (m->code != 0) {
        const char *sentence =
            m->code == ERR_INPUT ? undecodable(m->member, m->head, m->head_len) : NULL;
        struct err why = {0};

        if (sentence)
            return enqueue_undecodable(q, e, m->member, m->nth, sentence, err);
        err_set(&why, m->code, "%s", m->message ? m->message : err_name(m->code));
        q->r->bad_members++;
        return enqueue_trouble_at(q, e, m->member, m->nth, &why, err);
    }
    memcpy(f.fingerprint, m->fingerprint, sizeof(f.fingerprint));
    memcpy(f.hash, m->content_hash, sizeof(f.hash));
    f.has_hash = true;
    rc = identity_of(q, -1, st, &f, NULL, err);
    return rc != 0 ? rc : enqueue_found_file(q, &f, err);
}

/* Before the first decoder. */
static int demand_sandbox(struct enqueue_work *q, struct err *err)
{
    char unguarded[SANDBOX_WORDS];

    if (q->sandbox_tried)
        return 0;
    decoder_share_server();
    if (sandbox_demand(q->o->unsandboxed, unguarded, err) != 0)
        return err->code;
    q->sandbox_tried = true;
    if (unguarded[0] != 0) {
        enqueue_clear_line(q);
        cli_note("%s", unguarded);
    }
    return 0;
}

static int add_archive(struct enqueue_work *q, const struct walk_entry *e, int fd,
                       const struct stat *st, const struct store_known *k, bool same,
                       struct err *err)
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
        return enqueue_trouble_at(q, e, "", 0, &why, err);
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
           k->device == st->st_dev && k->mtime_ns == clock_ns_of(&st->st_mtim);
}

static int add_recording(struct enqueue_work *q, const struct walk_entry *e, int fd,
                         const struct stat *st, struct err *err)
{
    struct store_found f = {.path = e->path,
                            .path_len = e->path_len,
                            .member = "",
                            .size_bytes = (uint64_t)st->st_size,
                            .file_size_bytes = (uint64_t)st->st_size,
                            .mtime_ns = clock_ns_of(&st->st_mtim),
                            .inode = st->st_ino,
                            .device = st->st_dev};
    struct err why = {0};
    int rc = 0;

    if (fingerprint_fd(fd, f.size_bytes, f.fingerprint, &why) == 0)
        rc = identity_of(q, fd, st, &f, &why, err);
    if (rc == 0 && why.code != 0) {
        q->r->unreadable_files++;
        return enqueue_trouble_at(q, e, "", 0, &why, err);
    }
    return rc != 0 ? rc : enqueue_found_file(q, &f, err);
}

static int open_entry(const struct enqueue_work *q, const struct walk_entry *e)
{
    /* O_NONBLOCK: should a pipe have taken the file's place meanwhile, opening it must not wait. */
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

    if (e->dir < 0)
        return open(e->path, flags);
    return openat(e->dir, e->name, q->o->follow ? flags : flags | O_NOFOLLOW);
}

static int left_alone(struct enqueue_work *q, const struct walk_entry *e,
                      const struct store_known *k, bool same, struct err *err)
{
    q->r->left_alone++;
    enqueue_skip(q, e, "", 0, "not a recording");
    if (e->dir < 0 && !q->o->quiet)
        enqueue_say(q, e->path, e->path_len, "", 0,
                    "skipped: it is not a recording (--all takes it anyway)");
    return same ? batch_kept(q->first, k->place_ids, k->count, err) : 0;
}

/* One that was taken as a recording by an earlier version, or with --all, is still there. */
static int cannot_be_decoded(struct enqueue_work *q, const struct walk_entry *e,
                             const struct store_known *k, bool same, const char *sentence,
                             struct err *err)
{
    int rc = enqueue_undecodable(q, e, "", 0, sentence, err);

    return rc == 0 && same ? batch_kept(q->first, k->place_ids, k->count, err) : rc;
}

/* Is it a copy of a recording that `export --format html` made (tools/export/html)? */
static bool is_of_page(const struct enqueue_work *q, const struct walk_entry *e)
{
    static const char folder[] = "/media/";
    const size_t before = e->path_len - strlen(e->name);

    return !q->o->all && e->dir >= 0 && before >= sizeof(folder) - 1 &&
           memcmp(e->path + before - (sizeof(folder) - 1), folder, sizeof(folder) - 1) == 0 &&
           strspn(e->name, "0123456789abcdef") == 16 && e->name[16] == '.' &&
           faccessat(e->dir, "../pages/catalog.txt", F_OK, 0) == 0;
}

/* A file whose name may be a recording's or an archive's, and that is not known to be unchanged. */
static int look_into(struct enqueue_work *q, const struct walk_entry *e,
                     const struct store_known *k, bool same, struct err *err)
{
    enum media_kind kind = MEDIA_OTHER;
    bool by_name = sniff_name(e->name[0] == '/' ? e->below : e->name, &kind) != 0;
    const char *sentence = NULL;
    char head[SNIFF_HEAD_BYTES];
    struct stat st;
    ssize_t n;
    int fd, rc = 0;

    if (!e->included && !(by_name && kind == MEDIA_ARCHIVE)) {
        q->r->excluded++;
        enqueue_skip(q, e, "", 0, "excluded");
        return batch_kept(q->first, k->place_ids, k->count, err);
    }
    if ((by_name && kind == MEDIA_OTHER && !q->o->all) || is_of_page(q, e))
        return left_alone(q, e, k, same, err);
    fd = open_entry(q, e);
    if (fd < 0)
        return errno == ENOENT ? 0 : enqueue_unreadable(q, e, errno, err);
    if (fstat(fd, &st) != 0)
        rc = enqueue_unreadable(q, e, errno, err);
    else if (!S_ISREG(st.st_mode)) {
        q->r->specials++;
        enqueue_skip(q, e, "", 0, "not a file");
    } else if (!by_name && (n = pread(fd, head, sizeof(head), 0)) < 0)
        rc = enqueue_unreadable(q, e, errno, err);
    else {
        if (!by_name)
            kind = kind_of_file(e->name, head, (size_t)n);
        if (!by_name && kind == MEDIA_OTHER)
            sentence = undecodable(e->name, head, (size_t)n);
        if (kind == MEDIA_ARCHIVE)
            rc = add_archive(q, e, fd, &st, k, same, err);
        else if (sentence)
            rc = cannot_be_decoded(q, e, k, same, sentence, err);
        else if (kind == MEDIA_RECORDING || q->o->all)
            rc = add_recording(q, e, fd, &st, err);
        else
            rc = left_alone(q, e, k, same, err);
    }
    close(fd);
    return rc;
}

/* Would look_into take all that the catalog knows of it, by its name alone? Patterns may leave out
 * members of an archive. */
static bool is_plain(const struct enqueue_work *q, const struct walk_entry *e)
{
    enum media_kind kind;

    if (sniff_name(e->name[0] == '/' ? e->below : e->name, &kind) == 0 || is_of_page(q, e))
        return false;
    if (kind == MEDIA_ARCHIVE)
        return !q->o->include && !q->o->exclude;
    return kind == MEDIA_RECORDING || q->o->all;
}

/* Looks the path up in the catalog. *k holds for all stages, except that has[i] stands for
 * k->has_task_all of stage i. ERR_EMPTY: not found. */
static int look_up(struct enqueue_work *q, const struct walk_entry *e, struct store_known *k,
                   bool *has, struct err *err)
{
    int rc = ERR_EMPTY;

    if (!enqueue_known(q))
        return rc;
    for (uint32_t i = 0; i < q->group->count; i++) {
        store_known_free(k);
        rc = store_known_path(enqueue_known(q), e->path, e->path_len, &q->group->kinds[i].stage, k,
                              err);
        if (rc != 0)
            return rc;
        has[i] = k->has_task_all;
    }
    return rc;
}

int enqueue_file(struct enqueue_work *q, const struct walk_entry *e, struct err *err)
{
    struct store_known k = {0};
    bool same = false, has[STAGE_COUNT] = {0}, has_all = true;
    int rc;

    q->r->files++;
    if (is_own(q->o->catalog, e->path)) {
        enqueue_skip(q, e, "", 0, "the catalog");
        return 0;
    }
    if (q->o->stable_ms > 0 && e->st &&
        !watching_is_stable(e->st, q->o->stable_ms,
                            q->o->as_of_ms ? q->o->as_of_ms : clock_wall_ms())) {
        q->r->unstable++;
        enqueue_skip(q, e, "", 0, "still being written");
        return batch_unread(q->first, e->path, err);
    }
    rc = look_up(q, e, &k, has, err);
    if (rc == 0)
        same = is_same(&k, e->st);
    else if (rc != ERR_EMPTY)
        return rc;
    for (uint32_t i = 0; i < q->group->count; i++)
        has_all &= has[i];
    if (same && !k.unproven && e->included && (has_all || is_plain(q, e))) {
        q->r->found += k.count;
        enqueue_take(q, e->path, e->path_len, "", 0, k.count, "known");
        rc = 0;
        for (uint32_t i = 0; rc == 0 && i < q->group->count; i++)
            /* A new priority also applies to tasks that are there already. */
            rc = has[i] && !q->o->has_priority
                     ? batch_same(q->now->of[i], k.place_ids, k.count, err)
                     : batch_known(q->now->of[i], k.place_ids, k.count, err);
    } else
        rc = look_into(q, e, &k, same, err);
    store_known_free(&k);
    return rc;
}

bool enqueue_may_hold(const struct enqueue_work *q, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    enum media_kind kind = MEDIA_OTHER;
    char head[SNIFF_HEAD_BYTES];
    struct stat st;
    bool ret = true;
    ssize_t n;
    int fd;

    if (stat(path, &st) != 0)
        return errno != ENOENT;
    if (!S_ISREG(st.st_mode) || q->o->all)
        return true;
    if (sniff_name(name, &kind) != 0)
        return kind != MEDIA_OTHER;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return true;
    n = pread(fd, head, sizeof(head), 0);
    if (n >= 0)
        ret = kind_of_file(name, head, (size_t)n) != MEDIA_OTHER ||
              undecodable(name, head, (size_t)n) != NULL;
    close(fd);
    return ret;
}
