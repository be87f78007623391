/* PKWARE's APPNOTE.TXT, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16
 * (its end, with and without zip64) and 4.5.3 (zip64's extra field). */
#include "workers/models/files/formats/stored_zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define LOCAL_SIGNATURE 0x04034b50u
#define CENTRAL_SIGNATURE 0x02014b50u
#define END_SIGNATURE 0x06054b50u
#define END64_SIGNATURE 0x06064b50u
#define LOCATOR64_SIGNATURE 0x07064b50u
#define END_BYTES 22
#define LOCATOR64_BYTES 20
#define END_COMMENT_MAX 65535

struct stored_zip {
    const uint8_t *data;
    size_t len;
    struct stored_member *member;
    size_t count;
};

/* The place of the central directory. */
struct directory {
    uint64_t count, offset, bytes;
};

static int report_zip_damage(struct err *err)
{
    return err_set(err, ERR_MODEL,
                   "the checkpoint's zip archive is damaged or not whole: fetch it again");
}

static struct reader reader_at(const struct stored_zip *z, uint64_t at)
{
    struct reader r = reader_of(z->data, z->len);

    if (at > z->len)
        r.failed = true;
    else
        r.pos = (size_t)at;
    return r;
}

static void skip(struct reader *r, size_t n) { (void)reader_raw(r, n); }

/* zip64's end record, to which a locator right before the plain end points. */
static int read_end64(const struct stored_zip *z, size_t end, struct directory *ret,
                      struct err *err)
{
    struct reader r;
    uint64_t at;

    if (end < LOCATOR64_BYTES)
        return report_zip_damage(err);
    r = reader_at(z, end - LOCATOR64_BYTES);
    if (reader_u32(&r) != LOCATOR64_SIGNATURE)
        return report_zip_damage(err);
    skip(&r, 4); /* disk */
    at = reader_u64(&r);
    r = reader_at(z, at);
    if (reader_u32(&r) != END64_SIGNATURE)
        return report_zip_damage(err);
    skip(&r, 8 + 2 + 2 + 4 + 4 + 8); /* own size, versions, disks, members on this disk */
    ret->count = reader_u64(&r);
    ret->bytes = reader_u64(&r);
    ret->offset = reader_u64(&r);
    return r.failed ? report_zip_damage(err) : 0;
}

static int read_end(const struct stored_zip *z, struct directory *ret, struct err *err)
{
    size_t at, least;
    struct reader r;

    if (z->len < END_BYTES)
        return report_zip_damage(err);
    least = z->len > END_BYTES + END_COMMENT_MAX ? z->len - END_BYTES - END_COMMENT_MAX : 0;
    for (at = z->len - END_BYTES;; at--) {
        r = reader_at(z, at);
        if (reader_u32(&r) == END_SIGNATURE)
            break;
        if (at == least)
            return report_zip_damage(err);
    }
    skip(&r, 2 + 2 + 2); /* disks, members on this disk */
    ret->count = reader_u16(&r);
    ret->bytes = reader_u32(&r);
    ret->offset = reader_u32(&r);
    if (ret->count == UINT16_MAX || ret->bytes == UINT32_MAX || ret->offset == UINT32_MAX)
        return read_end64(z, at, ret, err);
    return 0;
}

/* The numbers of zip64's extra field take the place, in this order, of those that are all ones. */
static int read_extra64(const uint8_t *extra, size_t len, uint64_t *size, uint64_t *packed,
                        uint64_t *local, struct err *err)
{
    struct reader r = reader_of(extra, len);

    while (!r.failed && r.pos < r.len) {
        uint16_t id = reader_u16(&r), n = reader_u16(&r);
        const uint8_t *body = reader_raw(&r, n);
        struct reader in = reader_of(body, body ? n : 0);

        if (id != 1)
            continue;
        if (*size == UINT32_MAX)
            *size = reader_u64(&in);
        if (*packed == UINT32_MAX)
            *packed = reader_u64(&in);
        if (*local == UINT32_MAX)
            *local = reader_u64(&in);
        return in.failed || !body ? report_zip_damage(err) : 0;
    }
    return report_zip_damage(err);
}

/* The member's bytes begin behind its local header, which has a name and an extra of its own. */
static int find_data(const struct stored_zip *z, uint64_t local, struct stored_member *m,
                     struct err *err)
{
    struct reader r = reader_at(z, local);
    uint16_t name, extra;

