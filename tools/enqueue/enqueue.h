/* tools/enqueue/enqueue.h - from paths to requests: walks, sniffs, fingerprints, looks into
 * archives.
 *
 * One thread. A file's errors are printed on standard error and kept in the catalog; they never end
 * the walk. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_H

#include "tools/enqueue/enqueue_work.h"

/* writer NULL: a dry run, nothing is changed; `known` (may be NULL) is then the catalog. Roots are
 * absolute. An error is one that ended the work: of the catalog, or memory. */
int enqueue_paths(const struct enqueue_options *o, struct writer *writer, struct store *known,
                  const char *const *roots, uint32_t root_count, struct enqueue_result *ret,
                  struct err *err);
/* A sentence about a root that stat does not find, without a full stop. Static. */
const char *enqueue_absent(const char *root);

#endif
