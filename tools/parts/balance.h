/* tools/parts/balance.h - which part of a catalog's work goes where, so that all parts take about
 * as long. Pure; any thread.
 *
 * Longest processing time first: pieces by falling cost, each to the part that has least. With
 * pieces of at most p no part takes longer than the mean and p; so recordings that cost more than
 * half of the mean are cut at checkpoints, where their length is known. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_BALANCE_H
#define NIGHTSHIFT_TOOLS_PARTS_BALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BALANCE_MOST_PARTS 1000000u

struct balance_recording {
    uint64_t cost_ms;    /* of audio, once for each stage that hears it */
    int64_t length_ms;   /* -1: unknown, and not to be cut */
    uint32_t first, end; /* shards that are asked for, up to before `end`; 0 and 0: all */
};

struct balance_rule {
    uint32_t parts;   /* 0: as many as part_ms wants */
    uint64_t part_ms; /* cost of a part, about; where parts is 0 */
    uint32_t shard_ms;
};

struct balance_piece {
    size_t recording; /* index */
    uint64_t cost_ms;
    uint32_t part;
    bool cut;
    uint32_t first, end; /* of a cut one */
};

struct balance { /* owned: balance_free */
    uint32_t parts;
    struct balance_piece *pieces; /* by part, then in the order of the recordings and shards */
    size_t count;
    uint64_t *loads; /* [parts] */
    uint64_t total_ms;
    size_t cut; /* recordings that were cut */
};

/* The cost in ms above which a recording is cut, if it can be; 0: none is cut. */
uint64_t balance_most(const struct balance_recording *list, size_t n,
                      const struct balance_rule *rule);
/* Makes fewer parts if there are fewer pieces. ERR_NOMEM, ERR_LIMIT: too many parts. */
int balance_make(const struct balance_recording *list, size_t n, const struct balance_rule *rule,
                 struct balance *ret, struct err *err);
void balance_free(struct balance *b);

#endif
