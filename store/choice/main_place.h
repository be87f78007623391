/* store/choice/main_place.h - a recording's main place, and how many are present.
 *
 * What is present comes before what is not, a file before a member of an archive, then the oldest.
 * Where the main one goes, one in its folder comes before others; where none is present, the one
 * that went last of those that vanished. A recording of which no place is present cannot be heard;
 * one whose places all hold something else now is replaced: nothing is wanted of it any more.
 *
 * Internal to store/; within db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_CHOICE_MAIN_PLACE_H
#define NIGHTSHIFT_STORE_CHOICE_MAIN_PLACE_H

#include "store/db.h"

/* The place is present now, and was not before. */
int main_place_came(struct store *st, int64_t media_id, int64_t place_id, struct err *err);
/* It is vanished or replaced now; was_present: and was present before. */
int main_place_went(struct store *st, int64_t media_id, int64_t place_id, bool was_present,
                    struct err *err);

#endif
