#include "tools/enqueue/identity.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "tools/enqueue/found/dry_run.h"
#include "workers/media/stream/fingerprint.h"

#define CHUNK_BYTES (1u << 20)
#define CLOCKS_APART_S 300 /* a file server's and ours, at most */

static_assert(STORE_WHOLE_BYTES == FINGERPRINT_WHOLE, "what a fingerprint is of");

/* Who has met a fingerprint before. */
struct known {
    struct store_met met; /* by the catalog */
    /* By this walk alone, of which the catalog has not been told; or NULL. */
    const struct store_found *gathered;
    struct dry_run_content *found; /* in a dry run */
    bool has_hash;
    uint8_t hash[HASH_BYTES];
};

/* ------------------------------------------------------------------------------- reading */

static int read_all(int fd, uint64_t size, struct hash *h, struct fingerprint *f, uint8_t *chunk,
                    struct err *err)
{
    uint64_t at = 0;

    while (at < size) {
        size_t n = size - at < CHUNK_BYTES ? (size_t)(size - at) : CHUNK_BYTES;
        ssize_t got = pread(fd, chunk, n, (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "cannot read it");
        if (got == 0)
            return err_set(err, ERR_CHANGED, "the file became shorter while it was read");
        hash_put(h, chunk, (size_t)got);
        fingerprint_feed(f, chunk, (size_t)got);
        at += (uint64_t)got;
    }
    return 0;
}

/* The hash of all bytes, which must be those of the fingerprint. */
static int hash_whole(struct enqueue_work *q, int fd, const struct store_found *of,
                      uint8_t ret[HASH_BYTES], struct err *err)
{
    uint8_t *chunk = malloc(CHUNK_BYTES), seen[16];
    struct hash *h = hash_new();
    struct fingerprint *f = NULL;
    int rc = chunk && h ? fingerprint_new(of->size_bytes, &f, err)
                        : err_set(err, ERR_NOMEM, "out of memory");

    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if (rc == 0) {
        struct err ignored;

        rc = read_all(fd, of->size_bytes, h, f, chunk, err);
        if (fingerprint_end(f, seen, rc ? &ignored : err) != 0 && rc == 0)
            rc = err->code;
    }
    if (rc == 0 && memcmp(seen, of->fingerprint, sizeof(seen)) != 0)
        rc = err_set(err, ERR_CHANGED, "the file was written while it was read");
    if (rc == 0) {
        hash_get(h, ret);
        q->r->reread++;
        q->r->reread_bytes += of->size_bytes;
    }
    hash_free(h);
    free(chunk);
    return rc;
}

/* ------------------------------------------------------------------------------- the known one */

struct origin_search {
    struct enqueue_work *q;
    const struct stat *st; /* of the file that was found; NULL: it is a member */
    struct store_found *f;
    struct known *k;
};

static bool is_as_it_was(const struct store_origin *o, const struct stat *st)
{
    return o->size_bytes == (uint64_t)st->st_size && o->inode == st->st_ino &&
           o->device == st->st_dev && o->mtime_ns == clock_ns_of(&st->st_mtim);
}

/* A file that cannot be had, or was written since, says nothing. */
static int on_origin(void *arg, const struct store_origin *o)
{
    struct origin_search *s = arg;
    struct err why = {0};
    struct stat st;
    int fd = open(o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        /* It has moved here. */
        if (errno == ENOENT && s->st && s->f->has_hash && is_as_it_was(o, s->st)) {
            memcpy(s->k->hash, s->f->hash, sizeof(s->k->hash));
            s->k->has_hash = s->f->moved = true;
        }
        return s->k->has_hash;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !is_as_it_was(o, &st)) {
        close(fd);
        return 0;
    }
    if (s->st && s->f->has_hash && s->st->st_ino == st.st_ino && s->st->st_dev == st.st_dev) {
        memcpy(s->k->hash, s->f->hash,
               sizeof(s->k->hash)); /* the same file, by this name or that */
        s->k->has_hash = true;
    } else {
        s->k->has_hash = hash_whole(s->q, fd, s->f, s->k->hash, &why) == 0;
    }
    close(fd);
    return s->k->has_hash;
}

/* A hash read for a recording of the catalog, perhaps not sent yet. */
struct learned {
    int64_t media_id;
    uint8_t hash[HASH_BYTES];
};

static int by_media(const void *a, const void *b)
{
    const struct learned *x = a, *y = b;

    return (x->media_id > y->media_id) - (x->media_id < y->media_id);
}

static const struct learned *learned_of(const struct enqueue_work *q, int64_t media_id)
{
    const struct learned key = {.media_id = media_id};
    struct learned **slot = tfind(&key, &q->learned, by_media);

    return slot ? *slot : NULL;
}

static int store_learned_hash(struct enqueue_work *q, int64_t media_id,
                              const uint8_t hash[HASH_BYTES], struct err *err)
{
    struct learned *l;

    if (learned_of(q, media_id))
        return 0;
    l = malloc(sizeof(*l));
    if (l) {
        l->media_id = media_id;
        memcpy(l->hash, hash, sizeof(l->hash));
    }
    if (!l || !tsearch(l, &q->learned, by_media)) {
        free(l);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

void identity_forget(struct enqueue_work *q)
{
    tdestroy(q->learned, free);
    q->learned = NULL;
}

/* The hash of the recording that the catalog has, where it can be had. */
static int known_hash(struct enqueue_work *q, const struct stat *st, struct store_found *f,
                      struct known *k, struct err *err)
{
    const struct learned *l = learned_of(q, k->met.media_id);
    struct origin_search s = {q, st, f, k};
    int rc = 0;

    if (k->met.has_content) {
        memcpy(k->hash, k->met.content, sizeof(k->hash));
        k->has_hash = true;
        return 0;
    }
    if (l)
        memcpy(k->hash, l->hash, sizeof(k->hash));
    k->has_hash = l != NULL;
    if (!l)
        rc = store_origins(enqueue_known(q), k->met.media_id, on_origin, &s, err);
    if (rc >= 0 && k->has_hash) {
        f->met_media = k->met.media_id;
        memcpy(f->met_hash, k->hash, sizeof(f->met_hash));
    }
    return rc < 0 ? rc : 0;
}

/* Hashes a file that this walk has found; false: it cannot be read, or has changed. mtime_ns NULL:
 * any time will do. */
static bool found_hash(struct enqueue_work *q, const struct store_found *of, const char *path,
                       const int64_t *mtime_ns, uint8_t ret[HASH_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct err why = {0};
    struct stat st;
    bool has = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
               (uint64_t)st.st_size == of->size_bytes &&
               (!mtime_ns || clock_ns_of(&st.st_mtim) == *mtime_ns) &&
               hash_whole(q, fd, of, ret, &why) == 0;

    if (fd >= 0)
        close(fd);
    return has;
}

static void dry_run_hash(struct enqueue_work *q, const struct store_found *f, struct known *k)
{
    struct dry_run_content *c = k->found;

    if (!c->has_hash && c->path)
        c->has_hash = found_hash(q, f, c->path, NULL, c->hash);
    k->has_hash = c->has_hash;
    memcpy(k->hash, c->hash, sizeof(k->hash));
}

/* Whatever is gathered goes with its hash from now on. */
static void give_hash(struct enqueue_work *q, const uint8_t fingerprint[16],
                      const uint8_t hash[HASH_BYTES])
{
    const struct groups *g = q->o->groups;

    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++) {
            struct store_found *held = batch_holds(q->sets[i].of[j], fingerprint);

            if (held && !held->has_hash) {
                memcpy(held->hash, hash, sizeof(held->hash));
                held->has_hash = true;
            }
        }
}

static int gathered_hash(struct enqueue_work *q, struct known *k, struct err *err)
{
    const struct store_found *g = k->gathered;
    char *path = g->has_hash || g->member_len ? NULL : strndup(g->path, g->path_len);

    if (g->has_hash) {
        memcpy(k->hash, g->hash, sizeof(k->hash));
        k->has_hash = true;
    } else if (g->member_len == 0 && !path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    } else if (path) {
        k->has_hash = found_hash(q, g, path, &g->mtime_ns, k->hash);
    }
    free(path);
    if (k->has_hash)
        give_hash(q, g->fingerprint, k->hash);
    return 0;
}

/* ------------------------------------------------------------------------------- what was found */

static const struct store_found *find_in_batches(const struct enqueue_work *q,
                                                 const uint8_t fingerprint[16])
{
    const struct groups *g = q->o->groups;
    const struct store_found *held = NULL;

    for (uint32_t i = 0; i < g->count && !held; i++)
        for (uint32_t j = 0; j < g->list[i].count && !held; j++)
            held = batch_holds(q->sets[i].of[j], fingerprint);
    return held;
}

/* Only its hash tells whether it is a recording that was erased. */
static bool must_tell(const struct store_met *m) { return m->erased_id && !m->erased_sure; }

/* 1: something has its fingerprint; 0: nothing. */
static int find_known_content(struct enqueue_work *q, const struct store_found *f, struct known *k,
                              struct err *err)
{
    int rc = 0;

    *k = (struct known){0};
    if (enqueue_known(q))
        rc = store_meet(enqueue_known(q), f, &k->met, err);
    if (rc == 0 && !k->met.media_id)
        k->gathered = find_in_batches(q, f->fingerprint);
    if (rc == 0 && !k->met.media_id && q->dry_run)
        k->found = dry_run_content(q->dry_run, f->fingerprint);
    return rc != 0 ? rc : k->met.media_id || k->gathered || k->found || must_tell(&k->met);
}

/* Has nobody written the file since it was seen at its place? Some file systems give it another
 * inode or device at each mount; but whoever replaces it, even with its times, changes the inode's
 * ctime. Without a known hash nothing was transcribed either, and the file there is the one that is
 * meant. */
static bool is_untouched(const struct store_met *m, const struct stat *st,
                         const struct store_found *f)
{
    if (!m->place_id || m->place_unproven || m->place_size != f->file_size_bytes ||
        m->place_mtime != f->mtime_ns)
        return false;
    return !m->place_has_content || (m->place_inode == f->inode && m->place_device == f->device) ||
           st->st_ctim.tv_sec < m->place_seen_s - CLOCKS_APART_S;
}

/* The catalog's own rule without a known hash: the place holds that recording, with the same size
 * and time. */
static bool lies_there(const struct store_met *m, const struct store_found *f)
{
    return m->place_id && m->place_media == m->media_id && !m->place_unproven &&
           m->place_size == f->file_size_bytes && m->place_mtime == f->mtime_ns;
}

/* Under the hash of all its bytes it is known again, whatever else has its fingerprint. */
static void tell_apart(struct enqueue_work *q, const struct store_met *m, struct store_found *f)
{
    memcpy(f->fingerprint, f->hash, sizeof(f->fingerprint));
    f->moved = false;
    if (!m->place_unproven || memcmp(f->fingerprint, m->place_fingerprint, 16) == 0)
        return;
    q->r->told_apart++;
    enqueue_say(q, f->path, f->path_len, f->member, f->nth,
                "it was mistaken for a similar recording; this is corrected now");
}

/* 1: a recording is known by the hash of what has moved here, as a copy of it was found while
 * nobody could tell: it is that one. */
static int met_by_hash(struct enqueue_work *q, const struct store_found *f, struct err *err)
{
    struct store_found under = *f;
    struct known k;

    memcpy(under.fingerprint, f->hash, sizeof(under.fingerprint));
    return find_known_content(q, &under, &k, err);
}

int identity_of(struct enqueue_work *q, int fd, const struct stat *st, struct store_found *f,
                struct err *why, struct err *err)
{
    struct known k;
    int rc = f->size_bytes > FINGERPRINT_WHOLE ? find_known_content(q, f, &k, err) : 0;

    if (rc <= 0)
        return rc;
    if (fd >= 0 && !must_tell(&k.met) && is_untouched(&k.met, st, f)) {
        memcpy(f->fingerprint, k.met.place_fingerprint, sizeof(f->fingerprint));
        return 0;
    }
    if (fd >= 0 && hash_whole(q, fd, f, f->hash, why) != 0)
        return 0;
    f->has_hash = true;
    rc = 0;
    if (k.met.media_id)
        rc = known_hash(q, fd >= 0 ? st : NULL, f, &k, err);
    else if (k.gathered)
        rc = gathered_hash(q, &k, err);
    else if (k.found)
        dry_run_hash(q, f, &k);
    else
        return 0; /* nothing but the mark of what was erased */
    if (rc == 0 && f->moved)
        rc = met_by_hash(q, f, err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        f->met_media = 0;
        k.has_hash = false;
    }
    if (k.has_hash ? memcmp(k.hash, f->hash, sizeof(f->hash)) != 0 : !lies_there(&k.met, f))
        tell_apart(q, &k.met, f);
    return f->met_media ? store_learned_hash(q, f->met_media, f->met_hash, err) : 0;
}

static void say_erased(struct enqueue_work *q, const struct store_found *f,
                       const struct store_met *met)
{
    char text[160];

    snprintf(text, sizeof(text),
             "erased on %.10s: skipped (`nightshift erase --allow %lld` allows it again)",
             met->erased_at, (long long)met->erased_id);
    enqueue_say(q, f->path, f->path_len, f->member, f->nth, text);
}

int identity_again(void *arg, struct batch *b, const struct store_found *f, struct err *err)
{
    struct enqueue_work *q = arg;
    struct store_found again = *f;
    struct walk_entry e = {.path = f->path, .path_len = f->path_len};
    struct store_met met = {0};
    struct err why = {0};
    struct stat st;
    int rc = enqueue_known(q) ? store_meet(enqueue_known(q), f, &met, err) : 0;
    int fd;

    if (rc < 0)
        return rc;
    if (met.erased_sure) {
        if (b == q->first) /* each stage of a recording asks */
            say_erased(q, f, &met);
        return 0;
    }
    fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0)
        err_sys(&why, errno, "cannot read it");
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != f->size_bytes ||
             clock_ns_of(&st.st_mtim) != f->mtime_ns)
        err_set(&why, ERR_CHANGED, "the file was written while it was enqueued");
    else
        rc = identity_of(q, fd, &st, &again, &why, err);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && why.code != 0) {
        q->r->unreadable_files++;
        return enqueue_trouble_at(q, &e, "", 0, &why, err);
    }
    return rc != 0 ? rc : batch_found(b, &again, err);
}
