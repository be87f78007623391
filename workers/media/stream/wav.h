/* workers/media/stream/wav.h - a WAV file's bytes: chunks that libavformat passes over, or tells
 * only a part of, and a header for samples that have none. Runs inside the decoder process; one
 * thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_WAV_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_WAV_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/media/stream/stream.h"

#define RIFF_CHUNK_MAX ((uint32_t)256 << 10)

struct riff_chunk {
    const char *name; /* 4 letters; what is looked for */
    char *data;       /* owned by the caller, with a NUL behind it; NULL: there is none that fits */
    size_t len;
};

/* Finds the first chunk of each name in a RIFF, RF64 or BW64 file of type WAVE; other files have
 * none. In a sequential stream it searches the chunks before the sound, and those behind it if they
 * are more than 4096 bytes: then the stream is read to there, and begins anew. The stream is at its
 * beginning afterwards. On error there is no data.
 *
 * wrong_size: the offset of the sound's stated size, if that is too small: more than 4096 bytes
 * follow it that are neither chunks nor only zeros. A recorder that died never wrote the last size,
 * and a size above 4 GiB wraps around. 0: the size is right or cannot be checked. */
int riff_chunks(struct stream *in, struct riff_chunk *wanted, size_t count, int64_t *wrong_size,
                struct err *err);

/* The samples of `under` (borrowed) behind a WAV header of one channel. tag: of Microsoft's list of
 * formats. */
int headed_open_wav(struct stream *under, uint16_t tag, uint16_t bits, uint32_t rate_hz,
                    struct stream **ret, struct err *err);

#endif
