/* A PLDA from its files: ours (safetensors), or numpy's archives of arrays as pyannote has them.
 *
 * An .npz is a zip of .npy members. An .npy is the magic "\x93NUMPY", two bytes of version, the
 * header's length (two bytes, from version 2 on four), and the header: a Python dictionary with
 * 'descr', 'fortran_order' and 'shape', then the values. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "workers/models/stored_zip.h"
#include "workers/models/weights.h"
#include "workers/settler.h"
#include "workers/speakers/plda.h"

#define MAX_FILE (UINT64_C(512) << 20)
#define MAX_HEADER 4096u

/* Row by row; a vector is one row. */
struct array {
    uint64_t rows, cols;
    double *values; /* owned */
};

struct arrays {
    struct array mean1, mean2, lda, mu, tr, psi;
};

static void arrays_free(struct arrays *a)
{
    free(a->mean1.values);
    free(a->mean2.values);
    free(a->lda.values);
    free(a->mu.values);
    free(a->tr.values);
    free(a->psi.values);
}

static int allocate(struct array *a, uint64_t rows, uint64_t cols, const char *name,
                    struct err *err)
{
    if (rows < 1 || cols < 1 || rows > PLDA_MAX || cols > PLDA_MAX)
        return err_set(err, ERR_MODEL, "its array %s is %llu by %llu", name,
                       (unsigned long long)rows, (unsigned long long)cols);
    a->values = malloc(rows * cols * sizeof(*a->values));
    if (!a->values)
        return err_set(err, ERR_NOMEM, "no memory for the PLDA's %s", name);
    a->rows = rows;
    a->cols = cols;
    return 0;
}

/* ---- .npy */

struct npy {
    uint64_t dim[2];
    uint32_t rank, bytes; /* of a value: 4 or 8 */
    bool by_columns;
    const uint8_t *data;
    uint64_t size;
};

/* What follows 'key': in the dictionary; NULL: it is not there. */
static const char *after_key(const char *header, const char *key)
{
    const char *at = strstr(header, key);

    if (!at)
        return NULL;
    at += strlen(key);
    return at + strspn(at, " :");
}

static bool read_shape(const char *at, struct npy *n)
{
    if (!at || *at != '(')
        return false;
    at++;
    while (*at != ')') {
        char *end;

        if (n->rank == 2 || *at < '0' || *at > '9')
            return false;
        errno = 0;
        n->dim[n->rank++] = strtoull(at, &end, 10);
        if (errno)
            return false;
        at = end + strspn(end, ", ");
    }
    return n->rank > 0;
}

static bool read_dictionary(const char *header, struct npy *n)
{
    const char *descr = after_key(header, "'descr'");
    const char *order = after_key(header, "'fortran_order'");

    if (!descr || !order)
        return false;
    if (strncmp(descr, "'<f8'", 5) != 0 && strncmp(descr, "'<f4'", 5) != 0)
        return false;
    n->bytes = descr[3] == '8' ? 8 : 4;
    n->by_columns = strncmp(order, "True", 4) == 0;
    return read_shape(after_key(header, "'shape'"), n);
}

static bool read_npy(const struct stored_member *m, struct npy *n)
{
    char header[MAX_HEADER + 1];
    struct reader r = reader_of(m->data, m->size);
    const uint8_t *magic = reader_raw(&r, 6), *text;
    uint8_t version;
    uint32_t len;

    memset(n, 0, sizeof(*n));
    if (!magic || memcmp(magic, "\x93NUMPY", 6) != 0)
        return false;
    version = reader_u8(&r);
    reader_u8(&r);
    len = version == 1 ? reader_u16(&r) : reader_u32(&r);
    text = len <= MAX_HEADER ? reader_raw(&r, len) : NULL;
    if (!text)
        return false;
    memcpy(header, text, len);
    header[len] = 0;
    n->data = m->data + r.pos;
    n->size = m->size - r.pos;
    return read_dictionary(header, n);
}

static double value_at(const struct npy *n, uint64_t i)
{
    float f;
    double d;

    if (n->bytes == 4) {
        memcpy(&f, n->data + 4 * i, 4);
        return (double)f;
    }
    memcpy(&d, n->data + 8 * i, 8);
    return d;
}

static int take_npy(const struct stored_zip *z, const char *name, struct array *ret,
                    struct err *err)
{
    const struct stored_member *m = stored_zip_find(z, name, strlen(name));
    uint64_t rows, cols;
    struct npy n;
    int rc;

    if (!m)
        return err_set(err, ERR_MODEL, "it has no array %s", name);
    if (!read_npy(m, &n))
        return err_set(err, ERR_MODEL, "its %s is no array of floats", name);
    rows = n.rank == 2 ? n.dim[0] : 1;
    cols = n.rank == 2 ? n.dim[1] : n.dim[0];
    rc = allocate(ret, rows, cols, name, err);
    if (rc != 0)
        return rc;
    if (n.size != rows * cols * n.bytes)
        return err_set(err, ERR_MODEL, "its %s has %llu bytes for %llu by %llu values", name,
                       (unsigned long long)n.size, (unsigned long long)rows,
                       (unsigned long long)cols);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < cols; k++)
            ret->values[i * cols + k] = value_at(&n, n.by_columns ? k * rows + i : i * cols + k);
    return 0;
}

