/* tests/common/files.h - whole files, written and read; each ends the test when it cannot. */
#ifndef NIGHTSHIFT_TESTS_COMMON_FILES_H
#define NIGHTSHIFT_TESTS_COMMON_FILES_H

#include "tests/common/test.h"

static inline void file_write(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static inline void file_text(const char *path, const char *text)
{
    file_write(path, text, strlen(text));
}

/* Its bytes with a NUL behind them; free() them. len: or NULL. */
static inline char *file_read(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    size_t n = 0, room = 0;
    char *data = NULL;

    assert_non_null(f);
    do {
        room = 2 * room + 65536;
        data = realloc(data, room + 1);
        assert_non_null(data);
        n += fread(data + n, 1, room - n, f);
    } while (n == room);
    assert_false(ferror(f));
    fclose(f);
    data[n] = 0;
    if (len)
        *len = n;
    return data;
}

static inline void file_copy(const char *from, const char *to)
{
    size_t len;
    char *data = file_read(from, &len);

    file_write(to, data, len);
    free(data);
}

/* A fixture of exactly n float32; free() them. rel: from the source tree's root. */
__attribute__((format(printf, 2, 3))) static inline float *file_floats(size_t n, const char *rel,
                                                                       ...)
{
    char path[256];
    va_list args;
    size_t len;
    char *data;

    va_start(args, rel);
    vsnprintf(path, sizeof(path), rel, args);
    va_end(args);
    data = file_read(test_source_path(path), &len);
    assert_int_equal(len, n * sizeof(float));
    return (float *)(void *)data;
}

#endif
