/* store/read/pace.h - what a plan asks of a stage's tasks: how fast they went, and what still
 * waits. The store's thread, any mode. */
#ifndef NIGHTSHIFT_STORE_READ_PACE_H
#define NIGHTSHIFT_STORE_READ_PACE_H

#include <stdint.h>

#include "store/store.h"

/* How many times real time a device (shard.device) was at a stage's last 1000 recordings: their
 * audio by the time in which at least one of its shards was in work, so that neither shards side by
 * side nor the hours between two runs count. 0: nothing to tell it by. */
int store_pace(struct store *st, int64_t stage_id, const char *device, double *ret,
               struct err *err);

struct store_waiting { /* the tasks of a stage that wait for their source's */
    uint64_t known;    /* those of known length */
    int64_t audio_ms;  /* of these, where the source's task is to be done */
    uint64_t unknown;  /* of no known length, where it is to be done, */
    uint64_t bytes;    /*   and how large these are */
};
struct store_apart { /* the tasks of a stage whose recordings have several sources, as was found */
    uint64_t known;  /*   by the task itself, or by another one before it begins */
    int64_t more_ms; /* the audio that these add to what is left of them: (sources - 1) times it */
};
/* Goes through all sources of the catalog. */
int store_apart(struct store *st, int64_t stage_id, struct store_apart *ret, struct err *err);

struct store_undecoded { /* a recording that a stage is to hear; borrowed during the call */
    const char *codec;   /* as the decoder found it; "" not opened yet */
    const char *name;    /* of its main place: the file's, or the member's in an archive; "" none */
    uint64_t size_bytes;
    int64_t duration_ms; /* -1 not known */
    int64_t samples_s;   /* a second, of all channels; 0 not known */
};
typedef void (*store_undecoded_fn)(void *arg, const struct store_undecoded *row);
/* Goes through all of them, each once. */
int store_undecoded(struct store *st, store_undecoded_fn fn, void *arg, struct err *err);

/* Goes through all tasks that wait. */
int store_waiting(struct store *st, int64_t stage_id, struct store_waiting *ret, struct err *err);

#endif
