/* The wire form of requests and replies (store/request.h): a version byte, the type, then the
 * fields of that type in the order of the struct. */
#include <stdlib.h>
#include <string.h>

#include "store/request.h"

#define CODEC_VERSION 4

struct block {
    struct block *next;
    max_align_t data[];
};

/* One decoding: where it reads, what it owns, and whether memory or the bytes were at fault. */
struct decoding {
    struct reader r;
    struct request_decoded d;
    bool no_memory;
};

static void *arena_alloc(struct decoding *c, size_t n)
{
    struct block *b = malloc(sizeof(*b) + n + 1);

    if (!b) {
        c->no_memory = true;
        c->r.failed = true;
        return NULL;
    }
    b->next = c->d.arena;
    c->d.arena = b;
    return b->data;
}

void request_decoded_free(struct request_decoded *d)
{
    struct block *b = d->arena, *next;

    for (; b; b = next) {
        next = b->next;
        free(b);
    }
    *d = (struct request_decoded){0};
}

static void put_found(struct buf *out, const struct store_found *f)
{
    buf_put_bytes(out, f->path, f->path_len);
    buf_put_bytes(out, f->member, f->member_len);
    buf_put_u32(out, f->nth);
    buf_put_u64(out, f->size_bytes);
    buf_put_u64(out, f->file_size_bytes);
    buf_put_i64(out, f->mtime_ns);
    buf_put_u64(out, f->inode);
    buf_put_u64(out, f->device);
    buf_put(out, f->fingerprint, sizeof(f->fingerprint));
}

static void put_strings(struct buf *out, const char *const *list, uint32_t count)
{
    buf_put_u32(out, count);
    for (uint32_t i = 0; i < count; i++)
        buf_put_str(out, list[i]);
}

static void put_stage(struct buf *out, const struct store_stage *s)
{
    buf_put_str(out, s->name);
    buf_put_str(out, s->model);
    buf_put_str(out, s->model_dir);
    buf_put_str(out, s->model_hash);
    buf_put_str(out, s->params_json);
}

void request_put(struct buf *out, const struct request *rq)
{
    buf_put_u8(out, CODEC_VERSION);
    buf_put_u8(out, (uint8_t)rq->type);
    switch (rq->type) {
    case REQUEST_ENQUEUE_BEGIN:
        buf_put_str(out, rq->command_line);
        put_stage(out, &rq->stage);
        buf_put_u8(out, store_stage_source(&rq->stage) != NULL);
        if (store_stage_source(&rq->stage))
            put_stage(out, rq->stage.source);
        buf_put_str(out, rq->language);
        return;
    case REQUEST_ENQUEUE_ADD:
        buf_put_i64(out, rq->job_id);
        buf_put_u8(out, rq->keep_source);
        buf_put_u32(out, rq->count);
        for (uint32_t i = 0; i < rq->count; i++)
            put_found(out, &rq->found[i]);
        return;
    case REQUEST_ENQUEUE_SAME:
    case REQUEST_ENQUEUE_KNOWN:
        buf_put_i64(out, rq->job_id);
        buf_put_u8(out, rq->keep_source);
        buf_put_u32(out, rq->count);
        for (uint32_t i = 0; i < rq->count; i++)
            buf_put_i64(out, rq->place_ids[i]);
        return;
    case REQUEST_ENQUEUE_TROUBLE:
        buf_put_i64(out, rq->job_id);
        buf_put_u32(out, rq->count);
        for (uint32_t i = 0; i < rq->count; i++) {
            const struct request_trouble *t = &rq->troubles[i];

            buf_put_bytes(out, t->path, t->path_len);
            buf_put_bytes(out, t->member, t->member_len);
            buf_put_u32(out, t->nth);
            buf_put_u32(out, (uint32_t)t->code);
            buf_put_str(out, t->message);
        }
        return;
    case REQUEST_ENQUEUE_END:
        buf_put_i64(out, rq->job_id);
        put_strings(out, rq->roots, rq->root_count);
        put_strings(out, rq->unread, rq->unread_count);
        return;
    case REQUEST_RETRY:
    case REQUEST_CANCEL:
    case REQUEST_PAUSE:
    case REQUEST_RESUME:
        buf_put_i64(out, rq->select_job);
        buf_put_u8(out, rq->select_path != NULL);
        if (rq->select_path)
            buf_put_str(out, rq->select_path);
        return;
    case REQUEST_NAME_SPEAKER:
        buf_put_i64(out, rq->speaker_id);
        buf_put_str(out, rq->speaker_name);
        return;
    }
    out->failed = true;
}

