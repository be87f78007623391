#include "tools/search/search_query.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/clap/clap.h"
#include "workers/models/bert/embedder.h"
#include "workers/stages/stage_kind.h"

static int make_room(uint32_t size, struct search_vector *ret, struct err *err)
{
    ret->size = size;
    ret->least = -1;
    ret->values = calloc(size, sizeof(*ret->values));
    return ret->values ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* How alike two texts are that have nothing to do with each other depends on the model: hardly at
 * all for MiniLM, and much for E5, whose vectors lie close together. So what is typed is compared
 * with these, and a hit must stand out, by this share of what is left to 1. With all-MiniLM-L6-v2
 * passages that answered a question had 0.26 to 0.51, and those that had nothing to do with it 0.2
 * at most; this parts them. Other models were not tried. */
#define STANDS_OUT 0.25
static const char *const contrasts[] = {
    "The committee adopted the minutes of the previous meeting without a vote.",
    "Press the red button twice, then wait until the lamp goes out.",
    "Her brother bought seven apples and a pair of green shoes.",
    "The bridge was closed to traffic because of repairs to the railing.",
    "In the second half the visitors scored three goals."};
#define CONTRASTS (sizeof(contrasts) / sizeof(contrasts[0]))

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* By the median: one of them may happen to be of what is asked. */
static int find_least(struct embedder *e, struct search_vector *v, struct err *err)
{
    float *others = calloc(CONTRASTS * (size_t)v->size, sizeof(*others));
    double likeness[CONTRASTS] = {0};
    int rc = others ? embedder_run(e, contrasts, CONTRASTS, EMBED_PASSAGE, others, err)
                    : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t k = 0; rc == 0 && k < CONTRASTS; k++)
        for (uint32_t i = 0; i < v->size; i++)
            likeness[k] += (double)v->values[i] * others[k * v->size + i];
    free(others);
    qsort(likeness, CONTRASTS, sizeof(*likeness), by_number);
    v->least = likeness[CONTRASTS / 2] + STANDS_OUT * (1 - likeness[CONTRASTS / 2]);
    return rc;
}

static int by_meaning(const char *dir, struct backend *be, const char *text,
                      struct search_vector *ret, struct err *err)
{
    struct embedder *e = NULL;
    int rc = embedder_load(dir, be, PRECISION_AUTO, &e, err);

    if (rc == 0)
        rc = make_room(embedder_size(e), ret, err);
    if (rc == 0)
        rc = embedder_run(e, &text, 1, EMBED_QUERY, ret->values, err);
    if (rc == 0)
        rc = find_least(e, ret, err);
    embedder_free(e);
    return rc;
}

static int by_sound(const char *dir, struct backend *be, const char *text,
                    struct search_vector *ret, struct err *err)
{
    struct clap *c = NULL;
    int rc = clap_load(dir, be, PRECISION_AUTO, CLAP_TEXT, 1, &c, err);

    if (rc == 0)
        rc = make_room(clap_size(c), ret, err);
    if (rc == 0)
        rc = clap_run_text(c, &text, 1, ret->values, err);
    clap_free(c);
    return rc;
}

/* Vectors of another model mean nothing beside the catalog's. */
static int check_model(const struct store_stage_row *stage, struct err *err)
{
    char hash[33];
    int rc = stage_model_hash(stage->name, stage->model_dir, hash, err);

    if (rc == 0 && strcmp(hash, stage->model_hash) != 0)
        rc = err_set(err, ERR_MODEL,
                     "'%.200s' is not the model any more that the catalog's vectors are of",
                     stage->model_dir);
    return rc;
}

int search_vector(const struct store_stage_row *stage, const char *text, struct search_vector *ret,
                  struct err *err)
{
    struct search_vector v = {0};
    struct backend *be = NULL;
    int rc = check_model(stage, err);

    if (rc == 0)
        rc = backend_open_host(1, &be, err);
    if (rc == 0)
        rc = (strcmp(stage->name, stage_embed_text.name) == 0 ? by_meaning : by_sound)(
            stage->model_dir, be, text, &v, err);
    backend_close(be);
    if (rc != 0) {
        free(v.values);
        return rc;
    }
    *ret = v;
    return 0;
}
