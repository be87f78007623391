/* scheduler/ledger/ledger_entry.h - one entry of the ledger. Internal to ledger.c and
 * ledger_write.c. */
#ifndef NIGHTSHIFT_SCHEDULER_LEDGER_LEDGER_ENTRY_H
#define NIGHTSHIFT_SCHEDULER_LEDGER_LEDGER_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/runs.h"
#include "store/store.h"
#include "store/tuning.h"
#include "workers/wire/protocol.h"

enum ledger_kind {
    LEDGER_SHARD,
    LEDGER_SETTLED,
    LEDGER_MEDIA,
    LEDGER_TOTAL,
    LEDGER_FAILED,
    LEDGER_SUSPECT,
    LEDGER_EVENT,
    LEDGER_TUNING,
    LEDGER_RUN,
    LEDGER_SAMPLE
};

struct ledger_shard {
    char *device;
    struct msg_shard_done said;
    struct result_passage *passages; /* of said.vectors, one each; or NULL */
    uint32_t shards;                 /* of the whole recording; 0: not known */
};

struct ledger_media { /* what was said of a recording: its beginning, its end, or both */
    int64_t media_id;
    bool has_info, has_end;
    struct msg_media info;
    int64_t heard_by[SETUP_MAX_STAGES]; /* tasks that info's sources are noted for */
    uint32_t heard_count;
    struct msg_lease_end end; /* the parts that store_media_end has */
};

struct ledger_failed {
    int code;
    const char *message;
    int64_t retry_at_ms;
};

struct ledger_suspect {
    uint32_t deaths;
    int64_t retry_at_ms;
};

struct ledger_event {
    const char *kind, *device, *text;
    int64_t media_id; /* 0: none */
};

struct ledger_tuning {
    struct store_tuning_key key;
    struct store_tuning tuning;
};

struct ledger_entry { /* owns all that it points to */
    enum ledger_kind kind;
    int64_t task;    /* that it is of; 0: of none */
    struct err *why; /* the catalog refused it, which is a failure of the task; NULL: it did not */
    union {          /* a night of short recordings has thousands at a time */
        struct ledger_shard shard;
        struct msg_settled settled;
        struct ledger_media media;
        uint32_t total; /* shards */
        struct ledger_failed failed;
        struct ledger_suspect suspect;
        struct ledger_event event;
        struct ledger_tuning tuning;
        struct store_run run;
        struct store_sample sample;
    };
};

/* Into the transaction that is open. */
int ledger_entry_write(struct store *st, const struct ledger_entry *e, struct err *err);

#endif
