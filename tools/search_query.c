#include "tools/search_query.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/clap.h"
#include "workers/models/embedder.h"
#include "workers/stages/stage.h"

static int make_room(uint32_t size, struct search_vector *ret, struct err *err)
{
    ret->size = size;
    ret->values = calloc(size, sizeof(*ret->values));
    return ret->values != NULL ? 0 : err_set(err, ERR_NOMEM, "out of memory");
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
        rc = backend_open_host(0, &be, err);
    if (rc == 0)
        rc = (strcmp(stage->name, "embed-text") == 0 ? by_meaning : by_sound)(stage->model_dir, be,
                                                                              text, &v, err);
    backend_close(be);
    if (rc != 0) {
        free(v.values);
        return rc;
    }
    *ret = v;
    return 0;
}
