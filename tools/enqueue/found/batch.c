#include "tools/enqueue/found/batch.h"

#include <stdlib.h>
#include <string.h>

#include "tools/enqueue/found/dry_run.h"
#include "tools/writer.h"

#define ARENA_BYTES (1u << 20) /* of paths in one request; well below REQUEST_SOFT_BYTES */
#define TROUBLES_MAX 1024
#define UNREAD_MAX 16384
#define SLOTS (2 * REQUEST_MAX_FOUND) /* a power of two */

struct ids {
    int64_t id[REQUEST_MAX_FOUND];
    uint32_t n;
};

struct batch {
    struct writer *writer;
    struct dry_run *dry_run; /* without a writer */
    int64_t job_id;
    bool keep_source, keep_other;
    struct store_enqueue_counts counts;

    struct store_found found[REQUEST_MAX_FOUND];
    uint32_t found_n;
    uint16_t slots[SLOTS]; /* by fingerprint, the number in `found` + 1; 0: free */
    batch_unproven_fn on_unproven;
    void *unproven_arg;
    struct ids same, known, kept;
    struct request_trouble troubles[TROUBLES_MAX];
    uint32_t trouble_n;
    /* Both arenas keep their place, so that pointers into them stay good until they are emptied. */
    char found_bytes[ARENA_BYTES], trouble_bytes[ARENA_BYTES];
    size_t found_used, trouble_used;

    char *unread[UNREAD_MAX];
    uint32_t unread_n;
    size_t unread_bytes;
    bool unread_full;
};

static void add_counts(struct store_enqueue_counts *sum, const struct store_enqueue_counts *c)
{
    sum->seen += c->seen;
    sum->added += c->added;
    sum->places += c->places;
    sum->changed += c->changed;
    sum->unchanged += c->unchanged;
    sum->vanished += c->vanished;
    sum->gone += c->gone;
    sum->back += c->back;
    sum->waiting += c->waiting;
    sum->tasks += c->tasks;
    sum->lacking += c->lacking;
    sum->restored += c->restored;
    sum->reasked += c->reasked;
    sum->instead += c->instead;
    sum->erased += c->erased;
}

/* reply: or NULL. */
static int send_batch_request(struct batch *b, struct request *rq, bool counted,
                              struct request_reply *reply, struct err *err)
{
    struct request_reply own = {0};
    int rc;

    if (!b->writer)
        return 0;
    reply = reply ? reply : &own;
    rq->job_id = b->job_id;
    rq->keep_source = b->keep_source;
    rq->keep_other = b->keep_other;
    rc = writer_request(b->writer, rq, reply, err);
    if (rc == 0 && counted)
        add_counts(&b->counts, &reply->counts);
    return rc;
}

int batch_begin(struct writer *writer, struct dry_run *dry_run, const struct request *begin,
                struct batch **ret, struct err *err)
{
    struct request_reply reply = {0};
    struct batch *b = calloc(1, sizeof(*b));
    int rc;

    if (!b)
        return err_set(err, ERR_NOMEM, "out of memory");
    b->writer = writer;
    b->dry_run = dry_run;
    b->keep_source = begin->keep_source;
    b->keep_other = begin->keep_other;
    rc = writer ? writer_request(writer, begin, &reply, err) : 0;
    if (rc != 0) {
        batch_free(b);
        return rc;
    }
    b->job_id = reply.job_id;
    *ret = b;
    return 0;
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->unread_n; i++)
        free(b->unread[i]);
    free(b);
}

static const void *copy_to_arena(char *arena, size_t *used, const void *bytes, size_t len)
{
    char *at = arena + *used;

    if (len > 0)
        memcpy(at, bytes, len);
    *used += len;
    return at;
}

/* A copy of what the catalog left out, so that gathering can go on. */
struct left {
    struct store_found *list;
    char *bytes;
    uint32_t n;
};

static int take_left(const struct batch *b, const struct request_reply *reply, struct left *ret,
                     struct err *err)
{
    size_t used = 0;

