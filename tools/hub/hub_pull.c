/* One model: its list, its small files, then its weights, then the links that make it one. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/replace.h"
#include "tools/cli/cli.h"
#include "tools/hub/hub.h"
#include "tools/hub/hub_file.h"
#include "tools/hub/hub_hash.h"
#include "tools/hub/hub_http.h"
#include "tools/hub/hub_list.h"
#include "tools/hub/libcrypto.h"
#include "tools/hub/libcurl.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weight_layout.h"

/* ---- one model in the layout of the Hugging Face cache:
 *
 *   HUB/models--org--name/blobs/HASH                     the bytes, each once
 *                        /blobs/HASH.incomplete          on their way
 *                        /snapshots/COMMIT/config.json   a relative link to its blob
 *                        /refs/main                      the commit that this revision means
 *   HUB/.locks/models--org--name/HASH.lock               held by whoever fetches that blob
 *
 * Links are made when all blobs are there, config.json's last, and the ref after them: a name never
 * leads to half a model. */

struct hub_cache {
    char repo[PATH_MAX - 300]; /* room behind it for what lies there */
    char locks[PATH_MAX - 300];
    int lock; /* against a second pull of the model; -1: none */
};

static int make_cache_directory(const char *dir, const char *below, struct err *err)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", dir, below);
    return cli_make_directories(path, err);
}

/* Makes the folders and takes the lock. ERR_LOCKED. */
static int hub_cache_open(const char *id, struct hub_cache *ret, struct err *err)
{
    const char *slash = strchr(id, '/');
    struct hub_cache c = {.lock = -1};
    char *hub = NULL, *whole = NULL, path[PATH_MAX];
    int rc = model_dir_cache(&hub, err);

    if (rc == 0)
        rc = cli_absolute(hub, &whole, err);
    if (rc == 0 && (snprintf(c.repo, sizeof(c.repo), "%s/models--%.*s--%s", whole,
                             (int)(slash - id), id, slash + 1) >= (int)sizeof(c.repo) ||
                    snprintf(c.locks, sizeof(c.locks), "%s/.locks/models--%.*s--%s", whole,
                             (int)(slash - id), id, slash + 1) >= (int)sizeof(c.locks)))
        rc = err_set(err, ERR_USAGE, "the path of the cache is too long. Try another HF_HOME");
    if (rc == 0)
        rc = make_cache_directory(c.repo, "blobs", err);
    if (rc == 0)
        rc = make_cache_directory(c.repo, "snapshots", err);
    if (rc == 0)
        rc = make_cache_directory(c.repo, "refs", err);
    if (rc == 0)
        rc = cli_make_directories(c.locks, err);
    if (rc == 0) {
        snprintf(path, sizeof(path), "%s/nightshift.lock", c.locks);
        rc = hub_lock(path, &c.lock, err);
    }
    if (rc == 0)
        *ret = c;
    free(whole);
    free(hub);
    return rc;
}

static void hub_cache_close(struct hub_cache *c)
{
    if (c->lock >= 0)
        close(c->lock);
    c->lock = -1;
}

static void hub_cache_blob(const struct hub_cache *c, const struct hub_digest *digest,
                           char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/blobs/%s", c->repo, digest->hex);
}

/* Against other programs that fetch the same blob; *ret is to be closed. ERR_LOCKED. */
static int hub_cache_lock_blob(const struct hub_cache *c, const struct hub_digest *digest, int *ret,
                               struct err *err)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s.lock", c->locks, digest->hex);
    return hub_lock(path, ret, err);
}

