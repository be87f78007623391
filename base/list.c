#include "base/list.h"

#include <stdint.h>
#include <stdlib.h>

#define FIRST_ROOM 16

bool list_grow(void *list, size_t *capacity, size_t count, size_t each)
{
    size_t more = *capacity ? *capacity * 2 : FIRST_ROOM;
    void *grown;

    if (count < *capacity)
        return true;
    grown = more > SIZE_MAX / 2 / each ? NULL : realloc(*(void **)list, more * each);
    if (!grown)
        return false;
    *(void **)list = grown;
    *capacity = more;
    return true;
}
