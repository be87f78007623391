#include "workers/models/files/lora.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/models/files/adapter.h"
#include "workers/models/files/weight_reader.h"

#define MAX_NAME 300

struct entry {
    char *name; /* owned: "model.encoder.layers.0.fc1.weight" */
    struct weight_delta delta;
};

struct lora {
    const struct weight_reader *reader;
    void *file; /* the reader's */
    struct entry *entry;
    size_t count;
};

static const char before[] = "base_model.model.";
static const char first[] = ".lora_A.weight", second[] = ".lora_B.weight";

static bool ends_with(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);

    return n > t && strcmp(name + n - t, tail) == 0;
}

/* A: r x in (x kernel), B: out x r (x 1): the rank lies between them. */
static int check_pair(const char *module, const struct weight *a, const struct weight *b,
                      struct err *err)
{
    bool fits = a->rank >= 2 && b->rank >= 2 && a->dim[0] == b->dim[1] && a->count && b->count;

    for (uint32_t i = 2; fits && i < b->rank; i++)
        fits = b->dim[i] == 1;
    return fits
               ? 0
               : err_set(err, ERR_MODEL,
                         "lora_A and lora_B of '%.150s' have shapes without a common rank", module);
}

/* The module of a lora_A, its other half, and their target. */
static int add_pair(struct lora *l, const struct adapter *ad, const char *name, struct err *err)
{
    struct entry *e = &l->entry[l->count];
    size_t len = strlen(name) - (sizeof(first) - 1) - (sizeof(before) - 1);
    char module[MAX_NAME], other[MAX_NAME + 64];
    int rc;

    if (len >= sizeof(module))
        return err_set(err, ERR_MODEL, "a tensor's name has over %d bytes", MAX_NAME);
    memcpy(module, name + sizeof(before) - 1, len);
    module[len] = 0;
    snprintf(other, sizeof(other), "%s%s%s", before, module, second);
    if (!l->reader->find(l->file, name, &e->delta.a) ||
        !l->reader->find(l->file, other, &e->delta.b))
        return err_set(err, ERR_MODEL, "'%.150s' has no lora_B", module);
    rc = check_pair(module, &e->delta.a, &e->delta.b, err);
    if (rc != 0)
        return rc;
    e->delta.factor = (float)adapter_factor(ad, module, (double)e->delta.a.dim[0]);
    snprintf(other, sizeof(other), "%s.weight", module);
    e->name = strdup(other);
    if (!e->name)
        return err_set(err, ERR_NOMEM, "out of memory for an adapter");
    l->count++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int read_pairs(struct lora *l, const struct adapter *ad, struct err *err)
{
    size_t n = l->reader->count(l->file), halves = 0;
    int rc = 0;

    l->entry = calloc(n + 1, sizeof(*l->entry));
    if (!l->entry)
        return err_set(err, ERR_NOMEM, "out of memory for an adapter");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *name = l->reader->name_at(l->file, i);
        bool ours = strncmp(name, before, sizeof(before) - 1) == 0 &&
                    strlen(name) > sizeof(before) - 1 + sizeof(first) - 1;

        if (ours && ends_with(name, second))
            halves++;
        else if (ours && ends_with(name, first))
            rc = add_pair(l, ad, name, err);
        else
            rc = err_set(err, ERR_MODEL,
                         "it has a tensor '%.150s', which is none of a plain LoRA: merge the "
                         "adapter into its base with PEFT's merge_and_unload",
                         name);
    }
    if (rc == 0 && !l->count)
        rc = err_set(err, ERR_MODEL, "it adapts nothing");
    if (rc == 0 && halves != l->count)
        rc = err_set(err, ERR_MODEL, "it has %zu lora_A and %zu lora_B", l->count, halves);
    if (rc == 0)
        qsort(l->entry, l->count, sizeof(*l->entry), by_name);
    return rc;
}

int lora_open(const char *dir, const struct adapter *a, struct lora **ret, struct err *err)
{
    struct lora *l = calloc(1, sizeof(*l));
    char path[PATH_MAX];
    int rc;

    if (!l)
        return err_set(err, ERR_NOMEM, "out of memory for an adapter");
    l->reader = weight_reader(a->format);
    if (snprintf(path, sizeof(path), "%s/%s", dir, a->file) >= (int)sizeof(path))
        rc = err_set(err, ERR_MODEL, "the model's path is too long");
    else
        rc = l->reader->open(path, &l->file, err);
    if (rc == 0 && (rc = read_pairs(l, a, err)) != 0) {
        err_prefix(err, "'%.200s'", path);
        utf8_display_err(err);
    }
    if (rc != 0)
        lora_close(l);
    else
        *ret = l;
    return rc;
}

void lora_close(struct lora *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->count; i++)
        free(l->entry[i].name);
    free(l->entry);
    if (l->file)
        l->reader->close(l->file);
    free(l);
}

size_t lora_count(const struct lora *l) { return l->count; }

const char *lora_name_at(const struct lora *l, size_t i) { return l->entry[i].name; }

const struct weight_delta *lora_find(const struct lora *l, const char *name)
{
    const struct entry key = {.name = (char *)name};
    const struct entry *e = bsearch(&key, l->entry, l->count, sizeof(*l->entry), by_name);

    return e ? &e->delta : NULL;
}

bool lora_fits(const struct weight_delta *d, const struct weight *w)
{
    return w->rank == d->a.rank && w->dim[0] == d->b.dim[0] &&
           memcmp(w->dim + 1, d->a.dim + 1, (w->rank - 1) * sizeof(w->dim[0])) == 0;
}