/* snapshots/COMMIT/FILE; file is a plain name. */
static int hub_cache_link(const struct hub_cache *c, const char *commit, const char *file,
                          const struct hub_digest *digest, struct err *err)
{
    char dir[160], path[PATH_MAX], fresh[PATH_MAX + 8], target[96];
    const char *slash = strrchr(file, '/');
    int rc;

    snprintf(dir, sizeof(dir), "snapshots/%.40s/%.*s", commit, slash ? (int)(slash - file) : 0,
             file);
    rc = make_cache_directory(c->repo, dir, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof(path), "%s/snapshots/%.40s/%s", c->repo, commit, file);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    snprintf(target, sizeof(target), "%s../../blobs/%s", slash ? "../" : "", digest->hex);
    unlink(fresh); /* of a pull that was killed; the lock is ours */
    if (symlink(target, fresh) != 0 || rename(fresh, path) != 0)
        return err_sys(err, errno, "make the link %.200s", path);
    return 0;
}

/* refs/REVISION, which hub_revision_check has let pass. */
static int hub_cache_ref(const struct hub_cache *c, const char *revision, const char *commit,
                         struct err *err)
{
    char path[PATH_MAX], *cut;
    int rc;

    snprintf(path, sizeof(path), "%s/refs/%s", c->repo, revision);
    cut = strrchr(path, '/');
    *cut = 0;
    rc = cli_make_directories(path, err);
    *cut = '/';
    return rc == 0 ? replace_file(path, commit, strlen(commit), REPLACE_OURS, err) : rc;
}

/* ---- one model */

#define LIST_MAX_BYTES (8u << 20)
#define SMALL_MAX_BYTES (64u << 20)
#define WEIGHTS_MAX_BYTES ((uint64_t)1 << 40)
#define URL_LEN 2048

struct item {
    char *name; /* owned */
    struct hub_digest digest;
    uint64_t size_bytes;
};

struct pull {
    const struct hub_settings *settings;
    const struct hub_watch *watch;
    const char *id, *revision;
    struct hub_http *http;
    struct hub_cache cache;
    struct hub_list list;
    struct item *item;
    uint32_t item_count;
    uint64_t got_bytes;
};

/* ---- the list */

/* A revision is one part of the path there, its '/' too. */
static int get_list(struct pull *p, struct err *err)
{
    struct buf body = {.max = LIST_MAX_BYTES}, url = BUF_INIT;
    int rc = 0;

    buf_printf(&url, "%s/api/models/%s/revision/", p->settings->endpoint, p->id);
    for (const char *at = p->revision; *at != 0; at++)
        buf_printf(&url, *at == '/' ? "%%2F" : "%c", *at);
    if (!buf_cstr(&url))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = hub_http_get(p->http, buf_cstr(&url), &body, err);
    if (rc == 0)
        rc = hub_list_parse((const char *)body.data, body.len, &p->list, err);
    buf_free(&body);
    buf_free(&url);
    return rc;
}

/* ---- one file */

static int file_url(const struct pull *p, const char *name, char out[URL_LEN], struct err *err)
{
    if (snprintf(out, URL_LEN, "%s/%s/resolve/%s/%s", p->settings->endpoint, p->id, p->list.commit,
                 name) >= URL_LEN)
        return err_set(err, ERR_USAGE, "the address of %s is too long", name);
    return 0;
}

/* Asks what a file is, and notes it as one to be fetched; the last of p->item. */
static int add_file(struct pull *p, const char *name, uint64_t max_bytes, struct err *err)
{
    struct item *more = realloc(p->item, (p->item_count + 1) * sizeof(*more));
    struct hub_head head;
    char url[URL_LEN];
    struct item *it;
    int rc;

    if (!more)
        return err_set(err, ERR_NOMEM, "out of memory");
    p->item = more;
    it = &p->item[p->item_count];
    rc = file_url(p, name, url, err);
    if (rc == 0)
        rc = hub_http_head(p->http, url, &head, err);
    if (rc != 0)
        return rc == ERR_CANCELLED ? rc : err_prefix(err, "%s", name);
    if (!hub_digest_parse(head.etag, &it->digest))
        return err_set(err, ERR_PROTOCOL,
                       "the server names no hash of %s, by which it could be checked. Try another "
                       "HF_ENDPOINT",
                       name);
    if (head.size_bytes < 0 || (uint64_t)head.size_bytes > max_bytes)
        return err_set(err, ERR_PROTOCOL,
                       "the server says that %s has %lld bytes, which cannot be. Try another "
                       "HF_ENDPOINT",
                       name, (long long)head.size_bytes);
    if (head.commit[0] != 0 && strcmp(head.commit, p->list.commit) != 0)
        return err_set(err, ERR_PROTOCOL,
                       "the server has %s of another commit than was asked for. Try again later",
                       name);
    it->size_bytes = (uint64_t)head.size_bytes;
    it->name = strdup(name);
    if (!it->name)
        return err_set(err, ERR_NOMEM, "out of memory");
    p->item_count++;
    return 0;
}