    if (reader_u32(&r) != LOCAL_SIGNATURE)
        return report_zip_damage(err);
    skip(&r, 2 + 2 + 2 + 2 + 2 + 4 + 4 + 4); /* version to sizes: the directory has them */
    name = reader_u16(&r);
    extra = reader_u16(&r);
    skip(&r, name);
    skip(&r, extra);
    if (r.failed || m->size > r.len - r.pos)
        return report_zip_damage(err);
    m->data = r.data + r.pos;
    return 0;
}

static int read_member(const struct stored_zip *z, struct reader *r, struct stored_member *m,
                       struct err *err)
{
    uint64_t packed, local;
    uint16_t flags, method, name, extra, comment;
    const uint8_t *more;
    int rc = 0;

    if (reader_u32(r) != CENTRAL_SIGNATURE)
        return report_zip_damage(err);
    skip(r, 2 + 2); /* versions */
    flags = reader_u16(r);
    method = reader_u16(r);
    skip(r, 2 + 2 + 4); /* time, date, checksum */
    packed = reader_u32(r);
    m->size = reader_u32(r);
    name = reader_u16(r);
    extra = reader_u16(r);
    comment = reader_u16(r);
    skip(r, 2 + 2 + 4); /* disk, attributes */
    local = reader_u32(r);
    m->name = (const char *)reader_raw(r, name);
    m->name_len = name;
    more = reader_raw(r, extra);
    skip(r, comment);
    if (r->failed || name > STORED_ZIP_MAX_NAME)
        return report_zip_damage(err);
    if (m->size == UINT32_MAX || packed == UINT32_MAX || local == UINT32_MAX)
        rc = read_extra64(more, extra, &m->size, &packed, &local, err);
    if (rc != 0)
        return rc;
    if (method != 0 || flags & 1)
        return err_set(err, ERR_MODEL,
                       "the checkpoint's zip archive is %s: only archives as PyTorch writes them, "
                       "uncompressed, are read; load and save it again",
                       flags & 1 ? "encrypted" : "compressed");
    if (packed != m->size)
        return report_zip_damage(err);
    return find_data(z, local, m, err);
}

static int compare_entry_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order ? order : a_len < b_len ? -1 : a_len > b_len;
}

static int by_name(const void *a, const void *b)
{
    const struct stored_member *x = a, *y = b;

    return compare_entry_names(x->name, x->name_len, y->name, y->name_len);
}

static int read_directory(struct stored_zip *z, struct err *err)
{
    struct directory d = {0};
    struct reader r;
    int rc = read_end(z, &d, err);

    if (rc != 0)
        return rc;
    if (d.count > STORED_ZIP_MAX_MEMBERS)
        return err_set(err, ERR_MODEL, "the checkpoint's zip archive has %llu members, over %d",
                       (unsigned long long)d.count, STORED_ZIP_MAX_MEMBERS);
    if (d.offset > z->len || d.bytes > z->len - d.offset || d.count > d.bytes / 46)
        return report_zip_damage(err);
    z->member = calloc((size_t)d.count + 1, sizeof(*z->member));
    if (!z->member)
        return err_set(err, ERR_NOMEM, "out of memory for a checkpoint's zip archive");
    r = reader_of(z->data + d.offset, (size_t)d.bytes);
    for (; rc == 0 && z->count < d.count; z->count++)
        rc = read_member(z, &r, &z->member[z->count], err);
    if (rc != 0)
        return rc;
    qsort(z->member, z->count, sizeof(*z->member), by_name);
    for (size_t i = 1; i < z->count; i++)
        if (by_name(&z->member[i - 1], &z->member[i]) == 0)
            return err_set(err, ERR_MODEL,
                           "the checkpoint's zip archive has two members of a name");
    return 0;
}

int stored_zip_open(const void *data, size_t len, struct stored_zip **ret, struct err *err)
{
    struct stored_zip *z = calloc(1, sizeof(*z));
    int rc;

    if (!z)
        return err_set(err, ERR_NOMEM, "out of memory for a checkpoint's zip archive");
    z->data = data;
    z->len = len;
    rc = read_directory(z, err);
    if (rc != 0) {
        stored_zip_free(z);
        return rc;
    }
    *ret = z;
    return 0;
}

void stored_zip_free(struct stored_zip *z)
{
    if (!z)
        return;
    free(z->member);
    free(z);
}

size_t stored_zip_count(const struct stored_zip *z) { return z->count; }

const struct stored_member *stored_zip_at(const struct stored_zip *z, size_t i)
{
    return &z->member[i];
}

const struct stored_member *stored_zip_find(const struct stored_zip *z, const char *name,
                                            size_t len)
{
    struct stored_member key = {.name = name, .name_len = len};

    return bsearch(&key, z->member, z->count, sizeof(*z->member), by_name);
}
