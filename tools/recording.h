/* tools/recording.h - one recording by what a user types. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_RECORDING_H
#define NIGHTSHIFT_TOOLS_RECORDING_H

#include "store/read.h"

/* As read_find, and a relative path as well. ERR_USAGE: several, which were listed on standard
 * error. */
int recording_find(struct store *st, const char *what, int64_t *ret, struct err *err);

#endif
