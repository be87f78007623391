/* tools/search/search_place.h - where in a text something is wrong, for people. Pure; any thread.
 */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_PLACE_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_PLACE_H

#include <stddef.h>

/* Two lines of at most `columns` columns, at least 40: the text, or what of it is around the byte
 * `at`, and a caret below that one. Safe to print; newly allocated, NULL when out of memory. */
char *search_place(const char *text, size_t at, size_t columns);

#endif
