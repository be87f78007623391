/* tests/common/catalog.h - an empty catalog: made once in a build (make_catalog.c), because a dozen
 * migrations take longer than most tests, and copied from there. */
#ifndef NIGHTSHIFT_TESTS_COMMON_CATALOG_H
#define NIGHTSHIFT_TESTS_COMMON_CATALOG_H

#include "tests/common/files.h"

/* It lies at `path` then, closed, with no log beside it. */
static inline void catalog_copy_empty(const char *path)
{
    const char *build = getenv("NIGHTSHIFT_BUILD_DIR");
    char from[4096];

    snprintf(from, sizeof(from), "%s/tests/empty.db", build ? build : "build/release");
    file_copy(from, path);
}

#endif
