/* tools/enqueue/enqueue.h - from paths to requests: walks, sniffs, fingerprints, looks into
 * archives.
 *
 * One thread. What is wrong with a file is said on standard error, kept for the catalog, and never
 * ends the walk. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/requests/request.h"

struct groups;
struct writer;

struct enqueue_options {
    const char *catalog; /* absolute: it and the files beside it are never enqueued */
    const char *const *include, *const *exclude; /* NULL-terminated, or NULL */
    bool follow, one_file_system;
    bool all;         /* also what does not look like a recording */
    bool unsandboxed; /* archives are read also where nothing would hold the decoders */
    bool quiet, progress;
    struct groups *groups; /* one job for each stage of each; what came of them is noted there */
    const char *command_line;
};

struct enqueue_result {
    /* As the first job of each group has counted, but the tasks of all; in a dry run none. */
    struct store_enqueue_counts counts;
    uint64_t files;    /* looked at */
    uint64_t found;    /* recordings, before the catalog has counted them */
    uint64_t archives; /* looked into */
    uint64_t left_alone, excluded, links, specials;
    uint64_t unreadable_files, unreadable_folders, bad_archives, bad_members;
    uint32_t missing_roots;
    bool through_run;    /* a run is on, and has been told */
    bool vanish_skipped; /* too much was left out to say what has vanished */
};

/* writer NULL: a dry run, nothing is changed; `known` (may be NULL) is then the catalog. Roots are
 * absolute. An error is one that ended the work: of the catalog, or memory. */
int enqueue_paths(const struct enqueue_options *o, struct writer *writer, struct store *known,
                  const char *const *roots, uint32_t root_count, struct enqueue_result *ret,
                  struct err *err);

#endif
