/* Any bytes as CTranslate2's model.bin: refused with a sentence, or every variable that is offered
 * can be read. */
#include <stdint.h>
#include <stdlib.h>

#include "workers/models/files/formats/ct2_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ct2_file *c;
    struct err err;

    if (ct2_file_parse(data, size, &c, &err) != 0)
        return 0;
    for (size_t i = 0; i < ct2_file_count(c); i++) {
        struct weight w;
        float *values;
        int64_t number;

        if (!ct2_file_find(c, ct2_file_name_at(c, i), &w))
            abort();
        values = malloc((size_t)w.count * sizeof(*values) + 1);
        if (values)
            (void)weight_read(&w, values, &err);
        free(values);
        (void)ct2_file_number(c, w.name, &number);
        if (w.rank && w.dim[0] && w.type != WEIGHT_OTHER) { /* as a part of fused variables */
            weight_rows(&w, w.dim[0] - 1, 1, &w);
            values = malloc((size_t)w.count * sizeof(*values) + 1);
            if (values)
                (void)weight_read(&w, values, &err);
            free(values);
        }
    }
    (void)ct2_whisper_check(c, &err);
    ct2_file_close(c);
    return 0;
}
