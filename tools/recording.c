#include "tools/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/cli.h"

static int candidate(void *arg, const struct read_recording *r)
{
    (void)arg;
    fprintf(stderr, "  %lld  %s%s%s\n", (long long)r->media_id, r->path, r->member[0] ? "//" : "",
            r->member);
    return 0;
}

/* As it was typed first; then as an absolute path, which a relative one may be. */
int recording_find(struct store *st, const char *what, int64_t *ret, struct err *err)
{
    struct err other = {0};
    char *absolute = NULL, *shown = NULL;
    int rc = ERR_MISSING;

    if (what[0] != '/' && cli_absolute(what, &absolute, &other) == 0 &&
        (shown = utf8_display(absolute, strlen(absolute))) != NULL)
        rc = read_find(st, shown, NULL, NULL, ret, &other);
    free(shown);
    free(absolute);
    if (rc == 0)
        return 0;
    shown = utf8_display(what, strlen(what));
    rc = shown != NULL ? read_find(st, shown, candidate, NULL, ret, err)
                       : err_set(err, ERR_NOMEM, "out of memory");
    free(shown);
    return rc;
}
