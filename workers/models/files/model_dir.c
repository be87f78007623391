#include "workers/models/files/model_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/models/files/weight_layout.h"

/* ---- short names */

#define APACHE "Apache-2.0"
#define MIT "MIT"
#define MB 1000000ull

/* The turbo is nearly as good as the large one, and five times as fast. The sizes are those of the
 * weights that a pull takes: some are there in float32 alone. */
static const struct model_name short_names[] = {
    {"large-v3-turbo", "turbo", "openai/whisper-large-v3-turbo",
     "mobiuslabsgmbh/faster-whisper-large-v3-turbo", 1622 * MB, MIT, true},
    {"large-v3", "large", "openai/whisper-large-v3", "Systran/faster-whisper-large-v3", 3092 * MB,
     APACHE, true},
    {"large-v2", NULL, "openai/whisper-large-v2", "Systran/faster-whisper-large-v2", 6178 * MB,
     APACHE, true},
    {"medium", NULL, "openai/whisper-medium", "Systran/faster-whisper-medium", 3060 * MB, APACHE,
     true},
    {"small", NULL, "openai/whisper-small", "Systran/faster-whisper-small", 972 * MB, APACHE, true},
    {"base", NULL, "openai/whisper-base", "Systran/faster-whisper-base", 295 * MB, APACHE, true},
    {"tiny", NULL, "openai/whisper-tiny", "Systran/faster-whisper-tiny", 156 * MB, APACHE, true},
    {"large-v1", NULL, "openai/whisper-large", "Systran/faster-whisper-large-v1", 6178 * MB, APACHE,
     false},
    {"medium.en", NULL, "openai/whisper-medium.en", "Systran/faster-whisper-medium.en", 3060 * MB,
     APACHE, false},
    {"small.en", NULL, "openai/whisper-small.en", "Systran/faster-whisper-small.en", 972 * MB,
     APACHE, false},
    {"base.en", NULL, "openai/whisper-base.en", "Systran/faster-whisper-base.en", 295 * MB, APACHE,
     false},
    {"tiny.en", NULL, "openai/whisper-tiny.en", "Systran/faster-whisper-tiny.en", 156 * MB, APACHE,
     false},
    {"distil-large-v3.5", NULL, "distil-whisper/distil-large-v3.5",
     "distil-whisper/distil-large-v3.5-ct2", 1518 * MB, MIT, false},
    {"distil-large-v3", NULL, "distil-whisper/distil-large-v3",
     "Systran/faster-distil-whisper-large-v3", 1518 * MB, MIT, false},
    {"distil-large-v2", NULL, "distil-whisper/distil-large-v2",
     "Systran/faster-distil-whisper-large-v2", 1518 * MB, MIT, false},
    {"distil-medium.en", NULL, "distil-whisper/distil-medium.en",
     "Systran/faster-distil-whisper-medium.en", 794 * MB, MIT, false},
    {"distil-small.en", NULL, "distil-whisper/distil-small.en",
     "Systran/faster-distil-whisper-small.en", 338 * MB, MIT, false},
};

const struct model_name *model_name_at(uint32_t i)
{
    return i < sizeof(short_names) / sizeof(short_names[0]) ? &short_names[i] : NULL;
}

const struct model_name *model_name_find(const char *name)
{
    for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++)
        if (strcmp(short_names[i].name, name) == 0 ||
            (short_names[i].also && strcmp(short_names[i].also, name) == 0))
            return &short_names[i];
    return NULL;
}

/* ---- places */

#ifndef NIGHTSHIFT_SOURCE_MODELS
#define NIGHTSHIFT_SOURCE_MODELS "" /* set by the build to the source tree's workers/models */
#endif

#define PLACES_MAX 4

/* ---- places */

