/* tools/search/search_absence.h - why a search finds nothing: nobody looked there, or what was
 * asked for is not in the catalog. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_ABSENCE_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_ABSENCE_H

#include "base/buf.h"
#include "tools/search/search_result.h"

/* Before a search. ERR_MISSING: no such path, speaker, language or class of sounds; ERR_EMPTY: the
 * stage that would have found it was never asked for. The message says the way out. */
int search_check(struct store *st, const struct search_wish *wish, struct err *err);
/* How many recordings still wait for a stage, as a sentence behind a blank, "... still to be WHAT",
 * and how many are gone without it; nothing when none does, or is. */
int search_left(struct store *st, const char *stage, const char *what, struct buf *ret,
                struct err *err);

/* ---- what is said where a search found nothing */

/* That nobody said it only where all recordings that were asked about were transcribed; else what
 * is known, and how many were not, and why. heard: something sounds like wish->sound. */
int search_nothing(struct store *st, const struct search_wish *wish, bool heard, struct buf *ret,
                   struct err *err);

#endif
