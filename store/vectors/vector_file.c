#include "store/vectors/vector_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"

#define HEADER_BYTES 4096u
#define MAGIC "NSVECTOR"
#define FORMAT 2u
#define BLOCK_HEAD 16u

static size_t block_bytes(uint32_t size)
{
    return BLOCK_HEAD + (size_t)VECTOR_ROWS * (sizeof(int64_t) + 2 * sizeof(float) + size);
}

/* Against accidents, not against somebody: who can write here can write the catalog. Eight sums
 * that do not wait for each other. n is a multiple of 8. */
static uint64_t sum_of(const uint8_t *data, size_t n)
{
    uint64_t lane[8] = {1, 2, 3, 4, 5, 6, 7, 8}, word, all = n;
    size_t i = 0;

    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 8; k++) {
            memcpy(&word, data + i + 8 * k, sizeof(word));
            lane[k] = (lane[k] ^ word) * UINT64_C(0x9E3779B97F4A7C15);
            lane[k] ^= lane[k] >> 29;
        }
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, data + i, sizeof(word));
        lane[0] = (lane[0] ^ word) * UINT64_C(0xC2B2AE3D27D4EB4F);
        lane[0] ^= lane[0] >> 31;
    }
    for (int k = 0; k < 8; k++) {
        all = (all ^ lane[k]) * UINT64_C(0x9E3779B97F4A7C15);
        all ^= all >> 32;
    }
    return all;
}

static void block_point(struct vector_block *b)
{
    b->ids = (const int64_t *)(b->bytes + BLOCK_HEAD);
    b->scales = (const float *)(b->ids + VECTOR_ROWS);
    b->errors = b->scales + VECTOR_ROWS;
    b->values = (const int8_t *)(b->errors + VECTOR_ROWS);
}

/* Zeroed: every row is 0 until it is written. Sizes are multiples of 8 bytes as ROWS is. */
static int block_make(struct vector_block *b, uint32_t size, struct err *err)
{
    if (b->bytes)
        return 0;
    b->bytes = calloc(1, block_bytes(size));
    if (!b->bytes)
        return err_no_memory(err, "vectors");
    block_point(b);
    return 0;
}

void vector_block_free(struct vector_block *b)
{
    free(b->bytes);
    *b = (struct vector_block){0};
}

/* ------------------------------------------------------------------------------------ header */

static void header_put(const struct vector_state *s, uint8_t out[HEADER_BYTES])
{
    struct buf b = BUF_INIT;
    uint64_t sum;

    memset(out, 0, HEADER_BYTES);
    buf_put(&b, MAGIC, 8);
    buf_put_u32(&b, FORMAT);
    buf_put_u32(&b, s->size);
    buf_put(&b, s->identity, VECTOR_IDENTITY);
    buf_put_i64(&b, s->stage_id);
    buf_put_u64(&b, s->edits);
    buf_put_i64(&b, s->max_id);
    buf_put_u64(&b, s->last);
    buf_put_u64(&b, s->count);
    if (!b.failed)
        memcpy(out, b.data, b.len);
    buf_free(&b);
    sum = sum_of(out, HEADER_BYTES - 8);
    memcpy(out + HEADER_BYTES - 8, &sum, sizeof(sum));
}

static int header_get(const uint8_t data[HEADER_BYTES], struct vector_state *ret)
{
    struct reader r = reader_of(data, HEADER_BYTES);
    const uint8_t *magic = reader_raw(&r, 8), *identity;
    uint32_t format = reader_u32(&r);
    uint64_t sum;

    memcpy(&sum, data + HEADER_BYTES - 8, sizeof(sum));
    ret->size = reader_u32(&r);
    identity = reader_raw(&r, VECTOR_IDENTITY);
    ret->stage_id = reader_i64(&r);
    ret->edits = reader_u64(&r);
    ret->max_id = reader_i64(&r);
    ret->last = reader_u64(&r);
    ret->count = reader_u64(&r);
    if (r.failed || memcmp(magic, MAGIC, 8) != 0 || format != FORMAT ||
        sum != sum_of(data, HEADER_BYTES - 8) || ret->size == 0 || ret->size > VECTOR_MAX_SIZE ||
        ret->count > (uint64_t)INT64_MAX / block_bytes(VECTOR_MAX_SIZE))
        return -1;
    memcpy(ret->identity, identity, VECTOR_IDENTITY);
    return 0;
}

static uint64_t blocks_of(uint64_t count) { return (count + VECTOR_ROWS - 1) / VECTOR_ROWS; }

/* ----------------------------------------------------------------------------------- writing */

