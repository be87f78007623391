/* tools/search/search_near.h - a text near a sound: which of what was said has it beside it.
 * Internal to tools/search; main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_NEAR_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_NEAR_H

#include "tools/search/search_candidates.h"

/* Sets c->has_class: was a sound of this class heard anywhere? */
int search_near_known(struct candidates *c, struct err *err);
/* Keeps of a list what is near such a sound, in its order. */
int search_near_keep(struct candidates *c, struct candidates_list *l, struct err *err);

#endif
