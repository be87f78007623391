#include "workers/media/stream/archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/media/libarchive.h"
#include "workers/media/stream/sniff.h"

#define READ_BYTES (64u << 10)

struct archive_reader {
    struct archive *a;
    bool opened;      /* a knows its format: asked for encryption before, it crashes */
    struct stream *s; /* borrowed */
    int64_t pos;      /* of s */
    struct archive_budget budget;
    uint64_t next_index;
    enum { PART_UNASKED, PART_NOT, PART_ONE } part;
    const void *block; /* libarchive's, what is left of it: */
    size_t block_len;
    int64_t block_at, at; /* where it lies in the entry; what has been handed out */
    bool is_sparse;       /* the entry has holes by its archive's word */
    struct err err; /* what the stream or a bound said; code 0: libarchive's own words count */
    char fallback[32];
    uint8_t buf[READ_BYTES];
    uint8_t look[READ_BYTES]; /* at the ends, while libarchive holds on to buf */
};

uint64_t unpack_default_bytes(uint64_t packed_bytes)
{
    const uint64_t base = (uint64_t)16 << 30;

    return packed_bytes > (UINT64_MAX - base) / 20 ? UINT64_MAX : base + 20 * packed_bytes;
}

int archive_refuse_encrypted(struct err *err)
{
    return err_set(err, ERR_INPUT,
                   "encrypted: unpack it with its password and enqueue what comes out");
}

int archive_refuse_part(struct err *err)
{
    return err_set(err, ERR_INPUT,
                   "a part of a split archive: join the parts, or unpack them, and enqueue what "
                   "comes out");
}

/* --- parts --- */

/* The last part of a zip ends with its own number, counted from 0. Joining the parts takes another
 * program, since offsets count from the beginning of each part. */
static bool is_last_of_zips(const uint8_t *tail, size_t len)
{
    for (size_t at = len < 22 ? 0 : len - 22 + 1; at-- > 0;) {
        if (memcmp(tail + at, "PK\5\6", 4) == 0) {
            unsigned number = tail[at + 4] | (unsigned)tail[at + 5] << 8;

            return number != 0 && number != 0xffff; /* all ones: zip64 says it elsewhere */
        }
    }
    return false;
}

/* A rar's main header has a bit for it; the older way of naming does not show in the first name. */
static bool is_rar_volume(const uint8_t *head, size_t len)
{
    return len > 12 && memcmp(head, "Rar!\x1a\x07\0", 7) == 0 && head[9] == 0x73 &&
           (head[10] & 1) != 0;
}

/* Asked once something is wrong, and once only: its end is far away in a compressed stream. */
static bool is_part(struct archive_reader *src)
{
    const int64_t size = src->s->size;
    const int64_t from = size > (int64_t)sizeof(src->buf) ? size - (int64_t)sizeof(src->buf) : 0;
    struct err ignored;
    int64_t got;
    bool is = false;

    if (src->part != PART_UNASKED || size < 0)
        return src->part == PART_ONE;
    src->part = PART_NOT;
    if (stream_seek(src->s, 0, &ignored) == 0) {
        got = stream_read_full(src->s, src->look, sizeof(src->look), &ignored);
        is = got > 0 && is_rar_volume(src->look, (size_t)got);
    }
    if (!is && stream_seek(src->s, from, &ignored) == 0) {
        got = stream_read_full(src->s, src->look, sizeof(src->look), &ignored);
        is = got > 0 && is_last_of_zips(src->look, (size_t)got);
    }
    /* Other members may still be read behind a bad one. */
    (void)stream_seek(src->s, src->pos, &ignored);
    src->part = is ? PART_ONE : PART_NOT;
    return is;
}

/* --- what libarchive calls --- */

static int over_limit(struct archive_reader *src)
{
    return err_set(&src->err, ERR_LIMIT,
                   "the archive unpacks to more than %llu MiB, far beyond its size: unpack it by "
                   "hand if it is to be trusted",
                   (unsigned long long)(src->budget.max_bytes >> 20));
}

