/* workers/media/opus_file.h - PCM as an Ogg Opus file, by FFmpeg's encoder.
 *
 * It takes samples from a decoder process (decoder.h) and parses nothing, so it runs in its
 * caller's process. One thread per struct. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_OPUS_FILE_H
#define NIGHTSHIFT_WORKERS_MEDIA_OPUS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define OPUS_FILE_BITS 24000 /* a second: speech of 16 kHz has no use for more; 10.8 MB an hour */

struct opus_file;
/* Takes the file's bytes as they come, in order; an error of it is that of the call that brought
 * them. */
typedef int (*opus_file_write)(void *arg, const void *data, size_t n, struct err *err);
/* ERR_MISSING: this FFmpeg has no libopus. */
int opus_file_new(opus_file_write write, void *arg, struct opus_file **ret, struct err *err);
/* n samples of 16 kHz, mono. ERR_NOMEM, ERR_IO (FFmpeg's), and the errors of `write`. */
int opus_file_put(struct opus_file *o, const int16_t *pcm, size_t n, struct err *err);
/* Writes the remaining samples and ends the file. */
int opus_file_end(struct opus_file *o, struct err *err);
void opus_file_free(struct opus_file *o); /* NULL is fine */

#endif
