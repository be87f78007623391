#include "tools/score/pairs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/list.h"
#include "base/utf8.h"
#include "store/read/read.h"
#include "tools/cli/cli.h"
#include "tools/export/names.h"
#include "tools/export/transcript.h"
#include "tools/enqueue/found/walk.h"

void pairs_free(struct pairs *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->list[i].name);
        free(p->list[i].reference);
        free(p->list[i].hypothesis);
        free(p->list[i].missing);
    }
    free(p->list);
    *p = (struct pairs){0};
}

/* 0 is the most preferred; -1: holds no transcript. */
static int rank_of(const char *name)
{
    const char *ending = name + names_stem(name);

    for (int i = 0; ending[0] == '.' && transcript_endings[i]; i++)
        if (strcasecmp(ending + 1, transcript_endings[i]) == 0)
            return i;
    return -1;
}

static int append_pair(struct pairs *p, const char *reference, const char *below, struct err *err)
{
    struct pair *one;

    if (!list_grow(&p->list, &p->capacity, p->n, sizeof(*p->list)))
        return err_no_memory(err, NULL);
    one = &p->list[p->n++];
    *one = (struct pair){.reference = strdup(reference)};
    one->name = utf8_display(below, names_stem(below));
    return one->reference && one->name ? 0 : err_no_memory(err, NULL);
}

static int by_name(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c != 0 ? c : rank_of(x->reference) - rank_of(y->reference);
}

static int on_file(void *arg, const struct walk_entry *e, struct err *err)
{
    if (e->kind == WALK_UNREADABLE)
        cli_note("'%s' cannot be looked at: %s.", e->path, strerror(e->error));
    if (e->kind != WALK_FILE || rank_of(e->path) < 0)
        return 0;
    return append_pair(arg, e->path, e->below, err);
}

/* One reference of each name stays. */
static void drop_doubles(struct pairs *p)
{
    size_t n = 0;

    if (p->n > 0)
        qsort(p->list, p->n, sizeof(*p->list), by_name);
    for (size_t i = 0; i < p->n; i++) {
        if (n > 0 && strcmp(p->list[n - 1].name, p->list[i].name) == 0) {
            free(p->list[i].name);
            free(p->list[i].reference);
        } else {
            p->list[n++] = p->list[i];
        }
    }
    p->n = n;
}

static int look_at(const char *path, bool *directory, struct err *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return err_sys(err, errno, "look at '%s'", path);
    *directory = S_ISDIR(st.st_mode);
    return 0;
}

static int collect_references(struct pairs *p, const char *path, bool directory, struct err *err)
{
    const struct walk_options o = {.follow = true, .entry = on_file, .arg = p};
    const char *slash = strrchr(path, '/');
    struct walk *w = NULL;
    char *root = NULL;
    int rc;

    if (!directory)
        return append_pair(p, path, slash && slash[1] ? slash + 1 : path, err);
    rc = cli_absolute(path, &root, err);
    if (rc == 0)
        rc = walk_new(&o, &w, err);
    if (rc == 0)
        rc = walk_root(w, root, err);
    walk_free(w);
    free(root);
    if (rc != 0)
        return rc;
    drop_doubles(p);
    return p->n > 0 ? 0
                    : err_set(err, ERR_MISSING,
                              "there is no transcript (txt, json, vtt, srt, tsv) in '%s'. Try "
                              "another folder",
                              path);
}

static int say_missing(struct pair *one, const char *format, const char *what, struct err *err)
{
    char *line = NULL;
    int rc = asprintf(&line, "%s: %s%s", one->name, format, what);

    if (rc < 0)
        return err_no_memory(err, NULL);
    one->missing = line;
    return 0;
}

/* Without its own ending. */
static int take_file(struct pair *one, const char *below, const char *folder, struct err *err)
{
    size_t stem = names_stem(below);

    for (int i = 0; !one->hypothesis && transcript_endings[i]; i++) {
        char *path = NULL;
        struct stat st;

        if (asprintf(&path, "%s/%.*s.%s", folder, (int)stem, below, transcript_endings[i]) < 0)
            return err_no_memory(err, NULL);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            one->hypothesis = path;
        else
            free(path);
    }
    return 0;
}

/* The reference's path below its folder is looked for below the other, also as it is exported. */
static int find_file(struct pair *one, const char *below, const char *folder, struct err *err)
{
    char *portable = names_portable(below);
    int rc = portable ? take_file(one, below, folder, err) : err_no_memory(err, NULL);

    if (rc == 0 && !one->hypothesis)
        rc = take_file(one, portable, folder, err);
    free(portable);
    if (rc != 0 || one->hypothesis)
        return rc;
    return say_missing(one, "there is no transcript of this name in ", folder, err);
}