static const char *read_nonempty_env(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

/* The models directories in the order in which they are searched; a name in an earlier one hides
 * the same name in a later one. */
struct places {
    char dir[PLACES_MAX][PATH_MAX];
    size_t n;
};

static void add_place(struct places *p, const char *base, const char *tail)
{
    if (p->n < PLACES_MAX && base && base[0] &&
        snprintf(p->dir[p->n], PATH_MAX, "%s%s", base, tail) < PATH_MAX)
        p->n++;
}

static void find_user_places(struct places *p)
{
    p->n = 0;
    add_place(p, read_nonempty_env("NIGHTSHIFT_MODELS"), "");
    if (read_nonempty_env("XDG_DATA_HOME"))
        add_place(p, read_nonempty_env("XDG_DATA_HOME"), "/nightshift/models");
    else
        add_place(p, read_nonempty_env("HOME"), "/.local/share/nightshift/models");
}

static void find_places(struct places *p)
{
    char self[PATH_MAX];
    ssize_t n;

    find_user_places(p);
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    for (int up = 0; n > 0 && up < 2; up++) { /* PREFIX/bin/nightshift -> PREFIX */
        char *slash;
        self[n] = 0;
        slash = strrchr(self, '/');
        n = slash ? slash - self : 0;
        self[n] = 0;
    }
    if (n > 0)
        add_place(p, self, "/share/nightshift/models");
    add_place(p, NIGHTSHIFT_SOURCE_MODELS, "");
}

/* huggingface_hub's own rule for where its cache is. */
static bool hub_place(char out[PATH_MAX])
{
    static const struct {
        const char *name, *tail;
    } rules[] = {{"HF_HUB_CACHE", ""},
                 {"HF_HOME", "/hub"},
                 {"XDG_CACHE_HOME", "/huggingface/hub"},
                 {"HOME", "/.cache/huggingface/hub"}};

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (read_nonempty_env(rules[i].name))
            return snprintf(out, PATH_MAX, "%s%s", read_nonempty_env(rules[i].name),
                            rules[i].tail) < PATH_MAX;
    return false;
}

int model_dir_cache(char **ret, struct err *err)
{
    char path[PATH_MAX];

    if (!hub_place(path))
        return err_set(err, ERR_USAGE,
                       "neither HF_HOME nor HOME says where models go. Try HF_HOME=/a/folder");
    *ret = strdup(path);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int model_dir_own(char **ret, struct err *err)
{
    struct places places = {.n = 0};

    find_user_places(&places);
    if (!places.n)
        return err_set(err, ERR_USAGE,
                       "neither NIGHTSHIFT_MODELS nor HOME says where models go. Try "
                       "NIGHTSHIFT_MODELS=/a/folder");
    *ret = strdup(places.dir[0]);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* ---- finding */

static bool has_config(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;

    return snprintf(path, sizeof(path), "%s/config.json", dir) < (int)sizeof(path) &&
           stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* A diarization model of pyannote's says no config of ours (diarization_dir.h). */
static bool has_networks(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;

    return snprintf(path, sizeof(path), "%s/segmentation/pytorch_model.bin", dir) <
               (int)sizeof(path) &&
           stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The only file of whisper.cpp's in a folder, in place of the folder. */
static bool take_only_ggml(char path[PATH_MAX])
{
    char found[PATH_MAX] = "", file[PATH_MAX];
    DIR *d = opendir(path);
    const struct dirent *e;
    bool ret = false;

    if (!d)
        return false;
    while ((e = readdir(d))) {
        size_t n = strlen(e->d_name);

        if (e->d_name[0] == '.' || n < 4 || strcmp(e->d_name + n - 4, ".bin") != 0 ||
            snprintf(file, sizeof(file), "%s/%s", path, e->d_name) >= (int)sizeof(file) ||
            weight_layout_format(file) != WEIGHT_FORMAT_GGML)
            continue;
        ret = !found[0]; /* of two, the user is to name one */
        if (!ret)
            break;
        memcpy(found, file, sizeof(found));
    }
    closedir(d);
    if (ret)
        memcpy(path, found, sizeof(found));
    return ret;
}

/* A folder that is a model, or was meant to be one; or a file of whisper.cpp's, also by the folder
 * that it lies in alone: the path becomes the file's. */
static bool is_model(char path[PATH_MAX])
{
    enum weight_format format = weight_layout_format(path);

    return has_config(path) || has_networks(path) || format == WEIGHT_FORMAT_OPENAI ||
           format == WEIGHT_FORMAT_GGML || format == WEIGHT_FORMAT_ADAPTER || take_only_ggml(path);
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_checkpoint_file(const char *path)
{
    size_t n = strlen(path);

    return n > 3 && strcmp(path + n - 3, ".pt") == 0 && is_file(path);
}

/* Is something at `path` that was meant as a model, and is refused? why: the first such reason. */
static void keep_reason(const char *path, struct err *why)
{
    struct weight_layout l = {0};
    struct err err = {0};

    if (why->code != 0)
        return;
    if (is_checkpoint_file(path)) {
        err_set(why, ERR_MODEL,
                "'%.200s' is a file, and a model is a folder: give it one of its own, with the "
                "model's tokenizer.json, and name that",
                path);
        utf8_display_err(why);
        return;
    }
    if (is_file(path)) {
        err_set(why, ERR_MODEL,
                "'%.300s' is a file, but none of whisper.cpp's (ggml-small.bin), and other models "
                "are folders",
                path);
        utf8_display_err(why);
        return;
    }
    if (weight_layout_find(path, &l, &err) == ERR_MODEL)
        *why = err;
    weight_layout_free(&l);
}

/* One path component that leads nowhere else. */
static bool is_plain_name(const char *name, size_t len)
{
    return len && len < NAME_MAX && name[0] != '.' && !memchr(name, '/', len);
}

/* ORG/NAME */
static bool is_hub_id(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash && is_plain_name(name, (size_t)(slash - name)) &&
           is_plain_name(slash + 1, strlen(slash + 1));
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* In a Hub folder, an OpenAI checkpoint alone is no model: it lacks the files that must lie beside
 * it. */
static bool is_hub_model(char path[PATH_MAX])
{
    return has_config(path) || has_networks(path) ||
           (weight_layout_format(path) != WEIGHT_FORMAT_OPENAI && is_model(path));
}

/* The snapshot that refs/main names, else the first (by name) that holds a model. */
static bool hub_snapshot(const char *repo, char out[PATH_MAX])
{
    char path[PATH_MAX], revision[80] = "";
    struct dirent **names;
    bool found = false;
    ssize_t n;
    int fd, count;

    if (snprintf(path, sizeof(path), "%s/refs/main", repo) >= (int)sizeof(path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        n = read(fd, revision, sizeof(revision) - 1);
        revision[n > 0 ? n : 0] = 0;
        revision[strcspn(revision, "\r\n \t")] = 0;
        close(fd);
    }
    if (is_plain_name(revision, strlen(revision)) &&
        snprintf(out, PATH_MAX, "%s/snapshots/%s", repo, revision) < PATH_MAX && is_hub_model(out))
        return true;
    if (snprintf(path, sizeof(path), "%s/snapshots", repo) >= (int)sizeof(path))
        return false;
    count = scandir(path, &names, visible, by_name);
    for (int i = 0; i < count && !found; i++)
        found = snprintf(out, PATH_MAX, "%s/%s", path, names[i]->d_name) < PATH_MAX &&
                is_hub_model(out);
    if (count >= 0)
        free_names(names, count);
    return found;
}

static int resolve_model_dir(const char *dir, char **ret, struct err *err)
{
    char *path = realpath(dir, NULL);

    if (!path)
        return err_sys(err, errno, "model directory %s", dir);
    *ret = path;
    return 0;
}

#define NAMED_MAX 3

/* In a cache; repo: where it would be there, "" for no id or none that has a place. */
static bool look_hub(const char *hub, const char *id, char repo[PATH_MAX], char out[PATH_MAX])
{
    const char *slash = strchr(id, '/');

    repo[0] = 0;
    if (!is_hub_id(id) || snprintf(repo, PATH_MAX, "%s/models--%.*s--%s", hub, (int)(slash - id),
                                   id, slash + 1) >= PATH_MAX)
        return false;
    return hub_snapshot(repo, out);
}

/* In the models directories, by its plain name. */
static bool look_places(const char *name, char out[PATH_MAX], struct buf *tried, struct err *why)
{
    struct places places;

    find_places(&places);
    for (size_t i = 0; i < places.n; i++) {
        if (snprintf(out, PATH_MAX, "%s/%s", places.dir[i], name) < PATH_MAX && is_model(out))
            return true;
        buf_printf(tried, ", %s", out);
        keep_reason(out, why);
    }
    return false;
}

/* Looks for the Hub ids of a well-known name in the cache. */
static const char *look_known(const struct model_name *m, char out[PATH_MAX])
{
    const char *const ids[] = {m->hub, m->ct2};
    char hub[PATH_MAX], repo[PATH_MAX];

    for (size_t i = 0; i < 2 && hub_place(hub); i++)
        if (look_hub(hub, ids[i], repo, out))
            return ids[i];
    return NULL;
}

/* Looks for name in the places of this machine; found: its directory in out. tried: what was looked
 * at, for people; why: what was there, but cannot be used. */
static bool look_placed(const char *name, char out[PATH_MAX], struct buf *tried, struct err *why)
{
    const struct model_name *known = model_name_find(name);
    char hub[PATH_MAX], repo[PATH_MAX];

    if (is_plain_name(name, strlen(name)))
        return look_places(name, out, tried, why) ||
               (known && (look_places(known->name, out, tried, why) || look_known(known, out)));
    if (!hub_place(hub))
        return false;
    if (look_hub(hub, name, repo, out))
        return true;
    if (repo[0])
        buf_printf(tried, ", %s", repo);
    return false;
}

/* And before that as a path. */
static bool find_model_path(const char *name, char out[PATH_MAX], struct buf *tried,
                            struct err *why)
{
    if (snprintf(out, PATH_MAX, "%s", name) < PATH_MAX && is_model(out))
        return true;
    buf_printf(tried, "%s", name);
    keep_reason(name, why);
    return name[0] != '/' && name[0] != '.' && look_placed(name, out, tried, why);
}

const char *model_dir_known(const char *name)
{
    const struct model_name *m = model_name_find(name);
    struct buf tried = BUF_INIT;
    struct err why = {0};
    const char *ret = NULL;
    char dir[PATH_MAX];

    if (m)
        ret = look_places(m->name, dir, &tried, &why) ? m->name : look_known(m, dir);
    buf_free(&tried);
    return ret;
}

int model_dir_find_placed(const char *name, char **ret, struct err *err)
{
    struct buf tried = BUF_INIT;
    struct err why = {0};
    char dir[PATH_MAX];
    bool found = look_placed(name, dir, &tried, &why);

    buf_free(&tried);
    return found ? resolve_model_dir(dir, ret, err)
                 : err_set(err, ERR_MODEL, "no model '%.200s' is here", name);
}

int model_dir_find_below(const char *folder, const char *name, char **ret, struct err *err)
{
    char hub[PATH_MAX], repo[PATH_MAX], dir[PATH_MAX];

    if (snprintf(dir, sizeof(dir), "%s/%s", folder, name) < PATH_MAX && is_model(dir))
        return resolve_model_dir(dir, ret, err);
    if (look_hub(folder, name, repo, dir) ||
        (snprintf(hub, sizeof(hub), "%s/hub", folder) < PATH_MAX && look_hub(hub, name, repo, dir)))
        return resolve_model_dir(dir, ret, err);
    return err_set(err, ERR_MODEL, "%.300s has no %.100s", folder, name);
}

static bool is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The error for a folder that is no model. If it holds models, the message names the first ones. */
static int no_models_folder(const char *folder, struct err *err)
{
    struct buf models = BUF_INIT;
    struct dirent **names;
    int n = scandir(folder, &names, visible, by_name), found = 0;

    for (int i = 0; i < n && found < NAMED_MAX; i++) {
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name) < (int)sizeof(path) &&
            is_directory(path) && is_model(path))
            buf_printf(&models, "%s%.60s", found++ ? ", " : "", names[i]->d_name);
    }
    if (n >= 0)
        free_names(names, n);
    if (found > 0)
        err_set(err, ERR_MODEL, "'%.200s' is a folder of models, and no model. Try one in it: %s",
                folder, buf_cstr(&models) ? buf_cstr(&models) : "");
    else
        err_set(err, ERR_MODEL,
                "'%.300s' is no model: it has no config.json. Try a folder that has one", folder);
    buf_free(&models);
    utf8_display_err(err);
    return ERR_MODEL;
}

int model_dir_find(const char *name, char **ret, struct err *err)
{
    struct buf tried = BUF_INIT;
    struct err why = {0};
    char dir[PATH_MAX];
    int rc;

    if (!name[0])
        return err_set(err, ERR_MODEL, "no model was named; try --model=NAME");
    if (find_model_path(name, dir, &tried, &why))
        rc = resolve_model_dir(dir, ret, err);
    else if (why.code != 0)
        rc = err_set(err, ERR_MODEL, "%s", why.msg);
    else if (model_name_find(name))
        rc = err_set(err, ERR_MODEL, "no model '%s' is here; `nightshift model pull %s` fetches it",
                     name, name);
    else if (is_directory(name))
        rc = no_models_folder(name, err);
    else if (is_hub_id(name))
        rc = err_set(err, ERR_MODEL,
                     "no model '%.100s' is here; `nightshift model pull %.100s` fetches it (no "
                     "config.json in %s)",
                     name, name, buf_cstr(&tried) ? buf_cstr(&tried) : "any place");
    else
        rc = err_set(err, ERR_MODEL,
                     "no model '%s': no config.json in %s; give a directory, or set "
                     "NIGHTSHIFT_MODELS or HF_HOME",
                     name, buf_cstr(&tried) ? buf_cstr(&tried) : "any place");
    buf_free(&tried);
    return rc;
}

/* The models directories' own of this name. */
static bool look_file(const char *name, const char *file, char out[PATH_MAX], struct buf *tried)
{
    struct places places;

    if (!is_plain_name(name, strlen(name)))
        return false;
    find_places(&places);
    for (size_t i = 0; i < places.n; i++) {
        if (snprintf(out, PATH_MAX, "%s/%s/%s", places.dir[i], name, file) < PATH_MAX &&
            is_file(out))
            return true;
        buf_printf(tried, "%s%s/%s", tried->len ? ", " : "", places.dir[i], name);
    }
    return false;
}

static bool look_path(const char *path, const char *file, char out[PATH_MAX], struct buf *tried)
{
    if (snprintf(out, PATH_MAX, "%s", path) < PATH_MAX && is_file(out))
        return true;
    buf_printf(tried, "%s", path);
    return snprintf(out, PATH_MAX, "%s/%s", path, file) < PATH_MAX && is_file(out);
}

int model_dir_find_file(const char *name, const char *file, bool here, char **ret, struct err *err)
{
    struct buf tried = BUF_INIT;
    char path[PATH_MAX];
    int rc;

    if (!name[0])
        rc = err_set(err, ERR_MODEL, "no model was named");
    else if ((here && look_path(name, file, path, &tried)) || look_file(name, file, path, &tried))
        rc = resolve_model_dir(path, ret, err);
    else
        rc = err_set(err, ERR_MODEL, "no model '%s': no %s in %s", name, file,
                     buf_cstr(&tried) ? buf_cstr(&tried) : "any place");
    buf_free(&tried);
    return rc;
}

/* ---- listing */

struct lister {
    void (*fn)(void *arg, const char *name, const char *dir);
    void *arg;
    struct buf seen; /* names told already, each with its NUL */
};

static void list_model_once(struct lister *l, const char *name, const char *dir)
{
    for (size_t i = 0; i < l->seen.len; i += strlen((char *)l->seen.data + i) + 1)
        if (strcmp((char *)l->seen.data + i, name) == 0)
            return;
    buf_put(&l->seen, name, strlen(name) + 1);
    l->fn(l->arg, name, dir);
}

static void list_place(struct lister *l, const char *place)
{
    struct dirent **names;
    char dir[PATH_MAX];
    int n = scandir(place, &names, visible, by_name);

    for (int i = 0; i < n; i++)
        if (snprintf(dir, sizeof(dir), "%s/%s", place, names[i]->d_name) < (int)sizeof(dir) &&
            is_model(dir))
            list_model_once(l, names[i]->d_name, dir);
    if (n >= 0)
        free_names(names, n);
}

static void list_hub(struct lister *l, const char *hub)
{
    struct dirent **names;
    char repo[PATH_MAX], dir[PATH_MAX], id[NAME_MAX + 1];
    int n = scandir(hub, &names, visible, by_name);

    for (int i = 0; i < n; i++) {
        const char *at = names[i]->d_name, *sep;

        if (strncmp(at, "models--", 8) != 0)
            continue;
        at += 8;
        sep = strstr(at, "--");
        if (sep)
            snprintf(id, sizeof(id), "%.*s/%s", (int)(sep - at), at, sep + 2);
        else
            snprintf(id, sizeof(id), "%s", at);
        if (snprintf(repo, sizeof(repo), "%s/%s", hub, names[i]->d_name) < (int)sizeof(repo) &&
            hub_snapshot(repo, dir))
            list_model_once(l, id, dir);
    }
    if (n >= 0)
        free_names(names, n);
}

int model_dir_list(void (*fn)(void *arg, const char *name, const char *dir), void *arg,
                   struct err *err)
{
    struct lister l = {.fn = fn, .arg = arg};
    struct places places;
    char hub[PATH_MAX];
    int rc = 0;

    find_places(&places);
    for (size_t i = 0; i < places.n; i++)
        list_place(&l, places.dir[i]);
    if (hub_place(hub))
        list_hub(&l, hub);
    if (l.seen.failed)
        rc = err_set(err, ERR_NOMEM, "no memory to list the models");
    buf_free(&l.seen);
    return rc;
}
