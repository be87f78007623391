/* workers/audio/pack.h - stretches of speech put one behind the other into windows, and the way
 * back from a window's time to the recording's.
 *
 * Greedy, in order, as faster-whisper's collect_chunks: a stretch that would make the window longer
 * than `max` begins the next one. Pure. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_PACK_H
#define NIGHTSHIFT_WORKERS_AUDIO_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/speech.h"

struct pack {
    struct speech_span *spans; /* owned, ascending, not overlapping */
    uint32_t count, capacity;
    int64_t samples; /* of all together */
};

void pack_free(struct pack *p); /* back to {0} */
/* Whether span fits a window of `max` samples beside what is there (an empty window takes any). */
bool pack_fits(const struct pack *p, const struct speech_span *span, int64_t max);
int pack_add(struct pack *p, const struct speech_span *span, struct err *err);
/* Samples [from, to) of `of`, as a window of their own. ret: {0}; the caller frees it. ERR_NOMEM.
 */
int pack_slice(const struct pack *of, int64_t from, int64_t to, struct pack *ret, struct err *err);

/* Sample `at` of the window (0 .. samples) in the recording. At a seam a beginning belongs to the
 * stretch after it, an end to the one before. Beyond the window: the last stretch's end. */
int64_t pack_time(const struct pack *p, int64_t at, bool is_end);
/* A piece [start, end) of the window in the recording, both ends in the stretch that holds its
 * middle where they would otherwise lie in different ones (a word is never torn over a silence). */
void pack_word(const struct pack *p, int64_t start, int64_t end, int64_t *from, int64_t *to);

/* Stretches of the window with less than `least` samples of the recording between them. */
struct pack_run {        /* all zero: before the first */
    int64_t start, end;  /* samples of the recording */
    int64_t at, samples; /* of the window */
    uint32_t next;       /* the stretch behind it */
};
/* To the next run; false: there is none. least > 0, the same for all of a window's. */
bool pack_next_run(const struct pack *p, int64_t least, struct pack_run *run);

#endif
