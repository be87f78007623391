/* store/register/register.h - people whose names hold for the archive (the tables person and
 * person_voice), and what was said of whose voice is theirs. Which voices are alike is in voices.h,
 * which is called afterwards. Internal to store/; within db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_REGISTER_REGISTER_H
#define NIGHTSHIFT_STORE_REGISTER_REGISTER_H

#include "store/db.h"

/* Says that a speaker is that person, whom the register gets if it does not have them; the speaker
 * then has the name. ERR_INPUT: no such speaker. */
int register_confirm(struct store *st, int64_t speaker_id, const char *name, struct err *err);
/* Says that a speaker is not that person: never proposed again, and neither is a voice that is more
 * like this one than like any that is theirs. Who had the name has none. ERR_INPUT: no such
 * speaker, or nobody of that name. */
int register_deny(struct store *st, int64_t speaker_id, const char *name, struct err *err);

/* The same of a person who is there, as it was said of a former diarization's speaker
 * (store/results/naming.h): what was said of this one holds, and only who has the person's name can
 * be them. */
int register_say(struct store *st, int64_t speaker_id, int64_t person_id, bool denied,
                 struct err *err);

/* Deletes a diarization's speakers and turns. Decisions about their voices stay, as voices of
 * nobody. A group of one is no group, so its last voice is compared again. */
int register_drop(struct store *st, int64_t task_id, struct err *err);

#endif