int pairs_of_files(struct pairs *p, const char *reference, const char *hypothesis, struct err *err)
{
    bool folder = false, other = false;
    char *root = NULL;
    int rc = look_at(reference, &folder, err);

    if (rc == 0)
        rc = look_at(hypothesis, &other, err);
    if (rc == 0 && folder != other)
        rc = err_set(err, ERR_USAGE, "'%s' is a folder and '%s' is none. Try two of a kind",
                     folder ? reference : hypothesis, folder ? hypothesis : reference);
    if (rc == 0)
        rc = collect_references(p, reference, folder, err);
    if (rc == 0 && !folder)
        return (p->list[0].hypothesis = strdup(hypothesis)) ? 0 : err_no_memory(err, NULL);
    if (rc == 0)
        rc = cli_absolute(reference, &root, err);
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        rc = find_file(&p->list[i], p->list[i].reference + strlen(root) + (root[1] != 0),
                       hypothesis, err);
    free(root);
    return rc;
}

/* ------------------------------------------------------------------------------- the catalog */

struct known {
    char *path;       /* as it is exported, without the ending; owned */
    const char *name; /* its last part */
    int64_t id;
    bool has_text;
    char language[16];
};
struct known_list {
    struct known *list;
    size_t n, capacity;
    struct err err;
};

static int on_recording(void *arg, const struct read_recording *r)
{
    struct known_list *k = arg;
    struct known *one;
    const char *slash;
    char *path;

    if (!list_grow(&k->list, &k->capacity, k->n, sizeof(*k->list)))
        return err_no_memory(&k->err, NULL);
    one = &k->list[k->n];
    *one = (struct known){.id = r->media_id, .has_text = strcmp(r->transcript, "done") == 0};
    if (asprintf(&path, "%s%s%s", r->path, r->member[0] ? "/" : "", r->member) < 0)
        return err_no_memory(&k->err, NULL);
    one->path = names_portable(path);
    free(path);
    if (!one->path)
        return err_no_memory(&k->err, NULL);
    k->n++;
    one->path[names_stem(one->path)] = 0;
    slash = strrchr(one->path, '/');
    one->name = slash ? slash + 1 : one->path;
    utf8_copy(one->language, sizeof(one->language), r->language);
    return 0;
}

static int by_last_part(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->name, ((const struct known *)b)->name);
}

static bool ends_with_path(const char *path, const char *end)
{
    size_t a = strlen(path), b = strlen(end);

    return a >= b && strcmp(path + a - b, end) == 0 && (a == b || path[a - b - 1] == '/');
}

/* Chooses among n files with the same last part the one that fits; NULL: none or several do. */
static const struct known *choose_known_file(const struct known *first, size_t n, const char *name)
{
    const struct known *found = NULL;

    if (n == 1)
        return first;
    for (size_t i = 0; i < n; i++)
        if (ends_with_path(first[i].path, name)) {
            if (found)
                return NULL;
            found = &first[i];
        }
    return found;
}

static int find_portable(struct pair *one, const char *name, const struct known_list *k,
                         struct err *err)
{
    const char *slash = strrchr(name, '/');
    const struct known key = {.name = slash ? slash + 1 : name}, *first, *found;
    size_t n = 0;

    first = k->n ? bsearch(&key, k->list, k->n, sizeof(*k->list), by_last_part) : NULL;
    if (!first)
        return say_missing(one, "the catalog knows no recording of this name", "", err);
    while (first > k->list && by_last_part(first - 1, &key) == 0)
        first--;
    while (first + n < k->list + k->n && by_last_part(first + n, &key) == 0)
        n++;
    found = choose_known_file(first, n, name);
    if (!found)
        return say_missing(one,
                           "several recordings of the catalog have this name; put the "
                           "reference into a folder of the one's name",
                           "", err);
    if (!found->has_text)
        return say_missing(one, "the recording is not transcribed to its end: ", found->path, err);
    one->media_id = found->id;
    utf8_copy(one->language, sizeof(one->language), found->language);
    return 0;
}

static int find_recording(struct pair *one, const struct known_list *k, struct err *err)
{
    char *portable = names_portable(one->name);
    int rc = portable ? find_portable(one, portable, k, err) : err_no_memory(err, NULL);

    free(portable);
    return rc;
}

int pairs_of_catalog(struct pairs *p, const char *reference, struct store *st, struct err *err)
{
    const struct read_filter all = {0};
    struct known_list k = {0};
    bool folder = false;
    int rc = look_at(reference, &folder, err);

    if (rc == 0)
        rc = collect_references(p, reference, folder, err);
    if (rc == 0 && read_recordings(st, &all, on_recording, &k, err) != 0) {
        if (k.err.code != 0)
            *err = k.err;
        rc = err->code;
    }
    if (k.n > 0)
        qsort(k.list, k.n, sizeof(*k.list), by_last_part);
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        rc = find_recording(&p->list[i], &k, err);
    for (size_t i = 0; i < k.n; i++)
        free(k.list[i].path);
    free(k.list);
    return rc;
}
