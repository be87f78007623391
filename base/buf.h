/* base/buf.h - a growable byte buffer, and a reader that checks every length.
 *
 * Integers are little-endian. A writer that runs out of memory or past its bound sets `failed`
 * and ignores what follows; a reader that runs past its end sets `failed` and returns zeros.
 * So a codec may run to its end and test `failed` once. Not thread-safe; one owner.
 *
 * With `packed`, whole numbers of 32 and 64 bits, and with them lengths, take as few bytes as they
 * need: seven bits each, the lowest first, all but the last with the high bit set. */
#ifndef NIGHTSHIFT_BASE_BUF_H
#define NIGHTSHIFT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *data; /* owned; NULL while empty; not NUL-terminated unless buf_cstr was called */
    size_t len;
    size_t capacity;
    size_t max; /* bound on len; 0: none */
    bool failed, packed;
};

#define BUF_INIT ((struct buf){0})

void buf_free(struct buf *b);  /* back to BUF_INIT, `max` and `packed` kept */
void buf_clear(struct buf *b); /* len 0, memory kept, failed reset */
/* Room for n more bytes at the returned pointer (then add to len yourself); NULL when failed. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_put(struct buf *b, const void *data, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
void buf_put_i64(struct buf *b, int64_t v);
void buf_put_f32(struct buf *b, float v);
/* u32 length, then the bytes. buf_put_str(b, NULL) puts an empty one. */
void buf_put_bytes(struct buf *b, const void *data, size_t n);
void buf_put_str(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The content as a C string (a NUL is kept behind it); NULL when failed. Valid until the next put.
 */
char *buf_cstr(struct buf *b);
/* Drops the first n bytes. */
void buf_consume(struct buf *b, size_t n);

struct reader {
    const uint8_t *data; /* borrowed */
    size_t len;
    size_t pos;
    bool failed, packed;
    bool no_memory; /* it failed for that, not for what the bytes say */
};

struct reader reader_of(const void *data, size_t len);
uint8_t reader_u8(struct reader *r);
uint16_t reader_u16(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
int64_t reader_i64(struct reader *r);
float reader_f32(struct reader *r);
/* A run of n bytes, borrowed from the reader's data; NULL when failed. */
const uint8_t *reader_raw(struct reader *r, size_t n);
/* Reads what buf_put_bytes wrote; *len is set, the bytes are borrowed. NULL when failed or over
 * max. */
const uint8_t *reader_bytes(struct reader *r, size_t max, size_t *len);
/* The same as a newly allocated C string (free it). Fails on an embedded NUL. */
char *reader_str(struct reader *r, size_t max);
/* True when nothing failed and everything was read. */
bool reader_done(const struct reader *r);

#endif
