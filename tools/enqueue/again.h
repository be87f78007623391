/* tools/enqueue/again.h - what an enqueue with other options than last time would do a second time,
 * counted and said before it is done. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_AGAIN_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_AGAIN_H

#include "tools/enqueue/groups.h"

#define AGAIN_MAX 16 /* what comes beyond is counted with the last one */

/* A stage that is enqueued in place of another one. */
struct again_item {
    const struct store_stage *stage; /* of the groups */
    int64_t was;                     /* the other one's id */
    char *differs;                   /* in words; owned */
    const char *root;                /* the first of the paths, */
    uint32_t roots;                  /* and how many they are */
    uint64_t recordings, have;       /* that would be done again; that have its results */
    int64_t known_ms;
    uint64_t unknown; /* of `recordings`: of unknown length */
};

struct again {
    struct again_item items[AGAIN_MAX];
    uint32_t count; /* 0: nothing is done again */
    uint64_t have;  /* results that are there and become current, where nothing is done again */
    uint64_t told;  /* recordings whose text is there, and only gets times of its words */
};

/* known: NULL: there is no catalog. again_free in any case. */
int again_count(const struct groups *g, struct store *known, struct again *ret, struct err *err);
void again_free(struct again *a);
/* Sentences: what is otherwise, and what it costs. up_to: patterns may leave some out. */
void again_words(const struct again *a, bool up_to, struct buf *out);

#endif
