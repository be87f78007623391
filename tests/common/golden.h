/* tests/common/golden.h - the bytes that messages have on the wire, kept in messages.tsv beside
 * this: the type of their frame, a name, the bytes in hex. A message that is meant to change has
 * its line there changed with it: the test that fails prints the new one. The fuzz targets begin
 * with these bytes (tests/fuzz/seeds.c). */
#ifndef NIGHTSHIFT_TESTS_COMMON_GOLDEN_H
#define NIGHTSHIFT_TESTS_COMMON_GOLDEN_H

#include "base/buf.h"
#include "tests/common/test.h"

static inline void golden_holds(unsigned type, const char *name, const struct buf *bytes)
{
    FILE *f = fopen(test_source_path("tests/common/messages.tsv"), "r");
    struct buf now = BUF_INIT;
    char *line = NULL;
    size_t cap = 0;
    bool same = false;

    assert_non_null(f);
    buf_printf(&now, "%u\t%s\t", type, name);
    for (size_t i = 0; i < bytes->len; i++)
        buf_printf(&now, "%02x", bytes->data[i]);
    buf_printf(&now, "\n");
    while (!same && getline(&line, &cap, f) > 0)
        same = strcmp(line, buf_cstr(&now)) == 0;
    fclose(f);
    free(line);
    if (!same)
        fail_msg("not as in messages.tsv:\n%s", buf_cstr(&now));
    buf_free(&now);
}

#endif
