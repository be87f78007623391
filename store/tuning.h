/* store/tuning.h - table tuning: how much a device takes at once, as an earlier run measured it.
 *
 * A *tuning* belongs to one device with one driver, one model and one precision and
 * one way of decoding; any of them changed, it is measured again. The store's thread only. */
#ifndef NIGHTSHIFT_STORE_TUNING_H
#define NIGHTSHIFT_STORE_TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct store;

struct store_tuning_key {   /* all borrowed, none NULL */
    const char *device_id;  /* UUID; "cpu"; "sim:24GiB" */
    const char *driver;     /* "" where there is none */
    const char *model_hash; /* hex */
    const char *precision;  /* never "auto" */
    const char *decoding;   /* "beam_size=5 word_timestamps"; "": greedy, and nothing beside */
};

struct store_tuning {
    uint32_t slots, windows;  /* windows of 30 s in flight, and encoded at once: 1 .. 4096; 1 where
                                 predicted_bytes is 0, of a stage whose speed alone is known */
    double rate;              /* times real time, when it was measured; 0: unknown */
    uint64_t predicted_bytes; /* of device memory; 0: unknown */
    uint64_t peak_bytes;      /* the most that was seen in use with these slots and windows */
    uint32_t oom_count;       /* how often they had to be lowered */
    /* The backend's algorithm cache for the device (gpu/backend.h, recall); 0 bytes: none. Each
     * function says who owns it. */
    void *algorithms;
    size_t algorithms_bytes;
};

/* ERR_EMPTY: nothing is remembered. ret->ways is the caller's to free. */
int store_tuning_get(struct store *st, const struct store_tuning_key *key, struct store_tuning *ret,
                     struct err *err);
/* Slots and windows become t's. A rate and a prediction of 0 and no ways leave what is there, the
 * peak is the larger one while slots and windows stay the same, and oom_count is added. ERR_INPUT:
 * impossible values. May be called within store_begin. */
int store_tuning_note(struct store *st, const struct store_tuning_key *key,
                      const struct store_tuning *t, struct err *err);

struct store_tuning_row { /* valid during the call; without ways */
    struct store_tuning_key key;
    struct store_tuning tuning;
    const char *stage; /* of a stage that has this model; "": none has it any more */
    const char *at;    /* the last change, ISO-8601 */
};
/* Like read_failures: if fn returns a value other than 0, the reading ends and returns it. Ordered
 * by device, then model. */
typedef int (*store_tuning_fn)(void *arg, const struct store_tuning_row *row);
int store_tuning_each(struct store *st, store_tuning_fn fn, void *arg, struct err *err);

#endif