/* A C string in the arena; "" when the reader failed. */
static const char *get_str(struct decoding *c)
{
    size_t n;
    const uint8_t *p = reader_bytes(&c->r, REQUEST_MAX_PATH, &n);
    char *s;

    if (!p || memchr(p, 0, n)) {
        c->r.failed = true;
        return "";
    }
    s = arena_alloc(c, n);
    if (!s)
        return "";
    memcpy(s, p, n);
    s[n] = 0;
    return s;
}

/* An array whose items take at least `least` bytes each: a count that the rest cannot hold is
 * refused before anything is allocated for it. */
static void *get_array(struct decoding *c, size_t least, size_t size, uint32_t max, uint32_t *count)
{
    uint32_t n = reader_u32(&c->r);
    void *array;

    if (c->r.failed || n > max || n > (c->r.len - c->r.pos) / least) {
        c->r.failed = true;
        return NULL;
    }
    array = arena_alloc(c, (size_t)n * size);
    if (!array)
        return NULL;
    *count = n;
    return array;
}

static void get_found(struct decoding *c)
{
    struct store_found *list = get_array(c, 68, sizeof(*list), REQUEST_MAX_FOUND, &c->d.rq.count);
    const uint8_t *fingerprint;

    for (uint32_t i = 0; list && i < c->d.rq.count && !c->r.failed; i++) {
        struct store_found *f = &list[i];

        f->path = reader_bytes(&c->r, REQUEST_MAX_PATH, &f->path_len);
        f->member = reader_bytes(&c->r, REQUEST_MAX_PATH, &f->member_len);
        f->nth = reader_u32(&c->r);
        f->size_bytes = reader_u64(&c->r);
        f->file_size_bytes = reader_u64(&c->r);
        f->mtime_ns = reader_i64(&c->r);
        f->inode = reader_u64(&c->r);
        f->device = reader_u64(&c->r);
        fingerprint = reader_raw(&c->r, sizeof(f->fingerprint));
        if (fingerprint)
            memcpy(f->fingerprint, fingerprint, sizeof(f->fingerprint));
    }
    c->d.rq.found = list;
}

static void get_places(struct decoding *c)
{
    int64_t *list = get_array(c, 8, sizeof(*list), REQUEST_MAX_FOUND, &c->d.rq.count);

    for (uint32_t i = 0; list && i < c->d.rq.count; i++)
        list[i] = reader_i64(&c->r);
    c->d.rq.place_ids = list;
}

static void get_troubles(struct decoding *c)
{
    struct request_trouble *list =
        get_array(c, 20, sizeof(*list), REQUEST_MAX_FOUND, &c->d.rq.count);

    for (uint32_t i = 0; list && i < c->d.rq.count && !c->r.failed; i++) {
        struct request_trouble *t = &list[i];

        t->path = reader_bytes(&c->r, REQUEST_MAX_PATH, &t->path_len);
        t->member = reader_bytes(&c->r, REQUEST_MAX_PATH, &t->member_len);
        t->nth = reader_u32(&c->r);
        t->code = (int)(int32_t)reader_u32(&c->r);
        t->message = get_str(c);
    }
    c->d.rq.troubles = list;
}

static const char *const *get_strings(struct decoding *c, uint32_t *count)
{
    const char **list = get_array(c, 4, sizeof(*list), UINT32_MAX, count);

    for (uint32_t i = 0; list && i < *count && !c->r.failed; i++)
        list[i] = get_str(c);
    return list;
}

static void get_stage(struct decoding *c, struct store_stage *s)
{
    s->name = get_str(c);
    s->model = get_str(c);
    s->model_dir = get_str(c);
    s->model_hash = get_str(c);
    s->params_json = get_str(c);
}

static bool get_bool(struct decoding *c)
{
    uint8_t value = reader_u8(&c->r);

    if (value > 1)
        c->r.failed = true;
    return value == 1;
}

/* At most one: a source has none itself. */
static const struct store_stage *get_source(struct decoding *c)
{
    bool has = get_bool(c);
    struct store_stage *s;

    if (c->r.failed || !has)
        return NULL;
    s = arena_alloc(c, sizeof(*s));
    if (!s)
        return NULL;
    *s = (struct store_stage){0};
    get_stage(c, s);
    return s;
}

