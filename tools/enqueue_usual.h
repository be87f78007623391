/* tools/enqueue_usual.h - the model that --diarize, --sounds, --embed or --embed-audio takes when
 * none is named. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_USUAL_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_USUAL_H

#include <stddef.h>

#include "base/err.h"
#include "store/store.h"

struct enqueue_usual {
    const char *option, *stage; /* "--diarize", "diarize" */
    const char *name;           /* the user's own: a name in a models directory, or a Hub id */
    const char *embedded;       /* what comes with the program and is taken else; NULL: nothing */
    const char *hub; /* its Hub id, under which `model pull` brings it; NULL: not there */
    const char *get; /* else how to come by one, as a command: "put a folder ..." */
};

/* Its folder, newly allocated, and its name, borrowed from u. Where it is the one that comes with
 * the program, note says so to people; else it is "". ERR_MODEL, with what to do, when there is
 * none, and when the catalog's speakers were told apart with another model that is not named now:
 * the results of a lesser one would count in place of those. known: the catalog, or NULL. */
int enqueue_usual_find(const struct enqueue_usual *u, struct store *known, char **ret_dir,
                       const char **ret_name, char *note, size_t note_size, struct err *err);

#endif
