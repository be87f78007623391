/* The transforms of voices from numpy's archives and from safetensors: what they make of a vector
 * (make_plda.py), and files that are not whole. */
#include "tests/common/test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/files.h"
#include "workers/models/files/npy.h"
#include "workers/models/pyannote/plda_file.h"

#define SIZE 12
#define LDA 5

static uint8_t *get(const char *name, size_t *len)
{
    char rel[128];

    snprintf(rel, sizeof(rel), "tests/unit/models/plda/%s", name);
    return (uint8_t *)file_read(test_source_path(rel), len);
}

static void read_line(FILE *f, double *ret, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fscanf(f, "%lf", &ret[i]), 1);
}

static void as_numpy_says(const struct plda *p, double tolerance)
{
    FILE *f = fopen(test_source_path("tests/unit/models/plda/features.txt"), "re");
    double x[SIZE], z[LDA], phi[LDA], ours[LDA];
    float vector[SIZE];
    struct err e = {0};

    assert_non_null(f);
    read_line(f, x, SIZE);
    read_line(f, z, LDA);
    read_line(f, phi, LDA);
    fclose(f);
    assert_int_equal(plda_size(p), SIZE);
    assert_int_equal(plda_dim(p), LDA);
    for (int i = 0; i < SIZE; i++)
        vector[i] = (float)x[i];
    assert_ok(plda_apply(p, vector, 1, 1, ours, &e), e);
    for (int i = 0; i < LDA; i++) {
        assert_true(fabs(plda_phi(p)[i] - phi[i]) < tolerance);
        assert_true(fabs(fabs(ours[i]) - fabs(z[i])) < tolerance); /* axes have no sign */
    }
}

TEST(from_numpy)
{
    struct plda *p = NULL;
    struct err e = {0};

    assert_ok(plda_open(test_source_path("tests/unit/models/plda"), &p, &e), e);
    as_numpy_says(p, 1e-6);
    plda_free(p);
}

/* A safetensors file of the six tensors, by make_plda.py's formula. */
static size_t make_tensors(uint8_t *out, unsigned tr_rows)
{
    static const struct {
        const char *name;
        unsigned rows, columns, seed;
        double scale, base;
    } kinds[] = {{"mean1", SIZE, 0, 1, 0.1, 0}, {"mean2", LDA, 0, 2, 0.1, 0},
                 {"lda", SIZE, LDA, 3, 1, 0},   {"mu", LDA, 0, 4, 0.1, 0},
                 {"tr", LDA, LDA, 5, 0.3, 0},   {"psi", LDA, 0, 6, 1, 2}};
    char header[1024];
    size_t n = 0, at = 0;
    float values[512];

    header[n++] = '{';
    for (size_t i = 0; i < 6; i++) {
        unsigned rows = strcmp(kinds[i].name, "tr") == 0 ? tr_rows : kinds[i].rows;
        size_t count = (size_t)rows * (kinds[i].columns ? kinds[i].columns : 1), from = at;
        char shape[32];

        snprintf(shape, sizeof(shape), kinds[i].columns ? "%u,%u" : "%u", rows, kinds[i].columns);
        for (size_t k = 0; k < count; k++, at++)
            values[at] =
                (float)(kinds[i].base + kinds[i].scale * cos(kinds[i].seed + 1.7 * (double)k) +
                        (strcmp(kinds[i].name, "tr") == 0 && k % (LDA + 1) == 0));
        n += (size_t)snprintf(
            header + n, sizeof(header) - n,
            "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
            kinds[i].name, shape, from * 4, at * 4);
    }
    header[n++] = '}';
    while (n % 8 != 0)
        header[n++] = ' ';
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(i < 2 ? n >> 8 * i : 0);
    memcpy(out + 8, header, n);
    memcpy(out + 8 + n, values, at * 4);
    return 8 + n + at * 4;
}

TEST(from_safetensors)
{
    uint8_t file[4096];
    struct plda *p = NULL;
    struct err e = {0};

    file_write("plda.safetensors", file, make_tensors(file, LDA));
    assert_ok(plda_open("plda.safetensors", &p, &e), e);
    as_numpy_says(p, 1e-4);
    plda_free(p);
    file_write("plda.safetensors", file, make_tensors(file, LDA - 1));
    assert_int_equal(plda_open("plda.safetensors", &p, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "tr is 4 x 5"));
}

/* Cut after each byte, and each byte turned: an error or a transform, never more. */
TEST(broken_archives)
{
    size_t len, other_len;
    uint8_t *whole = get("plda.npz", &len), *other = get("xvec_transform.npz", &other_len);
    struct plda *p = NULL;
    struct err e = {0};

    mkdir("broken", 0777);
    file_write("broken/xvec_transform.npz", other, other_len);
    unlink("broken/plda.npz");
    assert_int_equal(plda_open("broken", &p, &e), ERR_MISSING);
    for (size_t n = 0; n < len; n += 7) {
        file_write("broken/plda.npz", whole, n);
        assert_int_equal(plda_open("broken", &p, &e), ERR_MODEL);
    }
    for (size_t i = 0; i < len; i += 3) {
        whole[i] ^= 0x55;
        file_write("broken/plda.npz", whole, len);
        if (plda_open("broken", &p, &e) == 0)
            plda_free(p);
        whole[i] ^= 0x55;
    }
    assert_int_equal(plda_open("nowhere", &p, &e), ERR_MISSING);
    free(whole);
    free(other);
}

TEST(broken_arrays)
{
    static const char *const bad[] = {
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", /* 16 bytes, not 8 */
        "{'descr': '<f8', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '>f8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1",
        "",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint8_t file[256] = "\x93NUMPY\x01";
        size_t n = strlen(bad[i]);
        struct npy shape;
        double *values = NULL;
        struct err e = {0};

        file[8] = (uint8_t)n;
        memcpy(file + 10, bad[i], n);
        assert_int_equal(npy_read(file, 10 + n + 8, &shape, &values, &e), ERR_MODEL);
        assert_null(values);
    }
}

TEST_MAIN(NULL, NULL)
