/* A member of an archive as a stream that can seek.
 *
 * Unpacking goes forward only. The last RING_BYTES stay in memory; a reader that goes back further
 * makes the unpacking begin anew and skip to where it was. So an mp4 whose index stands at its end
 * costs two passes, memory stays bounded, and nothing is written to a disk. During a walk, the
 * first pass over each member is the walk's own, and all members share the second. */
#include "workers/media/stream/stream.h"

#include <stdlib.h>
#include <string.h>

#include "workers/media/stream/archive.h"

#define RING_BYTES ((int64_t)16 << 20)
#define FILL_BYTES ((int64_t)256 << 10)
/* The most passes: a member that needs more cannot be read in sensible time. */
#define MAX_RESTARTS 200

struct member_stream {
    struct stream base;
    struct stream *under;
    struct archive_reader *src;    /* stands on the entry, `end` bytes into it */
    struct archive_reader **again; /* the pass that a restart takes: &src, or the walk's second */
    uint64_t index;
    uint64_t max_bytes;
    unsigned restarts;
    bool keeps_under; /* closing it leaves `under` open */
    int64_t pos;      /* of the reader */
    int64_t end;      /* unpacked in this pass; the ring holds the ring_bytes before it */
    int64_t ring_bytes;
    struct err refused; /* it can be found, but never be read: encrypted */
    struct err tail;    /* what reading past the last byte gave: a wrong checksum, say */
    uint8_t *ring;
    /* The walk's pass, which was src at first, and what it is charged outside of this member; NULL:
     * src is its own. */
    struct archive_reader *lent;
    struct archive_budget lent_budget;
};

/* Goes to the beginning of the entry with this number: with *src when that is not past it, else in
 * a fresh pass. On error *src is NULL. */
static int find_index(struct stream *under, uint64_t index, uint64_t max_bytes,
                      struct archive_reader **src, struct err *err)
{
    struct archive_item item;
    int rc = 0;

    if (*src && archive_reader_entries(*src) > index) {
        archive_reader_close(*src);
        *src = NULL;
    }
    if (*src)
        (void)archive_reader_charge(*src, (struct archive_budget){.max_bytes = max_bytes});
    else
        rc = archive_reader_open(under, max_bytes, src, err);
    if (rc != 0)
        return rc;
    do {
        rc = archive_reader_next(*src, &item, err);
    } while (rc == 0 && item.index < index);
    if (rc != 0) {
        archive_reader_close(*src);
        *src = NULL;
    }
    return rc == ERR_EMPTY ? err_set(err, ERR_MISSING, "the archive has no such member") : rc;
}

static int restart_member(struct member_stream *m, struct err *err)
{
    int rc;

    if (++m->restarts > MAX_RESTARTS) {
        return err_set(err, ERR_LIMIT,
                       "goes back and forth too often to be read inside a "
                       "compressed archive: unpack it first");
    }
    rc = find_index(m->under, m->index, m->max_bytes, m->again, err);
    m->src = *m->again;
    m->end = 0;
    return rc;
}

/* The checksum stands behind the data: it is only compared when that has been read. */
static void check_tail(struct member_stream *m)
{
    uint8_t more;
    int64_t got = archive_reader_read(m->src, &more, 1, &m->tail);

    if (got > 0) {
        err_set(&m->tail, ERR_INPUT,
                "the archive's member holds more than the %lld bytes announced",
                (long long)m->base.size);
    }
}

/* Unpacks a further piece into the ring. 1: something came; 0: the end. */
static int fill_ring(struct member_stream *m, struct err *err)
{
    int64_t at = m->end % m->ring_bytes;
    int64_t capacity = m->ring_bytes - at;
    int64_t got;

    if (!m->src)
        return err_set(err, ERR_INPUT, "the archive cannot be read");
    got = archive_reader_read(m->src, m->ring + at,
                              (size_t)(capacity < FILL_BYTES ? capacity : FILL_BYTES), err);
    if (got < 0)
        return (int)got;
    m->end += got;
    if (got > 0 && m->end == m->base.size)
        check_tail(m);
    if (got == 0 && m->base.size >= 0 && m->end < m->base.size) {
        return err_set(err, ERR_INPUT, "the archive's member ends after %lld of %lld bytes",
                       (long long)m->end, (long long)m->base.size);
    }
    return got > 0;
}

