/* Brings missing models from the network or from a folder, and copies models into a folder. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/utf8.h"
#include "tools/cli/text.h"
#include "tools/hub/model_pull.h"
#include "tools/model_check.h"
#include "tools/setup/setup.h"
#include "workers/models/files/model_dir.h"

/* ---- room */

/* Looks at the disk that `path` will be on, by the part of the path that exists. */
static int look_disk(const char *path, dev_t *disk, uint64_t *free_bytes, struct err *err)
{
    char at[PATH_MAX], *slash;
    struct statvfs fs;
    struct stat st;

    if (snprintf(at, sizeof(at), "%s", path) >= (int)sizeof(at))
        return err_set(err, ERR_USAGE, "the path of the models is too long. Try another HF_HOME");
    while (stat(at, &st) != 0 && (slash = strrchr(at, '/')) && slash != at)
        *slash = 0;
    if (stat(at, &st) != 0 || statvfs(at, &fs) != 0)
        return err_set(err, ERR_MISSING, "there is no disk at %.300s", path);
    *disk = st.st_dev;
    *free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}

static int too_full(const char *where, uint64_t need, uint64_t free_bytes, struct err *err)
{
    char a[TEXT_LEN], b[TEXT_LEN];

    return err_set(err, ERR_FULL,
                   "%.200s is to get %s, and its disk has %s free. Try a smaller --model, or "
                   "HF_HOME and NIGHTSHIFT_MODELS on another disk",
                   where, text_bytes(need, a), text_bytes(free_bytes, b));
}

static int whole_path(int (*place)(char **ret, struct err *err), char **ret, struct err *err)
{
    char *path = NULL;
    int rc = place(&path, err);

    if (rc == 0)
        rc = cli_absolute(path, ret, err);
    free(path);
    return rc;
}

/* Bytes that an earlier setup left of an incomplete model; this one resumes from them. */
static uint64_t left_in(const char *folder)
{
    char path[PATH_MAX];
    const struct dirent *e;
    DIR *d = opendir(folder);
    uint64_t sum = 0;
    struct stat st;

    while (d && (e = readdir(d)))
        if (snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) < (int)sizeof(path) &&
            stat(path, &st) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    if (d)
        closedir(d);
    return sum;
}

/* How much of it is still to come to its disk. */
static uint64_t compute_missing_bytes(const struct setup *s, const struct setup_part *p,
                                      const struct setup_room *r)
{
    const char *slash = p->id ? strchr(p->id, '/') : NULL;
    char folder[PATH_MAX];
    uint64_t left;

    if (p->path || (s->options->from && !p->source))
        return 0;
    if (slash && !s->options->from)
        snprintf(folder, sizeof(folder), "%s/models--%.*s--%s/blobs", r->cache,
                 (int)(slash - p->id), p->id, slash + 1);
    else
        snprintf(folder, sizeof(folder), "%s/%s", r->own, p->name);
    left = left_in(folder);
    return left < p->bytes ? p->bytes - left : 0;
}

int setup_room(const struct setup *s, struct setup_room *r, struct err *err)
{
    dev_t cache_disk = 0, own_disk = 0;
    uint64_t cache = 0, own = 0;
    int rc;

    *r = (struct setup_room){.cache = NULL};
    rc = whole_path(model_dir_cache, &r->cache, err);
    if (rc == 0)
        rc = whole_path(model_dir_own, &r->own, err);
    if (rc == 0)
        rc = look_disk(r->cache, &cache_disk, &r->cache_free, err);
    if (rc == 0)
        rc = look_disk(r->own, &own_disk, &r->own_free, err);
    for (uint32_t i = 0; rc == 0 && i < s->count; i++)
        *(s->part[i].id && !s->options->from ? &cache : &own) +=
            compute_missing_bytes(s, &s->part[i], r);
    if (rc == 0 && cache > 0 && cache >= r->cache_free)
        rc = too_full(r->cache, cache, r->cache_free, err);
    if (rc == 0 && cache_disk == own_disk)
        own += cache;
    if (rc == 0 && own > 0 && own >= r->own_free)
        rc = too_full(r->own, own, r->own_free, err);
    return rc;
}

void setup_room_free(struct setup_room *r)
{
    free(r->cache);
    free(r->own);
    *r = (struct setup_room){.cache = NULL};
}

/* ---- one part */

/* Weights and all, as a worker would. */
static int check_model_files(const struct setup_part *p, const char *path, struct err *err)
{
    struct model_check c;
    int rc;

    if (p->file)
        return setup_whole(p, path, err);
    rc = model_check(path, &c, err);
    model_check_free(&c);
    return rc;
}

