#include "workers/models/pyannote/diarization_dir.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "workers/text/json_file.h"

#define MODEL_TYPE "nightshift-diarization"
#define MAX_CLUSTER_SIZE 1000

/* The published pipelines: speaker-diarization-3.1 and community-1. */
static const struct diarization_dir by_ahc = {
    .threshold = 0.7045654963945799f, .fa = 0.07f, .fb = 0.8f, .min_cluster_size = 12};
static const struct diarization_dir by_vbx = {
    .vbx = true, .threshold = 0.6f, .fa = 0.07f, .fb = 0.8f, .min_cluster_size = 12};

/* Whether it is there at all: a folder is said to be one when it is read. */
static bool is_there(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat info;

    return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
           stat(path, &info) == 0;
}

static int set_path(const char *dir, const char *name, char **ret, struct err *err)
{
    size_t size = strlen(dir) + strlen(name) + 2;

    *ret = malloc(size);
    if (!*ret)
        return err_set(err, ERR_NOMEM, "no memory for a model's files");
    snprintf(*ret, size, "%s/%s", dir, name);
    return 0;
}

/* One that must be there, in either of two forms: the first that is, in that order. */
static int find_file(const char *dir, const char *first, const char *second, char **ret,
                     struct err *err)
{
    if (is_there(dir, first))
        return set_path(dir, first, ret, err);
    if (is_there(dir, second))
        return set_path(dir, second, ret, err);
    return err_set(err, ERR_MODEL, "'%.200s' is no diarization model: %s is missing, and so is %s",
                   dir, first, second);
}

/* Each network in the form in which it is there: a folder may hold one of ours and one of
 * pyannote's. */
static int find_networks(const char *dir, bool ours, struct diarization_dir *ret, struct err *err)
{
    static const char *const segmentation[] = {"segmentation.safetensors",
                                               "segmentation/pytorch_model.bin"};
    static const char *const embedding[] = {"embedding.safetensors", "embedding/pytorch_model.bin"};
    int rc = find_file(dir, segmentation[!ours], segmentation[ours], &ret->segmentation, err);

    return rc != 0 ? rc : find_file(dir, embedding[!ours], embedding[ours], &ret->embedding, err);
}

/* pyannote's two archives. */
static int find_archives(const char *dir, char **ret, struct err *err)
{
    static const char *const names[] = {"plda/plda.npz", "plda/xvec_transform.npz"};

    for (int i = 0; i < 2; i++)
        if (!is_there(dir, names[i]))
            return err_set(err, ERR_MODEL, "'%.200s' is no diarization model: %s is missing", dir,
                           names[i]);
    return set_path(dir, "plda", ret, err);
}

static bool has_archives(const char *dir)
{
    return is_there(dir, "plda/plda.npz") || is_there(dir, "plda/xvec_transform.npz");
}

/* pyannote's: community-1 brings its PLDA along, 3.1 knows none. */
static int open_pyannote(const char *dir, struct diarization_dir *ret, struct err *err)
{
    bool vbx = has_archives(dir);
    int rc;

    *ret = vbx ? by_vbx : by_ahc;
    rc = find_networks(dir, false, ret, err);
    return rc == 0 && vbx ? find_archives(dir, &ret->plda, err) : rc;
}

/* ---- ours */

/* A number above 0, where it is there. */
static int read_number(const json_t *config, const char *key, double most, float *ret,
                       struct err *err)
{
    const json_t *v = json_object_get(config, key);

    if (!v)
        return 0;
    if (!json_is_number(v) || !(json_number_value(v) > 0.0) || json_number_value(v) > most)
        return err_set(err, ERR_MODEL, "config.json: %s is no number above 0 and up to %g", key,
                       most);
    *ret = (float)json_number_value(v);
    return 0;
}

static int read_clustering(const json_t *config, struct diarization_dir *ret, struct err *err)
{
    const json_t *v = json_object_get(config, "clustering");
    const char *name = json_string_value(v);

    if (v && (!name || (strcmp(name, "ahc") != 0 && strcmp(name, "vbx") != 0)))
        return err_set(err, ERR_MODEL, "config.json: clustering is neither \"ahc\" nor \"vbx\"");
    *ret = name && strcmp(name, "vbx") == 0 ? by_vbx : by_ahc;
    return 0;
}

static int read_config(const json_t *config, struct diarization_dir *ret, struct err *err)
{
    const json_t *v = json_object_get(config, "min_cluster_size");
    int rc = read_clustering(config, ret, err);

    if (rc == 0) /* unit vectors are at most 2 apart */
        rc = read_number(config, "threshold", 2.0, &ret->threshold, err);
    if (rc == 0)
        rc = read_number(config, "fa", 100.0, &ret->fa, err);
    if (rc == 0)
        rc = read_number(config, "fb", 100.0, &ret->fb, err);
    if (rc != 0 || !v)
        return rc;
    if (!json_is_integer(v) || json_integer_value(v) < 1 ||
        json_integer_value(v) > MAX_CLUSTER_SIZE)
        return err_set(err, ERR_MODEL, "config.json: min_cluster_size is no number from 1 to %d",
                       MAX_CLUSTER_SIZE);
    ret->min_cluster_size = (unsigned)json_integer_value(v);
    return 0;
}

static int open_ours(const char *dir, struct diarization_dir *ret, struct err *err)
{
    json_t *config = NULL;
    const char *type;
    int rc = json_file_read(dir, "config.json", &config, err);

    if (rc != 0)
        return rc;
    type = json_string_value(json_object_get(config, "model_type"));
    if (!type || strcmp(type, MODEL_TYPE) != 0)
        rc = err_set(err, ERR_MODEL,
                     "config.json is of another kind of model, not of '" MODEL_TYPE "'");
    else
        rc = read_config(config, ret, err);
    json_decref(config);
    if (rc != 0)
        return err_prefix(err, "'%.200s'", dir);
    rc = find_networks(dir, true, ret, err);
    if (rc != 0 || !ret->vbx)
        return rc;
    if (!is_there(dir, "plda.safetensors") && has_archives(dir))
        return find_archives(dir, &ret->plda, err);
    return find_file(dir, "plda.safetensors", "plda/plda.npz", &ret->plda, err);
}

int diarization_dir_open(const char *dir, struct diarization_dir *ret, struct err *err)
{
    struct diarization_dir d = {0};
    int rc = is_there(dir, "config.json") ? open_ours(dir, &d, err) : open_pyannote(dir, &d, err);

    if (rc == ERR_MISSING || rc == ERR_DENIED) /* of a model, that is no file to be skipped */
        rc = err->code = ERR_MODEL;
    if (rc != 0)
        diarization_dir_free(&d);
    else
        *ret = d;
    return rc;
}

void diarization_dir_free(struct diarization_dir *d)
{
    free(d->segmentation);
    free(d->embedding);
    free(d->plda);
    *d = (struct diarization_dir){0};
}
