/* workers/text/clean.h - small repairs of recognised text. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_CLEAN_H
#define NIGHTSHIFT_WORKERS_TEXT_CLEAN_H

#include <stddef.h>

/* Makes one line of display text out of valid UTF-8, in place: control characters (a model can
 * produce any byte) and line or paragraph separators become blanks, blanks at both ends go. Runs
 * of blanks inside are kept: they are the model's. Returns the new length. */
size_t clean_text(char *text);

#endif
