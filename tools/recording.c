#include "tools/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "workers/text/codepoints.h"

/* Lower case, and composed: file systems and keyboards write letters with marks in one way or the
 * other. NULL: no memory. */
static char *fold_name(const char *s)
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

/* Compares a name with the text as typed. Returns its rank, 1 the best; 0: it does not fit. */
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
    char *folded = fold_name(name);
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
static int rank_name_fit(void *arg, const char *name)
{
    struct looking *l = arg;
    const int rank = fit_typed(l, name);

    l->typed |= rank > 0;
    return rank > 0 || l->typed ? rank : fit_folded(l, name);
}

static int print_candidate(void *arg, const struct read_recording *r)
{
    (void)arg;
    fprintf(stderr, "  %lld  %s%s%s\n", (long long)r->media_id, r->path, r->member[0] ? "//" : "",
            r->member);
    return 0;
}

struct typed {
    char *typed, *absolute, *shown;
    struct looking looking;
};

static void typed_free(struct typed *t)
{
    free(t->looking.folded);
    free(t->shown);
    free(t->absolute);
    free(t->typed);
}

/* The caller frees *ret even on error. */
static int typed_make(const char *what, struct typed *ret, struct err *err)
{
    struct typed t = {.typed = utf8_display(what, strlen(what))};
    struct err other = {0};

    t.looking = (struct looking){.what = t.typed, .absolute = ""};
    if (cli_absolute(what, &t.absolute, &other) == 0 &&
        (t.shown = utf8_display(t.absolute, strlen(t.absolute))))
        t.looking.absolute = t.shown;
    t.looking.number = what[strspn(what, "0123456789")] == 0;
    t.looking.folded = t.typed ? fold_name(t.typed) : NULL;
    *ret = t;
    return t.looking.folded ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int recording_find(struct store *st, const char *what, int64_t *ret, struct err *err)
{
    struct typed t;
    int rc = typed_make(what, &t, err);

    if (rc == 0)
        rc = read_find(st, t.typed, rank_name_fit, &t.looking, print_candidate, NULL, ret, err);
    typed_free(&t);
    return rc;
}

struct fitting {
    struct looking *looking; /* NULL: nothing was typed */
    recording_place_fn fn;
    void *arg;
};

static int on_place(void *arg, const struct read_other *place)
{
    const struct fitting *f = arg;
    struct buf name = BUF_INIT;
    int rank = 0;

    if (f->looking) {
        buf_printf(&name, "%s%s%s", place->path, place->member[0] ? "//" : "", place->member);
        rank = buf_cstr(&name) ? rank_name_fit(f->looking, buf_cstr(&name)) : ERR_NOMEM;
    }
    buf_free(&name);
    return rank < 0 ? rank : f->fn(f->arg, place, rank);
}

int recording_places(struct store *st, int64_t media_id, const char *what, recording_place_fn fn,
                     void *arg, struct err *err)
{
    struct typed t = {0};
    struct fitting f = {what ? &t.looking : NULL, fn, arg};
    int rc = what ? typed_make(what, &t, err) : 0;

    if (rc == 0)
        rc = read_places_of(st, media_id, on_place, &f, err);
    if (what)
        typed_free(&t);
    return rc < 0 && err->code == 0 ? err_set(err, rc, "%s", err_name(rc)) : rc;
}