/* Skipping a bomb costs as much as reading it, so the output of a filter (gzip ...) counts, too. */
static bool within_limit(struct archive_reader *src)
{
    la_int64_t filtered;

    if (src->budget.unpacked > src->budget.max_bytes) {
        over_limit(src);
        return false;
    }
    if (archive_filter_count(src->a) > 1) {
        filtered = archive_filter_bytes(src->a, 0);
        if (filtered > 0 && (uint64_t)filtered > src->budget.max_bytes) {
            over_limit(src);
            return false;
        }
    }
    return true;
}

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
    struct archive_reader *src = arg;
    int64_t got;

    (void)a;
    *ret = src->buf;
    if (!within_limit(src)) {
        archive_set_error(a, EFBIG, "limit");
        return -1;
    }
    got = stream_read(src->s, src->buf, sizeof(src->buf), &src->err);
    if (got < 0) {
        archive_set_error(a, EIO, "%s", src->err.msg);
        return -1;
    }
    src->pos += got;
    return (la_ssize_t)got;
}

static la_int64_t on_seek(struct archive *a, void *arg, la_int64_t offset, int whence)
{
    struct archive_reader *src = arg;
    int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? src->pos : src->s->size;
    int64_t to;

    if ((whence == SEEK_END && src->s->size < 0) || __builtin_add_overflow(from, offset, &to) ||
        to < 0) {
        archive_set_error(a, EINVAL, "seek outside the archive");
        return ARCHIVE_FATAL;
    }
    if (stream_seek(src->s, to, &src->err) != 0) {
        archive_set_error(a, EIO, "%s", src->err.msg);
        return ARCHIVE_FATAL;
    }
    src->pos = to;
    return to;
}

static la_int64_t on_skip(struct archive *a, void *arg, la_int64_t request)
{
    struct archive_reader *src = arg;
    int64_t left = src->s->size < 0 ? 0 : src->s->size - src->pos;
    int64_t step = request < left ? request : left;

    /* A few blocks are read as quickly as they are skipped; and of a stream without a size nobody
     * knows where it ends. libarchive reads what is not skipped. */
    if (step < (int64_t)READ_BYTES || stream_seek(src->s, src->pos + step, &src->err) != 0)
        return 0;
    (void)a;
    src->pos += step;
    return step;
}

/* --- opening --- */

/* In the order of trust in their first bytes: zip comes last because looking for its directory at
 * the end costs an unpacking pass when the archive lies in another. mtree is left out since it
 * names files outside, empty since it takes anything; raw does too, when nothing else will, and is
 * looked at by take_alone. */
static int enable_all(struct archive *a)
{
    int (*const enable[])(struct archive *) = {
        archive_read_support_filter_gzip, archive_read_support_filter_bzip2,
        archive_read_support_filter_xz,   archive_read_support_filter_lzma,
        archive_read_support_filter_lzip, archive_read_support_filter_zstd,
        archive_read_support_filter_lz4,  archive_read_support_filter_compress,
        archive_read_support_format_tar,  archive_read_support_format_7zip,
        archive_read_support_format_rar,  archive_read_support_format_rar5,
        archive_read_support_format_cab,  archive_read_support_format_lha,
        archive_read_support_format_cpio, archive_read_support_format_iso9660,
        archive_read_support_format_zip,  archive_read_support_format_raw,
    };

    for (size_t i = 0; i < sizeof(enable) / sizeof(enable[0]); i++)
        if (enable[i](a) == ARCHIVE_FATAL)
            return -1;
    return 0;
}

/* Recognizes features that libarchive lacks, which are no damage. It reports them by text, without
 * codes. */
