/* The arrays of a PLDA in every form that they come in, and how much of its space is kept. */
#include "tests/common/test.h"

#include <math.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/common/files.h"
#include "tests/common/zip_writer.h"
#include "workers/models/pyannote/plda_file.h"

#define MAX_SIZE 140
#define MAX_LDA 132

struct numbers {
    const char *name;
    uint32_t rows, cols; /* rows 0: a vector */
    float values[MAX_SIZE * MAX_LDA];
};

static struct numbers arrays[] = {{.name = "mean1"}, {.name = "mean2"}, {.name = "lda"},
                                  {.name = "mu"},    {.name = "tr"},    {.name = "psi"}};

static uint32_t count_of(const struct numbers *a) { return (a->rows ? a->rows : 1) * a->cols; }

/* An invertible transform, and spreads above 0. */
static void fill(uint32_t size, uint32_t lda)
{
    for (int i = 0; i < 6; i++) {
        arrays[i].rows = i == 2 ? size : i == 4 ? lda : 0;
        arrays[i].cols = i == 0 ? size : lda;
        for (uint32_t k = 0; k < count_of(&arrays[i]); k++)
            arrays[i].values[k] = 0.1f / (float)lda * sinf((float)(i * 31 + (int)k * 3));
    }
    for (uint32_t i = 0; i < lda; i++) {
        arrays[2].values[i * lda + i] += 1;
        arrays[4].values[i * lda + i] += 1;
        arrays[5].values[i] = 0.5f + (float)i;
    }
}

static void put_file(const char *dir, const char *name, const struct buf *b)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_false(b->failed);
    file_write(path, b->data, b->len);
}

static void put_npy(struct buf *b, const struct numbers *a, bool wide, bool by_columns)
{
    char shape[40], header[200];
    uint32_t rows = a->rows ? a->rows : 1;

    if (a->rows)
        snprintf(shape, sizeof(shape), "(%u, %u)", a->rows, a->cols);
    else
        snprintf(shape, sizeof(shape), "(%u,)", a->cols);
    snprintf(header, sizeof(header), "{'descr': '<f%d', 'fortran_order': %s, 'shape': %s, }\n",
             wide ? 8 : 4, by_columns ? "True" : "False", shape);
    buf_put(b, "\x93NUMPY\1\0", 8);
    buf_put_u16(b, (uint16_t)strlen(header));
    buf_put(b, header, strlen(header));
    for (uint32_t i = 0; i < rows * a->cols; i++) {
        float v = a->values[by_columns ? i % rows * a->cols + i / rows : i];
        double d = (double)v;

        buf_put(b, wide ? (void *)&d : (void *)&v, wide ? 8 : 4);
    }
}

static void put_npz(const char *dir, const char *file, const struct numbers *a, bool wide,
                    bool by_columns)
{
    struct buf b = BUF_INIT, npy[3] = {BUF_INIT, BUF_INIT, BUF_INIT};
    struct zip_member members[3];
    char name[3][16];

    for (int i = 0; i < 3; i++) {
        snprintf(name[i], sizeof(name[i]), "%s.npy", a[i].name);
        put_npy(&npy[i], &a[i], wide, by_columns);
        members[i] = (struct zip_member){name[i], npy[i].data, npy[i].len};
    }
    zip_write(&b, members, 3);
    put_file(dir, file, &b);
    for (int i = 0; i < 3; i++)
        buf_free(&npy[i]);
    buf_free(&b);
}

