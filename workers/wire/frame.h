/* workers/wire/frame.h - the framing of every pipe and socket of the program.
 *
 *   offset 0  u32  magic "NSF1"        8  u32  payload length, at most FRAME_MAX
 *          4  u8   protocol version   12  u32  XXH32 of the payload, seed = u32 at 4 ^ u32 at 8
 *          5  u8   message type       16  ...  payload
 *          6  u16  of the XXH32 of the length's four bytes, seed = u16 at 4, the lower half
 *
 * All little-endian. The length has a sum of its own, for one that is damaged would be waited for
 * before the payload's could tell. A peer that sends anything else gets ERR_PROTOCOL and is closed:
 * after a bad header there is no way to find the next frame. One thread per direction. */
#ifndef NIGHTSHIFT_WORKERS_WIRE_FRAME_H
#define NIGHTSHIFT_WORKERS_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define FRAME_VERSION 15
#define FRAME_HEADER 16
#define FRAME_MAX (32u << 20) /* a day of speech with a time for each word */

/* Appends one frame to out; sets out->failed when len is over FRAME_MAX. */
void frame_put(struct buf *out, uint8_t type, const void *payload, size_t len);

struct frame {
    uint8_t type;
    const uint8_t *payload; /* borrowed from the input */
    size_t len;
};

/* Takes one frame off the front of data. 0: *ret is filled and *used says how many bytes it took;
 * ERR_EMPTY: more bytes are needed; ERR_PROTOCOL: close the peer. */
int frame_take(const uint8_t *data, size_t len, struct frame *ret, size_t *used, struct err *err);

/* Blocking counterparts for threads and tools. Write: all or nothing is not promised after an
 * error. Read: waits at most timeout_ms (-1: for ever) for a whole frame, keeping what came before
 * in `in`, which belongs to the caller and must be used for this fd alone; the frame is valid until
 * the next call. ERR_TIMEOUT, ERR_EMPTY (peer closed in between frames), ERR_IO (also: closed
 * within a frame), ERR_PROTOCOL, ERR_NOMEM. Writers to a pipe (not a socket) must ignore
 * SIGPIPE. */
int frame_write_fd(int fd, uint8_t type, const void *payload, size_t len, struct err *err);
struct frame_reader {
    struct buf in;
    size_t taken; /* bytes handed out already, dropped when more must be read */
};
int frame_read_fd(int fd, struct frame_reader *fr, int timeout_ms, struct frame *ret,
                  struct err *err);
void frame_reader_free(struct frame_reader *fr);

#endif
