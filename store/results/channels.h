/* store/results/channels.h - how much sound a recording's channels have. Internal to store/; within
 * one db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_RESULTS_CHANNELS_H
#define NIGHTSHIFT_STORE_RESULTS_CHANNELS_H

#include "store/db.h"

/* A pass over the whole recording found these. The tracks that it decoded are replaced; of others
 * what was measured before stays, as not heard. */
int channels_found(struct store *st, int64_t media_id, const struct result_channel *list,
                   uint32_t count, struct err *err);

#endif
