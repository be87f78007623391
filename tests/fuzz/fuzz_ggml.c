/* Any bytes as a model of whisper.cpp's: refused with a sentence, or every token and every tensor
 * can be read. */
#include <stdint.h>
#include <stdlib.h>

#include "workers/models/files/formats/ggml_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ggml_token *tokens;
    struct ggml_file *g;
    struct err err;
    volatile unsigned sum = 0;
    size_t n;

    if (ggml_file_parse(data, size, &g, &err) != 0)
        return 0;
    tokens = ggml_file_tokens(g, &n);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < tokens[i].len; k++)
            sum += tokens[i].bytes[k];
    for (size_t i = 0; i < ggml_file_count(g); i++) {
        const struct weight *w = ggml_file_find(g, ggml_file_name_at(g, i));
        float *values;

        if (!w)
            abort();
        values = malloc((size_t)w->count * sizeof(*values) + 1);
        if (values)
            (void)weight_read(w, values, &err);
        free(values);
    }
    ggml_file_close(g);
    return 0;
}
