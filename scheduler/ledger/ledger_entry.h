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
    LEDGER_HEARD,
    LEDGER_TOTAL,
    LEDGER_FAILED,
    LEDGER_SUSPECT,
    LEDGER_EVENT,
    LEDGER_TUNING,
    LEDGER_RUN,
    LEDGER_SAMPLE
};

struct ledger_entry {
    enum ledger_kind kind;
    int64_t task, media;
    int code;       /* FAILED */
    int64_t at_ms;  /* FAILED, SUSPECT */
    uint32_t total; /* TOTAL, SHARD (0: not known); SUSPECT: deaths */
    char *text, *device, *label, *driver, *decoding;
    struct err *why; /* the catalog refused it, which is a failure of the task; NULL: it did not */
    union {          /* a night of short recordings has thousands at a time */
        struct {
            struct msg_shard_done shard;
            struct result_passage *passages; /* of shard.vectors, one each; or NULL */
        };
        struct msg_settled settled;
        struct {
            bool has_info, has_end; /* MEDIA: either, or both */
            struct msg_media info;  /* of HEARD, too */
            struct msg_lease_end end;
        };
        struct store_run run;       /* of why label, reason text, devices device */
        struct store_sample sample; /* of device */
        struct store_tuning tuning; /* of device, driver, model text, precision label, decoding */
    };
};

/* Into the transaction that is open. */
int ledger_entry_write(struct store *st, const struct ledger_entry *e, struct err *err);

#endif
