/* store/vectors/vector_file.h - an index of a stage's vectors, in a file beside the catalog
 * (FILE.vectors-<stage>). Internal to store/ and the benchmark.
 *
 * The catalog is the truth; the file is made from it and may be deleted at any moment. It holds
 * every vector in 8 bits per value, so that a search reads a quarter of the bytes, and says how far
 * that may be off; the ranking itself is made with the catalog's vectors (store/vectors/vectors.h).
 *
 *   header (4096 bytes) | block | block | ...
 *   block:  sum u64 | count u32 | 0 u32 | id i64 [ROWS] | scale f32 [ROWS] | error f32 [ROWS]
 *           | values i8 [ROWS][size]
 *
 * Little-endian. Every block has room for VECTOR_ROWS rows; all but the last are full. A value is
 * scale * i8; `error` is the Euclidean length of what that leaves out. The header says which
 * catalog (setting 'identity') and stage it is of, and which state of it: the highest embedding_id
 * it has seen, and the setting 'embedding_edits', which changes whenever one was
 * deleted.
 *
 * Nothing in it is trusted: sizes are compared with the file's, header and blocks with their sums.
 * A file is written under another name (FILE.vectors-<stage>.new, locked; what a killed process
 * left there is removed) and renamed, so that who reads an older one is not disturbed. It is
 * read, not mapped: that a file shrinks or a disk fails is then an error and no signal. */
#ifndef NIGHTSHIFT_STORE_VECTORS_VECTOR_FILE_H
#define NIGHTSHIFT_STORE_VECTORS_VECTOR_FILE_H

#include <stdint.h>

#include "base/err.h"

#define VECTOR_ROWS 1024u /* a block of 384 values fits the cache that a core has for itself */
#define VECTOR_MAX_SIZE 8192u
#define VECTOR_IDENTITY 32

struct vector_state {
    char identity[VECTOR_IDENTITY]; /* of the catalog, without a NUL */
    int64_t stage_id;
    uint64_t edits;
    int64_t max_id; /* rows with a higher id came later */
    uint64_t last;  /* sum of the row max_id: a catalog that was put back gives its id again */
    uint64_t count;
    uint32_t size; /* values of a vector */
};

/* ---- writing */
struct vector_writer;
/* Writes path's file anew, from nothing, with the permissions of `like` (NULL: one's own).
 * state: identity, stage_id, edits, size, last. ERR_LOCKED: another process is at it. */
int vector_writer_open(const char *path, const char *like, const struct vector_state *state,
                       struct vector_writer **ret, struct err *err);
/* values: [size], finite. */
int vector_writer_add(struct vector_writer *w, int64_t id, const float *values, struct err *err);
/* The file has its name now. On error it is as it was. Frees w either way. */
int vector_writer_finish(struct vector_writer *w, int64_t max_id, struct err *err);
void vector_writer_drop(struct vector_writer *w); /* instead; NULL is fine */

/* ---- reading */
struct vector_file;
/* ERR_MISSING: there is none; ERR_CORRUPT: it is none of ours, or damaged: make it anew. */
int vector_file_open(const char *path, struct vector_file **ret, struct err *err);
void vector_file_close(struct vector_file *f); /* NULL is fine */
const struct vector_state *vector_file_state(const struct vector_file *f);
uint64_t vector_file_blocks(const struct vector_file *f);

struct vector_block { /* owned memory: vector_block_free; one per thread */
    uint8_t *bytes;
    uint32_t count;
    const int64_t *ids;
    const float *scales, *errors;
    const int8_t *values;
};
/* Reads block k into b, which is made at first. Any thread with its own b. ERR_CORRUPT, ERR_IO. */
int vector_block_read(const struct vector_file *f, uint64_t k, struct vector_block *b,
                      struct err *err);
void vector_block_free(struct vector_block *b);

#endif