static void get_fields(struct decoding *c)
{
    struct request *rq = &c->d.rq;

    switch (rq->type) {
    case REQUEST_ENQUEUE_BEGIN:
        rq->command_line = get_str(c);
        get_stage(c, &rq->stage);
        rq->stage.source = get_source(c);
        rq->language = get_str(c);
        return;
    case REQUEST_ENQUEUE_ADD:
        rq->job_id = reader_i64(&c->r);
        rq->keep_source = get_bool(c);
        get_found(c);
        return;
    case REQUEST_ENQUEUE_SAME:
    case REQUEST_ENQUEUE_KNOWN:
        rq->job_id = reader_i64(&c->r);
        rq->keep_source = get_bool(c);
        get_places(c);
        return;
    case REQUEST_ENQUEUE_TROUBLE:
        rq->job_id = reader_i64(&c->r);
        get_troubles(c);
        return;
    case REQUEST_ENQUEUE_END:
        rq->job_id = reader_i64(&c->r);
        rq->roots = get_strings(c, &rq->root_count);
        rq->unread = get_strings(c, &rq->unread_count);
        return;
    case REQUEST_RETRY:
    case REQUEST_CANCEL:
    case REQUEST_PAUSE:
    case REQUEST_RESUME:
        rq->select_job = reader_i64(&c->r);
        if (reader_u8(&c->r))
            rq->select_path = get_str(c);
        return;
    case REQUEST_NAME_SPEAKER:
        rq->speaker_id = reader_i64(&c->r);
        rq->speaker_name = get_str(c);
        return;
    }
    c->r.failed = true;
}

int request_get(const uint8_t *data, size_t len, struct request_decoded *ret, struct err *err)
{
    struct decoding c = {0};
    uint8_t *copy = arena_alloc(&c, len), version;
    int rc = 0;

    if (!copy)
        return err_set(err, ERR_NOMEM, "request: out of memory");
    if (len)
        memcpy(copy, data, len);
    c.r = reader_of(copy, len);
    version = reader_u8(&c.r);
    c.d.rq.type = (enum request_type)reader_u8(&c.r);
    if (version != CODEC_VERSION && !c.r.failed)
        rc = err_set(err, ERR_PROTOCOL,
                     "request: written by another version of nightshift; use the one that runs");
    else
        get_fields(&c);
    if (rc == 0 && !reader_done(&c.r))
        rc = c.no_memory ? err_set(err, ERR_NOMEM, "request: out of memory")
                         : err_set(err, ERR_PROTOCOL, "request: malformed (%zu bytes)", len);
    if (rc < 0) {
        request_decoded_free(&c.d);
        return rc;
    }
    *ret = c.d;
    return 0;
}

void request_reply_put(struct buf *out, const struct request_reply *r)
{
    buf_put_u8(out, CODEC_VERSION);
    buf_put_i64(out, r->job_id);
    buf_put_u64(out, r->counts.seen);
    buf_put_u64(out, r->counts.added);
    buf_put_u64(out, r->counts.places);
    buf_put_u64(out, r->counts.changed);
    buf_put_u64(out, r->counts.unchanged);
    buf_put_u64(out, r->counts.vanished);
    buf_put_u64(out, r->counts.tasks);
    buf_put_u64(out, r->counts.lacking);
    buf_put_u64(out, r->affected);
}

int request_reply_get(const uint8_t *data, size_t len, struct request_reply *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct request_reply reply = {0};
    uint8_t version = reader_u8(&r);

    reply.job_id = reader_i64(&r);
    reply.counts.seen = reader_u64(&r);
    reply.counts.added = reader_u64(&r);
    reply.counts.places = reader_u64(&r);
    reply.counts.changed = reader_u64(&r);
    reply.counts.unchanged = reader_u64(&r);
    reply.counts.vanished = reader_u64(&r);
    reply.counts.tasks = reader_u64(&r);
    reply.counts.lacking = reader_u64(&r);
    reply.affected = reader_u64(&r);
    if (!reader_done(&r) || version != CODEC_VERSION)
        return err_set(err, ERR_PROTOCOL, "reply: malformed (%zu bytes)", len);
    *ret = reply;
    return 0;
}
