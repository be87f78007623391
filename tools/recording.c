#include "tools/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "workers/text/codepoints.h"

/* Lower case, and composed: file systems and keyboards write letters with marks in one way or the
 * other. NULL: no memory. */
static char *fold(const char *s)
{
    struct codepoints as_is = {0}, lower = {0}, composed = {0};
    char *ret = NULL;

    codepoints_put_utf8(&as_is, s, strlen(s));
    codepoints_lower(&lower, &as_is);
    codepoints_canonical(&composed, &lower, true);
    if (!as_is.failed && !lower.failed)
        ret = codepoints_utf8(&composed);
    codepoints_free(&as_is);
    codepoints_free(&lower);
    codepoints_free(&composed);
    return ret;
}

/* Does the name, of which the first n bytes count, end with it: all of it, or from a slash on? */
static bool ends_with(const char *name, size_t n, const char *what)
{
    const size_t len = strlen(what);

    return n >= len && memcmp(name + n - len, what, len) == 0 &&
           (n == len || what[0] == '/' || name[n - len - 1] == '/');
}

/* How long it is without its last extension. */
static size_t stem_len(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');

    return dot && (!slash || dot > slash) ? (size_t)(dot - name) : strlen(name);
}

struct looking {
    const char *what;
    const char *absolute; /* what it may be as a relative path, or through links; "": none */
    char *folded;
    bool typed;  /* a name fits as it was typed: other forms of it do not count any more */
    bool number; /* of a recording that is not there: no part of a name is meant */
};

/* As it was typed. */
static int fit_typed(const struct looking *l, const char *name)
{
    if (l->absolute[0] && strcmp(name, l->absolute) == 0)
        return 1;
    if (l->absolute[0] && stem_len(name) == strlen(l->absolute) &&
        ends_with(name, stem_len(name), l->absolute))
        return 2;
    if (ends_with(name, strlen(name), l->what))
        return 3;
    return ends_with(name, stem_len(name), l->what) ? 4 : 0;
}

/* In any form. */
static int fit_folded(const struct looking *l, const char *name)
{
    char *folded = fold(name);
    const char *last;
    int rank = 0;

    if (!folded)
        return ERR_NOMEM;
    last = strrchr(folded, '/');
    if (ends_with(folded, strlen(folded), l->folded) ||
        ends_with(folded, stem_len(folded), l->folded))
        rank = 5;
    else if (!l->number && strstr(last ? last + 1 : folded, l->folded))
        rank = 6;
    else if (!l->number && strstr(folded, l->folded))
        rank = 7;
    free(folded);
    return rank;
}

/* A whole name before a part of one, and the name of a file before that of its folders. */
static int fit(void *arg, const char *name)
{
    struct looking *l = arg;
    const int rank = fit_typed(l, name);

    l->typed |= rank > 0;
    return rank > 0 || l->typed ? rank : fit_folded(l, name);
}

static int candidate(void *arg, const struct read_recording *r)
{
    (void)arg;
    fprintf(stderr, "  %lld  %s%s%s\n", (long long)r->media_id, r->path, r->member[0] ? "//" : "",
            r->member);
    return 0;
}

int recording_find(struct store *st, const char *what, int64_t *ret, struct err *err)
{
    char *typed = utf8_display(what, strlen(what)), *absolute = NULL, *shown = NULL;
    struct looking l = {.what = typed, .absolute = ""};
    struct err other = {0};
    int rc;

    if (cli_absolute(what, &absolute, &other) == 0 &&
        (shown = utf8_display(absolute, strlen(absolute))))
        l.absolute = shown;
    l.number = what[strspn(what, "0123456789")] == 0;
    l.folded = typed ? fold(typed) : NULL;
    rc = l.folded ? read_find(st, typed, fit, &l, candidate, NULL, ret, err)
                  : err_set(err, ERR_NOMEM, "out of memory");
    free(l.folded);
    free(shown);
    free(absolute);
    free(typed);
    return rc;
}
