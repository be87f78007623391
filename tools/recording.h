/* tools/recording.h - one recording by what a user types. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_RECORDING_H
#define NIGHTSHIFT_TOOLS_RECORDING_H

#include "store/read/read.h"

/* By its number, its path (a relative one, too), the end of that ("1990/tape 3.wav"), also without
 * the extension, or else any part of it that no other has; upper and lower case and the composed
 * and decomposed forms of letters are alike where nothing fits as it was typed. ERR_MISSING: none.
 * ERR_USAGE: several, which were listed on standard error. */
int recording_find(struct store *st, const char *what, int64_t *ret, struct err *err);

/* Its places, as read_places_of has them, each with how well it fits what was typed: 1 best, 0 not
 * at all; NULL: nothing was. */
typedef int (*recording_place_fn)(void *arg, const struct read_other *place, int rank);
int recording_places(struct store *st, int64_t media_id, const char *what, recording_place_fn fn,
                     void *arg, struct err *err);

#endif
