/* store/results/naming.h - names that people gave to a recording's speakers, and what they said of
 * whether these are people of the register (store/register), carried over when it is diarized anew.
 *
 * A new speaker gets the name of the former one with whom it shares most time of turns, when that
 * former one shares most with it, too: so of one who is told apart as two now the longer one keeps
 * the name, and somebody else with whom a named one was thrown together does not get it.
 *
 * Internal to store/; within db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_RESULTS_NAMING_H
#define NIGHTSHIFT_STORE_RESULTS_NAMING_H

#include "store/db.h"

struct naming; /* who spoke when in the former diarization, and their names */

/* Reads the names of the current diarization if its speakers are in the catalog, else of the newest
 * one. *ret is the caller's; NULL: nothing was said of anybody there. */
int naming_read(struct store *st, int64_t media_id, struct naming **ret, struct err *err);
/* The same of one diarization. */
int naming_of(struct store *st, int64_t task_id, struct naming **ret, struct err *err);
/* Gives the names to the rows of the table speaker that are these people's, in their order; who
 * has a name keeps it. Reads no speaker rows. */
int naming_give(struct store *st, const struct naming *n, const int64_t *ids,
                const struct result_people *people, struct err *err);
void naming_free(struct naming *n); /* NULL is fine */

/* Around a change after which another diarization may count: that one's speakers get the names that
 * people gave to the former one's, where they have none. rc: of the change; when that is negative,
 * it is returned. */
struct naming_change {
    int64_t media_id, task_id;
    struct naming *names; /* owned; freed by naming_after, which must be called */
};
int naming_before(struct store *st, int64_t media_id, struct naming_change *ret, struct err *err);
int naming_after(struct store *st, struct naming_change *of, int rc, struct err *err);

/* Deletes a task's shards, and its speakers with them: but where something was said of one, all of
 * them stay, with their turns, for naming_read. */
int naming_drop_shards(struct store *st, int64_t task_id, struct err *err);

/* Sets a speaker's name; "" removes it. ERR_INPUT: no such speaker. */
int naming_set(struct store *st, int64_t speaker_id, const char *name, struct err *err);

#endif
