#include "tools/enqueue/enqueue.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/enqueue/enqueue_file.h"
#include "tools/enqueue/found/dry_run.h"
#include "tools/enqueue/identity.h"
#include "tools/writer.h"
#include "workers/media/decoder.h"

/* Something that is there and is not taken: what the catalog knows of it must not vanish. */
static int on_left_out(struct enqueue_work *q, const struct walk_entry *e, struct err *err)
{
    struct store_known k = {0};
    int rc;

    if (!enqueue_known(q))
        return 0;
    if (e->directory) { /* storage servers have one in each folder: most of them hold nothing known
                         */
        rc = store_has_below(enqueue_known(q), e->path, e->path_len, err);
        return rc == 1 ? batch_unread(q->first, e->path, err) : rc;
    }
    rc = store_known_path(enqueue_known(q), e->path, e->path_len, &q->group->kinds[0].stage, &k,
                          err);
    if (rc != 0)
        return rc == ERR_EMPTY ? 0 : rc;
    rc = batch_kept(q->first, k.place_ids, k.count, err);
    store_known_free(&k);
    return rc;
}

static int on_entry(void *arg, const struct walk_entry *e, struct err *err)
{
    struct enqueue_work *q = arg;
    const uint32_t group = groups_of(q->o->groups, e->path, e->path_len);

    q->group = &q->o->groups->list[group];
    q->now = &q->sets[group];
    enqueue_progress(q, e->path, e->path_len);
    switch (e->kind) {
    case WALK_FILE:
        return enqueue_file(q, e, err);
    case WALK_UNREADABLE:
        return enqueue_unreadable(q, e, e->error, err);
    case WALK_SPECIAL:
        q->r->specials++;
        enqueue_skip(q, e, "", 0, "not a file");
        if (e->dir < 0 && !q->o->quiet)
            enqueue_say(q, e->path, e->path_len, "", 0, "skipped: it is a pipe, socket or device");
        return 0;
    case WALK_SKIPPED:
        q->r->skipped[e->skip]++;
        enqueue_skip(q, e, "", 0, skip_word(e->skip));
        return on_left_out(q, e, err);
    case WALK_LINK:
        q->r->links++;
        enqueue_skip(q, e, "", 0, "symbolic link");
        return on_left_out(q, e, err);
    case WALK_EXCLUDED:
    case WALK_OTHER_DISK:
        q->r->excluded++;
        enqueue_skip(q, e, "", 0, e->kind == WALK_EXCLUDED ? "excluded" : "another disk");
        return on_left_out(q, e, err);
    }
    return 0;
}

const char *enqueue_absent(const char *root)
{
    struct stat st;

    return lstat(root, &st) == 0 && S_ISLNK(st.st_mode)
               ? "it is a link to a file that does not exist"
               : "there is no such file or folder";
}

static int walk_roots(struct enqueue_work *q, const char *const *roots, uint32_t root_count,
                      const char **walked, uint32_t *walked_count, struct err *err)
{
    const struct walk_options wo = {.include = q->o->include,
                                    .exclude = q->o->exclude,
                                    .follow = q->o->follow,
                                    .one_file_system = q->o->one_file_system,
                                    .hidden = q->o->hidden,
                                    .entry = on_entry,
                                    .arg = q};
    struct walk *w = NULL;
    int rc = walk_new(&wo, &w, err);

    for (uint32_t i = 0; rc == 0 && i < root_count; i++) {
        rc = walk_root(w, roots[i], err);
        if (rc == 0)
            walked[(*walked_count)++] = roots[i];
        else if (rc == ERR_MISSING && err->code == ERR_MISSING) {
            enqueue_say(q, roots[i], strlen(roots[i]), "", 0, enqueue_absent(roots[i]));
            q->r->missing_roots++;
            rc = 0;
        }
    }
    walk_free(w);
    decoder_drop_server();
    return rc;
}

/* The first job ends last and reports what has vanished: it has been told of everything by then.
 * Each job reports what is unread: it may have noted members of an archive that was not read to its
 * end, which must not look unchanged. */
static int end_all(struct enqueue_work *q, const char *const *walked, uint32_t walked_count,
                   struct err *err)
{
    const struct groups *g = q->o->groups;
    int rc = 0;