static int name_limit(const char *said, struct err *err)
{
    static const struct {
        const char *words[4], *sentence;
    } limits[] = {
        {{"ncrypt", "assphrase", "assword", NULL}, NULL},
        {{"nsupported", "not supported", "unavailable", "Unexpected codec"},
         "packed by a method that is not supported"},
        {{"memory", "allocate", NULL, NULL}, "it needs more memory to be unpacked than is allowed"},
        {{"too long", "too large", NULL, NULL},
         "a name or a header in it is longer than can be read"},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        for (size_t k = 0; k < 4 && limits[i].words[k]; k++)
            if (strstr(said, limits[i].words[k]))
                return limits[i].sentence
                           ? err_set(err, ERR_INPUT,
                                     "%s (%.200s): unpack it (7z ...) and enqueue what comes out",
                                     limits[i].sentence, said)
                           : archive_refuse_encrypted(err);
    return 0;
}

/* The sentence for what libarchive has just reported. */
static int libarchive_err(struct archive_reader *src, struct err *err)
{
    const char *text = archive_error_string(src->a);
    char *shown;

    if (src->err.code != 0) {
        *err = src->err;
        return err->code;
    }
    if (archive_errno(src->a) == ENOMEM)
        return err_set(err, ERR_LIMIT, "reading the archive needs more memory than is allowed");
    if (src->opened && archive_read_has_encrypted_entries(src->a) == 1)
        return archive_refuse_encrypted(err);
    if (is_part(src))
        return archive_refuse_part(err);
    shown = utf8_display(text ? text : "", text ? strlen(text) : 0);
    if (name_limit(shown ? shown : "", err) == 0)
        err_set(err, ERR_INPUT, "the archive is damaged or cut short%s%.200s%s",
                shown && *shown ? " (" : "", shown ? shown : "", shown && *shown ? ")" : "");
    free(shown);
    return err->code;
}

static int not_an_archive(struct archive_reader *src, struct err *err)
{
    const char *text = archive_error_string(src->a);
    char *shown = utf8_display(text ? text : "", text ? strlen(text) : 0);
    const int rc = name_limit(shown ? shown : "", err);

    free(shown);
    if (rc != 0)
        return rc;
    return is_part(src) ? archive_refuse_part(err)
                        : err_set(err, ERR_INPUT, "not an archive of a known kind");
}

/* A pass from the beginning of the stream. */
static int restart_archive_pass(struct archive_reader *src, struct err *err)
{
    int rc = stream_seek(src->s, 0, err);

    if (rc != 0)
        return rc;
    src->opened = false;
    src->pos = 0;
    src->budget.unpacked = 0;
    src->next_index = 0;
    archive_read_free(src->a);
    src->a = archive_read_new();
    if (!src->a || enable_all(src->a) != 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    archive_read_set_callback_data(src->a, src);
    archive_read_set_read_callback(src->a, on_read);
    archive_read_set_seek_callback(src->a, on_seek);
    archive_read_set_skip_callback(src->a, on_skip);
    if (archive_read_open1(src->a) != ARCHIVE_OK)
        return libarchive_err(src, err); /* a filter's first bytes, and no more of it */
    src->opened = true;
    return 0;
}

int archive_reader_open(struct stream *s, uint64_t max_bytes, struct archive_reader **ret,
                        struct err *err)
{
    struct archive_reader *src;
    int rc = libarchive_open(err);

    if (rc == 0)
        rc = stream_seek(s, 0, err);
    if (rc != 0)
        return rc;
    if (s->size == 0)
        return err_set(err, ERR_INPUT, "empty file");
    src = calloc(1, sizeof(*src));
    if (!src)
        return err_set(err, ERR_NOMEM, "out of memory");
    src->s = s;
    src->budget.max_bytes = max_bytes;
    rc = restart_archive_pass(src, err);
    if (rc != 0) {
        archive_reader_close(src);
        return rc;
    }
    *ret = src;
    return 0;
}

void archive_reader_close(struct archive_reader *src)
{
    if (src) {
        archive_read_free(src->a);
        free(src);
    }
}

/* --- entries --- */

static const char *name_of(struct archive_reader *src, struct archive_entry *e)
{
    const char *name = archive_entry_pathname(e);

    if (!name || !*name)
        name = archive_entry_pathname_utf8(e);
    if (!name || !*name) { /* no locale could express it: its number still finds it */
        snprintf(src->fallback, sizeof(src->fallback), "#%llu",
                 (unsigned long long)src->next_index);
        name = src->fallback;
    }
    return name;
}

static int64_t mtime_of(struct archive_entry *e)
{
    int64_t s = archive_entry_mtime_is_set(e) ? (int64_t)archive_entry_mtime(e) : -1;

    if (s < 0 || s > INT64_MAX / 1000 - 1)
        return -1;
    return s * 1000 + archive_entry_mtime_nsec(e) / 1000000;
}

/* The next block of the entry into `block`, an empty one behind a last hole. 1: there is one; 0:
 * the end. */
static int next_block(struct archive_reader *src, struct err *err)
{
    la_int64_t offset = 0;
    int rc;

    do {
        rc = archive_read_data_block(src->a, &src->block, &src->block_len, &offset);
    } while (rc == ARCHIVE_RETRY);
    if (rc == ARCHIVE_EOF) {
        src->block_len = 0;
        /* A sparse member ends behind its last block if a hole follows. Any other member that ends
         * early is cut short. */
        src->block_at = src->is_sparse && offset > src->at ? offset : src->at;
        return src->block_at > src->at;
    }
    if (rc < ARCHIVE_OK) {
        src->block_len = 0;
        return libarchive_err(src, err);
    }
    if (offset < src->at) {
        src->block_len = 0;
        return err_set(err, ERR_INPUT, "the archive is damaged: a member's pieces overlap");
    }
    src->block_at = offset;
    return 1;
}

/* Takes a filter's output (gzip ...) that is no archive, if it is a recording: a compressed log is
 * not. A name that the filter states is ignored: it is an old name of the file. */
static int take_alone(struct archive_reader *src, struct archive_entry *e, struct archive_item *ret,
                      struct err *err)
{
    int rc = archive_filter_count(src->a) > 1 ? next_block(src, err) : 0;

    if (rc < 0)
        return rc;
    if (rc == 0 || src->block_at > 0 || sniff_bytes(src->block, src->block_len) != MEDIA_RECORDING)
        return not_an_archive(src, err);
    *ret = (struct archive_item){
        .name = "data", .is_file = true, .is_alone = true, .size = -1, .mtime_ms = mtime_of(e)};
    src->next_index = 1;
    return 0;
}

int archive_reader_next(struct archive_reader *src, struct archive_item *ret, struct err *err)
{
    struct archive_entry *e;
    unsigned type;
    int rc;

    do {
        rc = archive_read_next_header(src->a, &e);
    } while (rc == ARCHIVE_RETRY);
    if (rc == ARCHIVE_EOF)
        return err_set(err, ERR_EMPTY, "no more entries");
    if (rc == ARCHIVE_FATAL || rc == ARCHIVE_FAILED) {
        /* Kinds are recognised by their first bytes, so a wrong guess shows at the first entry. */
        if (src->next_index == 0 && src->err.code == 0 && archive_errno(src->a) != ENOMEM &&
            archive_read_has_encrypted_entries(src->a) != 1 && archive_format(src->a) == 0)
            return not_an_archive(src, err);
        return libarchive_err(src, err);
    }
    if (!within_limit(src)) {
        *err = src->err;
        return err->code;
    }
    src->block_len = 0;
    src->block_at = src->at = 0;
    src->is_sparse = archive_entry_sparse_count(e) > 0;
    if (archive_format(src->a) == ARCHIVE_FORMAT_RAW)
        return take_alone(src, e, ret, err);
    type = archive_entry_filetype(e);
    *ret = (struct archive_item){
        .index = src->next_index,
        .name = name_of(src, e),
        .is_file = (type == AE_IFREG || type == 0) && !archive_entry_hardlink(e),
        .is_encrypted = archive_entry_is_encrypted(e) != 0,
        .size = archive_entry_size_is_set(e) ? archive_entry_size(e) : -1,
        .mtime_ms = mtime_of(e),
    };
    if (ret->size < 0)
        ret->size = -1;
    src->next_index++;
    return 0;
}

int archive_reader_measure(struct archive_reader *src, struct archive_item *item, struct err *err)
{
    int64_t size = 0, got;
    int rc;

    if (!item->is_alone)
        return 0;
    while ((got = archive_reader_read(src, src->look, sizeof(src->look), err)) > 0)
        size += got;
    rc = got < 0 ? (int)got : restart_archive_pass(src, err);
    if (rc == 0)
        rc = archive_reader_next(src, item, err);
    if (rc == 0 && !item->is_alone)
        rc = err_set(err, ERR_CHANGED, "the file changed while it was read");
    item->size = size;
    return rc;
}

/* By blocks, not by archive_read_data: that one drops what it has read when the checksum behind it
 * turns out wrong. Holes of sparse members are filled with zeros. */
int64_t archive_reader_read(struct archive_reader *src, void *to, size_t n, struct err *err)
{
    int64_t hole;
    size_t take;

    while (src->at == src->block_at && src->block_len == 0) {
        int rc = next_block(src, err);

        if (rc <= 0)
            return rc;
    }
    hole = src->block_at - src->at;
    if (hole > 0) {
        take = hole < (int64_t)n ? (size_t)hole : n;
        memset(to, 0, take);
    } else {
        take = src->block_len < n ? src->block_len : n;
        memcpy(to, src->block, take);
        src->block = (const uint8_t *)src->block + take;
        src->block_len -= take;
        src->block_at += (int64_t)take;
    }
    src->at += (int64_t)take;
    src->budget.unpacked += take;
    if (!within_limit(src)) {
        *err = src->err;
        return err->code;
    }
    return (int64_t)take;
}

uint64_t archive_reader_entries(const struct archive_reader *src) { return src->next_index; }

struct archive_budget archive_reader_charge(struct archive_reader *src,
                                            struct archive_budget budget)
{
    struct archive_budget before = src->budget;

    src->budget = budget;
    return before;
}

uint64_t archive_reader_unpacked(const struct archive_reader *src) { return src->budget.unpacked; }
