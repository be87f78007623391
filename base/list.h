/* base/list.h - the room of a list that grows. Any thread, each with lists of its own. */
#ifndef NIGHTSHIFT_BASE_LIST_H
#define NIGHTSHIFT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Room for one more element of `each` bytes behind the first `count`. list: the address of the
 * pointer to them, NULL in it at first; *room: how many it has room for, 0 at first; it doubles.
 * False: no memory, and both are as they were. */
bool list_grow(void *list, size_t *capacity, size_t count, size_t each);

#endif
