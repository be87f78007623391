/* Any bytes as a weight file: refused with a sentence, or every tensor is readable. */
#include <stdint.h>
#include <stdlib.h>

#include "gpu/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *st;
    struct err err;

    if (safetensors_parse(data, size, &st, &err) != 0)
        return 0;
    for (size_t i = 0; i < safetensors_count(st); i++) {
        const struct safetensor *t = safetensors_at(st, i);
        float *values = malloc((size_t)t->count * sizeof(*values) + 1);

        if (values)
            (void)safetensor_read(t, values, &err);
        free(values);
        if (safetensors_find(st, t->name) != t)
            abort();
    }
    safetensors_close(st);
    return 0;
}
