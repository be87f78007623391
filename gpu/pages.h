/* gpu/pages.h - host memory for what is large: zeros that the system gives as they are touched.
 *
 * Not malloc's: its calloc clears by hand what was used before, and small pages are faulted one by
 * one: half of a short file's page faults were such. Any thread. */
#ifndef NIGHTSHIFT_GPU_PAGES_H
#define NIGHTSHIFT_GPU_PAGES_H

#include <stddef.h>

#define PAGES_HUGE ((size_t)2 << 20)

/* Begins at a page; asks for large ones where whole ones fit. NULL: there is no memory. */
void *pages_new(size_t bytes);
/* bytes: as of pages_new. Accepts NULL. */
void pages_free(void *p, size_t bytes);

#endif