/* ---- files */

static int read_file(const char *path, uint8_t **ret, size_t *len, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    struct stat st;
    uint8_t *data = NULL;
    size_t at = 0;

    if (fd < 0 || fstat(fd, &st) != 0) {
        rc = err_sys(err, errno, "it cannot be read");
    } else if (!S_ISREG(st.st_mode) || st.st_size < 1 || (uint64_t)st.st_size > MAX_FILE) {
        rc = err_set(err, ERR_MODEL, "it is no file of a size that can be");
    } else if (!(data = malloc((size_t)st.st_size))) {
        rc = err_set(err, ERR_NOMEM, "no memory to read it");
    }
    while (rc == 0 && at < (size_t)st.st_size) {
        ssize_t n = read(fd, data + at, (size_t)st.st_size - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            rc = err_set(err, ERR_MODEL, "it cannot be read to its end");
        else
            at += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    if (rc != 0) {
        free(data);
        return rc;
    }
    *ret = data;
    *len = at;
    return 0;
}

struct wanted {
    const char *name;
    struct array *ret;
};

/* The arrays of one archive. */
static int take_npz(const char *dir, const char *file, const struct wanted *wanted, size_t n,
                    struct err *err)
{
    char path[4096];
    uint8_t *data = NULL;
    struct stored_zip *z = NULL;
    size_t len = 0;
    int rc;

    if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the PLDA's path is too long");
    rc = read_file(path, &data, &len, err);
    if (rc == 0)
        rc = stored_zip_open(data, len, &z, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%s.npy", wanted[i].name);
        rc = take_npy(z, name, wanted[i].ret, err);
    }
    stored_zip_free(z);
    free(data);
    return rc != 0 ? err_prefix(err, "%s", path) : 0;
}

static int take_weight(const struct weights *w, const struct wanted *wanted, struct err *err)
{
    struct array *a = wanted->ret;
    struct weight t;
    float *values;
    int rc;

    if (!weights_find(w, wanted->name, &t) || t.rank < 1 || t.rank > 2)
        return err_set(err, ERR_MODEL, "it has no array %s", wanted->name);
    rc = t.rank == 2 ? allocate(a, t.dim[0], t.dim[1], wanted->name, err)
                     : allocate(a, 1, t.dim[0], wanted->name, err);
    if (rc != 0)
        return rc;
    values = malloc(t.count * sizeof(*values));
    if (!values)
        return err_set(err, ERR_NOMEM, "no memory for the PLDA's %s", wanted->name);
    rc = weight_read(&t, values, err);
    for (uint64_t i = 0; rc == 0 && i < t.count; i++)
        a->values[i] = (double)values[i];
    free(values);
    return rc;
}

static int take_safetensors(const char *path, const struct wanted *wanted, size_t n,
                            struct err *err)
{
    struct weights *w = NULL;
    int rc = weights_open_file(path, &w, err);

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = take_weight(w, &wanted[i], err);
    weights_close(w);
    return rc != 0 ? err_prefix(err, "%s", path) : 0;
}

/* ---- both */

static bool is_vector(const struct array *a, uint64_t n) { return a->rows * a->cols == n; }

static int make(const struct arrays *a, struct plda **ret, struct err *err)
{
    uint64_t size = a->lda.rows, lda = a->lda.cols;
    const struct plda_arrays arrays = {
        .size = (uint32_t)size,
        .lda = (uint32_t)lda,
        .mean1 = a->mean1.values,
        .mean2 = a->mean2.values,
        .matrix = a->lda.values,
        .mu = a->mu.values,
        .tr = a->tr.values,
        .psi = a->psi.values,
    };

    if (!is_vector(&a->mean1, size) || !is_vector(&a->mean2, lda) || !is_vector(&a->mu, lda) ||
        !is_vector(&a->psi, lda) || a->tr.rows != lda || a->tr.cols != lda)
        return err_set(err, ERR_MODEL, "the PLDA's arrays do not fit together");
    return plda_new(&arrays, 0, ret, err);
}

int settler_plda_load(const char *path, struct plda **ret, struct err *err)
{
    struct arrays a = {0};
    const struct wanted wanted[] = {{"mean1", &a.mean1}, {"mean2", &a.mean2}, {"lda", &a.lda},
                                    {"mu", &a.mu},       {"tr", &a.tr},       {"psi", &a.psi}};
    struct stat st;
    int rc;

    if (stat(path, &st) != 0) {
        err_sys(err, errno, "%s", path);
        return err->code = ERR_MODEL;
    }
    if (S_ISDIR(st.st_mode)) {
        rc = take_npz(path, "xvec_transform.npz", wanted, 3, err);
        if (rc == 0)
            rc = take_npz(path, "plda.npz", wanted + 3, 3, err);
    } else {
        rc = take_safetensors(path, wanted, 6, err);
    }
    if (rc == 0)
        rc = make(&a, ret, err);
    arrays_free(&a);
    if (rc == ERR_MISSING || rc == ERR_DENIED)
        rc = err->code = ERR_MODEL;
    return rc;
}
