/* workers/text/text.h - small repairs of recognised text. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TEXT_H
#define NIGHTSHIFT_WORKERS_TEXT_TEXT_H

#include <stddef.h>

/* Makes one line of display text out of valid UTF-8, in place: control characters (a model can
 * produce any byte) and line or paragraph separators become blanks, blanks at both ends go. Runs
 * of blanks inside are kept: they are the model's. Returns the new length. */
size_t text_clean(char *text);

#endif
