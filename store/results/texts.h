/* store/results/texts.h - a shard's texts: whether they are possible, and those that were not
 * believed. What is believed is published (store/reading/publish.h). Internal to store/; within the
 * db_enter / db_leave of the shard. */
#ifndef NIGHTSHIFT_STORE_RESULTS_TEXTS_H
#define NIGHTSHIFT_STORE_RESULTS_TEXTS_H

#include "store/db.h"

/* ERR_INPUT: impossible values. */
int texts_check(const struct store_shard_result *r, struct err *err);
int texts_put_dropped(struct store *st, const struct store_shard_result *r, struct err *err);

#endif