static int64_t member_read(struct stream *s, void *to, size_t n, struct err *err)
{
    struct member_stream *m = (struct member_stream *)s;
    int64_t have, at;
    int rc;

    if (m->refused.code != 0) {
        *err = m->refused;
        return err->code;
    }
    if (m->base.size >= 0 && m->pos >= m->base.size) {
        if (m->tail.code != 0)
            *err = m->tail;
        return m->tail.code;
    }
    if (m->pos < m->end - m->ring_bytes) {
        rc = restart_member(m, err);
        if (rc != 0)
            return rc;
    }
    while (m->end <= m->pos) {
        rc = fill_ring(m, err);
        if (rc <= 0)
            return rc;
    }
    have = m->end - m->pos;
    at = m->pos % m->ring_bytes;
    have = have < m->ring_bytes - at ? have : m->ring_bytes - at;
    have = have < (int64_t)n ? have : (int64_t)n;
    if (m->base.size >= 0 && have > m->base.size - m->pos)
        have = m->base.size - m->pos;
    memcpy(to, m->ring + at, (size_t)have);
    m->pos += have;
    return have;
}

static int member_seek(struct stream *s, int64_t pos, struct err *err)
{
    if (pos < 0)
        return err_set(err, ERR_INPUT, "refers to a place before its beginning");
    ((struct member_stream *)s)->pos = pos;
    return 0;
}

static void member_close(struct stream *s)
{
    struct member_stream *m = (struct member_stream *)s;

    if (m->lent)
        (void)archive_reader_charge(m->lent, m->lent_budget);
    else
        archive_reader_close(m->src);
    if (!m->keeps_under)
        stream_close(m->under);
    free(m->ring);
    free(m);
}

/* `src` stands at the beginning of `item`, whose size is measured. On error nothing is taken over.
 */
static int make_stream(struct stream *under, struct archive_reader *src,
                       const struct archive_item *item, const struct unpack_limits *limits,
                       struct member_stream **ret, struct err *err)
{
    int64_t ring = item->size >= 0 && item->size < RING_BYTES ? item->size + 1 : RING_BYTES;
    struct member_stream *m = calloc(1, sizeof(*m));

    if (!m || !(m->ring = malloc((size_t)ring))) {
        free(m);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    m->base = (struct stream){member_read, member_seek, member_close, item->size, true, 0};
    m->under = under;
    m->src = src;
    m->again = &m->src;
    m->index = item->index;
    m->max_bytes = limits->max_bytes;
    m->ring_bytes = ring;
    if (item->is_encrypted)
        (void)archive_refuse_encrypted(&m->refused);
    *ret = m;
    return 0;
}

/* Takes over `under` and `src`, which stands at the beginning of `item`. */
static int make_owner(struct stream *under, struct archive_reader *src, struct archive_item *item,
                      const struct unpack_limits *limits, struct member_stream **ret,
                      struct err *err)
{
    int rc = archive_reader_measure(src, item, err);

