/* store/reading/machine.h - a segment of the machine's, parted between the people who speak in it.
 *
 * A segment is parted where its words have others speak (seams.h). Whom a source of its own was
 * heard from says all of it, whoever else speaks meanwhile. Pure; any thread. Internal to store/.
 */
#ifndef NIGHTSHIFT_STORE_READING_MACHINE_H
#define NIGHTSHIFT_STORE_READING_MACHINE_H

#include "store/reading/overlap.h"
#include "store/reading/rebuild.h"
#include "workers/results.h"

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
