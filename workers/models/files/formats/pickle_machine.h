/* workers/models/files/formats/pickle_machine.h - the reader's state; for pickle.c and
 * pickle_torch.c alone. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_PICKLE_MACHINE_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_PICKLE_MACHINE_H

#include "base/buf.h"
#include "workers/models/files/formats/pickle.h"

struct pickle {
    struct reader in;
    struct pickle_value *values;
    uint32_t value_count, value_cap;
    uint32_t *stack; /* values */
    uint32_t height, stack_cap;
    uint32_t marks[PICKLE_MAX_MARKS]; /* heights of the stack at which brackets were opened */
    uint32_t mark_count;
    uint32_t *memo; /* values; PICKLE_UNSET where nothing was kept */
    uint32_t memo_cap, memo_next;
    uint32_t root;
    bool skips; /* names that it does not know */
};

#define PICKLE_UNSET UINT32_MAX

/* A new value on top of the stack; its memory is p's when 0 is returned, the caller's otherwise. */
int pickle_push(struct pickle *p, struct pickle_value v, struct err *err);
/* The topmost value off the stack; not past an open bracket. */
int pickle_pop(struct pickle *p, uint32_t *ret, struct err *err);

/* The three that know torch: a name, a storage's description (a persistent id), and a call. */
int pickle_global(struct pickle *p, const char *module, size_t module_len, const char *name,
                  size_t name_len, struct err *err);
int pickle_persistent(struct pickle *p, struct err *err);
int pickle_reduce(struct pickle *p, struct err *err);
int pickle_push_opaque(struct pickle *p, struct err *err);

#endif
