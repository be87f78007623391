/* tools/score/pairs.h - which reference belongs to which transcript: by their names.
 *
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_PAIRS_H
#define NIGHTSHIFT_TOOLS_SCORE_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

struct pair {
    char *name;       /* owned; for people: the reference's name below its folder, no ending */
    char *reference;  /* owned; a file */
    char *hypothesis; /* owned; a file; NULL: media_id, or none was found */
    int64_t media_id; /* of the catalog; 0 none */
    char *missing;    /* owned; NULL, or a sentence: why there is no hypothesis */
    char language[16];
};
struct pairs {
    struct pair *list; /* by name */
    size_t n, capacity;
};
void pairs_free(struct pairs *p);

/* Two files, or the files of two folders whose names without their endings are the same below them.
 * If a name has several endings, one of them is taken. ERR_MISSING: no file, or no transcript. */
int pairs_of_files(struct pairs *p, const char *reference, const char *hypothesis, struct err *err);

/* The references' recordings in the catalog: those of the same name without endings; among several,
 * the one whose folders are the same, too. */
int pairs_of_catalog(struct pairs *p, const char *reference, struct store *st, struct err *err);

#endif
