/* store/reading/publish.h - makes what people read of a recording's facts: the rows of `segment`
 * and `word`, what has become of each correction, and where it stands.
 *
 * Nothing else writes these, but for speakers that are deleted with their rows. They are a function
 * of the results of its transcriptions, of the labels of their sources, of the diarization that
 * counts, of its corrections, and of which transcription is current; the order in which these came
 * makes no difference. Internal to store/; within db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_READING_PUBLISH_H
#define NIGHTSHIFT_STORE_READING_PUBLISH_H

#include "store/db.h"

/* Publishes a shard that was just put or, if its transcription has corrections, all of that. */
int reading_publish_new(struct store *st, int64_t media_id, const struct store_shard_result *r,
                        struct err *err);
/* The recordings of which a fact changed (the table reading_due): what differs from the rows that
 * stand there is written, of all their transcriptions. To be called before whatever may have
 * changed a fact is committed. A result that is damaged keeps back its own transcription alone,
 * unless that is the current one. */
int reading_publish_due(struct store *st, struct err *err);
/* Something of this recording's facts did. */
int reading_due(struct store *st, int64_t media_id, struct err *err);

#endif