    *ret = (struct left){0};
    for (uint32_t i = 0; i < b->found_n; i++)
        ret->n += reply->unproven[i / 8] >> (i % 8) & 1;
    if (ret->n == 0)
        return 0;
    ret->list = calloc(ret->n, sizeof(*ret->list));
    ret->bytes = malloc(b->found_used + 2 * (size_t)ret->n); /* each with a NUL behind it */
    if (!ret->list || !ret->bytes)
        return err_set(err, ERR_NOMEM, "out of memory");
    ret->n = 0;
    for (uint32_t i = 0; i < b->found_n; i++) {
        struct store_found *f = &ret->list[ret->n];

        if (!(reply->unproven[i / 8] >> (i % 8) & 1))
            continue;
        *f = b->found[i];
        f->path = copy_to_arena(ret->bytes, &used, f->path, f->path_len);
        ret->bytes[used++] = 0;
        f->member = copy_to_arena(ret->bytes, &used, f->member, f->member_len);
        ret->bytes[used++] = 0;
        ret->n++;
    }
    return 0;
}

static int flush_found(struct batch *b, struct err *err)
{
    struct request rq = {.type = REQUEST_ENQUEUE_ADD, .found = b->found, .count = b->found_n};
    struct request_reply reply = {0};
    struct left left = {0};
    int rc = b->found_n > 0 ? send_batch_request(b, &rq, true, &reply, err) : 0;

    if (rc == 0)
        rc = take_left(b, &reply, &left, err);
    b->found_n = 0;
    b->found_used = 0;
    memset(b->slots, 0, sizeof(b->slots));
    for (uint32_t i = 0; rc == 0 && i < left.n; i++)
        rc = b->on_unproven(b->unproven_arg, b, &left.list[i], err);
    free(left.list);
    free(left.bytes);
    return rc;
}

static int flush_ids(struct batch *b, struct ids *ids, struct err *err)
{
    struct request rq = {.type = ids == &b->known ? REQUEST_ENQUEUE_KNOWN : REQUEST_ENQUEUE_SAME,
                         .place_ids = ids->id,
                         .count = ids->n};
    int rc = ids->n > 0 ? send_batch_request(b, &rq, ids != &b->kept, NULL, err) : 0;

    ids->n = 0;
    return rc;
}

static int flush_troubles(struct batch *b, struct err *err)
{
    struct request rq = {
        .type = REQUEST_ENQUEUE_TROUBLE, .troubles = b->troubles, .count = b->trouble_n};
    int rc = b->trouble_n > 0 ? send_batch_request(b, &rq, false, NULL, err) : 0;

    b->trouble_n = 0;
    b->trouble_used = 0;
    return rc;
}

/* The fingerprint's index in `slots`, or the free one for it. */
static uint32_t slot_of(const struct batch *b, const uint8_t fingerprint[16])
{
    uint32_t at;

    memcpy(&at, fingerprint, sizeof(at));
    for (at %= SLOTS; b->slots[at]; at = (at + 1) % SLOTS)
        if (memcmp(b->found[b->slots[at] - 1].fingerprint, fingerprint, 16) == 0)
            break;
    return at;
}

struct store_found *batch_holds(struct batch *b, const uint8_t fingerprint[16])
{
    const uint16_t at = b->slots[slot_of(b, fingerprint)];

    return at ? &b->found[at - 1] : NULL;
}

void batch_on_unproven(struct batch *b, batch_unproven_fn fn, void *arg)
{
    b->on_unproven = fn;
    b->unproven_arg = arg;
}

int batch_found(struct batch *b, const struct store_found *f, struct err *err)
{
    struct store_found *slot;
    int rc = 0;

    if (f->path_len > REQUEST_MAX_PATH || f->member_len > REQUEST_MAX_PATH)
        return err_set(err, ERR_LIMIT, "a name is longer than %d bytes", REQUEST_MAX_PATH);
    if (!b->writer)
        return dry_run_found(b->dry_run, f, &b->counts, err);
    /* Flushed recordings may come back as unproven. */
    while (rc == 0 && (b->found_n == REQUEST_MAX_FOUND ||
                       b->found_used + f->path_len + f->member_len > ARENA_BYTES))
        rc = flush_found(b, err);
    if (rc != 0)
        return rc;
    slot = &b->found[b->found_n++];
    *slot = *f;
    slot->path = copy_to_arena(b->found_bytes, &b->found_used, f->path, f->path_len);
    slot->member = copy_to_arena(b->found_bytes, &b->found_used, f->member, f->member_len);
    if (!batch_holds(b, f->fingerprint))
        b->slots[slot_of(b, f->fingerprint)] = (uint16_t)b->found_n;
    return 0;
}

