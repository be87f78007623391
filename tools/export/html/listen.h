/* tools/export/html/listen.h - what a page has of the sound itself: its waveform, and Opus where a
 * browser cannot play what lies there. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_LISTEN_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_LISTEN_H

#include <stdbool.h>

#include "base/buf.h"
#include "store/read/read.h"
#include "workers/media/opus_file.h"

struct unpacker;

/* By container and codec as the catalog has them: does every current browser play that? */
bool listen_is_played(const char *container, const char *codec, const char *path);
/* Is it a film, by its name? */
bool listen_is_film(const char *path);

/* An archive that is read from its front, for the recordings in it one after the other: all zeros
 * at first. */
struct listen_archive {
    char *path; /* NULL: none */
    struct unpacker *unpacker;
    uint64_t most; /* what may be kept in memory of a member */
};
void listen_archive_close(struct listen_archive *a);

/* Decodes the recording once, in a decoder process (workers/media/decoder.h). waveform: an SVG
 * image of 1000 peaks, each the loudest of its stretch; opus: takes an Ogg file piece by piece,
 * with `arg`. Either may be NULL. A damaged recording gives the part that could be decoded.
 * ERR_MISSING, ERR_DENIED and the errors of decoder_next and opus_file.h: then neither holds
 * anything of use. Recordings of one archive cost one reading of it if they come in its order. */
int listen_to(struct listen_archive *archive, const struct read_origin *origin,
              struct buf *waveform, opus_file_write opus, void *arg, struct err *err);

/* The recording itself, byte for byte, piece by piece to `write`: a plain file that has the bytes
 * which were transcribed, by their fingerprint. ERR_CHANGED: it has others, or is none. ERR_MISSING
 * and what reading and `write` bring. After an error what was written is of no use. */
int listen_copy(const struct read_origin *origin, opus_file_write write, void *arg,
                struct err *err);

#endif
