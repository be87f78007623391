/* tools/correct/listing.h - what people corrected, and what of it is to be decided. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_LISTING_H
#define NIGHTSHIFT_TOOLS_CORRECT_LISTING_H

#include <stdbool.h>

#include "store/read/corrections.h"

/* On standard output, for people or as a JSON list. *count: how many there are. */
int listing_print(struct store *st, const struct read_corrections *which, bool json,
                  uint64_t *count, struct err *err);

#endif
