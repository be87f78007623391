#include "gpu/backend.h"

#include <stdio.h>
#include <string.h>

void backend_close(struct backend *be)
{
    if (be)
        be->ops->close(be);
}

int backend_rehearse(struct backend *be, int (*run)(void *arg, struct err *err), void *arg,
                     struct err *err)
{
    struct err ignored;
    int rc;

    if (!be->ops->rehearse || be->info.deterministic)
        return 0;
    rc = be->ops->rehearse(be, true, err);
    be->rehearsing = true;
    if (rc == 0)
        rc = run(arg, err);
    be->rehearsing = false;
    (void)be->ops->rehearse(be, false, &ignored);
    return rc;
}

void backend_memory(const struct backend *be, uint64_t *allocated, uint64_t *peak)
{
    const struct backend *home = backend_home(be);

    *allocated = __atomic_load_n(&home->allocated, __ATOMIC_RELAXED);
    *peak = __atomic_load_n(&home->peak, __ATOMIC_RELAXED);
}

static uint32_t bits_of(uint32_t first, uint32_t count) { return ((1u << count) - 1u) << first; }

int backend_take_boxes(struct backend *be, uint32_t count, uint32_t *first, struct err *err)
{
    for (uint32_t i = 0; be->ops->post && i + count <= BACKEND_BOXES; i++) {
        if ((be->boxes & bits_of(i, count)) == 0) {
            be->boxes |= bits_of(i, count);
            *first = i;
            return 0;
        }
    }
    return err_set(err, ERR_DEVICE, "%s has no %u boxes left", be->info.name, count);
}

void backend_give_boxes(struct backend *be, uint32_t first, uint32_t count)
{
    be->boxes &= ~bits_of(first, count);
}

/* "fp32 and bf16" */
static void format_precisions(precision_set set, char *out, size_t capacity)
{
    size_t at = 0;

    out[0] = '\0';
    for (int p = PRECISION_F32; p < PRECISION_COUNT && at < capacity; p++) {
        const char *join = at == 0 ? "" : set >> (p + 1) ? ", " : " and ";

        if (set & 1u << p)
            at += (size_t)snprintf(out + at, capacity - at, "%s%s", join,
                                   precision_name((enum precision)p));
    }
}

int backend_precision(const struct backend *be, enum precision wanted, enum precision *ret,
                      struct err *err)
{
    char have[64];

    wanted = precision_resolve(wanted, be->info.have);
    if (be->info.have & 1u << wanted) {
        *ret = wanted;
        return 0;
    }
    format_precisions(be->info.have, have, sizeof(have));
    return err_set(err, ERR_MODEL, "%.63s computes in %s, not in %s%s: take one of those",
                   be->info.name, have, precision_name(wanted),
                   !be->info.threads || wanted == PRECISION_BF16 ? ""
                   : wanted == PRECISION_INT8                    ? ", which wants VNNI"
                   : wanted == PRECISION_INT16                   ? ", which wants AVX2"
                                                                 : ", which is for GPUs");
}

bool backend_lengths_fit(const uint32_t *lengths, uint32_t sequences, int64_t steps)
{
    for (uint32_t i = 0; lengths && i < sequences; i++)
        if (lengths[i] > steps)
            return false;
    return true;
}
