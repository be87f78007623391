/* store/register/register.h - whose voice may be whose: people whose names hold for the archive
 * (the tables person and person_voice), whom the voices without a name are like (person_like), and
 * which of those are probably one person's (speaker.group_id). Internal to store/; within db_enter
 * / db_leave.
 *
 * All but what people said is made of the vectors, model by model, for vectors of different
 * encoders cannot be compared. */
#ifndef NIGHTSHIFT_STORE_REGISTER_REGISTER_H
#define NIGHTSHIFT_STORE_REGISTER_REGISTER_H

#include "store/db.h"

/* Compares what changed since (the tables speaker_due and person_due): a new voice with all people
 * and groups of its model, a changed person with all voices. To be called behind whatever may have
 * changed speakers, their names, or which are current, before that is committed. Nothing is read
 * when nothing changed; else the vectors of all voices without a name, once. */
int register_settle(struct store *st, struct err *err);

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

#endif
