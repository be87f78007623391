#include "workers/models/files/weights_take.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weights.h"

#define MAX_RANK 4

struct weights_block {
    struct weights_block *next;
    float values[];
};

bool weights_has(const struct weights *w, const char *name)
{
    struct weight t;

    return weights_find(w, name, &t);
}

bool weights_has_layer(const struct weights *w, const char *const *formats, size_t n,
                       uint32_t layer)
{
    char name[100];

    for (size_t i = 0; i < n; i++) {
        const char *number = strstr(formats[i], "%u");

        snprintf(name, sizeof(name), "%.*s%u%s", (int)(number - formats[i]), formats[i], layer,
                 number + 2);
        if (weights_has(w, name))
            return true;
    }
    return false;
}

float *weights_pool_array(struct weights_pool *pool, uint64_t count)
{
    struct weights_block *b = NULL;

    if (count < SIZE_MAX / sizeof(float) - sizeof(*b))
        b = malloc(sizeof(*b) + (size_t)count * sizeof(float));
    if (!b)
        return NULL;
    b->next = pool->first;
    pool->first = b;
    return b->values;
}

void weights_pool_free(struct weights_pool *pool)
{
    while (pool->first) {
        struct weights_block *b = pool->first;

        pool->first = b->next;
        free(b);
    }
}

int weights_take(const struct weights *w, struct weights_pool *pool, const char *name,
                 uint32_t rank, uint32_t *dim, uint32_t most, float **ret, struct err *err)
{
    uint64_t shape[MAX_RANK] = {0}, count = 1;
    struct weight t;
    float *values;
    int rc;

    if (!weights_find(w, name, &t))
        return err_set(err, ERR_MODEL, "tensor '%.150s' is missing from the weights", name);
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t has = i < t.rank ? t.dim[i] : 1;

        if (!dim[i] && t.rank == rank && (has < 1 || has > most))
            return err_set(err, ERR_MODEL,
                           "tensor '%.150s' has a size of %llu, but 1 to %u is what is read here",
                           name, (unsigned long long)has, most);
        shape[i] = dim[i] ? dim[i] : has;
        count *= shape[i]; /* at most four sizes of 2^16 */
    }
    values = t.rank == rank && count == t.count ? weights_pool_array(pool, count) : NULL;
    if (t.rank == rank && count == t.count && !values)
        return err_set(err, ERR_NOMEM, "no memory for a model's weights");
    /* A wrong shape is an error before anything is written. */
    rc = weights_values(w, name, rank, shape, values, err);
    for (uint32_t i = 0; rc == 0 && i < rank; i++)
        dim[i] = (uint32_t)shape[i];
    if (rc == 0)
        *ret = values;
    return rc;
}