struct vector_writer {
    struct vector_state state;
    char *path, *made; /* its name, and the one that it has until it is whole */
    int fd;
    uint64_t at;
    struct vector_block block;
};

static int write_all(struct vector_writer *w, const void *data, size_t n, uint64_t at,
                     struct err *err)
{
    const uint8_t *p = data;

    while (n) {
        ssize_t done = pwrite(w->fd, p, n, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_sys(err, done < 0 ? errno : ENOSPC, "'%s'", w->made);
        p += done;
        n -= (size_t)done;
        at += (uint64_t)done;
    }
    return 0;
}

void vector_writer_drop(struct vector_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0) {
        unlink(w->made); /* while it is ours: closed, the name may be another's already */
        close(w->fd);
    }
    vector_block_free(&w->block);
    free(w->path);
    free(w->made);
    free(w);
}

/* Is fd still what has the name? Whoever held the lock may have given it another. */
static bool has_name(int fd, const char *name)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 && lstat(name, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

static bool is_file(int fd)
{
    struct stat info;

    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

/* A file that has contents or a second name is never written to. */
static bool is_fresh(int fd)
{
    struct stat info;

    return is_file(fd) && fstat(fd, &info) == 0 && info.st_size == 0 && info.st_nlink == 1;
}

/* The file that is being made, empty, and ours alone while it is open. If the file system has no
 * locks, two writers at once damage the file; its checksums reveal that. */
static int take_name(struct vector_writer *w, const char *like, struct err *err)
{
    struct stat info;

    do {
        if (w->fd >= 0)
            close(w->fd);
        w->fd = open(w->made, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (w->fd < 0)
            return err_sys(err, errno, "'%s'", w->made);
        if (flock(w->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            close(w->fd); /* not to be unlinked: it is another's */
            w->fd = -1;
            return err_set(err, ERR_LOCKED, "'%s' is being made", w->made);
        }
        /* A file of this name is what a killed process left; a pipe is somebody's. */
    } while (!has_name(w->fd, w->made) ||
             (is_file(w->fd) && !is_fresh(w->fd) && unlink(w->made) == 0));
    if (!is_fresh(w->fd)) {
        close(w->fd);
        w->fd = -1;
        return err_set(err, ERR_DENIED, "'%s' cannot be replaced", w->made);
    }
    /* Who may read the catalog may read its vectors; where that cannot be set, only we. */
    if (like && stat(like, &info) == 0 && fchmod(w->fd, info.st_mode & 0666) != 0)
        log_debug("'%s': its permissions stay as they are: %s", w->made, strerror(errno));
    return 0;
}

int vector_writer_open(const char *path, const char *like, const struct vector_state *state,
                       struct vector_writer **ret, struct err *err)
{
    struct vector_writer *w = calloc(1, sizeof(*w));
    int rc = 0;

    if (!w)
        return err_no_memory(err, "vectors");
    w->fd = -1;
    w->state = *state;
    w->state.count = 0;
    w->at = HEADER_BYTES;
    w->path = strdup(path);
    if (asprintf(&w->made, "%s.new", path) < 0)
        w->made = NULL;
    if (state->size == 0 || state->size > VECTOR_MAX_SIZE)
        rc = err_set(err, ERR_INPUT, "vectors of %u values cannot be indexed", state->size);
    else if (!w->path || !w->made)
        rc = err_no_memory(err, "vectors");
    if (rc == 0)
        rc = block_make(&w->block, state->size, err);
    if (rc == 0)
        rc = take_name(w, like, err);
    if (rc < 0) {
        vector_writer_drop(w);
        return rc;
    }
    *ret = w;
    return 0;
}

static int put_block(struct vector_writer *w, struct err *err)
{
    size_t bytes = block_bytes(w->state.size);
    uint64_t sum;
    int rc;

    memcpy(w->block.bytes + 8, &w->block.count, sizeof(w->block.count));
    sum = sum_of(w->block.bytes + 8, bytes - 8);
    memcpy(w->block.bytes, &sum, sizeof(sum));
    rc = write_all(w, w->block.bytes, bytes, w->at, err);
    w->at += bytes;
    memset(w->block.bytes, 0, bytes);
    w->block.count = 0;
    return rc;
}

/* value = scale * i8 + rest; returns the scale, and the Euclidean length of the rest, rounded up.
 */
static float quantize_vector(const float *values, uint32_t size, int8_t *ret, float *error)
{
    float most = 0, scale;
    double rest = 0;

    for (uint32_t i = 0; i < size; i++)
        most = fmaxf(most, fabsf(values[i]));
    scale = most / 127;
    for (uint32_t i = 0; i < size; i++) {
        float whole = scale > 0 ? rintf(values[i] / scale) : 0;
        double left;

        whole = whole > 127 ? 127 : whole < -127 ? -127 : whole;
        ret[i] = (int8_t)whole;
        left = (double)values[i] - (double)scale * whole;
        rest += left * left;
    }
    *error = nextafterf((float)sqrt(rest), INFINITY);
    return scale;
}

int vector_writer_add(struct vector_writer *w, int64_t id, const float *values, struct err *err)
{
    struct vector_block *b = &w->block;
    uint32_t at = b->count++;

    ((int64_t *)b->ids)[at] = id;
    ((float *)b->scales)[at] =
        quantize_vector(values, w->state.size, (int8_t *)b->values + (size_t)at * w->state.size,
                        (float *)b->errors + at);
    w->state.count++;
    return b->count == VECTOR_ROWS ? put_block(w, err) : 0;
}

int vector_writer_finish(struct vector_writer *w, int64_t max_id, struct err *err)
{
    uint8_t header[HEADER_BYTES];
    int rc = w->block.count ? put_block(w, err) : 0;

    w->state.max_id = max_id;
    header_put(&w->state, header);
    if (rc == 0)
        rc = write_all(w, header, sizeof(header), 0, err);
    if (rc == 0 && rename(w->made, w->path) != 0)
        rc = err_sys(err, errno, "'%s'", w->path);
    if (rc == 0) {
        close(w->fd);
        w->fd = -1;
    }
    vector_writer_drop(w);
    return rc;
}

/* ----------------------------------------------------------------------------------- reading */

struct vector_file {
    struct vector_state state;
    int fd;
};

static int read_all(int fd, void *data, size_t n, uint64_t at, struct err *err)
{
    uint8_t *p = data;

    while (n) {
        ssize_t done = pread(fd, p, n, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_sys(err, errno, "the index of vectors");
        if (done == 0)
            return err_set(err, ERR_CORRUPT, "the index of vectors is cut short");
        p += done;
        n -= (size_t)done;
        at += (uint64_t)done;
    }
    return 0;
}

static int check_file(struct vector_file *f, struct err *err)
{
    uint8_t header[HEADER_BYTES];
    struct stat info;
    int rc;

    if (fstat(f->fd, &info) != 0)
        return err_sys(err, errno, "the index of vectors");
    if (!S_ISREG(info.st_mode))
        return err_set(err, ERR_CORRUPT, "the index of vectors is no file");
    rc = read_all(f->fd, header, sizeof(header), 0, err);
    if (rc < 0)
        return rc;
    if (header_get(header, &f->state) < 0 ||
        (uint64_t)info.st_size !=
            HEADER_BYTES + blocks_of(f->state.count) * block_bytes(f->state.size))
        return err_set(err, ERR_CORRUPT, "the index of vectors is damaged");
    return 0;
}

int vector_file_open(const char *path, struct vector_file **ret, struct err *err)
{
    struct vector_file *f = calloc(1, sizeof(*f));
    int rc;

    if (!f)
        return err_no_memory(err, "vectors");
    /* A pipe in its place must not make us wait. */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    rc = f->fd < 0 ? err_sys(err, errno, "'%s'", path) : check_file(f, err);
    if (rc < 0) {
        vector_file_close(f);
        return rc;
    }
    *ret = f;
    return 0;
}

void vector_file_close(struct vector_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}

const struct vector_state *vector_file_state(const struct vector_file *f) { return &f->state; }
uint64_t vector_file_blocks(const struct vector_file *f) { return blocks_of(f->state.count); }

int vector_block_read(const struct vector_file *f, uint64_t k, struct vector_block *b,
                      struct err *err)
{
    size_t bytes = block_bytes(f->state.size);
    uint64_t left = f->state.count - k * VECTOR_ROWS, sum;
    int rc = block_make(b, f->state.size, err);

    if (rc == 0)
        rc = read_all(f->fd, b->bytes, bytes, HEADER_BYTES + k * bytes, err);
    if (rc < 0)
        return rc;
    memcpy(&sum, b->bytes, sizeof(sum));
    memcpy(&b->count, b->bytes + 8, sizeof(b->count));
    if (sum != sum_of(b->bytes + 8, bytes - 8) ||
        b->count != (left < VECTOR_ROWS ? left : VECTOR_ROWS))
        return err_set(err, ERR_CORRUPT, "block %llu of the index of vectors is damaged",
                       (unsigned long long)k);
    return 0;
}