static int put_ids(struct batch *b, struct ids *ids, const int64_t *place_ids, uint32_t n,
                   struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        if (ids->n == REQUEST_MAX_FOUND)
            rc = flush_ids(b, ids, err);
        ids->id[ids->n++] = place_ids[i];
    }
    return rc;
}

static int put_unchanged(struct batch *b, struct ids *ids, const int64_t *place_ids, uint32_t n,
                         struct err *err)
{
    if (!b->writer) {
        b->counts.seen += n;
        b->counts.unchanged += n;
        return dry_run_same(b->dry_run, place_ids, n, &b->counts, err);
    }
    return put_ids(b, ids, place_ids, n, err);
}

int batch_same(struct batch *b, const int64_t *place_ids, uint32_t n, struct err *err)
{
    return put_unchanged(b, &b->same, place_ids, n, err);
}

int batch_known(struct batch *b, const int64_t *place_ids, uint32_t n, struct err *err)
{
    return put_unchanged(b, &b->known, place_ids, n, err);
}

int batch_kept(struct batch *b, const int64_t *place_ids, uint32_t n, struct err *err)
{
    return b->writer ? put_ids(b, &b->kept, place_ids, n, err)
                     : dry_run_same(b->dry_run, place_ids, n, NULL, err);
}

int batch_trouble(struct batch *b, const struct request_trouble *t, struct err *err)
{
    size_t len = strlen(t->message) + 1;
    struct request_trouble *slot;
    int rc;

    if (t->path_len > REQUEST_MAX_PATH || t->member_len > REQUEST_MAX_PATH)
        return 0;
    if (b->trouble_n == TROUBLES_MAX ||
        b->trouble_used + t->path_len + t->member_len + len > ARENA_BYTES) {
        rc = flush_troubles(b, err);
        if (rc != 0)
            return rc;
    }
    slot = &b->troubles[b->trouble_n++];
    slot->code = t->code;
    slot->path_len = t->path_len;
    slot->member_len = t->member_len;
    slot->nth = t->nth;
    slot->path = copy_to_arena(b->trouble_bytes, &b->trouble_used, t->path, t->path_len);
    slot->member = copy_to_arena(b->trouble_bytes, &b->trouble_used, t->member, t->member_len);
    slot->message = copy_to_arena(b->trouble_bytes, &b->trouble_used, t->message, len);
    return 0;
}

int batch_unread(struct batch *b, const char *path, struct err *err)
{
    size_t len = strlen(path);

    if (b->unread_full)
        return 0;
    if (b->unread_n == UNREAD_MAX || b->unread_bytes + len > ARENA_BYTES) {
        b->unread_full = true;
        return 0;
    }
    b->unread[b->unread_n] = strdup(path);
    if (!b->unread[b->unread_n])
        return err_set(err, ERR_NOMEM, "out of memory");
    b->unread_n++;
    b->unread_bytes += len;
    return 0;
}

int batch_end(struct batch *b, const struct batch *told, const char *const *roots,
              uint32_t root_count, bool *vanish_skipped, struct err *err)
{
    struct request rq = {.type = REQUEST_ENQUEUE_END,
                         .roots = roots,
                         .root_count = told->unread_full ? 0 : root_count,
                         .unread = (const char *const *)told->unread,
                         .unread_count = told->unread_full ? 0 : told->unread_n};
    int rc = b->writer ? 0 : dry_run_end(b->dry_run, &rq, &b->counts, err);

    while (rc == 0 && b->found_n > 0)
        rc = flush_found(b, err);
    if (rc == 0)
        rc = flush_ids(b, &b->same, err);
    if (rc == 0)
        rc = flush_ids(b, &b->known, err);
    if (rc == 0)
        rc = flush_ids(b, &b->kept, err);
    if (rc == 0)
        rc = flush_troubles(b, err);
    if (rc == 0)
        rc = send_batch_request(b, &rq, true, NULL, err);
    *vanish_skipped = told->unread_full;
    return rc;
}

int64_t batch_job(const struct batch *b) { return b->job_id; }

const struct store_enqueue_counts *batch_counts(const struct batch *b) { return &b->counts; }