    if (rc == 0 && !item->is_file)
        rc = err_set(err, ERR_INPUT, "the archive's member is no file");
    if (rc == 0)
        rc = make_stream(under, src, item, limits, ret, err);
    if (rc != 0) {
        archive_reader_close(src);
        stream_close(under);
    }
    return rc;
}

int member_open_current(struct archive_reader *src, const struct archive_item *item,
                        const void *head, size_t head_len, struct member_again *again,
                        const struct unpack_limits *limits, struct stream **ret, struct err *err)
{
    struct member_stream *m = NULL;
    int rc = make_stream(again->under, src, item, limits, &m, err);

    if (rc != 0)
        return rc;
    m->keeps_under = true;
    m->again = &again->src;
    m->lent = src;
    m->lent_budget = archive_reader_charge(
        src, (struct archive_budget){.unpacked = head_len, .max_bytes = limits->max_bytes});
    memcpy(m->ring, head, head_len);
    m->end = (int64_t)head_len;
    *ret = &m->base;
    return 0;
}

void member_again_end(struct member_again *again)
{
    archive_reader_close(again->src);
    stream_close(again->under);
}

/* The rest of name behind "entry//"; NULL: name does not begin so. */
static const char *behind_entry(const char *name, const char *entry)
{
    size_t len = strlen(entry);

    return strncmp(name, entry, len) == 0 && name[len] == '/' && name[len + 1] == '/' &&
                   name[len + 2] != '\0'
               ? name + len + 2
               : NULL;
}

/* The next entry from the number `from` on that is the *nth of this name (*rest is then NULL), or,
 * where it may, an archive that may hold it as *rest. *nth counts down what was passed. A member's
 * own name may hold "//", so no place of the name is its separator for sure: the entries decide. */
static int find_named(struct stream *under, uint64_t from, const char *name, unsigned *nth,
                      bool may_nest, uint64_t max_bytes, struct archive_reader **ret,
                      struct archive_item *item, const char **rest, struct err *err)
{
    struct archive_reader *src;
    int rc = archive_reader_open(under, max_bytes, &src, err);

    if (rc != 0)
        return rc;
    while ((rc = archive_reader_next(src, item, err)) == 0) {
        bool is_it = item->index >= from && item->is_file && strcmp(item->name, name) == 0;

        *rest = NULL;
        if (is_it && (*nth)-- == 0)
            break;
        if (!is_it && item->index >= from && item->is_file && may_nest &&
            (*rest = behind_entry(name, item->name)))
            break;
    }
    if (rc != 0) {
        archive_reader_close(src);
        return rc == ERR_EMPTY
                   ? err_set(err, ERR_MISSING, "the archive has no such member (any more)")
                   : rc;
    }
    *ret = src;
    return 0;
}

/* Several inner archives may be of one name: all of them are searched, in the order of a listing,
 * which goes on behind a damaged one, too. */
static int open_named(struct stream *under, const char *name, unsigned *nth, bool may_nest,
                      const struct unpack_limits *limits, struct stream **ret, struct err *err)
{
    struct err damaged = {0};
    uint64_t from = 0;

    for (;;) {
        struct archive_reader *src = NULL;
        struct archive_item item;
        struct member_stream *inner = NULL;
        const char *rest = NULL;
        int rc = find_named(under, from, name, nth, may_nest, limits->max_bytes, &src, &item, &rest,
                            err);

        if (rc != 0) {
            stream_close(under);
            if (rc == ERR_MISSING && damaged.code != 0) {
                *err = damaged;
                rc = damaged.code;
            }
            return rc;
        }
        from = item.index + 1;
        rc = make_owner(under, src, &item, limits, &inner, err);
        if (rc != 0)
            return rc;
        if (!rest) {
            *ret = &inner->base;
            return 0;
        }
        inner->keeps_under = true;
        rc = open_named(&inner->base, rest, nth, false, limits, ret, err);
        if (rc == 0) {
            inner->keeps_under = false;
            return 0;
        }
        if (rc == ERR_INPUT) {
            damaged = damaged.code != 0 ? damaged : *err;
        } else if (rc != ERR_MISSING) {
            stream_close(under);
            return rc;
        }
    }
}

int member_open(struct stream *under, const char *name, unsigned nth,
                const struct unpack_limits *limits, struct stream **ret, struct err *err)
{
    return open_named(under, name, &nth, true, limits, ret, err);
}
