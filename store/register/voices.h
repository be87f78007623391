/* store/register/voices.h - whom of the register the voices without a name are like (person_like),
 * and which of those are probably one person's (speaker.group_id). Internal to store/; within
 * db_enter / db_leave.
 *
 * All of it is made of the vectors and of what people said (register.h), model by model, for
 * vectors of different encoders cannot be compared. */
#ifndef NIGHTSHIFT_STORE_REGISTER_VOICES_H
#define NIGHTSHIFT_STORE_REGISTER_VOICES_H

#include "store/db.h"

/* Compares what changed since (the tables speaker_due and person_due): a new voice with all people
 * and groups of its model, a changed person with all voices. To be called behind whatever may have
 * changed speakers, their names, or which are current, before that is committed. Nothing is read
 * when nothing changed; else the vectors of all voices without a name, once, unless nobody is known
 * and their number is one at which nothing is grouped. */
int voices_match(struct store *st, struct err *err);

#endif
