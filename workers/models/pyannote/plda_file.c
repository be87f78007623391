#include "workers/models/pyannote/plda_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workers/models/files/npy.h"
#include "workers/models/files/formats/stored_zip.h"
#include "workers/models/files/weights.h"

#define FILE_MAX_BYTES (64u << 20)

enum { MEAN1, MEAN2, LDA, MU, TR, PSI, ARRAYS };

static const struct {
    const char *name;
    const char *archive;
    unsigned rank;
} arrays[ARRAYS] = {
    [MEAN1] = {"mean1", "xvec_transform.npz", 1},
    [MEAN2] = {"mean2", "xvec_transform.npz", 1},
    [LDA] = {"lda", "xvec_transform.npz", 2},
    [MU] = {"mu", "plda.npz", 1},
    [TR] = {"tr", "plda.npz", 2},
    [PSI] = {"psi", "plda.npz", 1},
};

struct loaded {
    double *values[ARRAYS]; /* owned */
    uint32_t dim[ARRAYS][2];
};

static int check_shape(const struct loaded *l, int which, uint32_t rows, uint32_t columns,
                       struct err *err)
{
    if (l->dim[which][0] == rows && l->dim[which][1] == columns)
        return 0;
    return err_set(err, ERR_MODEL, "%s is %u x %u, not %u x %u", arrays[which].name,
                   l->dim[which][0], l->dim[which][1], rows, columns);
}

static int make_checked_plda(const struct loaded *l, struct plda **ret, struct err *err)
{
    uint32_t size = l->dim[LDA][0], lda = l->dim[LDA][1];
    const struct plda_arrays a = {.size = size,
                                  .lda = lda,
                                  .mean1 = l->values[MEAN1],
                                  .mean2 = l->values[MEAN2],
                                  .matrix = l->values[LDA],
                                  .mu = l->values[MU],
                                  .tr = l->values[TR],
                                  .psi = l->values[PSI]};
    int rc = check_shape(l, MEAN1, size, 1, err);

    if (rc == 0)
        rc = check_shape(l, MEAN2, lda, 1, err);
    if (rc == 0)
        rc = check_shape(l, MU, lda, 1, err);
    if (rc == 0)
        rc = check_shape(l, TR, lda, lda, err);
    if (rc == 0)
        rc = check_shape(l, PSI, lda, 1, err);
    return rc == 0 ? plda_new(&a, PLDA_DIM, ret, err) : rc;
}

/* ---- safetensors */

static int take_tensor(const struct weights *w, int which, struct loaded *l, struct err *err)
{
    struct weights_pool pool = {0};
    uint32_t dim[2] = {0, 0};
    float *values;
    size_t count;
    int rc =
        weights_take(w, &pool, arrays[which].name, arrays[which].rank, dim, PLDA_MAX, &values, err);

    if (rc == 0) {
        l->dim[which][0] = dim[0];
        l->dim[which][1] = arrays[which].rank == 2 ? dim[1] : 1;
        count = (size_t)l->dim[which][0] * l->dim[which][1];
        l->values[which] = malloc(count * sizeof(double));
        if (!l->values[which])
            rc = err_set(err, ERR_NOMEM, "no memory for the PLDA");
        for (size_t i = 0; rc == 0 && i < count; i++)
            l->values[which][i] = (double)values[i];
    }
    weights_pool_free(&pool);
    return rc;
}

static int load_tensors(const char *path, struct loaded *l, struct err *err)
{
    struct weights *w = NULL;
    int rc = weights_open_file(path, &w, err);

    for (int i = 0; rc == 0 && i < ARRAYS; i++)
        rc = take_tensor(w, i, l, err);
    weights_close(w);
    return rc;
}

/* ---- numpy's archives */

static int read_whole(const char *path, uint8_t **ret, size_t *len, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    struct stat st;
    uint8_t *data = NULL;

    if (fd < 0 || fstat(fd, &st) != 0)
        rc = err_sys(err, errno, "%s", path);
    else if (!S_ISREG(st.st_mode) || st.st_size > (off_t)FILE_MAX_BYTES)
        rc = err_set(err, ERR_MODEL, "%s is no file of a PLDA", path);
    *len = 0;
    if (rc == 0 && !(data = malloc((size_t)st.st_size + 1)))
        rc = err_set(err, ERR_NOMEM, "no memory for %s", path);
    while (rc == 0 && *len < (size_t)st.st_size) {
        ssize_t got = read(fd, data + *len, (size_t)st.st_size - *len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rc = err_sys(err, errno, "%s", path);
        else if (got == 0)
            rc = err_set(err, ERR_MODEL, "%s ended while it was read", path);
        else
            *len += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    if (rc != 0)
        free(data);
    else
        *ret = data;
    return rc;
}

static int take_member(const struct stored_zip *zip, int which, struct loaded *l, struct err *err)
{
    char name[32];
    const struct stored_member *m;
    struct npy shape;
    int rc;

    snprintf(name, sizeof(name), "%s.npy", arrays[which].name);
    m = stored_zip_find(zip, name, strlen(name));
    if (!m)
        return err_set(err, ERR_MODEL, "%s is missing", arrays[which].name);
    rc = npy_read(m->data, (size_t)m->size, &shape, &l->values[which], err);
    if (rc != 0)
        return err_prefix(err, "%s", arrays[which].name);
    l->dim[which][0] = shape.dim[0];
    l->dim[which][1] = shape.dim[1];
    return 0;
}

static int load_archive(const char *dir, const char *name, struct loaded *l, struct err *err)
{
    struct stored_zip *zip = NULL;
    uint8_t *data = NULL;
    char *path;
    size_t len;
    int rc;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return err_set(err, ERR_NOMEM, "no memory for the PLDA");
    rc = read_whole(path, &data, &len, err);
    if (rc == 0) {
        rc = stored_zip_open(data, len, &zip, err);
        for (int i = 0; rc == 0 && i < ARRAYS; i++)
            if (strcmp(arrays[i].archive, name) == 0)
                rc = take_member(zip, i, l, err);
        if (rc != 0)
            err_prefix(err, "%s", path);
    }
    stored_zip_free(zip);
    free(data);
    free(path);
    return rc;
}

int plda_open(const char *path, struct plda **ret, struct err *err)
{
    struct loaded l = {0};
    struct stat st;
    int rc;

    if (stat(path, &st) != 0)
        return err_sys(err, errno, "%s", path);
    if (S_ISDIR(st.st_mode)) {
        rc = load_archive(path, "xvec_transform.npz", &l, err);
        if (rc == 0)
            rc = load_archive(path, "plda.npz", &l, err);
    } else {
        rc = load_tensors(path, &l, err);
    }
    if (rc == 0 && (rc = make_checked_plda(&l, ret, err)) != 0)
        err_prefix(err, "%s", path);
    for (int i = 0; i < ARRAYS; i++)
        free(l.values[i]);
    return rc;
}
