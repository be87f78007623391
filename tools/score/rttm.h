/* tools/score/rttm.h - NIST's Rich Transcription Time Marked: who speaks when, one turn a
 * line.
 *
 *   SPEAKER file channel start duration <NA> <NA> speaker <NA> <NA>
 *
 * seconds; fields are parted by blanks. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_RTTM_H
#define NIGHTSHIFT_TOOLS_SCORE_RTTM_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define RTTM_MAX_BYTES (256u << 20)
#define RTTM_MAX_NAME 1000u /* bytes */
#define RTTM_MAX_S 1e9

struct rttm_turn {
    double start_s, end_s;
    uint32_t file, speaker; /* which of the names */
};

struct rttm {                /* owned: rttm_free. Any thread may read. */
    struct rttm_turn *turns; /* by file, then as they stood in the text */
    size_t turn_count;
    char **files; /* sorted, each once, valid UTF-8 */
    uint32_t file_count;
    char **speakers; /* the same, over all files */
    uint32_t speaker_count;
    char *text;      /* what the names point into: lines, the ends of which are NULs */
    size_t text_len; /* bytes */
};

/* Lines of other types and empty ones are passed over. ERR_INPUT with the line's number; ERR_LIMIT;
 * what the system says of a file. A turn that has no length is left out. */
int rttm_read(const char *path, struct rttm *ret, struct err *err);
int rttm_parse(const char *text, size_t len, struct rttm *ret, struct err *err);
void rttm_free(struct rttm *r); /* back to {0} */

/* Puts one line. Blanks and control characters of names become '_', an empty name "-". */
void rttm_put(struct buf *out, const char *file, double start_s, double end_s, const char *speaker);

#endif
