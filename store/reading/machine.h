/* store/reading/machine.h - a segment of the machine's, parted between the people who speak in it.
 *
 * A segment is parted where its words have others speak (seams_find). Whom a source of its own was
 * heard from says all of it, whoever else speaks meanwhile. Pure; any thread. Internal to store/.
 */
#ifndef NIGHTSHIFT_STORE_READING_MACHINE_H
#define NIGHTSHIFT_STORE_READING_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "store/reading/overlap.h"
#include "store/reading/rebuild.h"
#include "workers/results.h"

/* ---- where a segment in which several people speak is parted.
 *
 * A run of words of one speaker is a part, where it is no crumb: it has SEAMS_WORDS words or lasts
 * SEAMS_MS. A crumb is said by whoever speaks on both its sides, else it goes to the side that is
 * nearer in time. And one must hand over to the other near the seam (overlap_changes, give or take
 * SEAMS_NEAR_MS): else what is shorter goes to what is longer. The least comes first, so that
 * several crumbs in a row become what they are together.
 *
 * Pure; any thread. Internal to store/. */
#define SEAMS_NEAR_MS 500
#define SEAMS_WORDS_MOST 2000 /* no model writes so long a segment: it stays whole */

struct seams_word {
    int64_t start_ms, end_ms; /* as they come: not always in order */
    int64_t speaker;          /* 0: nobody */
};

struct seams_part {
    size_t first, count; /* words */
    int64_t speaker;     /* 0: nobody, only where nobody says any of it */
};

/* The parts of n words, in their order; each word is in one, and no two neighbours have one
 * speaker. ret: [n]. Returns how many: 0 only for no words. */
size_t seams_find(const struct seams_word *words, size_t n, const struct overlaps *turns,
                  struct seams_part *ret);

struct machine_speakers {                      /* of the diarization that counts */
    int64_t diarization;                       /* its task; 0: none does */
    struct overlaps *turns;                    /* owned; NULL: nobody is told apart */
    int64_t by_source[RESULT_SOURCES_MAX + 1]; /* the speaker of each source; 0: the turns say */
};
void machine_speakers_free(struct machine_speakers *s);

struct machine_part {
    char *text; /* owned: the machine's words, without white space at seams */
    int64_t start_ms, end_ms, speaker_id; /* 0: nobody */
    double avg_logprob;
    struct rebuilt rows; /* its words with their times and speakers; texts are the segment's */
};

/* *ret: the parts in their order, at least one; the caller frees each (machine_part_free), and the
 * list. ERR_NOMEM. */
int machine_parts(const struct result_segment *s, const struct machine_speakers *by,
                  struct machine_part **ret, size_t *n, struct err *err);
void machine_part_free(struct machine_part *p);

#endif
