/* Any bytes as a table: refused with a sentence that can be printed, or rows of text. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/describe/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct csv *c, const char *text, size_t size)
{
    if (c->count == 0 || c->count > CSV_COLUMNS_MAX || c->row_line > c->line)
        abort();
    for (size_t i = 0; i < c->count; i++)
        if (c->columns[i] < text || c->columns[i] > text + size ||
            !utf8_valid(c->columns[i], strlen(c->columns[i])))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct csv c = {0};
    struct err err;
    int rc;

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    rc = csv_begin(&c, text, size, &err);
    while (rc == 0 && (rc = csv_next(&c, &err)) == 1) {
        check(&c, text, size);
        rc = 0;
        if (c.at >= c.end)
            break;
    }
    if (rc < 0 && (strchr(err.msg, '\n') || !utf8_valid(err.msg, strlen(err.msg))))
        abort();
    csv_free(&c);
    free(text);
    return 0;
}