static int keep_path(struct setup_part *p, const char *path, struct err *err)
{
    int rc = check_model_files(p, path, err);

    if (rc != 0)
        return rc;
    p->path = strdup(path);
    return p->path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int fetch_setup_part(struct setup_part *p, bool quiet, struct err *err)
{
    struct hub_pulled pulled = {0};
    int rc = model_fetch(quiet, false, p->id ? p->id : p->name, NULL, &pulled, err);

    p->got_bytes = pulled.fetched_bytes;
    if (rc == 0)
        rc = keep_path(p, pulled.path, err);
    hub_pulled_free(&pulled);
    return rc;
}

/* Models with a pull of their own have known hashes: a pull without network finds damaged files.
 * Its ERR_DENIED only says that it wanted to fetch, such as a package that the model does
 * without. */
static int verify_part_hashes(const struct setup_part *p, bool quiet, struct err *err)
{
    struct hub_pulled pulled = {0};
    struct err why = {0};
    int rc = model_fetch(quiet, true, p->name, NULL, &pulled, &why);

    hub_pulled_free(&pulled);
    if (rc == 0 || rc == ERR_DENIED)
        return 0;
    *err = why;
    return rc;
}

static int take_from(struct setup_part *p, bool quiet, struct err *err)
{
    char *own = NULL, to[PATH_MAX], path[PATH_MAX];
    int rc = p->source
                 ? whole_path(model_dir_own, &own, err)
                 : err_set(err, ERR_MISSING,
                           "the folder does not have it. Try one of `nightshift setup --save`");

    if (rc == 0 && (snprintf(to, sizeof(to), "%s/%s", own, p->name) >= (int)sizeof(to) ||
                    snprintf(path, sizeof(path), "%s%s%s", to, p->file ? "/" : "",
                             p->file ? p->file : "") >= (int)sizeof(path)))
        rc = err_set(err, ERR_USAGE, "its path is too long. Try another NIGHTSHIFT_MODELS");
    if (rc == 0 && !p->file) /* before a broken one is there by its name */
        rc = check_model_files(p, p->source, err);
    if (rc == 0)
        rc = model_copy(quiet, p->source, to, &p->got_bytes, err);
    if (rc == 0 && !p->id)
        rc = verify_part_hashes(p, quiet, err);
    if (rc == 0)
        rc = keep_path(p, path, err);
    free(own);
    return rc;
}

/* ---- all of them */

static int report_part_failure(const char *doing, const struct setup_part *p)
{
    char words[200];

    snprintf(words, sizeof(words), "%s '%.100s'", doing, p->name);
    return cli_fail(words, &p->err,
                    p->err.code == ERR_CANCELLED
                        ? "The same command resumes from here; downloaded data is kept."
                    : p->err.code == ERR_PROTOCOL || p->err.code == ERR_TIMEOUT
                        ? "Run the same command again; downloaded data is kept."
                        : NULL);
}

int setup_bring(struct setup *s, const struct cli *cli)
{
    const bool offline = s->options->from != NULL;
    int status = EX_OK, one;

    s->tried = true;
    for (uint32_t i = 0; i < s->count; i++) {
        struct setup_part *p = &s->part[i];

        if (p->path)
            continue;
        if (!cli->quiet && (!offline || p->source))
            fprintf(stderr, offline ? "%s, checked first:\n" : "%s:\n", p->name);
        if ((offline ? take_from(p, cli->quiet, &p->err)
                     : fetch_setup_part(p, cli->quiet, &p->err)) == 0)
            continue;
        one = report_part_failure(offline ? "take" : "fetch", p);
        status = status == EX_OK ? one : status;
        if (p->err.code == ERR_CANCELLED)
            break;
    }
    return status;
}

static int copy_setup_part(struct setup_part *p, const char *folder, bool quiet, struct err *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct stat st;

    if (snprintf(from, sizeof(from), "%s", p->path) >= (int)sizeof(from) ||
        snprintf(to, sizeof(to), "%s/%s", folder, p->name) >= (int)sizeof(to))
        return err_set(err, ERR_USAGE, "its path is too long");
    if (stat(from, &st) == 0 && S_ISREG(st.st_mode))
        *strrchr(from, '/') = 0;
    return model_copy(quiet, from, to, &p->got_bytes, err);
}

int setup_save(struct setup *s, const struct cli *cli)
{
    struct err err = {0};
    char *folder = NULL;
    int status = EX_OK, one;

    if (cli_absolute(s->options->save, &folder, &err) != 0)
        return cli_fail("save the models", &err, NULL);
    for (uint32_t i = 0; i < s->count; i++) {
        struct setup_part *p = &s->part[i];

        if (!p->path)
            continue;
        if (!cli->quiet)
            fprintf(stderr, "%s, into %s:\n", p->name, s->options->save);
        p->saved = copy_setup_part(p, folder, cli->quiet, &p->err) == 0;
        if (p->saved)
            continue;
        one = report_part_failure("save", p);
        status = status == EX_OK ? one : status;
        if (p->err.code == ERR_CANCELLED)
            break;
    }
    free(folder);
    return status;
}