static int fetch_item(struct pull *p, const struct item *it, struct err *err)
{
    char url[URL_LEN], path[PATH_MAX];
    struct hub_file f = {.name = it->name,
                         .url = url,
                         .path = path,
                         .digest = it->digest,
                         .size_bytes = it->size_bytes};
    int lock = -1, rc = file_url(p, it->name, url, err);

    hub_cache_blob(&p->cache, &it->digest, path);
    if (rc == 0)
        rc = hub_cache_lock_blob(&p->cache, &it->digest, &lock, err);
    if (rc == 0)
        rc = hub_file_fetch(p->http, p->watch, &f, &p->got_bytes, err);
    if (lock >= 0)
        close(lock);
    return rc;
}

/* A small file that was fetched, in memory. */
static int read_item(const struct pull *p, const struct item *it, struct buf *ret, struct err *err)
{
    char path[PATH_MAX];
    uint8_t *scratch = buf_reserve(ret, (size_t)it->size_bytes + 1);
    ssize_t n;
    int fd;

    if (!scratch)
        return err_set(err, ERR_NOMEM, "no memory to read %s", it->name);
    hub_cache_blob(&p->cache, &it->digest, path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, errno, "%.200s", path);
    while ((n = read(fd, scratch + ret->len, (size_t)it->size_bytes - ret->len)) > 0)
        ret->len += (size_t)n;
    close(fd);
    return n < 0 ? err_sys(err, errno, "%.200s", path) : 0;
}

/* ---- the parts of a model */

/* config.json first: whatever no stage takes ends there. */
static int get_small(struct pull *p, struct err *err)
{
    struct buf config = BUF_INIT;
    int rc = 0;

    for (const char *const *name = hub_small_files; rc == 0 && *name; name++) {
        if (!hub_list_has(&p->list, *name))
            continue;
        rc = add_file(p, *name, SMALL_MAX_BYTES, err);
        if (rc == 0)
            rc = fetch_item(p, &p->item[p->item_count - 1], err);
        if (rc == 0 && name == hub_small_files) {
            rc = read_item(p, &p->item[0], &config, err);
            if (rc == 0)
                rc = hub_config_check((const char *)config.data, config.len, err);
        }
    }
    buf_free(&config);
    return rc;
}

static int add_shards(struct pull *p, const struct hub_weights *w, struct err *err)
{
    struct weight_layout l = {0};
    struct buf json = BUF_INIT;
    int rc = add_file(p, w->file, WEIGHT_INDEX_MAX_BYTES, err);

    if (rc == 0)
        rc = fetch_item(p, &p->item[p->item_count - 1], err);
    if (rc == 0)
        rc = read_item(p, &p->item[p->item_count - 1], &json, err);
    if (rc == 0)
        rc = weight_layout_parse((const char *)json.data, json.len,
                                 w->torch ? WEIGHT_FORMAT_TORCH : WEIGHT_FORMAT_SAFETENSORS, &l,
                                 err);
    if (rc != 0 && rc != ERR_CANCELLED && json.len > 0)
        err_prefix(err, "%s", w->file);
    for (uint32_t i = 0; rc == 0 && i < l.file_count; i++)
        rc = hub_list_has(&p->list, l.file[i])
                 ? add_file(p, l.file[i], WEIGHTS_MAX_BYTES, err)
                 : err_set(err, ERR_MODEL,
                           "%s names %.100s, which the model does not have. Try another --revision",
                           w->file, l.file[i]);
    weight_layout_free(&l);
    buf_free(&json);
    return rc;
}

