#include "tests/parity/nano/fixture.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint8_t *read_stream(FILE *f, size_t *len)
{
    uint8_t *data = NULL, *more;
    size_t cap = 0;

    *len = 0;
    for (;;) {
        if (*len == cap) {
            cap = cap ? cap * 2 : 1u << 20;
            more = realloc(data, cap);
            if (!more) {
                free(data);
                return NULL;
            }
            data = more;
        }
        size_t got = fread(data + *len, 1, cap - *len, f);
        if (got == 0)
            return data;
        *len += got;
    }
}

static uint8_t *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rbe");
    uint8_t *data = f ? read_stream(f, len) : NULL;

    if (f)
        fclose(f);
    if (!data)
        fprintf(stderr, "cannot read %s\n", path);
    return data;
}

int fixture_npy(const char *path, struct array *ret)
{
    size_t len = 0, header, a = 0, b = 0, c = 0;
    uint8_t *raw = read_file(path, &len);
    char text[256] = "", *shape;
    int fields = 0, rc = -1;

    if (!raw)
        return -1;
    if (len > 10 && memcmp(raw, "\x93NUMPY\x01", 7) == 0) {
        header = (size_t)raw[8] | (size_t)raw[9] << 8;
        memcpy(text, raw + 10, header < 255 ? header : 255);
        shape = strstr(text, "'shape': (");
        if (shape && strstr(text, "'<f4'"))
            fields = sscanf(shape, "'shape': (%zu, %zu, %zu", &a, &b, &c);
        *ret = fields == 3   ? (struct array){a * b, c, NULL}
               : fields == 2 ? (struct array){a, b, NULL}
                             : (struct array){1, a, NULL};
        if (fields > 0 && len == 10 + header + ret->rows * ret->cols * 4) {
            ret->data = malloc(len);
            if (ret->data)
                memcpy(ret->data, raw + 10 + header, len - 10 - header);
            rc = ret->data ? 0 : -1;
        }
    }
    if (rc != 0)
        fprintf(stderr, "%s is no float32 array\n", path);
    free(raw);
    return rc;
}

static int from_s16(const uint8_t *raw, size_t count, float **pcm, size_t *n)
{
    *n = count;
    *pcm = malloc(count * sizeof(float) + 1);
    for (size_t i = 0; *pcm && i < count; i++)
        (*pcm)[i] = (float)(int16_t)(uint16_t)(raw[2 * i] | raw[2 * i + 1] << 8) / 32768.0f;
    return *pcm ? 0 : -1;
}

int fixture_wav(const char *path, float **pcm, size_t *n)
{
    size_t len = 0, at = 12;
    uint8_t *raw = read_file(path, &len);
    int rc = -1;

    while (raw && at + 8 <= len) {
        size_t size = (size_t)raw[at + 4] | (size_t)raw[at + 5] << 8 | (size_t)raw[at + 6] << 16 |
                      (size_t)raw[at + 7] << 24;

        if (memcmp(raw + at, "data", 4) == 0) {
            rc = from_s16(raw + at + 8, (size < len - at - 8 ? size : len - at - 8) / 2, pcm, n);
            break;
        }
        at += 8 + size;
    }
    free(raw);
    return rc;
}

int fixture_ffmpeg(const char *path, float **pcm, size_t *n)
{
    uint8_t *raw = NULL;
    size_t len = 0;
    int out[2], status = -1, rc = -1;
    pid_t child;
    FILE *f;

    if (pipe(out) != 0)
        return -1;
    child = fork();
    if (child == 0) {
        dup2(out[1], 1);
        execlp("ffmpeg", "ffmpeg", "-nostdin", "-v", "error", "-i", path, "-f", "s16le", "-ac", "1",
               "-ar", "16000", "-", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    f = fdopen(out[0], "rb");
    if (f) {
        raw = read_stream(f, &len);
        fclose(f);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0 && raw)
        rc = from_s16(raw, len / 2, pcm, n);
    free(raw);
    return rc;
}

int fixture_ints(const char *path, const char *key, int32_t *out, size_t max)
{
    json_error_t bad;
    json_t *j = json_load_file(path, 0, &bad);
    const json_t *list = json_object_get(j, key);
    int n = list ? (int)json_array_size(list) : -1;

    if (n < 0 || (size_t)n > max) {
        fprintf(stderr, "%s: no list '%s' (%s)\n", path, key, j ? "" : bad.text);
        n = -1;
    }
    for (int i = 0; i < n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    json_decref(j);
    return n;
}
