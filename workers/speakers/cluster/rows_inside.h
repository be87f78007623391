/* workers/speakers/cluster/rows_inside.h - what rows.c keeps and rows_search.c looks through. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ROWS_INSIDE_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ROWS_INSIDE_H

#include "workers/speakers/cluster/rows.h"
#include "workers/speakers/cluster/rows_kernels.h"

struct rows {
    uint32_t size, stride, room, used;
    float slack, slack2;  /* of a distance, of a squared one */
    float *points;        /* [room][stride], from `origin`; zeros behind size */
    float *norms;         /* [room]: squared length; INFINITY: dropped */
    uint32_t *ids;        /* [room] */
    double *origin;       /* [size] */
    double *axes;         /* [HEAD][stride], orthonormal, zeros behind size; NULL: no heads */
    struct panel *panels; /* [room / LANES] */
    const struct rows_kernels *kernels;
};

/* The head of a point that may stand nowhere. x: [stride]; norm: its squared length. */
void rows_find_head(const struct rows *r, const float *x, double norm, struct head *ret);

/* A query, and what it is compared by. */
struct query {
    const float *point;
    float norm, worst2; /* worst2: squared; farther ones are not wanted */
    struct head head;
    uint32_t skip;
    struct nearest *list;
};

/* The steps of a search, for rows_all.c. */
void rows_begin_query(const struct rows *r, const float *point, uint32_t skip, struct nearest *list,
                      struct query *q);
/* Puts the points of `count` panels into the lists of n queries, at most DOTS. */
void rows_search_panels(const struct rows *r, struct query *queries, uint32_t n,
                        const uint32_t panels[], uint32_t count);
void rows_end_query(struct query *q);

#endif
