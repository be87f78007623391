#include "workers/models/files/npy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 4096u

struct header {
    bool wide, columns_first; /* float64; Fortran's order */
    struct npy shape;
};

/* The text behind "'key':" in the header, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);

    if (!at)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " ");
}

static bool parse_shape(const char *at, struct npy *ret)
{
    *ret = (struct npy){0, {1, 1}};
    if (*at++ != '(')
        return false;
    for (;;) {
        unsigned long n;
        char *end;

        at += strspn(at, " ");
        if (*at == ')')
            return ret->rank > 0;
        if (*at < '0' || *at > '9' || ret->rank == 2)
            return false;
        n = strtoul(at, &end, 10);
        if (n < 1 || n > NPY_MAX_DIM)
            return false;
        ret->dim[ret->rank++] = (uint32_t)n;
        at = end + strspn(end, " ");
        if (*at == ',')
            at++;
        else if (*at != ')')
            return false;
    }
}

static bool parse_header(const char *text, struct header *ret)
{
    const char *type = value_of(text, "'descr':"), *order = value_of(text, "'fortran_order':");
    const char *shape = value_of(text, "'shape':");

    if (!type || !order || !shape || !parse_shape(shape, &ret->shape))
        return false;
    ret->wide = strncmp(type, "'<f8'", 5) == 0;
    ret->columns_first = strncmp(order, "True", 4) == 0;
    return ret->wide || strncmp(type, "'<f4'", 5) == 0;
}

/* The header as text, and where the values begin; 0: no .npy file. */
static size_t find_header(const uint8_t *data, size_t len, char text[HEADER_MAX + 1])
{
    size_t from, size;

    if (len < 12 || memcmp(data, "\x93NUMPY", 6) != 0 || data[6] < 1 || data[6] > 2)
        return 0;
    from = data[6] == 1 ? 10 : 12;
    size = (size_t)data[8] | (size_t)data[9] << 8;
    if (data[6] == 2)
        size |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (size > HEADER_MAX || size > len - from)
        return 0;
    memcpy(text, data + from, size);
    text[size] = 0;
    return from + size;
}

static double value_at(const uint8_t *data, const struct header *h, size_t i)
{
    float narrow;
    double wide;

    if (h->wide) {
        memcpy(&wide, data + i * 8, 8);
        return wide;
    }
    memcpy(&narrow, data + i * 4, 4);
    return (double)narrow;
}

int npy_read(const uint8_t *data, size_t len, struct npy *ret, double **values, struct err *err)
{
    char text[HEADER_MAX + 1];
    size_t from = find_header(data, len, text), count;
    struct header h;
    double *out;

    if (from == 0 || !parse_header(text, &h))
        return err_set(err, ERR_MODEL, "it is no array of numbers that can be read");
    count = (size_t)h.shape.dim[0] * h.shape.dim[1];
    if (len - from != count * (h.wide ? 8 : 4))
        return err_set(err, ERR_MODEL, "%zu bytes are not %u x %u numbers", len - from,
                       h.shape.dim[0], h.shape.dim[1]);
    out = malloc(count * sizeof(*out));
    if (!out)
        return err_set(err, ERR_NOMEM, "no memory for %zu numbers", count);
    for (uint32_t r = 0; r < h.shape.dim[0]; r++)
        for (uint32_t c = 0; c < h.shape.dim[1]; c++)
            out[(size_t)r * h.shape.dim[1] + c] = value_at(
                data + from, &h,
                h.columns_first ? (size_t)c * h.shape.dim[0] + r : (size_t)r * h.shape.dim[1] + c);
    *ret = h.shape;
    *values = out;
    return 0;
}
