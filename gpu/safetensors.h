/* gpu/safetensors.h - reads weight files of the safetensors format.
 *
 * 8 bytes little-endian header length, a JSON object {name: {dtype, shape, data_offsets}}, then the
 * tensors' bytes. The file is mapped, nothing is copied; everything in the header is checked before
 * anything is handed out: lengths against the file, shapes against byte counts, and that no two
 * tensors share bytes. Every failure is ERR_MODEL with the tensor's name (or ERR_IO, ERR_MISSING,
 * ERR_DENIED from the system). Immutable after opening: any thread may read. */
#ifndef NIGHTSHIFT_GPU_SAFETENSORS_H
#define NIGHTSHIFT_GPU_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SAFETENSORS_MAX_HEADER (100u << 20) /* the format's own bound */
#define SAFETENSORS_MAX_RANK 8

enum safetensor_type {
    SAFETENSOR_F32,
    SAFETENSOR_F16,
    SAFETENSOR_BF16,
    SAFETENSOR_OTHER, /* integers, float64, 8-bit floats: known in size, not read here */
};

struct safetensor {
    const char *name;
    enum safetensor_type type;
    char type_name[8]; /* as the file writes it: "F16" */
    uint32_t rank;
    uint64_t dim[SAFETENSORS_MAX_RANK];
    uint64_t count;   /* elements */
    const void *data; /* borrowed from the mapping; not aligned */
};

struct safetensors;

int safetensors_open(const char *path, struct safetensors **ret, struct err *err);
/* The same over memory of the caller, which must outlive *ret. */
int safetensors_parse(const void *data, size_t len, struct safetensors **ret, struct err *err);
void safetensors_close(struct safetensors *st); /* accepts NULL */

size_t safetensors_count(const struct safetensors *st);
const struct safetensor *safetensors_at(const struct safetensors *st, size_t i); /* by name */
const struct safetensor *safetensors_find(const struct safetensors *st, const char *name);

/* All `count` values of t as float32. ERR_MODEL when its type is none of the three. */
int safetensor_read(const struct safetensor *t, float *out, struct err *err);

#endif
