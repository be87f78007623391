#include "tools/parts/manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "store/read/read.h"

struct stages {
    json_t *list;
    bool no_memory;
};

static int add_stage(void *arg, const struct read_progress *p)
{
    struct stages *s = arg;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "stage", p->stage, "model", p->model,
                          "model_dir", p->model_dir, "model_hash", p->model_hash, "params",
                          p->params_json, "recordings", (json_int_t)(p->pending + p->waiting));

    s->no_memory = !o || json_array_append_new(s->list, o) != 0;
    return s->no_memory;
}

static json_t *cuts_of(const struct manifest *m)
{
    json_t *ret = json_array();

    for (size_t i = 0; ret && i < m->share_count; i++) {
        const struct parting_share *s = &m->shares[i];

        if (s->cut)
            json_array_append_new(
                ret, json_pack("{s:I, s:i, s:o}", "recording", (json_int_t)s->media_id,
                               "first_shard", (int)s->first, "last_shard",
                               s->end ? json_integer((json_int_t)s->end - 1) : json_null()));
    }
    return ret;
}

static int dump(const json_t *o, const char *path, struct err *err)
{
    FILE *f = fopen(path, "we");
    bool well = f && json_dumpf(o, f, JSON_INDENT(2)) == 0 && putc('\n', f) != EOF;
    int error = errno;

    if (f && fclose(f) != 0 && well) {
        well = false;
        error = errno;
    }
    return well ? 0 : err_sys(err, error ? error : EIO, "'%s'", path);
}

int manifest_write(struct store *st, const struct manifest *m, const char *path, struct err *err)
{
    struct stages s = {json_array(), false};
    char *catalog = utf8_display(m->catalog, strlen(m->catalog));
    char origin[PARTING_ID_LEN], name[32];
    int rc = parting_origin(st, origin, err);
    json_t *o = NULL;

    if (rc == 0 && s.list)
        rc = read_progress(st, add_stage, &s, err);
    snprintf(name, sizeof(name), "part-%04u.db", m->number);
    if (rc == 0)
        o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:i, s:I, s:f, s:O, s:o}", "file", name,
                      "part_of", origin, "split", m->split, "part", (int)m->number, "parts",
                      (int)m->parts, "catalog", catalog, "schema", store_schema_version(st),
                      "recordings", (json_int_t)m->share_count, "hours",
                      (double)m->cost_ms / 3600000.0, "stages", s.list, "cut", cuts_of(m));
    if (rc == 0 && (!o || s.no_memory))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = dump(o, path, err);
    json_decref(o);
    json_decref(s.list);
    free(catalog);
    return rc;
}
