/* Any bytes as a checkpoint, or as the pickle within one: refused with a sentence, or every tensor
 * that is offered can be read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/files/formats/checkpoint.h"
#include "workers/models/files/formats/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever a value refers to is there. Its parts are not walked into: it may contain itself. */
static void look_at(const struct pickle *p, const struct pickle_value *v)
{
    uint64_t sum = 0;

    if (v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE || v->kind == PICKLE_DICT)
        for (uint32_t i = 0; i < v->u.list.n; i++)
            sum += (uint64_t)pickle_at(p, v->u.list.item[i])->kind;
    else if (v->kind == PICKLE_TENSOR)
        sum = pickle_at(p, v->u.tensor->storage)->u.storage.count;
    else if (v->kind == PICKLE_TEXT && v->u.text.len)
        sum = (uint8_t)v->u.text.at[0] + (uint8_t)v->u.text.at[v->u.text.len - 1];
    if (v->kind == PICKLE_DICT && v->u.list.n % 2)
        abort();
    if (sum == UINT64_MAX - 1)
        abort(); /* never; so that nothing of the above is left out */
}

static void read_tensors(const struct checkpoint *c)
{
    struct err err;

    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const struct weight *w = checkpoint_at(c, i);
        float *values = malloc((size_t)w->count * sizeof(*values) + 1);

        if (values)
            (void)weight_read(w, values, &err);
        free(values);
        if (checkpoint_find(c, w->name) != w)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct checkpoint *c;
    struct pickle *p;
    struct err err;
    uint32_t n;

    if (size > 1 && memcmp(data, "PK", 2) == 0) {
        if (checkpoint_parse(data, size, &c, &err) == 0) {
            read_tensors(c);
            (void)checkpoint_dim(c, "n_mels", 256, &n, &err);
            checkpoint_close(c);
        }
        if (checkpoint_parse_training(data, size, &c, &err) == 0) {
            read_tensors(c);
            checkpoint_close(c);
        }
        return 0;
    }
    if (pickle_parse_skipping(data, size, &p, &err) == 0) {
        look_at(p, pickle_root(p));
        pickle_free(p);
    }
    if (pickle_parse(data, size, &p, &err) == 0) {
        look_at(p, pickle_root(p));
        if (pickle_get(p, pickle_root(p), "a"))
            look_at(p, pickle_get(p, pickle_root(p), "a"));
        pickle_free(p);
    }
    return 0;
}