    for (uint32_t i = g->count; rc == 0 && i-- > 0;)
        for (uint32_t j = 0; rc == 0 && j < g->list[i].count; j++) {
            struct batch *b = q->sets[i].of[j];

            rc = batch_end(b, q->first, walked, b == q->first ? walked_count : 0,
                           &q->r->vanish_skipped, err);
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
    sum->back += c->back;
    sum->erased += c->erased;
}

static void sum_up(struct enqueue_work *q)
{
    struct enqueue_result *r = q->r;
    const struct groups *g = q->o->groups;

    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t waiting = 0; /* each stage counts the same recordings */

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
            waiting = c->waiting > waiting ? c->waiting : waiting;
            if (j == 0)
                add_counts(c, &r->counts);
        }
        r->counts.waiting += waiting;
    }
    r->through_run = q->writer && writer_through_run(q->writer);
}

/* Without a transcription of its own a group takes what is transcribed already. */
static bool group_has_transcription(const struct groups_group *group)
{
    return group->count > 0 && strcmp(group->kinds[0].stage.name, stage_transcribe.name) == 0;
}

static int begin_all(struct enqueue_work *q, struct err *err)
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
                                       .keep_source = !group_has_transcription(&g->list[i]),
                                       .keep_other = k->keeps,
                                       .roots = k->roots,
                                       .root_count = k->root_count,
                                       .options = k->options,
                                       .replaces = k->replaces,
                                       .has_priority = q->o->has_priority,
                                       .priority = q->o->priority};

            rc = batch_begin(q->writer, q->dry_run, &rq, &q->sets[i].of[j], err);
            if (rc == 0)
                batch_on_unproven(q->sets[i].of[j], identity_again, q);
        }
    q->first = q->sets[0].of[0];
    return rc;
}

static void free_all(struct enqueue_work *q)
{
    for (uint32_t i = 0; i < q->o->groups->count && q->sets; i++)
        for (uint32_t j = 0; j < STAGE_COUNT; j++)
            batch_free(q->sets[i].of[j]);
    free(q->sets);
    dry_run_free(q->dry_run);
    identity_forget(q);
}

static void drop_root(const struct groups *g, const char *root)
{
    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++) {
            struct groups_kind *k = &g->list[i].kinds[j];
            uint32_t kept = 0;

            for (uint32_t at = 0; at < k->root_count; at++)
                if (strcmp(k->roots[at], root) != 0)
                    k->roots[kept++] = k->roots[at];
            k->root_count = kept;
        }
}

/* A path where nothing can be found, and nothing is known that might be gone, gets no recipe; where
 * there is no other path, no job either. */
static int drop_empty(struct enqueue_work *q, const char *const *roots, uint32_t root_count,
                      struct err *err)
{
    uint32_t empty = 0;
    int rc = 0;

    for (uint32_t i = 0; rc >= 0 && i < root_count; i++) {
        rc = enqueue_may_hold(q, roots[i])
                 ? 1
                 : store_has_below(enqueue_known(q), roots[i], strlen(roots[i]), err);
        if (rc == 0)
            drop_root(q->o->groups, roots[i]);
        empty += rc == 0;
    }
    if (rc >= 0 && empty > 0 && empty == root_count)
        q->writer = NULL;
    return rc < 0 ? rc : 0;
}

int enqueue_paths(const struct enqueue_options *o, struct writer *writer, struct store *known,
                  const char *const *roots, uint32_t root_count, struct enqueue_result *ret,
                  struct err *err)
{
    struct enqueue_work q = {.o = o, .r = ret, .writer = writer, .known = known};
    const char **walked = calloc(root_count + 1, sizeof(*walked));
    uint32_t walked_count = 0;
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    q.sets = calloc(o->groups->count, sizeof(*q.sets));
    if (!walked || !q.sets)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && writer)
        rc = drop_empty(&q, roots, root_count, err);
    if (rc == 0 && !q.writer)
        rc = dry_run_new(known, &q.dry_run, err);
    if (rc == 0)
        rc = begin_all(&q, err);
    if (rc == 0)
        rc = walk_roots(&q, roots, root_count, walked, &walked_count, err);
    if (rc == 0)
        rc = end_all(&q, walked, walked_count, err);
    enqueue_clear_line(&q);
    if (q.sets)
        sum_up(&q);
    free_all(&q);
    free(walked);
    return rc;
}
