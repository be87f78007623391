/* tools/enqueue/path_list.h - lists of things that hold for a path and what is below it, in the
 * order of paths (their bytes). Each element begins with its path: const char *, absolute, without
 * a slash at its end. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_PATH_LIST_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_PATH_LIST_H

#include <stddef.h>

struct paths {
    const void *list;
    size_t count, size; /* elements; bytes of one */
};
#define PATHS_OF(array, n) ((struct paths){(array), (n), sizeof(*(array))})

/* A comparison for qsort. */
int paths_compare(const void *a, const void *b);
/* The element whose path is these n bytes; NULL: there is none. */
const void *paths_exact(struct paths p, const char *path, size_t n);
/* The length of the folder above the first n bytes; 0 above "/". */
size_t paths_above(const char *path, size_t n);
/* The element that is nearest at or above these n bytes; NULL: there is none. */
const void *paths_nearest(struct paths p, const char *path, size_t n);
/* The first element below these n bytes; NULL: there is none. */
const void *paths_below(struct paths p, const char *path, size_t n);

#endif
