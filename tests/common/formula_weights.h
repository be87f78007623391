/* tests/common/formula_weights.h - weight files whose values come from a formula, so that none lies
 * in the repository: the same as the fixture scripts'.
 *
 * Element i of tensor T of model M is uniform(fnv1a("M:T") ^ 20260901, i) * mul + plus, where
 * uniform is splitmix64 of a counter as a float32 in [-1, 1). */
#ifndef NIGHTSHIFT_TESTS_COMMON_FORMULA_WEIGHTS_H
#define NIGHTSHIFT_TESTS_COMMON_FORMULA_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bit, of "MODEL:TENSOR". */
uint64_t formula_hash(const char *model, const char *tensor);
/* splitmix64 of a counter (Steele, Lea, Flood 2014), as a float in [-1, 1). */
float formula_uniform(uint64_t seed, uint64_t i);

struct formula_tensor {
    char name[160];
    uint32_t rank;
    uint64_t dim[4];
    float mul, plus;
};

struct formula {
    char model[40];
    struct formula_tensor *t;
    size_t count;
};

/* An out-of-memory condition ends the test. */
struct formula *formula_new(const char *model);
void formula_free(struct formula *f);
/* name: at most 159 bytes; dim: rank (1 .. 4) of them. */
void formula_add(struct formula *f, float mul, float plus, uint32_t rank, const uint64_t *dim,
                 const char *name, ...) __attribute__((format(printf, 6, 7)));
struct formula_tensor *formula_find(struct formula *f, const char *name); /* or NULL */
uint64_t formula_size(const struct formula_tensor *t);                    /* elements */
/* All elements of t; free them. */
float *formula_values(const struct formula *f, const struct formula_tensor *t);
/* As safetensors, float32. Tensors without a name are left out. 0, or -1 with errno. */
int formula_write(const struct formula *f, const char *path);

#endif
