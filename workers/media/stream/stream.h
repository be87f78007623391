/* workers/media/stream/stream.h - bytes with a position: a file, a member of an archive, or one of
 * these with its hash taken on the way.
 *
 * One thread. A stream owns the stream that it reads from, and stream_close closes both. After an
 * error only stream_close is sensible. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_STREAM_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct stream {
    /* Up to n bytes; 0 at the end; negative: an ERR_ code. */
    int64_t (*read)(struct stream *s, void *to, size_t n, struct err *err);
    /* To any position >= 0, past the end too (reads give 0 there). */
    int (*seek)(struct stream *s, int64_t pos, struct err *err);
    void (*close)(struct stream *s);
    int64_t size;    /* -1: unknown until its end is reached */
    bool sequential; /* going forward reads what lies between, going back may begin anew */
    /* The kind by the name, if the bytes say nothing: headerless_at of sniff.h; 0: unknown. Only
     * the reader uses it; a wrapping stream leaves it alone. */
    uint8_t headerless;
};

static inline int64_t stream_read(struct stream *s, void *to, size_t n, struct err *err)
{
    return s->read(s, to, n, err);
}

static inline int stream_seek(struct stream *s, int64_t pos, struct err *err)
{
    return s->seek(s, pos, err);
}

void stream_close(struct stream *s); /* NULL is fine */

/* Reads until n bytes or the end; the number, or a negative code. */
int64_t stream_read_full(struct stream *s, void *to, size_t n, struct err *err);

/* A sign of life, given whenever bytes were read from the stream below. fn may be NULL. */
struct stream_pulse {
    void (*fn)(void *arg);
    void *arg;
};

/* An open file (borrowed) of this size, read with pread from 0. One that grows is read as it was.
 */
int stream_of_file(int fd, uint64_t size, struct stream_pulse pulse, struct stream **ret,
                   struct err *err);

/* Bytes in memory (borrowed). */
int stream_of_memory(const void *data, size_t len, struct stream_pulse pulse, struct stream **ret,
                     struct err *err);

/* --- a stream whose content is hashed as it goes by --- */

/* Takes `under` over, in success and in failure alike. A short forward seek reads the skipped
 * bytes; those of a long one are left to hashed_finish. */
int hashed_open(struct stream *under, struct stream **ret, struct err *err);
/* Reads what was left out and gives the XXH3-128 of everything, canonical. */
int hashed_finish(struct stream *s, uint8_t ret[16], struct err *err);

/* --- members of archives (member.c) --- */

struct unpack_limits {
    uint64_t max_bytes; /* unpacked by one listing or for one member, each pass counted once */
};

/* The default bound for an input of this size: enough for any archive that was made to hold
 * recordings, not for one made to fill a disk. */
uint64_t unpack_default_bytes(uint64_t packed_bytes);

/* The nth (0 ...) entry of the archive in `under` that is called `name`, where "inner.zip//name"
 * looks into the archives of that name inside, counting on from one to the next. Takes `under`
 * over, in success and in failure alike. ERR_MISSING: there is none. ERR_INPUT: the archive could
 * not be searched; a member that is found but encrypted or damaged fails when it is read. */
int member_open(struct stream *under, const char *name, unsigned nth,
                const struct unpack_limits *limits, struct stream **ret, struct err *err);

struct archive_item;
struct archive_reader;

/* A second pass over an archive, for members of it that are read back and forth: it goes on from
 * one to the next, so that it is one pass for all of them. */
struct member_again {
    struct stream *under;       /* the archive's bytes, by a stream of its own */
    struct archive_reader *src; /* NULL: nobody has gone back yet */
};

/* The entry that `src` has come to, and of which it has read `head`, shorter than the entry. All is
 * borrowed and outlives the stream; `src` may stand anywhere in the entry afterwards. */
int member_open_current(struct archive_reader *src, const struct archive_item *item,
                        const void *head, size_t head_len, struct member_again *again,
                        const struct unpack_limits *limits, struct stream **ret, struct err *err);
void member_again_end(struct member_again *again); /* closes both */

#endif
