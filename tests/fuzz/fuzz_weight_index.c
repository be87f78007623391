/* Any bytes as an index of sharded weights: refused with a sentence that can be printed, or a list
 * of plain file names in which every tensor has its place. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/models/files/weight_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct weight_layout *l)
{
    for (uint32_t i = 0; i < l->file_count; i++)
        if (l->file[i][0] == '.' || strchr(l->file[i], '/') ||
            (i > 0 && strcmp(l->file[i - 1], l->file[i]) >= 0))
            abort();
    for (uint32_t i = 0; i < l->place_count; i++)
        if (weight_layout_place(l, l->place[i].tensor) != &l->place[i] ||
            l->place[i].file >= l->file_count)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int torch = 0; torch < 2; torch++) {
        struct weight_layout l;
        struct err err;

        if (weight_layout_parse((const char *)data, size,
                                torch ? WEIGHT_FORMAT_TORCH : WEIGHT_FORMAT_SAFETENSORS, &l,
                                &err) == 0) {
            check(&l);
            weight_layout_free(&l);
        } else if (strchr(err.msg, '\n') || !utf8_valid(err.msg, strlen(err.msg))) {
            abort();
        }
    }
    return 0;
}
