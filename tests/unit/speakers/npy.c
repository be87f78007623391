#include "tests/unit/speakers/npy.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *read_all(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rbe");
    unsigned char *data = NULL;
    long size = -1;

    if (f && fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    if (size >= 0 && fseek(f, 0, SEEK_SET) == 0)
        data = malloc((size_t)size + 1);
    if (data && fread(data, 1, (size_t)size, f) != (size_t)size) {
        free(data);
        data = NULL;
    }
    if (f)
        fclose(f);
    *len = data ? (size_t)size : 0;
    return data;
}

static int parse_shape(const char *header, struct npy *ret)
{
    const char *at = strstr(header, "'shape': (");

    if (!at)
        return -1;
    ret->rank = 0;
    ret->count = 1;
    for (at += 10; *at != ')' && *at != 0 && ret->rank < 4;) {
        char *end;
        size_t n = strtoul(at, &end, 10);

        if (end == at)
            return -1;
        ret->dim[ret->rank++] = n;
        ret->count *= n;
        for (at = end; *at == ',' || *at == ' ';)
            at++;
    }
    return *at == ')' ? 0 : -1;
}

static double value(const unsigned char *at, char kind, unsigned bytes)
{
    float f;
    double d;
    int64_t i;

    if (kind == 'f' && bytes == 4) {
        memcpy(&f, at, 4);
        return (double)f;
    }
    if (kind == 'f') {
        memcpy(&d, at, 8);
        return d;
    }
    if (kind == 'i' && bytes == 8) {
        memcpy(&i, at, 8);
        return (double)i;
    }
    return kind == 'i' ? (double)(signed char)*at : (double)*at;
}

/* Where element i of C order lies in a file of Fortran's. */
static size_t fortran(const struct npy *a, size_t i)
{
    size_t at = 0, stride = 1, index[4];

    for (unsigned k = a->rank; k-- > 0; i /= a->dim[k])
        index[k] = i % a->dim[k];
    for (unsigned k = 0; k < a->rank; k++) {
        at += index[k] * stride;
        stride *= a->dim[k];
    }
    return at;
}

static int take(const unsigned char *raw, size_t len, struct npy *ret)
{
    size_t header_len = len > 10 ? (size_t)raw[8] | (size_t)raw[9] << 8 : 0;
    char header[512] = "", kind, *descr;
    unsigned bytes;

    if (len < 10 || memcmp(raw, "\x93NUMPY\x01", 7) != 0 || header_len >= sizeof(header) ||
        len < 10 + header_len)
        return -1;
    memcpy(header, raw + 10, header_len);
    descr = strstr(header, "'descr': '");
    if (!descr || sscanf(descr + 11, "%c%u", &kind, &bytes) != 2 || parse_shape(header, ret) != 0 ||
        len != 10 + header_len + ret->count * bytes)
        return -1;
    ret->data = malloc(ret->count * sizeof(double) + 1);
    for (size_t i = 0; ret->data && i < ret->count; i++) {
        size_t at = strstr(header, "'fortran_order': True") ? fortran(ret, i) : i;

        ret->data[i] = value(raw + 10 + header_len + at * bytes, kind, bytes);
    }
    return ret->data ? 0 : -1;
}

int npy_read(const char *path, struct npy *ret)
{
    size_t len;
    unsigned char *raw = read_all(path, &len);
    int rc = raw ? take(raw, len, ret) : -1;

    if (rc != 0)
        fprintf(stderr, "%s is no array that can be read\n", path);
    free(raw);
    return rc;
}
