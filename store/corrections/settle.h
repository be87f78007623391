/* store/corrections/settle.h - makes a recording read as its corrections say. Internal to store/;
 * within db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_CORRECTIONS_SETTLE_H
#define NIGHTSHIFT_STORE_CORRECTIONS_SETTLE_H

#include "store/db.h"

/* Of every recording of which something changed that they depend on (the table correction_due):
 * each correction gets its place in what is current now, and segments and words read so. To be
 * called behind whatever may have changed which transcription is current, or what is in it, before
 * that is committed. */
int corrections_settle(struct store *st, struct err *err);
/* Something of this recording's corrections did. */
int corrections_due(struct store *st, int64_t media_id, struct err *err);
/* A segment reads as the machine has it; what stands in it stays noted. Behind this the recording
 * is due. */
int corrections_lift(struct store *st, int64_t segment_id, struct err *err);

#endif