static int get_weights(struct pull *p, struct err *err)
{
    const uint32_t first = p->item_count;
    struct hub_weights w;
    uint64_t need = 0;
    int rc = hub_list_choose(&p->list, &w, err);

    if (rc == 0)
        rc = w.index ? add_shards(p, &w, err) : add_file(p, w.file, WEIGHTS_MAX_BYTES, err);
    for (uint32_t i = first; rc == 0 && i < p->item_count; i++) {
        char path[PATH_MAX];

        hub_cache_blob(&p->cache, &p->item[i].digest, path);
        need +=
            hub_file_missing(&(struct hub_file){.path = path, .size_bytes = p->item[i].size_bytes});
    }
    if (rc == 0)
        rc = hub_room(p->cache.repo, need, err);
    for (uint32_t i = first; rc == 0 && i < p->item_count; i++)
        rc = fetch_item(p, &p->item[i], err);
    return rc;
}

/* In the order that is promised above; config.json is item 0. */
static int link_snapshot(struct pull *p, struct err *err)
{
    int rc = 0;

    for (uint32_t i = p->item_count; rc == 0 && i-- > 0;)
        rc = hub_cache_link(&p->cache, p->list.commit, p->item[i].name, &p->item[i].digest, err);
    if (rc == 0 && !hub_is_commit(p->revision))
        rc = hub_cache_ref(&p->cache, p->revision, p->list.commit, err);
    return rc;
}

/* ---- all of it */

static int pull_repository(struct pull *p, struct hub_pulled *ret, struct err *err)
{
    struct hub_weights w;
    char path[PATH_MAX];
    int rc = get_list(p, err);

    if (rc == 0)
        rc = hub_list_choose(&p->list, &w, err); /* before the first file is fetched */
    if (rc == 0)
        rc = hub_cache_open(p->id, &p->cache, err);
    if (rc == 0)
        rc = get_small(p, err);
    if (rc == 0)
        rc = get_weights(p, err);
    if (rc == 0)
        rc = link_snapshot(p, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof(path), "%s/snapshots/%s", p->cache.repo, p->list.commit);
    *ret = (struct hub_pulled){
        .path = strdup(path), .files = p->item_count, .fetched_bytes = p->got_bytes};
    memcpy(ret->commit, p->list.commit, sizeof(ret->commit));
    return ret->path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hub_pull(const struct hub_settings *s, const char *id, const char *revision,
             const struct hub_watch *watch, struct hub_pulled *ret, struct err *err)
{
    struct pull p = {
        .settings = s, .watch = watch, .id = id, .revision = revision, .cache = {.lock = -1}};
    char page[URL_LEN];
    const struct hub_server server = {
        .base = s->endpoint, .token = s->token, .variable = "HF_ENDPOINT", .page = page};
    int rc = hub_id_check(id, err);

    if (rc == 0)
        rc = hub_revision_check(revision, err);
    if (rc == 0)
        rc = hub_offline(s, err);
    snprintf(page, sizeof(page), "%s/%s", s->endpoint, id);
    if (rc == 0)
        rc = hub_http_open(s, watch, &server, &p.http, err);
    if (rc == 0)
        rc = pull_repository(&p, ret, err);
    hub_cache_close(&p.cache);
    hub_http_close(p.http);
    hub_list_free(&p.list);
    for (uint32_t i = 0; i < p.item_count; i++)
        free(p.item[i].name);
    free(p.item);
    return rc;
}

void hub_pulled_free(struct hub_pulled *p)
{
    free(p->path);
    *p = (struct hub_pulled){.path = NULL};
}

int hub_load(struct err *err)
{
    struct err second = {0};
    int rc = libcurl_open(err), after = libcrypto_open(rc ? &second : err);

    return rc ? rc : after;
}
