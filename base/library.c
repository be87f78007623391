#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

/* fill NULL: only looked whether it is whole, so that a table is filled at once or not at all.
 * Global when it is: each symbol of one that is opened later is looked up in all that is global
 * before it is in its own, which is a sixth of the time that FFmpeg's hundred libraries take. */
static int load_symbols(const char *whose, const struct library *l, char *fill, struct err *err)
{
    void *handle = dlopen(l->file, RTLD_LAZY | (fill ? RTLD_GLOBAL : RTLD_LOCAL));

    if (!handle)
        return err_set(err, ERR_LIBRARY,
                       "%s cannot be opened (%.300s): install it; `nightshift doctor` names what "
                       "is missing",
                       whose, dlerror());
    for (size_t i = 0; i < l->count; i++) {
        void *f = dlsym(handle, l->functions[i].name);

        if (!f)
            return err_set(err, ERR_LIBRARY,
                           "%s has no %s: install %s anew, then look with `nightshift doctor`",
                           l->file, l->functions[i].name, whose);
        if (fill)
            memcpy(fill + l->functions[i].place, &f, sizeof(f));
    }
    return 0;
}

int libraries_open(struct libraries *state, const char *whose, const struct library *libraries,
                   size_t count, void *table, struct err *err)
{
    int rc = 0;

    pthread_mutex_lock(&state->lock);
    for (int pass = 0; pass < 2 && !state->done; pass++)
        for (size_t i = 0; rc == 0 && i < count; i++)
            rc = load_symbols(whose, &libraries[i], pass ? table : NULL, err);
    state->done = state->done || rc == 0;
    pthread_mutex_unlock(&state->lock);
    return rc;
}
