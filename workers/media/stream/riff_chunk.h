/* workers/media/stream/riff_chunk.h - the chunks of a WAV file that libavformat passes over, or
 * tells only a part of. Runs inside the decoder process; one thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_RIFF_CHUNK_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_RIFF_CHUNK_H

#include <stddef.h>

#include "base/err.h"
#include "workers/media/stream/stream.h"

#define RIFF_CHUNK_MAX ((uint32_t)256 << 10)

struct riff_chunk {
    const char *name; /* 4 letters; what is looked for */
    char *data;       /* owned by the caller, with a NUL behind it; NULL: there is none that fits */
    size_t len;
};

/* The first chunk of each name in a RIFF, RF64 or BW64 file of type WAVE; what else it is has none.
 * Of a stream that is sequential what comes before the sound is looked at, and what lies behind it
 * where that is more than 4096 bytes: the stream is read to there, and begins anew. The stream is
 * at its beginning afterwards. On error there is no data.
 *
 * wrong_size: where in the file the size of the sound is stated, if it is too small: what lies
 * behind are more than 4096 bytes that are no chunks, and not zeros
 * alone. A recorder that died never wrote the last
 * size, and one of more than 4 GiB wraps around. 0: the size is right, or nobody can tell. */
int riff_chunks(struct stream *in, struct riff_chunk *wanted, size_t count, int64_t *wrong_size,
                struct err *err);

#endif
