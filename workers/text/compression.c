#include "workers/text/compression.h"

#include <stdlib.h>
#include <zlib.h>

int compression_ratio(const char *text, size_t len, float *ret, struct err *err)
{
    uLongf packed = compressBound((uLong)len);
    Bytef *out;
    int rc;

    if (!len) {
        *ret = 0;
        return 0;
    }
    out = malloc(packed);
    if (!out)
        return err_set(err, ERR_NOMEM, "no memory to measure a text's repetitions");
    rc = compress(out, &packed, (const Bytef *)text, (uLong)len);
    free(out);
    if (rc != Z_OK)
        return err_set(err, ERR_NOMEM, "zlib cannot compress %zu bytes of text (%d)", len, rc);
    *ret = (float)((double)len / (double)packed);
    return 0;
}
