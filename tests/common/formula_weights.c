#include "tests/common/formula_weights.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED UINT64_C(20260901)

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct formula *formula_new(const char *model)
{
    struct formula *f = must(calloc(1, sizeof(*f)));

    snprintf(f->model, sizeof(f->model), "%s", model);
    return f;
}

void formula_free(struct formula *f)
{
    if (!f)
        return;
    free(f->t);
    free(f);
}

void formula_add(struct formula *f, float mul, float plus, uint32_t rank, const uint64_t *dim,
                 const char *name, ...)
{
    struct formula_tensor *t;
    va_list args;

    f->t = must(realloc(f->t, (f->count + 1) * sizeof(*f->t)));
    t = &f->t[f->count++];
    *t = (struct formula_tensor){.rank = rank, .mul = mul, .plus = plus};
    for (uint32_t i = 0; i < rank; i++)
        t->dim[i] = dim[i];
    va_start(args, name);
    vsnprintf(t->name, sizeof(t->name), name, args);
    va_end(args);
}

struct formula_tensor *formula_find(struct formula *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->t[i].name, name) == 0)
            return &f->t[i];
    return NULL;
}

uint64_t formula_size(const struct formula_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

uint64_t formula_hash(const char *model, const char *tensor)
{
    const char *parts[] = {model, ":", tensor};
    uint64_t h = UINT64_C(0xCBF29CE484222325);

    for (size_t k = 0; k < 3; k++)
        for (const char *p = parts[k]; *p; p++)
            h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001B3);
    return h;
}

float formula_uniform(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (float)(z >> 40) * 0x1p-23f - 1.0f;
}

float *formula_values(const struct formula *f, const struct formula_tensor *t)
{
    uint64_t seed = formula_hash(f->model, t->name) ^ SEED, n = formula_size(t);
    float *v = must(malloc((size_t)n * sizeof(*v) + 1));

    for (uint64_t i = 0; i < n; i++)
        v[i] = formula_uniform(seed, i) * t->mul + t->plus;
    return v;
}

/* Its length, then JSON padded with blanks to 8 bytes. */
static int write_header(FILE *out, const struct formula *f)
{
    size_t cap = f->count * 320 + 64, len = 1;
    char *json = must(malloc(cap));
    uint64_t at = 0, padded;
    int ok;

    json[0] = '{';
    for (size_t i = 0; i < f->count; i++) {
        const struct formula_tensor *t = &f->t[i];
        uint64_t bytes = formula_size(t) * sizeof(float);

        if (!t->name[0])
            continue;
        len += (size_t)snprintf(json + len, cap - len, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[",
                                len > 1 ? "," : "", t->name);
        for (uint32_t k = 0; k < t->rank; k++)
            len += (size_t)snprintf(json + len, cap - len, "%s%" PRIu64, k ? "," : "", t->dim[k]);
        len += (size_t)snprintf(json + len, cap - len,
                                "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
    }
    json[len++] = '}';
    while (len % 8)
        json[len++] = ' ';
    padded = len; /* little-endian hosts only, as the rest of the program */
    ok = fwrite(&padded, sizeof(padded), 1, out) == 1 && fwrite(json, 1, len, out) == len;
    free(json);
    return ok ? 0 : -1;
}

int formula_write(const struct formula *f, const char *path)
{
    FILE *out = fopen(path, "wb");
    int rc;

    if (!out)
        return -1;
    rc = write_header(out, f);
    for (size_t i = 0; i < f->count && rc == 0; i++) {
        size_t n = (size_t)formula_size(&f->t[i]);
        float *v;

        if (!f->t[i].name[0])
            continue;
        v = formula_values(f, &f->t[i]);
        rc = fwrite(v, sizeof(*v), n, out) == n ? 0 : -1;
        free(v);
    }
    return fclose(out) == 0 ? rc : -1;
}