static void put_safetensors(const char *dir, const char *file)
{
    struct buf b = BUF_INIT, header = BUF_INIT;
    size_t at = 0;

    for (int i = 0; i < 6; i++) {
        const struct numbers *a = &arrays[i];
        size_t end = at + 4 * (size_t)count_of(a);

        buf_printf(&header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", i ? "," : "{", a->name);
        if (a->rows)
            buf_printf(&header, "%u,", a->rows);
        buf_printf(&header, "%u],\"data_offsets\":[%zu,%zu]}", a->cols, at, end);
        at = end;
    }
    buf_printf(&header, "}");
    while (header.len % 8)
        buf_put_u8(&header, ' ');
    buf_put_u64(&b, header.len);
    buf_put(&b, header.data, header.len);
    for (int i = 0; i < 6; i++)
        buf_put(&b, arrays[i].values, 4 * (size_t)count_of(&arrays[i]));
    put_file(dir, file, &b);
    buf_free(&header);
    buf_free(&b);
}

/* What a transform of `size` values makes of one voice; returns how many values. */
static uint32_t apply(const char *path, uint32_t size, double ret[MAX_LDA])
{
    float x[MAX_SIZE];
    struct plda *p = NULL;
    struct err e = {0};
    uint32_t dim;

    for (uint32_t i = 0; i < size; i++)
        x[i] = 1 + (float)i;
    assert_ok(plda_open(path, &p, &e), e);
    assert_int_equal(plda_size(p), size);
    assert_ok(plda_apply(p, x, 1, 1, ret, &e), e);
    dim = plda_dim(p);
    plda_free(p);
    return dim;
}

/* However its arrays are written down. */
TEST(the_same_in_every_file)
{
    double first[MAX_LDA], again[MAX_LDA];

    mkdir("forms", 0777);
    fill(8, 3);
    put_safetensors("forms", "plda.safetensors");
    assert_int_equal(apply("forms/plda.safetensors", 8, first), 3);
    assert_true(first[0] != 0 && isfinite(first[0]));
    for (int how = 0; how < 4; how++) {
        put_npz("forms", "xvec_transform.npz", arrays, how & 1, how & 2);
        put_npz("forms", "plda.npz", arrays + 3, how & 1, how & 2);
        assert_int_equal(apply("forms", 8, again), 3);
        for (int i = 0; i < 3; i++)
            assert_true(first[i] == again[i]);
    }
    put_npz("forms", "plda.npz", arrays, true, false); /* another file's arrays */
    {
        struct plda *p = NULL;
        struct err e = {0};

        assert_int_equal(plda_open("forms", &p, &e), ERR_MODEL);
    }
}

/* In the whole space: what plda_new makes of the same arrays. */
static void apply_whole(uint32_t size, uint32_t lda, double ret[MAX_LDA], double phi[MAX_LDA])
{
    double *values[6];
    float x[MAX_SIZE];
    struct plda *p = NULL;
    struct err e = {0};

    for (int i = 0; i < 6; i++) {
        values[i] = malloc(count_of(&arrays[i]) * sizeof(double));
        assert_non_null(values[i]);
        for (uint32_t k = 0; k < count_of(&arrays[i]); k++)
            values[i][k] = (double)arrays[i].values[k];
    }
    for (uint32_t i = 0; i < size; i++)
        x[i] = 1 + (float)i;
    {
        const struct plda_arrays a = {size,      lda,       values[0], values[1],
                                      values[2], values[3], values[4], values[5]};

        assert_ok(plda_new(&a, 0, &p, &e), e);
    }
    assert_int_equal(plda_dim(p), lda);
    assert_ok(plda_apply(p, x, 1, 1, ret, &e), e);
    memcpy(phi, plda_phi(p), lda * sizeof(*phi));
    plda_free(p);
    for (int i = 0; i < 6; i++)
        free(values[i]);
}

/* Of a larger space the 128 values in which speakers differ most: the last ones are left out. */
TEST(the_best_128_are_kept)
{
    double kept[MAX_LDA], whole[MAX_LDA], phi[MAX_LDA];

    mkdir("large", 0777);
    fill(MAX_SIZE, MAX_LDA);
    put_safetensors("large", "plda.safetensors");
    assert_int_equal(apply("large/plda.safetensors", MAX_SIZE, kept), PLDA_DIM);
    apply_whole(MAX_SIZE, MAX_LDA, whole, phi);
    assert_true(phi[0] > phi[PLDA_DIM - 1] && phi[PLDA_DIM - 1] > phi[MAX_LDA - 1]);
    for (uint32_t i = 0; i < PLDA_DIM; i++)
        assert_true(kept[i] == whole[i]);
}

TEST_MAIN(NULL, NULL)
