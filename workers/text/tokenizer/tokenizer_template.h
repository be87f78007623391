/* workers/text/tokenizer/tokenizer_template.h - the special tokens that stand around a text ([CLS],
 * </s>). Private to the tokenizer. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_TEMPLATE_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_TEMPLATE_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

#define TOKENIZER_MAX_AROUND 8

struct tokenizer_template {
    int32_t before[TOKENIZER_MAX_AROUND], after[TOKENIZER_MAX_AROUND];
    uint32_t before_count, after_count;
    int32_t size; /* highest id + 1 */
};

/* From "post_processor", which may be NULL or null (there are none): how it treats one text. Every
 * token must be of type 0. ret is zeroed. ERR_MODEL. */
int tokenizer_template_read(const json_t *json, struct tokenizer_template *ret, struct err *err);

#endif
